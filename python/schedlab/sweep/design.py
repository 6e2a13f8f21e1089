"""Which points of the axes are run: all of them, or a sample that fills the space evenly."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schedlab.sweep.model import Plan

__all__ = ["count", "points"]

# Points of a quasi-random sequence that are drawn at once.
CHUNK = 1 << 14


def count(plan: Plan) -> int:
    """Tell how many points there are, without making them."""
    if plan.design == "grid":
        return math.prod(len(axis.grid()) for axis in plan.free)
    if plan.design == "saltelli":
        return _base(plan) * (len(plan.free) + 2)
    return plan.samples


def points(plan: Plan) -> Iterator[tuple[Any, ...]]:
    """Give each point: a value for each axis but the compared one, in their order.

    A sample is the same for the same plan. Sobol sequences (I. M. Sobol, 1967, scrambled after
    A. B. Owen, 1998) and Latin hypercubes (M. D. McKay and others, 1979) are scipy's; ``saltelli``
    is SALib's sample for sensitivity indices.
    """
    axes = plan.free
    if plan.design == "grid":
        yield from itertools.product(*(axis.grid() for axis in axes))
        return
    for place in _places(plan):
        yield tuple(axis.at(float(share)) for axis, share in zip(axes, place, strict=True))


def _places(plan: Plan) -> Iterator[Any]:
    import numpy as np  # noqa: PLC0415 - grids need none of these
    from scipy.stats import qmc  # noqa: PLC0415

    generator = np.random.default_rng(plan.seed)
    dimensions = len(plan.free)
    if plan.design == "saltelli":
        from schedlab.sweep.sensitivity import places  # noqa: PLC0415 - SALib is an extra

        yield from places(dimensions, _base(plan), plan.seed)
    elif plan.design == "latin-hypercube":
        yield from qmc.LatinHypercube(dimensions, rng=generator).random(plan.samples)
    else:
        sobol = qmc.Sobol(dimensions, rng=generator)
        for first in range(0, plan.samples, CHUNK):
            yield from sobol.random(min(CHUNK, plan.samples - first))


def _base(plan: Plan) -> int:
    """Round up to a power of two, which the balance of a Sobol sequence needs."""
    return 1 << max(0, math.ceil(math.log2(plan.samples)))
