"""A trace's tasks run again: under the traced kernel as a check, then under others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from schedlab import _schedlab
from schedlab._schedlab import ReplayError, WorkloadError
from schedlab.agreement import Agreement, Chance, Figures, agreement, chance, spread
from schedlab.kernel import Kernel
from schedlab.machine import Machine
from schedlab.names import check_governor
from schedlab.ranges import HZ, U64, bounded, check_range
from schedlab.simulation import Energy
from schedlab.trace import Trace, read_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    import polars as pl

# How many replays tell what the seed alone does, where a trace does not come back.
SPREAD_SEEDS = 8


class Given(NamedTuple):
    """What a trace does not show of the tasks of a name."""

    comm: str
    """Their name."""
    policy: str | None = None
    """``batch``, ``idle`` or ``rr``, which traces show as normal or as FIFO."""
    cpus: str | None = None
    """The CPUs that they may use, such as ``0-3``."""


class TracedTasks:
    """The tasks of a trace: what each computed, when it slept, and what woke it.

    >>> tasks = TracedTasks("tests/data/traces/qemu_idle_menu.dat", "simidle")
    >>> tasks.facts["ended_by_timer"] > tasks.facts["ended_from_outside"]
    True
    """

    def __init__(
        self,
        path: str | PathLike[str],
        machine: str | Path | Machine,
        *,
        hz: int | None = None,
        given: Sequence[Given] = (),
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Take the tasks out of the trace of ``machine``.

        ``hz`` is the traced kernel's tick rate, by default the machine's; ``given`` is what the
        trace does not show. Raises :class:`schedlab.TraceError` or :class:`schedlab.ReplayError`,
        whose texts name file and mend.
        """
        check_range("hz", hz, HZ, ReplayError)
        loaded = _machine(machine)
        self.path = Path(path)
        self.native = _schedlab.TracedTasks.extract(
            self.path,
            loaded.native,
            hz=hz,
            given=list(given),
            progress=progress,
        )
        self.facts: Figures = dict(self.native.facts())
        """Begin and end of the trace, what ended sleeps, stalls and interrupts."""
        self.machine = Machine(self.native.machine())
        """The traced machine with the costs of kernel paths as the trace shows them."""

    @classmethod
    def _of(cls, path: Path, native: _schedlab.TracedTasks) -> Self:
        tasks = cls.__new__(cls)
        tasks.path, tasks.native = path, native
        tasks.facts = dict(native.facts())
        tasks.machine = Machine(native.machine())
        return tasks

    @bounded(ReplayError, tolerance_pct=U64)
    def folded(self, tolerance_pct: int = 100) -> Self:
        """Give the same tasks with loops where they repeat themselves.

        Times of a loop may be so far from those of its first round. What held wake-ups up on the
        traced machine is left out.

        >>> tasks = TracedTasks("tests/data/traces/qemu_idle_menu.dat", "simidle")
        >>> tasks.folded().tasks["steps"].sum() < tasks.tasks["steps"].sum() / 3
        True
        """
        return self._of(self.path, self.native.folded(tolerance_pct))

    def to_toml(self) -> str:
        """Write the tasks as a workload file."""
        release = Trace(self.path, keep_events=False).info["kernel_release"]
        under = f" under Linux {release}" if release else ""
        comment = (
            f"Tasks of the trace {self.path.name}, taken on {self.machine.name}{under}.\n"
            "Work is that of the traced machine's CPUs; run it on that machine to compare."
        )
        return self.native.to_toml(self.path.stem, comment)

    @bounded(ReplayError, tolerance_pct=U64)
    def to_rt_app(self, tolerance_pct: int = 100) -> str:
        """Write the tasks as rt-app JSON, with loops as of :meth:`folded`."""
        return self.native.to_rt_app(tolerance_pct)

    @property
    def tasks(self) -> pl.DataFrame:
        """A row per task.

        ``charged_ns`` of ``run_ns`` is what the simulated kernel charges by itself; where that
        is more than the trace shows, a task computes ``excess_ns`` longer than traced.
        """
        return _frame(self.native.tasks())

    @property
    def costs(self) -> pl.DataFrame:
        """A row per cost of a kernel path: its value, its samples and its rule."""
        return _frame(self.native.costs())

    def simulate(
        self,
        kernel: str | Path | Kernel,
        *,
        machine: str | Path | Machine | None = None,
        governor: str | None = None,
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Rerun:
        """Run the tasks under a kernel, on the traced machine or another one.

        Raises :class:`schedlab.GovernorError` for an idle governor that there is not.
        """
        if governor is not None:
            check_governor(governor)
        check_range("seed", seed, U64, WorkloadError)
        loaded = _kernel(kernel)
        hardware = self.machine if machine is None else _machine(machine)
        facts, trace = self.native.simulate(
            hardware.native, loaded.native, governor=governor, seed=seed, progress=progress
        )
        name = f"{self.path.name} under {loaded.native.name}"
        return Rerun(
            kernel=loaded.native.name,
            machine=hardware.name,
            governor=governor,
            digest=facts["digest"],
            energy=Energy(**facts["energy"]),
            trace=Trace.recorded(name, trace),
            hardware=hardware,
        )


@dataclass(frozen=True)
class Rerun:
    """A run of a trace's tasks."""

    kernel: str
    """The kernel's name."""
    machine: str
    """The machine's name."""
    governor: str | None
    """The idle governor, if not the kernel's own."""
    digest: str
    """Hash of all events of the run."""
    energy: Energy
    """Energy by rail."""
    trace: Trace
    """Its events, by the clock and with the thread ids of the trace."""
    hardware: Machine
    """The machine."""

    def figures(self) -> dict[int, Figures]:
        """Give the figures of each task by its thread id."""
        return task_figures(self.trace, self.hardware)


def task_figures(trace: Trace, machine: Machine | None = None) -> dict[int, Figures]:
    """Give run time, wake-ups, wakeup latency, migrations and idle misses of each task.

    Figures are by thread id, and idle misses are those of the sleeps that its wake-ups ended.
    """
    names = ("comm", "run_ns", "wakeups", "migrations", "preemptions")
    later = ("p50_us", "p99_us", "period_ms", "idle_misses", "energy_mj")
    unknown: Figures = dict.fromkeys(later)
    found: dict[int, Figures] = {
        row["pid"]: {name: row[name] for name in names} | unknown | {"latencies_us": []}
        for row in trace.tasks().iter_rows(named=True)
    }
    # Events that come later than a task's last are of no task that has figures.
    other: Figures = {"latencies_us": []}
    for row in trace.wakeup_latency("waking").iter_rows(named=True):
        found.get(row["pid"], other).update(p50_us=row["p50_us"], p99_us=row["p99_us"])
    latencies = trace.wakeup_latencies("waking")
    for pid, latency_ns in zip(latencies["pid"], latencies["latency_ns"], strict=True):
        found.get(pid, other)["latencies_us"].append(latency_ns / 1000)
    for pid, period_ms in _periods_ms(trace).items():
        found.get(pid, other)["period_ms"] = period_ms
    if machine is not None:
        for row in trace.idle_misses(machine, by="task").iter_rows(named=True):
            misses = (row["too_deep"] or 0) + (row["too_shallow"] or 0)
            found.get(row["pid"], other)["idle_misses"] = misses
        for pid, energy_mj in _energy_mj(trace, machine).items():
            found.get(pid, other)["energy_mj"] = energy_mj
    return found


def _periods_ms(trace: Trace) -> dict[int, float]:
    """Give the median time between one wake-up of a task and the next, ms."""
    import polars as pl  # noqa: PLC0415 - as in _frame

    runs = trace.timeline().runs.drop_nulls("latency_ns").filter(pl.col("pid") > 0)
    woken_ns = pl.col("start_ns").cast(pl.Int64) - pl.col("latency_ns").cast(pl.Int64)
    periods = runs.group_by("pid").agg(woken_ns.sort().diff().median() / 1e6)
    return {pid: float(ms) for pid, ms in periods.drop_nulls().iter_rows()}


def _energy_mj(trace: Trace, machine: Machine) -> dict[int, float]:
    """Give what each task's runs cost at the busy power of their CPUs' cores, mJ."""
    import polars as pl  # noqa: PLC0415 - as in _frame

    power = {kind["name"]: kind["opps"][-1]["power_uw"] for kind in machine.to_dict()["cpu_types"]}
    cpus = machine.cpus.select(
        pl.col("cpu").cast(pl.UInt32), uw=pl.col("cpu_type").replace_strict(power)
    )
    runs = trace.timeline().runs.filter(pl.col("pid") > 0).join(cpus, on="cpu")
    run_ns = pl.col("end_ns").cast(pl.Int64) - pl.col("start_ns").cast(pl.Int64)
    sums = runs.group_by("pid").agg((run_ns * pl.col("uw")).sum() / 1e12)
    return {pid: float(mj) for pid, mj in sums.iter_rows()}


class Replay(NamedTuple):
    """A trace's tasks run again."""

    tasks: TracedTasks
    """The tasks."""
    traced: dict[int, Figures]
    """The trace's own figures by thread id."""
    check: Rerun
    """The run under the traced kernel on the traced machine."""
    agreement: Agreement
    """How that run stands to the trace."""
    what_if: list[Rerun]
    """The runs under other kernels or on other machines."""
    chance: Chance | None = None
    """What the seed alone does, if the trace does not come back."""


def replay_trace(
    path: str | PathLike[str],
    kernels: Sequence[str | Path | Kernel] = (),
    *,
    machine: str | Path | Machine,
    traced_kernel: str | Path | Kernel,
    machines: Sequence[str | Path | Machine] = (),
    governor: str | None = None,
    hz: int | None = None,
    given: Sequence[Given] = (),
    seed: int = 0,
    seeds: int = SPREAD_SEEDS,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Run a trace's tasks again, under the traced kernel and then under others.

    The trace was taken on ``machine`` under ``traced_kernel``, whose idle governor was
    ``governor`` if not the kernel's own. Every kernel of ``kernels`` runs them on ``machine``, and
    on each of ``machines``. Where the trace does not come back, replays with ``seeds`` seeds,
    ``seed`` the first, tell what of that is chance. What is named and is not there is refused
    before the trace is read.

    >>> file = "tests/data/traces/qemu_idle_menu.dat"
    >>> replay = replay_trace(file, ["v6.1"], machine="simidle", traced_kernel="v6.12")
    >>> replay.check.kernel, [run.kernel for run in replay.what_if]
    ('v6.12', ['v6.1'])
    """
    if governor is not None:
        check_governor(governor)
    traced_machine, *others_on = map(_machine, (machine, *machines))
    traced_under, *others_under = map(_kernel, (traced_kernel, *kernels))
    tasks = TracedTasks(path, traced_machine, hz=hz, given=given, progress=progress)
    traced = task_figures(read_trace(path), tasks.machine)
    check = tasks.simulate(traced_under, governor=governor, seed=seed, progress=progress)
    pids = tasks.tasks["pid"]
    compared = agreement(traced, check.figures(), pids)
    by_seed = None
    if not compared.passed:
        others = [(seed + further) % 2**64 for further in range(1, seeds)]
        again = [tasks.simulate(traced_under, governor=governor, seed=other) for other in others]
        figures = [run.figures() for run in again]
        spread(compared, [agreement(traced, of, pids) for of in figures])
        by_seed = chance(traced, [check.figures(), *figures], pids)
    targets: list[Machine | None] = [None, *others_on]
    if others_on and not others_under:
        others_under, targets = [traced_under], [*others_on]
    what_if = [
        tasks.simulate(kernel, machine=target, seed=seed, progress=progress)
        for target in targets
        for kernel in others_under
    ]
    return Replay(tasks, traced, check, compared, what_if, by_seed)


def _machine(named: str | Path | Machine) -> Machine:
    return named if isinstance(named, Machine) else Machine.load(named)


def _kernel(named: str | Path | Kernel) -> Kernel:
    return named if isinstance(named, Kernel) else Kernel.load(named)


def guess_kernel(release: str) -> str | None:
    """Guess the built-in kernel by a release's name: the one of the same version.

    Traces of simulated runs name the kernel itself.

    >>> guess_kernel("6.12.117+deb12-amd64"), guess_kernel("5.4.0"), guess_kernel("")
    ('v6.12', None, None)
    >>> guess_kernel("v3.9-power")
    'v3.9-power'
    """
    if release in Kernel.names():
        return release
    version = "v" + ".".join(release.split(".")[:2])
    return version if version in Kernel.names() else None


def _frame(table: _schedlab.Table) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415 - a second of imports that most callers do not need

    return pl.DataFrame(table)
