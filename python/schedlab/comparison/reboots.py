"""Rows that a publication marked, and what boots alone could have made of them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from schedlab.comparison.words import p_value
from schedlab.stats import reboot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.comparison.table import Table

__all__ = ["Analysis", "Marked", "analyse"]


@dataclass(frozen=True)
class Marked:
    """A row that was marked, or is significant by itself."""

    case: str
    kernel: str
    flagged: bool
    change_pct: float
    p: float
    p_holm: float
    p_bh: float
    explained_by_pct: float
    """Spread of boots with which the row is just not significant by itself."""
    p_with_boots: float
    """p with the spread of boots that all rows of the benchmark together suggest."""

    def cells(self) -> dict[str, str]:
        """Give it for a table."""
        return {
            "case": self.case,
            "kernel": self.kernel + (" **" if self.flagged else ""),
            "change": f"{self.change_pct:+.2f}",
            "p": p_value(self.p),
            "p_holm": p_value(self.p_holm),
            "p_bh": p_value(self.p_bh),
            "explains": f"{self.explained_by_pct:.2f}",
            "p_reboot": p_value(self.p_with_boots),
        }


@dataclass(frozen=True)
class Analysis:
    """All of it."""

    estimates: Sequence[tuple[str, int, float]]
    """Benchmark, rows, and the spread of boots that would account for all of their changes."""
    rows: Sequence[Marked]
    significance: float

    def supported(self, by: str) -> int:
        """Count the rows that a p value supports."""
        return sum(getattr(row, by) < self.significance for row in self.rows)

    def words(self) -> str:
        """Say what came out."""
        n = len(self.rows)
        what = "marked rows" if any(row.flagged for row in self.rows) else "significant rows"
        return (
            f"Of {n} {what}, the spread of the iterations alone supports {self.supported('p')} "
            f"without correction, {self.supported('p_bh')} with Benjamini-Hochberg and "
            f"{self.supported('p_holm')} with Holm; with the estimated spread of boots on top, "
            f"{self.supported('p_with_boots')} without correction."
        )

    def as_dict(self) -> dict[str, Any]:
        """Give it for JSON."""
        return {
            "estimates": [
                {"benchmark": name, "rows": rows, "boots_std_pct": tau}
                for name, rows, tau in self.estimates
            ],
            "rows": [asdict(row) for row in self.rows],
        }


def analyse(table: Table) -> Analysis:
    """Hold every marked row against boots that spread; all significant ones where none is marked.

    The spread of boots is estimated for each benchmark from all of its rows, as if no row had an
    effect: an upper bound, since what is real counts in.
    """
    usable = [
        (row, row.compared.error_pct or 0.0, row.compared.df or math.inf)
        for row in table.rows
        if row.compared.p is not None
    ]
    groups: dict[str, list[tuple[float, float]]] = {}
    for row, error, _ in usable:
        groups.setdefault(row.case.benchmark, []).append((row.compared.change_pct, error))
    taus = {
        name: reboot.estimated_pct([c for c, _ in pairs], [e for _, e in pairs])
        for name, pairs in groups.items()
    }
    significance = table.settings.rules.significance
    any_marked = any(row.flagged for row, _, _ in usable)
    marked = [
        Marked(
            case=row.case.name,
            kernel=row.other.label,
            flagged=row.flagged,
            change_pct=row.compared.change_pct,
            p=row.compared.p or 0.0,
            p_holm=row.compared.p_holm or 0.0,
            p_bh=row.compared.p_bh or 0.0,
            explained_by_pct=reboot.explaining_pct(
                row.compared.change_pct, error, df, significance
            ),
            p_with_boots=reboot.p_with(
                row.compared.change_pct, error, df, taus[row.case.benchmark]
            ),
        )
        for row, error, df in usable
        if (row.flagged if any_marked else (row.compared.p or 0.0) < significance)
    ]
    return Analysis(
        [(name, len(pairs), taus[name]) for name, pairs in groups.items()], marked, significance
    )
