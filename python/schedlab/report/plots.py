"""A study's plots, as drawings that need no script."""

from __future__ import annotations

import re
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import altair as alt
import vl_convert
from markupsafe import Markup

from schedlab.report import charts, page
from schedlab.study.reading import StudyError

if TYPE_CHECKING:
    from schedlab.study import StudyResult
    from schedlab.study.model import Plot

__all__ = ["alone", "drawing", "to_svg", "values"]

WIDTH, HEIGHT = 640, 300

COLOURS = 6


def values(result: StudyResult, plot: Plot) -> list[dict[str, Any]]:
    """Give a plot's points: ``x``, ``line`` and ``y``, the mean over iterations.

    Raises :class:`schedlab.StudyError` for a figure that a workload does not have.
    """
    places = [
        (point.x, line, point.workload or line, point.kernel or line)
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
            points.append({"x": x, "line": line, "y": fmean(own)})
    return points


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
    x = alt.X(
        "x:Q",
        title=plot.x_title,
        scale=alt.Scale(type=kind, nice=False),
        axis=alt.Axis(values=sorted({point.x for point in plot.points}), format=",", grid=False),
    )
    base = alt.Chart(alt.InlineData(values=points)).encode(
        x=x,
        y=alt.Y("y:Q", title=plot.y_title, scale=alt.Scale(type=kind, zero=not plot.logarithmic)),
        color=alt.Color(
            "line:N",
            title="workload" if plot.lines else "kernel",
            scale=alt.Scale(
                domain=lines,
                range=[f"var(--series-{index % COLOURS})" for index in range(len(lines))],
            ),
        ),
    )
    chart = alt.layer(base.mark_line(strokeWidth=2), base.mark_point(size=42, filled=True))
    spec = charts.finish(chart, HEIGHT)
    spec["width"] = WIDTH
    return to_svg(spec)


def to_svg(spec: dict[str, Any]) -> Markup:
    """Draw a specification; the drawing gives way to a narrow page."""
    svg: str = vl_convert.vegalite_to_svg(spec)
    svg = re.sub(r'^<svg ([^>]*?)width="\d+(?:\.\d+)?" height="\d+(?:\.\d+)?"', r"<svg \1", svg)
    # Its strings are data of files, which the drawing escapes.
    return Markup(svg)  # noqa: S704 - as said


def alone(result: StudyResult, plot: Plot) -> str:
    """Draw a plot as a file of its own, which brings the colours of the light page."""
    svg = str(drawing(result, plot))
    colours = dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6});", page.asset("palette.css")))
    # The palette names each colour first for light pages, and again for dark ones.
    for name, colour in re.findall(r"(--[\w-]+): (#[0-9a-f]{6});", page.asset("palette.css")):
        if name in colours:
            svg = svg.replace(f"var({name})", colour)
            del colours[name]
    return svg.replace("<svg ", '<svg style="background: #fff" ', 1)
