"""The pictures of a sweep: lines with intervals, heat maps, fronts and indices, as drawings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from schedlab.report import charts
from schedlab.report.plots import to_svg
from schedlab.sweep.planes import line_name, planes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from schedlab.sweep.model import Axis, Choice, Plan
    from schedlab.sweep.planes import Plane
    from schedlab.sweep.sensitivity import Index
    from schedlab.sweep.table import Row

__all__ = ["CLEAR", "FAINT", "drawn", "legend", "numeric", "pictures"]

WIDTH, HEIGHT = 860, 300

# Of a letter of an axis, so that its title stays clear of long ones in any font.
LETTER = 7.2

# Of an upright title, for the same reason.
CLEAR = alt.Axis(titlePadding=14)

COLOURS = 8

FAINT = "; blue is less, orange more, faint inconclusive"


def pictures(plan: Plan, rows: Sequence[Row], indices: Sequence[Index]) -> list[dict[str, Any]]:
    """Draw what the plan's axes allow, for every workload and machine: ``title`` and ``svg``."""
    found: list[tuple[str, Markup]] = []
    for workload, machine in dict.fromkeys((row.workload, row.machine) for row in rows):
        own = [row for row in rows if (row.workload, row.machine) == (workload, machine)]
        place = f"{workload} on {machine}"
        for choice in plan.figures:
            of_figure = [row for row in own if row.figure == choice.figure]
            if not any(row.mean is not None for row in of_figure):
                continue
            title = f"{place}: {choice.figure}"
            of_index = [
                each
                for each in indices
                if (each.workload, each.machine, each.figure) == (workload, machine, choice.figure)
            ]
            if of_index:
                found.append((f"{title}: what matters", _indices(of_index)))
            elif len(plan.free) == 1 and numeric(plan.free[0]):
                found.append((title, _lines(plan, plan.free[0], of_figure)))
            else:
                found += [
                    (f"{place}: {plane.title}{FAINT * plane.changes}", _heat_map(plan, plane))
                    for plane in planes(plan, of_figure, choice.figure)
                ]
        sought = [
            choice
            for choice in plan.figures
            if choice.better is not None and choice.workload in {None, workload}
        ]
        if len(sought) > 1 and len(own) > len(sought):
            found.append((f"{place}: trade-offs", _front(plan, sought[0], sought[1], own)))
    return [{"title": title, "svg": svg} for title, svg in found]


def numeric(axis: Axis) -> bool:
    """Tell whether an axis has numbers alone."""
    return not axis.values or all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in axis.values
    )


def _colour(names: Sequence[str], symbol: str) -> alt.Color:
    """Colour by variant; the legend shows what is drawn."""
    colours = [f"var(--series-{at % COLOURS})" for at in range(len(names))]
    return alt.Color(
        "variant:N",
        scale=alt.Scale(domain=list(names), range=colours),
        sort=names,
        legend=legend(symbol) if len(names) > 1 else None,
    )


def legend(symbol: str) -> alt.Legend:
    """Make a legend that shows what is drawn."""
    return alt.Legend(symbolType=symbol, symbolOpacity=1, columnPadding=18)


def _title(figure: str, unit: str) -> str:
    return figure if unit in {"", "1"} else f"{figure} ({unit})"


def drawn(chart: alt.LayerChart | alt.FacetChart, height: int = HEIGHT) -> Markup:
    """Draw a chart in the width of a page."""
    spec = charts.finish(chart, height)
    spec["width"] = WIDTH
    return to_svg(spec)


def _lines(plan: Plan, axis: Axis, rows: Sequence[Row]) -> Markup:
    points = []
    for row in rows:
        if row.mean is not None:
            low, high = row.interval or (row.mean, row.mean)
            points.append(
                {
                    "x": row.values[axis.name],
                    "y": row.mean,
                    "low": low,
                    "high": high,
                    "variant": line_name(plan, row),
                }
            )
    names = list(dict.fromkeys(str(point["variant"]) for point in points))
    values = [float(point["x"]) for point in points]
    by_factors = axis.logarithmic or (min(values) > 0 and max(values) >= 30 * min(values))
    base = alt.Chart(alt.InlineData(values=points)).encode(
        x=alt.X(
            "x:Q",
            title=axis.name,
            scale=alt.Scale(type="log" if by_factors else "linear", nice=False, zero=False),
            axis=alt.Axis(values=sorted(set(values)), format=",~f", grid=False),
        ),
        color=_colour(names, "stroke"),
    )
    y_title = _title(rows[0].figure, rows[0].unit)
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=False), axis=CLEAR)
    return drawn(
        alt.layer(
            base.mark_area(opacity=0.18).encode(
                y=alt.Y("low:Q", title=y_title, scale=alt.Scale(zero=False), axis=CLEAR),
                y2="high:Q",
            ),
            base.mark_line(strokeWidth=2).encode(y=y),
            base.mark_point(size=36, filled=True, opacity=1).encode(y=y),
        )
    )


def _heat_map(plan: Plan, plane: Plane) -> Markup:
    down, across = plan.free
    squares = [
        {"x": x, "y": y, "z": _square(row), "text": _text(row), "sure": _sure(row)}
        for (x, y), row in plane.rows.items()
    ]
    most = max(abs(_square(row)) for row in plane.rows.values())
    scale = (
        # Twice as far as any change: the ends of the scheme are too dark for text.
        alt.Scale(scheme="blueorange", domain=[-2 * most or -1, 2 * most or 1])
        if plane.changes
        else alt.Scale(scheme="blues")
    )
    base = alt.Chart(alt.InlineData(values=squares)).encode(
        x=alt.X("x:N", title=across.name, sort=plane.across, axis=alt.Axis(labelAngle=0)),
        y=alt.Y(
            "y:N",
            title=down.name,
            sort=plane.down,
            axis=alt.Axis(minExtent=LETTER * max(map(len, plane.down))),
        ),
    )

    def faint(opacity: float) -> Any:
        """Let what is inconclusive be seen less."""
        return alt.condition("datum.sure", alt.value(1), alt.value(opacity))

    chart = alt.layer(
        base.mark_rect().encode(
            color=alt.Color("z:Q", scale=scale, legend=None), opacity=faint(0.4)
        ),
        base.mark_text(fontSize=11.5, color="#17202a").encode(text="text:N", opacity=faint(0.75)),
    )
    return drawn(chart, 40 + 34 * len(plane.down))


def _square(row: Row) -> float:
    return row.compared.change_pct if row.compared is not None else row.mean or 0.0


def _text(row: Row) -> str:
    return f"{row.mean:.4g}" if row.compared is None else f"{row.compared.change_pct:+.2f}"


def _sure(row: Row) -> bool:
    return row.compared is None or row.compared.verdict != "inconclusive"


def _front(plan: Plan, first: Choice, second: Choice, rows: Sequence[Row]) -> Markup:
    """Draw every variant of every cell by two figures, and what no other is better than."""
    means: dict[tuple[int, str], dict[str, float]] = {}
    for row in rows:
        if row.mean is not None:
            means.setdefault((row.cell, line_name(plan, row)), {})[row.figure] = row.mean
    points: list[dict[str, Any]] = [
        {"x": own[first.figure], "y": own[second.figure], "variant": name}
        for (_, name), own in means.items()
        if first.figure in own and second.figure in own
    ]
    signs = [1 if each.better == "lower" else -1 for each in (first, second)]
    best = float("inf")
    front = []
    for point in sorted(points, key=lambda each: (signs[0] * each["x"], signs[1] * each["y"])):
        if signs[1] * point["y"] < best:
            best = signs[1] * point["y"]
            front.append(point)
    names = list(dict.fromkeys(str(point["variant"]) for point in points))
    units = {row.figure: row.unit for row in rows}

    def encoded(values: list[dict[str, Any]]) -> alt.Chart:
        return alt.Chart(alt.InlineData(values=values)).encode(
            x=alt.X(
                "x:Q",
                title=_title(first.figure, units[first.figure]),
                scale=alt.Scale(zero=False),
            ),
            y=alt.Y(
                "y:Q",
                title=_title(second.figure, units[second.figure]),
                scale=alt.Scale(zero=False),
                axis=CLEAR,
            ),
        )

    return drawn(
        alt.layer(
            encoded(front).mark_line(color="var(--ink-3)", strokeDash=[4, 3], strokeWidth=1.2),
            encoded(points)
            .mark_point(size=46, filled=True, opacity=0.85)
            .encode(color=_colour(names, "circle")),
        )
    )


def _indices(indices: Sequence[Index]) -> Markup:
    several = len({each.variant for each in indices}) > 1
    bars = [
        {
            "axis": each.axis,
            "value": value,
            "low": value - by,
            "high": value + by,
            "variant": f"{each.variant}, {kind}" if several else kind,
        }
        for each in indices
        for kind, value, by in (
            ("first order", each.first, each.first_by),
            ("total", each.total, each.total_by),
        )
    ]
    order = list(dict.fromkeys(str(bar["variant"]) for bar in bars))
    by_share = sorted(indices, key=lambda each: -each.total)
    axes = list(dict.fromkeys(each.axis for each in by_share))
    base = alt.Chart(alt.InlineData(values=bars)).encode(
        x=alt.X("axis:N", title=None, sort=axes, axis=alt.Axis(labelAngle=0, labelOverlap=False)),
        xOffset=alt.XOffset("variant:N", sort=order),
    )
    title = "share of variance"
    # An estimate may fall below zero, where no share is.
    scale = alt.Scale(domain=[0, max(1.0, *(each.first + each.first_by for each in indices))])
    return drawn(
        alt.layer(
            base.mark_bar(clip=True).encode(
                y=alt.Y("value:Q", title=title, scale=scale), color=_colour(order, "square")
            ),
            base.mark_rule(color="var(--ink)", clip=True).encode(
                y=alt.Y("low:Q", title=title, scale=scale), y2="high:Q"
            ),
        )
    )
