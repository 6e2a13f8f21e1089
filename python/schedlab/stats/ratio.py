"""Tests of the ratio of two means or medians, from which interval, p and equivalence follow.

A change ``c`` says that the other's mean is the base's times 1 + c. For any c that can be tested,
so the interval is all c that no test refuses (Fieller's theorem; E. C. Fieller, "Some problems in
interval estimation", 1954): interval, p and equivalence never contradict one another, and the
baseline's own uncertainty is in all of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize, special

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.stats.summary import Interval

__all__ = [
    "GeometricMean",
    "IndependentMeans",
    "Medians",
    "PairedGeometricMeans",
    "PairedMeans",
    "PairedMedians",
    "RatioTest",
    "Summary",
    "logarithms",
    "quantile",
    "standard_error",
]

# A change beyond this factor is no change of a benchmark: the base's mean cannot be told from 0.
UNBOUNDED = 1e6


class RatioTest(ABC):
    """What two samples say about the change from the first to the second."""

    change: float
    """The estimate: 0.02 for 2 % more."""
    error: float
    """Its standard error."""
    df: float
    """Degrees of freedom of that; infinite where a normal deviate tests."""
    unit_error: float
    """Standard error of ``change`` that a single iteration of each would have."""
    paired: bool

    @abstractmethod
    def statistic(self, change: float) -> tuple[float, float]:
        """Give t and its degrees of freedom for the hypothesis of this change.

        t is positive where the data lie above the hypothesis.
        """

    @property
    def exact(self) -> bool:
        """Whether nothing varies, so that the estimate is the truth."""
        return self.unit_error == 0

    def p(self) -> float:
        """Test that there is no change, two-sided."""
        t, df = self.statistic(0.0)
        return 2 * _upper(abs(t), df)

    def p_equivalent(self, margin: float) -> float:
        """Test that the change lies beyond the margin: the larger p of two one-sided tests."""
        if self.exact:
            return 0.0 if abs(self.change) <= margin else 1.0
        above, below = self.statistic(-margin), self.statistic(margin)
        return max(_upper(above[0], above[1]), _upper(-below[0], below[1]))

    def interval(self, confidence: float) -> Interval | None:
        """Give every change that a test of level 1 - ``confidence`` does not refuse.

        ``None`` where that has no bounds, since the base's mean may be 0.
        """
        if self.exact:
            return self.change, self.change
        low, high = (self._bound(confidence, side) for side in (-1, 1))
        return None if low is None or high is None else (low, high)

    def _bound(self, confidence: float, side: int) -> float | None:
        level = (1 + confidence) / 2

        def refused(change: float) -> float:
            t, df = self.statistic(change)
            return abs(t) - quantile(level, df)

        step = self.unit_error
        while refused(self.change + side * step) <= 0:
            step *= 2
            if step > UNBOUNDED:
                return None
        found: float = optimize.brentq(refused, self.change, self.change + side * step)
        return found


@dataclass(frozen=True)
class Summary:
    """All that a published table tells of a sample."""

    mean: float
    std: float
    """Of a sample: with n - 1 in the denominator."""
    n: int


class IndependentMeans(RatioTest):
    """Welch's test, at no change; B. L. Welch, Biometrika 34, 1947.

    >>> test = IndependentMeans(Summary(100, 1, 5), Summary(103, 1, 5))
    >>> round(test.change, 3), round(test.p(), 4)
    (0.03, 0.0015)
    """

    paired = False

    def __init__(self, base: Summary, other: Summary) -> None:
        """Compare two samples of at least two values each."""
        if min(base.n, other.n) < 2:  # noqa: PLR2004 - a spread needs two
            raise ValueError("a test needs two values of each")
        self.base, self.other = base, other
        self.scale = _scale(base.mean)
        self.change = (other.mean - base.mean) / self.scale
        ratio = other.mean / self.scale
        self.unit_error = math.hypot(ratio * base.std, other.std) / self.scale
        if base.std == other.std == 0:
            self.unit_error = 0.0
        variance, self.df = self._variance(other.mean / base.mean)
        self.error = math.sqrt(variance) / self.scale

    def _variance(self, factor: float) -> tuple[float, float]:
        """Give the variance of other - factor x base, and its degrees of freedom."""
        a, b = factor * factor * self.base.std**2 / self.base.n, self.other.std**2 / self.other.n
        return a + b, _satterthwaite((a, self.base.n), (b, self.other.n))

    def statistic(self, change: float) -> tuple[float, float]:
        """Give t and its degrees of freedom, as Satterthwaite approximates them."""
        factor = 1 + change * math.copysign(1, self.base.mean)
        distance = self.other.mean - factor * self.base.mean
        variance, df = self._variance(factor)
        return (distance / math.sqrt(variance) if variance else _certain(distance)), df


class PairedMeans(RatioTest):
    """The paired t test, at no change.

    >>> test = PairedMeans([100.0, 110.0, 120.0], [101.0, 112.0, 122.0])
    >>> round(test.change, 4), round(test.p(), 4)
    (0.0152, 0.0377)
    """

    paired = True

    def __init__(self, base: Sequence[float], other: Sequence[float]) -> None:
        """Compare at least two pairs."""
        if len(base) != len(other) or len(base) < 2:  # noqa: PLR2004 - as above
            raise ValueError(f"{len(base)} and {len(other)} values give no test of pairs")
        self.base, self.other = base, other
        self.mean = fmean(base)
        self.scale = _scale(self.mean)
        # One difference at a time, so that equal differences stay equal.
        self.change = fmean(b - a for a, b in zip(base, other, strict=True)) / self.scale
        self.error = self._error(self.change) / self.scale
        self.df = len(base) - 1
        self.unit_error = self.error * math.sqrt(len(base))

    def _differences(self, change: float) -> list[float]:
        factor = 1 + change * math.copysign(1, self.mean)
        return [b - factor * a for a, b in zip(self.base, self.other, strict=True)]

    def _error(self, change: float) -> float:
        size = max(map(abs, [*self.base, *self.other]))
        return standard_error(self._differences(change), size)

    def statistic(self, change: float) -> tuple[float, float]:
        """Give t and its degrees of freedom."""
        distance, error = fmean(self._differences(change)), self._error(change)
        if error == 0:
            return _certain(distance), len(self.base) - 1
        return distance / error, len(self.base) - 1


class Medians(RatioTest):
    """The ratio of medians without any assumed distribution.

    R. M. Price and D. G. Bonett, "Distribution-free confidence intervals for difference and ratio
    of medians", Journal of Statistical Computation and Simulation 72, 2002: the variance of a
    log median from two order statistics. Where they take a normal deviate, which sees too much
    certainty in few values, this takes Student's t with the samples' degrees of freedom.

    >>> test = Medians([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 4.0, 6.0, 8.0, 10.0])
    >>> round(test.change, 4)
    1.0
    """

    paired = False

    def __init__(self, base: Sequence[float], other: Sequence[float]) -> None:
        """Compare two samples of positive values."""
        here, there = logarithms(base), logarithms(other)
        self.log_change = median(there) - median(here)
        self.change = math.expm1(self.log_change)
        a, b = _median_variance(here), _median_variance(there)
        self.log_error = math.sqrt(a + b)
        self.error = (1 + self.change) * self.log_error
        self.df = _satterthwaite((a, len(base)), (b, len(other)))
        self.unit_error = (1 + self.change) * math.sqrt(a * len(base) + b * len(other))

    def statistic(self, change: float) -> tuple[float, float]:
        """Give t and its degrees of freedom."""
        distance = self.log_change - math.log1p(change) if change > -1 else math.inf
        return (distance / self.log_error if self.log_error else _certain(distance)), self.df


class PairedMedians(Medians):
    """The median of the ratios of pairs, by the same order statistics."""

    paired = True

    def __init__(self, base: Sequence[float], other: Sequence[float]) -> None:
        """Compare pairs of positive values."""
        ratios = [b - a for a, b in zip(logarithms(base), logarithms(other), strict=True)]
        self.log_change = median(ratios)
        self.change = math.expm1(self.log_change)
        variance = _median_variance(ratios)
        self.log_error = math.sqrt(variance)
        self.error, self.df = (1 + self.change) * self.log_error, len(ratios) - 1
        self.unit_error = self.error * math.sqrt(len(ratios))


class PairedGeometricMeans(RatioTest):
    """The paired t test of logarithms: the change of a geometric mean.

    >>> test = PairedGeometricMeans([100.0, 110.0, 120.0], [101.0, 112.0, 122.0])
    >>> round(test.change, 4), round(test.p(), 4)
    (0.0149, 0.0268)
    """

    paired = True

    def __init__(self, base: Sequence[float], other: Sequence[float]) -> None:
        """Compare at least two pairs of positive values."""
        if len(base) != len(other) or len(base) < 2:  # noqa: PLR2004 - as above
            raise ValueError(f"{len(base)} and {len(other)} values give no test of pairs")
        here, there = logarithms(base), logarithms(other)
        ratios = [b - a for a, b in zip(here, there, strict=True)]
        self.log_change = fmean(ratios)
        self.change = math.expm1(self.log_change)
        self.log_error = standard_error(ratios, max(map(abs, [*here, *there])))
        self.df = len(ratios) - 1
        self.error = (1 + self.change) * self.log_error
        self.unit_error = self.error * math.sqrt(len(ratios))

    def statistic(self, change: float) -> tuple[float, float]:
        """Give t and its degrees of freedom."""
        distance = self.log_change - math.log1p(change) if change > -1 else math.inf
        return (distance / self.log_error if self.log_error else _certain(distance)), self.df


class GeometricMean(RatioTest):
    """The geometric mean of several ratios: of these cases, not of others one might have taken.

    >>> half, twice = Summary(5, 0.1, 5), Summary(20, 0.4, 5)
    >>> cases = [IndependentMeans(Summary(10, 0.2, 5), other) for other in (half, twice)]
    >>> abs(round(GeometricMean(cases, 5).change, 9))
    0.0
    """

    def __init__(self, cases: Sequence[RatioTest], iterations: int) -> None:
        """Combine cases of so many iterations each; no ratio may be negative."""
        if min(case.change for case in cases) <= -1:
            raise ValueError("a geometric mean needs positive ratios")
        self.paired = all(case.paired for case in cases)
        self.log_change = fmean(math.log1p(case.change) for case in cases)
        self.change = math.expm1(self.log_change)
        variances = [(case.error / (1 + case.change)) ** 2 for case in cases]
        total = math.fsum(variances)
        self.log_error = math.sqrt(total) / len(cases)
        shares = math.fsum(v * v / case.df for v, case in zip(variances, cases, strict=True))
        self.df = total * total / shares if shares else math.inf
        self.error = (1 + self.change) * self.log_error
        self.unit_error = self.error * math.sqrt(iterations)

    def statistic(self, change: float) -> tuple[float, float]:
        """Give t and its degrees of freedom (Satterthwaite)."""
        distance = self.log_change - math.log1p(change) if change > -1 else math.inf
        return (distance / self.log_error if self.log_error else _certain(distance)), self.df


def standard_error(values: Sequence[float], size: float = 0.0) -> float:
    """Give the standard error of the mean; exactly 0 for equal values, rounding or not.

    Values that agree to the precision of their arithmetic, on numbers as large as ``size``, are
    equal.
    """
    largest = max(size, *map(abs, values))
    if max(values) - min(values) <= 8 * math.ulp(largest):
        return 0.0
    mean = fmean(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance / len(values))


def _satterthwaite(*parts: tuple[float, int]) -> float:
    """Give the degrees of freedom of a sum of variances, each with its number of values."""
    shares = math.fsum(variance**2 / (n - 1) for variance, n in parts)
    return math.fsum(variance for variance, _ in parts) ** 2 / shares if shares else math.inf


def _median_variance(values: Sequence[float]) -> float:
    n = len(values)
    if n < 2:  # noqa: PLR2004 - as above
        raise ValueError("a test needs two values of each")
    rank = max(1, round((n + 1) / 2 - math.sqrt(n)))
    tail = float(special.bdtr(rank - 1, n, 0.5))
    z = float(special.ndtri(1 - tail))
    ordered = np.sort(np.asarray(values))
    # Two values have their ranks at the ends, where z would still be positive.
    return float((ordered[n - rank] - ordered[rank - 1]) / (2 * z)) ** 2


def logarithms(values: Sequence[float]) -> list[float]:
    """Give the logarithms of positive values; raises ``ValueError`` for others."""
    if min(values) <= 0:
        raise ValueError("a ratio needs positive values; compare arithmetic means instead")
    return [math.log(value) for value in values]


def _scale(mean: float) -> float:
    if mean == 0 or not math.isfinite(mean):
        raise ValueError(f"a baseline whose mean is {mean} gives no change in percent")
    return abs(mean)


def _certain(distance: float) -> float:
    return math.copysign(math.inf, distance) if distance else 0.0


def _upper(t: float, df: float) -> float:
    return float(special.ndtr(-t) if math.isinf(df) or math.isinf(t) else special.stdtr(df, -t))


def quantile(level: float, df: float) -> float:
    """Give the quantile of Student's t, or of a normal deviate for infinite ``df``."""
    return float(special.ndtri(level) if math.isinf(df) else special.stdtrit(df, level))
