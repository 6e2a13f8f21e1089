"""A trace's tasks run again, written as workloads, and two traces compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from schedlab import ReplayError, read_trace
from schedlab.agreement import agreement
from schedlab.cli import main
from schedlab.diff import diff_traces
from schedlab.replay import Given, TracedTasks, replay_trace, task_figures

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA = Path(__file__).parent / "data" / "traces"
MENU = DATA / "qemu_idle_menu.dat"
LADDER = DATA / "qemu_idle_ladder.dat"


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


def replayed(*words: str | Path) -> dict[str, Any]:
    result = run("replay", *words, "--json")
    assert result.exit_code == 0, result.output
    data: dict[str, Any] = json.loads(result.stdout)
    return data


@pytest.mark.parametrize(("file", "governor"), [(MENU, "menu"), (LADDER, "ladder")])
def test_the_traced_kernel_gives_the_trace_back(file: Path, governor: str) -> None:
    found = replayed(file, "--machine", "simidle", "--governor", governor)
    rows = {row["comm"]: row for row in found["check"]["rows"]}
    assert set(rows) >= {"t1", "t2", "t3", "t5"}
    assert found["check"]["basis"], [row for row in rows.values() if row["off"]]


def test_a_kernel_that_is_not_the_traced_one_is_compared_with_the_check() -> None:
    found = replayed(MENU, "--machine", "simidle", "--kernel", "v6.1", "--kernel", "v5.9")
    assert [run["kernel"] for run in found["what_if"]] == ["v6.1", "v5.9"]
    for kernel in found["what_if"]:
        tasks = {row["comm"]: row for row in kernel["tasks"]}
        assert tasks["t3"]["check_wakeups"] == pytest.approx(tasks["t3"]["wakeups"], rel=0.02)
        assert tasks["t3"]["energy_mj"] > 0
        assert kernel["digest"] != found["check"]["digest"]


def test_another_machine_runs_the_same_work() -> None:
    found = replayed(MENU, "--machine", "simidle", "--on", "generic")
    (what_if,) = found["what_if"]
    tasks = {row["comm"]: row for row in what_if["tasks"]}
    assert what_if["machine"] == "generic"
    assert tasks["t5"]["run_ns"] == pytest.approx(tasks["t5"]["check_run_ns"], rel=0.3)


def test_the_same_replay_has_the_same_digest() -> None:
    assert replayed(MENU, "--machine", "simidle") == replayed(MENU, "--machine", "simidle")


def test_a_trace_that_does_not_come_back_is_no_basis() -> None:
    # Under another kernel's tick rate and governor nothing fits.
    words = (MENU, "--machine", "simidle", "--hz", "100", "--kernel", "v6.1")
    refused = run("replay", *words, "--policy", "t5=idle", "--cpus", "t5=0", "--cpus", "t3=0")
    assert refused.exit_code == 0
    assert "NO BASIS" in refused.stdout
    assert "v6.1 on" not in refused.stdout
    assert "--anyway" in refused.stderr
    anyway = run(
        "replay", *words, "--cpus", "t5=0", "--cpus", "t3=0", "--policy", "t5=idle", "--anyway"
    )
    assert "v6.1 on simidle, against v6.12 on simidle" in anyway.stdout


def test_what_cannot_be_is_refused_in_a_line() -> None:
    few = run("replay", DATA / "qemu_pelt_ptask.dat", "--machine", "simidle")
    assert few.exit_code == 2
    assert "choose the machine that was traced with --machine" in few.stderr
    assert run("replay", MENU, "--machine", "simidle", "--policy", "t3").exit_code == 2
    odd = run("replay", MENU, "--machine", "simidle", "--policy", "t3=deadline")
    assert odd.exit_code == 2
    assert "there are batch, idle and rr" in odd.stderr
    unknown = run("replay", DATA / "lisa_sched_load.dat", "--machine", "juno-r0")
    assert "--traced-kernel" in unknown.stderr
    with pytest.raises(ReplayError, match="no task run"):
        TracedTasks(DATA / "android_print.pftrace.gz", "generic")


@pytest.mark.parametrize(
    "words", [("replay", MENU), ("workload", "from-trace", MENU, "--kernel", "v6.12")]
)
def test_what_is_known_of_no_task_is_refused(words: Sequence[str | Path]) -> None:
    for option, said in (
        (("--policy", "ptsk=batch"), "--policy: no task of"),
        (("--cpus", "ptsk=0"), "--cpus: no task of"),
    ):
        found = run(*words, "--machine", "simidle", *option)
        assert (found.exit_code, found.stdout) == (2, "")
        assert said in found.stderr
        assert "is called ptsk; did you mean ptask?" in found.stderr


def test_a_guessed_machine_is_told_with_those_that_fit_better(tmp_path: Path) -> None:
    exact = "machine simidle is a guess from the trace's CPUs and idle states; --machine names"
    for words in (["replay"], ["replay", "--json"], ["workload", "from-trace"], ["idle"]):
        assert exact in run(*words, MENU).stderr
    trace = tmp_path / "run.pftrace"
    periodic = ("periodic", "--machine", "qemu4", "--duration", "0.05")
    assert run("run", *periodic, "--trace", trace).exit_code == 0
    found = run("replay", trace, "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["machine_guessed"] is True
    assert found.stderr == (
        "machine generic is a guess, and has 8 CPUs where the trace shows 4; built in with as "
        "many: simidle, qemu4; --machine names the traced one\n"
    )
    assert run("replay", MENU, "--machine", "simidle").stderr == ""


def test_a_simulated_run_names_its_kernel(tmp_path: Path) -> None:
    trace = tmp_path / "run.pftrace"
    on = ("--machine", "qemu4")
    short = ("--duration", "0.05", "--kernel", "v3.9-power")
    assert run("run", "periodic", *on, *short, "--trace", trace).exit_code == 0
    assert replayed(trace, *on)["check"]["kernel"] == "v3.9-power"
    written = run("workload", "from-trace", trace, *on)
    assert "under v3.9-power on qemu4" in written.stdout


def test_an_unknown_release_names_the_option_of_its_command() -> None:
    nameless = DATA / "trappy_trace_sched.txt"
    for words, option in (
        (["replay"], "--traced-kernel"),
        (["workload", "from-trace"], "--kernel"),
    ):
        result = run(*words, nameless, "--machine", "juno-r0")
        assert result.exit_code == 2
        assert result.stderr.endswith(f"; name one with {option}\n")


def test_costs_come_from_the_trace_and_say_how() -> None:
    tasks = TracedTasks(MENU, "simidle")
    costs = {row["name"]: row for row in tasks.costs.iter_rows(named=True)}
    assert costs["wakeup_ns"]["samples"] > 1000
    assert 1_000 < costs["wakeup_ns"]["value_ns"] < 20_000
    assert all(row["rule"] for row in costs.values())


def test_time_is_conserved() -> None:
    tasks = TracedTasks(MENU, "simidle")
    traced = task_figures(read_trace(MENU))
    for row in tasks.tasks.iter_rows(named=True):
        assert row["run_ns"] == pytest.approx(traced[row["pid"]]["run_ns"], abs=200_000)
        assert row["charged_ns"] <= row["run_ns"] + row["excess_ns"]


def test_a_workload_file_loads_again_and_runs(tmp_path: Path) -> None:
    toml, rt_app = tmp_path / "menu.toml", tmp_path / "menu.json"
    words = ("workload", "from-trace", MENU, "--machine", "simidle")
    written = run(*words, "--out", toml, "--rt-app", rt_app, "--json")
    assert written.exit_code == 0, written.output
    rows = {row["comm"]: row for row in json.loads(written.stdout)["tasks"]}
    # Two thousand periods are a few loops.
    assert rows["t3"]["steps"] < 200
    assert rows["t3"]["again_wakeups"] == pytest.approx(rows["t3"]["wakeups"], rel=0.02)
    assert rows["t3"]["again_period_ms"] == pytest.approx(2.0, rel=0.01)
    assert rows["t3"]["again_run_ns"] == pytest.approx(rows["t3"]["run_ns"], rel=0.05)
    for file in (toml, rt_app):
        ran = run("run", file, "--machine", "simidle", "--duration", "4", "--json")
        assert ran.exit_code == 0, ran.output
        tasks = {task["comm"]: task for task in json.loads(ran.stdout)["tasks"]}
        assert tasks["t5"]["runtime_ns"] == pytest.approx(rows["t5"]["run_ns"], rel=0.1)
    shown = run("workload", "show", toml, "--limit", "3")
    assert shown.exit_code == 0, shown.output
    assert "sleep" in shown.output


def test_a_bad_recording_names_task_and_mend(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    cases = {
        'steps = ["run fast"]': "fast is no time",
        'steps = ["jump 3us"]': "is no step",
        'steps = ["wake nobody"]': "there is no task called nobody",
        'steps = ["run 3us"]\nstart = "1ms"\nasleep = true': "exclude each other",
        'steps = ["run 3us"]': "never begins",
        'policy = "deadline"\nstart = "1ms"\nsteps = []': "policy deadline is none",
    }
    for text, message in cases.items():
        file.write_text(f'model = "recorded"\n[[options.tasks]]\nname = "a"\n{text}\n')
        refused = run("run", file)
        assert refused.exit_code == 2, refused.output
        assert message in refused.stderr


def test_a_trace_does_not_differ_from_itself() -> None:
    same = run("trace", "diff", MENU, MENU)
    assert same.exit_code == 0
    assert "No decision differs." in same.stdout


def test_traces_without_a_task_in_common_are_not_called_alike(tmp_path: Path) -> None:
    other = tmp_path / "other.perfetto-trace"
    assert run("run", "periodic", "--duration", "0.01", "--trace", other).exit_code == 0
    found = run("trace", "diff", MENU, other)
    assert found.exit_code == 0
    assert "differs" not in found.stdout
    assert "only in B: 32 x periodic\n Nothing can be compared" in found.stdout


def test_two_kernels_differ_where_decisions_first_part(tmp_path: Path) -> None:
    files = [tmp_path / "one.perfetto-trace", tmp_path / "other.perfetto-trace"]
    for file, kernel in zip(files, ("v6.12", "v5.9"), strict=True):
        words = ("run", "schbench", "--duration", "0.02", "--kernel", kernel)
        assert run(*words, "--trace", file).exit_code == 0
    found = json.loads(run("trace", "diff", *files, "--json").stdout)
    first = found["tasks"][found["first"]]
    assert first["alike"] < max(first["decisions"])
    assert first["parting"][0] != first["parting"][1]
    one, other = map(read_trace, files)
    assert diff_traces(one, other).first() is not None
    told = run("trace", "diff", *files)
    assert "Decisions first part about" in told.stdout


def test_given_policies_reach_the_tasks() -> None:
    tasks = TracedTasks(MENU, "simidle", given=[Given("t3", policy="idle"), Given("t1", cpus="2")])
    text = tasks.to_toml()
    assert 'name = "t3"\npolicy = "idle"' in text
    assert 'name = "t1"\ncpus = "2"' in text


def test_virtual_cpus_that_share_one_instruction_stream() -> None:
    words = (
        "--machine",
        "qemu8",
        "--policy",
        "batch=batch",
        "--policy",
        "audio=rr",
        "--seeds",
        "4",
    )
    found = replayed(DATA / "qemu_pelt_ptask.dat", *words)
    assert 3_000 < found["facts"]["turns"] < 4_000
    rows = {row["comm"]: row for row in found["check"]["rows"]}
    # Up to 150 ms late in the trace: what the host did is told from what the scheduler did.
    for comm in ("ctl", "audio", "video", "net"):
        assert not rows[comm]["off"], rows[comm]
        assert rows[comm]["replayed_p99_us"] > 25_000
    # The thread of softirqs waits behind the urgent task whose CPU it is woken on.
    assert rows["ksoftirqd/2"]["replayed_p50_us"] > 2_000
    assert all("p50_us" not in row["off"] for row in rows.values())
    # What is off is shown beside what the seed alone does.
    off = [row for row in rows.values() if row["off"]]
    assert off
    assert all(set(row["spread"]) == set(row["off"]) for row in off)
    # What chance does is shown by as many replays as one asks for, this one among them.
    chance = found["check"]["chance"]
    assert chance["with_trace"][0] == len(rows) - len(off)
    assert [len(of) for of in chance["with_each_other"]] == [3] * 4
    assert chance["whole"] == sum(of.count(len(rows)) for of in chance["with_each_other"])
    assert 1 <= chance["rank"] <= 5


def test_seeds_are_numbers_that_the_simulator_takes() -> None:
    file = DATA / "qemu_pelt_ptask.dat"
    refused = run("replay", str(file), "--machine", "qemu8", "--seed", "-1")
    assert refused.exit_code == 2
    assert "--seed" in refused.stderr
    last = replayed(file, "--machine", "qemu8", "--seed", str(2**64 - 1), "--seeds", "2")
    assert len(last["check"]["chance"]["with_trace"]) == 2


def test_few_wakeups_are_judged_together() -> None:
    latencies = [10.0] * 30
    often = {"comm": "a", "run_ns": 10**9, "wakeups": 30, "p50_us": 10.0, "p99_us": 10.0}
    often |= {"latencies_us": latencies}
    rare = {"comm": "b", "run_ns": 10**6, "wakeups": 2, "p50_us": 9.0, "p99_us": 9.0}
    rare |= {"latencies_us": [9.0, 9.0]}
    rows = agreement({1: often, 2: rare}, {1: often, 2: rare | {"run_ns": 2 * 10**6}}, [1, 2]).rows
    assert [(row["comm"], row["off"]) for row in rows] == [("a", []), ("(1 tasks)", ["run_ns"])]


def test_python_says_what_the_command_line_says() -> None:
    replay = replay_trace(MENU, machine="simidle", traced_kernel="v6.12")
    assert replay.check.digest == replayed(MENU, "--machine", "simidle")["check"]["digest"]
