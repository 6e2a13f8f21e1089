"""A comparison as one HTML page: verdicts, a forest of all rows, their values, and provenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedlab.comparison import drawings, shapes, words
from schedlab.report import sheet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from schedlab.comparison.table import Row, Table

__all__ = ["write"]

DRAWN = 40
"""Rows whose values are drawn, those with the least p first."""


def write(table: Table, path: str | Path) -> None:
    """Write the page; its ``figures`` are those of ``compare --json``."""
    rows = [*table.rows, *table.geomeans]
    sheet.write(
        path,
        "compare_page.html.j2",
        verb="comparison",
        name=f"{', '.join(table.others)} against {table.base}",
        figures=words.table_dict(table),
        counts=words.counts(table),
        settings=words.settings_text(table),
        confidence=f"{100 * (1 - table.settings.rules.significance):g} %",
        margin=f"{table.settings.rules.margin_pct:g} %",
        forest=drawings.forest(table, rows),
        rows=[_cells(row, table) for row in rows],
        drawn=_drawn(table.rows, table),
        left=max(0, len([row for row in table.rows if row.base.values]) - DRAWN),
        unread=list(table.unread),
        provenance=shapes.provenance(table),
    )


def _cells(row: Row, table: Table) -> dict[str, str]:
    tone = "error" if row.compared.verdict == "regressed" else "info"
    return {**words.row_cells(row, table), "tone": tone}


def _drawn(rows: Sequence[Row], table: Table) -> list[dict[str, Any]]:
    several = len(table.others) > 1
    known = sorted(
        (row for row in rows if row.base.values and row.other.values),
        key=lambda row: 2.0 if row.compared.p is None else row.compared.p,
    )
    return [
        {
            "name": row.case.name + (f" ({row.other.label})" if several else ""),
            "verdict": words.verdict(row),
            "notes": "; ".join(row.notes),
            "svg": drawings.values(row),
        }
        for row in known[:DRAWN]
    ]
