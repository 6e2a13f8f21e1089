"""Who carries batches out and stores them: worker processes of this machine."""

from __future__ import annotations

import json
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from schedlab.sweep.hand import Hand, Stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.store.segments import Segments
    from schedlab.sweep.jobs import Job
    from schedlab.sweep.model import Limits
    from schedlab.sweep.resolve import Recipe

__all__ = ["Crew", "LocalCrew", "Report", "keep"]


@dataclass(frozen=True)
class Report:
    """A batch whose runs are stored."""

    runs: int
    wall_s: float
    """Of all its runs, in their worker."""
    simulated_s: float
    """Of which in the simulator."""
    stored_s: float
    """How long the store took."""
    failed: Sequence[tuple[str, int, str]] = ()
    """Workload, seed and error of each run that failed."""
    deaths: int = 0
    """Workers that died and were begun anew meanwhile."""


class Crew(Protocol):
    """Carries out batches, several at once."""

    size: int
    """How many batches are carried out at once."""
    batch_s: float
    """How long a batch had best take."""
    note: str
    """What whoever waits should know."""

    @property
    def pending(self) -> int:
        """Count the batches whose report is still to come."""

    def submit(self, batch: Sequence[Job]) -> None:
        """Take a batch."""

    def reports(self, timeout_s: float) -> list[Report]:
        """Give the batches that have been stored since, after waiting for one that long at most.

        Raises what storing raised.
        """

    def close(self) -> None:
        """Stop at once; runs under way are dropped."""


def keep(
    segments: Segments,
    jobs: Sequence[Sequence[Any]],
    results: Sequence[dict[str, Any]],
    *,
    program: str,
    deaths: int = 0,
) -> Report:
    """Store what came of a batch of jobs."""
    begun = time.monotonic()
    rows = []
    failed = []
    for (key, machine, workload, kernel, settings, seed), result in zip(jobs, results, strict=True):
        rows.append(
            {
                **result,
                "key": key,
                "machine": machine,
                "workload": workload,
                "kernel": kernel,
                "settings": json.dumps(settings, sort_keys=True),
                "seed": seed,
                "program": program,
            }
        )
        if "error" in result:
            failed.append((str(workload), int(seed), str(result["error"])))
    segments.write(rows)
    return Report(
        runs=len(rows),
        wall_s=sum(float(result.get("wall_s", 0.0)) for result in results),
        simulated_s=sum(float(result.get("simulated_s", 0.0)) for result in results),
        stored_s=time.monotonic() - begun,
        failed=failed,
        deaths=deaths,
    )


@dataclass
class LocalCrew:
    """Worker processes of this machine, a thread to watch each."""

    recipe: Recipe
    limits: Limits
    segments: Segments
    program: str
    size: int
    batch_s: float = 1.0
    note: str = ""
    hands: list[Hand] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin the threads; each begins its process with its first batch."""
        self._orders: queue.SimpleQueue[Sequence[Job] | None] = queue.SimpleQueue()
        self._reports: queue.SimpleQueue[Report | BaseException] = queue.SimpleQueue()
        self._pending = 0
        body = self.recipe.body()
        self.hands = [Hand(body, self.limits) for _ in range(self.size)]
        self._threads = [
            threading.Thread(target=self._work, args=(hand,), daemon=True) for hand in self.hands
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pending(self) -> int:
        """Count the batches whose report is still to come."""
        return self._pending

    def submit(self, batch: Sequence[Job]) -> None:
        """Take a batch."""
        self._pending += 1
        self._orders.put(batch)

    def reports(self, timeout_s: float) -> list[Report]:
        """Give the batches that have been stored since."""
        found = []
        try:
            found.append(self._reports.get(timeout=timeout_s))
            while True:
                found.append(self._reports.get_nowait())
        except queue.Empty:
            pass
        for each in found:
            self._pending -= 1
            if isinstance(each, BaseException):
                raise each
        return [each for each in found if isinstance(each, Report)]

    def close(self) -> None:
        """Stop at once."""
        for hand in self.hands:
            hand.close()
        for _ in self._threads:
            self._orders.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, hand: Hand) -> None:
        while (batch := self._orders.get()) is not None:
            try:
                deaths = hand.deaths
                results = hand.carry_out([job.order() for job in batch])
                report = keep(
                    self.segments,
                    batch,
                    results,
                    program=self.program,
                    deaths=hand.deaths - deaths,
                )
            except Stopped:
                return
            except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
                self._reports.put(error)
                return
            self._reports.put(report)
