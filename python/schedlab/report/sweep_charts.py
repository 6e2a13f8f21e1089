"""The pictures of a sweep: lines with intervals, heat maps, fronts and indices, as drawings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from schedlab.report import charts
from schedlab.report.plots import to_svg
from schedlab.sweep.model import label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from schedlab.sweep.model import Axis, Choice, Plan
    from schedlab.sweep.sensitivity import Index
    from schedlab.sweep.table import Row

__all__ = ["pictures"]

WIDTH, HEIGHT = 640, 300

COLOURS = 8


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
            elif len(plan.free) == 1 and _numeric(plan.free[0]):
                found.append((title, _lines(plan, plan.free[0], of_figure)))
            elif len(plan.free) == 2 and plan.design == "grid":  # noqa: PLR2004 - a plane
                found += [(f"{title}{of}", svg) for of, svg in _heat_maps(plan, of_figure)]
        sought = [
            choice
            for choice in plan.figures
            if choice.better is not None and choice.workload in {None, workload}
        ]
        if len(sought) > 1 and len(own) > len(sought):
            found.append((f"{place}: trade-offs", _front(plan, sought[0], sought[1], own)))
    return [{"title": title, "svg": svg} for title, svg in found]


def _numeric(axis: Axis) -> bool:
    return not axis.values or all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in axis.values
    )


def _colour(names: Sequence[str], title: str) -> alt.Color:
    colours = [f"var(--series-{at % COLOURS})" for at in range(len(names))]
    return alt.Color(
        "variant:N", title=title, scale=alt.Scale(domain=list(names), range=colours), sort=names
    )


def _drawn(chart: alt.LayerChart | alt.FacetChart, height: int = HEIGHT) -> Markup:
    spec = charts.finish(chart, height)
    spec["width"] = WIDTH
    return to_svg(spec)


def _name(plan: Plan, row: Row) -> str:
    """Name a line: the variant, and the kernel where that is not what is compared."""
    several = plan.compare != "kernel" and len(plan.study.kernels) > 1
    variant = row.variant if plan.compare == "kernel" else f"{plan.compare} {row.variant}"
    return f"{row.kernel}, {variant}" if several else variant


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
                    "variant": _name(plan, row),
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
            axis=alt.Axis(values=sorted(set(values)), format="~g", grid=False),
        ),
        color=_colour(names, plan.compare),
    )
    y_title = f"{rows[0].figure} ({rows[0].unit})"
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=False))
    return _drawn(
        alt.layer(
            base.mark_area(opacity=0.18).encode(
                y=alt.Y("low:Q", title=y_title, scale=alt.Scale(zero=False)), y2="high:Q"
            ),
            base.mark_line(strokeWidth=2).encode(y=y),
            base.mark_point(size=36, filled=True).encode(y=y),
        )
    )


def _heat_maps(plan: Plan, rows: Sequence[Row]) -> list[tuple[str, Markup]]:
    """Draw a plane per variant: its change from the baseline, or its mean where it has none."""
    across, down = plan.free
    drawn = []
    for name in dict.fromkeys(_name(plan, row) for row in rows):
        own = [row for row in rows if _name(plan, row) == name and row.mean is not None]
        changes = [row.compared.change_pct for row in own if row.compared is not None]
        if not own or (not changes and len(plan.variants) > 1):
            continue
        squares = [
            {
                "x": label(row.values[across.name]),
                "y": label(row.values[down.name]),
                "z": row.mean if row.compared is None else row.compared.change_pct,
                "text": f"{row.mean:.4g}"
                if row.compared is None
                else f"{row.compared.change_pct:+.2f}",
                "sure": row.compared is None or row.compared.verdict != "inconclusive",
            }
            for row in own
        ]
        most = max(map(abs, changes), default=0.0)
        scale = (
            # Twice as far as any change: the ends of the scheme are too dark for text.
            alt.Scale(scheme="blueorange", domain=[-2 * most or -1, 2 * most or 1])
            if changes
            else alt.Scale(scheme="blues")
        )
        base = alt.Chart(alt.InlineData(values=squares)).encode(
            x=alt.X(
                "x:N",
                title=across.name,
                sort=[label(value) for value in across.grid()],
                axis=alt.Axis(labelAngle=0),
            ),
            y=alt.Y("y:N", title=down.name, sort=[label(value) for value in down.grid()]),
        )
        chart = alt.layer(
            base.mark_rect().encode(color=alt.Color("z:Q", scale=scale, legend=None)),
            # What is inconclusive is faint.
            base.mark_text(fontSize=11, color="#17202a").encode(
                text="text:N", opacity=alt.condition("datum.sure", alt.value(1), alt.value(0.6))
            ),
        )
        what = f", change of {name}, %" if changes else ""
        drawn.append((what, _drawn(chart, 40 + 34 * len(down.grid()))))
    return drawn


def _front(plan: Plan, first: Choice, second: Choice, rows: Sequence[Row]) -> Markup:
    """Draw every variant of every cell by two figures, and what no other is better than."""
    means: dict[tuple[int, str], dict[str, float]] = {}
    for row in rows:
        if row.mean is not None:
            means.setdefault((row.cell, _name(plan, row)), {})[row.figure] = row.mean
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
                title=f"{first.figure} ({units[first.figure]})",
                scale=alt.Scale(zero=False),
            ),
            y=alt.Y(
                "y:Q",
                title=f"{second.figure} ({units[second.figure]})",
                scale=alt.Scale(zero=False),
            ),
        )

    return _drawn(
        alt.layer(
            encoded(front).mark_line(color="var(--ink-3)", strokeDash=[4, 3], strokeWidth=1.2),
            encoded(points)
            .mark_point(size=46, filled=True)
            .encode(color=_colour(names, plan.compare)),
        )
    )


def _indices(indices: Sequence[Index]) -> Markup:
    bars = [
        {
            "axis": each.axis,
            "kind": kind,
            "value": value,
            "low": value - by,
            "high": value + by,
            "variant": each.variant,
        }
        for each in indices
        for kind, value, by in (
            ("first", each.first, each.first_by),
            ("total", each.total, each.total_by),
        )
    ]
    names = list(dict.fromkeys(each.variant for each in indices))
    order = [f"{name}, {kind}" for name in names for kind in ("first", "total")]
    for bar in bars:
        bar["variant"] = f"{bar['variant']}, {bar['kind']}"
    base = alt.Chart(alt.InlineData(values=bars)).encode(
        x=alt.X("axis:N", title=None, axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("variant:N", sort=order),
    )
    title = "share of variance"
    return _drawn(
        alt.layer(
            base.mark_bar().encode(
                y=alt.Y("value:Q", title=title), color=_colour(order, "variant")
            ),
            base.mark_rule(color="var(--ink)").encode(y=alt.Y("low:Q", title=title), y2="high:Q"),
        )
    )
