"""What the page shows, as plain data: the report knows nothing of trace files or governors.

All times are integer nanoseconds; those of the timeline count from ``Timeline.origin_ns``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

__all__ = [
    "Finding",
    "Governor",
    "IdleState",
    "Provenance",
    "Report",
    "StateUse",
    "TaskLatency",
    "Timeline",
]


@dataclass(frozen=True)
class Provenance:
    """Where the data came from."""

    file: str
    """Name of the trace file."""
    file_bytes: int | None
    """Its size; ``None`` for a simulated run."""
    format: str
    """Such as ``trace.dat v6``."""
    kernel_release: str
    """As the file names it; empty where it does not."""
    clock: str
    """The trace clock; empty where the file does not say."""
    cpus: Sequence[int]
    """CPUs that the trace covers."""
    duration_ns: int
    """First to last event."""
    event_counts: Mapping[str, int]
    """Every event of the file by its tracepoint's name, parsed or not."""
    lost_events: int
    """Events that the tracer dropped."""
    machine: str
    """The machine whose idle states were used; empty for none."""
    schedlab_version: str
    """Version of the program that wrote the page."""


@dataclass(frozen=True)
class IdleState:
    """An idle state of the machine, or one that only the trace's numbers name."""

    name: str
    """Such as ``C1E``."""
    exit_latency_ns: int | None = None
    """Worst-case exit latency, or ``None`` without a machine."""
    target_residency_ns: int | None = None
    """The shortest sleep for which it pays, or ``None`` without a machine."""


@dataclass(frozen=True)
class Timeline:
    """What happened on each CPU.

    The frames hold one row per interval, sorted by CPU and time, without overlap on a CPU:

    - ``runs``: ``cpu, start_ns, end_ns, pid, comm, latency_ns`` (null where the switch-in ended no
      wakeup), ``state`` (letter of ``prev_state`` at its end, null if cut)
    - ``sleeps``: ``cpu, start_ns, end_ns, state, miss`` (-1 too deep, 0 neither, 1 too shallow,
      null where nothing tells), ``whole`` (false if the trace's end cut it)
    - ``counters``: ``name, unit, cpu, time_ns, value``
    """

    cpus: Sequence[int]
    """One row of the timeline each."""
    origin_ns: int
    """The trace's clock at the timeline's left end."""
    duration_ns: int
    """Length of the timeline."""
    runs: pl.DataFrame
    """Tasks on CPUs."""
    sleeps: pl.DataFrame
    """Idle periods."""
    counters: pl.DataFrame
    """Sampled values that hold until the next sample."""


@dataclass(frozen=True)
class TaskLatency:
    """Wakeup latencies of one task, microseconds."""

    comm: str
    pid: int
    count: int
    gmean_us: float
    mean_us: float
    p50_us: float
    p90_us: float
    p99_us: float
    max_us: float


@dataclass(frozen=True)
class StateUse:
    """How the trace used one idle state."""

    state: int
    """Its index, shallowest 0."""
    periods: int
    """How often it was entered."""
    time_ns: int
    """Time spent in it."""
    too_deep: int | None = None
    """Periods shorter than its target residency, with a shallower state to take instead; ``None``
    where nothing tells."""
    too_shallow: int | None = None
    """Periods that would have paid in the next deeper state."""


@dataclass(frozen=True)
class Governor:
    """One row of the counterfactual: what a governor would have chosen."""

    name: str
    periods: int
    too_deep_pct: float
    too_shallow_pct: float
    state_share_pct: Sequence[float]
    """Share of the periods for which it chose each state."""
    agreement_pct: float | None = None
    """How often it chose the state that the trace shows."""
    estimated_pct: float | None = None
    """Share of the periods whose inputs had to be estimated."""
    wake_latency_us: float | None = None
    """Predicted exit latency of a wake-up, mean."""
    energy_mj: float | None = None
    """Predicted idle energy, millijoules, where the machine has powers."""
    traced: bool = False
    """The row of what the trace itself shows."""
    recorded: bool = False
    """Its agreement says that the trace was recorded under it."""


@dataclass(frozen=True)
class Finding:
    """A row of data quality."""

    severity: str
    """``info``, ``warning`` or ``error``."""
    code: str
    cpu: int | None
    count: int
    message: str


@dataclass(frozen=True)
class Report:
    """All that one page shows. Empty parts leave their section out."""

    provenance: Provenance
    timeline: Timeline
    latencies: Sequence[TaskLatency] = ()
    """Per task, most wakeups first."""
    latency_samples: pl.DataFrame | None = None
    """Every wakeup latency: ``comm``, ``latency_ns``."""
    overall_latency: TaskLatency | None = None
    """Over all tasks; its ``comm`` and ``pid`` mean nothing."""
    latency_begins: str = "sched_waking"
    """The event that a latency begins with."""
    idle_states: Sequence[IdleState] = ()
    state_uses: Sequence[StateUse] = ()
    kernel_misses: tuple[int, int] | None = None
    """Too deep and too shallow as the trace's own ``cpu_idle_miss`` events count them."""
    governors: Sequence[Governor] = ()
    findings: Sequence[Finding] = ()
    notes: Sequence[str] = field(default=())
    """What the reader of the timeline must know, such as that it was cut."""
