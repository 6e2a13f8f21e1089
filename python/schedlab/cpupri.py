"""The RT priority map: its layouts on their own, at scale, and under this machine's threads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from schedlab import _schedlab
from schedlab.machine import Machine
from schedlab.ranges import U32, U64, bounded, check_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import polars as pl

__all__ = ["CPUS", "C2cTable", "CpuPri", "contention", "layouts", "measure", "read_c2c", "scaling"]

CPUS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
"""Machine sizes of :func:`scaling`."""

# Priorities of the map: SCHED_FIFO 99 to deadline tasks.
PRIORITIES = (0, 100)

# Simulated sizes, measured times in ms, and pauses in us that the map's users make.
SIZES = (CPUS[0], CPUS[-1])
DURATION_MS = (1, 60_000)
THINK_US = (0, 1_000_000)

# CPUs of one last-level cache, and of one NUMA node, on machines of :func:`scaling`.
CPUS_PER_CACHE = 64
NODES_PER_PACKAGE = 4


def layouts() -> list[str]:
    """List the layouts, the kernel's first.

    >>> layouts()[:4]
    ['global', 'per-node', 'per-llc', 'scalable-bitmap']
    """
    return _schedlab.cpupri_layouts()


class CpuPri:
    """The kernel's map of what each CPU runs (``cpupri``), in a layout, access by access.

    Priorities are the kernel's: 0 for ``SCHED_FIFO`` 99 to 98 for ``SCHED_FIFO`` 1, 99 for what is
    not real-time, 100 for deadline tasks.

    >>> map = CpuPri("per-node", machine="nehalem-ep-2s")
    >>> for cpu in range(16):
    ...     map.set(cpu, 99)
    >>> map.set(3, 0)
    >>> map.find(0, allowed="2-3", this_cpu=3)
    [2]
    """

    def __init__(self, layout: str = "global", *, machine: str | Machine = "gnr-2s-snc3") -> None:
        """Make a map for the machine's CPUs, of none of which anything is known.

        Raises :class:`schedlab.KernelError` for an unknown layout.
        """
        machine = machine if isinstance(machine, Machine) else Machine.load(machine)
        self.layout = layout
        self._cpus = (0, machine.cpu_count - 1)
        self._native = _schedlab.CpuPri(layout, machine.native)

    @bounded(prio=PRIORITIES)
    def set(self, cpu: int, prio: int | None) -> None:
        """Take down what ``cpu`` runs; ``None`` takes it out (``cpupri_set()``)."""
        check_range("cpu", cpu, self._cpus)
        self._native.set(cpu, prio)

    @bounded(prio=PRIORITIES)
    def find(self, prio: int, *, allowed: str | None = None, this_cpu: int = 0) -> list[int]:
        """Give the CPUs that run the least urgent, below ``prio`` (``cpupri_find()``).

        ``allowed`` is a CPU list such as ``0-7,240-247``; ``this_cpu`` searches.
        """
        check_range("this_cpu", this_cpu, self._cpus)
        return self._native.find(prio, allowed, this_cpu)

    def touched(self) -> pl.DataFrame:
        """Give the accesses since this was last asked, in order.

        ``line`` (its number)``, object, offset`` (bytes from the object's start)``, access, loads``
        (of the line in a row)``, symbol``.
        """
        import polars as pl  # noqa: PLC0415 - a second of imports that most callers do not need

        return pl.DataFrame(self._native.touched())

    @property
    def lines(self) -> int:
        """Cache lines of the map and of all that it points to."""
        return self._native.lines

    @property
    def domain_lines(self) -> int:
        """Cache lines of ``struct root_domain``."""
        return self._native.domain_lines


@bounded(group=U64, rounds=U32, seed=U64)
def contention(
    layout: str,
    *,
    machine: str | Machine = "gnr-2s-snc3",
    group: int = 8,
    think_us: float = 500.0,
    rounds: int = 20,
    seed: int = 0,
) -> dict[str, Any]:
    """Simulate the map alone under all CPUs of a machine.

    On each CPU a ``SCHED_FIFO`` 99 task comes, looks for another of the ``group`` CPUs that it may
    use, and goes, ``think_us`` apart on average. Gives mean, median and 99th percentile of a search
    (``find_mean_ns``, ...) and of a change (``set_mean_ns``, ...), and lines touched by each.
    """
    machine = machine if isinstance(machine, Machine) else Machine.load(machine)
    check_range("think_us", think_us, THINK_US)
    result, _ = _schedlab.cpupri_contention(
        machine.native,
        layout,
        group=group,
        think_ns=round(think_us * 1000),
        rounds=rounds,
        seed=seed,
        record=False,
    )
    return result


def sized(machine: Machine, cpus: int, *, uniform: bool = False) -> Machine:
    """Make a machine of another size with a machine's cache costs.

    Two threads to a core, 32 cores to a cache and node, four nodes to a package. ``uniform`` gives
    every transfer the cost of one within a cache, so that distance does not matter. Raises
    ``ValueError`` unless ``cpus`` is a power of two.
    """
    if cpus <= 0 or cpus & (cpus - 1):
        raise ValueError(f"cpus is {cpus}; give a power of two")
    nodes = max(1, cpus // CPUS_PER_CACHE)
    packages = max(1, nodes // NODES_PER_PACKAGE)
    costs = {
        name.removesuffix("_ps"): value / 1000
        for name, value in machine.to_dict()["cache"].items()
        if name.endswith("_ps")
    }
    if uniform:
        costs.update(dict.fromkeys(("core", "package", "machine"), costs["llc"]))
    topology = {
        "packages": packages,
        "nodes_per_package": nodes // packages,
        "cores_per_llc": cpus // nodes // 2,
        "threads_per_core": 2,
    }
    distances = [[10 if to == at else 20 for to in range(nodes)] for at in range(nodes)]
    text = f'name = "{cpus}-cpus"\n[numa]\ndistances = {distances}\n[topology]\n'
    text += "".join(f"{name} = {value}\n" for name, value in topology.items())
    # What second threads yield changes nothing here, but a machine must say it.
    text += "[smt]\nthroughput = [1.0, 1.25]\n"
    text += "[cache]\n" + "".join(f"{name}_ns = {value}\n" for name, value in costs.items())
    text += '[[cpu_type]]\nname = "any"\nopps = [{ khz = 2_100_000, power_mw = 1 }]\n'
    text += 'idle_table = "gnr"\n'
    return Machine.parse(text, f"{cpus} CPUs")


def scaling(
    *,
    machine: str | Machine = "gnr-2s-snc3",
    cpus: Sequence[int] = CPUS,
    only: Iterable[str] | None = None,
    uniform: bool = False,
    think_us: float = 500.0,
    rounds: int = 6,
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """Simulate every layout on machines of growing size: a row for each, as it is there."""
    machine = machine if isinstance(machine, Machine) else Machine.load(machine)
    for size in cpus:
        check_range("cpus", size, SIZES)
        hardware = sized(machine, size, uniform=uniform)
        for layout in only or layouts():
            times = contention(
                layout, machine=hardware, think_us=think_us, rounds=rounds, seed=seed
            )
            yield {"cpus": size, "layout": layout, **times}


def measure(
    *,
    machine: str | Machine = "gnr-2s-snc3",
    only: Iterable[str] | None = None,
    threads: Sequence[int] | None = None,
    duration_ms: int = 300,
) -> Iterator[dict[str, Any]]:
    """Measure the layouts with real threads, each bound to a CPU of this machine.

    The map is as wide as ``machine``, over whose nodes the threads spread. Each goes real-time and
    back, and searches in vain, alone (1 thread) up to all CPUs of this machine. A row for each
    number of threads and layout: ``find_mean_ns, find_p50_ns, find_p99_ns``, the same of ``set``,
    and cycles where the machine counts them for us.

    Raises ``OSError`` where a thread cannot be bound.
    """
    machine = machine if isinstance(machine, Machine) else Machine.load(machine)
    check_range("duration_ms", duration_ms, DURATION_MS)
    here = sorted(os.sched_getaffinity(0))
    width = machine.cpu_count
    for count in threads or range(1, len(here) + 1):
        if not 1 <= count <= min(len(here), width):
            raise ValueError(
                f"{count} threads: there are CPUs for 1 to {min(len(here), width)} of them"
            )
        pairs = [(here[at], at * width // count) for at in range(count)]
        for layout in only or layouts():
            costs = _schedlab.cpupri_measure(machine.native, layout, pairs, duration_ms)
            yield {"threads": count, "layout": layout, **costs}


class C2cTable(NamedTuple):
    """What ``perf c2c report --stdio`` printed."""

    rows: pl.DataFrame
    """A row per line, offset, function and code address."""
    unread: list[tuple[int, str]]
    """Rows that could not be read: number in the file, and text."""


def read_c2c(text: str) -> C2cTable:
    """Read the pareto table that ``perf c2c report --stdio`` prints, or a mail quotes."""
    import polars as pl  # noqa: PLC0415 - a second of imports that most callers do not need

    rows, unread = _schedlab.parse_c2c(text)
    return C2cTable(pl.DataFrame(rows), unread)
