"""Two traces of one workload: where decisions first part, and how figures differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from schedlab.replay import task_figures

if TYPE_CHECKING:
    import polars as pl

    from schedlab.trace import Trace

Figures = dict[str, Any]

PLACEMENTS = {
    "sched_wakeup": "wake-up",
    "sched_wakeup_new": "birth",
    "sched_migrate_task": "move",
}


class Decision(NamedTuple):
    """Where a task was put."""

    time_ns: int
    """When, by the trace's clock."""
    what: str
    """At its ``birth`` or a ``wake-up``, or by a ``move`` while it could run."""
    cpu: int
    """The CPU."""


class TaskDiff(NamedTuple):
    """A task in two traces."""

    comm: str
    """Its name."""
    nth: int
    """Which of the tasks of that name it is, from 1, in the order of their births."""
    pids: tuple[int, int]
    """Its thread ids."""
    decisions: tuple[int, int]
    """How many decisions about it the traces have."""
    alike: int
    """How many it took until they part; all of the shorter trace if they do not."""
    parting: tuple[Decision | None, Decision | None] | None
    """The first decisions that differ; ``None`` stands for one that a trace does not have. The
    whole is ``None`` if none differs."""
    figures: tuple[Figures, Figures]
    """Run time, wake-ups, latencies and migrations in both."""


class TraceDiff(NamedTuple):
    """Two traces of one workload."""

    tasks: list[TaskDiff]
    """Tasks that both have, in the order of their births in the first."""
    only: tuple[list[str], list[str]]
    """Names of tasks that only one has."""
    begin_ns: tuple[int, int]
    """When each trace begins."""

    def first(self) -> TaskDiff | None:
        """Give the task about which decisions part first, by the first trace's clock."""
        return min((task for task in self.tasks if task.parting), key=self._when, default=None)

    def _when(self, task: TaskDiff) -> int:
        """Tell when decisions about a task part, from the begin of the trace that tells."""
        parting = task.parting or (None, None)
        times = [
            decision.time_ns - begin_ns
            for decision, begin_ns in zip(parting, self.begin_ns, strict=True)
            if decision is not None
        ]
        return times[0]


def diff_traces(one: Trace, other: Trace) -> TraceDiff:
    """Compare two traces of one workload, both read with their events.

    Tasks are the same that have the same name and the same place among the births of that name.
    A task's decisions are compared in their own order, whenever they were taken.

    >>> from schedlab import read_trace
    >>> trace = read_trace("tests/data/traces/qemu_idle_menu.dat")
    >>> diff_traces(trace, trace).first() is None
    True
    """
    decided = (_decisions(one), _decisions(other))
    figures = (task_figures(one), task_figures(other))
    named = (_named(one), _named(other))
    tasks = []
    for (comm, nth), pid in named[0].items():
        other_pid = named[1].get((comm, nth))
        if other_pid is None:
            continue
        pair = (decided[0].get(pid, []), decided[1].get(other_pid, []))
        alike = _alike(*pair)
        parting = None
        if alike < max(map(len, pair)):
            parting = (_at(pair[0], alike), _at(pair[1], alike))
        tasks.append(
            TaskDiff(
                comm=comm,
                nth=nth,
                pids=(pid, other_pid),
                decisions=(len(pair[0]), len(pair[1])),
                alike=alike,
                parting=parting,
                figures=(figures[0][pid], figures[1][other_pid]),
            )
        )
    only = (
        [comm for comm, nth in named[0] if (comm, nth) not in named[1]],
        [comm for comm, nth in named[1] if (comm, nth) not in named[0]],
    )
    return TraceDiff(tasks, only, (one.info["begin_ns"], other.info["begin_ns"]))


def _named(trace: Trace) -> dict[tuple[str, int], int]:
    """Give the thread id of each task by its name and its place among those of that name."""
    counts: dict[str, int] = {}
    named = {}
    rows = trace.tasks().sort("first_seen_ns", maintain_order=True)
    for pid, comm in zip(rows["pid"], rows["comm"], strict=True):
        counts[comm] = counts.get(comm, 0) + 1
        named[comm, counts[comm]] = pid
    return named


def _decisions(trace: Trace) -> dict[int, list[Decision]]:
    """Give the decisions about each task by its thread id."""
    import polars as pl  # noqa: PLC0415 - a second of imports that most callers do not need

    wanted = [*PLACEMENTS, "sched_waking"]
    events: pl.DataFrame = trace.events.filter(pl.col("event").is_in(wanted))
    found: dict[int, list[Decision]] = {}
    waking: set[int] = set()
    columns = ("timestamp_ns", "event", "task_pid", "target_cpu", "dest_cpu")
    for time_ns, event, pid, target_cpu, dest_cpu in events.select(columns).iter_rows():
        if event == "sched_waking":
            waking.add(pid)
            continue
        if event == "sched_migrate_task":
            # A move on the way to waking is part of that wake-up's decision.
            if pid not in waking:
                found.setdefault(pid, []).append(Decision(time_ns, "move", dest_cpu))
            continue
        waking.discard(pid)
        found.setdefault(pid, []).append(Decision(time_ns, PLACEMENTS[event], target_cpu))
    return found


def _alike(one: list[Decision], other: list[Decision]) -> int:
    """Count the decisions until the first that differs."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if (left.what, left.cpu) != (right.what, right.cpu):
            return index
    return min(len(one), len(other))


def _at(decisions: list[Decision], index: int) -> Decision | None:
    return decisions[index] if index < len(decisions) else None
