"""The paired test from sums alone, for samples that are too many to hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlab.stats.ratio import RatioTest, quantile

if TYPE_CHECKING:
    from schedlab.stats.summary import Interval

__all__ = ["Moments", "PairedMoments"]

# Below this share of the values' own size, a variance is what rounding leaves of none.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Moments:
    """What pairs of values leave behind, variances with n - 1 in the denominator."""

    n: int
    base: float
    """Mean of the base."""
    difference: float
    """Mean of other - base."""
    base_variance: float
    difference_variance: float
    covariance: float
    """Of difference and base."""


class PairedMoments(RatioTest):
    """The paired t test of :class:`schedlab.stats.ratio.PairedMeans`.

    >>> test = PairedMoments(Moments(3, 110.0, 5 / 3, 100.0, 1 / 3, 5.0))
    >>> round(test.change, 4), round(test.p(), 4)
    (0.0152, 0.0377)
    """

    paired = True

    def __init__(self, moments: Moments) -> None:
        """Compare at least two pairs whose base's mean is not 0."""
        if moments.n < 2 or moments.base == 0:  # noqa: PLR2004 - a spread needs two
            raise ValueError(f"{moments.n} pairs of mean {moments.base} give no test")
        self.moments = moments
        self.scale = abs(moments.base)
        self.change = moments.difference / self.scale
        self.df = moments.n - 1
        self.unit_error = math.sqrt(self.variance(self.change)) / self.scale
        self.error = self.unit_error / math.sqrt(moments.n)

    def variance(self, change: float) -> float:
        """Give the variance of other - (1 + change) base; 0 where only rounding is left."""
        own = self.moments
        factor = math.copysign(1.0, own.base) * change
        found = (
            own.difference_variance
            - 2 * factor * own.covariance
            + factor * factor * own.base_variance
        )
        size = max(abs(own.base), abs(own.base + own.difference))
        return found if found > (ROUNDING * size) ** 2 else 0.0

    def statistic(self, change: float) -> tuple[float, float]:
        """Give t and its degrees of freedom."""
        distance = (self.change - change) * self.scale
        variance = self.variance(change)
        if variance == 0:
            return (math.copysign(math.inf, distance) if distance else 0.0), self.df
        return distance / math.sqrt(variance / self.moments.n), self.df

    def interval(self, confidence: float) -> Interval | None:
        """Give every change that a test of level 1 - ``confidence`` does not refuse."""
        return self.within(quantile((1 + confidence) / 2, self.df))

    def within(self, critical: float) -> Interval | None:
        """Give every change whose t is at most ``critical``; ``None`` where that has no bounds."""
        if self.exact:
            return self.change, self.change
        own = self.moments
        sign = math.copysign(1.0, own.base)
        # (d - c s)^2 <= k (v - 2 c sign q + c^2 w), a parabola in c.
        k = critical * critical / own.n
        square = self.scale**2 - k * own.base_variance
        middle = own.difference * self.scale - k * sign * own.covariance
        rest = own.difference**2 - k * own.difference_variance
        root = middle * middle - square * rest
        if square <= 0 or not math.isfinite(root):
            return None
        half = math.sqrt(max(root, 0.0))
        return (middle - half) / square, (middle + half) / square
