"""A comparison as text: Markdown, CSV, and the plain tables that people paste into a mail."""

from __future__ import annotations

import csv
import io
import textwrap
from importlib import metadata
from typing import TYPE_CHECKING

from schedlab.comparison import words

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedlab.comparison.table import Row, Table

__all__ = ["MAIL_COLUMNS", "SHAPES", "provenance"]

MAIL_COLUMNS = 75

COLUMNS = (
    ("case", "case"),
    ("other", "kernel"),
    ("n", "n"),
    ("base_middle", "baseline"),
    ("base_std", "std %"),
    ("middle", "value"),
    ("std", "std %"),
    ("unit", "unit"),
    ("effect", "change %"),
    ("interval", "interval %"),
    ("p", "p"),
    ("p_corrected", "p corrected"),
    ("verdict", "verdict"),
)


def markdown(table: Table) -> str:
    """Write a Markdown table, notes and provenance below it."""
    lines = [
        f"Baseline `{table.base}`; {words.settings_text(table)}.",
        "",
        "| " + " | ".join(title for _, title in COLUMNS) + " |",
        "| "
        + " | ".join(
            "---" if key in ("case", "other", "unit", "verdict") else "---:" for key, _ in COLUMNS
        )
        + " |",
    ]
    for row in [*table.rows, *table.geomeans]:
        cells = words.row_cells(row, table)
        lines.append("| " + " | ".join(_cell(cells[key]) for key, _ in COLUMNS) + " |")
    lines += ["", words.counts(table) + "."]
    lines += [f"- {text}" for text in notes(table)]
    lines += ["", *(f"- {_cell(line)}" for line in provenance(table))]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def comma_separated(table: Table) -> str:
    """Write CSV with a row per case, numbers in full."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            *("benchmark", "case", "metric", "unit", "better", "base", "kernel", "n_base", "n"),
            *("base_middle", "base_std_pct", "middle", "std_pct", "effect_pct"),
            *("interval_low_pct", "interval_high_pct", "bootstrap_low_pct", "bootstrap_high_pct"),
            *("p", "p_holm", "p_bh", "p_equivalent", "verdict", "iterations_to_settle", "notes"),
        ]
    )
    for row in [*table.rows, *table.geomeans]:
        found = row.compared
        writer.writerow(
            [
                *(value or "" for value in row.case),
                *(row.base.label, row.other.label, row.base.n, row.other.n),
                *(row.base.middle, row.base.std_pct, row.other.middle, row.other.std_pct),
                found.change_pct,
                *(found.interval_pct or (None, None)),
                *(found.bootstrap_pct or (None, None)),
                *(found.p, found.p_holm, found.p_bh, found.p_equivalent),
                *(found.verdict, found.iterations, "; ".join(row.notes)),
            ]
        )
    return out.getvalue()


MARKS = {"improved": "+", "regressed": "**", "equivalent": "=", "inconclusive": ""}
LEGEND = "** regressed, + improved, = equivalent within the margin; else open"


def schedtests(table: Table) -> str:
    """Write the tables of schedtests' report.py, within 75 columns; positive is better.

    Its standard deviations are a sample's, not a population's.
    """
    lines: list[str] = []
    for label in table.others:
        lines += [f"{table.base} (baseline) against {label} (compare)"[:MAIL_COLUMNS], ""]
        for benchmark, rows in _by_benchmark(table, label):
            lines += [benchmark[:MAIL_COLUMNS], "=" * 10]
            lines.append(f"{'case':<28} {'load':<10} baseline(std%)  compare%( std%)")
            lines += [*map(_schedtests_row, rows), ""]
    return "\n".join([*lines, *_mail_end(table)]) + "\n"


def _by_benchmark(table: Table, label: str) -> list[tuple[str, list[Row]]]:
    """Give a label's rows by benchmark, means over cases last."""
    found: dict[str, list[Row]] = {}
    for row in [*table.rows, *table.geomeans]:
        if row.other.label == label:
            found.setdefault(row.case.benchmark or "benchmark", []).append(row)
    return list(found.items())


def _schedtests_row(row: Row) -> str:
    case, load = _case_and_load(row)
    base, other = (
        "  n/a " if side.std_pct is None else f"{side.std_pct:6.2f}"
        for side in (row.base, row.other)
    )
    gain = _bounded(row.gain_pct)
    mark = MARKS[row.compared.verdict]
    name = f"{_fitted(case, 28):<28} {_fitted(load, 10):<10}"
    return f"{name}  1.00 ({base})  {gain} ({other}) {mark}".rstrip()


def _fitted(text: str, width: int) -> str:
    """Shorten a name in its middle: cases differ at their ends."""
    if len(text) <= width:
        return text
    head = (width - 2) // 2
    return f"{text[:head]}..{text[head + 2 - width :]}"


def _bounded(gain_pct: float) -> str:
    """Write a gain within seven columns."""
    text = f"{gain_pct:>+7.2f}"
    return text if len(text) <= 7 else f"{gain_pct:>+7.0e}"  # noqa: PLR2004 - as said


def _case_and_load(row: Row) -> tuple[str, str]:
    """Part a name at its last word, as the field does: case and load."""
    parts = (row.case.case or row.case.metric or row.case.benchmark).split()
    if row.case.case and row.case.metric.count(" "):
        parts = [*row.case.metric.split(), *parts]
    if len(parts) > 1 and any(char.isdigit() for char in parts[-1]):
        return "-".join(parts[:-1]), parts[-1]
    return "-".join(parts), ""


def mmtests(table: Table) -> str:
    """Write tables as mmtests prints them, within 75 columns; positive is better."""
    kind = "Median" if table.settings.statistic == "median" else "Amean"
    lines: list[str] = []
    for label in table.others:
        for benchmark, rows in _by_benchmark(table, label):
            lines.append(benchmark[:MAIL_COLUMNS])
            lines.append(f"{'':<33}{_fitted(table.base, 15):>15}{_fitted(label, 23):>23}")
            for row in rows:
                base, other = (_short(side.middle) for side in (row.base, row.other))
                certain = row.compared.verdict in ("regressed", "improved")
                gain = ("*{}%*" if certain else "({}%)").format(_bounded(row.gain_pct))
                lines.append(
                    f"{kind:<7}{_name(row, 24):<24} {base:>9} (   0.00%) {other:>9} {gain}"
                )
            lines.append("")
    return "\n".join([*lines, *_mail_end(table, "*significant after correction*")]) + "\n"


def _name(row: Row, width: int) -> str:
    """Write metric and case; numbers go without their names where there is no room for them."""
    parts = f"{row.case.metric} {row.case.case}".split() or [row.case.benchmark]
    name = "-".join(parts)
    if len(name) > width:
        name = "-".join(part.rpartition("=")[2] for part in parts)
    return _fitted(name, width)


def _short(value: float) -> str:
    text = f"{value:.4f}" if abs(value) < 100 else f"{value:.2f}"  # noqa: PLR2004 - as mmtests does
    return text if len(text) <= 9 else f"{value:.3e}"  # noqa: PLR2004 - the column's width


def _mail_end(table: Table, legend: str = LEGEND) -> list[str]:
    text = [
        "Positive is better.",
        legend + ".",
        words.settings_text(table) + ".",
        words.counts(table) + ".",
        *notes(table),
        *provenance(table),
    ]
    return [
        line
        for each in text
        for line in textwrap.wrap(
            each, MAIL_COLUMNS, subsequent_indent="  ", break_on_hyphens=False
        )
    ]


def notes(table: Table) -> list[str]:
    """List what a reader should know of single rows."""
    several = len(table.others) > 1
    return [
        f"{row.case.name}{f' ({row.other.label})' if several else ''}: {note}"
        for row in table.rows
        for note in row.notes
    ]


def provenance(table: Table) -> list[str]:
    """Say where the figures come from and what compared them."""
    known = [f"{name.replace('_', ' ')}: {text}" for name, text in table.provenance.items() if text]
    return [*known, f"compared by schedlab {metadata.version('schedlab')}"]


SHAPES: dict[str, Callable[[Table], str]] = {
    "markdown": markdown,
    "csv": comma_separated,
    "schedtests": schedtests,
    "mmtests": mmtests,
}
