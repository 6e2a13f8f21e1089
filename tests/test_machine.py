"""``schedlab machine`` and ``schedlab.Machine`` as people and programs meet them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import schedlab
from click.testing import CliRunner, Result
from schedlab import Machine, MachineError
from schedlab.cli import main

TESTS = Path(__file__).parent
DATA = TESTS / "data" / "machines"
GOLDEN = TESTS / "data" / "golden"

# `UPDATE_GOLDEN=1 pytest tests/test_machine.py` writes the expectations anew.
UPDATE = "UPDATE_GOLDEN" in os.environ


def run(*arguments: str | Path, columns: int = 80, stdin: str | None = None) -> Result:
    runner = CliRunner(env={"COLUMNS": str(columns), "TERM": "dumb"})
    return runner.invoke(main, ["machine", *map(str, arguments)], input=stdin)


def run_json(*arguments: str | Path) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refusal(*arguments: str | Path, stdin: str | None = None) -> str:
    """Give the complaint of a run that must end with one or two lines and exit code 2."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) <= 2, result.stderr
    return result.stderr


def expect(name: str, text: str) -> None:
    path = GOLDEN / name
    if UPDATE:
        path.write_text(text)
    assert text == path.read_text(), f"differs from {path}; UPDATE_GOLDEN=1 writes it anew"


def test_list() -> None:
    result = run("list")
    assert result.exit_code == 0
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    listed = {row["name"]: row["cpus"] for row in run_json("list")}
    assert listed["gnr-2s-snc3"] == 480
    assert listed["kunpeng920-2s"] == 128
    assert set(listed) == set(Machine.names())
    assert all(name in result.stdout for name in listed)


@pytest.mark.parametrize("name", Machine.names())
def test_show_fits_a_narrow_terminal(name: str) -> None:
    result = run("show", name)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert len(result.stdout.splitlines()) < 90
    assert "…" not in result.stdout


@pytest.mark.parametrize("name", ["gnr-2s-snc3", "pixel6-gs101", "power7-2s", "kunpeng920-2s"])
def test_show(name: str) -> None:
    expect(f"machine_show_{name}.txt", run("show", name, columns=100).stdout)


def test_json_carries_everything() -> None:
    data = run_json("show", "gnr-2s-snc3")
    assert len(data["cpus"]) == 480
    assert data["cpus"][479] == {
        "cpu": 479,
        "thread": 1,
        "core": 239,
        "cluster": None,
        "llc": 5,
        "node": 5,
        "package": 1,
        "cpu_type": "redwood-cove",
        "capacity": 1024,
        "frequency_domain": 239,
        "max_khz": 2_100_000,
    }
    assert data["topology"]["nodes"][1] == "40-79,280-319"
    assert data["node_distances"][0][4] == 28
    assert data["node_distances"][4][0] == 23
    states = data["cpu_types"][0]["idle_states"]
    assert [state["disabled"] for state in states] == [False, False, False, True, True]
    assert data["power"]["package_idle"] == [{"state": "C6P", "power_uw": 80_000_000}]
    assert data["cache"]["package_ps"] == 115_000
    assert data["kernel_paths"]["tick_ns"] == 1_500


def test_toml_is_a_file_to_copy_and_edit(tmp_path: Path) -> None:
    text = run("show", "generic", "--toml").stdout
    assert "ESTIMATE" in text
    mine = tmp_path / "mine.toml"
    mine.write_text(text.replace("hz = 250", "hz = 1000", 1))
    assert run_json("show", mine)["hz"] == 1000
    assert Machine.load(mine).hz == 1000


@pytest.mark.parametrize("name", Machine.names())
def test_machines_survive_saving(name: str) -> None:
    machine = Machine.load(name)
    assert Machine.parse(machine.to_toml()) == machine
    assert machine.to_dict() == Machine.parse(machine.to_toml()).to_dict()


def test_every_estimate_and_source_stands_in_the_presets() -> None:
    for name in Machine.names():
        text = Machine.preset_toml(name)
        assert text is not None
        assert "ESTIMATE" in text, name


def test_contradictions_name_file_line_and_mend(tmp_path: Path) -> None:
    text = Machine.preset_toml("qemu8")
    assert text is not None
    bad = tmp_path / "bad.toml"
    bad.write_text(text.replace("[[10, 20], [20, 10]]", "[[10, 20], [21, 10]]"))
    line = next(n for n, row in enumerate(text.splitlines(), 1) if row.startswith("distances"))
    complaint = refusal("show", bad)
    assert f"{bad}:{line}: " in complaint
    assert "asymmetric_distances = true" in complaint
    with pytest.raises(MachineError, match="make them equal"):
        Machine.load(bad)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "missing field `name`"),
        (b"name = 'x'\n[topology]\ncores_per_llc = 4096\n", ":2: "),
        (b"name = 'x'\nnodes = 3\n", ":2: unknown field `nodes`"),
        (b"\x7fELF\x00\xff", "TOML"),
        (b"name = [", ":1: "),
    ],
)
def test_files_that_are_no_machines(tmp_path: Path, content: bytes, complaint: str) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(content)
    assert complaint in refusal("show", file)


def test_what_is_not_there(tmp_path: Path) -> None:
    assert "built in are generic, " in refusal("show", "nosuch")
    assert str(tmp_path) in refusal("show", tmp_path)
    missing = tmp_path / "nosuch"
    assert refusal("import", missing).endswith(f"{missing}: No such file or directory\n")
    assert "copy /sys" in refusal("import", "--root", tmp_path)
    assert "two sources" in run("import", DATA / "lscpu-vm.json", "--root", "/").stderr
    output = tmp_path / "no" / "such" / "file"
    assert str(output) in refusal("import", DATA / "lscpu-vm.json", "-o", output)


def test_show_prints_hostile_names_harmlessly(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    text = Machine.load("qemu4").to_toml()
    text = text.replace('"qemu4"', '"[red]\\u001b[2Jevil"').replace('"HLT"', '"[bold]HLT"')
    file.write_text(text)
    shown = run("show", file).stdout
    assert "[red]" in shown
    assert "[bold]HLT" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    "file", ["hwloc1-synthetic.xml", "lisa-juno.yml", "lisa-juno-r0.yml", "lscpu-vm.json"]
)
def test_imports(file: str) -> None:
    result = run("import", DATA / file)
    assert result.exit_code == 0, result.output
    expect(f"machine_import_{file}.toml", result.stdout)
    assert Machine.parse(result.stdout) == Machine.import_file(DATA / file)


def test_import_writes_a_file_that_loads(tmp_path: Path) -> None:
    output = tmp_path / "vm.toml"
    source = (DATA / "lscpu-vm.json").read_text()
    result = run("import", "-", "--name", "mine", "-o", output, stdin=source)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "mine, 2 CPUs" in result.stderr
    assert Machine.load(output).name == "mine"
    assert run_json("import", DATA / "lscpu-vm.json", "--name", "mine") == run_json("show", output)


def test_import_of_a_named_processor() -> None:
    machine = run_json("import", DATA / "hwloc2-synthetic.xml", "--cpu-model", "6/0x55")
    states = machine["cpu_types"][0]["idle_states"]
    found = [(s["name"], s["exit_latency_ns"], s["target_residency_ns"]) for s in states]
    assert found == [
        ("POLL", 0, 0),
        ("C1", 2_000, 2_000),
        ("C1E", 10_000, 20_000),
        ("C6", 133_000, 600_000),
    ]
    assert "SKYLAKE_X" in refusal("import", DATA / "lscpu-vm.json", "--cpu-model", "z80")


@pytest.mark.parametrize("content", ["", "hello", "<html/>", "{}", "platform-info: 3"])
def test_imports_of_something_else(content: str) -> None:
    assert "<stdin>: " in refusal("import", "-", stdin=content)


@pytest.mark.skipif(not Path("/sys/devices/system/cpu/cpu0/topology").is_dir(), reason="no sysfs")
def test_import_of_this_machine() -> None:
    machine = run_json("import")
    online = Path("/sys/devices/system/cpu/online").read_text()
    last = int(online.strip().replace("-", ",").split(",")[-1])
    assert machine["cpu_count"] == last + 1
    states = sorted(Path("/sys/devices/system/cpu/cpu0/cpuidle").glob("state*/name"))
    if states:
        names = [state["name"] for state in machine["cpu_types"][0]["idle_states"]]
        assert names == [state.read_text().strip() for state in states]


@pytest.mark.skipif(shutil.which("lscpu") is None, reason="no lscpu")
@pytest.mark.parametrize("flags", [["-J"], ["-J", "-e"]])
def test_import_of_this_lscpu(flags: list[str]) -> None:
    printed = subprocess.run(["lscpu", *flags], capture_output=True, check=True)
    machine = Machine.import_bytes(printed.stdout)
    assert machine.cpu_count >= (os.cpu_count() or 1)


def test_frames() -> None:
    machine = schedlab.Machine.load("juno-r0")
    assert machine.cpus.filter(pl.col("capacity") == 1024)["cpu"].to_list() == [1, 2]
    assert machine.cpus.schema["cluster"] == pl.Null
    sleeping = machine.idle_states.filter(pl.col("name") == "cpu-sleep-0").row(0, named=True)
    assert sleeping["governor_exit_latency_ns"] == 1_500_000
    assert sleeping["exit_latency_ns"] == 1_200_000
    assert sleeping["local_timer_stop"]
    assert machine.opps.filter(cpu_type="cortex-a57")["power_uw"].max() == 583_000
    assert repr(machine) == "<Machine juno-r0: 6 CPUs>"
    assert machine == Machine.load("juno-r0")
    assert machine != Machine.load("generic")
