"""PELT, the kernel's load tracking: one task's signals, and a whole trace's rebuilt ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from schedlab import _schedlab
from schedlab.machine import Machine
from schedlab.ranges import U64, bounded
from schedlab.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    import polars as pl

__all__ = ["Pelt", "check", "comparisons"]


class Pelt:
    """A task's load-tracking signals, bit for bit as in Linux 6.12.

    Times are of the CPU's PELT clock, ns. A task that runs alone from zero for 32 periods of
    1.048576 ms reaches half of its CPU:

    >>> pelt = Pelt()
    >>> for period in range(1, 33):
    ...     _ = pelt.update(period << 20, running=True)
    >>> pelt.util_avg
    512
    """

    @bounded(now_ns=U64)
    def __init__(self, now_ns: int = 0) -> None:
        """Make empty signals that stand at ``now_ns``."""
        self._native = _schedlab.PeltSignal(now_ns)

    @bounded(now_ns=U64, weight=U64)
    def update(
        self,
        now_ns: int,
        *,
        running: bool,
        runnable: bool | None = None,
        weight: int = _schedlab.NICE_0_LOAD,
    ) -> bool:
        """Let the task run, wait or sleep until ``now_ns``; tell whether an average changed.

        A task that runs is runnable; one that does not is asleep unless ``runnable``.
        ``weight`` is ``se->load.weight``, 1048576 for nice 0.
        """
        waits = running if runnable is None else runnable
        return self._native.update(now_ns, running=running, runnable=waits, weight=weight)

    @property
    def util_avg(self) -> int:
        """Utilisation, 0 to 1024: the share of time running."""
        return self._native.util_avg

    @property
    def runnable_avg(self) -> int:
        """The share of time runnable, 0 to 1024."""
        return self._native.runnable_avg

    @property
    def load_avg(self) -> int:
        """The share of time runnable, times the weight."""
        return self._native.load_avg

    @property
    def util_sum(self) -> int:
        """The decaying series behind ``util_avg``."""
        return self._native.util_sum

    @property
    def period_contrib(self) -> int:
        """Units of 1024 ns already counted in the open period."""
        return self._native.period_contrib

    @property
    def last_update_time(self) -> int:
        """The time up to which the sums stand, ns."""
        return self._native.last_update_time

    def __repr__(self) -> str:
        """Tell the utilisation.

        >>> Pelt()
        <Pelt util_avg=0>
        """
        return f"<Pelt util_avg={self.util_avg}>"


ERRORS = ("median", "p90", "p99", "max")
"""What is told of the errors of each signal."""


def check(
    trace: Trace | str | PathLike[str],
    machine: Machine | str | None = None,
    *,
    invariance: Literal["clock", "contribution"] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Rebuild ``util_avg`` from a trace's switches and compare it with the kernel's own values.

    Tells the distribution of absolute errors, of 1024, for tasks and for CPUs' fair, real-time and
    deadline classes. A value is compared once its history is known: the kernel's first value, or
    345 periods without one. ``invariance`` is how the traced kernel makes slow CPUs comparable: by
    the ``clock`` (Linux 5.1 on) or by the ``contribution`` (before); by default the nearer. Where
    no value is compared, errors are ``None``.

    >>> found = check("tests/data/traces/qemu_pelt_ptask.dat", "qemu8")
    >>> found["task"]["median"], found["task"]["p99"] <= 8
    (0, True)
    """
    return _check(trace, machine, invariance, rows=False, progress=progress)[0]


def comparisons(
    trace: Trace | str | PathLike[str],
    machine: Machine | str | None = None,
    *,
    invariance: Literal["clock", "contribution"] | None = None,
) -> pl.DataFrame:
    """List each of the kernel's values in a trace beside the rebuilt one.

    >>> comparisons("tests/data/traces/qemu_pelt_ptask.dat", "qemu8").columns
    ['timestamp_ns', 'signal', 'id', 'kernel', 'rebuilt', 'known']
    """
    import polars as pl  # noqa: PLC0415 - a second of imports that most callers do not need

    return pl.DataFrame(_check(trace, machine, invariance, rows=True)[1])


def _check(
    trace: Trace | str | PathLike[str],
    machine: Machine | str | None,
    invariance: str | None,
    *,
    rows: bool,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, Any], _schedlab.Table | None]:
    path = Path(trace.path if isinstance(trace, Trace) else trace)
    loaded = Machine.load(machine) if isinstance(machine, str) else machine
    native = None if loaded is None else loaded.native
    found, table = _schedlab.pelt_check(
        path, native, invariance=invariance, rows=rows, progress=progress
    )
    for signal in found.values():
        # Of no value there is no error, rather than one of 0.
        if isinstance(signal, dict) and not signal["compared"]:
            signal.update(dict.fromkeys(ERRORS))
    return found, table
