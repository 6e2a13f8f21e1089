"""What ``bench parse --json`` writes."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from schedlab.comparison.model import Case, CompareError, Results, better_of

if TYPE_CHECKING:
    from pathlib import Path

    from schedlab.stats import Better

__all__ = ["read"]


def read(path: Path, results: Results, better: str | None) -> None:
    """Read the rows of a JSON file into ``results``.

    Raises :class:`schedlab.CompareError` for another kind of file.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CompareError(f"{path}: no JSON: {error}") from None
    rows = found.get("rows") if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise CompareError(f"{path}: no list of rows; write it by schedlab bench parse --json")
    for number, row in enumerate(rows):
        try:
            _add(row, results, better)
        except (KeyError, TypeError, ValueError) as error:
            what = f"{error.args[0]} is missing" if isinstance(error, KeyError) else error
            results.unread.append(f"{path}: row {number}: {what}")


def _add(row: dict[str, Any], results: Results, better: str | None) -> None:
    unit = str(row.get("unit") or "")
    known: dict[str | None, Better] = {"higher": "higher", "lower": "lower"}
    said = known.get(row.get("better") or better) or better_of(unit)
    case = Case(
        str(row["benchmark"]),
        str(row.get("case") or ""),
        str(row.get("metric") or ""),
        unit,
        said,
    )
    value = float(row["value"])
    if not math.isfinite(value):
        raise ValueError(f"value is {value}; it must be finite")
    label, iteration = str(row["kernel"]), str(row["iteration"])
    if not results.add(case, label, iteration, value):
        raise ValueError(f"{case.name}: iteration {iteration} of {label} is there already")
