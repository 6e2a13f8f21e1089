"""Figures and claims in words, for every form of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedlab.study.model import Row

__all__ = ["cells", "claim", "interval", "number", "percent", "verdict"]

# Significant digits of a figure: more than any published one has.
DIGITS = 6


def claim(row: Row) -> str:
    """Say what must hold of a row."""
    tolerance = "" if row.tolerance is None else f"{row.tolerance:g}"
    expected = "" if row.expected is None else f"{row.expected:g}"
    return {
        "": "",
        "exactly": f"{expected}, by {tolerance}" if row.tolerance else f"exactly {expected}",
        "within %": f"within {tolerance} %",
        "within points": f"within {tolerance}",
        "order": "in this order",
        "direction": "in this direction",
        "equal": f"equal within {tolerance} %",
        "not significant": f"not significant, p >= {tolerance}",
        "better": f"better, p < {tolerance}",
        "fitted": "(fitted)",
        "shown": "",
        "near": f"{expected} %, by {tolerance} points",
    }[row.rule]


def cells(row: Row, *, several: bool) -> dict[str, str | None]:
    """Write a row of the table; ``several``: there is more than one machine to name."""
    place = f"{row.machine}: {row.workload}" if several else row.workload
    is_change = row.verdict is not None
    return {
        "what": f"{place}: {row.metric}",
        "kernel": row.kernel,
        "simulated": number(row.simulated, signed=is_change),
        "interval": interval(row),
        "spread": percent(row.spread_pct),
        "published": number(row.published, signed=is_change),
        "published_spread": percent(row.published_spread_pct),
        "unit": row.unit,
        "claim": claim(row),
        "p": None if row.p is None else f"{row.p:.3g}",
        "verdict": row.verdict,
        "ok": verdict(row),
    }


def number(value: float | None, *, signed: bool = False) -> str | None:
    """Write a figure with as many digits as tell something.

    >>> number(107654.884), number(0.82194), number(31.0), number(0.0000002, signed=True)
    ('107,654.9', '0.82194', '31', '+0.0000')
    """
    if value is None:
        return None
    sign = "+" if signed else ""
    if signed:
        return f"{value:{sign},.4f}"
    if value == int(value) and abs(value) < 10**DIGITS:
        return f"{value:,.0f}"
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:,.{max(1, DIGITS - whole) if whole else DIGITS - 1}f}"


def interval(row: Row) -> str | None:
    """Write a row's confidence interval."""
    if row.interval is None:
        return None
    signed = row.verdict is not None
    low, high = (number(bound, signed=signed) for bound in row.interval)
    return f"{low} .. {high}"


def percent(value: float | None) -> str | None:
    """Write a spread."""
    return None if value is None else f"{value:.2f}"


def verdict(row: Row) -> str:
    """Say whether the row's claim holds; nothing where it makes none."""
    return {True: "ok", False: "MISS", None: ""}[row.ok]
