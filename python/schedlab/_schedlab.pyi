"""The compiled half of the package."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

__version__: str

class KernelError(ValueError): ...

class Kernel:
    @staticmethod
    def preset(name: str) -> Kernel: ...
    @staticmethod
    def parse(text: str, name: str) -> Kernel: ...
    @staticmethod
    def preset_names() -> list[str]: ...
    @staticmethod
    def preset_text(name: str) -> str | None: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    def settings(self, cpus: int | None) -> list[tuple[str, str]]: ...

class MachineError(ValueError): ...

class Machine:
    @staticmethod
    def find(name_or_path: str) -> Machine: ...
    @staticmethod
    def load(path: PathLike[str]) -> Machine: ...
    @staticmethod
    def parse(text: str, path: PathLike[str]) -> Machine: ...
    @staticmethod
    def import_file(path: PathLike[str], name: str | None, cpu_model: str | None) -> Machine: ...
    @staticmethod
    def import_bytes(
        content: bytes, path: PathLike[str], name: str | None, cpu_model: str | None
    ) -> Machine: ...
    @staticmethod
    def import_sysfs(root: PathLike[str], name: str | None, cpu_model: str | None) -> Machine: ...
    @staticmethod
    def preset_names() -> list[str]: ...
    @staticmethod
    def preset_text(name: str) -> str | None: ...
    def to_toml(self) -> str: ...
    def to_json(self) -> str: ...
    def domains_json(self, kernel: Kernel) -> str: ...

def workload_describe(name_or_path: str, machine: Machine | None) -> str: ...

class TraceError(ValueError): ...

def convert_trace(
    path: PathLike[str],
    format: str,
    to: PathLike[str],
    progress: Callable[[int, int], None] | None = None,
) -> tuple[int, int, dict[str, int]]: ...

class Table:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...

class EventTables:
    @staticmethod
    def open(
        path: PathLike[str], progress: Callable[[int, int], None] | None = None
    ) -> EventTables: ...
    @staticmethod
    def of(trace: Trace, progress: Callable[[int, int], None] | None = None) -> EventTables: ...
    def __iter__(self) -> EventTables: ...
    def __next__(self) -> Table: ...
    def empty(self) -> Table: ...
    def origin(self) -> tuple[str, str, str, int]: ...
    def written(self) -> tuple[int, int, dict[str, int]]: ...

class Finding(TypedDict):
    severity: str
    code: str
    cpu: int | None
    count: int
    message: str

class TraceInfo(TypedDict):
    format: str
    clock: str
    kernel_release: str
    cpus: list[int]
    begin_ns: int
    end_ns: int
    duration_s: float
    lost_events: int
    events: dict[str, int]
    data_quality: list[Finding]

class Trace:
    def __init__(
        self,
        path: PathLike[str],
        *,
        keep_events: bool,
        progress: Callable[[int, int], None] | None = None,
    ) -> None: ...
    def info(self) -> TraceInfo: ...
    def events(self) -> Table: ...
    def convert(
        self,
        format: str,
        to: PathLike[str],
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[int, int, dict[str, int]]: ...
    def wakeup_latency(self, from_: str, by_comm: bool) -> Table: ...
    def wakeup_latencies(self, from_: str) -> Table: ...
    def tasks(self) -> Table: ...
    def cpus(self) -> tuple[Table, Table]: ...
    def idle(self, machine: Machine | None = None) -> tuple[Table, Table, Table]: ...
    def timeline(
        self, machine: Machine | None, from_: str, intervals_max: int
    ) -> tuple[Table, Table, Table, int | None]: ...

class GovernorError(ValueError): ...

class GovernorSource:
    """An idle governor's C source, as a kernel tree has it, compiled with the system's compiler.

    The file is compiled as it stands, with headers of schedlab's own in place of the kernel's, and
    runs in a process of its own: a crash there is a :class:`schedlab.GovernorError` here. Errors of
    the compiler reach the user as it wrote them.
    """

    def __init__(self, path: PathLike[str] | str) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def digest(self) -> str: ...

class IdleView:
    """What a governor may ask of the CPU it serves; see :class:`schedlab.Governor`."""

    @property
    def now_ns(self) -> int: ...
    @property
    def sleep_length_ns(self) -> int: ...
    @property
    def delta_next_ns(self) -> int: ...
    @property
    def latency_limit_ns(self) -> int: ...
    @property
    def tick_stopped(self) -> bool: ...
    @property
    def got_tick(self) -> bool: ...
    @property
    def poll_time_limit(self) -> bool: ...
    @property
    def cpu_util(self) -> int: ...
    @property
    def nr_iowait(self) -> int: ...

class ReplayError(ValueError): ...

def idle_replay(
    path: PathLike[str],
    machine: Machine,
    governors: Sequence[str | GovernorSource | Callable[[], object]],
    *,
    tick_ns: int | None,
    rows: bool,
    explain: tuple[int, int | None, int | None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, Any], Table | None]: ...
def pelt_check(
    path: PathLike[str],
    machine: Machine | None,
    *,
    invariance: str | None,
    rows: bool,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, Any], Table | None]: ...
def governor_names() -> list[tuple[str, str]]: ...

NICE_0_LOAD: int

class Governor:
    def __init__(
        self,
        name: str,
        states: list[tuple[int, int, bool, bool]],
        tick_ns: int,
        capacity: int,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    def select(
        self,
        sleep_length_ns: int,
        delta_next_ns: int,
        *,
        now_ns: int,
        latency_limit_ns: int | None,
        tick_stopped: bool,
        cpu_util: int,
        nr_iowait: int,
    ) -> tuple[int, bool]: ...
    def reflect(
        self,
        state: int,
        residency_ns: int,
        *,
        now_ns: int,
        got_tick: bool,
        poll_time_limit: bool,
    ) -> None: ...
    def reject(self) -> None: ...
    def memory(self) -> list[tuple[str, int | None, int]]: ...

class PeltSignal:
    def __init__(self, now_ns: int) -> None: ...
    def update(self, now_ns: int, *, running: bool, runnable: bool, weight: int) -> bool: ...
    @property
    def util_avg(self) -> int: ...
    @property
    def runnable_avg(self) -> int: ...
    @property
    def load_avg(self) -> int: ...
    @property
    def util_sum(self) -> int: ...
    @property
    def period_contrib(self) -> int: ...
    @property
    def last_update_time(self) -> int: ...

class TracedTasks:
    @staticmethod
    def extract(
        path: PathLike[str],
        machine: Machine,
        *,
        hz: int | None,
        given: Sequence[tuple[str, str | None, str | None]],
        progress: Callable[[int, int], None] | None = None,
    ) -> TracedTasks: ...
    def facts(self) -> dict[str, Any]: ...
    def tasks(self) -> Table: ...
    def costs(self) -> Table: ...
    def machine(self) -> Machine: ...
    def folded(self, tolerance_pct: int) -> TracedTasks: ...
    def to_toml(self, name: str, comment: str) -> str: ...
    def to_rt_app(self, tolerance_pct: int) -> str: ...
    def simulate(
        self,
        machine: Machine,
        kernel: Kernel,
        *,
        governor: str | None,
        seed: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[RerunFacts, Trace]: ...

class RerunFacts(TypedDict):
    end_ns: int
    digest: str
    energy: EnergyFacts

class WorkloadError(ValueError): ...

class EnergyFacts(TypedDict):
    cores_j: float
    packages_j: float
    machine_j: float
    transitions_j: float
    groups_j: float
    total_j: float

def cpupri_layouts() -> list[str]: ...

class CpuPri:
    def __init__(self, layout_name: str, machine: Machine) -> None: ...
    def set(self, cpu: int, prio: int | None) -> None: ...
    def find(self, prio: int, allowed: str | None, this_cpu: int) -> list[int]: ...
    def touched(self) -> Table: ...
    @property
    def lines(self) -> int: ...
    @property
    def domain_lines(self) -> int: ...

def cpupri_contention(
    machine: Machine,
    layout_name: str,
    *,
    group: int,
    think_ns: int,
    rounds: int,
    seed: int,
    record: bool,
) -> tuple[dict[str, Any], Table | None]: ...
def cpupri_measure(
    machine: Machine, layout_name: str, threads: list[tuple[int, int]], duration_ms: int
) -> dict[str, Any]: ...
def parse_c2c(text: str) -> tuple[Table, list[tuple[int, str]]]: ...

class RunFacts(TypedDict):
    latencies: Table
    first_tasks: int
    decisions_left_out: int
    governor: str
    ending: Literal["finished", "time up", "stuck"]
    waiting: list[str]
    end_ns: int
    events: int
    digest: str
    groups: list[tuple[str, str, int, int, float]]
    energy: EnergyFacts
    c2c: Table | None

def simulate(
    machine: Machine,
    kernel: Kernel,
    text: str,
    path: PathLike[str],
    *,
    duration_ns: int | None,
    seed: int,
    start_ns: int,
    shuffle_ties: bool,
    keep_events: bool,
    keep_decisions: bool,
    keep_c2c: bool = False,
    keep_interrupts: bool = False,
    cpufreq: str | None = None,
    cpu_latency_ns: int | None = None,
    thermal_limits: list[tuple[str, int]] = ...,
    governor: str | GovernorSource | Callable[[], object] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[
    RunFacts,
    tuple[Table, Table, Table, Table, Table, Table, Table],
    Table | None,
    Trace | None,
]: ...
def workload_names() -> list[str]: ...
def workload_text(name: str) -> str | None: ...
