"""Studies: a published comparison of kernels, simulated anew and held against its figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.ranges import JOBS, check_range
from schedlab.study.load import load, names
from schedlab.study.model import Control, Figure, Row, Study, StudyResult
from schedlab.study.reading import StudyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedlab.store import Store
    from schedlab.study.plan import Run, Turn

__all__ = [
    "Control",
    "Figure",
    "Row",
    "Study",
    "StudyError",
    "StudyResult",
    "load",
    "names",
    "run_control",
    "run_study",
]


def run_study(
    study: Study | str | Path,
    *,
    small: bool = False,
    jobs: int | None = None,
    store: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    turn: Turn | None = None,
) -> StudyResult:
    """Run a study, but for the runs that the store has, and compare.

    ``small`` takes the study's few iterations and short workloads. ``jobs`` is how many processes
    simulate at once, by default one per CPU; results are the same for any. ``progress`` is called
    with runs done and runs to do.

    Raises :class:`schedlab.StudyError` and what loading its parts raises.

    >>> result = run_study("idlest-group-util", small=True, jobs=1)
    >>> births = [row for row in result.rows if row.metric == "birth CPUs"]
    >>> [(row.kernel, row.simulated) for row in births[:2]]
    [('default', 1.0), ('group_util', 31.0)]
    """
    from schedlab.store import Store, default_folder  # noqa: PLC0415 - `--help` needs none of these
    from schedlab.study.evaluate import evaluate  # noqa: PLC0415
    from schedlab.study.execute import cpu_count, execute, explain  # noqa: PLC0415
    from schedlab.study.plan import plan  # noqa: PLC0415

    check_range("jobs", jobs, JOBS, StudyError)
    study = study if isinstance(study, Study) else load(study)
    shelf = Store(Path(store) if store is not None else default_folder())
    planned = [(run.key, run) for run in plan(study, small=small, turn=turn)]
    shelf.sweep()
    known = shelf.keys()
    missing = {key: run for key, run in planned if key not in known}
    execute(list(missing.items()), shelf, jobs=jobs or cpu_count(), progress=progress)
    figures = _figures(shelf, planned)
    return StudyResult(
        study=study,
        small=small,
        rows=evaluate(study, figures, small=small),
        figures=figures,
        explanations=[
            explain(scenario, run)
            for scenario in study.scenarios
            for _, run in planned
            if run.iteration == 0 and run.workload.name == scenario.workload
        ],
        simulated_runs=len(missing),
        stored_runs=len(dict(planned)) - len(missing),
    )


def run_control(
    study: Study | str | Path,
    control: Control,
    *,
    small: bool = False,
    jobs: int | None = None,
    store: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[StudyResult, bool]:
    """Run a study with a knob turned that must make it fail, and tell whether it did.

    It did if, for every workload that the control names, a claim fails that holds unturned; other
    workloads are left out.
    """
    from schedlab.study.plan import Turn  # noqa: PLC0415 - as above

    study = (study if isinstance(study, Study) else load(study)).only(control.fails)
    turn = Turn(control.target, control.factor, control.value)
    straight = run_study(study, small=small, jobs=jobs, store=store, progress=progress)
    turned = run_study(study, small=small, jobs=jobs, store=store, progress=progress, turn=turn)
    failed = {
        after.workload
        for before, after in zip(straight.rows, turned.rows, strict=True)
        if before.ok and after.ok is False
    }
    return turned, set(control.fails) <= failed


def _figures(shelf: Store, planned: list[tuple[str, Run]]) -> list[Figure]:
    stored: dict[str, list[dict[str, object]]] = {}
    for row in shelf.rows(key for key, _ in planned):
        stored.setdefault(str(row["key"]), []).append(row)
    return [
        Figure(
            machine=run.machine,
            workload=run.workload.name,
            figure=str(row["figure"]),
            unit=str(row["unit"]),
            kernel=run.kernel,
            iteration=run.iteration,
            value=None if row["value"] is None else float(str(row["value"])),
            key=key,
            digest=str(row["digest"]),
        )
        for key, run in planned
        for row in stored[key]
    ]
