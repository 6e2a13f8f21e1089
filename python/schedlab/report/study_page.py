"""A study's table on an HTML page: by itself, or as a section of a trace's page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedlab.report import plots, sheet, uses
from schedlab.study import words

if TYPE_CHECKING:
    from pathlib import Path

    from schedlab.study import Row, StudyResult

__all__ = ["section", "write"]


def write(result: StudyResult, path: str | Path) -> None:
    """Write a page with a study's table; its ``figures`` are those of ``study run --json``."""
    from schedlab.study.table import result_dict  # noqa: PLC0415 - the other way round elsewhere

    sheet.write(
        path,
        "study_page.html.j2",
        verb="study",
        name=result.study.name,
        figures=result_dict(result),
        study=section(result),
    )


def section(result: StudyResult) -> dict[str, Any]:
    """Give what the template prints of a study."""
    study, misses = result.study, len(result.misses)
    held = sum(row.ok is True for row in result.rows)
    size = "a small size, not the published one; " if result.small else ""
    count = study.small_iterations if result.small else study.iterations
    return {
        "name": study.name,
        "title": study.title,
        "what": study.description.strip(),
        "source": study.source,
        "held": f"Run at {size}{count} iterations: {held} of {held + misses} claims hold"
        + (f", {misses} miss." if misses else "."),
        "confidence": f"{100 * (1 - study.significance):g} %",
        "rows": [_cells(row, several=len(study.machines) > 1) for row in result.rows],
        "plots": [
            *({"title": plot.title, "svg": plots.drawing(result, plot)} for plot in study.plots),
            *(
                {"title": use.title, "svg": uses.drawing(study, use, small=result.small)}
                for use in study.uses
            ),
        ],
        "notes": study.notes,
        "parameters": study.parameters,
        "explanations": result.explanations,
    }


def _cells(row: Row, *, several: bool) -> dict[str, str]:
    cells = {key: value or "" for key, value in words.cells(row, several=several).items()}
    return {**cells, "tone": "error" if row.ok is False else "info"}
