"""A trace that the simulator wrote comes back when it is replayed under the same kernel."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import schedlab
from click.testing import CliRunner
from schedlab.cli import main
from schedlab.machine import Machine
from schedlab.replay import Replay, replay_trace
from schedlab.simulation import WorkloadText

if TYPE_CHECKING:
    from pathlib import Path

# Four CPUs that are their own, unlike those of the virtual machine.
SHARED = "shared_instruction_stream"


@pytest.fixture(scope="module")
def machine() -> Machine:
    lines = Machine.load("qemu4").to_toml().splitlines(keepends=True)
    return Machine.parse("".join(line for line in lines if SHARED not in line), "four")


def periodic(period_us: int, run_us: int, **attributes: Any) -> dict[str, Any]:
    timer = {"ref": "unique", "period": period_us, "mode": "absolute"}
    return {"loop": -1, "run": run_us, "timer": timer, **attributes}


SLEEPERS = {
    "audio": periodic(20_000, 2_500, policy="SCHED_FIFO", priority=20),
    "ctl": periodic(10_000, 1_500),
    "net": periodic(5_000, 400),
    "video": periodic(33_000, 9_000),
    "logger": periodic(100_000, 3_000, priority=-5),
    "source": periodic(12_000, 700, resume="sink"),
}

# How many tasks that never sleep there are besides `nice`. With more of them, whom the kernel moves
# first hangs on nanoseconds, and what follows differs as between two seeds.
HOGS = {"v6.12": 1, "v6.1": 2}


def mix(hogs: int) -> WorkloadText:
    """Periodic tasks of several policies, one whom another wakes, and those that never sleep."""
    others = {
        "sink": {"loop": -1, "suspend": "sink", "run": 900},
        "hog": {"instance": hogs, "loop": -1, "run": 5_000},
        "nice": {"loop": -1, "run": 5_000, "priority": 10},
    }
    page = {"global": {"default_policy": "SCHED_OTHER"}, "tasks": {**SLEEPERS, **others}}
    return WorkloadText("mix", "mix.json", json.dumps(page))


def traced(kernel: str, machine: Machine, file: Path, *, keep_interrupts: bool = True) -> Path:
    run = schedlab.simulate(
        mix(HOGS[kernel]),
        machine=machine,
        kernel=kernel,
        duration_s=2,
        keep_events=True,
        keep_interrupts=keep_interrupts,
    )
    assert run.trace is not None
    run.trace.convert("perfetto", file)
    return file


@pytest.fixture(scope="module")
def modern(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced("v6.12", machine, tmp_path_factory.mktemp("self") / "mix.pftrace")


def again(file: Path, kernel: str, machine: Machine) -> Replay:
    return replay_trace(file, machine=machine, traced_kernel=kernel)


def off(replay: Replay) -> dict[str, list[str]]:
    return {row["comm"]: row["off"] for row in replay.agreement.rows if row["off"]}


@pytest.mark.parametrize("kernel", ["v6.12", "v6.1"])
def test_a_simulated_trace_comes_back_under_its_kernel(
    kernel: str, machine: Machine, tmp_path: Path
) -> None:
    replay = again(traced(kernel, machine, tmp_path / "mix.pftrace"), kernel, machine)
    assert replay.agreement.passed, off(replay)
    facts = replay.tasks.facts
    assert facts["has_hrtimers"]
    assert facts["has_interrupts"]
    # Nobody but the scheduler makes tasks wait there.
    assert facts["late"] == 0
    rows = {row["comm"]: row for row in replay.agreement.rows}
    assert set(rows) >= {*SLEEPERS, "sink"}
    assert facts["ended_by_timer"] > 5 * facts["ended_by_task"] > 0


@pytest.mark.parametrize("kernel", ["v5.7", "v6.1"])
def test_another_kernel_does_not_give_it_back(kernel: str, modern: Path, machine: Machine) -> None:
    other = again(modern, kernel, machine)
    found = off(other)
    assert {"ctl", "net", "source"} <= set(found), found


def test_the_trace_has_timers_and_interrupts_unless_they_are_not_wanted(
    modern: Path, machine: Machine, tmp_path: Path
) -> None:
    long = schedlab.read_trace(modern)
    short = schedlab.read_trace(
        traced("v6.12", machine, tmp_path / "short.pftrace", keep_interrupts=False)
    )
    counts = dict(long.events["event"].value_counts().iter_rows())
    assert counts["hrtimer_expire_entry"] == counts["hrtimer_expire_exit"] > 0
    assert not short.events["event"].str.starts_with("hrtimer").any()
    assert long.wakeup_latency("waking").equals(short.wakeup_latency("waking"))
    columns = ("cpu", "start_ns", "pid")
    assert long.timeline().runs.select(columns).equals(short.timeline().runs.select(columns))


def test_a_trace_without_them_says_so_and_tells_timers_by_their_times(
    machine: Machine, tmp_path: Path
) -> None:
    file = traced("v6.12", machine, tmp_path / "mix.pftrace", keep_interrupts=False)
    replay = again(file, "v6.12", machine)
    facts = replay.tasks.facts
    assert not facts["has_hrtimers"]
    assert not facts["has_interrupts"]
    assert facts["late"] == 0
    assert replay.agreement.passed, off(replay)
    (tmp_path / "four.toml").write_text(machine.to_toml())
    words = ["replay", str(file), "--machine", str(tmp_path / "four.toml")]
    shown = CliRunner().invoke(main, [*words, "--traced-kernel", "v6.12"])
    assert shown.exit_code == 0, shown.output
    assert "the trace shows no timers and no interrupts" in shown.stdout
