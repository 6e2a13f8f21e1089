"""A study's plots, as drawings that need no script."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import altair as alt
import vl_convert
from markupsafe import Markup

from schedlab.report import charts, page
from schedlab.stats import mean_of
from schedlab.study.reading import StudyError

if TYPE_CHECKING:
    from schedlab.study import StudyResult
    from schedlab.study.model import Plot, Point

__all__ = ["alone", "drawing", "in_colours", "to_svg", "values"]

WIDTH, HEIGHT = 640, 300

COLOURS = 6

# More names than that stand aslant below their bars, so that all are told.
LEVEL_NAMES_MAX = 5


def values(result: StudyResult, plot: Plot) -> list[dict[str, Any]]:
    """Give a plot's points: ``x``, ``line`` and ``y``, the mean over iterations.

    Of bars there is also what was ``published``.

    Raises :class:`schedlab.StudyError` for a figure that a workload does not have.
    """
    places = [
        (_x(point), line, point.workload or line, point.kernel or line)
        for line in _lines(result, plot)
        for point in plot.points
    ]
    found: dict[tuple[str, str], list[float]] = {}
    for figure in result.figures:
        if figure.figure == plot.figure:
            place = found.setdefault((figure.workload, figure.kernel), [])
            place += [] if figure.value is None else [figure.value]
    points = []
    for x, line, workload, kernel in places:
        if (workload, kernel) not in found:
            raise StudyError(
                f"{result.study.name}: plot {plot.title!r}: workload {workload} has no "
                f"figure {plot.figure!r}"
            )
        if own := found[workload, kernel]:
            published = _published(result, plot, workload, kernel) if plot.bars else None
            y = mean_of(own, result.study.mean)
            points.append({"x": x, "line": line, "y": y, "published": published})
    return points


def _x(point: Point) -> float | str:
    return (point.kernel or point.workload or "") if point.x is None else point.x


def _published(result: StudyResult, plot: Plot, workload: str, kernel: str) -> float | None:
    study = result.study
    for metric in study.metrics:
        if (metric.workload, metric.figure) == (workload, plot.figure) and study.published:
            found = study.published.values.get((metric.published or "", kernel))
            if found and not (result.small and metric.full_size):
                return mean_of(found, metric.mean)
    return None


def _lines(result: StudyResult, plot: Plot) -> list[str]:
    return list(plot.lines) or [kernel.name for kernel in result.study.kernels]


def drawing(result: StudyResult, plot: Plot) -> Markup:
    """Draw a plot as SVG, in the colours of the page that it stands on."""
    kind: Literal["log", "linear"] = "log" if plot.logarithmic else "linear"
    points = values(result, plot)
    if plot.logarithmic:
        # A logarithm knows no zero.
        points = [point for point in points if point["x"] > 0 and point["y"] > 0]
    lines = _lines(result, plot)
    legend = alt.Legend(symbolType="square" if plot.bars else "stroke")
    colour = alt.Color(
        "line:N",
        legend=None if plot.bars and len(lines) == 1 else legend,
        title="workload" if plot.lines else "kernel",
        scale=alt.Scale(
            domain=lines,
            range=[f"var(--series-{index % COLOURS})" for index in range(len(lines))],
        ),
    )
    if plot.bars:
        return to_svg(_bars(plot, points, lines, colour))
    x = alt.X(
        "x:Q",
        title=plot.x_title,
        scale=alt.Scale(type=kind, nice=False),
        axis=alt.Axis(
            values=sorted({point.x for point in plot.points if point.x is not None}),
            format=",",
            grid=False,
        ),
    )
    base = alt.Chart(alt.InlineData(values=points)).encode(
        x=x,
        y=alt.Y("y:Q", title=plot.y_title, scale=alt.Scale(type=kind, zero=not plot.logarithmic)),
        color=colour,
    )
    chart = alt.layer(base.mark_line(strokeWidth=2), base.mark_point(size=42, filled=True))
    spec = charts.finish(chart, HEIGHT)
    spec["width"] = WIDTH
    return to_svg(spec)


def _bars(
    plot: Plot, points: list[dict[str, Any]], lines: list[str], colour: alt.Color
) -> dict[str, Any]:
    """Draw bars side by side, and a stroke across each where a figure was published."""
    published = [point for point in points if point["published"] is not None]
    crowded = len({point["x"] for point in points}) > LEVEL_NAMES_MAX
    base = alt.Chart(alt.InlineData(values=points)).encode(
        x=alt.X(
            "x:N",
            title=plot.x_title or ("strokes: as published" if published else None),
            sort=[str(_x(point)) for point in plot.points],
            axis=alt.Axis(labelAngle=-30 if crowded else 0, labelOverlap=False, grid=False),
        ),
    )
    if len(lines) > 1:
        base = base.encode(xOffset=alt.XOffset("line:N", sort=lines))
    bars = base.mark_bar().encode(y=alt.Y("y:Q", title=plot.y_title), color=colour)
    strokes = base.mark_tick(thickness=3, color="var(--ink)").encode(y="published:Q")
    spec = charts.finish(alt.layer(bars, strokes) if published else alt.layer(bars), HEIGHT)
    spec["width"] = WIDTH
    return spec


def to_svg(spec: dict[str, Any]) -> Markup:
    """Draw a specification; the drawing gives way to a narrow page."""
    svg: str = vl_convert.vegalite_to_svg(spec)
    svg = re.sub(r'^<svg ([^>]*?)width="\d+(?:\.\d+)?" height="\d+(?:\.\d+)?"', r"<svg \1", svg)
    # Its strings are data of files, which the drawing escapes.
    return Markup(svg)  # noqa: S704 - as said


def alone(result: StudyResult, plot: Plot) -> str:
    """Draw a plot as a file of its own, which brings the colours of the light page."""
    return in_colours(drawing(result, plot))


def in_colours(drawn: Markup) -> str:
    """Give a drawing the colours of the light page, as a file of its own."""
    found = re.findall(r"(--[\w-]+): (#[0-9a-f]{6});", page.asset("palette.css"))
    # The palette names each colour first for light pages, and again for dark ones.
    svg = str(drawn)
    for name, colour in dict(reversed(found)).items():
        svg = svg.replace(f"var({name})", colour)
    return svg.replace("<svg ", '<svg style="background: #fff" ', 1)
