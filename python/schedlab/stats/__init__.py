"""Comparisons that pair by iteration: effect, interval, test and a verdict in one word."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Comparison", "Interval", "Verdict", "compare", "mean_interval", "spread_pct"]

Interval = tuple[float, float]

Verdict = Literal["improved", "regressed", "equivalent", "inconclusive"]


@dataclass(frozen=True)
class Comparison:
    """A treatment against its baseline, in percent of the baseline's mean."""

    change_pct: float
    """Mean of the paired differences."""
    interval_pct: Interval | None
    """Its confidence interval; ``None`` from a single pair, which tells nothing of the spread."""
    p: float | None
    """Paired t test of no difference, two-sided; ``None`` from a single pair."""
    verdict: Verdict
    """``equivalent``: shown to be within the margin, by two one-sided tests. ``improved`` and
    ``regressed``: significant, and not shown to be within it. Else ``inconclusive``."""


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Give Student's confidence interval of a mean; ``None`` for fewer than two values.

    >>> low, high = mean_interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    >>> mean_interval([5.0, 5.0])
    (5.0, 5.0)
    """
    if len(values) < 2:  # noqa: PLR2004 - a spread needs two
        return None
    mean, error = fmean(values), _standard_error(values)
    if error == 0:
        return mean, mean
    from scipy import stats  # noqa: PLC0415 - half a second that most callers do not need

    half = float(stats.t.ppf((1 + confidence) / 2, len(values) - 1)) * error
    return mean - half, mean + half


def spread_pct(values: Sequence[float]) -> float | None:
    """Give the standard deviation (of a sample) in percent of the mean's size.

    >>> spread_pct([90.0, 110.0])
    14.142135623730951
    """
    mean = fmean(values)
    if len(values) < 2 or mean == 0:  # noqa: PLR2004 - as above
        return None
    return 100 * _standard_error(values) * math.sqrt(len(values)) / abs(mean)


def compare(
    baseline: Sequence[float],
    treatment: Sequence[float],
    *,
    better: Literal["higher", "lower"],
    margin_pct: float,
    significance: float = 0.05,
) -> Comparison:
    """Compare figures that pair by iteration.

    Simulated runs of one iteration share their random numbers, so their differences are what the
    kernels make of the same run. Where all differences are equal, that difference is exact: it
    is significant unless it is 0.

    >>> compare([100, 102, 98], [101, 103, 99], better="higher", margin_pct=0.5)
    Comparison(change_pct=1.0, interval_pct=(1.0, 1.0), p=0.0, verdict='improved')
    >>> compare([100, 102, 98], [100, 102, 98], better="lower", margin_pct=0.5).verdict
    'equivalent'

    Raises ``ValueError`` for lists that do not pair, or a baseline whose mean is 0.
    """
    if len(baseline) != len(treatment) or not baseline:
        raise ValueError(f"{len(baseline)} and {len(treatment)} figures do not pair by iteration")
    scale = abs(fmean(baseline))
    if scale == 0 or not math.isfinite(scale):
        raise ValueError(f"a baseline whose mean is {fmean(baseline)} gives no change in percent")
    # One difference at a time, so that equal differences stay equal.
    changes = [
        100 * (there - here) / scale for here, there in zip(baseline, treatment, strict=True)
    ]
    change = fmean(changes)
    interval = mean_interval(changes, 1 - significance)
    if interval is None:
        return Comparison(change, None, None, "inconclusive")
    p = _p_value(changes)
    # Both one-sided tests pass where the interval of twice the level lies within the margin.
    within = mean_interval(changes, 1 - 2 * significance)
    verdict: Verdict
    if within is not None and -margin_pct <= within[0] and within[1] <= margin_pct:
        verdict = "equivalent"
    elif p < significance:
        verdict = "improved" if (change > 0) == (better == "higher") else "regressed"
    else:
        verdict = "inconclusive"
    return Comparison(change, interval, p, verdict)


def _p_value(changes: Sequence[float]) -> float:
    error = _standard_error(changes)
    if error == 0:
        return 1.0 if fmean(changes) == 0 else 0.0
    from scipy import stats  # noqa: PLC0415 - as above

    return float(2 * stats.t.sf(abs(fmean(changes)) / error, len(changes) - 1))


def _standard_error(values: Sequence[float]) -> float:
    """Give the standard error of the mean; exactly 0 for equal values, rounding or not.

    Values that agree to the precision of their arithmetic are equal.
    """
    largest = max(map(abs, values))
    if max(values) - min(values) <= 8 * math.ulp(largest):
        return 0.0
    mean = fmean(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance / len(values))
