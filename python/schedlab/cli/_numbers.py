"""Numbers as options take them: in range, and finite."""

from __future__ import annotations

import math
from typing import Any

import click

from schedlab import ranges

JOBS = click.IntRange(*ranges.JOBS)

CPUS_MAX = ranges.CPUS[1]

ITERATIONS_MAX = ranges.ITERATIONS[1]


class Finite(click.FloatRange):
    """A number in a range, neither infinite nor NaN, which lies in any range of click's own.

    >>> Finite(0, 1).convert("0.5", None, None)
    0.5
    """

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read a number."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return found
