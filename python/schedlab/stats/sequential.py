"""Looking at a comparison as often as one likes: intervals that hold at every look at once.

A fixed-sample interval that is looked at after every run, until it says what one hopes for, is
wrong far more often than it says. Here stands a confidence sequence instead: with probability
1 - alpha the truth lies in *all* of its intervals, so one may stop at any of them, for any reason.

It is the t test's: for n normal values of unknown mean and spread, the mixture of all effects, in
standard deviations and normal with variance ``EFFECT_VARIANCE``, against no effect is a nonnegative
martingale under every spread. So it exceeds 1 / alpha with probability alpha at most, ever (Ville's
inequality). Where it does not, t squared is below a bound in closed form. T. L. Lai,
"On confidence sequences", 1976; H. Wang and A. Ramdas, "Anytime-valid t-tests and confidence
sequences for Gaussian means with unknown variance", 2023.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedlab.stats.moments import PairedMoments
    from schedlab.stats.summary import Interval

__all__ = ["LEAST", "any_time", "critical"]

EFFECT_VARIANCE = 1.0
"""Of the mixture. It moves where the interval is at its tightest, never whether it holds."""

LEAST = 5
"""Pairs before anything may be said: where fewer do not vary, that shows little."""


def critical(n: int, alpha: float) -> float:
    """Give the t that an interval after n values may reach; infinite for too few.

    >>> round(critical(10, 0.05), 2), round(critical(100, 0.05), 2), critical(2, 0.05)
    (3.87, 3.35, inf)
    """
    if n < 2:  # noqa: PLR2004 - a spread needs two
        return math.inf
    df = n - 1
    growth = 1 + n * EFFECT_VARIANCE
    # ((1 + t^2/df) / (1 + t^2/(df growth)))^(n/2) = sqrt(growth) / alpha
    bound = (math.sqrt(growth) / alpha) ** (2 / n)
    if bound >= growth:
        return math.inf
    return math.sqrt(df * (bound - 1) / (1 - bound / growth))


def any_time(test: PairedMoments, alpha: float) -> Interval | None:
    """Give the interval of a change that may be looked at after every pair.

    ``None`` where nothing can be said yet. Where nothing varies, that is believed after ``LEAST``.
    """
    n = test.moments.n
    if n < LEAST:
        return None
    found = critical(n, alpha)
    return test.within(found) if math.isfinite(found) else None
