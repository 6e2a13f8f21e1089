"""What sweeps cost beside the simulations: time per run, memory, and the store's answers.

``python -m sweep_bench`` measures all and fails where a limit is not kept: 5 ms of CPU time per run
on this machine, 20 ms on a Dask cluster, memory that does not grow with runs, and two kernels
compared in a store of a million figures within 2 s. ``WHAT ...`` measures some.
"""

from __future__ import annotations

import hashlib
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import beat
import polars as pl
from dask_cluster import Cluster
from schedlab.simulation import simulate
from schedlab.store.segments import KeySet, Segments, frame_of, name_of
from schedlab.sweep.crew import Report, keep
from schedlab.sweep.execute import Tally, execute
from schedlab.sweep.index import Index
from schedlab.sweep.jobs import Job, Jobs
from schedlab.sweep.load import parse
from schedlab.sweep.resolve import Kitchen
from schedlab.sweep.run import run_sweep
from schedlab.sweep.table import tabulate

if TYPE_CHECKING:
    from collections.abc import Sequence

RUN_US = (300, 1000, 2000, 3000, 4000)
RUNS_PER_ITERATION = 2 * len(RUN_US)

LOCAL_MS, CLUSTER_MS = 5.0, 20.0
GROWTH_MB = 30.0
OPEN_S = 2.0

# As many as a run of this plan has.
FIGURES = [[f"figure {number}", "1", float(number)] for number in range(23)]


def plan_of(runs: int) -> Any:
    """Make a plan of so many runs."""
    text = beat.plan(iterations=runs // RUNS_PER_ITERATION, run_us=RUN_US)
    return parse(text, "plan.toml", Path())


def cpu_s() -> float:
    """Tell the CPU time of this process and of all its children that have ended."""
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def bare_s(runs: int) -> float:
    """Tell the CPU time of the simulations alone, one after the other in this process."""
    jobs = Jobs(plan_of(runs))
    kitchen = Kitchen(jobs.recipe)
    begun = None
    for block in jobs.blocks():
        for job in block.jobs:
            run = kitchen.ready(job.machine, job.workload, job.kernel, job.settings, job.seed)
            begun = begun or time.process_time()
            simulate(
                run.workload,
                machine=run.machine,
                kernel=run.kernel,
                duration_s=run.duration_s,
                seed=job.seed,
                start_ns=run.start_ns,
            )
    return time.process_time() - (begun or 0.0)


def swept(runs: int, folder: Path, **options: Any) -> tuple[float, float, Tally]:
    """Tell the CPU and wall time of a sweep, and what it counted."""
    cpu, wall = cpu_s(), time.monotonic()
    result = run_sweep(plan_of(runs), store=folder, **options)
    assert result.tally.done == runs
    return cpu_s() - cpu, time.monotonic() - wall, result.tally


def throughput(folder: Path) -> None:
    """Measure a thousand runs on one process and on two, and on a cluster of two workers."""
    bare = bare_s(1000)
    print(f"a thousand simulations: {bare:.1f} s of CPU time")
    for jobs in (1, 2):
        idle, idle_wall, _ = swept(20, folder / f"begin-{jobs}", jobs=jobs)
        cpu, wall, tally = swept(1000, folder / f"local-{jobs}", jobs=jobs)
        _print(f"{jobs} processes", cpu - idle, (wall, idle_wall), bare * 0.98, tally)
        assert 1000 * (cpu - idle - bare) / 1000 < LOCAL_MS
    with Cluster(folder) as cluster:
        address = cluster.address
        idle, idle_wall, _ = swept(20, folder / "begin-dask", scheduler=address)
        before = sum(_cpu_of(process.pid) for process in cluster.processes.values())
        cpu, wall, tally = swept(1000, folder / "dask", scheduler=address)
        ticks = sum(_cpu_of(process.pid) for process in cluster.processes.values()) - before
        _print("2 Dask workers", cpu - idle + ticks, (wall, idle_wall), bare * 0.98, tally)
        assert cpu - idle + ticks - bare < CLUSTER_MS


def _cpu_of(pid: int) -> float:
    """Tell the CPU time of a process and of its children, alive or not."""
    import psutil  # noqa: PLC0415 - what Dask brings

    process = psutil.Process(pid)
    found = process.cpu_times()
    total = found.user + found.system + found.children_user + found.children_system
    for child in process.children(recursive=True):
        times = child.cpu_times()
        total += times.user + times.system
    return float(total)


def _print(what: str, cpu: float, walls: tuple[float, float], bare: float, tally: Tally) -> None:
    wall, idle_wall = walls
    print(
        f"{what}: {wall:.1f} s, {1000 / wall:.0f} runs/s ({idle_wall:.1f} s for the first 20); "
        f"{1000 * (cpu - bare) / 980:.2f} ms of CPU time per run beside the simulation; "
        f"store {1000 * tally.stored_s / tally.done:.2f} ms"
    )


def scheduler(folder: Path, batches: int = 5000) -> None:
    """Tell what Dask's scheduler spends on a batch, of which it hands out one after the other."""
    import distributed  # noqa: PLC0415 - what this measures alone needs

    with Cluster(folder) as cluster:
        client: Any = distributed.Client(cluster.address, set_as_default=False)  # type: ignore[no-untyped-call]
        client.wait_for_workers(2)
        client.gather(client.map(abs, range(20), pure=False))
        pid = cluster.processes["scheduler"].pid
        before, begun = _cpu_of(pid), time.monotonic()
        client.gather([client.submit(abs, number, pure=False) for number in range(batches)])
        cpu, wall = _cpu_of(pid) - before, time.monotonic() - begun
        client.close()
    each_ms = 1000 * cpu / batches
    print(
        f"{batches} batches of nothing: {wall:.1f} s; the scheduler's CPU time is {each_ms:.2f} ms "
        f"each, {1000 / each_ms:.0f} a second at the most"
    )


class Recorder:
    """A crew that simulates nothing and stores what a run might yield."""

    size = 2
    batch_s = 1.0
    note = ""

    def __init__(self, segments: Segments) -> None:
        """Store there."""
        self._segments = segments
        self._waiting: list[Sequence[Job]] = []

    @property
    def pending(self) -> int:
        """Count what waits."""
        return len(self._waiting)

    def submit(self, batch: Sequence[Job]) -> None:
        """Take a batch."""
        self._waiting.append(batch)

    def reports(self, timeout_s: float) -> list[Report]:
        """Store a batch."""
        del timeout_s
        batch = self._waiting.pop(0)
        results = [{"digest": job.key[:16], "wall_s": 0.002, "figures": FIGURES} for job in batch]
        return [keep(self._segments, batch, results, program="bench")]

    def close(self) -> None:
        """Stop."""


def memory(folder: Path, runs: int = 100_000) -> None:
    """Record so many runs, and tell the memory of who hands them out on the way."""
    plan = plan_of(runs)
    jobs = Jobs(plan)
    segments = Segments(folder / "store")
    samples: dict[int, float] = {}
    tally = Tally(total=runs)

    def told(now: Tally) -> None:
        step = now.done // 10_000
        if step not in samples:
            samples[step] = _resident_mb()

    begun = time.process_time()
    with Index() as index:
        execute(jobs.blocks(), Recorder(segments), (KeySet(), KeySet()), index, tally, told=told)
        took = time.process_time() - begun
        samples[runs // 10_000] = _resident_mb()
        begun = time.monotonic()
        plan_rows = tabulate(plan, segments, index)
        table_s = time.monotonic() - begun
    size_mb = sum(path.stat().st_size for path in segments.files()) / 1e6
    print(f"{runs} runs recorded in {took:.1f} s of CPU time, {1000 * took / runs:.2f} ms each")
    print("resident, MB: " + ", ".join(f"{10 * k}k {mb:.0f}" for k, mb in sorted(samples.items())))
    print(f"{size_mb:.1f} MB in {len(segments.names())} segments; table in {table_s:.2f} s")
    before = len(segments.names())
    begun = time.monotonic()
    gone = segments.compact()
    size_mb = sum(path.stat().st_size for path in segments.files()) / 1e6
    took = time.monotonic() - begun
    print(f"compacted to {before - gone} segments of {size_mb:.1f} MB in {took:.1f} s")
    begun = time.monotonic()
    keys = segments.keys()
    print(f"{len(keys)} keys read in {time.monotonic() - begun:.2f} s")
    assert len(keys) == runs
    assert not plan_rows or plan_rows[0].n <= runs
    early = next(mb for step, mb in sorted(samples.items()) if step >= 2)
    assert samples[runs // 10_000] - early < GROWTH_MB, samples


def _resident_mb() -> float:
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * resource.getpagesize() / 1e6


def answers(folder: Path, figures: int = 1_000_000) -> None:
    """Open a store of so many figures, and compare two kernels in it."""
    segments = Segments(folder / "store")
    runs = figures // len(FIGURES) + 1
    for first in range(0, runs, 1000):
        batch = [
            {
                "key": hashlib.sha256(str(number).encode()).hexdigest()[:32],
                "machine": "generic",
                "workload": "beat",
                "kernel": ("v6.1", "v6.12")[number % 2],
                "settings": "{}",
                "seed": number // 2,
                "figures": FIGURES,
            }
            for number in range(first, min(first + 1000, runs))
        ]
        rows = frame_of(batch).with_columns(value=pl.col("value") + pl.col("seed") % 7)
        segments.write_frame(rows, name_of(str(run["key"]) for run in batch))
    begun = time.monotonic()
    opened = Segments(folder / "store")
    [row] = opened.query(
        """
        SELECT count(*) AS pairs, avg(o.value - b.value) AS difference,
               stddev_samp(o.value - b.value) AS spread
        FROM runs b JOIN runs o USING (machine, workload, settings, seed, figure)
        WHERE b.kernel = 'v6.1' AND o.kernel = 'v6.12' AND figure = 'figure 3'
        """
    )
    took = time.monotonic() - begun
    print(f"{runs * len(FIGURES)} figures opened and two kernels compared in {took:.2f} s: {row}")
    assert took < OPEN_S


WHAT = {"throughput": throughput, "scheduler": scheduler, "memory": memory, "answers": answers}


def main(words: Sequence[str]) -> None:
    """Measure all, or what is named."""
    for name in words or WHAT:
        with tempfile.TemporaryDirectory() as folder:
            WHAT[name](Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
