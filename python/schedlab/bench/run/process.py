"""One command with a time limit: its output, its times, and nothing of it left behind."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlab.bench.run import signals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Outcome", "carry_out", "with_guard"]

# Signals reach Python's code only between calls, so that no wait may be long.
LOOK_S = 0.2

OUTPUT_BYTES_MAX = 1 << 20
"""Of a command's output that are kept: its end, where results stand."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    """Its exit code; negative for a signal."""
    timed_out: bool
    output: str
    """Standard output and error, as they came."""
    elapsed_s: float
    user_s: float
    """Of the command and the children that it waited for."""
    system_s: float


def with_guard(command: Sequence[str], cpus: str) -> list[str]:
    """Wrap a command so that it dies with its parent, and runs on these CPUs alone."""
    guard = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    return [*guard, *(["taskset", "--cpu-list", cpus] if cpus else []), *command]


def carry_out(
    command: Sequence[str],
    *,
    folder: str,
    env: Mapping[str, str],
    timeout_s: float,
    started: Callable[[int], None] = lambda _pid: None,
    ended: Callable[[int], None] = lambda _pid: None,
) -> Outcome:
    """Run a command to its end, or kill it with all that it started.

    ``started`` and ``ended`` are told its process.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # A signal between a process's start and its being known would leave it running.
    with tempfile.TemporaryFile() as output, signals.held():
        begin_ns = time.monotonic_ns()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C", **env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            started(process.pid)
            in_time = _wait(process.pid, timeout_s)
            end_ns = time.monotonic_ns()
        finally:
            # What the command left in the background would disturb the next one.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
            ended(process.pid)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - OUTPUT_BYTES_MAX))
        return Outcome(
            code=code,
            timed_out=not in_time,
            output=output.read().decode("utf-8", "replace"),
            elapsed_s=(end_ns - begin_ns) / 1e9,
            user_s=after.ru_utime - before.ru_utime,
            system_s=after.ru_stime - before.ru_stime,
        )


def _wait(pid: int, timeout_s: float) -> bool:
    """Wait until a process has ended; ``False`` if it takes too long."""
    deadline = time.monotonic() + timeout_s
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while True:
            signals.stop_if_asked()
            left = deadline - time.monotonic()
            if poll.poll(1000 * max(0.0, min(left, LOOK_S))):
                return True
            if left <= 0:
                return False
    finally:
        os.close(descriptor)
