"""CSV files: one value a row, one mean a row, or a published table of changes.

The columns tell which. Columns that none of the shapes knows name the case.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from schedlab.comparison.model import COLUMNS, Case, CompareError, Results, better_of, shortened
from schedlab.stats import Summary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from schedlab.stats import Better

__all__ = ["PUBLISHED_RUNS", "read"]

PUBLISHED_RUNS = 5
"""Behind each mean of the published tables, and the default of the scripts that print them."""

BASELINE = "baseline"

# A line longer than this is no CSV of results.
csv.field_size_limit(1 << 20)

Row = dict[str, str]
Shape = Callable[[Row, list[str], Results, int, "str | None"], None]


def read(path: Path, results: Results, *, runs: int, better: str | None) -> None:
    """Read a file into ``results``.

    Raises :class:`schedlab.CompareError` for a file of another shape; a row that cannot be used is
    told of in ``results.unread``.
    """
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        reader = csv.DictReader(
            (line.replace("\0", "\N{REPLACEMENT CHARACTER}") for line in file), restval=""
        )
        try:
            columns = [str(name).strip() for name in reader.fieldnames or []]
            reader.fieldnames = columns
            shape = _shape(path, columns)
            for row in _rows(reader):
                try:
                    shape(row, columns, results, runs, better)
                except ValueError as error:
                    results.unread.append(f"{path}:{reader.line_num}: {error}")
        except csv.Error as error:
            raise CompareError(f"{path}:{reader.line_num}: {error}") from None


def _rows(reader: csv.DictReader[str]) -> Iterator[Row]:
    for row in reader:
        # Fields beyond the header stand under None.
        yield {key: (value or "").strip() for key, value in row.items() if isinstance(key, str)}


def _shape(path: Path, columns: list[str]) -> Shape:
    names = set(columns)
    if {"kernel", "baseline_std_pct", "delta_pct", "kernel_std_pct"} <= names:
        return _change_with_spread
    if {"kernel", "delta_pct"} <= names:
        return _change
    if {"kernel", "mean", "std_pct"} <= names:
        return _mean
    if {"kernel", "value"} <= names:
        return _value
    if {"governor", "value"} <= names:
        return _value
    if any("\N{REPLACEMENT CHARACTER}" in name for name in columns):
        raise CompareError(f"{path}: not text but something else; give a CSV file or a store")
    found = shortened(", ".join(columns)) or "(none)"
    raise CompareError(
        f"{path}:1: columns {found} are not those of results; needed are {','.join(COLUMNS)}"
    )


def _case(row: Row, columns: list[str], own: set[str], default: str | None) -> Case:
    """Name the case by its column, or by all columns that nothing else needs."""
    words = [row["case"]] if row.get("case") else []
    for name in columns:
        if name in own or name in ("case", "benchmark", "metric", "unit", "better"):
            continue
        if value := row[name]:
            words.append(f"{name}={value}" if _is_number(value) else value)
    unit = row.get("unit", "")
    said = row.get("better", "") or default
    if said not in (None, "", "higher", "lower"):
        raise ValueError(f"better is {shortened(said)!r}; it must be higher or lower")
    known: dict[str | None, Better] = {"higher": "higher", "lower": "lower"}
    return Case(
        row.get("benchmark", ""),
        " ".join(words),
        row.get("metric", ""),
        unit,
        known.get(said) or better_of(unit),
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(row: Row, name: str) -> float:
    try:
        value = float(row[name])
    except ValueError:
        raise ValueError(f"{name} is {shortened(row[name])!r}, no number") from None
    if not math.isfinite(value):
        raise ValueError(f"{name} is {row[name]}; it must be finite")
    return value


def _label(row: Row) -> str:
    label = row.get("kernel") or row.get("governor") or ""
    if not label:
        raise ValueError("kernel is empty; name what was measured")
    return label


def _value(row: Row, columns: list[str], results: Results, runs: int, better: str | None) -> None:
    del runs
    label, value = _label(row), _number(row, "value")
    own = {"kernel", "governor", "iteration", "value", "time_s"}
    case = _case(row, columns, own, better)
    sample = results.samples.get(case, {}).get(label)
    iteration = row.get("iteration", "") or str(len(sample.values) if sample else 0)
    time_s = _number(row, "time_s") if row.get("time_s") else None
    if not results.add(case, label, iteration, value, time_s):
        raise ValueError(
            f"{case.name}: iteration {iteration} of {label} is there already; number them"
        )


def _mean(row: Row, columns: list[str], results: Results, runs: int, better: str | None) -> None:
    label = _label(row)
    case = _case(row, columns, {"kernel", "mean", "std_pct", "n", "flagged"}, better)
    n = int(_number(row, "n")) if row.get("n") else runs
    mean = _number(row, "mean")
    std = _number(row, "std_pct") / 100 * abs(mean) if row["std_pct"] else 0.0
    known = results.summaries.setdefault(case, {})
    if label in known:
        raise ValueError(f"{case.name}: {label} is there already")
    results.labels.setdefault(label)
    known[label] = Summary(mean, std, n if row["std_pct"] else 1)
    if row.get("flagged") == "yes":
        results.flagged.add((case, label))


def _change_with_spread(
    row: Row, columns: list[str], results: Results, runs: int, better: str | None
) -> None:
    """Read a row as schedtests prints it: 1.00 (std %), change (std %), positive is better.

    Its standard deviations are those of a population (numpy's default), so that of a sample is
    larger by n / (n - 1) under the root.
    """
    del better
    label = _label(row)
    own = {"kernel", "baseline_std_pct", "delta_pct", "kernel_std_pct", "flagged"}
    case = _case(row, columns, own, "higher")
    factor = math.sqrt(runs / (runs - 1)) / 100
    mean = 1 + _number(row, "delta_pct") / 100
    base = Summary(1.0, _number(row, "baseline_std_pct") * factor, runs)
    other = Summary(mean, _number(row, "kernel_std_pct") * factor * abs(mean), runs)
    known = results.summaries.setdefault(case, {})
    if label in known or known.get(BASELINE, base) != base:
        raise ValueError(f"{case.name}: {label} is there already, or its baseline differs")
    results.labels = {BASELINE: None, **results.labels, label: None}
    known[BASELINE] = base
    known[label] = other
    if row.get("flagged") == "yes":
        results.flagged.add((case, label))


def _change(row: Row, columns: list[str], results: Results, runs: int, better: str | None) -> None:
    del runs, better
    label = _label(row)
    case = _case(row, columns, {"kernel", "delta_pct", "flagged"}, "higher")
    results.labels = {BASELINE: None, **results.labels, label: None}
    results.changes.setdefault(case, {})[label] = _number(row, "delta_pct")
