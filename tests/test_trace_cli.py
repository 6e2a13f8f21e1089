"""``schedlab trace`` as people and programs meet it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from schedlab.cli import main
from terminal import interrupt

TESTS = Path(__file__).parent
DATA = TESTS / "data" / "traces"
GOLDEN = TESTS / "data" / "golden"
MENU = DATA / "qemu_idle_menu.dat"
SCHEDLAB = Path(sys.executable).with_name("schedlab")

# `UPDATE_GOLDEN=1 pytest tests/test_trace_cli.py` writes the expectations anew.
UPDATE = "UPDATE_GOLDEN" in os.environ


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["trace", *map(str, arguments)])


def run_json(*arguments: str | Path) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def expect(name: str, text: str) -> None:
    path = GOLDEN / name
    if UPDATE:
        path.write_text(text)
    assert text == path.read_text(), f"differs from {path}; UPDATE_GOLDEN=1 writes it anew"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("info", ["info", MENU]),
        ("latency", ["latency", MENU, "--limit", "8"]),
        ("latency_comm", ["latency", MENU, "--by", "comm", "--from", "wakeup", "--sort", "max"]),
        ("tasks", ["tasks", MENU]),
        ("cpus", ["cpus", MENU]),
        ("idle", ["idle", MENU, "--machine", "simidle"]),
        ("idle_no_machine", ["idle", MENU]),
        ("cpus_frequencies", ["cpus", DATA / "lisa_sched_load.dat"]),
        ("idle_systrace", ["idle", DATA / "trappy_surfaceflinger.html"]),
        ("info_empty", ["info", DATA / "trappy_trace_empty.txt"]),
    ],
)
def test_tables(name: str, arguments: list[str | Path]) -> None:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    expect(f"trace_{name}.txt", result.stdout)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("info", ["info", DATA / "qemu_trace_cmd_report_ns.txt"]),
        ("latency", ["latency", DATA / "qemu_trace_cmd_report_ns.txt"]),
        ("tasks", ["tasks", DATA / "qemu_trace_cmd_report_ns.txt", "--comm", "hackbench"]),
        ("cpus", ["cpus", DATA / "qemu_trace_cmd_report_ns.txt"]),
        ("idle", ["idle", MENU, "--machine", "simidle"]),
    ],
)
def test_json(name: str, arguments: list[str | Path]) -> None:
    found = run_json(*arguments)
    expect(f"trace_{name}.json", json.dumps(found, indent=1) + "\n")


def test_info_counts_every_event_of_the_file() -> None:
    info = run_json("info", MENU)
    # trace-cmd report prints as many lines of each.
    assert info["events"]["hrtimer_init"] == 2984
    assert sum(info["events"].values()) == 41_569
    assert info["cpus"] == [0, 1, 2, 3]
    assert info["duration_s"] == pytest.approx(4.253413038)
    assert info["lost_events"] == 0
    assert {"severity", "code", "cpu", "count", "message"} == info["data_quality"][0].keys()


def test_latency_rows_have_the_promised_keys() -> None:
    rows = run_json("latency", MENU)
    figures = ["count", "gmean_us", "mean_us", "p50_us", "p90_us", "p99_us", "max_us"]
    assert list(rows[0]) == ["comm", "pid", *figures]
    assert list(run_json("latency", MENU, "--by", "comm")[0]) == ["comm", "tasks", *figures]


def test_filters_choose_tasks() -> None:
    both = run_json("latency", MENU, "--task", "620", "--comm", "t[12]")
    assert sorted(row["comm"] for row in both) == ["t1", "t2", "t3"]
    assert run_json("tasks", MENU, "--comm", "T1") == []


def test_an_empty_table_says_why() -> None:
    systrace = DATA / "android_systrace.txt"
    for words in ((), ("--json",), ("--comm", "nope")):
        assert run("latency", systrace, *words).stderr.startswith(
            "the trace has no sched_waking, with which latencies begin; --from wakeup may serve\n"
        )
    assert "no sched_" not in run("latency", systrace, "--from", "wakeup").stderr
    for verb in ("latency", "tasks"):
        found = run(verb, MENU, "--comm", "nope", "--task", "7")
        assert found.exit_code == 0
        assert re.fullmatch(r"none of \d+ rows matches --task 7 or --comm nope\n", found.stderr)
        assert run(verb, MENU, "--comm", "t1").stderr == ""
        assert "none of" in run(verb, MENU, "--task", "7", "--json").stderr


def test_limit_says_how_many_more() -> None:
    lines = run("latency", MENU, "--limit", "2").stdout.splitlines()
    assert len(lines) == 6
    assert lines[-1] == " ... 25 more; --limit 0 shows all"
    assert len(run("latency", MENU, "--limit", "0").stdout.splitlines()) == 3 + 27


@pytest.mark.parametrize("verb", ["info", "latency", "tasks", "cpus", "idle"])
def test_unusable_files_are_refused_in_a_line(verb: str, tmp_path: Path) -> None:
    (tmp_path / "nonsense").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "empty").touch()
    for name in ("nonsense", "empty", "missing", "."):
        result = run(verb, tmp_path / name)
        assert result.exit_code == 2, name
        assert result.stdout == ""
        assert re.fullmatch(r"Error: .*(nonsense|empty|missing|test_unus).*\n", result.stderr), name


def test_bad_usage_is_refused() -> None:
    for arguments in (
        ["latency"],
        ["latency", MENU, "--from", "sleep"],
        ["latency", MENU, "--by", "comm", "--task", "620"],
        ["latency", MENU, "--limit", "-1"],
        ["idle", MENU, "--machine", "no-such-machine"],
        ["nonsense", MENU],
    ):
        result = run(*arguments)
        assert result.exit_code == 2, arguments
        assert "Traceback" not in result.output
        assert not isinstance(result.exception, Exception)


def test_damage_is_a_note_and_not_an_error(tmp_path: Path) -> None:
    cut = tmp_path / "cut.dat"
    cut.write_bytes(MENU.read_bytes()[:700_000])
    result = run("latency", cut)
    assert result.exit_code == 0
    assert result.stderr.startswith("data quality: ")
    assert result.stderr.count("\n") == 1
    # Nobody knows what was lost.
    headline = run("info", cut).stdout.splitlines()[0]
    assert headline.endswith(" events, damaged")


def test_hostile_names_cannot_reach_the_terminal(tmp_path: Path) -> None:
    trace = tmp_path / "hostile.txt"
    evil = "\x1b[2J[red]x"
    trace.write_text(
        f"{evil}-7 [000] 1.000000: sched_wakeup: comm={evil} pid=7 prio=120 target_cpu=000\n"
        f"<idle>-0 [000] 1.000010: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 "
        f"prev_state=R ==> next_comm={evil} next_pid=8 next_prio=120\n"
        f"{evil}-8 [000] 1.000020: sched_switch: prev_comm={evil} prev_pid=8 prev_prio=120 "
        "prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120\n"
    )
    result = run("tasks", trace)
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "[red]x" in result.stdout


def long_trace(directory: Path) -> Path:
    path = directory / "long.txt"
    lines = (DATA / "qemu_trace_cmd_report_ns.txt").read_text().splitlines(keepends=True)
    with path.open("w") as file:
        file.write(lines[0])
        for _ in range(8000):
            file.write("".join(lines[1:]))
    return path


def test_a_reader_that_leaves_is_no_error() -> None:
    with subprocess.Popen(
        [SCHEDLAB, "trace", "tasks", MENU, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 128 + signal.SIGPIPE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named() -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [SCHEDLAB, "trace", "info", MENU], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert result.returncode == 2
    assert result.stderr == (
        b"Error: standard output: no space left; free some, or write elsewhere\n"
    )


def test_progress_and_interrupt_of_a_long_trace(tmp_path: Path) -> None:
    trace = long_trace(tmp_path)

    # A pipe sees no progress.
    quiet = subprocess.run(
        [SCHEDLAB, "trace", "info", trace, "--json"], capture_output=True, check=True
    )
    assert quiet.stderr == b""

    # A terminal does, and Ctrl-C ends the reading in silence.
    process, written, seen = interrupt([SCHEDLAB, "trace", "info", trace], b"reading")
    assert process.returncode == 128 + signal.SIGINT
    assert written == b""
    assert b"Traceback" not in seen


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom schedlab.cli import main\ntry: main(['--help'])\n"
        "except SystemExit: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "click" in loaded
    heavy = {"polars", "altair", "scipy", "duckdb", "rich", "tomlkit", "jinja2", "numpy"}
    assert not loaded & heavy
