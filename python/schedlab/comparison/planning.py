"""Plans: how many iterations find a change, from the spread of a first few."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedlab import stats
from schedlab.stats.power import to_detect, to_show_equivalent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.comparison.model import Results
    from schedlab.stats import Rules

__all__ = ["CHANGES_PCT", "Plan", "plan", "spreads"]

CHANGES_PCT = (1.0, 2.0, 3.0, 5.0, 10.0)


@dataclass(frozen=True)
class Plan:
    """What one case takes."""

    name: str
    std_pct: float
    iterations: dict[float, int | None]
    """Of each label, by the change in percent; ``None`` if a million are not enough."""
    equivalent: int | None
    """To show that a change of 0 is within the margin."""

    def as_dict(self) -> dict[str, Any]:
        """Give it for JSON."""
        return {
            "case": self.name,
            "std_pct": self.std_pct,
            "iterations": {f"{change:g}": n for change, n in self.iterations.items()},
            "equivalent": self.equivalent,
        }

    def cells(self) -> dict[str, str]:
        """Give it for a table."""
        return {
            "name": self.name,
            "std": f"{self.std_pct:.2f}",
            **{f"{change:g}": _count(n) for change, n in self.iterations.items()},
            "equivalent": _count(self.equivalent),
        }


def _count(n: int | None) -> str:
    return ">1,000,000" if n is None else f"{n:,}"


def plan(name: str, std_pct: float, changes: Sequence[float], rows: int, rules: Rules) -> Plan:
    """Plan one case whose single runs spread by ``std_pct`` under each label.

    >>> plan("hackbench", 2.0, [3.0], 1, stats.Rules()).iterations
    {3.0: 9}
    """
    unit_error = math.sqrt(2) * std_pct / 100
    level = rules.significance / (1 if rules.correction == "none" else rows)
    return Plan(
        name,
        std_pct,
        {
            change: to_detect(change / 100, unit_error, significance=level, power=rules.power)
            for change in changes
        },
        to_show_equivalent(
            0.0,
            rules.margin_pct / 100,
            unit_error,
            significance=rules.significance,
            power=rules.power,
        ),
    )


def spreads(results: Results) -> list[tuple[str, float]]:
    """Give each case's spread in percent, pooled over the labels that tell one."""
    found: dict[str, list[float]] = {}
    for case, samples in results.samples.items():
        for sample in samples.values():
            spread = stats.spread_pct(list(sample.values.values()))
            if spread is not None:
                found.setdefault(case.name, []).append(spread)
    for case, summaries in results.summaries.items():
        for each in summaries.values():
            if each.n > 1 and each.mean:
                found.setdefault(case.name, []).append(100 * each.std / abs(each.mean))
    return [
        (name, math.sqrt(sum(spread**2 for spread in each) / len(each)))
        for name, each in found.items()
    ]
