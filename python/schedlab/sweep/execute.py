"""The loop that hands runs out in batches until each is stored."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from schedlab.store.segments import KeySet
    from schedlab.sweep.crew import Crew, Report
    from schedlab.sweep.index import Index
    from schedlab.sweep.jobs import Block, Job

__all__ = ["Tally", "execute"]

# How often whoever watches is told, and an interrupt from the keyboard is looked for.
LOOK_S = 0.2

BATCH_RUNS_MAX = 2000

# Batches that wait for each that is carried out, so that nobody waits for the next.
AHEAD = 2

# Of batches that go out before it is known how long a run takes.
FIRST_RUNS = 8

# Failures that are kept in words; the store has them all.
FAILED_SHOWN = 100

# How much the latest batch moves the mean time of a run.
LATEST = 0.3


@dataclass
class Tally:
    """How far a sweep is."""

    total: int = 0
    """Runs of the plan as far as it is known."""
    done: int = 0
    """Runs that were carried out and stored, the failed ones among them."""
    stored: int = 0
    """Runs that the store had already."""
    same: int = 0
    """Runs that are another run of the plan, to the letter."""
    failed: int = 0
    failures: list[tuple[str, int, str]] = field(default_factory=list)
    """Workload, seed and error of the first of them."""
    deaths: int = 0
    """Workers that died and were begun anew."""
    wall_s: float = 0.0
    """Time of workers, spent on runs."""
    simulated_s: float = 0.0
    stored_s: float = 0.0
    """Time spent on the store."""
    late_s: float = 0.0
    """The longest that the store took for a batch."""
    note: str = ""
    """What the crew would like whoever waits to know."""
    batches: int = 0
    begun_s: float = field(default_factory=time.monotonic)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.begun_s

    @property
    def rate(self) -> float:
        """Runs per second."""
        return self.done / self.elapsed_s if self.done else 0.0

    @property
    def left_s(self) -> float | None:
        """Seconds that the rest will take, at this rate."""
        left = self.total - self.done - self.stored - self.same
        return left / self.rate if self.rate else None

    def add(self, report: Report) -> None:
        """Count a batch."""
        self.done += report.runs
        self.failed += len(report.failed)
        self.failures += report.failed[: max(0, FAILED_SHOWN - len(self.failures))]
        self.deaths += report.deaths
        self.wall_s += report.wall_s
        self.simulated_s += report.simulated_s
        self.stored_s += report.stored_s
        self.late_s = max(self.late_s, report.stored_s)
        self.batches += 1


def execute(
    blocks: Iterator[Block],
    crew: Crew,
    keys: tuple[KeySet, KeySet],
    index: Index,
    tally: Tally,
    *,
    told: Callable[[Tally], None] | None,
) -> None:
    """Carry out the runs of blocks whose keys are not known yet; they are, afterwards.

    ``keys`` are those known, and those that this sweep has met in its plan.

    Raises what the crew raises: :class:`schedlab.store.StoreError` or ``OSError`` where the store
    does, and :class:`schedlab.StudyError`.
    """
    feed = _Feed(blocks, keys, index, tally)
    run_s = 0.0
    looked_s = time.monotonic()
    while True:
        while crew.pending < crew.size * (1 + AHEAD) and not feed.ended:
            size = _batch_runs(run_s, crew, tally)
            batch = feed.take(size)
            if batch:
                crew.submit(batch)
            if told is not None and time.monotonic() - looked_s > LOOK_S:
                looked_s = time.monotonic()
                told(tally)
        if not crew.pending:
            break
        tally.note = crew.note
        for report in crew.reports(LOOK_S):
            tally.add(report)
            if report.runs:
                latest = report.wall_s / report.runs
                run_s = run_s + LATEST * (latest - run_s) if run_s else latest
        if told is not None and time.monotonic() - looked_s > LOOK_S:
            looked_s = time.monotonic()
            told(tally)
    if told is not None:
        told(tally)


def _batch_runs(run_s: float, crew: Crew, tally: Tally) -> int:
    """Choose how many runs a batch has: as long as the crew likes it, and shorter near the end."""
    if not run_s:
        return 1 if crew.pending < crew.size else FIRST_RUNS
    left = tally.total - tally.done - tally.stored - tally.same
    fair = left / (crew.size * (1 + AHEAD))
    return int(max(1, min(BATCH_RUNS_MAX, crew.batch_s / run_s, fair)))


class _Feed:
    """Takes runs from blocks, and leaves out those that are known."""

    def __init__(
        self, blocks: Iterator[Block], keys: tuple[KeySet, KeySet], index: Index, tally: Tally
    ) -> None:
        self._blocks = blocks
        self._known, self._issued = keys
        self._index = index
        self._tally = tally
        self._waiting: list[Job] = []
        self.ended = False

    def take(self, size: int) -> list[Job]:
        """Take so many runs, or what a while of looking at known ones brings."""
        until_s = time.monotonic() + LOOK_S
        while len(self._waiting) < size and not self.ended and time.monotonic() < until_s:
            block = next(self._blocks, None)
            if block is None:
                self.ended = True
                break
            self._index.add(block)
            for job in block.jobs:
                if job.key in self._issued:
                    self._tally.same += 1
                elif job.key in self._known:
                    self._tally.stored += 1
                    self._issued.add(job.key)
                else:
                    self._issued.add(job.key)
                    self._known.add(job.key)
                    self._waiting.append(job)
        taken, self._waiting = self._waiting[:size], self._waiting[size:]
        # What waits after the last block is taken in further turns.
        if self.ended and self._waiting:
            taken, self._waiting = taken + self._waiting, []
        return taken
