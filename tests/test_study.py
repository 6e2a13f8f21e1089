"""``schedlab study`` and ``schedlab.run_study`` as people and programs meet them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest
from click.testing import CliRunner, Result
from schedlab.cli import main
from schedlab.report.plots import alone, values
from schedlab.store import Store
from schedlab.study import StudyError, load, run_control, run_study
from schedlab.study.load import text_of
from schedlab.study.plan import plan
from terminal import interrupt

NAME = "idlest-group-util"

MAIN = "from schedlab.cli import main; main()"

# Small enough for many runs, with a published figure that it meets and one that it misses.
TINY = """
name = "tiny"
title = "Two kernels, one periodic task"
machines = ["generic"]
iterations = 3
seed = 5

[baseline]
name = "old"
kernel = "v6.1"

[[treatment]]
name = "new"
kernel = "v6.12"

[published]
file = "tiny.csv"
origin = "made up"

[[workload]]
name = "beat"
workload = "periodic"
duration_s = 0.5

[[metric]]
workload = "beat"
figure = "energy"
unit = "J"
better = "lower"
published = "beat"
within_pct = 5
change = "not significant"

[[parameter]]
target = "workload.beat.run_us"
value = 1000
kind = "published"
source = "made up"

[[control]]
name = "work"
target = "workload.beat.run_us"
factor = 3
fails = ["beat"]
why = "three times the work draws more"
"""


def study(*arguments: str | Path) -> Result:
    runner = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"})
    return runner.invoke(main, ["study", *map(str, arguments)])


def study_json(*arguments: str | Path) -> Any:
    result = study(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refusal(*arguments: str | Path) -> str:
    """Give the complaint of a study that must end with one or two lines and exit code 2."""
    result = study(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) <= 2, result.stderr
    return result.stderr


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.toml"
    file.write_text(TINY)
    rows = ["benchmark,kernel,iteration,value,unit,better"]
    energy = {"old": 1.0, "new": 1.0}
    rows += [f"beat,{kernel},0,{value},J,lower" for kernel, value in energy.items()]
    (tmp_path / "tiny.csv").write_text("\n".join(rows) + "\n")
    return file


@pytest.fixture(scope="module")
def small(shared_store: Path) -> tuple[dict[str, Any], Path]:
    return study_json("run", NAME, "--small", "--store", shared_store), shared_store


def rows_of(found: dict[str, Any], metric: str, workload: str) -> dict[str, dict[str, Any]]:
    return {
        row["kernel"]: row
        for row in found["rows"]
        if row["metric"] == metric and row["workload"] == workload
    }


def test_births_are_exact(small: tuple[dict[str, Any], Path]) -> None:
    """One CPU under the old rule and 31 under the new, from the kernel's code alone."""
    births = rows_of(small[0], "birth CPUs", "sysbench-cpu")
    assert {kernel: row["simulated"] for kernel, row in births.items()} == {
        "default": 1,
        "group_util": 31,
    }
    for row in births.values():
        assert row["ok"]
        assert row["tolerance"] == 0
        assert row["expected"] == row["simulated"]
        assert row["published"] is None


def test_cpu_is_equal_and_the_rest_without_significant_difference(
    small: tuple[dict[str, Any], Path],
) -> None:
    cpu = rows_of(small[0], "events per second, change", "sysbench-cpu")["group_util"]
    assert abs(cpu["simulated"]) < 0.1
    assert (cpu["rule"], cpu["tolerance"], cpu["ok"]) == ("equal", 0.1, True)
    memory = rows_of(small[0], "MiB/sec, change", "sysbench-memory")["group_util"]
    assert memory["published"] == pytest.approx(-6.985, abs=0.001)
    assert memory["ok"]


def test_the_change_pays_where_threads_outnumber_the_cpus_of_a_node(
    small: tuple[dict[str, Any], Path],
) -> None:
    change = rows_of(small[0], "run time, change", "thread-pool")["group_util"]
    assert change["verdict"] == "improved"
    assert change["simulated"] < -50
    levels = rows_of(small[0], "run time", "thread-pool")
    assert all(row["published"] is None and row["ok"] is None for row in levels.values())


def test_a_decision_log_explains_it(small: tuple[dict[str, Any], Path]) -> None:
    logs = {each["kernel"]: each["text"] for each in small[0]["explanations"]}
    assert "tie by ring order" in logs["default"]
    assert "group of CPU 1    chosen" in logs["default"]
    assert "tie by group_util" in logs["group_util"]
    assert "group of CPU 2    chosen" in logs["group_util"]


def test_rows_have_what_programs_need(small: tuple[dict[str, Any], Path]) -> None:
    wanted = {"machine", "workload", "metric", "kernel", "simulated", "interval", "published"}
    for row in small[0]["rows"]:
        assert wanted | {"tolerance", "ok"} <= row.keys()
        assert row["machine"] == "kunpeng920-2s"
        low, high = row["interval"]
        assert low <= row["simulated"] <= high
    assert all(parameter["source"] for parameter in small[0]["parameters"])


def test_a_second_time_nothing_is_simulated(small: tuple[dict[str, Any], Path]) -> None:
    first, store = small
    again = study_json("run", NAME, "--small", "--store", store)
    assert again["runs"] == {"simulated": 0, "stored": sum(first["runs"].values())}
    assert again["rows"] == first["rows"]


def test_the_table_prints_published_beside_simulated(small: tuple[dict[str, Any], Path]) -> None:
    result = study("run", NAME, "--small", "--store", small[1])
    assert result.exit_code == 0
    lines = [line for line in result.stdout.splitlines() if "sysbench-cpu: events" in line]
    assert "107,654.9" in lines[0]
    assert lines[0].rstrip().endswith("ok")
    assert "claims hold" in result.stdout


def test_the_page_has_the_same_figures(small: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    page = tmp_path / "study.html"
    assert study("run", NAME, "--small", "--store", small[1], "--report", page).exit_code == 0
    text = page.read_text()
    _, _, rest = text.partition('id="figures">')
    figures = json.loads(rest.partition("</script>")[0])
    assert figures["rows"] == small[0]["rows"]
    assert "107,654.9" in text
    assert "<script" not in text.partition("</main>")[0]


def test_parameters_never_come_from_a_treatment() -> None:
    """Whatever is calibrated names the baseline's column in its source."""
    found = load(NAME)
    assert found.baseline.name == "default"
    for parameter in found.parameters:
        if parameter.kind == "calibrated":
            assert "default" in parameter.source
            assert "group_util" not in parameter.source


def test_the_treatment_is_the_baseline_but_for_the_change() -> None:
    runs = plan(load(NAME), small=True)
    kernels = {run.kernel: run.kernel_toml for run in runs}
    from schedlab import Kernel  # noqa: PLC0415 - this test alone

    old, new = Kernel.parse(kernels["default"]), Kernel.parse(kernels["group_util"])
    assert old.diff(new) == {"placement.idlest_tie": ("first", "group-util")}


def test_kernels_of_an_iteration_share_their_random_numbers() -> None:
    starts: dict[int, set[tuple[int, int]]] = {}
    for run in plan(load(NAME), small=True):
        starts.setdefault(run.iteration, set()).add((run.seed, run.start_ns))
    assert all(len(pairs) == 1 for pairs in starts.values())
    assert len(set.union(*starts.values())) == len(starts)


def test_a_workload_has_machines_and_settings_of_its_own(tiny: Path, tmp_path: Path) -> None:
    tiny.write_text(
        TINY.replace('machines = ["generic"]', 'machines = ["generic", "qemu4"]').replace(
            'workload = "periodic"\n',
            'workload = "periodic"\nmachines = ["generic"]\n'
            "machine_set = { topology.cores_per_llc = 6 }\nkernel_set = { tick.hz = 100 }\n",
        )
    )
    runs = plan(load(tiny))
    assert {run.machine for run in runs} == {"generic"}
    assert all("cores_per_llc = 6" in run.machine_toml for run in runs)
    assert all("hz = 100" in run.kernel_toml for run in runs)
    assert study_json("run", tiny, "--store", tmp_path / "s")["rows"][0]["machine"] == "generic"


@pytest.mark.parametrize(("near", "holds"), [("2", 1), ("-3", 0)])
def test_a_change_is_held_against_the_one_that_is_claimed(
    tiny: Path, tmp_path: Path, near: str, holds: int
) -> None:
    claim = f'change = "near"\nnear_pct = {near}\nmargin_pct = 1'
    tiny.write_text(TINY.replace('change = "not significant"', claim))
    rows = study_json("run", tiny, "--store", tmp_path / "s")["rows"]
    (row,) = (row for row in rows if row["rule"] == "near")
    assert row["ok"] == holds
    assert (row["expected"], row["tolerance"]) == (float(near), 1)


def test_a_published_change_is_what_a_change_is_near_to(tiny: Path, tmp_path: Path) -> None:
    claim = 'change = "near"\npublished_change = "beat-change"\nmargin_pct = 30'
    tiny.write_text(TINY.replace('change = "not significant"', claim))
    with (tmp_path / "tiny.csv").open("a") as file:
        file.write("beat-change,new,1,-20,%,lower\nbeat-change,new,2,-10,%,lower\n")
    rows = study_json("run", tiny, "--store", tmp_path / "s")["rows"]
    (row,) = (row for row in rows if row["rule"] == "near")
    assert (row["published"], row["expected"], row["ok"]) == (-15, -15, True)


def test_means_are_geometric_where_the_study_says_so(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.csv").write_text(
        "benchmark,kernel,iteration,value,unit,better\n"
        "beat,old,1,1,J,lower\nbeat,old,2,4,J,lower\nbeat,new,1,6,J,lower\n"
    )
    text = TINY.replace("seed = 5", 'seed = 5\nmean = "geometric"')
    tiny.write_text(text.replace("not significant", "shown"))
    found = study_json("run", tiny, "--store", tmp_path / "s")
    levels, change = found["rows"][:2], found["rows"][2]
    for row in levels:
        energies = [
            each["value"]
            for each in found["figures"]
            if (each["kernel"], each["figure"]) == (row["kernel"], "energy")
        ]
        assert row["simulated"] == pytest.approx(geometric_mean(energies))
        assert row["mean"] == "geometric"
    assert [row["published"] for row in levels] == [2, 6]
    ratio = levels[1]["simulated"] / levels[0]["simulated"]
    assert change["simulated"] == pytest.approx(100 * (ratio - 1))
    assert (change["published"], change["ok"]) == (200, None)
    title = study("run", tiny, "--store", tmp_path / "s").stdout.splitlines()[0]
    assert title == "tiny on generic, 3 iterations, geometric means"


def test_bars_stand_beside_what_was_published(tiny: Path, tmp_path: Path) -> None:
    bars = '[[plot]]\ntitle = "Energy"\nfigure = "energy"\ny = "J"\nlines = ["beat"]\n'
    tiny.write_text(f"{TINY}\n{bars}")
    result = run_study(load(tiny), store=tmp_path / "s", jobs=1)
    (plot,) = result.study.plots
    points = values(result, plot)
    assert [(point["x"], point["line"]) for point in points] == [("old", "beat"), ("new", "beat")]
    levels = [row for row in result.rows if row.unit == "J"]
    assert [point["y"] for point in points] == [row.simulated for row in levels]
    assert [point["published"] for point in points] == [row.published for row in levels]
    assert "J" in alone(result, plot)
    for broken, message in [
        (f"{bars}logarithmic = true\n", "bars begin at 0"),
        (f'{bars}points = [{{ kernel = "old" }}, {{ kernel = "new", x = 1 }}]\n', "give it to all"),
        (f'{bars}points = [{{ kernel = "old", x = 1 }}]\n', "x is missing"),
        (bars.replace('lines = ["beat"]', ""), "points is missing"),
    ]:
        tiny.write_text(f"{TINY}\n{broken}")
        with pytest.raises(StudyError, match=message):
            load(tiny)


def test_the_number_of_processes_changes_nothing(tiny: Path, tmp_path: Path) -> None:
    found = [
        study_json("run", tiny, "--jobs", jobs, "--store", tmp_path / jobs) for jobs in ("1", "3")
    ]
    assert found[0] == found[1]
    assert found[0]["runs"]["simulated"] == 6


def test_a_miss_is_shown_and_fails_only_on_request(tiny: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    result = study("run", tiny, "--store", store)
    assert result.exit_code == 0
    assert "MISS" in result.stdout
    assert study("run", tiny, "--store", store, "--check").exit_code == 1


def test_a_turned_knob_fails_the_study(tiny: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    found = run_study(tiny, store=store, jobs=1)
    energy = {row.kernel: row.simulated for row in found.rows if row.unit == "J"}
    rows = ["benchmark,kernel,iteration,value,unit,better"]
    rows += [f"beat,{kernel},0,{value},J,lower" for kernel, value in energy.items()]
    (tiny.parent / "tiny.csv").write_text("\n".join(rows) + "\n")
    levels = [row for row in run_study(tiny, store=store, jobs=1).rows if row.unit == "J"]
    assert all(row.ok for row in levels)
    control = load(tiny).controls[0]
    _, noticed = run_control(tiny, control, store=store, jobs=1)
    assert noticed
    assert study("run", tiny, "--store", store, "--control").exit_code == 0


def test_a_knob_that_moves_nothing_is_found_out(tiny: Path, tmp_path: Path) -> None:
    tiny.write_text(TINY.replace("factor = 3", "factor = 1").replace("within_pct = 5", ""))
    result = study("run", tiny, "--store", tmp_path / "store", "--control")
    assert result.exit_code == 1
    assert "NO" in result.stdout


@pytest.mark.parametrize(
    "option", [("--report", "page.html"), ("--plots", "drawn"), ("--explain",), ("--check",)]
)
def test_a_control_refuses_what_is_of_the_study_as_it_stands(
    option: tuple[str, ...], tiny: Path, tmp_path: Path
) -> None:
    words = [tmp_path / word if not word.startswith("--") else word for word in option]
    result = study("run", tiny, "--store", tmp_path / "store", "--control", *words)
    assert result.exit_code == 2, result.output
    assert f"{option[0]} is of the study as it stands" in result.stderr
    assert not (tmp_path / "store").exists()


def test_every_control_of_the_study_is_noticed(small: tuple[dict[str, Any], Path]) -> None:
    found = study_json("run", NAME, "--small", "--store", small[1], "--control")
    assert [control["noticed"] for control in found] == [True] * len(load(NAME).controls)


def test_what_was_done_before_a_kill_is_neither_lost_nor_done_again(
    tiny: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    tiny.write_text(TINY.replace("iterations = 3", "iterations = 40").replace("0.5", "4"))
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "study", "run", str(tiny), "--store", store, "--jobs", "2"],
        start_new_session=True,
    )
    until = time.monotonic() + 60
    while len(Store(store).keys()) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    # The parent alone is killed: its workers notice and end as well.
    process.kill()
    process.wait()
    _wait_for_end_of_session(process.pid)
    kept = {path: path.stat().st_mtime_ns for path in (store / "runs").glob("*.parquet")}
    assert 3 <= len(kept) < 80
    found = study_json("run", tiny, "--store", store)
    assert found["runs"] == {"simulated": 80 - len(kept), "stored": len(kept)}
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    whole = study_json("run", tiny, "--store", tmp_path / "other")
    assert found["rows"] == whole["rows"]


def _wait_for_end_of_session(session: int) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            os.killpg(session, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(session, signal.SIGKILL)
    pytest.fail("workers outlive their parent")


def test_half_a_file_is_no_run(tiny: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    run_study(tiny, store=store.folder, jobs=1)
    key = min(store.keys())
    store.path(key).rename(store.runs / f"{key}.0.part")
    again = run_study(tiny, store=store.folder, jobs=1)
    assert (again.simulated_runs, again.stored_runs) == (1, 5)


def test_a_damaged_file_is_named(tiny: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    run_study(tiny, store=store.folder, jobs=1)
    damaged = store.path(min(store.keys()))
    damaged.write_bytes(b"PAR1 and then nothing of the kind")
    assert damaged.name in refusal("run", tiny, "--store", store.folder)


def test_a_store_that_cannot_be_written_is_named(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "file" in refusal("run", tiny, "--store", tmp_path / "file" / "store", "--jobs", "2")


def test_an_interrupt_ends_a_study_and_its_workers(tiny: Path, tmp_path: Path) -> None:
    tiny.write_text(TINY.replace("0.5", "1000000"))

    def two_workers(pid: int) -> bool:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        # One of them looks after what the others share.
        return len(children) > 2

    process, written, seen = interrupt(
        [
            sys.executable,
            "-c",
            MAIN,
            "study",
            "run",
            tiny,
            "--store",
            tmp_path / "s",
            "--jobs",
            "2",
        ],
        b"simulating",
        two_workers,
    )
    assert process.returncode == 128 + signal.SIGINT
    assert written == b""
    assert b"Traceback" not in seen
    _wait_for_end_of_session(process.pid)


def test_the_store_answers_sql(tiny: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    run_study(tiny, store=store, jobs=1)
    sql = "SELECT kernel, count(DISTINCT key) AS runs FROM runs GROUP BY kernel ORDER BY kernel"
    assert Store(store).query(sql) == [{"kernel": "new", "runs": 3}, {"kernel": "old", "runs": 3}]
    with pytest.raises(ValueError, match="nowhere"):
        Store(store).query("SELECT nowhere FROM runs")


def test_list_and_show() -> None:
    assert [row["name"] for row in study_json("list")] == [
        "cpupri-per-node",
        "cpupri-regressions",
        "idle-governors",
        "idle-threshold",
        NAME,
        "nohz-push",
        "power-aware",
        "power-aware-today",
        "power-aware-x86",
    ]
    shown = study_json("show", NAME)
    assert len(shown["published"]["figures"]) == 8
    text = study("show", NAME).stdout
    for word in ("group_util", "placement.idlest_tie = group-util", "calibrated", "exactly 31"):
        assert word in text
    assert study("show", NAME, "--toml").stdout == text_of(NAME)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("iterations = 3", "iterations = 0", "tiny.toml:5: iterations is 0"),
        ("iterations = 3", "iteratons = 3", "tiny.toml:5: unknown key iteratons; did you mean"),
        ("seed = 5", "seed = 'x'", "tiny.toml:6: seed is 'x'; it must be a whole number"),
        ("seed = 5", "seed = ", "tiny.toml:6: Invalid value"),
        ("[baseline]", "[basline]", "unknown key basline; did you mean baseline?"),
        ('better = "lower"', 'better = "less"', "better is 'less'; it must be one of"),
        ('workload = "beat"', 'workload = "beet"', "names beet, which is not there; did you mean"),
        ('published = "beat"', 'published = "x"', "published names x"),
        ('kernel = "v6.12"', 'kernel = "v6.13"', "did you mean v6.1"),
        ('machines = ["generic"]', 'machines = ["genric"]', "did you mean generic"),
        ('workload = "periodic"', 'workload = "period"', "did you mean periodic"),
        ("duration_s = 0.5", "duration_s = 0", "duration_s is 0"),
        ("beat.run_us", "beat.run_ms", "unknown field `run_ms`"),
        ('"workload.beat.run_us"', '"run_us"', "target run_us must be"),
        ('file = "tiny.csv"', 'file = "none.csv"', "tiny.toml:17: there is no file none.csv"),
        ('figure = "energy"', 'figure = "enrgy"', "has no figure 'enrgy'; there are"),
    ],
)
def test_what_is_wrong_in_a_study_is_named_with_line_and_mend(
    tiny: Path, tmp_path: Path, old: str, new: str, says: str
) -> None:
    assert old in TINY
    tiny.write_text(TINY.replace(old, new, 1))
    assert says in refusal("run", tiny, "--store", tmp_path / "store", "--jobs", "1")


def test_options_that_cannot_be_name_their_line(tiny: Path, tmp_path: Path) -> None:
    at = TINY.index("[[parameter]]")
    text = TINY[:at].replace("duration_s = 0.5", "duration_s = 0.5\noptions = { run_s = 5 }", 1)
    tiny.write_text(text)
    said = refusal("run", tiny, "--store", tmp_path / "store", "--jobs", "1")
    assert "tiny.toml:24: beat.toml: unknown field `run_s`" in said


def test_unknown_studies_and_bad_figures_are_named(tiny: Path) -> None:
    assert "did you mean idlest-group-util?" in refusal("run", "idlest-group")
    (tiny.parent / "tiny.csv").write_text(
        "benchmark,kernel,iteration,value,unit,better\nbeat,old,0,many,J,lower\n"
    )
    assert "tiny.csv:2: value 'many' is no number" in refusal("show", tiny)
    (tiny.parent / "tiny.csv").write_text("benchmark\n")
    with pytest.raises(StudyError, match="column kernel is missing"):
        load(tiny)
