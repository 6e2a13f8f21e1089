"""What spoils a sample: single values far off, and a drift over time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from scipy import special, stats

from schedlab.stats.ratio import standard_error

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Drift", "drift", "outliers"]

# At this level a sample of normal noise is accused once in a hundred times. Fewer values than five
# leave nothing to be far off of, and no more than a quarter of a sample can be its outliers.
OUTLIER_LEVEL, OUTLIER_LEAST, OUTLIER_SHARE = 0.01, 5, 4
# More than these nobody reads, and looking for them takes as many passes over the sample.
OUTLIERS_MAX = 50

# Five values cannot tell a trend from chance at this level, and no sample should be warned of a
# drift that is not there more than once in a hundred times.
DRIFT_LEVEL, DRIFT_LEAST = 0.01, 6
# The slope takes all pairs of values; as many as these tell it.
SLOPE_VALUES_MAX = 500


@dataclass(frozen=True)
class Drift:
    """A trend over the iterations."""

    pct: float
    """From the first iteration to the last, percent of the median, by the Theil-Sen slope."""
    p: float
    """Kendall's test of no trend."""


def outliers(values: Sequence[float]) -> list[int]:
    """Give the places of values far off the others, by the generalised ESD test.

    B. Rosner, "Percentage Points for a Generalized ESD Many-Outlier Procedure", Technometrics 25,
    1983: the farthest value is taken away again and again, and the last that was too far tells how
    many were.

    >>> outliers([10.0, 10.1, 9.9, 10.2, 17.0, 10.0, 10.1])
    [4]
    >>> outliers([10.0, 10.1, 9.9, 10.2, 10.4, 10.0, 10.1])
    []
    """
    n = len(values)
    if n < OUTLIER_LEAST:
        return []
    left = list(range(n))
    found = 0
    removed: list[int] = []
    for _ in range(min(OUTLIERS_MAX, max(1, n // OUTLIER_SHARE))):
        mean = fmean(values[place] for place in left)
        spread = standard_error([values[place] for place in left]) * math.sqrt(len(left))
        if spread == 0:
            break
        farthest = max(left, key=lambda place: abs(values[place] - mean))
        if abs(values[farthest] - mean) / spread > _critical(len(left)):
            found = len(removed) + 1
        left.remove(farthest)
        removed.append(farthest)
    return sorted(removed[:found])


def _critical(n: int) -> float:
    """Give the greatest distance, in standard deviations, that n normal values should have."""
    t = float(special.stdtrit(n - 2, 1 - OUTLIER_LEVEL / (2 * n)))
    return (n - 1) * t / math.sqrt((n - 2 + t * t) * n)


def drift(values: Sequence[float]) -> Drift | None:
    """Tell of a trend in values that are in the order of time; ``None`` where none shows.

    >>> drift([1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06]).pct
    5.825242718446607
    >>> drift([1.0, 1.02, 1.01, 1.0, 1.02, 1.01, 1.0])
    """
    if len(values) < DRIFT_LEAST or min(values) == max(values) or median(values) == 0:
        return None
    places = range(len(values))
    p = float(stats.kendalltau(places, values).pvalue)
    if not p < DRIFT_LEVEL:
        return None
    step = -(-len(values) // SLOPE_VALUES_MAX)
    slope = float(stats.theilslopes(values[::step], places[::step]).slope)
    return Drift(100 * slope * (len(values) - 1) / abs(median(values)), p)
