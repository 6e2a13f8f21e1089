"""Reads study files: TOML, and the published figures as CSV beside it."""

from __future__ import annotations

import csv
import math
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from schedlab.names import near
from schedlab.simulation import WorkloadText, workload_names
from schedlab.study.model import (
    Calibration,
    Case,
    Control,
    FreeParameter,
    KernelChoice,
    Metric,
    Parameter,
    Plot,
    Point,
    Published,
    Scenario,
    Study,
    Target,
    Use,
)
from schedlab.study.reading import Reader, StudyError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.resources.abc import Traversable

    from schedlab.stats import Mean

__all__ = ["check_target", "count", "load", "names", "read_case", "read_kernel", "text_of"]

ITERATIONS_MAX = 10_000

KINDS = ("published", "measured", "documentation", "estimate", "calibrated", "fitted")
MEANS = ("arithmetic", "geometric")
CHANGES = ("equal", "not significant", "better", "near", "direction", "fitted", "shown", "")
COLUMNS = ("benchmark", "kernel", "iteration", "value", "unit", "better")


def _folder() -> Traversable:
    return resources.files("schedlab") / "studies"


def names() -> list[str]:
    """List the built-in studies.

    >>> names()[2:6]
    ['idle-governors', 'idle-threshold', 'idlest-group-util', 'nohz-push']
    """
    return sorted(
        Path(entry.name).stem for entry in _folder().iterdir() if entry.name.endswith(".toml")
    )


def text_of(name: str) -> str:
    """Give the file of a built-in study, sources in its comments."""
    return (_folder() / f"{name}.toml").read_text(encoding="utf-8")


def load(name_or_path: str | Path) -> Study:
    """Load a built-in study by its name, or else a TOML file.

    Raises :class:`schedlab.StudyError`, whose text names file, line and mend, or ``OSError``.

    >>> load("idlest-group-util").baseline.kernel
    'v5.7'
    """
    if isinstance(name_or_path, str) and name_or_path in names():
        return _study(text_of(name_or_path), f"{name_or_path}.toml", _folder())
    path = Path(name_or_path)
    if not path.exists():
        known = names()
        raise StudyError(
            f"{path}: neither a file nor a built-in study; built in are {', '.join(known)}"
            f"{near(str(path), known)}"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise StudyError(f"{path}: not text but something else; give a TOML file") from None
    return _study(text, str(path), path.parent)


def _study(text: str, file: str, folder: Traversable) -> Study:
    top = Reader.parse(text, file)
    title = top.required("title", str)
    mean = cast("Mean", top.one_of("mean", MEANS, "arithmetic"))
    kernels = [read_kernel(table) for table in (top.needed("baseline"), *top.tables("treatment"))]
    study = Study(
        name=top.required("name", str),
        title=title,
        description=top.optional("description", str, ""),
        source=top.optional("source", str, ""),
        machines=top.texts("machines"),
        iterations=count(top, "iterations"),
        small_iterations=count(top, "small_iterations", 2),
        seed=top.optional("seed", int, 0),
        significance=top.optional("significance", float, 0.05),
        mean=mean,
        baseline=kernels[0],
        treatments=kernels[1:],
        cases=[read_case(table, folder) for table in top.tables("workload")],
        metrics=[_metric(table, mean) for table in top.tables("metric")],
        parameters=[
            *_borrowed(top.optional("parameters_from", str, ""), top),
            *(_parameter(table) for table in top.tables("parameter")),
        ],
        controls=[_control(table) for table in top.tables("control")],
        scenarios=[_scenario(table) for table in top.tables("explain")],
        plots=[_plot(table, kernels) for table in top.tables("plot")],
        uses=[_use(table) for table in top.tables("use")],
        notes=top.texts("notes", []),
        published=_published(top, folder),
        calibration=_calibration(top.table("calibration")),
        machines_place=top.where("machines"),
    )
    top.finish()
    _check(study, top)
    return study


def count(table: Reader, key: str, default: int | None = None) -> int:
    """Read how often something is done."""
    count = table.required(key, int) if default is None else table.optional(key, int, default)
    if not 1 <= count <= ITERATIONS_MAX:
        raise table.error(f"{key} is {count}; it must be 1 to {ITERATIONS_MAX}", key)
    return count


def read_kernel(table: Reader) -> KernelChoice:
    """Read a kernel: a name or file, and settings that differ."""
    kernel = table.required("kernel", str)
    found = KernelChoice(
        name=table.optional("name", str, kernel),
        kernel=kernel,
        settings=_flat(table.optional("set", dict, {})),
        place=table.where("kernel"),
    )
    table.finish()
    return found


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested tables into dotted names.

    >>> _flat({"placement": {"idlest_tie": "first"}})
    {'placement.idlest_tie': 'first'}
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def read_case(table: Reader, folder: Traversable) -> Case:
    """Read a workload, whose file may stand in ``folder``."""
    name = table.required("name", str)
    base = table.optional("workload", str, name)
    duration_s = _duration(table, None)
    small = table.table("small")
    case = Case(
        name=name,
        base=base,
        file=_beside(base, folder),
        options=table.optional("options", dict, {}),
        machines=table.texts("machines", []),
        machine_settings=_flat(table.optional("machine_set", dict, {})),
        kernel_settings=_flat(table.optional("kernel_set", dict, {})),
        duration_s=duration_s,
        small_options=small.optional("options", dict, {}),
        small_duration_s=_duration(small, duration_s),
        place=table.where("workload" if "workload" in table.values else "name"),
        options_place=table.where("options"),
    )
    small.finish()
    table.finish()
    return case


def _beside(base: str, folder: Traversable) -> WorkloadText | None:
    """Read a workload's file that stands beside the study."""
    if base in workload_names() or Path(base).name != base or not (folder / base).is_file():
        return None
    text = (folder / base).read_text(encoding="utf-8")
    return WorkloadText(Path(base).stem, base, text)


def _duration(table: Reader, default: float | None) -> float:
    key = "duration_s"
    duration_s = (
        table.required(key, float) if default is None else table.optional(key, float, default)
    )
    if not (math.isfinite(duration_s) and duration_s > 0):
        raise table.error(f"{key} is {duration_s:g}; it must be more than 0", key)
    return duration_s


def _metric(table: Reader, mean: Mean) -> Metric:
    figure = table.required("figure", str)
    exactly = table.optional("exactly", dict, {})
    change = table.one_of("change", CHANGES, "")
    within_points = table.optional("within_points", float, math.nan)
    within_pct = table.optional("within_pct", float, math.nan)
    near_pct = table.optional("near_pct", float, math.nan)
    metric = Metric(
        workload=table.required("workload", str),
        figure=figure,
        name=table.optional("name", str, figure),
        unit=table.optional("unit", str, ""),
        better=cast("Any", table.one_of("better", ("higher", "lower"))),
        published=table.optional("published", str, "") or None,
        within_pct=None if math.isnan(within_pct) else within_pct,
        within_points=None if math.isnan(within_points) else within_points,
        order=table.optional("order", bool, default=False),
        exactly=exactly,
        exactly_by=table.optional("exactly_by", float, 0.0),
        change=cast("Any", change or None),
        near_pct=None if math.isnan(near_pct) else near_pct,
        published_change=table.optional("published_change", str, "") or None,
        treatments=table.texts("treatments", []),
        full_size=table.optional("full_size", bool, default=False),
        margin_pct=table.optional("margin_pct", float, 1.0),
        mean=cast("Mean", table.one_of("mean", MEANS, mean)),
        margins=table.optional("margins", dict, {}),
    )
    table.finish()
    tolerances = (
        metric.within_pct or 0,
        metric.within_points or 0,
        metric.exactly_by,
        *metric.margins.values(),
    )
    if min(metric.margin_pct, *tolerances) < 0:
        raise table.error("a tolerance must not be negative")
    if metric.near_pct is not None and metric.change != "near":
        raise table.error('near_pct is for change = "near"; write that, too', "near_pct")
    return metric


def _parameter(table: Reader) -> Parameter:
    if "value" not in table.values:
        raise table.error("value is missing; add it")
    parameter = Parameter(
        target=table.required("target", str),
        machines=table.texts("machines", []),
        value=table.required("value", object),
        kind=cast("Any", table.one_of("kind", KINDS)),
        source=table.required("source", str),
    )
    table.finish()
    return parameter


def _borrowed(name: str, top: Reader) -> Sequence[Parameter]:
    """Take the parameters of another built-in study, for the workloads that are its, too."""
    if not name:
        return []
    _known(name, names(), "parameters_from", top)
    own = {str(each.values.get("name")) for each in top.tables("workload")}
    return [
        parameter
        for parameter in load(name).parameters
        if not parameter.target.startswith("workload.") or parameter.target.split(".")[1] in own
    ]


def _control(table: Reader) -> Control:
    control = Control(
        name=table.required("name", str),
        target=table.required("target", str),
        factor=table.optional("factor", float, 3.0),
        value=table.optional("value", object, None),
        fails=table.texts("fails"),
        why=table.required("why", str),
    )
    table.finish()
    return control


def _scenario(table: Reader) -> Scenario:
    scenario = Scenario(
        workload=table.required("workload", str),
        title=table.required("title", str),
        task=table.required("task", int),
    )
    table.finish()
    return scenario


def _plot(table: Reader, kernels: Sequence[KernelChoice]) -> Plot:
    figure = table.required("figure", str)
    points = [_point(point) for point in table.tables("points")]
    lines = table.texts("lines", [])
    if lines and not points:
        points = [Point(workload=None, kernel=kernel.name, x=None) for kernel in kernels]
    plot = Plot(
        title=table.required("title", str),
        figure=figure,
        y_title=table.optional("y", str, figure),
        x_title=table.optional("x", str, ""),
        logarithmic=table.optional("logarithmic", bool, default=False),
        points=points,
        lines=lines,
    )
    table.finish()
    if not plot.points:
        raise table.error(
            "points is missing; add workloads, each with its x, or lines for bars of all kernels"
        )
    if any((point.kernel is None) == bool(plot.lines) for point in plot.points):
        raise table.error("points are workloads; or they are kernels, and lines names workloads")
    if any((point.x is None) != plot.bars for point in plot.points):
        raise table.error("some points have an x; give it to all, or to none for bars")
    if plot.bars and plot.logarithmic:
        raise table.error("bars begin at 0, which no logarithm has; leave logarithmic out")
    if not plot.bars and not plot.x_title:
        raise table.error("x is missing; say what the points' x is")
    return plot


def _use(table: Reader) -> Use:
    use = Use(
        title=table.required("title", str),
        workload=table.required("workload", str),
        until_s=table.required("until_s", float),
        kernels=table.texts("kernels", []),
    )
    table.finish()
    if not (math.isfinite(use.until_s) and use.until_s > 0):
        raise table.error(f"until_s is {use.until_s:g}; it must be more than 0", "until_s")
    return use


def _point(table: Reader) -> Point:
    x = table.optional("x", float, math.nan)
    point = Point(
        workload=table.optional("workload", str, "") or None,
        kernel=table.optional("kernel", str, "") or None,
        x=None if math.isnan(x) else x,
    )
    table.finish()
    if (point.workload is None) == (point.kernel is None):
        raise table.error("a point is a workload or a kernel; name one of them")
    return point


def _calibration(table: Reader) -> Calibration | None:
    if not table.values:
        return None
    found = Calibration(
        iterations=count(table, "iterations", 2),
        kernels=[read_kernel(kernel) for kernel in table.tables("kernel")],
        parameters=[_free(parameter) for parameter in table.tables("free")],
        targets=[_target(target) for target in table.tables("target")],
    )
    table.finish()
    return found


def _free(table: Reader) -> FreeParameter:
    free = FreeParameter(
        target=table.required("target", str),
        low=table.required("low", float),
        high=table.required("high", float),
        whole=table.optional("whole", bool, default=True),
    )
    table.finish()
    if not 0 < free.low < free.high < math.inf:
        raise table.error(f"{free.low:g} to {free.high:g} is no range of positive numbers", "low")
    return free


def _target(table: Reader) -> Target:
    target = Target(
        workload=table.required("workload", str),
        figure=table.required("figure", str),
        kernel=table.required("kernel", str),
        value=table.required("value", float),
        unit=table.optional("unit", str, ""),
        tolerance=table.required("tolerance", float),
        source=table.required("source", str),
    )
    table.finish()
    if not target.tolerance > 0:
        raise table.error("tolerance must be more than 0", "tolerance")
    return target


def _published(top: Reader, folder: Traversable) -> Published | None:
    table = top.table("published")
    if not table.values:
        return None
    name = table.required("file", str)
    origin = table.required("origin", str)
    table.finish()
    file = folder / name
    if Path(name).name != name or not file.is_file():
        raise table.error(f"there is no file {name} beside the study; put it there", "file")
    values: dict[tuple[str, str], list[float]] = {}
    reader = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise StudyError(f"{name}:1: column {missing[0]} is missing; there must be {COLUMNS}")
    for row in reader:
        try:
            value = float(row["value"])
        except (TypeError, ValueError):
            raise StudyError(
                f"{name}:{reader.line_num}: value {row['value']!r} is no number"
            ) from None
        values.setdefault((row["benchmark"], row["kernel"]), []).append(value)
    return Published(name, origin, values)


def _check(study: Study, top: Reader) -> None:
    """Refuse what names something that is not there."""
    if not study.machines:
        raise top.error("machines is empty; name one", "machines")
    if not study.cases:
        raise top.missing("workload", "there is no [[workload]]; add one")
    _unique([kernel.name for kernel in study.kernels], "kernel", top)
    _unique([case.name for case in study.cases], "workload", top)
    cases = [case.name for case in study.cases]
    _check_metrics(study, cases, top)
    _check_plots(study, cases, top)
    _check_machines(study, top)
    for index, control in enumerate(study.controls):
        for name in control.fails:
            _known(name, cases, f"control[{index}].fails", top)
    for index, scenario in enumerate(study.scenarios):
        _known(scenario.workload, cases, f"explain[{index}].workload", top)
    for index, parameter in enumerate(study.parameters):
        check_target(parameter.target, cases, f"parameter[{index}].target", top)
    for index, control in enumerate(study.controls):
        check_target(control.target, cases, f"control[{index}].target", top)
    if study.calibration is not None:
        _check_calibration(study, study.calibration, cases, top)


def _check_calibration(
    study: Study, calibration: Calibration, cases: list[str], top: Reader
) -> None:
    given = [parameter.target for parameter in study.parameters]
    for index, free in enumerate(calibration.parameters):
        place = f"calibration.free[{index}].target"
        check_target(free.target, cases, place, top)
        _known(free.target, given, place, top)
    # What a treatment did is what the study is to predict.
    kernels = [study.baseline.name, *(kernel.name for kernel in calibration.kernels)]
    for index, target in enumerate(calibration.targets):
        _known(target.workload, cases, f"calibration.target[{index}].workload", top)
        _known(target.kernel, kernels, f"calibration.target[{index}].kernel", top)


def _check_metrics(study: Study, cases: list[str], top: Reader) -> None:
    kernels = [kernel.name for kernel in study.kernels]
    benchmarks = sorted({name for name, _ in study.published.values}) if study.published else []
    for index, metric in enumerate(study.metrics):
        place = f"metric[{index}]"
        _known(metric.workload, cases, f"{place}.workload", top)
        if metric.published is not None:
            _known(metric.published, benchmarks, f"{place}.published", top)
        if metric.published_change is not None:
            _known(metric.published_change, benchmarks, f"{place}.published_change", top)
        for name in metric.treatments:
            _known(name, kernels[1:], f"{place}.treatments", top)
        for name in metric.exactly:
            _known(name, kernels, f"{place}.exactly", top)
        for name in metric.margins:
            _known(name, kernels[1:], f"{place}.margins", top)


def _check_plots(study: Study, cases: list[str], top: Reader) -> None:
    for index, plot in enumerate(study.plots):
        kernels = [kernel.name for kernel in study.kernels]
        for point in plot.points:
            if point.workload is not None:
                _known(point.workload, cases, f"plot[{index}].points", top)
            if point.kernel is not None:
                _known(point.kernel, kernels, f"plot[{index}].points", top)
        for line in plot.lines:
            _known(line, cases, f"plot[{index}].lines", top)
    for index, use in enumerate(study.uses):
        _known(use.workload, cases, f"use[{index}].workload", top)
        for name in use.kernels:
            _known(name, [kernel.name for kernel in study.kernels], f"use[{index}].kernels", top)


def _check_machines(study: Study, top: Reader) -> None:
    for index, case in enumerate(study.cases):
        for name in case.machines:
            _known(name, study.machines, f"workload[{index}].machines", top)
    for index, parameter in enumerate(study.parameters):
        for name in parameter.machines:
            _known(name, study.machines, f"parameter[{index}].machines", top)


def check_target(target: str, cases: list[str], place: str, top: Reader) -> None:
    """Refuse a target that names no room of machine, kernel or workload."""
    room, _, rest = target.partition(".")
    case, _, option = rest.rpartition(".")
    if room == "workload" and case and option:
        _known(case, cases, place, top)
    elif room not in {"machine", "kernel"} or not rest:
        raise top.error(
            f"target {target} must be workload.CASE.OPTION, machine.SECTION.KEY or "
            "kernel.SECTION.KEY",
            place,
        )


def _known(name: str, known: Sequence[str], place: str, top: Reader) -> None:
    if name not in known:
        guess = near(name, known) or f"; there are {', '.join(known)}"
        raise top.error(
            f"{place.rpartition('.')[2]} names {name}, which is not there{guess}", place
        )


def _unique(found: list[str], noun: str, top: Reader) -> None:
    for name in found:
        if found.count(name) > 1:
            raise top.error(f"two of each {noun} are called {name}; name each differently")
