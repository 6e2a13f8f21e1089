"""Traces: a recording of the kernel's scheduler, and the figures in it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, get_args

from schedlab._parquet import write_events
from schedlab._schedlab import EventTables, TraceError
from schedlab._schedlab import Trace as _Native
from schedlab._schedlab import convert_trace as _convert
from schedlab.ranges import U64, bounded

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    import polars as pl

    from schedlab._schedlab import Table, TraceInfo
    from schedlab.machine import Machine

TraceFormat = Literal["perfetto", "parquet", "csv"]
"""What a trace can be written as."""


class CpuFigures(NamedTuple):
    """What CPUs did."""

    cpus: pl.DataFrame
    """Busy, idle and interrupt time and switches, a row per CPU."""
    frequencies: pl.DataFrame
    """Residency, a row per CPU and frequency."""


class Idle(NamedTuple):
    """What CPUs did while idle."""

    states: pl.DataFrame
    """Residency, a row per CPU and idle state."""
    misses: pl.DataFrame
    """Idle misses, a row per CPU and idle state."""
    task_misses: pl.DataFrame
    """Idle misses, a row per task that was woken; null for wakes that ran no task."""


class Timeline(NamedTuple):
    """The intervals that a picture of a trace is drawn from; times are those of the trace."""

    runs: pl.DataFrame
    """A row per stretch of a task on a CPU: ``start_ns``, ``end_ns``, the wakeup latency that it
    ended and the state in which it was left, where the trace tells."""
    sleeps: pl.DataFrame
    """A row per idle period. ``miss`` is -1 for too deep, 1 for too shallow, 0 for neither; null
    without a machine and where the trace's end cuts the period (``whole`` is false)."""
    samples: pl.DataFrame
    """A row per value of a counter: ``frequency`` (kHz), ``util_avg``, ``nr_running``."""
    cut_ns: int | None
    """Where the intervals end because there are more than were asked for; ``None`` if all fit."""


class Trace:
    """A kernel trace; use :func:`read_trace` to get one.

    Frames have a row per task, CPU or whatever the method says, in the order of first sight, and
    columns whose names end in their unit. An interval that the trace's ends or lost events cut is
    left out where it would be counted or ranked; sums of time count what the trace shows of it.

    >>> trace = read_trace("tests/data/traces/qemu_idle_menu.dat")
    >>> trace
    <Trace qemu_idle_menu.dat: trace.dat v7, 4 CPUs, 4.253 s>
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        keep_events: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Read a trace; see :func:`read_trace`.

        ``progress`` is called with bytes done and bytes in all, a few times a second.
        """
        self.path = Path(path)
        self.native = _Native(self.path, keep_events=keep_events, progress=progress)

    @classmethod
    def recorded(cls, name: str, native: _Native) -> Self:
        """Wrap a simulated run's events, which :func:`schedlab.simulate` keeps on request."""
        trace = cls.__new__(cls)
        trace.path, trace.native = Path(name), native
        return trace

    def convert(
        self,
        to: TraceFormat,
        out: str | PathLike[str],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> Converted:
        """Write the kept events for other tools, as :func:`convert_trace` does with a file.

        >>> import schedlab, tempfile
        >>> run = schedlab.simulate("periodic", duration_s=0.01, keep_events=True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = run.trace.convert("csv", f"{folder}/run.csv").events
        >>> written == sum(run.trace.info["events"].values())
        True
        """
        if _is_parquet(to):
            return _as_parquet(EventTables.of(self.native, progress), Path(out))
        return Converted(Path(out), *self.native.convert(to, Path(out), progress))

    @cached_property
    def info(self) -> TraceInfo:
        """What the file is and holds.

        ``events`` counts every event of the file by its name, whether it is parsed or not.

        >>> info = read_trace("tests/data/traces/qemu_idle_menu.dat").info
        >>> info["format"], info["clock"], info["cpus"], info["lost_events"]
        ('trace.dat v7', 'mono', [0, 1, 2, 3], 0)
        >>> info["events"]["sched_switch"]
        6118
        """
        return self.native.info()

    @property
    def data_quality(self) -> pl.DataFrame:
        """What is missing or doubtful, and which figure suffers; one row per finding.

        >>> quality = read_trace("tests/data/traces/qemu_idle_menu.dat").data_quality
        >>> quality.select("severity", "code").row(0)
        ('info', 'missing_frequency')
        """
        import polars as pl  # noqa: PLC0415 - a fifth of a second that the command line need not pay

        schema = {
            "severity": pl.String,
            "code": pl.String,
            "cpu": pl.UInt32,
            "count": pl.UInt64,
            "message": pl.String,
        }
        return pl.DataFrame(self.info["data_quality"], schema=schema)

    @property
    def events(self) -> pl.DataFrame:
        """Every parsed event, a row each; columns that an event does not have are null.

        The columns are those of ``schedlab trace convert --to parquet``. The trace must have been
        read with ``keep_events``.

        >>> import polars as pl
        >>> events = read_trace("tests/data/traces/qemu_idle_menu.dat").events
        >>> entries = events.filter(pl.col("event") == "cpu_idle").drop_nulls("state")
        >>> entries.select("timestamp_ns", "cpu", "state").row(0)
        (26979244193, 2, 1)
        """
        return _frame(self.native.events())

    def wakeup_latency(
        self,
        from_: Literal["waking", "wakeup"] = "waking",
        *,
        by: Literal["task", "comm"] = "task",
    ) -> pl.DataFrame:
        """Tell how long woken tasks waited for a CPU, in microseconds.

        A latency runs from the first ``sched_waking`` (or ``sched_wakeup``; ``sched_wakeup_new`` is
        one in either mode) of a task that is on no CPU to its next switch-in. Percentiles
        interpolate linearly, and the geometric mean takes 0 ns as 1 ns.

        >>> trace = read_trace("tests/data/traces/qemu_idle_menu.dat")
        >>> latency = trace.wakeup_latency().sort("count", descending=True)
        >>> latency.select("comm", "pid", "count", "p50_us", "max_us").row(0)
        ('t3', 620, 2001, 10.682, 1673.926)
        """
        _check_by(by, "task", "comm")
        return _frame(self.native.wakeup_latency(from_, by == "comm"))

    def wakeup_latencies(self, from_: Literal["waking", "wakeup"] = "waking") -> pl.DataFrame:
        """Every single wakeup latency, for distributions.

        >>> trace = read_trace("tests/data/traces/qemu_idle_menu.dat")
        >>> trace.wakeup_latencies().columns
        ['comm', 'pid', 'latency_ns']
        """
        return _frame(self.native.wakeup_latencies(from_))

    def tasks(self) -> pl.DataFrame:
        """Tell what each task did: run, wait, sleep, block; how often it woke and moved.

        ``runnable_ns`` runs from wake or preemption to switch-in. ``preemptions`` and ``voluntary``
        are the kernel's nonvoluntary and voluntary context switches. The five times add up to the
        time since the task was first seen.

        >>> tasks = read_trace("tests/data/traces/qemu_idle_menu.dat").tasks()
        >>> tasks.select("comm", "pid", "run_ns", "cpus", "earlier_comms").row(0)
        ('ptask', 617, 51491070, [0, 2, 3], ['trace-cmd'])
        """
        return _frame(self.native.tasks())

    def cpus(self) -> pl.DataFrame:
        """Tell what each CPU did; busy, idle and unknown time add up to the trace's duration.

        Interrupts are part of the busy or idle time that they interrupt. A CPU is busy from the
        switch to a task to the switch to the idle task, and ``switches`` counts both kinds. So the
        trace of a simulated run has more switches than :attr:`Simulation.tasks` counts, which are
        those to tasks, and less busy time than :attr:`Simulation.cpus`, which counts interrupts of
        an idle CPU and its way out of idle states as busy.

        >>> cpus = read_trace("tests/data/traces/qemu_idle_menu.dat").cpus()
        >>> cpus.select("cpu", "busy_ns", "switches").row(0)
        (0, 200654586, 2091)
        """
        return self.cpu_figures().cpus

    def frequencies(self) -> pl.DataFrame:
        """Tell how long each CPU had each frequency, from its first ``cpu_frequency`` event on.

        >>> read_trace("tests/data/traces/lisa_sched_load.dat").frequencies().columns
        ['cpu', 'frequency_khz', 'residency_ns', 'changes']
        """
        return self.cpu_figures().frequencies

    def cpu_figures(self) -> CpuFigures:
        """Tell what :meth:`cpus` and :meth:`frequencies` tell, in one go."""
        return CpuFigures(*map(_frame, self.native.cpus()))

    def idle(self, machine: Machine | None = None) -> Idle:
        """Tell idle residency and idle misses, in one go; see the next two methods.

        >>> from schedlab import Machine
        >>> trace = read_trace("tests/data/traces/qemu_idle_menu.dat")
        >>> idle = trace.idle(Machine.load("simidle"))
        >>> idle.misses.select("too_deep", "kernel_too_deep").sum().row(0)
        (45, 45)
        """
        tables = self.native.idle(None if machine is None else machine.native)
        return Idle(*map(_frame, tables))

    def idle_states(self, machine: Machine | None = None) -> pl.DataFrame:
        """Tell how long each CPU held each idle state; ``machine`` tells the states' names.

        ``residency_ns`` reaches to the end of the trace; the other figures are of whole periods.
        """
        return self.idle(machine).states

    def idle_misses(
        self, machine: Machine | None = None, *, by: Literal["state", "task"] = "state"
    ) -> pl.DataFrame:
        """Count sleeps that were too short or too long for their state, as the kernel counts them.

        The verdicts need the idle states of ``machine``; ``kernel_too_deep`` and
        ``kernel_too_shallow`` are the trace's own ``cpu_idle_miss`` events; what is missing is
        null. Costs:
        ``extra_exit_latency_us`` is what too deep sleeps added to wakeups, ``shallow_us`` how long
        CPUs lay too shallow, ``excess_energy_mj`` what both cost by the machine's powers.
        """
        _check_by(by, "state", "task")
        idle = self.idle(machine)
        return idle.task_misses if by == "task" else idle.misses

    @bounded(TraceError, intervals_max=U64)
    def timeline(
        self,
        machine: Machine | None = None,
        from_: Literal["waking", "wakeup"] = "waking",
        *,
        intervals_max: int = 4_000_000,
    ) -> Timeline:
        """Tell who ran when, which idle state was held when, and what counters said.

        The verdicts on idle periods need the idle states of ``machine``; latencies begin as in
        :meth:`wakeup_latency`.

        >>> trace = read_trace("tests/data/traces/qemu_idle_menu.dat")
        >>> timeline = trace.timeline()
        >>> timeline.runs.select("cpu", "start_ns", "end_ns", "comm", "state").row(1)
        (2, 26979176173, 26979191597, 'migration/2', 'S')
        >>> timeline.sleeps.height
        4065
        """
        native = None if machine is None else machine.native
        runs, sleeps, samples, cut_ns = self.native.timeline(native, from_, intervals_max)
        return Timeline(_frame(runs), _frame(sleeps), _frame(samples), cut_ns)

    def __repr__(self) -> str:
        """Name the file and what it is."""
        info = self.info
        return (
            f"<Trace {self.path.name}: {info['format']}, {len(info['cpus'])} CPUs, "
            f"{info['duration_s']:.3f} s>"
        )


class Converted(NamedTuple):
    """What a conversion did."""

    path: Path
    """The file that was written."""
    events: int
    """How many events were written."""
    dropped: int
    """How many events have no place in the event schema, or were damaged."""
    dropped_types: dict[str, int]
    """Of those, how many of each type that has no place."""


def convert_trace(
    path: str | PathLike[str],
    to: TraceFormat,
    out: str | PathLike[str],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Converted:
    """Write a trace for other tools: ui.perfetto.dev, or whatever reads Parquet or CSV.

    The file appears under its name once it is complete; memory is bounded however long the trace.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = convert_trace(
    ...         "tests/data/traces/qemu_idle_menu.dat", "parquet", f"{folder}/idle.parquet"
    ...     )
    >>> done.events, done.dropped, done.dropped_types
    (38585, 2984, {'hrtimer_init': 2984})
    """
    if _is_parquet(to):
        return _as_parquet(EventTables.open(Path(path), progress), Path(out))
    return Converted(Path(out), *_convert(Path(path), to, Path(out), progress))


def _check_by(by: str, *known: str) -> None:
    if by not in known:
        listed = " or ".join(f'"{each}"' for each in known)
        raise ValueError(f'by is "{by}"; it is {listed}')


def _is_parquet(to: TraceFormat) -> bool:
    """Tell who writes it: tables are Polars' own, the rest is the extension's."""
    formats = get_args(TraceFormat)
    if to not in formats:
        raise ValueError(f"no format {to!r}; there are {', '.join(formats)}")
    return to == "parquet"


def _as_parquet(tables: EventTables, out: Path) -> Converted:
    write_events(tables, out)
    return Converted(out, *tables.written())


def read_trace(path: str | PathLike[str], *, keep_events: bool = True) -> Trace:
    """Read a trace of any known format, which its content tells.

    With ``keep_events=False`` nothing is read yet; each question then reads the file anew, within
    bounded memory however long the trace is.

    Raises :class:`schedlab.TraceError` for what is no trace and :class:`OSError` for what cannot be
    opened. Damage within a trace is not raised: it is a row of :attr:`Trace.data_quality`.

    >>> trace = read_trace("tests/data/traces/android_systrace.txt")
    >>> trace.wakeup_latency("wakeup", by="comm").height > 0
    True
    """
    return Trace(path, keep_events=keep_events)


def _frame(table: Table) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415 - see data_quality

    return pl.DataFrame(table)
