"""What a sweep is, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from schedlab.study.model import Better, Study

__all__ = ["KERNEL", "Axis", "Choice", "Common", "Design", "Limits", "Plan"]

Design = Literal["grid", "latin-hypercube", "sobol", "saltelli"]
Common = Literal["compared", "all"]

KERNEL = "kernel"
"""The axis that every plan has: its baseline and its treatments."""


@dataclass(frozen=True)
class Axis:
    """What is varied."""

    name: str
    targets: Sequence[str]
    """``machine.SECTION.KEY``, ``kernel.SECTION.KEY``, ``workload.CASE.OPTION``,
    ``workload.OPTION`` of every workload, or ``duration_s``; several take the same value."""
    values: Sequence[Any]
    """What it may be; empty for a range."""
    low: float = 0.0
    high: float = 0.0
    steps: int = 0
    """Of a range in a grid: so many values, both ends among them."""
    logarithmic: bool = False
    """Steps of a range are by factors."""
    whole: bool = True
    """Values of a range are whole numbers."""
    kernels: Sequence[str] = ()
    """A ``kernel.`` target is set in these alone; in all by default."""
    place: str = field(default="", compare=False)
    """File and line where it stands."""

    def at(self, share: float) -> Any:
        """Give the value at a place from 0 to 1.

        >>> Axis("x", ["kernel.x"], [], 1, 1000, logarithmic=True).at(1 / 3)
        10
        >>> Axis("x", ["kernel.x"], ["a", "b"]).at(0.7)
        'b'
        """
        if self.values:
            return self.values[min(int(share * len(self.values)), len(self.values) - 1)]
        if self.logarithmic:
            value = self.low * (self.high / self.low) ** share
        else:
            value = self.low + (self.high - self.low) * share
        return round(value) if self.whole else float(f"{value:.6g}")

    def grid(self) -> list[Any]:
        """Give all values of a grid, each once."""
        if self.values:
            return list(self.values)
        return list(dict.fromkeys(self.at(step / (self.steps - 1)) for step in range(self.steps)))


@dataclass(frozen=True)
class Choice:
    """A figure that the table shows."""

    figure: str
    better: Better | None
    """``None``: nobody says, and no verdict says improved or regressed."""
    unit: str
    workload: str | None = None
    """Of this workload alone; ``None`` for all."""
    place: str = field(default="", compare=False)
    """File and line where it stands."""


@dataclass(frozen=True)
class Limits:
    """What a run may take before it is recorded as failed."""

    time_s: float | None = None
    memory_mb: float | None = None


@dataclass(frozen=True)
class Plan:
    """A sweep: a study or scenario, the axes to vary, and what is compared."""

    name: str
    title: str
    study: Study
    """Machines, kernels, workloads and parameters that hold unless an axis says otherwise."""
    small: bool
    """Workloads are of their study's small size."""
    axes: Sequence[Axis]
    design: Design
    samples: int
    """Points of a design that is no grid; of ``saltelli`` its base, a power of two."""
    iterations: int
    seed: int
    compare: str
    """The axis along which is compared: ``kernel`` or an axis of values."""
    common: Common
    """Which runs of an iteration share their random numbers: those ``compared``, or ``all``."""
    figures: Sequence[Choice]
    margin_pct: float
    significance: float
    limits: Limits
    settings: Mapping[str, Any]
    """The file as it was read, for the report."""

    def axis(self, name: str) -> Axis:
        """Give an axis by its name."""
        return next(axis for axis in self.axes if axis.name == name)

    @property
    def free(self) -> list[Axis]:
        """The axes that make a point: all but the one along which is compared."""
        return [axis for axis in self.axes if axis.name != self.compare]

    @property
    def variants(self) -> list[str]:
        """The names along the compared axis, the baseline first."""
        if self.compare == KERNEL:
            return [kernel.name for kernel in self.study.kernels]
        return [label(value) for value in self.axis(self.compare).grid()]


def label(value: Any) -> str:
    """Write a value of an axis as tables show it.

    >>> label(0.25), label(1000000), label([1.0, 1.25]), label("menu")
    ('0.25', '1000000', '[1, 1.25]', 'menu')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return f"[{', '.join(map(label, value))}]"
    return str(value)
