"""What is compared, as plain data: samples by case and label, or summaries of samples."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from schedlab.stats import Better, Summary

__all__ = ["COLUMNS", "Case", "CompareError", "Results", "Sample", "better_of", "shortened"]

COLUMNS = ("benchmark", "case", "metric", "unit", "better", "kernel", "iteration", "value")
"""Of a plain CSV file, which every reader and parser writes."""


# More of what a file holds tells nothing more in a message.
QUOTED_MOST = 80


def shortened(text: str) -> str:
    """Give the beginning of what a message quotes of a file.

    >>> len(shortened("x" * 1000))
    83
    """
    return text if len(text) <= QUOTED_MOST else f"{text[:QUOTED_MOST]}..."


class CompareError(ValueError):
    """Results cannot be read or compared; the text names file, place and mend."""


class Case(NamedTuple):
    """What a row of the table is about."""

    benchmark: str
    case: str
    metric: str
    unit: str
    better: Better | None

    @property
    def name(self) -> str:
        """Give benchmark, case and metric, as far as they say something."""
        return " ".join(part for part in (self.benchmark, self.case, self.metric) if part)


@dataclass
class Sample:
    """Every iteration of one case under one label."""

    values: dict[str, float] = field(default_factory=dict)
    """By iteration, in the order of the input."""
    times: dict[str, float] = field(default_factory=dict)
    """When each iteration began, s, where that is known."""

    def in_time(self) -> list[float]:
        """Give the values in the order in which they were measured."""
        if len(self.times) < len(self.values):
            return list(self.values.values())
        return [self.values[name] for name in sorted(self.values, key=self.times.__getitem__)]


@dataclass
class Results:
    """All that the inputs hold."""

    labels: dict[str, None] = field(default_factory=dict)
    """In the order in which they appear: the first is the baseline."""
    samples: dict[Case, dict[str, Sample]] = field(default_factory=dict)
    summaries: dict[Case, dict[str, Summary]] = field(default_factory=dict)
    changes: dict[Case, dict[str, float]] = field(default_factory=dict)
    """Changes that were published without any spread, percent."""
    flagged: set[tuple[Case, str]] = field(default_factory=set)
    """Rows that the publication marked."""
    interleaved: bool = False
    """Iterations of all labels took turns, so that those of one number belong together."""
    unread: list[str] = field(default_factory=list)
    """What could not be taken from the inputs, and why."""
    provenance: dict[str, str] = field(default_factory=dict)
    """Where and how it was measured."""

    def add(
        self, case: Case, label: str, iteration: str, value: float, time_s: float | None = None
    ) -> bool:
        """Take one value; ``False`` if that iteration has one already."""
        self.labels.setdefault(label)
        sample = self.samples.setdefault(case, {}).setdefault(label, Sample())
        if iteration in sample.values:
            return False
        sample.values[iteration] = value
        if time_s is not None:
            sample.times[iteration] = time_s
        return True


# Units that say by themselves what is better; anything else has to be told.
_RATE = re.compile(r".+/(s|sec|second|min)$|^(fps|bops|rps|eps|ipc|points)$", re.IGNORECASE)
_COST = re.compile(
    r"^(s|sec|seconds|ms|msec|us|usec|µs|ns|nsec|j|joules|mj|uj|w|watts|mw|cycles|.*/op)$",
    re.IGNORECASE,
)


def better_of(unit: str) -> Better | None:
    """Tell from a unit what is better; ``None`` where it does not tell.

    >>> better_of("events/s"), better_of("ns/op"), better_of("1")
    ('higher', 'lower', None)
    """
    if _COST.match(unit):
        return "lower"
    return "higher" if _RATE.match(unit) else None
