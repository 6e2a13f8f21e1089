"""``schedlab idle`` and ``schedlab pelt``, through the package and the command line."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import schedlab
from click.testing import CliRunner, Result
from schedlab import cpuidle
from schedlab import idle as idle_module
from schedlab import pelt as pelt_module
from schedlab.cli import main

MENU = "tests/data/traces/qemu_idle_menu.dat"
LADDER = "tests/data/traces/qemu_idle_ladder.dat"
PELT = "tests/data/traces/qemu_pelt_ptask.dat"
LISA = "tests/data/traces/lisa_sched_load.dat"
FIGURES = {
    "periods",
    "too_deep_pct",
    "too_shallow_pct",
    "state_share_pct",
    "agreement_pct",
    "estimated_pct",
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def answer(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize(("trace", "governor"), [(MENU, "menu"), (LADDER, "ladder")])
def test_traced_governor_agrees(trace: str, governor: str) -> None:
    report = answer("idle", trace, "--machine", "simidle", "--governor", governor)
    assert list(report["governors"]) == [governor]
    found = report["governors"][governor]
    assert found.keys() >= FIGURES
    assert found["agreement_pct"] >= 99.8
    assert report["traced_governor"] == governor
    assert list(found["state_share_pct"]) == ["POLL", "C1", "C1E", "C3", "C6", "C8"]
    assert sum(found["state_share_pct"].values()) == pytest.approx(100)


def test_names_are_kept_as_given() -> None:
    report = answer(
        "idle", MENU, "--machine", "simidle", "--governor", "teo", "--governor", "menu-6.1"
    )
    assert list(report["governors"]) == ["teo", "menu-6.1"]
    assert report["governors"]["teo"]["governor"] == "teo-6.12"


def test_all_governors_by_default_on_the_guessed_machine() -> None:
    report = answer("idle", MENU)
    assert list(report["governors"]) == idle_module.governor_names()
    assert (report["machine"], report["machine_guessed"]) == ("simidle", True)


def test_table_has_a_row_per_governor() -> None:
    result = run("idle", MENU, "--machine", "simidle", "--governor", "menu")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "qemu_idle_menu.dat: idle periods on simidle, HZ=250"
    assert "too deep %" in lines[1]
    assert [line.split()[0] for line in lines[3:5]] == ["traced", "menu"]
    assert lines[-1] == "The trace was recorded under menu, by its agreement."


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_periods_tell_what_went_in(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"periods{suffix}"
    result = run("idle", MENU, "--machine", "simidle", "--governor", "menu", "--periods", str(out))
    assert result.exit_code == 0, result.output
    frame = pl.read_csv(out) if suffix == ".csv" else pl.read_parquet(out)
    chosen = frame.filter(pl.col("traced_state").is_not_null())
    differing = chosen.filter(pl.col("traced_state") != pl.col("chosen_state"))
    assert (chosen.height, differing.height) == (4062, 3)
    assert frame["memory"].str.contains("correction_factor").all()


def test_the_only_state_tells_no_governor(tmp_path: Path) -> None:
    trace = str(tmp_path / "run.pftrace")
    on = ("--machine", "qemu4")
    assert run("run", "periodic", *on, "--duration", "0.05", "--trace", trace).exit_code == 0
    found = run("idle", trace, *on, "--governor", "menu")
    assert found.exit_code == 0
    assert "recorded under" not in found.stdout
    assert found.stdout.endswith("one idle state, so governors have nothing to choose.\n")
    report = json.loads(run("idle", trace, *on, "--governor", "menu", "--json").stdout)
    assert report["traced_governor"] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([MENU, "--machine", "qemu4"], "--machine"),
        ([PELT, "--machine", "qemu8"], "if its kernel had no cpuidle driver, one whose states"),
        ([MENU, "--machine", "pixel6-gs101"], "; choose the machine that was traced"),
        ([MENU, "--machine", "simidle", "--governor", "meno"], "no idle governor is called"),
        ([MENU, "--machine", "nowhere"], "nowhere"),
        (["missing.dat", "--machine", "simidle"], "missing.dat"),
        ([MENU, "--periods", "rows.txt"], ".parquet"),
        (["README.md", "--machine", "simidle"], "README.md"),
    ],
)
def test_errors_are_short_and_exit_with_2(arguments: list[str], words: str) -> None:
    result = run("idle", *arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output


def test_hz_changes_the_tick() -> None:
    report = answer("idle", MENU, "--machine", "simidle", "--governor", "menu", "--hz", "1000")
    assert report["tick_ns"] == 1_000_000
    assert report["governors"]["menu"]["agreement_pct"] < 99.5


def test_frame_from_python() -> None:
    trace = schedlab.read_trace(MENU, keep_events=False)
    frame = schedlab.idle_governors(trace, "simidle", ["menu", "teo_util"])
    assert frame["governor"].to_list() == ["traced", "menu", "teo_util"]
    deep = dict(frame.select("governor", "too_deep_pct").iter_rows())
    latency = dict(frame.select("governor", "exit_latency_us").iter_rows())
    assert deep["teo_util"] < deep["menu"]
    assert latency["teo_util"] < latency["menu"]


def test_governors_on_their_own() -> None:
    machine = schedlab.Machine.load("pixel6-gs101")
    governors: list[cpuidle.Governor] = [
        cpuidle.Menu(machine, cpu=6),
        cpuidle.Teo(machine, cpu=6),
        cpuidle.Ladder(machine, cpu=6),
        cpuidle.TeoUtil(machine, cpu=6),
        cpuidle.Idleutil(machine, cpu=6),
    ]
    for governor in governors:
        choice = governor.select(sleep_length_ns=100_000_000)
        governor.reflect(choice.state, residency_ns=100_000_000, now_ns=100_100_000)
        assert 0 <= choice.state < len(governor.states)
        assert governor.source
    with pytest.raises(schedlab.GovernorError, match=r"; did you mean teo\?$"):
        cpuidle.Governor("teoo", machine)
    with pytest.raises(ValueError, match="at least one idle state"):
        cpuidle.Menu([])
    with pytest.raises(ValueError, match="state is 9; give 0 to 1"):
        cpuidle.Menu(machine).reflect(9, residency_ns=1)


@pytest.mark.parametrize(("trace", "machine"), [(PELT, "qemu8"), (LISA, "juno-r0")])
def test_rebuilt_utilisation_of_tasks(trace: str, machine: str) -> None:
    found = answer("pelt", trace, "--machine", machine)
    assert found["task"]["compared"] >= 30
    assert found["task"]["median"] <= 1
    assert found["task"]["p99"] <= 8


def test_comparisons_are_the_distribution() -> None:
    frame = pelt_module.comparisons(PELT, "qemu8").filter(pl.col("known"))
    tasks = frame.filter(pl.col("signal") == "task")
    found = pelt_module.check(PELT, "qemu8")["task"]
    assert tasks.height == found["compared"]
    errors = (tasks["kernel"].cast(pl.Int64) - tasks["rebuilt"].cast(pl.Int64)).abs()
    assert errors.max() == found["max"]


def test_pelt_table() -> None:
    result = run("pelt", MENU)
    assert result.exit_code == 0
    assert "no util_avg of the kernel's to compare with" in result.output
    assert " tasks                    0                0\n" in result.stdout
    task = answer("pelt", MENU)["task"]
    assert [task[key] for key in ("compared", "median", "p99", "max")] == [0, None, None, None]


@pytest.mark.parametrize(
    ("trace", "machine", "count"),
    [(LADDER, "qemu4", "3,151"), (PELT, "atom-netbook-ht", "438"), (MENU, "simidle", None)],
)
def test_periods_that_a_machine_cannot_judge_are_told(
    trace: str, machine: str, count: str | None
) -> None:
    found = run("trace", "idle", trace, "--machine", machine)
    assert found.exit_code == 0
    note = f"{count} idle periods are not judged: machine {machine} lacks their states;"
    assert (note in found.stderr) == (count is not None)
    assert ("not judged" in found.stderr) == (count is not None)
