"""Parsed results: labelled, numbered, and written in the shapes that ``compare`` reads."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schedlab.bench.parse import NAMES_OWN_KERNELS, Change, Mean, Unread, Value, lines_of, parser
from schedlab.comparison.model import COLUMNS, CompareError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import TextIO

__all__ = ["Problems", "parse_files", "write_csv"]

MEAN_COLUMNS = ("benchmark", "case", "metric", "unit", "better", "kernel", "mean", "std_pct")
CHANGE_COLUMNS = (
    "benchmark", "kernel", "case", "load", "baseline_std_pct", "delta_pct", "kernel_std_pct",
)  # fmt: skip

# A file of another tool has as many unread lines as lines; so many show what is wrong.
TOLD = 1000

Row = dict[str, Any]


@dataclass
class Problems:
    """Lines that were not understood."""

    count: int = 0
    first: list[dict[str, Any]] = field(default_factory=list)
    """The first thousand: file, line and text."""

    def add(self, path: Path, unread: Unread) -> None:
        """Count a line, and keep it while there is room."""
        self.count += 1
        if len(self.first) < TOLD:
            self.first.append({"file": str(path), "line": unread.line, "text": unread.text[:200]})


def parse_files(
    tool: str, files: Sequence[Path], label: str | None, problems: Problems
) -> Iterator[Row]:
    """Give the rows of files of one tool, each with all columns of its shape.

    Every further value of a case is a further iteration, through all files.

    Raises :class:`schedlab.CompareError` for a tool that there is not, or a missing label.
    """
    parse = parser(tool)
    if label is None and tool not in NAMES_OWN_KERNELS:
        raise CompareError(f"{tool} does not say what was measured; name it by --label")
    seen: Counter[tuple[str, ...]] = Counter()
    for path in files:
        for item in parse(lines_of(path)):
            if isinstance(item, Unread):
                problems.add(path, item)
            elif isinstance(item, Value):
                kernel = label or item.kernel
                key = (item.benchmark, item.case, item.metric, item.unit, kernel)
                number = item.iteration or str(seen[key])
                seen[key] += 1
                yield _value_row(item, kernel, number)
            elif isinstance(item, Mean):
                yield _mean_row(item, label)
            else:
                yield _change_row(item, label or "compare")


def _value_row(item: Value, kernel: str, iteration: str) -> Row:
    return {
        "benchmark": item.benchmark,
        "case": item.case,
        "metric": item.metric,
        "unit": item.unit,
        "better": item.better or "",
        "kernel": kernel,
        "iteration": iteration,
        "value": item.value,
    }


def _mean_row(item: Mean, label: str | None) -> Row:
    row = item._asdict()
    row["better"] = item.better or ""
    row["std_pct"] = "" if item.std_pct is None else item.std_pct
    if label is not None:
        row["kernel"] = f"{label} {item.kernel}"
    return row


def _change_row(item: Change, label: str) -> Row:
    return {**item._asdict(), "kernel": label}


def write_csv(rows: Iterator[Row], out: TextIO) -> int:
    """Write rows as they come, and count them; the first tells the columns."""
    writer: csv.DictWriter[str] | None = None
    count = 0
    for row in rows:
        if writer is None:
            shapes = {"mean": MEAN_COLUMNS, "delta_pct": CHANGE_COLUMNS}
            columns = next((shapes[key] for key in shapes if key in row), COLUMNS)
            writer = csv.DictWriter(out, columns, lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)
        count += 1
    return count
