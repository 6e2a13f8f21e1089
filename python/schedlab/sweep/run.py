"""Runs a plan to its end, and gives its table."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Self

from schedlab.ranges import JOBS, check_range
from schedlab.store import default_folder
from schedlab.store.segments import KeySet, Segments
from schedlab.study.execute import cpu_count
from schedlab.study.plan import program
from schedlab.study.reading import StudyError
from schedlab.sweep.crew import LocalCrew
from schedlab.sweep.execute import Tally, execute
from schedlab.sweep.first import missing_figures, try_first
from schedlab.sweep.index import Index
from schedlab.sweep.jobs import Jobs
from schedlab.sweep.load import load
from schedlab.sweep.model import Plan
from schedlab.sweep.table import Row, figures_of, frame, rows_frame, tabulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import polars as pl

    from schedlab.sweep.crew import Crew
    from schedlab.sweep.jobs import Block
    from schedlab.sweep.sensitivity import Index as SobolIndex
    from schedlab.sweep.sequential import Until

__all__ = ["Session", "SweepResult", "crew_for", "open_store", "run_sweep"]

# The table so far takes at most this share of the time, since it reads the whole store.
TABLE_SHARE = 0.05
TABLE_PAUSE_S = 2.0
TABLE_CELLS = 20


@dataclass
class SweepResult:
    """What a sweep yields."""

    plan: Plan
    rows: Sequence[Row]
    tally: Tally
    segments: Segments
    index: Index = field(repr=False)

    @property
    def table(self) -> pl.DataFrame:
        """The table as a Polars frame: a row per cell, variant and figure."""
        return rows_frame(self.plan, self.rows)

    @cached_property
    def indices(self) -> list[SobolIndex]:
        """Which axes matter, of a plan of design ``saltelli``; none of any other."""
        if self.plan.design != "saltelli":
            return []
        from schedlab.sweep.sensitivity import indices  # noqa: PLC0415 - SALib is an extra

        return indices(self.plan, self.rows)

    @property
    def sensitivity(self) -> pl.DataFrame:
        """The indices as a Polars frame: a row per place, variant, figure and axis."""
        import polars as pl  # noqa: PLC0415 - the command line prints no frames

        return pl.DataFrame([asdict(each) for each in self.indices])

    @property
    def runs(self) -> pl.DataFrame:
        """Every figure of every run as a Polars frame, with its cell, variant and iteration."""
        return frame(self.segments, self.index)


def open_store(address: str | Path | None) -> Segments:
    """Open the store of an address, or the usual one."""
    return Segments(default_folder() if address is None else address)


def crew_for(
    jobs: Jobs,
    segments: Segments,
    *,
    processes: int | None = None,
    scheduler: str | None = None,
    tls: Sequence[str] = (),
) -> Crew:
    """Make who carries runs out: local processes, or a Dask cluster's workers."""
    if scheduler is not None:
        from schedlab.sweep.cluster import DaskCrew  # noqa: PLC0415 - Dask is an extra

        return DaskCrew(
            jobs.recipe, jobs.plan.limits, segments, program(), scheduler=scheduler, tls=tls
        )
    size = min(processes or cpu_count(), max(1, len(jobs)))
    return LocalCrew(jobs.recipe, jobs.plan.limits, segments, program(), size)


class Session:
    """A plan at work: who carries runs out, what is known, and where each run stands."""

    def __init__(
        self,
        plan: Plan,
        *,
        store: str | Path | None = None,
        jobs: int | None = None,
        scheduler: str | None = None,
        tls: Sequence[str] = (),
        retry_failed: bool = False,
        progress: Callable[[Tally], None] | None = None,
        so_far: Callable[[list[Row]], None] | None = None,
    ) -> None:
        """Read the store, try the plan's first runs, and begin the crew; as :func:`run_sweep`."""
        check_range("jobs", jobs, JOBS, StudyError)
        self.plan = plan
        self.segments = open_store(store)
        self.todo = Jobs(plan)
        try_first(self.todo)
        self.tally = Tally()
        self.index = Index()
        self._known = self.segments.keys(failed=not retry_failed)
        self._issued = KeySet()
        self._told = _told(plan, self.segments, self.index, progress, so_far)
        self._crew = crew_for(
            self.todo, self.segments, processes=jobs, scheduler=scheduler, tls=tls
        )

    def carry_out(self, blocks: Iterator[Block], runs: int) -> None:
        """Carry out blocks of so many runs in all, but for what is known.

        Raises as :func:`run_sweep`.
        """
        self.tally.total += runs
        try:
            keys = (self._known, self._issued)
            execute(blocks, self._crew, keys, self.index, self.tally, told=self._told)
        except OSError as error:
            raise _kept(error, self.segments, self.tally) from None

    def rows(self) -> list[Row]:
        """Compare what is stored of the plan so far."""
        return tabulate(self.plan, self.segments, self.index)

    def __enter__(self) -> Self:
        """Use it for a while."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Stop who carries runs out, and put small segments together if all went well."""
        self._crew.close()
        if kind is None:
            self.segments.compact()


def run_sweep(
    plan: Plan | str | Path,
    *,
    store: str | Path | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    tls: Sequence[str] = (),
    until: Until | None = None,
    retry_failed: bool = False,
    progress: Callable[[Tally], None] | None = None,
    so_far: Callable[[list[Row]], None] | None = None,
) -> SweepResult:
    """Run a plan, but for the runs that the store has, and compare.

    ``store`` is a folder or any address that fsspec knows. ``jobs`` is how many processes of this
    machine simulate, by default one per CPU; with ``scheduler``, an address ``tcp://`` or
    ``tls://``, the workers of that Dask cluster do, and ``tls`` names the files of the authority's
    certificate, the own certificate, and its key. With ``until``, cells get more iterations until
    each comparison is settled. A run that fails is recorded and not tried again unless
    ``retry_failed``. ``progress`` is called with the tally several times a second, and ``so_far``
    now and then with the table of what is stored.

    Raises :class:`schedlab.StudyError`, :class:`schedlab.store.StoreError`, ``OSError``, and what
    loading the plan's parts raises.
    """
    plan = plan if isinstance(plan, Plan) else load(plan)
    with Session(
        plan,
        store=store,
        jobs=jobs,
        scheduler=scheduler,
        tls=tls,
        retry_failed=retry_failed,
        progress=progress,
        so_far=so_far,
    ) as session:
        if until is None:
            session.carry_out(session.todo.blocks(), len(session.todo))
            rows = session.rows()
        else:
            from schedlab.sweep.sequential import settle  # noqa: PLC0415 - few sweeps do

            rows = settle(session, until)
    result = SweepResult(plan, rows, session.tally, session.segments, session.index)
    shown = {row.figure for row in rows}
    if any(choice.figure not in shown for choice in plan.figures):
        missing_figures(plan, figures_of(session.segments, session.index))
    return result


def _told(
    plan: Plan,
    segments: Segments,
    index: Index,
    progress: Callable[[Tally], None] | None,
    so_far: Callable[[list[Row]], None] | None,
) -> Callable[[Tally], None] | None:
    if progress is None and so_far is None:
        return None
    next_s = time.monotonic() + TABLE_PAUSE_S

    def told(tally: Tally) -> None:
        nonlocal next_s
        if progress is not None:
            progress(tally)
        if so_far is not None and tally.done and time.monotonic() > next_s:
            begun = time.monotonic()
            so_far(tabulate(plan, segments, index, limit=TABLE_CELLS))
            took = time.monotonic() - begun
            next_s = time.monotonic() + max(TABLE_PAUSE_S, took / TABLE_SHARE)

    return told


def _kept(error: OSError, segments: Segments, tally: Tally) -> StudyError:
    """Say what a store that takes nothing more means for the sweep."""
    import errno  # noqa: PLC0415 - only here

    place = error.filename or segments.address
    what = error.strerror or str(error)
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        what = "no space left"
    return StudyError(
        f"{place}: {what}; {tally.done} runs of this session are kept: free some space, or use "
        "another --store, and run again to go on"
    )
