"""CSV with the columns that ``compare`` reads."""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Unread, Value
from schedlab.comparison.model import better_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line
    from schedlab.stats import Better

_NEEDED = {"benchmark", "value"}
_BETTER: dict[str, Better] = {"higher": "higher", "lower": "lower"}


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give every row; the first line names the columns."""
    columns: list[str] = []
    for line in lines:
        try:
            [fields] = csv.reader([line.text])
        except (csv.Error, ValueError):
            yield Unread(line.number, line.text)
            continue
        if not columns and set(fields) >= _NEEDED:
            columns = fields
            continue
        row = dict(zip(columns, fields, strict=False))
        value = _number(row.get("value", ""))
        if value is None or len(fields) != len(columns):
            yield Unread(line.number, line.text)
            continue
        unit = row.get("unit", "")
        yield Value(
            row["benchmark"],
            row.get("case", ""),
            row.get("metric", ""),
            unit,
            _BETTER.get(row.get("better", "")) or better_of(unit),
            value,
            row.get("kernel", ""),
            row.get("iteration", ""),
        )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
