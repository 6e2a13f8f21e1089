"""Which axes matter: Sobol indices of a figure, by SALib.

A first-order index is the share of the figure's variance that an axis makes by itself, a total
index that in which it has any part; what is left between the two comes of several axes together.
I. M. Sobol, "Global sensitivity indices for nonlinear mathematical models", 2001; A. Saltelli and
others, "Variance based sensitivity analysis of model output", 2010.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedlab.extras import wanted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from schedlab.sweep.model import Plan
    from schedlab.sweep.table import Row

__all__ = ["Index", "indices", "places"]


@dataclass(frozen=True)
class Index:
    """What an axis has to do with a figure."""

    workload: str
    machine: str
    variant: str
    kernel: str
    figure: str
    axis: str
    first: float
    """Share of the variance that the axis makes by itself."""
    first_by: float
    """Half the width of its interval, by the bootstrap."""
    total: float
    """Share of the variance in which the axis has a part."""
    total_by: float


def problem(names: Sequence[str]) -> dict[str, Any]:
    """Describe the axes to SALib: each goes from 0 to 1, and makes of that what it is."""
    return {"num_vars": len(names), "names": list(names), "bounds": [[0.0, 1.0]] * len(names)}


def places(dimensions: int, base: int, seed: int) -> Iterator[Any]:
    """Give Saltelli's sample: ``base`` times two more points than there are axes."""
    with wanted("design saltelli"):
        from SALib.sample import sobol  # noqa: PLC0415 - an extra
    names = [str(number) for number in range(dimensions)]
    yield from sobol.sample(problem(names), base, calc_second_order=False, seed=seed)


def indices(plan: Plan, rows: Sequence[Row]) -> list[Index]:
    """Give the indices of every figure under every variant, from a sweep of design ``saltelli``.

    A figure that some point has no value of, or that is the same at all, has no indices.
    """
    with wanted("design saltelli"):
        from SALib.analyze import sobol  # noqa: PLC0415 - an extra
    import numpy as np  # noqa: PLC0415 - as above

    from schedlab.sweep import design  # noqa: PLC0415 - as above

    names = [axis.name for axis in plan.free]
    groups: dict[tuple[str, str, str, str, str], dict[int, float]] = {}
    for row in rows:
        group = groups.setdefault(
            (row.workload, row.machine, row.variant, row.kernel, row.figure), {}
        )
        if row.mean is not None:
            group[row.cell] = row.mean
    found = []
    for (workload, machine, variant, kernel, figure), means in groups.items():
        values = np.array([means[cell] for cell in sorted(means)])
        if len(values) != design.count(plan) or np.ptp(values) == 0:
            continue
        told = sobol.analyze(problem(names), values, calc_second_order=False, seed=plan.seed)
        found += [
            Index(
                workload=workload,
                machine=machine,
                variant=variant,
                kernel=kernel,
                figure=figure,
                axis=name,
                first=float(told["S1"][at]),
                first_by=float(told["S1_conf"][at]),
                total=float(told["ST"][at]),
                total_by=float(told["ST_conf"][at]),
            )
            for at, name in enumerate(names)
        ]
    return found
