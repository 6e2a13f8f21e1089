"""A plan's runs, tried for an instant: what cannot be is told before anything runs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from schedlab._schedlab import KernelError, MachineError, WorkloadError
from schedlab.names import near
from schedlab.simulation import duration_to_ns, simulate
from schedlab.study.figures import of_run
from schedlab.study.plan import options_of, words_of
from schedlab.study.reading import StudyError
from schedlab.sweep import design
from schedlab.sweep.model import label
from schedlab.sweep.resolve import Kitchen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schedlab.machine import Machine
    from schedlab.simulation import Simulation
    from schedlab.sweep.jobs import Job, Jobs
    from schedlab.sweep.model import Axis, Choice, Plan

__all__ = ["missing_figures", "try_first"]

# Long enough to see whether a run can begin.
INSTANT_S = 1e-9

# Figures that a run has only after a while, by what they begin with.
LATER = ("wakeup latency ", "mask load cycles ")

IMPOSSIBLE = (KernelError, MachineError, StudyError, WorkloadError)


def try_first(todo: Jobs) -> None:
    """Begin the first run of every workload and kernel, and some with the ends of every axis.

    The figures must be in the first ones. Of an axis's numbers the least and the greatest are
    tried, and every word. What is impossible only of several values together, or of a number in
    between, is recorded with its run.

    Raises :class:`schedlab.StudyError`, which names the axis or figure that cannot be, and what
    loading a machine, kernel or workload raises where no axis is to blame.
    """
    kitchen = Kitchen(todo.recipe)
    places = todo.cell_count // max(1, design.count(todo.plan))
    found: dict[str, set[str]] = {}
    tried: set[tuple[str, ...]] = set()
    for cell in itertools.islice(todo.cells(), places):
        for job in todo.block(cell, 0).jobs:
            done, machine = _begin(todo.plan, kitchen, job)
            names = {str(figure["figure"]) for figure in of_run(done, machine)}
            found.setdefault(cell.workload, set()).update(names)
            for axis in todo.plan.axes:
                rooms = _rooms(axis, job)
                if rooms not in tried:
                    tried.add(rooms)
                    _begin_others(axis, kitchen, job)
    for choice in todo.plan.figures:
        if not choice.figure.startswith(LATER):
            _check(choice, found)


def _rooms(axis: Axis, job: Job) -> tuple[str, ...]:
    """Name what of a run decides whether the axis's values are possible."""
    rooms = {target.partition(".")[0] for target in axis.targets if target in job.settings}
    known = {"machine": job.machine, "kernel": job.kernel, "workload": job.workload}
    return (axis.name, *(f"{room} {known.get(room)}" for room in sorted(rooms)))


def _begin_others(axis: Axis, kitchen: Kitchen, job: Job) -> None:
    """Begin a run with each further value of an axis that is worth it.

    Raises :class:`schedlab.StudyError` for a value that is impossible without the other axes, too.
    """
    own = [target for target in axis.targets if target in job.settings]
    for value in _ends(axis):
        settings = dict.fromkeys(own, value)
        if settings == {target: job.settings[target] for target in own}:
            continue
        try:
            _instant(kitchen, job, {**job.settings, **settings})
        except IMPOSSIBLE:
            try:
                _instant(kitchen, job, settings)
            except IMPOSSIBLE as error:
                raise _blamed(axis.place or axis.name, own[0], value, error) from None


def _ends(axis: Axis) -> list[Any]:
    """Give the least and the greatest of an axis's numbers, and all that are none."""
    values = axis.values or [axis.at(0), axis.at(1)]
    numbers = [value for value in values if isinstance(value, int | float)]
    words = [value for value in values if not isinstance(value, int | float)]
    return [*words, min(numbers), max(numbers)] if numbers else words


def missing_figures(plan: Plan, known: Mapping[str, set[str]]) -> None:
    """Check that runs of a workload, with figures as ``known``, had those of the plan.

    Raises :class:`schedlab.StudyError` where one had not.
    """
    for choice in plan.figures:
        _check(choice, known)


def _begin(plan: Plan, kitchen: Kitchen, job: Job) -> tuple[Simulation, Machine]:
    """Begin a run; where it cannot, the first axis that alone has the same effect is to blame."""
    try:
        return _instant(kitchen, job, job.settings)
    except IMPOSSIBLE as error:
        _without_axes(plan, kitchen, job, error)
        for target, value in job.settings.items():
            try:
                _instant(kitchen, job, {target: value})
            except IMPOSSIBLE as error:
                axis = next((each for each in plan.axes if target in each.targets), None)
                place = axis.place if axis is not None and axis.place else plan.name
                raise _blamed(place, target, value, error) from None
        raise


def _without_axes(plan: Plan, kitchen: Kitchen, job: Job, found: Exception) -> None:
    """Blame the workload's own options where the same is wrong without any axis."""
    place = options_of(plan.study, plan.study.case(job.workload))
    try:
        _instant(kitchen, job, {})
    except WorkloadError as error:
        if place and words_of(error) == words_of(found):
            raise StudyError(f"{place}: {words_of(error)}") from None
    except IMPOSSIBLE:
        return


def _blamed(place: str, target: str, value: Any, error: Exception) -> StudyError:
    return StudyError(f"{place}: {target} = {label(value)}: {words_of(error)}")


def _instant(kitchen: Kitchen, job: Job, settings: Mapping[str, Any]) -> tuple[Simulation, Machine]:
    run = kitchen.ready(job.machine, job.workload, job.kernel, settings, job.seed)
    duration_to_ns(run.duration_s)
    done = simulate(run.workload, machine=run.machine, kernel=run.kernel, duration_s=INSTANT_S)
    return done, run.machine


def _check(choice: Choice, found: Mapping[str, set[str]]) -> None:
    where = [choice.workload] if choice.workload is not None else list(found)
    names = {name for workload in where for name in found.get(workload, ())}
    if choice.figure not in names:
        guess = near(choice.figure, names) or f"; there are {', '.join(sorted(names))}"
        place = f"{choice.place}: " if choice.place else ""
        raise StudyError(f"{place}no run of {', '.join(where)} has figure {choice.figure!r}{guess}")
