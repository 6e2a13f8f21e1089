"""``schedlab run`` and ``schedlab.simulate`` as people and programs meet them."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import schedlab
from click.testing import CliRunner, Result
from schedlab.cli import main
from terminal import interrupt

POOL = Path(schedlab.__file__).parent / "studies" / "thread-pool.json"

MAIN = "from schedlab.cli import main; main()"

# Two that wait for somebody who is not there.
STUCK = """{"global": {"duration": -1}, "tasks": {
  "worker": {"instance": 2, "loop": 1, "phases": {"a": {"suspend": "nobody"}}}}}"""


def run(*arguments: str | Path) -> Result:
    runner = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"})
    return runner.invoke(main, ["run", *map(str, arguments)])


def run_json(*arguments: str | Path) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_one_of_a_kind_is_told_in_the_singular() -> None:
    told = run("bunzip2", "--duration", "0.01").stdout
    assert "\n1 task born on 1 CPU; 2 switches, 0 migrations\n" in told


def refusal(*arguments: str | Path) -> str:
    """Give the complaint of a run that must end with one or two lines and exit code 2."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) <= 2, result.stderr
    return result.stderr


def test_the_summary_has_figures_cpus_energy_and_digest() -> None:
    result = run("periodic", "--duration", "0.2", "--limit", "3")
    assert result.exit_code == 0, result.output
    for word in ("periodic on generic under v6.12", "busy %", "energy", "digest", "IPIs"):
        assert word in result.stdout
    assert "... 5 more; --limit 0 shows all" in result.stdout


def test_interrupts_are_told_by_cpu_and_kind() -> None:
    result = run("periodic", "--machine", "atom-netbook-ht", "--duration", "0.2", "--interrupts")
    assert result.exit_code == 0, result.output
    for word in ("softirqs", "answered", "broadcast", "softirq ms"):
        assert word in result.stdout
    found = run_json("periodic", "--machine", "atom-netbook-ht", "--duration", "0.2")
    for cpu in found["cpus"]:
        assert cpu["softirq_ns"] <= cpu["irq_ns"] <= cpu["busy_ns"]
        assert cpu["idle_ticks"] <= cpu["ticks"]
        kinds = cpu["ipis_reschedule"] + cpu["ipis_kick"] + cpu["ipis_timer"]
        assert max(cpu["ipis_reschedule"], cpu["ipis_kick"], cpu["ipis_timer"]) <= cpu["ipis"]
        assert cpu["ipis"] <= kinds

    def total(name: str) -> int:
        return int(sum(cpu[name] for cpu in found["cpus"]))

    # The run may end before the last kick arrives.
    assert total("kicks_sent") - total("kicks_answered") - total("kicks_refused") in (0, 1)
    # The boot CPU of a netbook wakes the other one, whose timer sleeps.
    assert total("ipis_timer") > 0
    assert found["cpus"][0]["broadcasts"] >= total("ipis_timer")


def test_an_idle_thread_of_a_netbook_ticks_under_2_6_32_alone(tmp_path: Path) -> None:
    program = tmp_path / "one.json"
    program.write_text(json.dumps({"tasks": {"one": {"loop": 1, "run": 1_000_000}}}))

    def idle_ticks(kernel: str) -> int:
        found = run_json(program, "--machine", "atom-netbook-ht", "--kernel", kernel)
        return int(sum(cpu["idle_ticks"] for cpu in found["cpus"]))

    # The task runs for a second of its own time at 1000 Hz; the netbook's other thread takes half
    # of some of it.
    assert 950 < idle_ticks("v2.6.32") < 1200
    assert idle_ticks("v2.6.36") == 0


def test_time_adds_up_on_every_cpu() -> None:
    found = run_json("hackbench", "--duration", "0.05")
    assert found["ending"] == "time up"
    for cpu in found["cpus"]:
        assert cpu["busy_ns"] + cpu["idle_ns"] == pytest.approx(found["end_ns"], abs=20_000)
    rails = ("cores_j", "packages_j", "machine_j", "transitions_j")
    assert found["energy"]["total_j"] == pytest.approx(sum(found["energy"][rail] for rail in rails))


def test_a_run_depends_on_its_inputs_alone() -> None:
    given = ("schbench", "--duration", "0.05", "--seed", "7")
    first, second = run_json(*given), run_json(*given)
    assert first == second
    other = run_json("schbench", "--duration", "0.05", "--seed", "8")
    assert other["digest"] != first["digest"]


def test_what_is_kept_does_not_change_the_run() -> None:
    bare = schedlab.simulate("hackbench", duration_s=0.02)
    kept = schedlab.simulate("hackbench", duration_s=0.02, keep_events=True, keep_decisions=True)
    assert kept.digest == bare.digest
    assert kept.figures.equals(bare.figures)
    assert kept.tasks.equals(bare.tasks)


def test_ties_are_shuffled_on_request() -> None:
    calm = run_json("periodic", "--duration", "0.1")
    shuffled = run_json("periodic", "--duration", "0.1", "--shuffle-ties")
    assert shuffled["digest"] != calm["digest"]
    assert run_json("periodic", "--duration", "0.1", "--shuffle-ties") == shuffled


def test_kernels_place_forked_threads_differently(tmp_path: Path) -> None:
    """The births of FORK are exact: see the study idlest-group-util."""
    toml = schedlab.Kernel.preset_toml("v5.7")
    new = tmp_path / "new.toml"
    new.write_text(toml.replace('idlest_tie = "first"', 'idlest_tie = "group-util"'))
    births = {}
    for kernel in ("v5.7", str(new)):
        found = run_json(POOL, "--machine", "kunpeng920-2s", "--kernel", kernel)
        births[kernel] = {task["birth_cpu"] for task in found["tasks"][1:]}
    assert births == {"v5.7": {1}, str(new): set(range(1, 32))}


def test_placement_by_energy_shows_each_candidates_energy() -> None:
    given = ("docs/workloads/light.toml", "--machine", "pixel6-gs101", "--duration", "0.1")
    rows = run_json(*given, "--explain")["decisions"]
    wakes = [row for row in rows if row["occasion"] == "wake"]
    assert wakes
    assert {row["reason"] for row in wakes} <= {"least energy", "energy: no CPU is cheaper"}
    shown = re.compile(r"CPU (\d+) +energy (\d+) \+ (\d+), spare_capacity=(\d+)")
    for row in wakes:
        candidates = {int(cpu): int(delta) for cpu, _, delta, _ in shown.findall(row["text"])}
        assert candidates[row["cpu"]] == min(candidates.values())
    # No schedutil, no energy; and the kernels before v5.0 did without.
    for words in (("--cpufreq", "performance"), ("--kernel", "v3.9")):
        rows = run_json(*given, *words, "--explain")["decisions"]
        assert not [row for row in rows if "energy" in row["reason"]]


def test_a_task_to_explain_must_be_there_and_may_never_be_placed() -> None:
    result = run("periodic", "--duration", "0.01", "--explain-task", "99999")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--explain-task 99999: there is no such task; the run has 32, 0 to 31" in result.stderr


def test_a_run_without_shared_lines_says_so() -> None:
    shown = run("periodic", "--duration", "0.01", "--c2c").stdout
    assert shown.endswith("\nno cache line that real-time scheduling shares was accessed\n")


def test_explained_placements_name_candidates_and_the_reason() -> None:
    given = (POOL, "--machine", "kunpeng920-2s", "--kernel", "v5.7")
    rows = run_json(*given, "--explain")["decisions"]
    forks = [row for row in rows if row["occasion"] == "fork" and row["task"] > 0]
    assert {row["reason"] for row in forks} == {"leaves by idle_cpus, tie by ring order"}
    result = run(*given, "--explain-task", "2")
    assert "group of CPU 1    chosen" in result.stdout
    assert "NUMA allowance" in result.stdout
    assert "fork of task 3" not in result.stdout
    listed = run(*given, "--explain", "--limit", "2").stdout
    assert "tie by ring order" in listed


def test_what_a_trace_leaves_out_needs_a_trace() -> None:
    result = run("periodic", "--duration", "0.01", "--no-trace-interrupts")
    assert result.exit_code == 2
    assert "give both" in result.stderr


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".pftrace"])
def test_a_run_is_written_as_a_trace(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"run{suffix}"
    found = run_json("hackbench", "--duration", "0.01", "--trace", out)
    # Verdicts on sleeps, timers and interrupts follow from the other events, and are not among
    # those of the run.
    remarks = {"cpu_idle_miss", "tick_stop"}
    kinds = ("hrtimer_", "irq_", "softirq_", "reschedule_", "vector_")
    if suffix == ".pftrace":
        counts = schedlab.read_trace(out).info["events"]
        known = {name for name in counts if name in remarks or name.startswith(kinds)}
        assert {"hrtimer_start", "hrtimer_expire_entry", "tick_stop"} <= known
        assert sum(counts[name] for name in counts.keys() - known) == found["events"]
        return
    parquet = suffix == ".parquet"
    rows = pl.read_parquet(out) if parquet else pl.read_csv(out, infer_schema_length=None)
    own = rows.filter(
        ~pl.col("event").is_in(remarks) & ~pl.col("event").str.contains(f"^({'|'.join(kinds)})")
    )
    assert own.height == found["events"]
    missed = rows.filter(pl.col("event") == "cpu_idle_miss").height
    assert missed == sum(row["above"] + row["below"] for row in found["idle_states"]) > 0


def test_idle_states_are_counted_and_limited() -> None:
    given = ("schbench", "--machine", "pixel6-gs101", "--kernel", "v6.1", "--duration", "0.3")
    shown = run(*given, "--idle")
    assert "too shallow" in shown.stdout
    assert "rail S2M_VDD_CPUCL2, CPUs 6-7:" in shown.stdout
    assert "MHz on average" in shown.stdout
    limited = run_json(*given, "--cpu-latency-us", "400")["idle_states"]
    entered = {(row["cpu"], row["name"]): row["usage"] for row in limited}
    # The big cores' governor sees 455 us, the others' 230 and 340; all slept deeply before.
    assert entered[7, "c2"] == 1
    assert entered[0, "c2"] > 1


def test_idle_states_share_all_idle_time() -> None:
    given = ("perf-sched-pipe", "--machine", "pixel6-gs101", "--duration", "0.1")
    found = run_json(*given)
    for cpu in found["cpus"]:
        own = [row for row in found["idle_states"] if row["cpu"] == cpu["cpu"]]
        assert sum(row["residency_ns"] for row in own) == cpu["idle_ns"]
    # Of a sleep from the beginning to the end the kernel counts nothing.
    asleep = [row for row in found["idle_states"] if row["residency_ns"] == found["end_ns"]]
    assert {row["usage"] for row in asleep} == {0}


def test_frequencies_are_chosen_and_limited() -> None:
    given = ("schbench", "--machine", "pixel6-gs101", "--kernel", "v6.1", "--duration", "0.3")
    found = run_json(*given, "--cpufreq", "userspace:1800", "--thermal-limit", "big:1600")
    used = {row["cpus"]: row["khz"] for row in found["frequencies"] if row["time_ns"]}
    assert used == {"0-3": 1_803_000, "4-5": 1_836_000, "6-7": 1_582_000}
    assert sum(row["energy_mj"] for row in found["rails"]) == pytest.approx(
        1e3 * found["energy"]["total_j"]
    )
    for wrong, words in [
        (("--cpufreq", "ondemand"), "no cpufreq governor"),
        (("--thermal-limit", "big:1"), "no kind of core big that runs at 1000 kHz"),
        (("--thermal-limit", "big"), "takes KIND:MHZ"),
        (("--cpufreq", "schedutil", "--kernel", "v2.6.32"), "has no schedutil"),
    ]:
        result = run(*given, *wrong)
        assert result.exit_code == 2
        assert words in result.output


def test_a_recorded_run_answers_what_a_trace_answers() -> None:
    done = schedlab.simulate("periodic", duration_s=0.2, keep_events=True)
    assert done.trace is not None
    tasks = done.trace.tasks().sort("pid").filter(pl.col("pid") > 0)
    own = done.tasks["runtime_ns"].sum()
    # The kernel accounts for a run when a tick or a switch ends it, and leaves interrupts out.
    assert tasks["run_ns"].sum() == pytest.approx(own, rel=0.03)
    assert done.trace.wakeup_latency(by="comm")["count"].sum() > 0


def test_a_report_of_a_run_has_its_timeline(tmp_path: Path) -> None:
    out = tmp_path / "run.html"
    assert run("periodic", "--duration", "0.05", "--report", out).exit_code == 0
    page = out.read_text()
    assert "periodic on generic" in page
    assert "Wakeup latency" in page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["sysbench-cpus"], "did you mean sysbench-cpu"),
        (["ebizzy", "--kernel", "v6.2"], "did you mean v6.12"),
        (["ebizzy", "--machine", "kunpeng920"], "did you mean kunpeng920-2s?"),
        (["ebizzy", "--duration", "0"], "a duration of 0 s"),
        (["ebizzy", "--duration", "nan"], "a duration of nan s"),
        (["."], "Is a directory"),
    ],
)
def test_what_cannot_run_is_named_with_its_mend(arguments: list[str], says: str) -> None:
    assert says in refusal(*arguments)


def test_files_are_refused_by_line(tmp_path: Path) -> None:
    workload = tmp_path / "w.toml"
    workload.write_text("model = 'hackbench'\n[options]\ngroups = 1\nfdz = 4\n")
    assert f"{workload}:4: unknown field `fdz`" in refusal(workload)
    machine = tmp_path / "m.toml"
    machine.write_text("name = 'm'\n[topology]\npackages = 0\n")
    assert f"{machine}:" in refusal("ebizzy", "--machine", machine)
    binary = tmp_path / "w.json"
    binary.write_bytes(b"\xff\xfe{}")
    assert "not text" in refusal(binary)


def test_what_could_never_run_is_refused_by_line(tmp_path: Path) -> None:
    machine = tmp_path / "m.toml"
    lines = (schedlab.Machine.preset_toml("qemu4") or "").splitlines()
    place = lines.index("cores_per_llc = 4")
    lines[place] = "cores_per_llc = 0"
    machine.write_text("\n".join(lines))
    assert f"{machine}:{place}: the counts multiply to no CPU" in refusal(
        "periodic", "--machine", machine
    )
    model = tmp_path / "w.toml"
    model.write_text("model = 'periodic'\n[options]\n\ntasks = 1000000\n")
    assert f"{model}:4: tasks = 1000000 is not in 1 to 100000; change it" in refusal(model)
    workload = tmp_path / "w.json"
    workload.write_text('{\n"tasks": {"crowd": {"instance": 1000000, "run": 10}}}')
    assert f"{workload}:2: 1000000 threads are created; at most 100000" in refusal(workload)
    workload.write_text('{"tasks": {"far": {\n"cpus": [500], "run": 10}}}')
    assert f"{workload}:2: program far is allowed on no CPU of this machine" in refusal(workload)
    # Who comes to a barrier how often shows only in the run.
    workload.write_text(
        '{"tasks": {"twice": {"loop": 2, "barrier": "gate", "run": 1},\n'
        '"once": {"loop": 1, "barrier": "gate", "run": 1}}}'
    )
    complaint = refusal(workload)
    assert "twice (task 1) waits for barrier 0" in complaint
    assert "Mend the workload" in complaint


def test_kept_decisions_have_a_limit_and_later_ones_are_counted() -> None:
    run_long = schedlab.simulate("perf-sched-pipe", duration_s=1.0, keep_decisions=True)
    assert run_long.decisions is not None
    assert run_long.decisions.height == 100_000
    assert run_long.decisions_left_out > 0
    shown = run("perf-sched-pipe", "--duration", "1", "--explain", "--limit", "1").stdout
    assert f"{run_long.decisions_left_out} later decisions were not kept." in shown


def test_a_workload_that_ends_by_itself_has_the_time_to() -> None:
    found = run_json("sysbench-cpu")
    assert found["ending"] == "finished"
    assert found["end_ns"] > 10_000_000_000
    values = {figure["name"]: figure["value"] for figure in found["figures"]}
    assert values["total time"] == pytest.approx(10.0, abs=0.1)
    assert run_json("periodic")["end_ns"] == 10_000_000_000


def test_a_run_without_progress_says_who_waits_for_what(tmp_path: Path) -> None:
    workload = tmp_path / "stuck.json"
    workload.write_text(STUCK)
    complaint = refusal(workload)
    assert "nothing can happen any more" in complaint
    assert "worker" in complaint
    assert "waits for" in complaint


class Enough(Exception):  # noqa: N818 - what ends a run here is no error
    """Ends a run that would go on for hours."""


def test_other_threads_run_meanwhile() -> None:
    enough = threading.Event()

    def end_when_enough(_done: int, _total: int) -> None:
        if enough.is_set():
            raise Enough

    def simulate() -> None:
        with pytest.raises(Enough):
            schedlab.simulate("periodic", duration_s=1_000_000, progress=end_when_enough)

    thread = threading.Thread(target=simulate)
    thread.start()
    # This thread gets on while the other simulates, or this test never ends.
    for _ in range(100):
        time.sleep(0.001)
    enough.set()
    thread.join()


def test_an_interrupt_ends_a_run() -> None:
    process, written, seen = interrupt(
        [sys.executable, "-c", MAIN, "run", "periodic", "--duration", "1000000"], b"simulating"
    )
    assert process.returncode == 128 + signal.SIGINT
    assert written == b""
    assert b"Traceback" not in seen


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        told.append((done, total))
        if len(told) == 3:
            raise Enough

    with pytest.raises(Enough):
        schedlab.simulate("periodic", duration_s=1_000_000, progress=progress)
    assert told == sorted(told)
    assert all(0 < done <= total == 10**15 for done, total in told)
