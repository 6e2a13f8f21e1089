"""What spread from boot to boot would explain a difference that repeating it did not show.

Iterations of one boot share its memory layout, its choice of CPUs and whatever else a boot decides
once. Their spread says nothing of that, and a comparison of one boot with another mistakes it for
an effect. With a spread ``tau`` of boots, each kernel's mean of one boot carries it once, and
their difference twice: its variance is that of the iterations plus 2 tau^2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scipy import optimize, special

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["estimated_pct", "explaining_pct", "p_with"]


def p_with(change_pct: float, error_pct: float, df: float, tau_pct: float) -> float:
    """Test no change, two-sided, where boots spread by ``tau_pct``.

    The spread is taken as known, so that only the iterations' share has few degrees of freedom.

    >>> round(p_with(-17.3, 0.5, 8, 8.8), 2)
    0.16
    """
    within = error_pct**2
    variance = within + 2 * tau_pct**2
    if variance == 0:
        return 1.0 if change_pct == 0 else 0.0
    t = -abs(change_pct) / math.sqrt(variance)
    freedom = df * (variance / within) ** 2 if within else math.inf
    return float(2 * (special.ndtr(t) if math.isinf(freedom) else special.stdtr(freedom, t)))


def explaining_pct(
    change_pct: float, error_pct: float, df: float, significance: float = 0.05
) -> float:
    """Give the spread of boots with which a change is just not significant; 0 if it is not anyway.

    >>> round(explaining_pct(-17.3, 0.5, 8), 2), explaining_pct(1.0, 2.0, 8)
    (6.23, 0.0)
    """

    def excess(tau_pct: float) -> float:
        return p_with(change_pct, error_pct, df, tau_pct) - significance

    if excess(0.0) >= 0:
        return 0.0
    found: float = optimize.brentq(excess, 0.0, abs(change_pct))
    return found


def estimated_pct(changes_pct: Sequence[float], errors_pct: Sequence[float]) -> float:
    """Estimate the spread of boots from many rows, if no row has an effect at all.

    By moments: what the squares of the changes have beyond those of their errors (L. V. Hedges,
    "A random effects model for effect sizes", Psychological Bulletin 93, 1983). Effects that are
    real make it too large, never too small.

    >>> estimated_pct([3.0, -3.0], [1.0, 1.0])
    2.0
    """
    if not changes_pct:
        return 0.0
    excess = sum(
        change**2 - error**2 for change, error in zip(changes_pct, errors_pct, strict=True)
    )
    return math.sqrt(max(0.0, excess) / len(changes_pct) / 2)
