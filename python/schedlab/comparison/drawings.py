"""Pictures of a comparison: all rows as a forest, and one row's values by label and over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair as alt

from schedlab.report import charts, plots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from schedlab.comparison.table import Row, Table

__all__ = ["forest", "values"]

WIDTH = 760
ROW_HEIGHT = 17
NAME_WIDTH = 300

COLOURS = {
    "regressed": "var(--deep)",
    "improved": "var(--good)",
    "equivalent": "var(--accent)",
    "inconclusive": "var(--ink-3)",
}


def forest(table: Table, rows: Sequence[Row]) -> Markup:
    """Draw each row's change with its interval, against no change and the margin."""
    several = len(table.others) > 1
    names = [_name(row, number, several=several) for number, row in enumerate(rows)]
    reach = _reach(table, rows)
    points = [
        {
            "name": name,
            "change": max(-reach, min(reach, row.compared.change_pct)),
            "verdict": row.compared.verdict,
        }
        for name, row in zip(names, rows, strict=True)
    ]
    spans = [
        {
            "name": name,
            "low": max(-reach, row.compared.interval_pct[0]),
            "high": min(reach, row.compared.interval_pct[1]),
            "verdict": row.compared.verdict,
        }
        for name, row in zip(names, rows, strict=True)
        if row.compared.interval_pct is not None
    ]
    margin = table.settings.rules.margin_pct
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=NAME_WIDTH, grid=False))
    x_scale = alt.Scale(domain=[-reach, reach], nice=False)
    colour = alt.Color(
        "verdict:N", scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    )
    band = (
        alt.Chart(alt.InlineData(values=[{"low": -margin, "high": margin}]))
        .mark_rect(color="var(--sunken)")
        .encode(x=alt.X("low:Q", scale=x_scale, title="change (%)"), x2="high:Q")
    )
    zero = (
        alt.Chart(alt.InlineData(values=[{"zero": 0}]))
        .mark_rule(color="var(--ink-3)", strokeDash=[3, 3])
        .encode(x=alt.X("zero:Q", scale=x_scale))
    )
    lines = (
        alt.Chart(alt.InlineData(values=spans))
        .mark_rule(strokeWidth=2)
        .encode(x=alt.X("low:Q", scale=x_scale), x2="high:Q", y=y, color=colour)
    )
    dots = (
        alt.Chart(alt.InlineData(values=points))
        .mark_point(size=44, filled=True, opacity=1)
        .encode(x=alt.X("change:Q", scale=x_scale), y=y, color=colour)
    )
    spec = charts.finish(alt.layer(band, zero, lines, dots), ROW_HEIGHT * len(rows) + 20)
    spec["width"] = WIDTH
    # The page's font may be wider than the one that measured the names.
    spec["config"]["padding"]["left"] = 60
    spec["config"]["legend"]["columns"] = len(COLOURS)
    return plots.to_svg(spec)


def _name(row: Row, number: int, *, several: bool) -> str:
    label = f" ({row.other.label})" if several else ""
    # Names have to differ, or rows would fall onto one another.
    return f"{row.case.name}{label}" + "\N{ZERO WIDTH SPACE}" * number


def _reach(table: Table, rows: Sequence[Row]) -> float:
    """Give how far the axis goes: past all estimates, not past every wide interval."""
    changes = [abs(row.compared.change_pct) for row in rows]
    bounds = sorted(
        max(map(abs, row.compared.interval_pct)) for row in rows if row.compared.interval_pct
    )
    usual = bounds[math.ceil(0.9 * (len(bounds) - 1))] if bounds else 0.0
    return 1.1 * max(*changes, usual, 2 * table.settings.rules.margin_pct, 1e-9)


def values(row: Row) -> Markup:
    """Draw one row's values: by label on the left, in the order of time on the right."""
    labels = [row.base.label, row.other.label]
    points: list[dict[str, Any]] = [
        {
            "label": side.label,
            "value": value,
            "order": number,
            "outlier": "outlier" if number in side.outliers else "value",
        }
        for side in (row.base, row.other)
        for number, value in enumerate(side.values)
    ]
    colour = alt.Color(
        "label:N",
        scale=alt.Scale(domain=labels, range=["var(--series-0)", "var(--series-1)"]),
        sort=labels,
    )
    unit = f" ({row.case.unit})" if row.case.unit else ""
    y = alt.Y("value:Q", title=f"{row.case.metric or row.case.benchmark}{unit}").scale(zero=False)
    base = alt.Chart(alt.InlineData(values=points))
    shape = alt.Shape(
        "outlier:N",
        scale=alt.Scale(domain=["value", "outlier"], range=["circle", "cross"]),
        legend=None,
    )
    by_label = alt.layer(
        base.mark_boxplot(size=26, outliers=False, opacity=0.35).encode(
            x=alt.X("label:N", sort=labels, title=None), y=y, color=colour
        ),
        base.mark_point(size=26, filled=True).encode(
            x=alt.X("label:N", sort=labels, title=None), y=y, color=colour, shape=shape
        ),
    ).properties(width=150, height=190)
    in_time = alt.layer(
        base.mark_line(strokeWidth=1, opacity=0.6).encode(
            x=alt.X(
                "order:Q", title="iteration, in the order of time", axis=alt.Axis(tickMinStep=1)
            ),
            y=y,
            color=colour,
        ),
        base.mark_point(size=26, filled=True).encode(
            x=alt.X("order:Q"), y=y, color=colour, shape=shape
        ),
    ).properties(width=520, height=190)
    spec = alt.hconcat(by_label, in_time)
    looks = charts.finish(alt.layer(base.mark_point()), 10)["config"]
    looks.pop("autosize", None)
    return plots.to_svg({**spec.to_dict(), "config": looks})
