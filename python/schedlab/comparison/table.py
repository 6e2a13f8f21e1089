"""The table of a comparison: every case under every label against the baseline, judged together."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING

from schedlab import stats
from schedlab.comparison.model import Case, CompareError
from schedlab.names import near

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.comparison.model import Results, Sample
    from schedlab.stats import Better, Comparison, Drift, Measured, Statistic, Summary

__all__ = ["Row", "Settings", "Side", "Table", "tabulate"]


@dataclass(frozen=True)
class Settings:
    """How to compare."""

    rules: stats.Rules = field(default_factory=stats.Rules)
    statistic: Statistic = "mean"
    paired: bool | None = None
    """``None``: where iterations took turns."""
    base: str | None = None
    """The baseline's label; the first by default."""
    bootstrap: bool = True


@dataclass(frozen=True)
class Side:
    """One label's part of a row."""

    label: str
    n: int
    middle: float
    """Mean or median."""
    std_pct: float | None
    """Standard deviation of a sample, percent of the mean; ``None`` from a single value."""
    values: Sequence[float] = ()
    """In the order of time."""
    iterations: Sequence[str] = ()
    """The names of those."""
    outliers: Sequence[int] = ()
    """Places among the values."""
    drift: Drift | None = None


@dataclass(frozen=True)
class Row:
    """One case under one label against the baseline."""

    case: Case
    base: Side
    other: Side
    compared: Comparison
    paired: bool
    flagged: bool = False
    """Marked in the publication."""
    notes: Sequence[str] = ()
    """What a reader should know before believing the row."""

    @property
    def effect(self) -> float:
        """Give the ratio of other to base."""
        return 1 + self.compared.change_pct / 100

    @property
    def gain_pct(self) -> float:
        """Give the change with its sign turned so that positive is better.

        Where nobody says what is better, it is the plain change.
        """
        change = self.compared.change_pct
        if self.case.better == "lower":
            return 0.0 if change == 0 else -change
        return change


@dataclass(frozen=True)
class Table:
    """All rows, and the settings and circumstances that they hold under."""

    rows: Sequence[Row]
    geomeans: Sequence[Row]
    """Over the cases of each benchmark and metric, judged among themselves."""
    settings: Settings
    base: str
    others: Sequence[str]
    unread: Sequence[str]
    provenance: dict[str, str]
    interleaved: bool

    def regressions(self, beyond_pct: float) -> list[Row]:
        """Give the rows shown to be worse whose estimate is worse than a limit."""
        return [
            row
            for row in self.rows
            if row.compared.verdict == "regressed" and -row.gain_pct > beyond_pct
        ]


@dataclass(frozen=True)
class _Draft:
    case: Case
    base: Side
    other: Side
    measured: Measured
    paired: bool
    flagged: bool
    notes: list[str]


def tabulate(results: Results, settings: Settings) -> Table:
    """Compare all labels of ``results`` with the baseline.

    Raises :class:`schedlab.CompareError` where there are not two labels with a case in common.
    """
    labels = list(results.labels)
    base = settings.base or (labels[0] if labels else "")
    if base not in labels:
        raise CompareError(
            f"{base or 'baseline'}: no such label; there are {', '.join(labels)}"
            f"{near(base, labels)}"
        )
    others = [label for label in labels if label != base]
    if not others:
        raise CompareError(
            f"{base} is the only label; a comparison needs two (name another file, or set --label)"
        )
    unread = list(results.unread)
    drafts: list[_Draft] = []
    for other in others:
        drafts += _drafts(results, base, other, settings, unread)
    if not drafts:
        raise CompareError(
            f"no case stands under both {base} and {', '.join(others)}"
            + (f"; {unread[0]}" if unread else "; benchmark, case, metric and unit must agree")
        )
    return Table(
        rows=_judged(drafts, settings),
        geomeans=_judged(_geomeans(drafts, settings), settings),
        settings=settings,
        base=base,
        others=others,
        unread=unread,
        provenance=results.provenance,
        interleaved=results.interleaved,
    )


def _judged(drafts: Sequence[_Draft], settings: Settings) -> list[Row]:
    compared = stats.judge(
        [draft.measured for draft in drafts],
        [draft.case.better for draft in drafts],
        settings.rules,
    )
    return [
        Row(
            case=draft.case,
            base=draft.base,
            other=draft.other,
            compared=each,
            paired=draft.paired,
            flagged=draft.flagged,
            notes=tuple(draft.notes),
        )
        for draft, each in zip(drafts, map(_doubted, drafts, compared), strict=True)
    ]


def _doubted(draft: _Draft, compared: Comparison) -> Comparison:
    """Withdraw a verdict that a drift may have made.

    Where iterations did not take turns, a drift as large as the change is the likelier cause.
    """
    if not _drift_may_explain(draft) or compared.verdict not in ("improved", "regressed"):
        return compared
    from dataclasses import replace  # noqa: PLC0415 - rare

    draft.notes.append("the drift is as large as the change: let the labels take turns")
    return replace(compared, verdict="inconclusive", iterations=None)


def _drift_may_explain(draft: _Draft) -> bool:
    if draft.paired:
        return False
    sizes = [abs(side.drift.pct) for side in (draft.base, draft.other) if side.drift]
    return bool(sizes) and max(sizes) >= abs(draft.measured.change_pct)


def _drafts(
    results: Results, base: str, other: str, settings: Settings, unread: list[str]
) -> list[_Draft]:
    drafts = []
    for case, samples in results.samples.items():
        if base in samples and other in samples:
            draft = _of_samples(results, case, base, other, settings)
        elif other in samples or base in samples:
            unread.append(f"{case.name}: only under {other if other in samples else base}")
            continue
        else:
            continue
        if isinstance(draft, str):
            unread.append(draft)
        else:
            drafts.append(draft)
    for case, summaries in results.summaries.items():
        if base in summaries and other in summaries:
            drafts.append(_of_summaries(results, case, base, other, settings))
    for case, changes in results.changes.items():
        if other in changes:
            drafts.append(_of_change(results, case, base, other, changes[other]))
    return drafts


def _of_samples(
    results: Results, case: Case, base: str, other: str, settings: Settings
) -> _Draft | str:
    mine, theirs = results.samples[case][base], results.samples[case][other]
    notes: list[str] = []
    paired = results.interleaved if settings.paired is None else settings.paired
    if paired:
        common = [name for name in mine.values if name in theirs.values]
        alone = len(mine.values) + len(theirs.values) - 2 * len(common)
        if alone:
            notes.append(f"{alone} iterations without a partner left out")
        here = [mine.values[name] for name in common]
        there = [theirs.values[name] for name in common]
        if not common:
            return f"{case.name}: no iteration of {base} has a partner under {other}"
    else:
        here, there = list(mine.values.values()), list(theirs.values.values())
    try:
        measured = stats.measure(
            here,
            there,
            paired=paired,
            statistic=settings.statistic,
            significance=settings.rules.significance,
            resamples=1999 if settings.bootstrap else 0,
        )
    except ValueError as error:
        return f"{case.name}: {error}"
    left, right = _side(base, mine, settings), _side(other, theirs, settings)
    for side in (left, right):
        if side.outliers:
            names = ", ".join(side.iterations[place] for place in side.outliers[:5])
            more = f" and {len(side.outliers) - 5} more" if len(side.outliers) > 5 else ""  # noqa: PLR2004 - as many as a line holds
            notes.append(f"outliers of {side.label}: iteration {names}{more}")
        if side.drift:
            notes.append(f"{side.label} drifts by {side.drift.pct:+.1f} % over its iterations")
    notes += _lacks(case, measured)
    return _Draft(case, left, right, measured, paired, (case, other) in results.flagged, notes)


def _lacks(case: Case, measured: Measured) -> list[str]:
    notes = []
    if measured.p is None:
        notes.append("nothing tells of the spread: repeat it")
    elif measured.interval_pct is None:
        notes.append("the baseline cannot be told from 0, so the change has no bounds")
    if case.better is None:
        notes.append("what is better is not said: set the column better")
    return notes


def _side(label: str, sample: Sample, settings: Settings) -> Side:
    values = sample.in_time()
    names = list(sample.values)
    if len(sample.times) == len(sample.values):
        names.sort(key=sample.times.__getitem__)
    return Side(
        label=label,
        n=len(values),
        middle=fmean(values) if settings.statistic == "mean" else median(values),
        std_pct=stats.spread_pct(values),
        values=values,
        iterations=names,
        outliers=stats.outliers(values),
        drift=stats.drift(values),
    )


def _of_summaries(
    results: Results, case: Case, base: str, other: str, settings: Settings
) -> _Draft:
    mine, theirs = results.summaries[case][base], results.summaries[case][other]
    measured = stats.measure_summaries(mine, theirs, significance=settings.rules.significance)
    flagged = (case, other) in results.flagged
    sides = (_summary_side(base, mine), _summary_side(other, theirs))
    return _Draft(
        case, *sides, measured, paired=False, flagged=flagged, notes=_lacks(case, measured)
    )


def _summary_side(label: str, summary: Summary) -> Side:
    std_pct = 100 * summary.std / abs(summary.mean) if summary.n > 1 and summary.mean else None
    return Side(label, summary.n, summary.mean, std_pct)


def _of_change(results: Results, case: Case, base: str, other: str, change_pct: float) -> _Draft:
    measured = stats.Measured(change_pct, None, None, None, None)
    sides = (Side(base, 1, 1.0, None), Side(other, 1, 1 + change_pct / 100, None))
    notes = ["no spread was published"]
    flagged = (case, other) in results.flagged
    return _Draft(case, *sides, measured, paired=False, flagged=flagged, notes=notes)


def _geomeans(drafts: Sequence[_Draft], settings: Settings) -> list[_Draft]:
    groups: dict[tuple[str, str, str, Better | None, str], list[_Draft]] = {}
    for draft in drafts:
        case = draft.case
        key = (case.benchmark, case.metric, case.unit, case.better, draft.other.label)
        groups.setdefault(key, []).append(draft)
    found = []
    for (benchmark, metric, unit, better, label), members in groups.items():
        tests = [member.measured.test for member in members if member.measured.test is not None]
        if len(tests) < 2:  # noqa: PLR2004 - one case is its own mean
            continue
        kept = [member for member in members if member.measured.test is not None]
        least = min(min(member.base.n, member.other.n) for member in kept)
        try:
            measured = stats.measure_geomean(tests, least, significance=settings.rules.significance)
        except ValueError:
            continue
        middles = [
            math.exp(fmean(math.log(side.middle) for side in sides))
            if min(side.middle for side in sides) > 0
            else math.nan
            for sides in ([m.base for m in kept], [m.other for m in kept])
        ]
        found.append(
            _Draft(
                Case(benchmark, f"geometric mean of {len(kept)} cases", metric, unit, better),
                Side(kept[0].base.label, least, middles[0], None),
                Side(label, least, middles[1], None),
                measured,
                paired=kept[0].paired,
                flagged=False,
                notes=[],
            )
        )
    return found
