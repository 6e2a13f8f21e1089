"""Carries out the runs that the store does not have, in processes of their own.

Each process puts a run into the store as soon as it is done. So whatever is killed, finished runs
stay, and the next time only the others are simulated.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import TYPE_CHECKING

from schedlab._schedlab import WorkloadError
from schedlab.kernel import Kernel
from schedlab.machine import Machine
from schedlab.simulation import simulate
from schedlab.study.figures import rows
from schedlab.study.model import Explanation
from schedlab.study.plan import words_of
from schedlab.study.reading import StudyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from schedlab.simulation import Simulation
    from schedlab.store import Store
    from schedlab.study.model import Scenario
    from schedlab.study.plan import Run

__all__ = ["cpu_count", "execute", "explain"]


# How often an interrupt from the keyboard is looked for: Polars takes signals in a way that does
# not wake a waiting thread.
LOOK_S = 0.2


def cpu_count() -> int:
    """Count the CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def execute(
    runs: Sequence[tuple[str, Run]],
    store: Store,
    *,
    jobs: int,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Carry out runs, each given with its key, in ``jobs`` processes.

    Raises :class:`schedlab.StudyError` for a run that cannot end, or a process that was killed.
    """
    told = progress or (lambda _done, _total: None)
    told(0, len(runs))
    if min(jobs, len(runs)) <= 1:
        for done, (key, run) in enumerate(runs):
            carry_out(store, key, run)
            told(done + 1, len(runs))
        return
    # Forking a process that has threads, as Polars does, is no way to get another.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(runs)), mp_context=context, initializer=_follow_parent)
    try:
        with _undisturbed():
            waiting = {pool.submit(carry_out, store, key, run) for key, run in runs}
        while waiting:
            finished, waiting = wait(waiting, LOOK_S, return_when=FIRST_COMPLETED)
            for future in finished:
                future.result()
            told(len(runs) - len(waiting), len(runs))
    except BrokenProcessPool:
        raise StudyError(
            "a worker process was killed, perhaps for want of memory; what is done is kept: run "
            "again, with fewer --jobs"
        ) from None
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold interrupts from the keyboard back while workers are being begun.

    One in between would leave a worker with half of what it is told, and it would say so at length.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    handler = signal.signal(signal.SIGINT, lambda *signalled: came.append(signalled))
    # Workers begin with this, too; they lift it once they know how to end.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if came and callable(handler):
            handler(*came[0])


def _follow_parent() -> None:
    """End with the parent, however that ends: an interrupt is meant for both."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            connection.wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def carry_out(store: Store, key: str, run: Run) -> None:
    """Simulate a run and put it into the store."""
    done = _simulate(run)
    if done.ending == "stuck":
        first = done.waiting[0] if done.waiting else "nothing"
        raise StudyError(
            f"workload {run.workload.name} under {run.kernel}: nothing can happen any more after "
            f"{done.end_ns / 1e9:.6f} s, and {len(done.waiting)} tasks wait, the first so: {first}"
        )
    store.write(key, rows(run, key, done))


def explain(scenario: Scenario, run: Run) -> Explanation:
    """Tell where a run placed the scenario's task, and why."""
    decisions = _simulate(run, keep_decisions=True).decisions
    found = () if decisions is None else decisions.rows_by_key("task", named=True)[scenario.task]
    return Explanation(
        workload=scenario.workload,
        title=scenario.title,
        kernel=run.kernel,
        text="\n".join(row["text"] for row in found),
    )


def _simulate(run: Run, *, keep_decisions: bool = False) -> Simulation:
    try:
        return simulate(
            run.workload,
            machine=Machine.parse(run.machine_toml, run.machine),
            kernel=Kernel.parse(run.kernel_toml, run.kernel),
            duration_s=run.duration_s,
            seed=run.seed,
            start_ns=run.start_ns,
            keep_decisions=keep_decisions,
            keep_c2c="kernel_lines = true" in run.machine_toml,
        )
    except WorkloadError as error:
        if not run.place:
            raise
        raise WorkloadError(f"{run.place}: {words_of(error)}") from None
