"""Reads plans: TOML that names a study, or says itself what to run, and the axes to vary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from schedlab.names import near
from schedlab.study import load as load_study
from schedlab.study.load import check_target, count, read_case, read_kernel
from schedlab.study.model import Study
from schedlab.study.reading import Reader, StudyError
from schedlab.sweep.model import KERNEL, Axis, Choice, Limits, Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.study.model import Case, KernelChoice

__all__ = ["load", "parse"]

SAMPLES_MAX = 10_000_000


def load(path: str | Path) -> Plan:
    """Read a plan.

    Raises :class:`schedlab.StudyError`, whose text names file, line and mend, or ``OSError``.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise StudyError(f"{path}: not text but something else; give a TOML file") from None
    return parse(text, str(path), path.parent)


def parse(text: str, file: str, folder: Path) -> Plan:
    """Read a plan's text; files that it names stand in ``folder``."""
    top = Reader.parse(text, file)
    name = top.optional("name", str, Path(file).stem)
    small = top.optional("small", bool, default=False)
    seed = top.optional("seed", int, 1)
    study = _study(top, name, seed, folder)
    axes = [_axis(table, study) for table in top.tables("axis")]
    compare = top.optional("compare", str, KERNEL)
    design = top.one_of("design", ("grid", "latin-hypercube", "sobol", "saltelli"), "grid")
    plan = Plan(
        name=name,
        title=top.optional("title", str, name),
        study=study,
        small=small,
        axes=axes,
        design=cast("Any", design),
        samples=top.optional("samples", int, 0),
        iterations=count(top, "iterations", study.small_iterations if small else study.iterations),
        seed=seed,
        compare=compare,
        common=cast("Any", top.one_of("common", ("compared", "all"), "compared")),
        figures=_choices(top, study),
        margin_pct=top.optional("margin_pct", float, 1.0),
        significance=study.significance,
        limits=_limits(top.table("limits")),
        settings=top.values,
    )
    top.finish()
    _check(plan, top)
    return plan


def _study(top: Reader, name: str, seed: int, folder: Path) -> Study:
    """Load the study that a plan names, with what it changes, or make one of its own tables."""
    named = top.optional("study", str, "")
    workloads = top.texts("workloads", [])
    kernels = top.texts("kernels", [])
    machines = top.texts("machines", [])
    significance = top.optional("significance", float, 0.05)
    if named:
        beside = folder / named
        study = load_study(beside if beside.is_file() else named)
        for word in ("baseline", "treatment", "workload"):
            if word in top.values:
                raise top.error(
                    f"{word} stands in the study; leave it out, or leave study out", word
                )
        _known(workloads, [case.name for case in study.cases], "workloads", top)
        _known(kernels, [kernel.name for kernel in study.kernels], "kernels", top)
        _known(machines, study.machines, "machines", top)
        if workloads:
            study = study.only(workloads)
        return _of_machines(_of_kernels(study, kernels), machines)
    cases = [read_case(table, folder) for table in top.tables("workload")]
    if not cases:
        raise top.missing("workload", "there is no [[workload]] and no study; add one of them")
    baseline = read_kernel(top.needed("baseline"))
    treatments = [read_kernel(table) for table in top.tables("treatment")]
    if not machines:
        raise top.missing("machines", "machines is missing; name one")
    return Study(
        name=name,
        title=name,
        description="",
        source="",
        machines=machines,
        iterations=5,
        small_iterations=2,
        seed=seed,
        significance=significance,
        mean="arithmetic",
        baseline=baseline,
        treatments=treatments,
        cases=cases,
        metrics=[],
        parameters=[],
        controls=[],
        scenarios=[],
        plots=[],
        uses=[],
        notes=[],
        published=None,
        calibration=None,
        machines_place=top.where("machines"),
    )


def _of_kernels(study: Study, names: Sequence[str]) -> Study:
    """Keep these kernels, the first of them as the baseline."""
    if not names:
        return study
    by_name: dict[str, KernelChoice] = {kernel.name: kernel for kernel in study.kernels}
    first, *others = (by_name[name] for name in names)
    return replace(study, baseline=first, treatments=others)


def _of_machines(study: Study, names: Sequence[str]) -> Study:
    if not names:
        return study

    def kept(case: Case) -> Case:
        return replace(case, machines=[each for each in case.machines if each in names])

    cases = [
        kept(case)
        for case in study.cases
        if not case.machines or any(each in names for each in case.machines)
    ]
    return replace(study, machines=list(names), cases=cases)


def _axis(table: Reader, study: Study) -> Axis:
    targets = table.texts("targets", [])
    target = table.optional("target", str, "")
    targets = [target, *targets] if target else targets
    if not targets:
        raise table.error("target is missing; add what the axis sets")
    values = table.optional("values", list, [])
    if "values" in table.values and not values:
        raise table.error("values is empty; name some, or give low and high instead", "values")
    axis = Axis(
        name=table.optional("name", str, targets[0].rpartition(".")[2]),
        targets=targets,
        values=values,
        low=0.0 if values else table.required("low", float),
        high=0.0 if values else table.required("high", float),
        steps=0 if values else table.optional("steps", int, 2),
        logarithmic=table.optional("logarithmic", bool, default=False),
        whole=table.optional("whole", bool, default=True),
        kernels=table.texts("kernels", []),
        place=table.where(),
    )
    table.finish()
    cases = [case.name for case in study.cases]
    for each in targets:
        room, _, rest = each.partition(".")
        if each == "duration_s" or (room == "workload" and rest and "." not in rest):
            continue
        check_target(each, cases, "target", table)
    _known(axis.kernels, [kernel.name for kernel in study.kernels], "kernels", table)
    if axis.kernels and not all(each.startswith("kernel.") for each in targets):
        raise table.error("kernels limits targets that begin with kernel.", "kernels")
    if not values:
        if not axis.low < axis.high:
            raise table.error(f"{axis.low:g} to {axis.high:g} is no range", "low")
        if axis.logarithmic and axis.low <= 0:
            raise table.error("steps by factors begin above 0", "low")
        if axis.steps < 2:  # noqa: PLR2004 - both ends
            raise table.error(f"steps is {axis.steps}; it must be 2 at least", "steps")
    return axis


def _choices(top: Reader, study: Study) -> list[Choice]:
    """Read which figures are compared; those of the study's metrics by default."""
    found = []
    for table in top.tables("figure"):
        better = table.one_of("better", ("higher", "lower"), "")
        found.append(
            Choice(
                figure=table.required("figure", str),
                better=cast("Any", better or None),
                unit=table.optional("unit", str, ""),
                workload=table.optional("workload", str, "") or None,
                place=table.where("figure"),
            )
        )
        table.finish()
        workload = found[-1].workload
        if workload is not None:
            _known([workload], [case.name for case in study.cases], "workload", table)
    found = found or [
        Choice(metric.figure, metric.better, metric.unit, metric.workload)
        for metric in study.metrics
    ]
    if not found:
        raise top.missing("figure", "there is no [[figure]] to compare; add one")
    return list(dict.fromkeys(found))


def _limits(table: Reader) -> Limits:
    limits = Limits(
        table.optional("time_s", float, 0.0) or None,
        table.optional("memory_mb", float, 0.0) or None,
    )
    table.finish()
    return limits


def _check(plan: Plan, top: Reader) -> None:
    names = [axis.name for axis in plan.axes]
    for name in names:
        if names.count(name) > 1:
            raise top.error(f"two axes are called {name}; name each differently", "axis")
    _known([plan.compare], [KERNEL, *names], "compare", top)
    if KERNEL in names:
        raise top.error("an axis must not be called kernel; that is what the kernels are", "axis")
    if plan.design == "grid":
        if plan.samples:
            raise top.error("a grid takes every point; leave samples out", "samples")
    elif not 1 <= plan.samples <= SAMPLES_MAX:
        raise top.error(f"design {plan.design} needs samples, from 1 to {SAMPLES_MAX}", "samples")
    if plan.design != "grid" and not plan.free:
        raise top.error(f"design {plan.design} needs an [[axis]]", "design")
    if plan.compare != KERNEL and not plan.axis(plan.compare).values:
        raise top.error("compare names a range; give that axis values", "compare")
    if plan.design == "saltelli" and plan.common == "compared":
        # Indices share out the variance that the axes make; chance of its own has no axis.
        raise top.error('design saltelli needs common = "all"', "common")


def _known(names: Sequence[str], known: Sequence[str], key: str, table: Reader) -> None:
    for name in names:
        if name not in known:
            guess = near(name, known) or f"; there are {', '.join(known)}"
            raise table.error(f"{key} names {name}, which is not there{guess}", key)
