"""Who watches over one worker process: orders in, results out, and what of a run that fails.

A worker that dies takes nothing with it but the run under way: what it had done before has left it.
That run is tried once more, since whoever killed the worker may not have meant the run; a second
death counts as the run's. A run that takes more time or memory than its limit ends with its worker,
and is not tried again.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from schedlab.study.reading import StudyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.sweep.model import Limits

__all__ = ["Hand", "Stopped"]

# How often limits are looked after.
LOOK_S = 0.1

# A worker that was told nothing begins within this, however busy the machine is.
BEGIN_S = 120.0

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

READ_BYTES = 1 << 16

# Workers in a row that die before they begin with anything.
STILLBORN_MAX = 5


class Stopped(Exception):  # noqa: N818 - no error: somebody wants the hand to stop
    """The hand was closed in the midst of a batch."""


class Hand:
    """One worker process, begun anew whenever it has died."""

    def __init__(self, recipe: dict[str, Any], limits: Limits) -> None:
        """Prepare; the process begins with the first batch."""
        self._recipe = json.dumps({"recipe": recipe}).encode() + b"\n"
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self.deaths = 0
        """Workers that died without a run being to blame for it."""
        self.under_way: int | None = None
        """The order that the worker is at."""

    @property
    def pid(self) -> int | None:
        """The worker's process, if there is one."""
        return None if self._process is None else self._process.pid

    def carry_out(self, orders: Sequence[list[Any]]) -> list[dict[str, Any]]:
        """Carry out runs, and give a result or an ``error`` for each.

        Raises :class:`Stopped` if :meth:`close` was called meanwhile, and ``OSError`` or
        :class:`schedlab.StudyError` if no worker can be begun.
        """
        results: list[dict[str, Any] | None] = [None] * len(orders)
        suspect: int | None = None
        stillborn = 0
        while missing := [at for at, result in enumerate(results) if result is None]:
            # A suspect goes alone, so that nothing else is tried again because of it.
            batch = [suspect] if suspect is not None else missing
            ended, reason = self._batch(batch, orders, results)
            under_way, self.under_way = self.under_way, None
            if not ended:
                suspect = None
            elif under_way is None:
                # It died before it began with anything, which no run is to blame for.
                self.deaths += 1
                stillborn += 1
                if stillborn > STILLBORN_MAX:
                    raise StudyError(f"workers cannot begin: {reason or self._death()}")
            elif reason is not None or under_way == suspect:
                results[under_way] = {"error": reason or self._death()}
                suspect = None
            else:
                suspect = under_way
                self.deaths += 1
        return [result for result in results if result is not None]

    def close(self) -> None:
        """End the worker, whatever it does."""
        self._closed = True
        self._kill()

    def _batch(
        self,
        batch: Sequence[int],
        orders: Sequence[list[Any]],
        results: list[dict[str, Any] | None],
    ) -> tuple[bool, str | None]:
        """Carry out some runs; tell whether the worker ended on the way, and why if we know."""
        process = self._worker()
        assert process.stdin is not None
        assert process.stdout is not None
        self.under_way = None
        begun: float | None = None
        waiting_since = time.monotonic()
        pending = b""
        with contextlib.suppress(BrokenPipeError):
            order = {"runs": [orders[at] for at in batch]}
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                if self._closed:
                    raise Stopped
                if selector.select(LOOK_S):
                    found = os.read(process.stdout.fileno(), READ_BYTES)
                    if not found:
                        self._ended()
                        return True, None
                    *lines, pending = (pending + found).split(b"\n")
                    for line in map(json.loads, lines):
                        if "begun" in line:
                            self.under_way, begun = batch[line["begun"]], time.monotonic()
                        else:
                            results[batch[line.pop("done")]] = line
                            self.under_way, begun = None, None
                            waiting_since = time.monotonic()
                    if results[batch[-1]] is not None:
                        return False, None
                reason = self._over(process.pid, begun)
                if reason is None and begun is None and time.monotonic() - waiting_since > BEGIN_S:
                    reason = f"the worker did not begin within {BEGIN_S:g} s"
                if reason is not None:
                    self._kill()
                    return True, reason

    def _over(self, pid: int, begun: float | None) -> str | None:
        limits = self._limits
        if begun is None:
            return None
        if limits.time_s is not None and time.monotonic() - begun > limits.time_s:
            return f"took more than its limit of {limits.time_s:g} s"
        if limits.memory_mb is not None:
            used_mb = _memory_bytes(pid) / 1e6
            if used_mb > limits.memory_mb:
                return f"took {used_mb:.0f} MB, more than its limit of {limits.memory_mb:g} MB"
        return None

    def _worker(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise Stopped
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._kill()
        # One thread does the little work on tables faster than many.
        environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "schedlab.sweep.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            # An interrupt from the keyboard is for whoever sent the orders.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(self._recipe)
            self._process.stdin.flush()
        return self._process

    def _ended(self) -> None:
        if self._process is not None:
            self._process.wait()

    def _death(self) -> str:
        code = 0 if self._process is None else self._process.returncode
        if code is not None and code < 0:
            return f"the worker died of {signal.Signals(-code).name}, and another before it"
        return f"the worker ended with code {code}, and another before it"

    def _kill(self) -> None:
        process = self._process
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        if self._process is process and not self._closed:
            self._process = None


def _memory_bytes(pid: int) -> int:
    """Read how much memory a process holds; 0 where that cannot be told."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123 - often
            return int(file.read().split()[1]) * PAGE_BYTES
    except OSError:
        return 0
