"""A search as an HTML page: its pictures, its best trials, and what became of them elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.report import sheet
from schedlab.report.tune_charts import pictures
from schedlab.sweep.model import label
from schedlab.tune.table import best, confirmed, result_dict, values_text

if TYPE_CHECKING:
    from pathlib import Path

    from schedlab.tune.model import TuneResult

__all__ = ["write"]


def write(result: TuneResult, path: str | Path) -> None:
    """Write a page with a search's pictures and tables; ``figures`` are those of ``--json``."""
    plan = result.plan
    sheet.write(
        path,
        "tune_page.html.j2",
        verb="tune",
        name=plan.name,
        figures=result_dict(result),
        kernel=plan.settings["kernel"],
        aims=[each.name for each in result.objectives],
        trials=len(result.trials),
        given_up=sum(trial.pruned for trial in result.trials),
        workloads=[case.name for case in plan.study.cases],
        iterations=plan.iterations,
        confidence=f"{100 * (1 - plan.significance):g} %",
        names=[axis.name for axis in plan.axes],
        pictures=pictures(result),
        best=[
            {
                "number": trial.number,
                "values": [label(value) for value in trial.values.values()],
                "changes": [f"{change:+.2f}" for change in trial.changes_pct],
            }
            for trial in best(result)
        ],
        front=[
            {"values": values_text(trial), "lines": confirmed(result, trial)}
            for trial in result.front
        ],
    )
