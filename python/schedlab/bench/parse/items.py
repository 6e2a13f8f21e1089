"""What parsers find."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from schedlab.stats import Better

__all__ = ["Change", "Item", "Mean", "Unread", "Value"]


class Value(NamedTuple):
    """One figure of one run."""

    benchmark: str
    case: str
    metric: str
    unit: str
    better: Better | None
    value: float
    kernel: str = ""
    """Where the format names it."""
    iteration: str = ""
    """Where the format numbers them."""


class Mean(NamedTuple):
    """A mean of several runs, as a table prints it."""

    benchmark: str
    case: str
    metric: str
    unit: str
    better: Better | None
    kernel: str
    mean: float
    std_pct: float | None


class Change(NamedTuple):
    """A change against a baseline of 1.00, positive is better, with population spreads."""

    benchmark: str
    case: str
    load: str
    baseline_std_pct: float
    delta_pct: float
    kernel_std_pct: float


class Unread(NamedTuple):
    """A line that the parser does not know."""

    line: int
    text: str


Item = Value | Mean | Change | Unread
