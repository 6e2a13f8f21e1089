"""One sample: its mean's interval and its spread."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from schedlab.stats.ratio import Summary, standard_error

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Interval", "mean_interval", "spread_pct", "summary"]

Interval = tuple[float, float]


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
    mean, error = fmean(values), standard_error(values)
    if error == 0:
        return mean, mean
    from scipy import special  # noqa: PLC0415 - a mean of one value needs none

    half = float(special.stdtrit(len(values) - 1, (1 + confidence) / 2)) * error
    return mean - half, mean + half


def spread_pct(values: Sequence[float]) -> float | None:
    """Give the standard deviation (of a sample) in percent of the mean's size.

    >>> spread_pct([90.0, 110.0])
    14.142135623730951
    """
    mean = fmean(values)
    if len(values) < 2 or mean == 0:  # noqa: PLR2004 - as above
        return None
    return 100 * standard_error(values) * math.sqrt(len(values)) / abs(mean)


def summary(values: Sequence[float]) -> Summary:
    """Reduce a sample to mean, standard deviation and size."""
    std = standard_error(values) * math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Summary(fmean(values), std, len(values))
