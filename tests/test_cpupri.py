"""The RT priority map: layouts from Python, at scale, under threads, and tables of perf c2c."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sessions
from click.testing import CliRunner
from schedlab import CpuPri, KernelError, Machine, simulate
from schedlab.cli import main
from schedlab.cpupri import layouts, measure, read_c2c, scaling, sized

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial-cpupri.md"

# As a mail quotes the table that `perf c2c report` prints.
MAIL = """\
> 155 39 39 0xff14d52c4682d800
> 43.23% 43.59% 0.00% 0x0 3489 415 _find_first_and_bit
>  1.94%  0.00% 7.69% 0x0 5992  33 cpupri_set
"""


@pytest.mark.parametrize("layout", layouts())
def test_every_layout_finds_the_least_urgent(layout: str) -> None:
    cpus = CpuPri(layout, machine="nehalem-ep-2s")
    for cpu in range(16):
        cpus.set(cpu, 99 if cpu % 2 else 0)
    assert cpus.find(0, this_cpu=4) == list(range(1, 16, 2))
    assert cpus.find(0, allowed="0,2,4") == []
    cpus.set(2, None)
    assert cpus.find(0, allowed="2-3") == [3]


def test_accesses_are_told_with_object_and_offset() -> None:
    cpus = CpuPri("global")
    cpus.set(5, 99)
    rows = cpus.touched().to_dicts()
    atomic = [(row["object"], row["offset"]) for row in rows if row["access"] == "atomic"]
    # The bit of the mask of level 0, then its count: byte 184 of the root domain.
    assert atomic == [("pri_to_cpu[0].mask", 0), ("root_domain", 184)]
    assert cpus.touched().is_empty()
    assert cpus.domain_lines == 29


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(KernelError, match="no layout of the priority map is called flat"):
        CpuPri("flat")
    with pytest.raises(ValueError, match="cpu is 480; give 0 to 479"):
        CpuPri().set(480, 0)
    with pytest.raises(ValueError, match="101 is no priority"):
        CpuPri().set(0, 101)


def test_machines_of_every_size_are_as_large_as_asked_for() -> None:
    base = Machine.load("gnr-2s-snc3")
    for cpus in (8, 64, 128, 512, 2048):
        assert sized(base, cpus).cpu_count == cpus
    uniform = sized(base, 256, uniform=True).to_dict()["cache"]
    assert uniform["machine_ps"] == uniform["llc_ps"]


def test_layouts_are_simulated_at_two_sizes() -> None:
    rows = list(scaling(cpus=(16, 128), only=("global", "scalable-bitmap"), rounds=3))
    assert [(row["cpus"], row["layout"]) for row in rows] == [
        (size, layout) for size in (16, 128) for layout in ("global", "scalable-bitmap")
    ]
    assert all(row["find_mean_ns"] > 0 and row["set_lines"] >= 4 for row in rows)


def test_a_machine_of_no_regular_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="cpus is 48; give a power of two"):
        sized(Machine.load("generic"), 48)
    with pytest.raises(ValueError, match="cpus is 48; give a power of two"):
        list(scaling(cpus=(48,), only=("global",)))


def test_a_thread_measures_this_machine() -> None:
    (row,) = measure(only=("global",), threads=(1,), duration_ms=20)
    assert row["finds"] > 0
    assert 1 < row["find_p50_ns"] <= row["find_p99_ns"]


def test_a_quoted_table_is_read() -> None:
    table = read_c2c(MAIL)
    assert table.unread == []
    assert table.rows["symbol"].to_list() == ["_find_first_and_bit", "cpupri_set"]
    assert table.rows["load_cycles"].to_list() == [3489, 5992]


def test_the_command_line_reads_it_or_says_why_not(tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_text(MAIL)
    shown = CliRunner().invoke(main, ["trace", "c2c", str(mail)])
    assert shown.exit_code == 0, shown.output
    assert "155 remote HITM" in shown.output
    assert "cpupri_set" in shown.output
    mail.write_text("nothing\n")
    refused = CliRunner().invoke(main, ["trace", "c2c", str(mail)])
    assert refused.exit_code != 0


def test_a_run_tells_of_its_lines() -> None:
    run = simulate("ffmpeg", machine="nehalem-ep-2s", duration_s=0.05, keep_c2c=True)
    assert run.c2c is not None
    assert {"cpupri_set", "cpupri_find_fitness"} <= set(run.c2c["symbol"])
    assert simulate("hackbench", duration_s=0.01).c2c is None


def test_bench_simulates_and_prints_json() -> None:
    words = ["bench", "cpupri", "--simulate", "--cpus", "16", "--layout", "global", "--json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["rows"][0]["layout"] == "global"


def test_the_tutorial_shows_what_is_printed() -> None:
    sessions.check(TUTORIAL)
