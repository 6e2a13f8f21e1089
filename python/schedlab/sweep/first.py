"""The first runs of a plan, tried for an instant: what is misspelt is told before anything runs."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from schedlab._schedlab import KernelError, MachineError, WorkloadError
from schedlab.simulation import near, simulate
from schedlab.study.figures import of_run
from schedlab.study.reading import StudyError
from schedlab.sweep import design
from schedlab.sweep.model import label
from schedlab.sweep.resolve import Kitchen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schedlab.machine import Machine
    from schedlab.simulation import Simulation
    from schedlab.sweep.jobs import Job, Jobs
    from schedlab.sweep.model import Choice, Plan

__all__ = ["missing_figures", "try_first"]

# Long enough to see whether a run can begin.
INSTANT_S = 1e-9

# Figures that a run has only after a while, by what they begin with.
LATER = ("wakeup latency ", "mask load cycles ")

IMPOSSIBLE = (KernelError, MachineError, StudyError, WorkloadError)

# An error of a text that was made for a run names a line that nobody has seen.
LINE = re.compile(r"^([^:\n]+):\d+: ")


def try_first(todo: Jobs) -> None:
    """Begin the first run of every workload and kernel, and look for the figures in it.

    What a value makes impossible later on is recorded with its run.

    Raises :class:`schedlab.StudyError`, which names the axis or figure that cannot be, and what
    loading a machine, kernel or workload raises where no axis is to blame.
    """
    kitchen = Kitchen(todo.recipe)
    places = todo.cell_count // max(1, design.count(todo.plan))
    found: dict[str, set[str]] = {}
    for cell in itertools.islice(todo.cells(), places):
        for job in todo.block(cell, 0).jobs:
            done, machine = _begin(todo.plan, kitchen, job)
            names = {str(figure["figure"]) for figure in of_run(done, machine)}
            found.setdefault(cell.workload, set()).update(names)
    for choice in todo.plan.figures:
        if not choice.figure.startswith(LATER):
            _check(choice, found)


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
    except IMPOSSIBLE:
        for target, value in job.settings.items():
            try:
                _instant(kitchen, job, {target: value})
            except IMPOSSIBLE as error:
                axis = next((each for each in plan.axes if target in each.targets), None)
                place = axis.place if axis is not None and axis.place else plan.name
                words = LINE.sub(r"\1: ", str(error))
                raise StudyError(f"{place}: {target} = {label(value)}: {words}") from None
        raise


def _instant(kitchen: Kitchen, job: Job, settings: Mapping[str, Any]) -> tuple[Simulation, Machine]:
    run = kitchen.ready(job.machine, job.workload, job.kernel, settings, job.seed)
    done = simulate(run.workload, machine=run.machine, kernel=run.kernel, duration_s=INSTANT_S)
    return done, run.machine


def _check(choice: Choice, found: Mapping[str, set[str]]) -> None:
    where = [choice.workload] if choice.workload is not None else list(found)
    names = {name for workload in where for name in found.get(workload, ())}
    if choice.figure not in names:
        guess = near(choice.figure, names) or f"; there are {', '.join(sorted(names))}"
        place = f"{choice.place}: " if choice.place else ""
        raise StudyError(f"{place}no run of {', '.join(where)} has figure {choice.figure!r}{guess}")
