"""How near a replay's figures come to those of its trace, and how near chance lets them come."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Figures = dict[str, Any]

# How far a replay under the traced kernel may be from the trace, for each task. Less run time than
# a few kernel paths take is no difference.
RUN_PCT = 2.0
RUN_NS = 10_000
WAKEUPS_PCT = 2.0
LATENCY_PCT = 20.0
LATENCY_US = 10.0
# Tasks that woke less often are compared together, and a 99th percentile of fewer wake-ups is one
# or two of them, which are shown but not compared.
WAKEUPS_MIN = 20
P99_MIN = 100


class Agreement(NamedTuple):
    """How a replay under the traced kernel stands to the trace."""

    rows: list[Figures]
    """A row per task that woke often enough, and one for all others together: each figure traced
    and replayed, and what of them is too far off."""
    tasks: list[Figures]
    """The same for every task by itself."""

    @property
    def passed(self) -> bool:
        """Every figure of every row is near enough."""
        return all(not row["off"] for row in self.rows)

    @property
    def tasks_passed(self) -> int:
        """How many tasks are near enough each by itself, without any allowance for few events."""
        return sum(not _off(row, 0, 1) for row in self.tasks)

    @property
    def rows_passed(self) -> int:
        """How many rows are near enough in every figure."""
        return sum(not row["off"] for row in self.rows)


def agreement(
    traced: dict[int, Figures], replayed: dict[int, Figures], pids: Iterable[int]
) -> Agreement:
    """Compare the figures of a replay with those of the trace.

    Run time and wake-ups may be 2 % off (run time always 10 us for each task), and wakeup latencies
    (median and 99th percentile) 20 % or 10 us, whichever is more. Percentiles of a few wake-ups are
    single events, so tasks that woke less than 20 times are compared together, and a 99th
    percentile is compared from 100 wake-ups on.

    >>> task = {"comm": "a", "run_ns": 100, "latencies_us": [20.0] * 20}
    >>> task |= {"wakeups": 20, "p50_us": 20.0, "p99_us": 90.0}
    >>> agreement({7: task}, {7: task | {"p50_us": 29.9}}, [7]).passed
    True
    >>> agreement({7: task}, {7: task | {"wakeups": 21}}, [7]).rows[0]["off"]
    ['wakeups']
    """
    tasks, rare = [], []
    for pid in pids:
        if pid in traced:
            before = traced[pid]
            row = _compared(before, replayed.get(pid, NOTHING)) | {"pid": pid}
            tasks.append(row)
            if before["wakeups"] < WAKEUPS_MIN:
                rare.append(pid)
    rows = [row for row in tasks if row["pid"] not in rare]
    if rare:
        together = [_together([of.get(pid, NOTHING) for pid in rare]) for of in (traced, replayed)]
        row = _compared(together[0], together[1], tasks=len(rare))
        rows.append(row | {"pid": None, "comm": f"({len(rare)} tasks)"})
    return Agreement(rows, tasks)


def spread(found: Agreement, others: Sequence[Agreement]) -> None:
    """Note in each row that is off what replays give that differ from it in their seed alone.

    The kernel itself draws random numbers (when it balances newly idle CPUs, ``NI_RANDOM``), so a
    trace is one of many runs that could have been. Where replays differ among themselves by more
    than they may from the trace, the trace does not tell the figure. ``row["spread"]`` gives the
    least and the most of each figure that is off.
    """
    for place, row in enumerate(found.rows):
        runs = [row, *(other.rows[place] for other in others)]
        row["spread"] = {}
        for name in row["off"]:
            values = [run[f"replayed_{name}"] for run in runs]
            known = [value for value in values if value is not None]
            if known:
                row["spread"][name] = (min(known), max(known))


class Chance(NamedTuple):
    """Rows in common of replays that differ in their seed alone: with the trace, and each other.

    A trace is one of many runs that could have been. Where replays agree with each other no better
    than with the trace, the check asks for more than the seed allows, whatever the model.
    """

    with_trace: list[int]
    """How many rows of each replay are near enough to the trace."""
    with_each_other: list[list[int]]
    """The same of all other replays with each one in the trace's place."""
    whole: int
    """How many of these pairs have all rows alike."""

    @property
    def rank(self) -> int:
        """Where the trace stands from below, among the replays, by its rows in common with them.

        A first place of many is what chance hardly does: there the model is wrong.

        >>> Chance([4, 5], [[3, 3], [5, 6]], 0).rank
        2
        """
        mean = statistics.mean(self.with_trace)
        return 1 + sum(statistics.mean(rows) < mean for rows in self.with_each_other)


def chance(
    traced: dict[int, Figures], replays: Sequence[dict[int, Figures]], pids: Iterable[int]
) -> Chance:
    """Tell how replays of different seeds agree with a trace and with each other.

    All figures are by thread id.

    >>> task = {"comm": "a", "run_ns": 100, "latencies_us": [20.0] * 20}
    >>> task |= {"wakeups": 20, "p50_us": 20.0, "p99_us": 90.0}
    >>> chance({7: task}, [{7: task}, {7: task | {"p50_us": 70.0}}], [7])
    Chance(with_trace=[1, 0], with_each_other=[[0], [0]], whole=0)
    """
    pids = list(pids)
    pairs = [
        [agreement(one, other, pids) for other in replays if other is not one] for one in replays
    ]
    return Chance(
        [agreement(traced, one, pids).rows_passed for one in replays],
        [[pair.rows_passed for pair in of] for of in pairs],
        sum(pair.passed for of in pairs for pair in of),
    )


NOTHING: Figures = {
    "comm": "",
    "run_ns": 0,
    "wakeups": 0,
    "p50_us": None,
    "p99_us": None,
    "latencies_us": [],
}


def _together(figures: list[Figures]) -> Figures:
    """Give the figures of several tasks as if they were one."""
    latencies = sorted(us for one in figures for us in one["latencies_us"])
    return {
        "comm": "",
        "run_ns": sum(one["run_ns"] for one in figures),
        "wakeups": sum(one["wakeups"] for one in figures),
        "p50_us": _percentile(latencies, 0.5),
        "p99_us": _percentile(latencies, 0.99),
        "latencies_us": latencies,
    }


def _percentile(values: list[float], share: float) -> float | None:
    """Interpolate linearly between sorted values."""
    if not values:
        return None
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def _compared(before: Figures, after: Figures, tasks: int = 1) -> Figures:
    row: Figures = {"comm": before["comm"]}
    for name in ("run_ns", "wakeups", "p50_us", "p99_us"):
        row[f"traced_{name}"] = before[name]
        row[f"replayed_{name}"] = after[name]
    return row | {"off": _off(row, RUN_NS * tasks, P99_MIN)}


def _off(row: Figures, run_ns: int, p99_min: int) -> list[str]:
    """Name what is too far off: ``run_ns`` always may be, and few wake-ups have no percentile."""
    off = []
    traced_ns, wakeups = row["traced_run_ns"], row["traced_wakeups"]
    if abs(row["replayed_run_ns"] - traced_ns) > max(RUN_PCT / 100 * traced_ns, run_ns):
        off.append("run_ns")
    if abs(row["replayed_wakeups"] - wakeups) > WAKEUPS_PCT / 100 * wakeups:
        off.append("wakeups")
    compared = ["p50_us"] if wakeups < p99_min else ["p50_us", "p99_us"]
    return off + [name for name in compared if not _latency_near(row, name)]


def _latency_near(row: Figures, name: str) -> bool:
    before, after = row[f"traced_{name}"], row[f"replayed_{name}"]
    if before is None or after is None:
        return before is after
    allowed = max(LATENCY_US, LATENCY_PCT / 100 * float(before))
    return abs(float(after) - float(before)) <= allowed
