"""The study's table for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedlab.study.model import Row, StudyResult

__all__ = ["result_dict", "row_dict"]


def row_dict(row: Row) -> dict[str, Any]:
    """Give a row for JSON."""
    return {**asdict(row), "interval": None if row.interval is None else list(row.interval)}


def result_dict(result: StudyResult) -> dict[str, Any]:
    """Give a study's result for JSON."""
    study = result.study
    return {
        "study": study.name,
        "title": study.title,
        "source": study.source,
        "small": result.small,
        "iterations": study.small_iterations if result.small else study.iterations,
        "baseline": study.baseline.name,
        "rows": [row_dict(row) for row in result.rows],
        "misses": len(result.misses),
        "parameters": [asdict(parameter) for parameter in study.parameters],
        "notes": list(study.notes),
        "explanations": [asdict(each) for each in result.explanations],
        "runs": {"simulated": result.simulated_runs, "stored": result.stored_runs},
        "figures": [asdict(figure) for figure in result.figures],
    }
