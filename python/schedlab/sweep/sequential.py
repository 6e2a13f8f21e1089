"""Stops by evidence: more iterations where a comparison is open, none where it is settled."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from schedlab.stats.moments import PairedMoments
from schedlab.stats.selection import Selection
from schedlab.stats.sequential import LEAST, any_time
from schedlab.study.reading import StudyError
from schedlab.sweep.table import values_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.stats import Better, Interval, Verdict
    from schedlab.sweep.jobs import Cell
    from schedlab.sweep.model import Plan
    from schedlab.sweep.run import Session
    from schedlab.sweep.table import Row

__all__ = ["Pick", "Until", "pick", "settle"]

# Each look comes after so many times the iterations of the last: looks are free, runs are not.
GROWTH = 1.5

# Of a search for the best: runs ahead of the next decision, as a share of those made.
AHEAD = 0.25


@dataclass(frozen=True)
class Until:
    """When a comparison is settled."""

    width_pct: float | None = None
    """Its interval is at most so wide, in points of percent; ``None``: until it has a verdict."""
    most: int = 1000
    """Iterations of a cell at most."""


def settle(session: Session, until: Until) -> list[Row]:
    """Run iterations until each comparison is settled, and give the table.

    Intervals are those of a confidence sequence (:mod:`schedlab.stats.sequential`), with the plan's
    significance shared out among all comparisons of the table (Bonferroni): with that probability
    at most is any of them wrong at any look.
    """
    plan = session.plan
    if len(plan.variants) < 2:  # noqa: PLR2004 - one has nothing to be compared with
        raise StudyError(f"{plan.name}: --until compares; add a [[treatment]], or compare an axis")
    todo = session.todo
    begun, ends = 0, min(max(plan.iterations, LEAST), until.most)
    cells = list(todo.cells())
    while True:
        blocks = (todo.block(cell, iteration) for iteration in range(begun, ends) for cell in cells)
        session.carry_out(blocks, (ends - begun) * len(cells) * len(plan.variants))
        rows = _judged(plan, session.rows())
        open_ = {row.cell for row in rows if row.compared and not _settled(row, until)}
        cells = [cell for cell in cells if cell.number in open_]
        if not cells or ends >= until.most:
            return rows
        begun, ends = ends, min(until.most, math.ceil(ends * GROWTH))


def _judged(plan: Plan, rows: Sequence[Row]) -> list[Row]:
    """Put intervals and verdicts that hold at every look in the place of the others."""
    better = {(choice.figure, choice.workload): choice.better for choice in plan.figures}
    count = sum(row.compared is not None for row in rows)
    alpha = plan.significance / max(1, count)
    judged = []
    for row in rows:
        if row.compared is None or row.moments is None:
            judged.append(row)
            continue
        interval = None
        if row.moments.n >= LEAST:
            interval = any_time(PairedMoments(row.moments), alpha)
        pct = None if interval is None else (100 * interval[0], 100 * interval[1])
        wanted = better.get((row.figure, row.workload), better.get((row.figure, None)))
        compared = replace(
            row.compared,
            interval_pct=pct,
            bootstrap_pct=None,
            p=None,
            p_holm=None,
            p_bh=None,
            p_equivalent=None,
            verdict=_verdict(pct, wanted, plan.margin_pct),
            iterations=None,
        )
        judged.append(replace(row, compared=compared))
    return judged


def _verdict(interval: Interval | None, better: Better | None, margin_pct: float) -> Verdict:
    if interval is None:
        return "inconclusive"
    low, high = interval
    if -margin_pct <= low and high <= margin_pct:
        return "equivalent"
    if (low > 0 or high < 0) and better is not None:
        return "improved" if (low > 0) == (better == "higher") else "regressed"
    return "inconclusive"


def _settled(row: Row, until: Until) -> bool:
    compared = row.compared
    if compared is None or compared.interval_pct is None:
        return False
    low, high = compared.interval_pct
    if until.width_pct is not None:
        return high - low <= until.width_pct
    return compared.verdict != "inconclusive" or low > 0 or high < 0


@dataclass(frozen=True)
class Pick:
    """The best variant of a cell."""

    cell: Cell
    variant: str
    """The best, or one within the indifference zone of it."""
    zone: float
    """In the figure's unit."""
    means: Sequence[tuple[str, int, float, int | None]]
    """Variant, runs, their mean, and after how many it was dropped; best first."""


def pick(session: Session, figure: str, *, zone_pct: float, most: int = 1000) -> list[Pick]:
    """Find the best variant of every cell by the procedure of Kim and Nelson.

    ``zone_pct`` is what a difference must be to matter, in percent of the least mean of the first
    stage, which is as many runs as the plan has iterations, 10 at least.

    Raises :class:`schedlab.StudyError` for a figure of which nobody says what is better, or that a
    run does not have, and where ``most`` iterations do not decide.
    """
    plan, todo = session.plan, session.todo
    choice = next((each for each in plan.figures if each.figure == figure), None)
    if choice is None or choice.better is None:
        raise StudyError(f"{plan.name}: --select {figure}: add a [[figure]] with what is better")
    sign = 1.0 if choice.better == "lower" else -1.0
    first = max(10, plan.iterations)
    count = len(plan.variants)
    cells = list(todo.cells())
    begin = ((todo.block(cell, number)) for number in range(first) for cell in cells)
    session.carry_out(begin, first * len(cells) * count)
    alpha = plan.significance / len(cells)
    picks = []
    for cell in cells:
        stored = values_of(session, figure, cell.number, 0)
        means = [sum(values) / len(values) for values in stored.values()]
        zone = zone_pct / 100 * min(map(abs, means), default=0.0)
        if len(means) < count or not zone > 0:
            raise StudyError(
                f"{plan.name}: {figure!r} of {cell.workload} has no values to choose by; name "
                "another figure"
            )
        search = Selection(count, zone=zone, alpha=alpha, first=first)
        ends = first
        while len(search.left) > 1:
            if search.runs == ends:
                if ends >= most:
                    raise StudyError(
                        f"{plan.name}: {most} iterations do not tell {len(search.left)} variants "
                        f"apart by {zone_pct:g} %; allow more by --most, or a wider --zone"
                    )
                begun, ends = ends, min(most, ends + max(1, math.ceil(AHEAD * ends)))
                left = tuple(search.left)
                more = (todo.block(cell, number, left) for number in range(begun, ends))
                session.carry_out(more, (ends - begun) * len(left))
                stored = values_of(session, figure, cell.number, 0)
            run = search.runs
            _feed(search, stored, run, sign, f"{plan.name}: {figure!r} of {cell.workload}")
        picks.append(_picked(plan, cell, search, zone, sign))
    return picks


def _feed(
    search: Selection, stored: dict[int, list[float]], run: int, sign: float, what: str
) -> None:
    values = {}
    for at in search.left:
        if run >= len(stored.get(at, ())):
            raise StudyError(
                f"{what} is missing in a run; name another figure, or look at failures"
            )
        values[at] = sign * stored[at][run]
    search.add(values)


def _picked(plan: Plan, cell: Cell, search: Selection, zone: float, sign: float) -> Pick:
    best = search.left[0]
    order = sorted(
        range(len(plan.variants)),
        key=lambda at: (at != best, -(search.dropped_at.get(at) or 0), search.mean(at)),
    )
    return Pick(
        cell=cell,
        variant=plan.variants[best],
        zone=zone,
        means=[
            (plan.variants[at], search.count(at), sign * search.mean(at), search.dropped_at.get(at))
            for at in order
        ],
    )
