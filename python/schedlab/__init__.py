"""See what a Linux scheduler change does before you boot it."""

from schedlab import cpuidle
from schedlab._schedlab import (
    KernelError,
    MachineError,
    ReplayError,
    TraceError,
    WorkloadError,
    __version__,
)
from schedlab.comparison import CompareError, compare
from schedlab.cpupri import CpuPri
from schedlab.governor import Governor, GovernorError, GovernorSource
from schedlab.idle import idle_governors
from schedlab.kernel import Kernel
from schedlab.machine import Machine
from schedlab.pelt import Pelt
from schedlab.simulation import Simulation, simulate
from schedlab.study import StudyError, StudyResult, run_study
from schedlab.trace import Converted, Idle, Trace, convert_trace, read_trace
from schedlab.workload import Workload

__all__ = [
    "CompareError",
    "Converted",
    "CpuPri",
    "Governor",
    "GovernorError",
    "GovernorSource",
    "Idle",
    "Kernel",
    "KernelError",
    "Machine",
    "MachineError",
    "Pelt",
    "ReplayError",
    "Simulation",
    "StudyError",
    "StudyResult",
    "Trace",
    "TraceError",
    "Workload",
    "WorkloadError",
    "__version__",
    "compare",
    "convert_trace",
    "cpuidle",
    "idle_governors",
    "read_trace",
    "run_study",
    "simulate",
]
