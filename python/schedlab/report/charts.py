"""The charts, as Vega-Lite specifications made with Altair and drawn by the page.

Colours are custom properties of the page (``var(--series-0)``), so that the same drawing serves the
light page, the dark one and paper. Strings from a trace are data values here, never expressions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from schedlab.report.pack import idle_colour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.report.model import IdleState

__all__ = ["finish", "idle_histogram", "latency_distribution", "latency_points"]

SERIES = 6
"""Curves in the latency chart: more cannot be told apart."""

POINTS = 160
"""Points of one curve at most."""

BINS_PER_DECADE = 8
"""Of the idle histogram."""

MICROSECONDS = "datum.label && datum.value < 1 ? format(datum.value, '~g') : datum.label"
"""What a logarithmic axis of microseconds makes of its labels: 0.1 is not to read "100m"."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Arial, sans-serif"


def finish(chart: alt.LayerChart | alt.FacetChart, height: int) -> dict[str, Any]:
    """Give a chart the looks of the page, as a specification to be drawn there."""
    axis = {
        "labelColor": "var(--ink-3)",
        "titleColor": "var(--ink-2)",
        "gridColor": "var(--line)",
        "domainColor": "var(--line-2)",
        "tickColor": "var(--line-2)",
        "labelFontSize": 11.5,
        "titleFontSize": 12,
        "titleFontWeight": 500,
        "titlePadding": 8,
        "labelOverlap": True,
    }
    spec: dict[str, Any] = (
        chart.properties(width="container", height=height)
        .configure(
            background="transparent",
            font=FONT,
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
            padding={"left": 2, "right": 8, "top": 4, "bottom": 2},
        )
        .configure_view(stroke=None)
        .configure_axis(**axis)
        .configure_legend(
            labelColor="var(--ink-2)",
            titleColor="var(--ink-2)",
            labelFontSize=12,
            symbolStrokeWidth=3,
            symbolType="stroke",
            orient="bottom",
            columns=3,
            title=None,
            labelLimit=150,
        )
        .to_dict()
    )
    spec.get("config", {}).pop("customFormatTypes", None)
    return spec


def latency_points(samples: pl.DataFrame) -> list[dict[str, Any]]:
    """Give the complementary distribution per name: the share of wakeups that waited longer.

    ``samples`` has the columns ``comm`` and ``latency_ns``. The names with the most wakeups are
    kept, and of each curve the points that its shape needs.

    >>> frame = pl.DataFrame({"comm": ["a", "a"], "latency_ns": [1000, 3000]})
    >>> [(point["latency_us"], point["slower_pct"]) for point in latency_points(frame)]
    [(1.0, 100.0), (3.0, 50.0)]
    """
    counts = samples.group_by("comm").len().sort(["len", "comm"], descending=[True, False])
    points: list[dict[str, Any]] = []
    for comm, count in counts.head(SERIES).iter_rows():
        values = samples.filter(pl.col("comm") == comm)["latency_ns"].sort()
        points += [
            {
                "comm": comm,
                "latency_us": max(0.1, values[rank] / 1000),
                "slower_pct": 100 * (count - rank) / count,
            }
            for rank in _ranks(count)
        ]
    return points


def _ranks(count: int) -> list[int]:
    """Ranks spread so that the tail, where a logarithmic axis looks, keeps every sample."""
    if count <= POINTS:
        return list(range(count))
    steps = POINTS - 1
    ranks = {count - max(1, round(count ** (1 - i / steps))) for i in range(POINTS)}
    ranks |= {round(i * (count - 1) / 40) for i in range(41)}
    return sorted(ranks)


def latency_distribution(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Draw the curves of :func:`latency_points`."""
    names = list(dict.fromkeys(point["comm"] for point in points))
    colours = [f"var(--series-{index})" for index in range(len(names))]
    lowest = min(point["slower_pct"] for point in points)
    floor = 10.0 ** math.floor(math.log10(lowest))
    chart = (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(interpolate="step-after", strokeWidth=2, clip=True)
        .encode(
            x=alt.X(
                "latency_us:Q",
                title="wakeup latency (µs)",
                scale=alt.Scale(type="log", nice=False),
                axis=alt.Axis(format="~s", labelExpr=MICROSECONDS, tickCount=6),
            ),
            y=alt.Y(
                "slower_pct:Q",
                title="wakeups that waited longer (%)",
                scale=alt.Scale(type="log", domain=[floor, 100]),
                axis=alt.Axis(format="~g", tickCount=4),
            ),
            color=alt.Color("comm:N", scale=alt.Scale(domain=names, range=colours), sort=names),
            tooltip=[
                alt.Tooltip("comm:N", title="task"),
                alt.Tooltip("latency_us:Q", title="latency, µs", format=",.1f"),
                alt.Tooltip("slower_pct:Q", title="waited longer, %", format=".3~g"),
            ],
        )
    )
    return finish(alt.layer(chart), 300)


def idle_bins(sleeps: pl.DataFrame, states: Sequence[IdleState]) -> list[dict[str, Any]]:
    """Count idle periods by state in bins of equal width on a logarithmic axis.

    ``sleeps`` has the columns ``start_ns``, ``end_ns`` and ``state``.
    """
    duration = (pl.col("end_ns") - pl.col("start_ns")).clip(100, None)
    counted = (
        sleeps.select("state", bin=(duration.log10() * BINS_PER_DECADE).floor().cast(pl.Int32))
        .group_by("bin", "state")
        .len()
        .sort("bin", "state")
    )
    bars: list[dict[str, Any]] = []
    below: dict[int, int] = {}
    for number, state, count in counted.iter_rows():
        base = below.get(number, 0)
        below[number] = base + count
        bars.append(
            {
                "from_us": 10 ** (number / BINS_PER_DECADE) / 1000,
                "to_us": 10 ** ((number + 1) / BINS_PER_DECADE) / 1000,
                "state": states[state].name,
                "periods": count,
                "base": base,
                "top": base + count,
            }
        )
    return bars


def idle_histogram(bins: list[dict[str, Any]], states: Sequence[IdleState]) -> dict[str, Any]:
    """Draw :func:`idle_bins` with a rule at every state's target residency."""
    names = [state.name for state in states]
    colours = [f"var(--idle-{idle_colour(i, len(states))})" for i in range(len(states))]
    x = alt.X(
        "from_us:Q",
        title="idle period (µs)",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(format="~s", labelExpr=MICROSECONDS, tickCount=6, grid=False),
    )
    bars = (
        alt.Chart(alt.InlineData(values=bins))
        .mark_rect(stroke="var(--page)", strokeWidth=0.75)
        .encode(
            x=x,
            x2="to_us:Q",
            y=alt.Y("base:Q", title="periods", axis=alt.Axis(tickCount=5, format=",d")),
            y2="top:Q",
            color=alt.Color(
                "state:N",
                scale=alt.Scale(domain=names, range=colours),
                sort=names,
                legend=alt.Legend(symbolType="square", symbolStrokeWidth=0),
            ),
            tooltip=[
                alt.Tooltip("state:N", title="state"),
                alt.Tooltip("from_us:Q", title="from, µs", format=",.3~g"),
                alt.Tooltip("to_us:Q", title="to, µs", format=",.3~g"),
                alt.Tooltip("periods:Q", title="periods", format=",d"),
            ],
        )
    )
    residencies = [
        {"state": state.name, "residency_us": state.target_residency_ns / 1000}
        for state in states
        if state.target_residency_ns
    ]
    if not residencies:
        return finish(alt.layer(bars), 300)
    base = alt.Chart(alt.InlineData(values=residencies)).encode(x=alt.X("residency_us:Q"))
    rules = base.mark_rule(color="var(--ink-2)", strokeDash=[3, 3], strokeWidth=1.2).encode(
        tooltip=[
            alt.Tooltip("state:N", title="state"),
            alt.Tooltip("residency_us:Q", title="target residency, µs", format=",.3~g"),
        ]
    )
    labels = base.mark_text(
        color="var(--ink-2)", fontSize=11, align="left", dx=3, dy=6, baseline="top"
    ).encode(y=alt.value(0), text="state:N")
    return finish(alt.layer(bars, rules, labels), 300)
