"""A sweep as an HTML page: its pictures, its table, and its figures for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedlab.report import sheet
from schedlab.report.sweep_charts import pictures
from schedlab.study.words import number
from schedlab.sweep.model import KERNEL, label
from schedlab.sweep.table import result_dict

if TYPE_CHECKING:
    from pathlib import Path

    from schedlab.sweep.run import SweepResult
    from schedlab.sweep.table import Row

__all__ = ["write"]

# A longer table is in the figures alone.
ROWS_MAX = 2000


def write(result: SweepResult, path: str | Path) -> None:
    """Write a page with a sweep's pictures and table; ``figures`` are those of ``--json``."""
    plan = result.plan
    sheet.write(
        path,
        "sweep_page.html.j2",
        verb="sweep",
        name=plan.name,
        figures=result_dict(result),
        plan=plan,
        # Where kernels are compared, the variant is the kernel.
        with_kernel=plan.compare != KERNEL,
        # Where all is in one place, its name stands above the table.
        with_place=len({(row.workload, row.machine) for row in result.rows}) > 1,
        axes=[axis.name for axis in plan.free],
        confidence=f"{100 * (1 - plan.significance):g} %",
        cells=len({row.cell for row in result.rows}),
        pictures=pictures(plan, result.rows, result.indices),
        indices=result.indices,
        rows=[_cells(row) for row in result.rows[:ROWS_MAX]],
        left_out=max(0, len(result.rows) - ROWS_MAX),
        failed=result.tally.failures,
    )


def _cells(row: Row) -> dict[str, Any]:
    compared = row.compared
    change = None if compared is None else compared.interval_pct
    return {
        "place": f"{row.workload} on {row.machine}",
        "values": [label(value) for value in row.values.values()],
        "kernel": row.kernel,
        "variant": row.variant,
        "figure": row.figure,
        "n": row.n,
        "mean": number(row.mean) or "",
        "interval": ""
        if row.interval is None
        else f"{number(row.interval[0])} .. {number(row.interval[1])}",
        "unit": "" if row.unit == "1" else row.unit,
        "change": "" if compared is None else f"{compared.change_pct:+.2f}",
        "change_interval": "" if change is None else f"{change[0]:+.2f} .. {change[1]:+.2f}",
        "verdict": "" if compared is None else compared.verdict,
    }
