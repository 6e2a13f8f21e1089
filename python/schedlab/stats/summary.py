"""One sample: its mean, arithmetic or geometric, the mean's interval, and its spread."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from schedlab.stats.ratio import Summary, logarithms, standard_error

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Interval", "Mean", "mean_interval", "mean_of", "spread_pct", "summary"]

Interval = tuple[float, float]
Mean = Literal["arithmetic", "geometric"]


def mean_of(values: Sequence[float], mean: Mean = "arithmetic") -> float:
    """Give the mean of a sample.

    A single 0 makes a geometric mean 0. Raises ``ValueError`` for one of negative values.

    >>> mean_of([1.0, 4.0]), round(mean_of([1.0, 4.0], "geometric"), 12)
    (2.5, 2.0)
    >>> mean_of([0.0, 4.0], "geometric")
    0.0
    """
    if mean == "arithmetic":
        return fmean(values)
    least = min(values)
    # Equal values have themselves as their mean, whatever a logarithm rounds.
    return least if least in {0, max(values)} else math.exp(fmean(logarithms(values)))


def mean_interval(
    values: Sequence[float], confidence: float = 0.95, mean: Mean = "arithmetic"
) -> Interval | None:
    """Give Student's confidence interval of a mean; ``None`` for fewer than two values.

    That of a geometric mean is Student's of the mean logarithm, and so lies by factors around it;
    there is none if some values are 0.

    >>> low, high = mean_interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    >>> mean_interval([5.0, 5.0])
    (5.0, 5.0)
    >>> low, high = mean_interval([1.0, 2.0, 4.0], mean="geometric")
    >>> round(low, 3), round(high, 3), round(low * high, 9)
    (0.357, 11.19, 4.0)
    """
    if len(values) < 2:  # noqa: PLR2004 - a spread needs two
        return None
    if mean == "geometric":
        if min(values) == max(values):
            return mean_of(values, mean), mean_of(values, mean)
        found = mean_interval(logarithms(values), confidence) if min(values) else None
        return None if found is None else (math.exp(found[0]), math.exp(found[1]))
    middle, error = fmean(values), standard_error(values)
    if error == 0:
        return middle, middle
    from scipy import special  # noqa: PLC0415 - a mean of one value needs none

    half = float(special.stdtrit(len(values) - 1, (1 + confidence) / 2)) * error
    return middle - half, middle + half


def spread_pct(values: Sequence[float], mean: Mean = "arithmetic") -> float | None:
    """Give the standard deviation (of a sample) in percent of the mean's size.

    Beside a geometric mean it is the coefficient of variation of a lognormal distribution whose
    logarithms vary as much.

    >>> spread_pct([90.0, 110.0])
    14.142135623730951
    >>> round(spread_pct([90.0, 110.0], "geometric"), 3)
    14.261
    """
    if mean == "geometric":
        if len(values) < 2 or min(values) == 0:  # noqa: PLR2004 - as above
            return None
        return 100 * math.sqrt(math.expm1(standard_error(logarithms(values)) ** 2 * len(values)))
    middle = fmean(values)
    if len(values) < 2 or middle == 0:  # noqa: PLR2004 - as above
        return None
    return 100 * standard_error(values) * math.sqrt(len(values)) / abs(middle)


def summary(values: Sequence[float]) -> Summary:
    """Reduce a sample to mean, standard deviation and size."""
    std = standard_error(values) * math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Summary(fmean(values), std, len(values))
