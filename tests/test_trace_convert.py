"""``schedlab trace convert``: what is written can be read, and says the same."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner, Result
from schedlab import TraceError, convert_trace, read_trace
from schedlab.cli import main

DATA = Path(__file__).parent / "data" / "traces"
MENU = DATA / "qemu_idle_menu.dat"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["trace", "convert", *map(str, arguments)])


@pytest.mark.parametrize("name", ["qemu_idle_menu.dat", "qemu_pelt_ptask.dat"])
def test_a_perfetto_copy_has_the_same_figures(name: str, tmp_path: Path) -> None:
    done = convert_trace(DATA / name, "perfetto", tmp_path / "copy")
    original, copy = read_trace(DATA / name), read_trace(done.path)
    assert copy.info["format"] == "perfetto"
    for from_ in ("waking", "wakeup"):
        assert copy.wakeup_latency(from_).equals(original.wakeup_latency(from_))
    # The last event of the trace may have no place in the copy, so sums up to the end may differ.
    whole = ["cpu", "state", "entries", "mean_us", "p50_us", "max_us"]
    assert copy.idle_states().select(whole).equals(original.idle_states().select(whole))
    columns = ["pid", "wakeups", "switches", "preemptions", "migrations", "cpus", "first_seen_ns"]
    assert copy.tasks().select(columns).equals(original.tasks().select(columns))


def test_parquet_and_csv_are_the_events(tmp_path: Path) -> None:
    events = read_trace(MENU).events
    assert events.height == convert_trace(MENU, "parquet", tmp_path / "p").events
    assert pl.read_parquet(tmp_path / "p").equals(events)
    convert_trace(MENU, "csv", tmp_path / "c")
    # In CSV, an empty name and none look the same.
    names = pl.col(pl.String).replace("", None)
    assert pl.read_csv(tmp_path / "c", schema=events.schema).equals(events.with_columns(names))


def test_parquet_is_written_through_a_link_and_to_no_pipe(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link.parquet", tmp_path / "pipe.parquet"
    link.symlink_to("target.parquet")
    convert_trace(MENU, "parquet", link)
    assert link.is_symlink()
    assert pl.read_parquet(tmp_path / "target.parquet").height == read_trace(MENU).events.height
    os.mkfifo(pipe)
    refused = run(MENU, "--to", "parquet", "-o", pipe)
    assert refused.exit_code == 2
    assert f"Error: {pipe}: it is no file" in refused.output
    assert pipe.is_fifo()


def test_parquet_names_the_trace_it_came_from_and_keeps_groups_small(tmp_path: Path) -> None:
    long = tmp_path / "long.txt"
    line = "  <idle>-0  [001] {}.{:06}: cpu_frequency: state=1500000 cpu_id=1\n"
    long.write_text("".join(line.format(*divmod(us, 10**6)) for us in range(300_000)))
    done = convert_trace(long, "parquet", tmp_path / "p")
    with duckdb.connect() as database:
        groups = database.execute(
            "SELECT DISTINCT row_group_id, row_group_num_rows, compression "
            "FROM parquet_metadata($path)",
            {"path": str(done.path)},
        ).fetchall()
    assert sum(height for _, height, _ in groups) == 300_000
    assert done.events == 300_000
    assert max(height for _, height, _ in groups) <= 1 << 17
    assert {compression for _, _, compression in groups} == {"ZSTD"}
    convert_trace(MENU, "parquet", tmp_path / "q")
    about = pl.read_parquet_metadata(tmp_path / "q")
    assert about["format"] == "trace.dat v7"
    assert about["clock"] == "mono"
    assert about["kernel_release"] == "6.12.117+deb12-amd64"
    assert about["lost_events"] == "0"


def test_the_frame_of_events_has_the_files_counts() -> None:
    trace = read_trace(MENU)
    counts = dict(trace.events.group_by("event").len().iter_rows())
    counted = {name: count for name, count in trace.info["events"].items() if name in counts}
    assert counts == counted
    assert trace.events["timestamp_ns"].is_sorted()
    with pytest.raises(ValueError, match="keep_events"):
        _ = read_trace(MENU, keep_events=False).events


@pytest.mark.parametrize("target", ["perfetto", "parquet", "csv"])
def test_the_default_name_and_what_is_left_out(
    target: Literal["perfetto", "parquet", "csv"],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(MENU, "--to", target)
    assert result.exit_code == 0, result.output
    (written,) = tmp_path.iterdir()
    assert result.stdout == f"{written.name}: 38,585 events\n"
    assert written.stem == "qemu_idle_menu"
    assert result.stderr == "2,984 events left out: no place for hrtimer_init 2,984\n"


def test_json(tmp_path: Path) -> None:
    result = run(MENU, "--to", "csv", "-o", tmp_path / "x", "--json")
    assert json.loads(result.stdout) == {
        "path": str(tmp_path / "x"),
        "events": 38585,
        "dropped": 2984,
        "dropped_types": {"hrtimer_init": 2984},
    }


@pytest.mark.parametrize("target", ["parquet", "csv"])
def test_a_failed_conversion_leaves_nothing_behind(tmp_path: Path, target: str) -> None:
    result = run(MENU, "--to", target, "-o", tmp_path / "missing" / "x")
    assert result.exit_code == 2
    assert "there is no folder" in result.stderr
    nonsense = tmp_path / "nonsense"
    nonsense.write_bytes(b"\x00nonsense")
    result = run(nonsense, "--to", target, "-o", tmp_path / "x")
    assert result.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["nonsense"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_in_the_systems_words(tmp_path: Path) -> None:
    (tmp_path / "x.part").symlink_to("/dev/full")
    result = run(MENU, "--to", "parquet", "-o", tmp_path / "x")
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", ["parquet", "csv"])
def test_an_interrupted_conversion_leaves_nothing_behind(
    tmp_path: Path, target: Literal["parquet", "csv"]
) -> None:
    long = tmp_path / "long.txt"
    lines = (DATA / "qemu_trace_cmd_report_ns.txt").read_text().splitlines(keepends=True)
    long.write_text(lines[0] + "".join(lines[1:]) * 1500)

    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_trace(long, target, tmp_path / "x", progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["long.txt"]


def test_a_trace_is_not_written_over_itself(tmp_path: Path) -> None:
    copy = tmp_path / "trace.csv"
    copy.write_bytes((DATA / "android_systrace.txt").read_bytes())
    before = copy.read_bytes()
    result = run(copy, "--to", "csv", "-o", copy)
    assert result.exit_code == 2
    assert "is the trace itself" in result.stderr
    assert copy.read_bytes() == before


def test_an_unknown_format_is_refused() -> None:
    assert run(MENU, "--to", "xlsx").exit_code == 2
    with pytest.raises(ValueError, match="there are perfetto, parquet, csv") as refused:
        convert_trace(MENU, "xlsx", "x")  # type: ignore[arg-type]
    assert not isinstance(refused.value, TraceError)
