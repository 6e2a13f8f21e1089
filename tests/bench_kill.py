"""``bench run`` killed with SIGKILL at any moment: nothing stored is lost or half-written, and
settings come back.

``python -m bench_kill TIMES`` does it so often.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl
from schedlab.bench.run.journal import locked

PLAN = """\
name = "killed"
iterations = 2000
warmup = 0

[[benchmark]]
name = "echo"
tool = "hackbench"
command = ["sh", "-c", "echo Time: 0.001; sleep 0.002"]

[[variant]]
name = "low"
set = {{ "{knob}" = "low" }}

[[variant]]
name = "high"
set = {{ "{knob}" = "high" }}
"""

COMMAND = [sys.executable, "-c", "from schedlab.cli import main; main()"]

# A quarter of the kills falls anywhere from the start on, the others while runs go on.
ANYWHERE, START_S, RUNNING_S = 0.25, 1.0, 0.3
PATIENCE_S = 30.0


def kill_often(times: int, folder: Path, seed: int = 1) -> dict[str, int]:
    """Start and kill so often, check after each time, and tell what was met."""
    generator = random.Random(seed)  # noqa: S311 - no secret
    knob, state, store = folder / "knob", folder / "state", folder / "store"
    knob.write_text("original\n", encoding="utf-8")
    plan = folder / "plan.toml"
    plan.write_text(PLAN.format(knob=knob), encoding="utf-8")
    known: dict[str, bytes] = {}
    met = {"kills": 0, "changed": 0, "runs": 0}
    for _ in range(times):
        process = subprocess.Popen(
            [*COMMAND, "bench", "run", plan, "--store", store],
            env={**os.environ, "SCHEDLAB_STATE": str(state)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        if generator.random() < ANYWHERE:
            time.sleep(START_S * generator.random())
        else:
            _wait_for_change(knob)
            time.sleep(RUNNING_S * generator.random())
        assert process.poll() is None, process.communicate()[1].decode()
        process.send_signal(signal.SIGKILL)
        process.wait()
        met["kills"] += 1
        met["changed"] += knob.read_text(encoding="utf-8").strip() != "original"
        found = {path.name: path.read_bytes() for path in (store / "runs").glob("*.parquet")}
        assert known.items() <= found.items(), "a stored run was lost or changed"
        for name in found.keys() - known.keys():
            frame = pl.read_parquet(store / "runs" / name)
            assert frame.select("benchmark", "metric", "value").rows() == [("echo", "time", 0.001)]
        known = found
        with locked(state):
            pass
        assert knob.read_text(encoding="utf-8").strip() == "original", "a setting stayed changed"
        assert not (state / "bench-journal.json").exists()
    met["runs"] = len(known)
    return met


def _wait_for_change(knob: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while knob.read_text(encoding="utf-8").strip() == "original":
        assert time.monotonic() < deadline, "nothing was set within its time"
        time.sleep(0.001)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(kill_often(int(sys.argv[1]), Path(place)))
