"""Batches on a Dask cluster: its workers simulate, each in processes of its own, and store.

A task of the cluster is a batch, self-contained: what its runs begin with, and where the store is.
So a worker may join or leave at any time, and a scheduler that was begun anew needs to know
nothing. What the client hears of a batch is only that it is stored; where it hears nothing any
more, the store tells.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import queue
import sys
import threading
import time
import uuid
import zlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from schedlab.extras import wanted
from schedlab.store.segments import Segments
from schedlab.study.plan import program
from schedlab.study.reading import StudyError
from schedlab.sweep.crew import Report, keep
from schedlab.sweep.hand import Hand
from schedlab.sweep.model import Limits
from schedlab.sweep.reach import reach

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.sweep.jobs import Job
    from schedlab.sweep.resolve import Recipe

__all__ = ["DaskCrew", "carry_out", "version"]

# How long a client waits for a scheduler that went away, and for the first worker.
RECONNECT_S = 600.0
CONNECT_S = 20.0
WORKERS_S = 120.0

# How often the number of workers is asked for.
SIZE_S = 2.0

_own = threading.local()


def version() -> str:
    """Name the program of this process: a worker's must be the client's."""
    return program()


def carry_out(payload: bytes) -> dict[str, Any]:
    """Carry out a batch on a worker, and store it; each of its threads has a process for that.

    Raises :class:`schedlab.StudyError` for a batch of another version's client, and what the store
    raises.
    """
    order = json.loads(zlib.decompress(payload))
    if order["program"] != program():
        raise StudyError(_other_version(order["worker"], program(), order["program"]))
    recipe = json.dumps(order["recipe"], sort_keys=True) + json.dumps(order["limits"])
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    if getattr(_own, "digest", None) != digest:
        with contextlib.suppress(AttributeError):
            _own.hand.close()
        _own.hand = Hand(order["recipe"], Limits(**order["limits"]))
        _own.digest = digest
    hand: Hand = _own.hand
    deaths = hand.deaths
    results = hand.carry_out([job[1:] for job in order["jobs"]])
    report = keep(
        Segments(order["store"]),
        order["jobs"],
        results,
        program=order["program"],
        deaths=hand.deaths - deaths,
    )
    return asdict(report)


def _quieten() -> None:
    """Drop what Dask logs, and the traceback of a client that is thrown away unconnected."""
    # Its modules have levels of their own, which that of their parent does not change.
    known = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    for name in ("distributed", "tornado", "asyncio", *known):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    usual = sys.unraisablehook

    def hook(found: sys.UnraisableHookArgs) -> None:
        if "distributed" not in getattr(found.object, "__module__", ""):
            usual(found)

    sys.unraisablehook = hook


def _other_version(where: str, there: str, here: str) -> str:
    return (
        f"{where} has schedlab {there}, this client {here}; results would not be comparable: "
        "install the same build on both"
    )


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    # A connection that broke is described at length before what broke it.
    return text.rpartition(">: ")[2]


class DaskCrew:
    """The workers of a cluster."""

    batch_s = 2.0

    def __init__(
        self,
        recipe: Recipe,
        limits: Limits,
        segments: Segments,
        program_: str,
        *,
        scheduler: str,
        tls: Sequence[str] = (),
    ) -> None:
        """Connect, and check that all workers have this client's program.

        Raises :class:`schedlab.StudyError` if that fails.
        """
        with wanted("--scheduler"):
            import distributed  # noqa: PLC0415 - an extra
        # What goes wrong is told by the sweep, in one line.
        _quieten()
        # Its constructors have no types.
        self._distributed: Any = distributed
        self._order = {
            "recipe": recipe.body(),
            "limits": asdict(limits),
            "store": segments.address,
            "program": program_,
            "worker": "a worker",
        }
        self._segments = segments
        self._scheduler = scheduler
        self._tls = list(tls)
        self._batches: dict[Any, Sequence[Job]] = {}
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ready: list[Report] = []
        self._client: Any = None
        self._sized_s = 0.0
        self.size = 1
        self.note = ""
        """What a waiting user should know."""
        self._connect(CONNECT_S)

    @property
    def pending(self) -> int:
        """Count the batches whose report is still to come."""
        return len(self._batches) + len(self._ready)

    def submit(self, batch: Sequence[Job]) -> None:
        """Take a batch."""
        payload = zlib.compress(json.dumps({**self._order, "jobs": batch}).encode(), 1)
        while True:
            client = self._connected()
            try:
                future = client.submit(
                    carry_out, payload, key=f"schedlab-{uuid.uuid4().hex}", pure=False
                )
            except Exception:  # noqa: BLE001 - the connection went away in this moment
                time.sleep(0.1)
                continue
            self._batches[future.key] = batch
            # The future keeps the task alive as long as it is known.
            future.add_done_callback(self._done.put)
            return

    def reports(self, timeout_s: float) -> list[Report]:
        """Give the batches that have been stored since.

        Raises what storing them raised, and :class:`schedlab.StudyError` if the scheduler stays
        away.
        """
        self._connected()
        found, self._ready = self._ready, []
        if found:
            return found
        futures = []
        with contextlib.suppress(queue.Empty):
            futures.append(self._done.get(timeout=timeout_s))
            while True:
                futures.append(self._done.get_nowait())
        lost: list[Sequence[Job]] = []
        for future in futures:
            batch = self._batches.pop(future.key, None)
            if batch is None:
                continue
            if future.status == "finished":
                found.append(Report(**future.result()))
            elif future.status == "error":
                found += self._failed(batch, future.exception())
            else:
                lost.append(batch)
        if lost:
            self._again(lost)
        self._look()
        return found

    def close(self) -> None:
        """Leave the cluster; what its workers do is dropped or stored, as it comes."""
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close(timeout=2)
            self._client = None

    def _failed(self, batch: Sequence[Job], error: BaseException) -> list[Report]:
        """Halve a batch that took several workers with it, down to the run that did."""
        if not isinstance(error, self._distributed.KilledWorker):
            raise error
        if len(batch) > 1:
            middle = len(batch) // 2
            self._again([batch[:middle], batch[middle:]])
            return []
        words = "the workers that had this run died, one after the other"
        return [
            keep(self._segments, batch, [{"error": words}], program=str(self._order["program"]))
        ]

    def _again(self, batches: Sequence[Sequence[Job]]) -> None:
        """Submit what the store does not have; batches may have been stored unheard."""
        known = self._segments.keys()
        for batch in batches:
            missing = [job for job in batch if job.key not in known]
            if len(missing) < len(batch):
                self._ready.append(Report(len(batch) - len(missing), 0.0, 0.0, 0.0))
            if missing:
                self.submit(missing)

    def _look(self) -> None:
        if time.monotonic() - self._sized_s < SIZE_S:
            return
        self._sized_s = time.monotonic()
        try:
            threads = sum(self._client.nthreads().values())
        except Exception:  # noqa: BLE001 - the next look tells more
            return
        self.size = max(1, threads)
        self.note = "" if threads else "no worker is there; begin one"

    def _connected(self) -> Any:
        """Give the client; wait for a scheduler that went away, and submit anew what was lost."""
        if self._client is not None and self._client.status == "running":
            return self._client
        self.note = f"{self._scheduler} went away; waiting for it"
        self._connect(RECONNECT_S)
        self.note = ""
        lost = list(self._batches.values())
        self._batches.clear()
        self._again(lost)
        return self._client

    def _connect(self, patience_s: float) -> None:
        self.close()
        deadline = time.monotonic() + patience_s
        # Without files of its own, from Dask's configuration.
        given = {}
        if self._tls:
            names = ("tls_ca_file", "tls_client_cert", "tls_client_key")
            given = dict(zip(names, self._tls, strict=True))
        encrypted = self._scheduler.startswith("tls://")
        hint = "" if encrypted else ", tls:// where it wants that"
        security = self._distributed.Security(require_encryption=encrypted or None, **given)
        files = [security.tls_ca_file, security.tls_client_cert, security.tls_client_key]
        if encrypted and not all(files):
            raise StudyError(
                f"{self._scheduler}: give --tls-ca and --tls-cert, or name them in Dask's own "
                "configuration"
            )
        while self._client is None:
            try:
                reach(self._scheduler, files)
                self._client = self._distributed.Client(
                    self._scheduler,
                    security=security,
                    timeout=CONNECT_S,
                    set_as_default=False,
                    direct_to_workers=False,
                )
            except StudyError:
                raise
            except Exception as error:  # noqa: BLE001 - as above
                if time.monotonic() > deadline or isinstance(error, TypeError | ValueError):
                    raise StudyError(
                        f"{self._scheduler}: {_words(error)}; begin one by `dask scheduler` (see "
                        f"docs/cluster.md), or mend the address{hint}"
                    ) from None
                time.sleep(1.0)
        self._check(deadline)

    def _check(self, deadline: float) -> None:
        """Wait for a worker, and refuse those of another version."""
        try:
            self._client.wait_for_workers(1, timeout=WORKERS_S)
        except Exception:  # noqa: BLE001 - whatever it was, nobody is there
            raise StudyError(
                f"{self._scheduler}: no worker has come within {WORKERS_S:g} s; begin one by "
                f"`dask worker {self._scheduler}`"
            ) from None
        try:
            found = self._client.run(version)
        except ModuleNotFoundError as error:
            raise StudyError(
                f"{self._scheduler}: a worker has no {error.name}; install schedlab[sweep] there"
            ) from None
        except Exception as error:  # noqa: BLE001 - as above
            if time.monotonic() < deadline:
                return  # A worker went away meanwhile; every batch is checked as well.
            raise StudyError(f"{self._scheduler}: {error}") from None
        for worker, there in found.items():
            if there != self._order["program"]:
                here = str(self._order["program"])
                raise StudyError(_other_version(f"worker {worker}", str(there), here))
        self._sized_s = 0.0
        self._look()
