"""The Python side of traces, held against figures computed another way."""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl
import pytest
from schedlab import Machine, Trace, TraceError, read_trace

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parent / "data" / "traces"
MENU = DATA / "qemu_idle_menu.dat"

LINE = re.compile(
    r"^\s*(?P<comm>.*)-(?P<pid>\d+)\s+(?:\(\s*[-\d]+\)\s+)?\[\d+\]\s+(?:\S+\s+)?"
    r"(?P<s>\d+)\.(?P<fraction>\d+):\s+(?P<event>\w+):\s+(?P<body>.*)$"
)


def printed_events(path: Path) -> Iterator[tuple[int, str, str]]:
    """Time in ns, event name and body of each line of an ftrace text."""
    for line in path.read_text(errors="replace").splitlines():
        if found := LINE.match(line):
            time_ns = int(found["s"]) * 10**9 + int(found["fraction"].ljust(9, "0"))
            yield time_ns, found["event"], found["body"]


def pids(event: str, body: str) -> list[int]:
    """The tasks that a line names: both of a switch, the woken one of a wakeup."""
    if event == "sched_switch":
        if short := re.match(r"^.*:(\d+) \[-?\d+\] \S+ ==> .*:(\d+) \[-?\d+\]", body):
            return [int(short[1]), int(short[2])]
        return [int(pid) for pid in re.findall(r"(?:prev|next)_pid=(\d+)", body)]
    found = re.search(r"\bpid=(\d+)", body) or re.match(r"^.*:(\d+) \[", body)
    return [int(found[1])] if found else []


def latencies_by_text(path: Path, mode: str) -> dict[int, list[int]]:
    """The definition, applied to printed lines alone."""
    found: dict[int, list[int]] = defaultdict(list)
    woken: dict[int, int] = {}
    running: set[int] = set()
    for time_ns, event, body in printed_events(path):
        if event == "sched_switch":
            left, came = pids(event, body)
            running.discard(left)
            if came in woken:
                found[came].append(time_ns - woken.pop(came))
            if came:
                running.add(came)
        elif event in {f"sched_{mode}", "sched_wakeup_new"}:
            (pid,) = pids(event, body)
            if pid not in running:
                woken.setdefault(pid, time_ns)
    return found


@pytest.mark.parametrize("mode", ["waking", "wakeup"])
@pytest.mark.parametrize(
    "name", ["android_systrace.txt", "lisa_trace.txt", "qemu_trace_cmd_report_ns.txt"]
)
def test_every_latency_equals_that_of_the_printed_lines(
    name: str, mode: Literal["waking", "wakeup"]
) -> None:
    expected = latencies_by_text(DATA / name, mode)
    found: dict[int, list[int]] = defaultdict(list)
    for _, pid, latency_ns in read_trace(DATA / name).wakeup_latencies(mode).iter_rows():
        found[pid].append(latency_ns)
    assert {pid: sorted(ns) for pid, ns in found.items()} == {
        pid: sorted(ns) for pid, ns in expected.items()
    }
    if mode == "wakeup":
        assert sum(map(len, found.values())) > 10


def test_latency_figures_are_those_of_the_latencies() -> None:
    trace = read_trace(MENU)
    samples = trace.wakeup_latencies()
    for row in trace.wakeup_latency().iter_rows(named=True):
        own = samples.filter(pl.col("pid") == row["pid"])["latency_ns"] / 1000
        assert row["count"] == len(own)
        assert row["mean_us"] == pytest.approx(own.mean())
        assert row["gmean_us"] == pytest.approx(math.exp(statistics.fmean(map(math.log, own))))
        for column, quantile in {"p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99}.items():
            assert row[column] == pytest.approx(own.quantile(quantile, interpolation="linear"))
        assert row["max_us"] == pytest.approx(own.max())


def test_names_add_up_tasks() -> None:
    trace = read_trace(MENU)
    by_task, by_comm = trace.wakeup_latency(), trace.wakeup_latency(by="comm")
    counts = by_task.group_by("comm").agg(pl.col("count").sum(), pl.len().alias("tasks"))
    assert dict(counts.select("comm", "count").iter_rows()) == dict(
        by_comm.select("comm", "count").iter_rows()
    )
    assert by_comm["tasks"].sum() == by_task.height


def test_a_stored_and_a_streamed_trace_tell_the_same() -> None:
    stored, streamed = read_trace(MENU), read_trace(MENU, keep_events=False)
    for question in ("wakeup_latency", "wakeup_latencies", "tasks", "cpus", "frequencies"):
        assert getattr(stored, question)().equals(getattr(streamed, question)()), question
    machine = Machine.load("simidle")
    for one, other in zip(stored.idle(machine), streamed.idle(machine), strict=True):
        assert one.equals(other)
    assert stored.info == streamed.info


def test_cpu_time_adds_up_to_the_trace() -> None:
    trace = read_trace(MENU)
    cpus = trace.cpus()
    wall_ns = trace.info["end_ns"] - trace.info["begin_ns"]
    assert set(cpus.select(pl.sum_horizontal("busy_ns", "idle_ns", "unknown_ns")).to_series()) == {
        wall_ns
    }
    # What CPUs were busy with is what tasks ran.
    assert trace.tasks()["run_ns"].sum() == cpus["busy_ns"].sum()
    assert cpus["switches"].sum() == trace.info["events"]["sched_switch"]


def test_idle_misses_are_the_kernels_but_for_the_one_that_the_trace_cuts() -> None:
    misses = read_trace(MENU).idle_misses(Machine.load("simidle"))
    differ = misses.filter(
        (pl.col("too_deep") != pl.col("kernel_too_deep"))
        | (pl.col("too_shallow") != pl.col("kernel_too_shallow"))
    )
    # CPU 3 slept when the trace began, so only the kernel knows for how long.
    columns = ["cpu", "name", "periods", "too_shallow", "kernel_too_shallow"]
    assert differ.select(columns).rows() == [(3, "C1", 0, 0, 1)]
    assert misses["kernel_too_deep"].sum() == 45
    events = read_trace(MENU).info["events"]["cpu_idle_miss"]
    assert misses.select("kernel_too_deep", "kernel_too_shallow").sum().row(0) == (45, events - 45)


def test_misses_by_task_and_by_state_are_the_same_sleeps() -> None:
    idle = read_trace(MENU).idle(Machine.load("simidle"))
    columns = ["periods", "too_deep", "too_shallow", "kernel_too_deep", "kernel_too_shallow"]
    assert idle.misses.select(columns).sum().row(0) == idle.task_misses.select(columns).sum().row(0)


def test_without_a_machine_there_is_no_verdict() -> None:
    misses = read_trace(MENU).idle_misses()
    assert misses["too_deep"].null_count() == misses.height
    assert misses["excess_energy_mj"].null_count() == misses.height
    assert misses["kernel_too_deep"].sum() == 45


def test_a_machine_with_too_few_states_says_what_it_could_not_judge() -> None:
    misses = read_trace(MENU).idle_misses(Machine.load("juno-r0"))
    unknown = misses.filter(pl.col("unknown_state") > 0)
    assert unknown.height > 0
    assert unknown["periods"].sum() == 0


def test_frames_have_no_surprising_types() -> None:
    latency = read_trace(MENU).wakeup_latency()
    assert latency.schema["comm"] == pl.String
    assert latency.schema["pid"] == pl.Int32
    assert latency.schema["count"] == pl.UInt64
    assert read_trace(MENU).tasks().schema["cpus"] == pl.List(pl.UInt32)


def test_what_is_no_trace_raises(tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense"
    nonsense.write_bytes(b"\x00\x01\x02 nonsense")
    with pytest.raises(TraceError, match="not a trace that schedlab knows"):
        read_trace(nonsense)
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError, match=f"No such file or directory: '{missing}'"):
        read_trace(missing)
    with pytest.raises(ValueError, match='it is "waking" or "wakeup"'):
        read_trace(MENU).wakeup_latency("sleeping")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='by is "cpu"; it is "task" or "comm"'):
        read_trace(MENU).wakeup_latency(by="cpu")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='by is "cpu"; it is "state" or "task"'):
        read_trace(MENU).idle_misses(by="cpu")  # type: ignore[arg-type]


def test_progress_is_told_and_its_exceptions_end_the_reading(tmp_path: Path) -> None:
    # A reading long enough for a few beats of a tenth of a second.
    long = tmp_path / "long.txt"
    lines = (DATA / "qemu_trace_cmd_report_ns.txt").read_text().splitlines(keepends=True)
    long.write_text(lines[0] + "".join(lines[1:]) * 1500)
    told: list[tuple[int, int]] = []
    Trace(long, keep_events=False, progress=lambda *now: told.append(now)).cpus()
    assert told
    assert told == sorted(told)
    assert {total for _, total in told} == {long.stat().st_size}

    def stop(done: int, total: int) -> None:
        raise RuntimeError(f"{done} of {total}")

    with pytest.raises(RuntimeError, match=f"of {long.stat().st_size}"):
        Trace(long, keep_events=True, progress=stop)
