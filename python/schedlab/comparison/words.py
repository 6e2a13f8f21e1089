"""Rows in words: the same cells for every output."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedlab.comparison.table import Row, Side, Table
    from schedlab.stats import Drift, Interval

__all__ = ["counts", "number", "row_cells", "row_dict", "settings_text", "table_dict"]


def number(value: float) -> str:
    """Write a figure with six digits, and no more than it has.

    >>> number(107654.884), number(0.82194), number(31.0), number(1234567.0)
    ('107,655', '0.82194', '31', '1,234,567')
    """
    if not math.isfinite(value):
        return ""
    if value == int(value) and abs(value) < 1e15:  # noqa: PLR2004 - as far as floats count
        return f"{value:,.0f}"
    text = f"{value:,.6g}"
    return f"{value:,.0f}" if "e+" in text else text


def signed(value: float | None) -> str:
    """Write percent with its sign."""
    return "" if value is None else f"{value:+.2f}"


def interval(bounds: Interval | None) -> str:
    """Write an interval of percent."""
    return "" if bounds is None else f"{bounds[0]:+.2f} .. {bounds[1]:+.2f}"


def p_value(p: float | None) -> str:
    """Write a p value."""
    if p is None:
        return ""
    return "<0.0001" if 0 <= p < 0.0001 else f"{p:.4f}"  # noqa: PLR2004 - as printed


def verdict(row: Row) -> str:
    """Write the verdict, and what would settle an inconclusive one."""
    compared = row.compared
    if compared.verdict != "inconclusive":
        return compared.verdict
    return "inconclusive" + (f" (n={compared.iterations:,})" if compared.iterations else "")


def spread(side: Side) -> str:
    """Write a standard deviation in percent."""
    return "" if side.std_pct is None else f"{side.std_pct:.2f}"


def row_cells(row: Row, table: Table) -> dict[str, str]:
    """Write the cells of a row."""
    compared = row.compared
    correction = table.settings.rules.correction
    return {
        "case": row.case.name,
        "other": row.other.label,
        "base_middle": number(row.base.middle),
        "base_std": spread(row.base),
        "middle": number(row.other.middle),
        "std": spread(row.other),
        "unit": row.case.unit,
        "n": str(row.base.n) if row.base.n == row.other.n else f"{row.base.n}/{row.other.n}",
        "effect": signed(compared.change_pct),
        "interval": interval(compared.interval_pct),
        "bootstrap": interval(compared.bootstrap_pct),
        "p": p_value(compared.p),
        "p_corrected": p_value(compared.p_corrected(correction)),
        "verdict": verdict(row),
        "notes": "; ".join(row.notes),
    }


def counts(table: Table) -> str:
    """Say how the rows ended."""
    found = [row.compared.verdict for row in table.rows]
    parts = [
        f"{found.count(word)} {word}"
        for word in ("regressed", "improved", "equivalent", "inconclusive")
        if word in found
    ]
    return f"{len(found)} row{'s' if len(found) != 1 else ''}: {', '.join(parts)}"


def settings_text(table: Table) -> str:
    """Say under which rules the verdicts hold."""
    rules = table.settings.rules
    tests = sum(row.compared.p is not None for row in table.rows)
    rows = "1 row" if tests == 1 else f"{tests} rows"
    name = {"holm": "Holm", "bh": "Benjamini-Hochberg", "none": "none"}[rules.correction]
    kinds = {row.paired for row in table.rows}
    how = "paired by iteration" if kinds == {True} else "unpaired" if kinds == {False} else "mixed"
    middle = table.settings.statistic
    return (
        f"ratio of {middle}s, {how}; {100 * (1 - rules.significance):g} % intervals; "
        f"p corrected over {rows}: {name}; margin {rules.margin_pct:g} %"
    )


def row_dict(row: Row, table: Table) -> dict[str, Any]:
    """Give a row for JSON."""
    compared = row.compared
    return {
        **row.case._asdict(),
        "base": _side_dict(row.base),
        "other": _side_dict(row.other),
        "paired": row.paired,
        "effect": row.effect,
        "effect_pct": compared.change_pct,
        "interval": _ratio(compared.interval_pct),
        "interval_pct": _pair(compared.interval_pct),
        "bootstrap_interval": _ratio(compared.bootstrap_pct),
        "bootstrap_interval_pct": _pair(compared.bootstrap_pct),
        "p": compared.p,
        "p_corrected": compared.p_corrected(table.settings.rules.correction),
        "p_holm": compared.p_holm,
        "p_bh": compared.p_bh,
        "p_equivalent": compared.p_equivalent,
        "verdict": compared.verdict,
        "iterations_to_settle": compared.iterations,
        "flagged": row.flagged,
        "notes": list(row.notes),
    }


def _pair(bounds: Interval | None) -> list[float] | None:
    return None if bounds is None else list(bounds)


def _ratio(bounds: Interval | None) -> list[float] | None:
    return None if bounds is None else [1 + bound / 100 for bound in bounds]


def _side_dict(side: Side) -> dict[str, Any]:
    return {
        "label": side.label,
        "n": side.n,
        "middle": side.middle if math.isfinite(side.middle) else None,
        "std_pct": side.std_pct,
        "outliers": [side.iterations[place] for place in side.outliers],
        "drift": _drift_dict(side.drift),
    }


def _drift_dict(drift: Drift | None) -> dict[str, float] | None:
    return None if drift is None else {"pct": drift.pct, "p": drift.p}


def table_dict(table: Table) -> dict[str, Any]:
    """Give a table for JSON."""
    rules = table.settings.rules
    return {
        "base": table.base,
        "others": list(table.others),
        "statistic": table.settings.statistic,
        "significance": rules.significance,
        "correction": rules.correction,
        "margin_pct": rules.margin_pct,
        "interleaved": table.interleaved,
        "rows": [row_dict(row, table) for row in table.rows],
        "geometric_means": [row_dict(row, table) for row in table.geomeans],
        "unread": list(table.unread),
        "provenance": table.provenance,
    }
