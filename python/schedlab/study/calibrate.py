"""Fits a study's free parameters to its baseline and to controls that were published beside it.

No treatment's figure is looked at: a study that was fitted to what it predicts predicts nothing.
All runs go through the store, so that a fit that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.stats import mean_of
from schedlab.study.load import load
from schedlab.study.model import Study
from schedlab.study.reading import StudyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from schedlab.store import Store
    from schedlab.study.model import Calibration, FreeParameter, Target
    from schedlab.study.plan import Run

__all__ = ["Fit", "Fitted", "Residual", "calibrate"]

# Of the sets of parameters, this share is spread over all that is allowed; the rest refines the
# best of them.
SPREAD = 0.4

# The step by which a slope is found, as a share of a range: well above what chance moves.
STEP = 0.04

# The best of the spread sets from which a descent begins, and rounds of each.
DESCENTS = 4
ROUNDS = 8

# A value within this share of its range from an end is at that end.
EDGE = 0.005

# Runs that are carried out one after the other rather than in processes of their own.
FEW_RUNS = 8

# What counts as the miss of a figure that a run was too short to measure.
NOTHING = 1e4


@dataclass(frozen=True)
class Fitted:
    """A parameter and what became of it."""

    target: str
    before: float
    after: float
    low: float
    high: float
    at_bound: bool
    """The fit would go on beyond what is allowed."""


@dataclass(frozen=True)
class Residual:
    """A figure that was aimed at."""

    target: Target
    before: float
    """Simulated with the parameters as they were."""
    after: float

    @property
    def miss(self) -> float:
        """The distance from what was published, in tolerances."""
        return (self.after - self.target.value) / self.target.tolerance


@dataclass(frozen=True)
class Fit:
    """What calibration yields."""

    study: Study
    """With the fitted values."""
    parameters: Sequence[Fitted]
    residuals: Sequence[Residual]
    evaluations: int
    """Sets of parameters that were tried."""


def calibrate(
    study: Study | str | Path,
    *,
    workloads: Sequence[str] = (),
    evaluations: int = 60,
    jobs: int | None = None,
    store: str | Path | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> Fit:
    """Fit the free parameters of a study to what it aims at.

    A Sobol sequence goes over all that is allowed, and from its best points on scipy's trust region
    descends by least squares, of misses in tolerances. Figures jump as parameters move, since a
    task more or less on a CPU is a jump, so slopes are taken over wide steps, and the first valley
    is not the last. ``workloads`` limits the fit to what concerns these, each of which is fitted by
    itself; ``evaluations`` is how many sets of parameters are tried for each at most. ``progress``
    is called with their number so far and the least sum of squares. The iterations of every set
    share their random numbers.

    Raises :class:`schedlab.StudyError` for a study without a ``[calibration]``.
    """
    from schedlab.store import Store, default_folder  # noqa: PLC0415 - `--help` needs none of these
    from schedlab.study.execute import cpu_count  # noqa: PLC0415

    study = study if isinstance(study, Study) else load(study)
    calibration = study.calibration
    if calibration is None:
        raise StudyError(f"{study.name} has no [calibration]; add one, with what may be fitted")
    shelf = Store(Path(store) if store is not None else default_folder())
    aimed = dict.fromkeys(target.workload for target in calibration.targets)
    fits: list[Fit] = []
    for workload in workloads or aimed:
        wanted = _limited(calibration, workload)
        if not wanted.parameters or not wanted.targets:
            raise StudyError(f"{study.name}: nothing of {workload} is free, or nothing is aimed at")
        bench = _Bench(study, wanted, shelf, jobs or cpu_count())
        tried = sum(fit.evaluations for fit in fits)
        fits.append(_fit(bench, evaluations, tried, progress))
        study = _with(study, wanted.parameters, [each.after for each in fits[-1].parameters])
    return Fit(
        study=study,
        parameters=[each for fit in fits for each in fit.parameters],
        residuals=[each for fit in fits for each in fit.residuals],
        evaluations=sum(fit.evaluations for fit in fits),
    )


def _fit(
    bench: _Bench,
    evaluations: int,
    tried: int,
    progress: Callable[[int, float], None] | None,
) -> Fit:
    from scipy import optimize  # noqa: PLC0415 - as above
    from scipy.stats import qmc  # noqa: PLC0415

    free, targets = bench.wanted.parameters, bench.wanted.targets
    found: list[tuple[float, list[float]]] = []

    def misses(places: Sequence[Sequence[float]]) -> list[list[float]]:
        rows = []
        every = bench.figures([_values(place, free) for place in places])
        for place, figures in zip(places, every, strict=True):
            off = [
                NOTHING if value is None else (value - target.value) / target.tolerance
                for value, target in zip(figures, targets, strict=True)
            ]
            found.append((math.fsum(each * each for each in off), list(place)))
            rows.append(off)
            if progress is not None:
                progress(tried + len(found), min(found)[0])
        return rows

    def slopes(place: Sequence[float]) -> list[list[float]]:
        steps = [STEP if value < 1 - STEP else -STEP for value in place]
        around = [
            [value + step * (at == axis) for at, value in enumerate(place)]
            for axis, step in enumerate(steps)
        ]
        here, *there = misses([list(place), *around])
        return [
            [(row[at] - here[at]) / step for row, step in zip(there, steps, strict=True)]
            for at in range(len(here))
        ]

    start = [_value(bench.study, each) for each in free]
    first = [_place(value, each) for value, each in zip(start, free, strict=True)]
    spread = max(2, round(SPREAD * evaluations))
    sobol = qmc.Sobol(len(free), scramble=False).random_base2(math.ceil(math.log2(spread)))
    misses([first, *(list(map(float, place)) for place in sobol[1:spread])])
    # One descent from each of the best, as far as evaluations last.
    for _, place in sorted(found)[:DESCENTS]:
        rounds = (evaluations - len(found)) // (len(free) + 2)
        if rounds < 1:
            break
        optimize.least_squares(
            lambda place: misses([list(map(float, place))])[0],
            [min(max(value, 1e-6), 1 - 1e-6) for value in place],
            jac=slopes,
            bounds=(0, 1),
            max_nfev=min(rounds, ROUNDS),
        )
    place = min(found)[1]
    final = _values(place, free)
    before, after = bench.measured(start), bench.measured(final)
    return Fit(
        study=bench.study,
        parameters=[
            Fitted(each.target, old, new, each.low, each.high, at_bound=not EDGE < where < 1 - EDGE)
            for each, old, new, where in zip(free, start, final, place, strict=True)
        ],
        residuals=[
            Residual(target, old, new)
            for target, old, new in zip(targets, before, after, strict=True)
        ],
        evaluations=len(found),
    )


def _place(value: float, free: FreeParameter) -> float:
    """Give where a value stands in its range, 0 to 1, by factors."""
    share = math.log(value / free.low) / math.log(free.high / free.low)
    return min(max(share, 0.0), 1.0)


def _values(place: Sequence[float], free: Sequence[FreeParameter]) -> list[float]:
    return [
        _rounded(each.low * (each.high / each.low) ** min(max(share, 0.0), 1.0), each)
        for share, each in zip(place, free, strict=True)
    ]


def _limited(calibration: Calibration, workload: str) -> Calibration:
    prefix = f"workload.{workload}."
    return replace(
        calibration,
        parameters=[free for free in calibration.parameters if free.target.startswith(prefix)],
        targets=[target for target in calibration.targets if target.workload == workload],
    )


def _value(study: Study, free: FreeParameter) -> float:
    value = next(each.value for each in study.parameters if each.target == free.target)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise StudyError(f"{study.name}: {free.target} is {value!r}; what is free must be positive")
    return float(value)


def _rounded(value: float, free: FreeParameter) -> float:
    """Give what the study file will say: whole, or four digits."""
    return round(value) if free.whole else float(f"{value:.4g}")


def _with(study: Study, free: Sequence[FreeParameter], values: Sequence[float]) -> Study:
    chosen = {each.target: _rounded(value, each) for each, value in zip(free, values, strict=True)}
    return replace(
        study,
        parameters=[
            replace(each, value=chosen[each.target]) if each.target in chosen else each
            for each in study.parameters
        ],
    )


class _Bench:
    """Runs the baseline and the controls with given parameters."""

    def __init__(self, study: Study, wanted: Calibration, store: Store, jobs: int) -> None:
        self.study = replace(
            study.only([wanted.targets[0].workload]),
            treatments=list(wanted.kernels),
            iterations=wanted.iterations,
        )
        self.wanted = wanted
        self._store = store
        self._jobs = jobs

    def figures(self, sets: Sequence[Sequence[float]]) -> list[list[float | None]]:
        """Give the figures that are aimed at, for each set; ``None``: nothing was measured."""
        from schedlab.study.execute import execute  # noqa: PLC0415 - as above
        from schedlab.study.plan import plan  # noqa: PLC0415

        kernels = {target.kernel for target in self.wanted.targets}
        planned = []
        for values in sets:
            runs = plan(_with(self.study, self.wanted.parameters, values))
            planned.append({run.key: run for run in runs if run.kernel in kernels})
        known = self._store.keys()
        missing = {key: run for keyed in planned for key, run in keyed.items() if key not in known}
        # To begin a process takes longer than a few runs.
        jobs = self._jobs if len(missing) > FEW_RUNS else 1
        execute(list(missing.items()), self._store, jobs=jobs)
        return [self._aimed_at(keyed) for keyed in planned]

    def _aimed_at(self, keyed: dict[str, Run]) -> list[float | None]:
        values: dict[tuple[str, str], list[float]] = {}
        for row in self._store.rows(keyed):
            if row["value"] is not None:
                place = (keyed[str(row["key"])].kernel, str(row["figure"]))
                values.setdefault(place, []).append(float(str(row["value"])))
        found = [values.get((target.kernel, target.figure)) for target in self.wanted.targets]
        mean = self.study.mean
        return [None if each is None else mean_of(each, mean) for each in found]

    def measured(self, values: Sequence[float]) -> list[float]:
        """Give the figures of one set, all of which must be there."""
        found = self.figures([values])[0]
        for target, value in zip(self.wanted.targets, found, strict=True):
            if value is None:
                raise StudyError(
                    f"{self.study.name}: {target.figure!r} of {target.workload} was not measured "
                    f"under {target.kernel}; name a figure that its runs have, or give it more time"
                )
        return [value for value in found if value is not None]
