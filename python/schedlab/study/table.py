"""The study's table for programs."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedlab.study.model import Row, StudyResult

__all__ = ["result_dict", "row_dict"]


def row_dict(row: Row) -> dict[str, Any]:
    """Give a row for JSON."""
    return {**asdict(row), "interval": None if row.interval is None else list(row.interval)}


def result_dict(result: StudyResult) -> dict[str, Any]:
    """Give a study's result for JSON, with null for what one iteration cannot tell."""
    study = result.study
    table = {
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
    finite: dict[str, Any] = _finite(table)
    return finite


def _finite(value: Any) -> Any:
    """Put None in the place of numbers that JSON does not have.

    >>> _finite({"p": float("nan"), "interval": [1.0, float("inf")]})
    {'p': None, 'interval': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
