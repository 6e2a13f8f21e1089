"""The trace check passes on the shipped samples, and fails where something is wrong."""

import shutil
from pathlib import Path

import pytest
import schedlab

from traces import check
from traces.printed import read_printed

SAMPLES = Path(__file__).parent.parent / "data" / "traces"
TEXTS = sorted(path.name for path in SAMPLES.iterdir() if path.suffix in {".txt", ".html"})

SWITCH = (
    "  sh-12 [001] d..2 {time}: sched_switch: prev_comm=sh prev_pid=12 prev_prio=120 prev_state=S"
    " ==> next_comm=a b next_pid=13 next_prio=120"
)
WAKING = "  <idle>-0 [000] d..2 {time}: sched_waking: comm=a b pid=13 prio=120 target_cpu=001"


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_agrees_with_itself(name: str) -> None:
    report = check.Report()
    check.check(SAMPLES / name, report)
    assert report.traces == 1
    assert not report.failures


@pytest.mark.skipif(shutil.which("trace-cmd") is None, reason="trace-cmd is not installed")
def test_a_binary_trace_agrees_with_its_tool() -> None:
    report = check.Report()
    check.check(SAMPLES / "lisa_sched_load.dat", report)
    assert report.traces == 1
    assert not report.failures


def test_the_rules_of_a_latency() -> None:
    lines = [
        SWITCH.format(time="1.000000100").replace("next_pid=13", "next_pid=0"),
        WAKING.format(time="1.000001000"),
        WAKING.format(time="1.000002000"),
        SWITCH.format(time="1.000005500").replace("prev_pid=12", "prev_pid=0"),
        WAKING.format(time="1.000006000"),
        SWITCH.format(time="1.000007000").replace("prev_pid=12", "prev_pid=13"),
    ]
    printed = read_printed(lines)
    assert printed.counts == {"sched_switch": 3, "sched_waking": 3}
    assert printed.latencies_ns == {"waking": {13: [4500]}, "wakeup": {}}


def test_lost_events_cut_a_latency() -> None:
    lines = [
        WAKING.format(time="1.000001000"),
        "CPU:1 [LOST 3 EVENTS]",
        SWITCH.format(time="1.000005500"),
    ]
    assert read_printed(lines).latencies_ns["waking"] == {}


def test_a_wrong_count_and_a_wrong_latency_are_mismatches(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_text(f"{WAKING.format(time='1.000001000')}\n{SWITCH.format(time='1.000005500')}\n")
    right, wrong = check.Report(), check.Report()
    check.check(path, right)
    assert not right.failures
    trace = schedlab.read_trace(path)
    printed = read_printed(path.read_text().splitlines())
    printed.counts["sched_switch"] += 1
    printed.latencies_ns["waking"][13] = [4501]
    check.compare_counts(path, trace.info["events"], printed, wrong)
    check.compare_latencies(path, trace, printed, wrong)
    assert [failure.split(": ", 1)[1] for failure in wrong.failures] == [
        "sched_switch: 1 events, the print has 2",
        "latencies from waking of task 13: 1, the print has 1 (4500, 4501)",
    ]


def test_what_is_no_trace_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([]) == 2
    assert check.main([str(tmp_path / "missing")]) == 2
    (tmp_path / "plan.json").write_text("{}")
    assert check.main([str(tmp_path)]) == 1
    assert "holds no trace" in capsys.readouterr().err
    (tmp_path / "trace").write_bytes(b"\x7fELF")
    assert check.main([str(tmp_path)]) == 1
    assert "MISMATCH" in capsys.readouterr().out
