"""The pictures of a search: what each value did, and the front of what is aimed at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from schedlab.report.sweep_charts import CLEAR, drawn, legend, numeric
from schedlab.sweep.model import label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from schedlab.sweep.model import Axis
    from schedlab.tune.model import Trial, TuneResult

__all__ = ["pictures"]

# Between the outermost points and the edge.
ROOM = 10

# What becomes of a trial, and how its point is drawn.
FATES = {
    "best": "var(--series-0)",
    "on the front": "var(--series-0)",
    "tried": "var(--series-1)",
    "given up early": "var(--line-2)",
}


def pictures(result: TuneResult) -> list[dict[str, Any]]:
    """Draw a search: ``title`` and ``svg`` of each picture."""
    aims = [each.name for each in result.objectives]
    found: list[tuple[str, Markup]] = []
    if len(aims) > 1:
        found.append((f"{aims[0]} against {aims[1]}", _front(result)))
    found += [
        (f"{aim} by {axis.name}", _by_value(result, at, axis))
        for at, aim in enumerate(aims)
        for axis in result.plan.axes
    ]
    if len(aims) == 1:
        found.append((f"{aims[0]}, trial by trial", _course(result)))
    return [{"title": title, "svg": svg} for title, svg in found]


def _fate(result: TuneResult, trial: Trial) -> str:
    if trial.pruned:
        return "given up early"
    if trial.number not in {each.number for each in result.front}:
        return "tried"
    return "best" if len(result.objectives) == 1 else "on the front"


def _points(result: TuneResult, trials: Sequence[Trial], at: int) -> list[dict[str, Any]]:
    """Give each trial, those last that must not be hidden by others."""
    found = [
        {"y": trial.changes_pct[at], "fate": _fate(result, trial), "trial": trial}
        for trial in trials
    ]
    return sorted(found, key=lambda point: list(FATES).index(point["fate"]), reverse=True)


def _colour(points: Sequence[dict[str, Any]]) -> alt.Color:
    there = [fate for fate in FATES if any(point["fate"] == fate for point in points)]
    scale = alt.Scale(domain=there, range=[FATES[fate] for fate in there])
    return alt.Color("fate:N", scale=scale, legend=legend("circle"), sort=there)


def _changes(name: str, aim: str) -> dict[str, Any]:
    # In two lines, since names of figures are long.
    return {"shorthand": f"{name}:Q", "title": [aim, "change from untuned, %"]}


def _by_value(result: TuneResult, at: int, axis: Axis) -> Markup:
    points = _points(result, result.trials, at)
    values = [
        {
            "x": _shown(axis, point["trial"].values[axis.name]),
            "y": point["y"],
            "fate": point["fate"],
        }
        for point in points
    ]
    x: dict[str, Any] = {"shorthand": "x:N", "title": axis.name, "axis": alt.Axis(labelAngle=0)}
    if numeric(axis):
        kind: Any = "log" if axis.logarithmic else "linear"
        x |= {
            "shorthand": "x:Q",
            "scale": alt.Scale(type=kind, zero=False, nice=False, padding=ROOM),
            "axis": alt.Axis(format=",~f", grid=False, tickMinStep=1 if axis.whole else 1e-6),
        }
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X(**x), y=alt.Y(**_changes("y", result.objectives[at].name), axis=CLEAR)
    )
    zero = alt.Chart(alt.InlineData(values=[{"y": 0}])).mark_rule(color="var(--ink-3)")
    return drawn(
        alt.layer(
            zero.encode(y="y:Q"),
            base.mark_point(size=46, filled=True, opacity=1).encode(color=_colour(points)),
        )
    )


def _shown(axis: Axis, value: Any) -> Any:
    return value if numeric(axis) else label(value)


def _course(result: TuneResult) -> Markup:
    """Draw the trials in their order, and the best so far."""
    aim = result.objectives[0]
    points = _points(result, result.trials, 0)
    better = max if aim.higher else min
    best: list[dict[str, Any]] = []
    for trial in sorted(result.trials, key=lambda each: each.number):
        if not trial.pruned:
            own = trial.changes_pct[0]
            so_far = better(own, best[-1]["y"]) if best else own
            best.append({"x": trial.number, "y": so_far})
    values = [
        {"x": point["trial"].number, "y": point["y"], "fate": point["fate"]} for point in points
    ]
    x = alt.X(
        "x:Q",
        title="trial",
        scale=alt.Scale(nice=False, padding=ROOM),
        axis=alt.Axis(format="d", grid=False, tickMinStep=1),
    )
    y = alt.Y(**_changes("y", aim.name), axis=CLEAR)
    steps = alt.Chart(alt.InlineData(values=best)).mark_line(
        color="var(--ink-3)", interpolate="step-after", strokeDash=[4, 3], strokeWidth=1.2
    )
    dots = alt.Chart(alt.InlineData(values=values)).mark_point(size=46, filled=True, opacity=1)
    return drawn(alt.layer(steps.encode(x=x, y=y), dots.encode(x=x, y=y, color=_colour(points))))


def _front(result: TuneResult) -> Markup:
    """Draw the trials by the first two objectives, and join those that no other is better than."""
    first, second = result.objectives[:2]
    points = _points(result, result.trials, 0)
    values = [
        {"x": point["y"], "y": point["trial"].changes_pct[1], "fate": point["fate"]}
        for point in points
    ]
    joined = sorted(
        ({"x": each.changes_pct[0], "y": each.changes_pct[1]} for each in result.front),
        key=lambda each: each["x"],
    )
    x = alt.X(**_changes("x", first.name), scale=alt.Scale(zero=False, nice=False, padding=ROOM))
    y = alt.Y(
        **_changes("y", second.name),
        axis=CLEAR,
        scale=alt.Scale(zero=False, nice=False, padding=ROOM),
    )
    untuned = alt.Chart(alt.InlineData(values=[{"x": 0, "y": 0, "text": "untuned"}])).encode(
        x=x, y=y
    )
    line = alt.Chart(alt.InlineData(values=joined)).mark_line(
        color="var(--ink-3)", strokeDash=[4, 3], strokeWidth=1.2
    )
    dots = alt.Chart(alt.InlineData(values=values)).mark_point(size=46, filled=True, opacity=1)
    return drawn(
        alt.layer(
            line.encode(x=x, y=y),
            dots.encode(x=x, y=y, color=_colour(points)),
            untuned.mark_point(shape="cross", size=60, filled=True, color="var(--ink)"),
            untuned.mark_text(align="left", dx=8, fontSize=11.5, color="var(--ink-2)").encode(
                text="text:N"
            ),
        )
    )
