"""A grid of two axes as planes: the change of each variant at every point, or its mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlab.names import near
from schedlab.study.reading import StudyError
from schedlab.sweep.model import KERNEL, label

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from schedlab.sweep.model import Plan
    from schedlab.sweep.table import Row

__all__ = ["Plane", "check_map", "figures_of", "line_name", "planes"]

DIMENSIONS = 2


@dataclass(frozen=True)
class Plane:
    """A figure of one variant on one machine and workload, over the two axes of a plan."""

    workload: str
    machine: str
    figure: str
    variant: str
    unit: str
    changes: bool
    """Its squares are changes from the baseline, in percent; else means."""
    across: Sequence[str]
    """Values of the second axis, which are its columns."""
    down: Sequence[str]
    """Values of the first."""
    rows: Mapping[tuple[str, str], Row]
    """By the values across and down."""

    @property
    def title(self) -> str:
        """Say what its squares are."""
        if self.changes:
            return f"{self.figure}, change of {self.variant}, %"
        return f"{self.figure}, {self.variant}" + ("" if self.unit == "1" else f" ({self.unit})")


def line_name(plan: Plan, row: Row) -> str:
    """Name what a row belongs to: the variant, and the kernel where that is not compared."""
    several = plan.compare != KERNEL and len(plan.study.kernels) > 1
    variant = row.variant if plan.compare == KERNEL else f"{plan.compare} {row.variant}"
    return f"{row.kernel}, {variant}" if several else variant


def planes(plan: Plan, rows: Sequence[Row], figure: str) -> list[Plane]:
    """Give the planes of a figure; none of a plan that is no grid of two axes."""
    if len(plan.free) != DIMENSIONS or plan.design != "grid":
        return []
    down, across = plan.free
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row.figure == figure and row.mean is not None:
            place = (row.workload, row.machine, line_name(plan, row))
            found.setdefault(place, []).append(row)
    made = []
    for (workload, machine, variant), own in found.items():
        changes = any(row.compared is not None for row in own)
        # A baseline has nothing to be a change from.
        if not changes and len(plan.variants) > 1:
            continue
        made.append(
            Plane(
                workload=workload,
                machine=machine,
                figure=figure,
                variant=variant,
                unit=own[0].unit,
                changes=changes,
                across=[label(value) for value in across.grid()],
                down=[label(value) for value in down.grid()],
                rows={
                    (label(row.values[across.name]), label(row.values[down.name])): row
                    for row in own
                },
            )
        )
    return made


def figures_of(plan: Plan, names: Sequence[str]) -> list[str]:
    """Check that a plan has these figures; give all of its own where none is named.

    Raises :class:`schedlab.StudyError` where it has not.
    """
    known = list(dict.fromkeys(choice.figure for choice in plan.figures))
    for name in names:
        if name not in known:
            guess = near(name, known) or f"; there are {', '.join(known)}"
            raise StudyError(f"--figure {name}: {plan.name} has no such [[figure]]{guess}")
    return list(names) or known


def check_map(plan: Plan) -> None:
    """Check that a plan can be drawn as a map.

    Raises :class:`schedlab.StudyError` where it cannot.
    """
    if len(plan.free) != DIMENSIONS or plan.design != "grid":
        raise StudyError(
            f"--map: a map needs a grid of two axes, and {plan.name} is a {plan.design} of "
            f"{len(plan.free)}; leave --map out"
        )
