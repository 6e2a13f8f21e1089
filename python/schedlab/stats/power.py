"""How many iterations it takes to see a change, or to show that there is none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scipy import special

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["detection_power", "equivalence_power", "to_detect", "to_settle", "to_show_equivalent"]

# From here on t is normal to the accuracy of an iteration in hundreds.
NORMAL_FROM = 200

# Nobody runs a benchmark more often; more is said as such.
MOST = 1_000_000


def detection_power(
    n: int, change: float, unit_error: float, *, significance: float, paired: bool
) -> float:
    """Give the chance that n iterations of each show a change to be significant.

    ``unit_error`` is the standard error of the change from a single iteration of each: for two
    samples of the same relative spread, that times the square root of two.
    """
    from statsmodels.stats import power  # noqa: PLC0415 - a second that few callers need

    size = abs(change) / unit_error
    if paired:
        found = power.TTestPower().power(size, n, significance)
    else:
        # The package takes the size in standard deviations of one sample.
        found = power.TTestIndPower().power(size * math.sqrt(2), n, significance)
    # Where the noncentral t is out of reach, it is normal.
    if math.isnan(found):
        found = special.ndtr(size * math.sqrt(n) - special.ndtri(1 - significance / 2))
    return float(found)


def equivalence_power(
    n: int, change: float, margin: float, unit_error: float, *, significance: float, paired: bool
) -> float:
    """Give the chance that two one-sided tests put a change within the margin.

    By the approximation of S.-C. Chow, J. Shao and H. Wang, "Sample Size Calculations in Clinical
    Research", 2003, section 3.2.
    """
    df = n - 1 if paired else 2 * (n - 1)
    error = unit_error / math.sqrt(n)
    critical = float(special.stdtrit(df, 1 - significance))
    up, down = (margin - change) / error - critical, (margin + change) / error - critical
    return max(0.0, float(special.stdtr(df, up) + special.stdtr(df, down)) - 1)


def to_detect(
    change: float,
    unit_error: float,
    *,
    significance: float = 0.05,
    power: float = 0.8,
    paired: bool = False,
) -> int | None:
    """Give the least iterations of each that show a change with this power.

    ``None`` if a million are not enough.

    A change of 3 % where single runs spread by 2 %:

    >>> to_detect(0.03, 0.02 * math.sqrt(2))
    9
    """
    if unit_error == 0 or change == 0:
        return 2 if change else None
    deviates = float(special.ndtri(1 - significance / 2) + special.ndtri(power))
    # What t takes beyond the normal distribution hardly depends on n.
    beyond = float(special.ndtri(1 - significance / 2)) ** 2 / (2 if paired else 4)
    start = (deviates * unit_error / abs(change)) ** 2 + beyond
    if start > MOST:
        return None
    n = max(2, math.ceil(start))
    if n > NORMAL_FROM:
        return n

    def enough(n: int) -> bool:
        return power <= detection_power(
            n, change, unit_error, significance=significance, paired=paired
        )

    while n > 2 and enough(n - 1):  # noqa: PLR2004 - a spread needs two
        n -= 1
    while not enough(n):
        n += 1
    return n


def to_show_equivalent(
    change: float,
    margin: float,
    unit_error: float,
    *,
    significance: float = 0.05,
    power: float = 0.8,
    paired: bool = False,
) -> int | None:
    """Give the least iterations of each that show a change to be within the margin.

    >>> to_show_equivalent(0.0, 0.02, 0.02 * math.sqrt(2))
    18
    """
    if abs(change) >= margin:
        return None
    if unit_error == 0:
        return 2
    return _least(
        lambda n: equivalence_power(
            n, change, margin, unit_error, significance=significance, paired=paired
        ),
        power,
    )


def to_settle(
    change: float,
    margin: float,
    unit_error: float,
    *,
    significance: float,
    equivalence: float,
    paired: bool,
    power: float = 0.8,
) -> int | None:
    """Give the iterations that settle a comparison, if the estimate is the truth.

    ``significance`` is the level left to the row by the correction for all of them.
    """
    found = [
        to_detect(change, unit_error, significance=significance, power=power, paired=paired),
        to_show_equivalent(
            change, margin, unit_error, significance=equivalence, power=power, paired=paired
        ),
    ]
    return min((n for n in found if n is not None), default=None)


def _least(chance: Callable[[int], float], power: float) -> int | None:
    high = 2
    while chance(high) < power:
        high *= 2
        if high > MOST:
            return None
    low = max(2, high // 2)
    while low < high:
        middle = (low + high) // 2
        if chance(middle) < power:
            low = middle + 1
        else:
            high = middle
    return low
