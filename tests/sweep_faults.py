"""Sweeps whose processes are killed, whose disk is full, and whose store answers late.

Whatever happens, in the end the store holds each run once, and each is the run that an undisturbed
sweep gives. ``python -m sweep_faults ROUNDS`` does each so often, ``FAULT ...`` behind it some.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import beat
from dask_cluster import PATIENCE_S, Cluster
from s3_server import BUCKET, environment, forget_clients, s3_server, slow_way
from schedlab.store.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PLAN = beat.plan(iterations=25, duration_s=0.05)
RUNS = 100

MAIN = "from schedlab.cli import main; main()"

ENDS_S = 240.0

Found = dict[str, tuple[str, int]]


@dataclass
class Bench:
    """Where a round takes place."""

    folder: Path
    reference: Found
    random: random.Random
    length_s: float
    """How long an undisturbed sweep takes."""

    def begin(
        self,
        store: str | Path,
        *words: str,
        env: Mapping[str, str] | None = None,
        preexec_fn: Callable[[], None] | None = None,
    ) -> subprocess.Popen[str]:
        """Begin a sweep."""
        return begin(self.folder, store, *words, env=env, preexec_fn=preexec_fn)

    def somewhen(self) -> None:
        """Wait for a moment in which a sweep would be at work."""
        time.sleep(self.random.uniform(0.1, 1.0) * self.length_s)

    def check(self, store: str | Path) -> None:
        """Compare what is stored with what an undisturbed sweep stores."""
        assert found_in(store) == self.reference, "a run is missing, another one, or there twice"


def begin(
    folder: Path,
    store: str | Path,
    *words: str,
    env: Mapping[str, str] | None = None,
    preexec_fn: Callable[[], None] | None = None,
) -> subprocess.Popen[str]:
    """Begin a sweep of two processes, or of a cluster's."""
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    command = [sys.executable, "-c", MAIN, "sweep", str(folder / "plan.toml"), "--json"]
    jobs = [] if words else ["--jobs", "2"]
    return subprocess.Popen(
        [*command, "--store", str(store), *jobs, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "POLARS_MAX_THREADS": "1", **(env or {})},
        preexec_fn=preexec_fn,  # noqa: PLW1509 - as said
    )


def ended(process: subprocess.Popen[str], code: int = 0) -> str:
    """Wait for a sweep's end, and give what it told."""
    try:
        _, told = process.communicate(timeout=ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"still at work: {process.communicate()[1]}") from None
    assert process.returncode == code, (process.returncode, told)
    assert "Traceback" not in told, told
    return told


def found_in(store: str | Path) -> Found:
    """Give each run's digest and number of rows."""
    rows = Segments(store).query(
        "SELECT key, any_value(digest) AS digest, count(*) AS n, count(error) AS failed "
        "FROM runs GROUP BY key"
    )
    assert all(row["failed"] == 0 for row in rows)
    return {row["key"]: (row["digest"], row["n"]) for row in rows}


def children(pid: int) -> list[int]:
    """List the worker processes of a sweep."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        found = [int(word) for word in text.split()]
        # A thread that begins a process is its parent in the kernel's books.
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += [int(word) for word in (task / "children").read_text().split()]
        return sorted(set(found))
    return []


def worker_killed(bench: Bench) -> None:
    """Kill a worker process of this machine, up to three times."""
    store = bench.folder / "store"
    process = bench.begin(store)
    for _ in range(bench.random.randint(1, 3)):
        bench.somewhen()
        for pid in children(process.pid)[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    ended(process)
    bench.check(store)


def client_killed(bench: Bench) -> None:
    """Kill the sweep itself, and begin it anew, up to three times."""
    store = bench.folder / "store"
    kept: Found = {}
    for _ in range(bench.random.randint(1, 3)):
        process = bench.begin(store)
        bench.somewhen()
        process.kill()
        process.communicate()
        now = found_in(store) if store.exists() else {}
        assert kept.items() <= now.items(), "a stored run was lost or changed"
        kept = now
    told = ended(bench.begin(store))
    assert f"{len(kept)} taken from the store" in told, told
    bench.check(store)


def cluster_worker_killed(bench: Bench) -> None:
    """Kill a worker of a cluster, and begin another."""
    store = bench.folder / "store"
    with Cluster(bench.folder) as cluster:
        process = bench.begin(store, "--scheduler", cluster.address)
        bench.somewhen()
        cluster.kill("worker-0")
        cluster.begin_worker("worker-2")
        ended(process)
    bench.check(store)


def scheduler_restarted(bench: Bench) -> None:
    """Kill the scheduler and begin it anew; its workers end with it, as Dask's do."""
    store = bench.folder / "store"
    with Cluster(bench.folder) as cluster:
        process = bench.begin(store, "--scheduler", cluster.address)
        bench.somewhen()
        cluster.kill("scheduler")
        time.sleep(bench.random.random())
        for name in [name for name in cluster.processes if name != "scheduler"]:
            cluster.end(name)
        cluster.begin_scheduler()
        for number in range(2):
            cluster.begin_worker(f"worker-{number}")
        ended(process)
    bench.check(store)


def cluster_client_killed(bench: Bench) -> None:
    """Kill the client of a cluster, and begin it anew while its last batches still run."""
    store = bench.folder / "store"
    with Cluster(bench.folder) as cluster:
        process = bench.begin(store, "--scheduler", cluster.address)
        bench.somewhen()
        process.kill()
        process.communicate()
        ended(bench.begin(store, "--scheduler", cluster.address))
    bench.check(store)


def disk_full(bench: Bench) -> None:
    """Let the disk be full soon: a small file system, or where nobody may mount, small files."""
    disk = bench.folder / "disk"
    disk.mkdir()
    size_kib = bench.random.randrange(4, 40, 4)
    options = f"size={size_kib}k"
    mounted = (
        os.geteuid() == 0
        and shutil.which("mount") is not None
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=False, capture_output=True
        ).returncode
        == 0
    )
    limit = partial(
        resource.setrlimit, resource.RLIMIT_FSIZE, (bench.random.randrange(512, 4096),) * 2
    )
    try:
        store = disk / "store"
        told = ended(bench.begin(store, preexec_fn=None if mounted else limit), code=2)
        assert "no space left" in told, told
        assert "run again to go on" in told, told
        kept = found_in(store) if (store / "segments").exists() else {}
        assert kept.items() <= bench.reference.items()
        assert not list(store.rglob("*.part")), "a part of a file stayed"
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        told = ended(bench.begin(store))
        assert f"{len(kept)} taken from the store" in told, told
        bench.check(store)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", disk], check=True)


def store_late(bench: Bench) -> None:
    """Put a store behind a way that delays, and drops every tenth connection."""
    with (
        s3_server(bench.folder) as port,
        slow_way(port, bench.random.uniform(0.05, 0.3), 0.1, bench.random.randrange(1000)) as late,
    ):
        own = environment(late) | {"XDG_CACHE_HOME": str(bench.folder / "cache")}
        store = f"s3://{BUCKET}/sweep"
        ended(bench.begin(store, env=own))
        forget_clients()
        os.environ.update(environment(port))
        os.environ["SCHEDLAB_STORE"] = str(bench.folder / "here")
        try:
            bench.check(store)
        finally:
            for name in [*environment(port), "SCHEDLAB_STORE"]:
                del os.environ[name]


FAULTS: dict[str, Callable[[Bench], None]] = {
    each.__name__: each
    for each in (
        worker_killed,
        client_killed,
        cluster_worker_killed,
        scheduler_restarted,
        cluster_client_killed,
        disk_full,
        store_late,
    )
}


def undisturbed(folder: Path) -> tuple[Found, float]:
    """Run the sweep as it should be, and tell how long that takes."""
    begun = time.monotonic()
    ended(begin(folder, folder / "store"))
    length_s = time.monotonic() - begun
    reference = found_in(folder / "store")
    assert len(reference) == RUNS
    return reference, length_s


def suffer(fault: str, rounds: int, place: Path, known: tuple[Found, float], seed: int = 1) -> None:
    """Go through a fault so often."""
    reference, length_s = known
    generator = random.Random(f"{fault} {seed}")  # noqa: S311 - no secret
    for number in range(rounds):
        folder = place / f"{fault}-{number}"
        folder.mkdir()
        FAULTS[fault](Bench(folder, reference, generator, length_s))
        shutil.rmtree(folder, ignore_errors=True)


def main(words: Sequence[str]) -> None:
    """Go through all faults, or those named."""
    rounds, *named = words
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "reference").mkdir()
        known = undisturbed(place / "reference")
        for fault in named or FAULTS:
            begun = time.monotonic()
            suffer(fault, int(rounds), place, known)
            print(f"{fault}: {rounds} rounds, {time.monotonic() - begun:.0f} s", flush=True)


assert PATIENCE_S < ENDS_S

if __name__ == "__main__":
    main(sys.argv[1:])
