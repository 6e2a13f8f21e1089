"""Optuna's search, over the workers that sweeps use, and what confirms its winner.

Every trial runs beside the untuned kernel with the same random numbers, so that what is aimed at is
a paired change. The best of many noisy trials looks better than it is; so the winner runs again on
fresh seeds, and on workloads that were held out, and those figures are the ones to believe.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import itertools
import json
import logging
import math
from typing import TYPE_CHECKING, Any

from schedlab.extras import wanted
from schedlab.names import near
from schedlab.ranges import ITERATIONS, check_range
from schedlab.store import default_folder
from schedlab.store.places import FolderPlace
from schedlab.study import load as load_study
from schedlab.study.model import Study
from schedlab.study.plan import program
from schedlab.study.reading import StudyError
from schedlab.sweep.jobs import Cell
from schedlab.sweep.model import Axis, Choice, Limits, Plan
from schedlab.sweep.run import Session, open_store
from schedlab.tune.model import TUNED, UNTUNED, Objective, Parameter, Trial, TuneResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from schedlab.stats.moments import Moments
    from schedlab.sweep.execute import Tally
    from schedlab.sweep.jobs import Block
    from schedlab.sweep.table import Row

__all__ = ["tune_study"]

# Trials at once: the same on any number of CPUs, so that a search does not depend on them.
TOGETHER = 4

# Seeds that no search reaches.
FRESH = 1_000_000

# Trials before one may be given up for being worse than the middle of the others.
PRUNE_FROM = 8

# Of a front: so many trials are confirmed at most.
FRONT_MAX = 8


def tune_study(
    study: Study | str | Path,
    parameters: Sequence[str],
    objectives: Sequence[str],
    *,
    kernel: str | None = None,
    workloads: Sequence[str] = (),
    held_out: Sequence[str] = (),
    trials: int = 40,
    iterations: int | None = None,
    fresh: int | None = None,
    small: bool = False,
    storage: str | None = None,
    store: str | Path | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    tls: Sequence[str] = (),
    limits: Limits | None = None,
    progress: Callable[[Tally], None] | None = None,
    told: Callable[[Trial], None] | None = None,
) -> TuneResult:
    """Search for values of a study's parameters, and confirm the best.

    ``parameters`` and ``objectives`` are written as :meth:`Parameter.parse` and
    :meth:`Objective.parse` read them; several objectives give a front. ``kernel`` is tuned, by
    default the first treatment; ``workloads`` are searched on, and ``held_out`` only confirmed on.
    A trial has ``iterations`` runs of each workload, and one that is worse than most by half of
    them is given up; the winner gets ``fresh`` more on seeds of its own. ``storage`` is where
    Optuna keeps the search: a journal beside the store by default, or the address of a database
    such as PostgreSQL's. A search that was interrupted goes on; a finished one gets more trials by
    a larger number. ``told`` is called with every trial.

    Raises :class:`schedlab.StudyError`, and what :func:`schedlab.sweep.run_sweep` raises.
    """
    check_range("trials", trials, (1, ITERATIONS[1]), StudyError)
    check_range("iterations", iterations, ITERATIONS, StudyError)
    check_range("fresh", fresh, ITERATIONS, StudyError)
    study = study if isinstance(study, Study) else load_study(study)
    chosen = [Parameter.parse(text) for text in parameters]
    aims = [Objective.parse(text, study) for text in objectives]
    if not chosen or not aims:
        raise StudyError("tuning needs a --parameter and an --objective")
    everywhere = _plan(study, chosen, aims, kernel, small=small, iterations=iterations)
    seen = _cases(study, workloads, held_out)
    plan = dataclasses.replace(
        everywhere, study=everywhere.study.only(seen), limits=limits or Limits()
    )
    options: dict[str, Any] = {
        "store": store,
        "jobs": jobs,
        "scheduler": scheduler,
        "tls": tls,
        "progress": progress,
    }
    with Session(plan, **options) as session:
        search = _Search(session, aims, _optuna_study(plan, aims, storage, store))
        search.run(trials, told)
        front = search.front()
        # Others who search the same may go on meanwhile.
        tried = search.trials()
    with Session(plan, **options) as session:
        before = _confirm(session, front)
    count = fresh or max(10, 2 * plan.iterations)
    confirmed = dataclasses.replace(
        everywhere,
        study=everywhere.study.only([*seen, *held_out]),
        seed=plan.seed + FRESH,
        iterations=count,
        limits=plan.limits,
    )
    with Session(confirmed, **options) as session:
        rows = _confirm(session, front)
        session.tally.done += search.session.tally.done
        session.tally.stored += search.session.tally.stored
        session.tally.failed += search.session.tally.failed
        tally = session.tally
    return TuneResult(
        plan=plan,
        objectives=aims,
        trials=tried,
        front=front,
        search=before,
        fresh={n: [row for row in own if row.workload in seen] for n, own in rows.items()},
        held_out={n: [row for row in own if row.workload in held_out] for n, own in rows.items()},
        tally=tally,
    )


def _cases(study: Study, workloads: Sequence[str], held_out: Sequence[str]) -> list[str]:
    known = [case.name for case in study.cases]
    for name in (*workloads, *held_out):
        if name not in known:
            raise StudyError(
                f"{study.name} has no workload {name}; there are {', '.join(known)}"
                f"{near(name, known)}"
            )
    seen = list(workloads) or [name for name in known if name not in held_out]
    if set(seen) & set(held_out) or not seen:
        raise StudyError("a workload is searched on or held out; name each once, and leave one")
    return seen


def _plan(
    study: Study,
    parameters: Sequence[Parameter],
    objectives: Sequence[Objective],
    kernel: str | None,
    *,
    small: bool,
    iterations: int | None,
) -> Plan:
    """Make the plan whose two kernels are the one to be tuned, as it is and with the values."""
    by_name = {each.name: each for each in study.kernels}
    name = kernel or study.kernels[min(1, len(study.treatments))].name
    if name not in by_name:
        raise StudyError(
            f"{study.name} has no kernel {name}; there are {', '.join(by_name)}"
            f"{near(name, by_name)}"
        )
    base = by_name[name]
    axes = [dataclasses.replace(each.axis, kernels=(TUNED,)) for each in parameters]
    if len({axis.name for axis in axes}) < len(axes):
        axes = [dataclasses.replace(axis, name=axis.targets[0]) for axis in axes]
    figures = dict.fromkeys(each.figure for each in objectives)
    higher = {each.figure: each.higher for each in objectives}
    count = iterations or (study.small_iterations if small else study.iterations)
    return Plan(
        name=study.name,
        title=f"{name}, tuned",
        study=dataclasses.replace(
            study,
            baseline=dataclasses.replace(base, name=UNTUNED),
            treatments=[dataclasses.replace(base, name=TUNED)],
            metrics=[],
        ),
        small=small,
        axes=axes,
        design="grid",
        samples=0,
        iterations=count,
        seed=study.seed,
        compare="kernel",
        common="all",
        figures=[Choice(each, "higher" if higher[each] else "lower", "") for each in figures],
        margin_pct=1.0,
        significance=study.significance,
        limits=Limits(),
        settings={"kernel": name},
    )


def _optuna_study(
    plan: Plan, objectives: Sequence[Objective], storage: str | None, store: str | Path | None
) -> Any:
    with wanted("schedlab tune"):
        import optuna  # noqa: PLC0415 - an extra
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    logging.captureWarnings(capture=True)
    parts = [
        plan.name,
        plan.settings,
        program(),
        [(axis.targets, list(axis.values), axis.low, axis.high) for axis in plan.axes],
        [case.name for case in plan.study.cases],
        [each.name for each in objectives],
        plan.iterations,
        plan.small,
        plan.seed,
    ]
    text = json.dumps(parts, sort_keys=True, default=list)
    name = f"{plan.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if storage is None:
        place = open_store(store).place
        folder = place.folder if isinstance(place, FolderPlace) else default_folder()
        (folder / "tune").mkdir(parents=True, exist_ok=True)
        path = str(folder / "tune" / f"{name}.journal")
        # It is exported without saying so.
        journal = vars(importlib.import_module("optuna.storages.journal"))
        kept: Any = optuna.storages.JournalStorage(journal["JournalFileBackend"](path))
    else:
        try:
            kept = optuna.storages.RDBStorage(storage)
        except Exception as error:  # noqa: BLE001 - drivers of databases have no common error
            at = storage.rpartition("@")[2]
            if isinstance(error, ImportError):
                raise StudyError(
                    f"--storage {at}: no driver for such a database; for PostgreSQL, "
                    "`pip install psycopg[binary]` brings it"
                ) from None
            words = str(error).splitlines()[0]
            raise StudyError(
                f"--storage {at}: {words}; write it as postgresql://USER@HOST/NAME"
            ) from None
    study = optuna.create_study(
        storage=kept,
        study_name=name,
        directions=["maximize" if each.higher else "minimize" for each in objectives],
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=PRUNE_FROM, n_warmup_steps=0),
    )
    # The same search goes on the same way, though not as it would have without the interruption.
    study.sampler = optuna.samplers.TPESampler(seed=plan.seed + len(study.trials))
    if storage is None:
        # In a database others may be at work on the same search.
        _revive(optuna, study)
    return study


def _revive(optuna: Any, study: Any) -> None:
    """Put trials in line again that a search left when it was killed."""
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        if trial.params:
            study.enqueue_trial(trial.params)


class _Search:
    """Asks Optuna for values, and tells it what they did."""

    def __init__(self, session: Session, objectives: Sequence[Objective], study: Any) -> None:
        self.session = session
        self.objectives = objectives
        self._study = study
        plan = session.plan
        self._places = [
            (machine, case.name)
            for case in plan.study.cases
            for machine in plan.study.machines_of(case)
        ]
        self._rungs = _rungs(plan.iterations) if len(objectives) == 1 else [plan.iterations]
        self._runs: dict[int, int] = {}

    def run(self, trials: int, told: Callable[[Trial], None] | None) -> None:
        """Try values until there are so many trials that did not fail.

        No more points than trials are all tried, before any is tried again.
        """
        axes = self.session.plan.axes
        places = [_places(axis) for axis in axes]
        if 0 < math.prod(each.stop - each.start for each in places) <= trials:
            for point in itertools.product(*places):
                values = dict(zip([axis.name for axis in axes], point, strict=True))
                self._study.enqueue_trial(values, skip_if_exists=True)
        while True:
            left = trials - len(self._finished())
            if left <= 0:
                return
            self._batch(min(TOGETHER, left), told)

    def _finished(self) -> list[Any]:
        return [trial for trial in self._study.trials if trial.state.name in {"COMPLETE", "PRUNED"}]

    def _batch(self, count: int, told: Callable[[Trial], None] | None) -> None:
        asked = [self._study.ask() for _ in range(count)]
        values = {trial.number: self._suggest(trial) for trial in asked}
        alive = list(asked)
        done = 0
        for rung in self._rungs:
            blocks = [
                block
                for trial in alive
                for block in self._blocks(trial.number, values[trial.number], range(done, rung))
            ]
            self.session.carry_out(iter(blocks), sum(len(block.jobs) for block in blocks))
            done = rung
            moments = self._moments()
            stays = []
            for trial in alive:
                found = self._changes(trial.number, moments)
                last = rung == self._rungs[-1]
                if len(self.objectives) == 1 and not last:
                    trial.report(found[0], rung)
                pruned = not last and len(self.objectives) == 1 and trial.should_prune()
                if not (last or pruned):
                    stays.append(trial)
                    continue
                trial.set_user_attr("iterations", rung)
                trial.set_user_attr("changes", found)
                if pruned:
                    self._study.tell(trial, state=_pruned())
                else:
                    self._study.tell(trial, found)
                if told is not None:
                    told(Trial(trial.number, values[trial.number], _pct(found), rung, pruned))
            alive = stays

    def _suggest(self, trial: Any) -> dict[str, Any]:
        found = {}
        for axis in self.session.plan.axes:
            if axis.values:
                # Optuna chooses among numbers and words; lists are chosen by their place.
                at = trial.suggest_categorical(axis.name, list(range(len(axis.values))))
                found[axis.name] = axis.values[at]
            elif axis.whole:
                low, high = int(axis.low), int(axis.high)
                found[axis.name] = trial.suggest_int(axis.name, low, high, log=axis.logarithmic)
            else:
                value = trial.suggest_float(axis.name, axis.low, axis.high, log=axis.logarithmic)
                found[axis.name] = float(f"{value:.6g}")
        return found

    def _cell(self, number: int, place: int, values: dict[str, Any]) -> Cell:
        machine, workload = self._places[place]
        return Cell(number * len(self._places) + place, machine, workload, "", values)

    def _blocks(self, number: int, values: dict[str, Any], iterations: range) -> Iterator[Block]:
        for iteration in iterations:
            for place in range(len(self._places)):
                yield self.session.todo.block(self._cell(number, place, values), iteration)

    def _moments(self) -> dict[tuple[int, int, str], Moments]:
        from schedlab.sweep.table import moments_of, view  # noqa: PLC0415 - DuckDB takes its time

        with self.session.segments.connect() as connection:
            view(connection, self.session.index)
            return moments_of(connection, [each.figure for each in self.objectives])

    def _changes(self, number: int, moments: dict[tuple[int, int, str], Moments]) -> list[float]:
        """Give each objective: the geometric mean of tuned over untuned."""
        changes = []
        for objective in self.objectives:
            logs = []
            for place, (_, workload) in enumerate(self._places):
                if objective.workload not in {None, workload}:
                    continue
                own = moments.get((number * len(self._places) + place, 1, objective.figure))
                if own is None or own.base <= 0 or own.base + own.difference <= 0:
                    raise StudyError(
                        f"--objective {objective.name}: {workload} has no positive "
                        f"{objective.figure!r} both with and without the values; "
                        f"{self._why() or 'name another figure'}"
                    )
                logs.append(math.log1p(own.difference / own.base))
            changes.append(math.exp(math.fsum(logs) / len(logs)))
        return changes

    def _why(self) -> str:
        failures = self.session.tally.failures
        return f"a run failed: {failures[0][2]}" if failures else ""

    def trials(self) -> list[Trial]:
        """List the trials, in the order of their numbers."""
        return [self._trial(each) for each in self._finished()]

    def _trial(self, trial: Any) -> Trial:
        axes = {axis.name: axis for axis in self.session.plan.axes}
        values = {
            name: axes[name].values[value]
            if axes[name].values
            else (value if axes[name].whole else float(f"{value:.6g}"))
            for name, value in trial.params.items()
        }
        return Trial(
            trial.number,
            values,
            _pct(trial.user_attrs["changes"]),
            trial.user_attrs["iterations"],
            trial.state.name == "PRUNED",
        )

    def front(self) -> list[Trial]:
        """Give the best trial, or those that no other is better than."""
        found = [self._trial(each) for each in self._study.best_trials]
        # Values that do the same are one point of a front; what was tried first stands for them.
        unique = {tuple(each.changes_pct): each for each in reversed(found)}
        ordered = sorted(unique.values(), key=lambda each: (each.changes_pct, each.number))
        return _spread(ordered, FRONT_MAX if len(self.objectives) > 1 else 1)


def _pruned() -> Any:
    import optuna  # noqa: PLC0415 - an extra, and there

    return optuna.trial.TrialState.PRUNED


def _places(axis: Axis) -> range:
    """Give what :meth:`_Search._suggest` chooses from; none of what nobody can count."""
    if axis.values:
        return range(len(axis.values))
    return range(int(axis.low), int(axis.high) + 1) if axis.whole else range(0)


def _pct(changes: Sequence[float]) -> list[float]:
    return [100 * (change - 1) for change in changes]


def _rungs(iterations: int) -> list[int]:
    """Give after how many iterations a trial is looked at: each time twice as many.

    >>> _rungs(5), _rungs(8)
    ([1, 2, 5], [1, 2, 4, 8])
    """
    found = [2**step for step in range(iterations.bit_length()) if 2**step < iterations]
    return [*(rung for rung in found if 2 * rung <= iterations), iterations]


def _spread(trials: Sequence[Trial], most: int) -> list[Trial]:
    """Keep so many at most, spread over the front, both ends among them."""
    if len(trials) <= most:
        return list(trials)
    if most == 1:
        return [trials[0]]
    places = {round(step * (len(trials) - 1) / (most - 1)) for step in range(most)}
    return [trials[place] for place in sorted(places)]


def _confirm(session: Session, front: Sequence[Trial]) -> dict[int, list[Row]]:
    """Run the front on this plan's seeds and workloads."""
    plan = session.plan
    cells: list[tuple[int, Cell]] = []
    for trial in front:
        for case in plan.study.cases:
            for machine in plan.study.machines_of(case):
                cell = Cell(len(cells), machine, case.name, "", trial.values)
                cells.append((trial.number, cell))
    blocks = (
        session.todo.block(cell, iteration)
        for iteration in range(plan.iterations)
        for _, cell in cells
    )
    session.carry_out(blocks, 2 * len(cells) * plan.iterations)
    numbers = {cell.number: number for number, cell in cells}
    rows: dict[int, list[Row]] = {trial.number: [] for trial in front}
    for row in session.rows():
        rows[numbers[row.cell]].append(row)
    return rows
