"""From samples to verdicts: each row's effect by itself, then all rows judged together."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from schedlab.stats.power import to_settle
from schedlab.stats.ratio import (
    GeometricMean,
    IndependentMeans,
    Medians,
    PairedGeometricMeans,
    PairedMeans,
    PairedMedians,
    RatioTest,
)
from schedlab.stats.summary import mean_of, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.stats.ratio import Summary
    from schedlab.stats.summary import Interval

__all__ = [
    "Better",
    "Comparison",
    "Correction",
    "Measured",
    "Rules",
    "Statistic",
    "Verdict",
    "adjusted",
    "compare",
    "judge",
    "measure",
    "measure_geomean",
    "measure_geometric",
    "measure_summaries",
    "measure_test",
]

Better = Literal["higher", "lower"]
Verdict = Literal["improved", "regressed", "equivalent", "inconclusive"]
Correction = Literal["holm", "bh", "none"]
Statistic = Literal["mean", "median"]

RESAMPLES = 1999
# The bootstrap takes time with the square of a sample, and says what t does where values are many.
BOOTSTRAP_VALUES_MAX = 2000
# What one batch of resampled values may take: a sample of many values is resampled in turns.
BATCH_VALUES = 1 << 20


@dataclass(frozen=True)
class Rules:
    """How rows are judged; the same for all rows of a table."""

    margin_pct: float = 2.0
    """Changes within it are no matter: the margin of ``equivalent``."""
    significance: float = 0.05
    """The rate of false alarms that is put up with, over all rows."""
    correction: Correction = "holm"
    """``holm`` bounds the chance of any false alarm in the table, ``bh`` (Benjamini and Hochberg)
    the share of false ones among the alarms; ``none`` leaves each row its own rate."""
    power: float = 0.8
    """The chance with which the proposed number of iterations settles a row."""


@dataclass(frozen=True)
class Measured:
    """One row before it is judged."""

    change_pct: float
    interval_pct: Interval | None
    """By t, or by order statistics for medians; ``None`` from single values, and where the base's
    mean cannot be told from 0."""
    bootstrap_pct: Interval | None
    """By the bias-corrected and accelerated bootstrap; ``None`` where there is nothing to
    resample."""
    p: float | None
    test: RatioTest | None


@dataclass(frozen=True)
class Comparison:
    """A treatment against its baseline, in percent of the baseline."""

    change_pct: float
    interval_pct: Interval | None
    """The confidence interval of this row alone; ``None`` where nothing tells of the spread."""
    bootstrap_pct: Interval | None
    p: float | None
    """Of no difference, two-sided, of this row alone."""
    p_holm: float | None
    """p with any false alarm in all rows in mind."""
    p_bh: float | None
    """p with the share of false alarms in mind."""
    p_equivalent: float | None
    """Of two one-sided tests of the margin. It needs no correction: a claim that all rows are
    equivalent is wrong only if each is (the intersection-union test)."""
    verdict: Verdict
    """``equivalent``: shown to be within the margin. ``improved`` and ``regressed``: significant
    after correction, and not shown to be within it. Else ``inconclusive``."""
    error_pct: float | None
    """Standard error of the change."""
    df: float | None
    """Its degrees of freedom; infinite where a normal deviate tests."""
    iterations: int | None
    """Of each, that would settle an inconclusive row if its change is the truth; ``None`` if a
    million would not, or nothing tells of the spread."""

    def p_corrected(self, correction: Correction) -> float | None:
        """Give p as this correction makes it."""
        return {"holm": self.p_holm, "bh": self.p_bh, "none": self.p}[correction]


def measure(
    base: Sequence[float],
    other: Sequence[float],
    *,
    paired: bool,
    statistic: Statistic = "mean",
    significance: float = 0.05,
    resamples: int = RESAMPLES,
    seed: int = 1,
) -> Measured:
    """Measure the change from one sample to another.

    Raises ``ValueError`` for samples that do not pair, or a base whose mean is 0.
    """
    if not base or not other or (paired and len(base) != len(other)):
        raise ValueError(f"{len(base)} and {len(other)} figures do not pair by iteration")
    if min(len(base), len(other)) < 2:  # noqa: PLR2004 - a spread needs two
        return _single(base, other)
    kinds: dict[tuple[Statistic, bool], type[PairedMeans | Medians]] = {
        ("mean", True): PairedMeans,
        ("median", True): PairedMedians,
        ("median", False): Medians,
    }
    kind = kinds.get((statistic, paired))
    test = kind(base, other) if kind else IndependentMeans(summary(base), summary(other))
    bootstrap = None
    if resamples and not test.exact and max(len(base), len(other)) <= BOOTSTRAP_VALUES_MAX:
        bootstrap = _bootstrap(
            base,
            other,
            paired=paired,
            statistic=statistic,
            confidence=1 - significance,
            resamples=resamples,
            seed=seed,
        )
    return _measured(test, significance, bootstrap)


def measure_geometric(
    base: Sequence[float], other: Sequence[float], *, significance: float = 0.05
) -> Measured:
    """Measure the change of the geometric mean from one sample to another, pair by pair.

    Raises ``ValueError`` for samples that do not pair, or values that are not positive.
    """
    if not base or len(base) != len(other):
        raise ValueError(f"{len(base)} and {len(other)} figures do not pair by iteration")
    if len(base) < 2:  # noqa: PLR2004 - as above
        return _single([mean_of(base, "geometric")], [mean_of(other, "geometric")])
    return _measured(PairedGeometricMeans(base, other), significance, None)


def measure_summaries(base: Summary, other: Summary, *, significance: float = 0.05) -> Measured:
    """Measure a change where mean, standard deviation and size are all that is known."""
    if min(base.n, other.n) < 2:  # noqa: PLR2004 - as above
        return _single([base.mean], [other.mean])
    return _measured(IndependentMeans(base, other), significance, None)


def measure_geomean(
    cases: Sequence[RatioTest], iterations: int, *, significance: float = 0.05
) -> Measured:
    """Measure the geometric mean of the changes of several cases of so many iterations.

    Raises ``ValueError`` for a case that turned negative.
    """
    return _measured(GeometricMean(cases, iterations), significance, None)


def measure_test(test: RatioTest, *, significance: float = 0.05) -> Measured:
    """Measure a change by a test that somebody else has made."""
    return _measured(test, significance, None)


def _single(base: Sequence[float], other: Sequence[float]) -> Measured:
    here, there = float(np.mean(base)), float(np.mean(other))
    if here == 0:
        raise ValueError("a baseline of 0 gives no change in percent")
    return Measured(100 * (there - here) / abs(here), None, None, None, None)


def _measured(test: RatioTest, significance: float, bootstrap: Interval | None) -> Measured:
    interval = test.interval(1 - significance)
    return Measured(
        change_pct=100 * test.change,
        interval_pct=None if interval is None else (100 * interval[0], 100 * interval[1]),
        bootstrap_pct=bootstrap,
        p=test.p(),
        test=test,
    )


def _bootstrap(
    base: Sequence[float],
    other: Sequence[float],
    *,
    paired: bool,
    statistic: Statistic,
    confidence: float,
    resamples: int,
    seed: int,
) -> Interval | None:
    from scipy import stats  # noqa: PLC0415 - summaries need none

    def change(here: np.ndarray, there: np.ndarray, axis: int = -1) -> np.ndarray:
        if statistic == "median" and paired:
            return np.asarray(np.expm1(np.median(np.log(there) - np.log(here), axis=axis)))
        middle = np.mean if statistic == "mean" else np.median
        a, b = middle(here, axis=axis), middle(there, axis=axis)
        return np.asarray((b - a) / np.abs(a))

    samples = (np.asarray(base, dtype=float), np.asarray(other, dtype=float))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # A sample of which every resampling gives the same has no interval, which NaN tells.
        warnings.simplefilter("ignore")
        found = stats.bootstrap(
            samples,
            change,
            n_resamples=resamples,
            batch=max(1, BATCH_VALUES // max(len(base), len(other))),
            paired=paired,
            vectorized=True,
            confidence_level=confidence,
            method="BCa",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    low, high = float(found.low), float(found.high)
    return (100 * low, 100 * high) if np.isfinite(low) and np.isfinite(high) else None


def adjusted(p_values: Sequence[float | None], correction: Correction) -> list[float | None]:
    """Correct p values for their number; what is ``None`` stays so and does not count.

    >>> adjusted([0.01, None, 0.04, 0.03], "holm")
    [0.03, None, 0.06, 0.06]
    """
    known = [p for p in p_values if p is not None]
    if correction == "none" or len(known) <= 1:
        return list(p_values)
    from statsmodels.stats.multitest import multipletests  # noqa: PLC0415 - half a second

    corrected = iter(multipletests(known, method={"holm": "holm", "bh": "fdr_bh"}[correction])[1])
    return [None if p is None else float(next(corrected)) for p in p_values]


def judge(
    rows: Sequence[Measured],
    better: Sequence[Better | None],
    rules: Rules,
    margins_pct: Sequence[float] | None = None,
) -> list[Comparison]:
    """Judge all rows of a table together; ``margins_pct`` where not all have that of the rules.

    A row of which nobody says what is better ends as ``equivalent`` or ``inconclusive``.
    """
    p_values = [row.p for row in rows]
    holm, bh = adjusted(p_values, "holm"), adjusted(p_values, "bh")
    decisive = {"holm": holm, "bh": bh, "none": p_values}[rules.correction]
    tests = sum(p is not None for p in p_values)
    level = rules.significance / (1 if rules.correction == "none" else max(1, tests))
    margins = margins_pct or [rules.margin_pct] * len(rows)
    return [
        _judged(row, wanted, replace(rules, margin_pct=margin), corrected=(h, b), p=p, level=level)
        for row, wanted, margin, h, b, p in zip(
            rows, better, margins, holm, bh, decisive, strict=True
        )
    ]


def _judged(
    row: Measured,
    better: Better | None,
    rules: Rules,
    *,
    corrected: tuple[float | None, float | None],
    p: float | None,
    level: float,
) -> Comparison:
    verdict: Verdict = "inconclusive"
    equivalent, iterations = None, None
    if row.test is not None and p is not None:
        equivalent = row.test.p_equivalent(rules.margin_pct / 100)
        # What is exact is within the margin or not; no chance is left to a test.
        if equivalent < rules.significance or (row.test.exact and equivalent == 0):
            verdict = "equivalent"
        elif p < rules.significance and better is not None:
            verdict = "improved" if (row.change_pct > 0) == (better == "higher") else "regressed"
        else:
            iterations = to_settle(
                row.test.change,
                rules.margin_pct / 100,
                row.test.unit_error,
                significance=level,
                equivalence=rules.significance,
                paired=row.test.paired,
                power=rules.power,
            )
    return Comparison(
        change_pct=row.change_pct,
        interval_pct=row.interval_pct,
        bootstrap_pct=row.bootstrap_pct,
        p=row.p,
        p_holm=corrected[0],
        p_bh=corrected[1],
        p_equivalent=equivalent,
        verdict=verdict,
        error_pct=None if row.test is None else 100 * row.test.error,
        df=None if row.test is None else row.test.df,
        iterations=iterations,
    )


def compare(
    baseline: Sequence[float],
    treatment: Sequence[float],
    *,
    better: Better,
    margin_pct: float,
    significance: float = 0.05,
    paired: bool = True,
    statistic: Statistic = "mean",
    resamples: int = RESAMPLES,
) -> Comparison:
    """Compare two samples by themselves: a table of one row.

    Simulated runs of one iteration share their random numbers, so their differences are what the
    kernels make of the same run. Where all differences are equal, that difference is exact: it
    is significant unless it is 0.

    >>> found = compare([100, 102, 98], [101, 103, 99], better="higher", margin_pct=0.5)
    >>> found.change_pct, found.p, found.verdict
    (1.0, 0.0, 'improved')
    >>> compare([100, 102, 98], [100, 102, 98], better="lower", margin_pct=0.5).verdict
    'equivalent'

    Raises ``ValueError`` for samples that do not pair, or a baseline whose mean is 0.
    """
    rules = Rules(margin_pct=margin_pct, significance=significance, correction="none")
    row = measure(
        baseline,
        treatment,
        paired=paired,
        statistic=statistic,
        significance=significance,
        resamples=resamples,
    )
    return judge([row], [better], rules)[0]
