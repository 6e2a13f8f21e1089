"""``schedlab bench run``: turns, settings that come back, and real benchmarks of this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from bench_kill import COMMAND, kill_often
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from schedlab.bench.run import context
from schedlab.bench.run.journal import JOURNAL, Journal, locked
from schedlab.bench.run.order import turns
from schedlab.bench.run.plan import load, names
from schedlab.bench.run.settings import Setting, find
from schedlab.cli import main
from schedlab.comparison.model import CompareError
from schedlab.store import Store

if TYPE_CHECKING:
    from pathlib import Path

BENCHMARK = '[[benchmark]]\nname = "b"\ntool = "hackbench"\ncommand = ["sh", "-c", "{script}"]\n'
VARIANTS = '[[variant]]\nname = "low"\n{low}\n[[variant]]\nname = "high"\n{high}\n'


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLAB_STATE", str(tmp_path / "state"))


def plan(
    folder: Path,
    script: str = "echo Time: 0.5",
    *,
    low: str = "",
    high: str = "",
    head: str = "iterations = 3\nwarmup = 0",
    variants: str = VARIANTS,
) -> Path:
    path = folder / "plan.toml"
    text = f'name = "p"\n{head}\n' + BENCHMARK.format(script=script)
    path.write_text(text + variants.format(low=low, high=high), encoding="utf-8")
    return path


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["bench", *map(str, words)])


def stored(folder: Path) -> list[dict[str, Any]]:
    return Store(folder).query("SELECT * FROM runs ORDER BY time_s")


@given(st.integers(1, 6), st.integers(0, 50), st.integers(0, 5))
def test_turns_are_balanced(variants: int, seed: int, benchmark: int) -> None:
    places: Counter[tuple[int, int]] = Counter()
    for iteration in range(2 * variants):
        order = turns(variants, iteration, seed, benchmark)
        assert sorted(order) == list(range(variants))
        places.update(enumerate(order))
    assert set(places.values()) == {2}


def test_turns_are_random() -> None:
    assert len({tuple(turns(4, 0, seed)) for seed in range(200)}) == 24


@pytest.mark.parametrize("name", names())
def test_built_in_plans_load(name: str) -> None:
    assert load(name).benchmarks


def test_all_benchmarks_of_the_studies_have_a_plan() -> None:
    programs = {each.command[0] for name in names() for each in load(name).benchmarks}
    text = " ".join(word for name in names() for b in load(name).benchmarks for word in b.command)
    assert {"sysbench", "ebizzy", "hackbench", "schbench"} <= programs
    assert all(word in text for word in ("bzip2", "bunzip2", "ffmpeg"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name = "x"', "plan.toml:1: there is nothing to run"),
        ('nam = "x"', "plan.toml:1: unknown key nam; did you mean name?"),
        ('name = "a b"\n[[benchmark]]\nname="b"\ncommand=["x"]', "use letters, digits"),
        ('name = "x"\n[[benchmark]]\nname="b"\ncommand=[]', "command is empty"),
        ('name = "x"\n[[benchmark]]\nname="b"\ntool="hackbenhc"\ncommand=["x"]', "must be one of"),
        ('name = "x"\niterations = 0', "iterations is 0; it must be at least 1"),
        ('name = "x"\ncpus = "0-9999"', "is not there"),
        ('name = "x"\ncpus = "all"', "write it as in 0-3,8"),
        (
            'name = "x"\n[[benchmark]]\nname="b"\ncommand=["x"]\n[[variant]]\nname="v"\n{}'.format(
                'switch=["true"]'
            ),
            "there must be restore",
        ),
        (
            'name = "x"\n[[benchmark]]\nname="b"\ncommand=["x"]\n' + '[[variant]]\nname="v"\n' * 2,
            "variant v stands there twice",
        ),
    ],
)
def test_a_bad_plan_is_refused_by_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text, encoding="utf-8")
    result = run("run", path)
    assert result.exit_code == 2
    assert words in result.output


@pytest.mark.parametrize(
    ("command", "extra", "words"),
    [
        ("nowhere-to-be-found", "", "nowhere-to-be-found is not installed"),
        ("true", "set = { sysctl.no.such = 1 }", "is not on this machine"),
        ("true", "set = { colour = 1 }", "colour: no such setting"),
        ("true", 'set = { cpuidle.governor = "nobody" }', "cpuidle.governor"),
        ("true", 'scheduler = ["true"]', "no sched_ext"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, extra: str, words: str
) -> None:
    monkeypatch.setattr("schedlab.bench.run.session.SCHED_EXT_STATE", tmp_path / "none")
    path = tmp_path / "plan.toml"
    path.write_text(
        f'name = "p"\n[[benchmark]]\nname = "b"\ncommand = ["{command}"]\n'
        f'[[variant]]\nname = "v"\n{extra}\n',
        encoding="utf-8",
    )
    result = run("run", path, "--store", tmp_path / "store")
    assert result.exit_code == 2
    assert words in result.output
    assert not (tmp_path / "store" / "runs").exists()


def test_a_plan_without_variants_needs_a_label_for_each_boot(tmp_path: Path) -> None:
    path = plan(tmp_path, variants="")
    store = tmp_path / "store"
    assert "name what this boot is by --label" in run("run", path, "--store", store).output
    for label in ("menu", "teo"):
        assert run("run", path, "--store", store, "--label", label).exit_code == 0
    assert Counter(row["kernel"] for row in stored(store)) == {"menu": 3, "teo": 3}
    result = CliRunner().invoke(main, ["compare", str(store), "--json"])
    table = json.loads(result.stdout)
    # One label after the other is no taking turns.
    assert not table["interleaved"]
    assert table["base"] == "menu"


def test_another_boot_needs_another_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = plan(tmp_path, variants="")
    store = tmp_path / "store"
    assert run("run", path, "--store", store, "--label", "menu").exit_code == 0
    there = context.machine()
    monkeypatch.setattr(context, "machine", lambda: {**there, "kernel_release": "9.9"})
    again = run("run", path, "--store", store, "--label", "menu")
    assert again.exit_code == 2
    assert "give it another --label" in again.output
    assert run("run", path, "--store", store, "--label", "other").exit_code == 0


def test_several_boots_of_each_label_are_the_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iterations of one boot share what it decided: the boots are what is compared."""
    path = plan(tmp_path, variants="", script="echo Time: $T")
    store = tmp_path / "store"
    for number, (label, value) in enumerate(
        [("a", "1.00"), ("b", "1.10"), ("a", "1.02"), ("b", "1.12"), ("a", "1.01"), ("b", "1.11")]
    ):
        monkeypatch.setattr("schedlab.bench.run.session.boot_id", lambda n=number: f"boot-{n}")
        monkeypatch.setenv("T", value)
        iterations = str(2 * (number // 2 + 1))
        done = run("run", path, "--store", store, "--label", label, "--iterations", iterations)
        assert done.exit_code == 0, done.output
    table = json.loads(CliRunner().invoke(main, ["compare", str(store), "--json"]).stdout)
    [row] = table["rows"]
    assert (row["base"]["n"], row["other"]["n"], row["paired"]) == (3, 3, False)
    assert row["base"]["middle"] == pytest.approx(1.01)
    assert row["verdict"] == "regressed"
    assert "means of boots" in table["provenance"]["values"]


def test_variants_take_turns_and_the_rest_is_as_it_was(tmp_path: Path) -> None:
    knob = tmp_path / "knob"
    knob.write_text("original\n", encoding="utf-8")
    path = plan(
        tmp_path,
        script=f"read x < {knob}; case $x in high) echo Time: 2;; original) echo Time: 1;; esac",
        high=f'set = {{ "{knob}" = "high" }}',
        head="iterations = 6\nwarmup = 1",
    )
    store = tmp_path / "store"
    assert run("run", path, "--store", store).exit_code == 0
    assert knob.read_text(encoding="utf-8") == "original\n"
    rows = stored(store)
    assert {(row["kernel"], row["value"]) for row in rows} == {("low", 1.0), ("high", 2.0)}
    assert len(rows) == 12
    first = Counter(rows[2 * i]["kernel"] for i in range(6))
    assert first == {"low": 3, "high": 3}
    noise = json.loads(rows[0]["noise"])
    assert noise["before"]["context_switches"] <= noise["after"]["context_switches"]
    assert {"loadavg", "steal_ticks", "idle_ticks"} <= noise["before"].keys()
    machine = json.loads(rows[0]["machine"])
    assert machine["kernel_release"] == os.uname().release
    assert machine["cpus"] >= 1
    table = json.loads(CliRunner().invoke(main, ["compare", str(store), "--json"]).stdout)
    assert table["interleaved"]
    assert table["rows"][0]["paired"]
    assert table["rows"][0]["verdict"] == "regressed"


def test_an_interrupted_plan_goes_on(tmp_path: Path) -> None:
    path = plan(tmp_path)
    store = tmp_path / "store"
    run("run", path, "--store", store, "--iterations", "2")
    result = run("run", path, "--store", store, "--json")
    assert json.loads(result.stdout)["runs"] == 2
    assert json.loads(result.stdout)["stored"] == 4
    path.write_text(path.read_text(encoding="utf-8").replace("0.5", "0.6"), encoding="utf-8")
    assert "as it was before it changed" in run("run", path, "--store", store).output


@pytest.mark.parametrize(
    ("script", "head", "words"),
    [
        ("echo broken; exit 3", "", "exit code 3: broken"),
        ("echo nothing", "", "no figure that was asked for: nothing"),
        ("sleep 60", "timeout_s = 0.2", "took longer than its timeout"),
        ("kill -SEGV $$", "", "was killed by SIGSEGV"),
    ],
)
def test_a_failing_command_ends_the_session_in_order(
    tmp_path: Path, script: str, head: str, words: str
) -> None:
    knob = tmp_path / "knob"
    knob.write_text("original\n", encoding="utf-8")
    setting = f'set = {{ "{knob}" = "x" }}'
    path = plan(tmp_path, script=script, low=setting, high=setting, head=f"warmup = 0\n{head}")
    began = time.monotonic()
    result = run("run", path, "--store", tmp_path / "store")
    assert time.monotonic() - began < 20
    assert result.exit_code == 2
    assert words in result.output
    assert "tried again" in result.output
    assert knob.read_text(encoding="utf-8") == "original\n"
    assert not (tmp_path / "state" / JOURNAL).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_and_settings_come_back(tmp_path: Path, number: signal.Signals) -> None:
    knob, mark = tmp_path / "knob", tmp_path / "mark"
    knob.write_text("original\n", encoding="utf-8")
    setting = f'set = {{ "{knob}" = "x" }}'
    path = plan(tmp_path, script=f"echo $$ > {mark}; sleep 60", low=setting, high=setting)
    process = subprocess.Popen(
        [*COMMAND, "bench", "run", path, "--store", tmp_path / "s"],
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 30
    while not mark.exists() or not mark.read_text(encoding="utf-8").strip():
        assert time.monotonic() < deadline, process.communicate()
        time.sleep(0.01)
    assert knob.read_text(encoding="utf-8") == "x\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGINT, errors
    assert knob.read_text(encoding="utf-8") == "original\n"
    child = int(mark.read_text(encoding="utf-8"))
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_kill_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    met = kill_often(5, tmp_path)
    assert met["changed"] > 0


def test_what_a_killed_run_left_is_put_back_by_hand_or_at_the_next_start(tmp_path: Path) -> None:
    knob = tmp_path / "knob"
    knob.write_text("original\n", encoding="utf-8")
    state = tmp_path / "state"
    state.mkdir()
    Journal(state).record([Setting(knob)], [])
    knob.write_text("changed\n", encoding="utf-8")
    assert f"put back {knob} = original" in run("restore").output
    assert knob.read_text(encoding="utf-8") == "original\n"
    assert "nothing to put back" in run("restore").output


def test_a_reboot_has_reset_the_kernels_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    knob, state = tmp_path / "knob", tmp_path / "state"
    knob.write_text("original\n", encoding="utf-8")
    state.mkdir()
    monkeypatch.setattr("schedlab.bench.run.journal.VOLATILE", (str(tmp_path),))
    Journal(state).record([Setting(knob)], ["false"])
    knob.write_text("new boot's\n", encoding="utf-8")
    monkeypatch.setattr("schedlab.bench.run.journal.boot_id", lambda: "another")
    with locked(state) as journal:
        assert journal.restored == []
    assert knob.read_text(encoding="utf-8") == "new boot's\n"


def test_what_cannot_be_put_back_is_said_and_kept(tmp_path: Path) -> None:
    knob, state = tmp_path / "knob", tmp_path / "state"
    knob.write_text("original\n", encoding="utf-8")
    state.mkdir()
    Journal(state).record([Setting(knob)], [])
    knob.unlink()
    result = run("restore")
    assert result.exit_code == 2
    assert f"cannot put back {knob} = original" in result.output
    assert (state / JOURNAL).exists()
    (state / JOURNAL).write_text("{", encoding="utf-8")
    assert "damaged" in run("restore").output


def test_only_one_runs_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path / "state"):
        result = run("run", plan(tmp_path), "--store", tmp_path / "store")
    assert result.exit_code == 2
    assert "another bench run is at work" in result.output


def test_commands_switch_and_one_undoes_them(tmp_path: Path) -> None:
    knob = tmp_path / "knob"
    path = plan(
        tmp_path,
        script=f"test -e {knob} && echo Time: 2 || echo Time: 1",
        high=f'switch = ["touch", "{knob}"]',
        head=f'restore = ["rm", "-f", "{knob}"]\nwarmup = 0\niterations = 4',
    )
    store = tmp_path / "store"
    assert run("run", path, "--store", store).exit_code == 0
    assert not knob.exists()
    assert {(row["kernel"], row["value"]) for row in stored(store)} == {("low", 1.0), ("high", 2.0)}


def test_environment_and_prefix_reach_the_command(tmp_path: Path) -> None:
    path = plan(
        tmp_path,
        script="echo Time: $X",
        low='env = { X = "1" }',
        high='prefix = ["env", "X=2"]',
    )
    store = tmp_path / "store"
    assert run("run", path, "--store", store).exit_code == 0
    assert {(row["kernel"], row["value"]) for row in stored(store)} == {("low", 1.0), ("high", 2.0)}


def kernel_files(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_settings_are_found_by_name(tmp_path: Path) -> None:
    kernel_files(
        tmp_path,
        {
            "sys/devices/system/cpu/cpuidle/current_governor": "menu\n",
            "sys/devices/system/cpu/cpuidle/available_governors": "menu teo \n",
            "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "powersave\n",
            "sys/devices/system/cpu/cpufreq/policy1/scaling_governor": "powersave\n",
            "sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors": "powersave p2\n",
            "proc/sys/kernel/numa_balancing": "1\n",
            "sys/kernel/debug/sched/features": "PLACE_LAG NO_NEXT_BUDDY HRTICK\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        },
    )
    assert find("cpuidle.governor", "teo", tmp_path)[0][0].read() == "menu"
    assert len(find("cpufreq.governor", "p2", tmp_path)) == 2
    assert find("sysctl.kernel.numa_balancing", "0", tmp_path)[0][0].read() == "1"
    [(feature, text)] = find("sched.features.NEXT_BUDDY", "1", tmp_path)
    assert (feature.read(), text) == ("NO_NEXT_BUDDY", "NEXT_BUDDY")
    assert find("sched.features.HRTICK", "0", tmp_path)[0][1] == "NO_HRTICK"
    assert find("thp", "never", tmp_path)[0][0].read() == "madvise"
    for name, value, words in (
        ("cpuidle.governor", "ladder", "there are menu, teo"),
        ("cpufreq.governor", "ondemand", "there are powersave, p2"),
        ("sched.features.NO_SUCH", "1", "has no feature"),
        ("smt", "off", "is not on this machine"),
        ("sched.base_slice_ns", "1", "mount debugfs"),
    ):
        with pytest.raises(CompareError, match=words):
            find(name, value, tmp_path)


def test_noise_is_read_where_the_kernel_tells_of_it(tmp_path: Path) -> None:
    cpu = "sys/devices/system/cpu"
    kernel_files(
        tmp_path,
        {
            "proc/stat": "cpu  1 2 3 400 5 6 7 80 9 10\nctxt 1234\n",
            "proc/loadavg": "0.50 0.40 0.30 1/100 999\n",
            "proc/cpuinfo": "model name\t: Xeon\nmicrocode\t: 0x2b\nflags\t\t: fpu hypervisor\n",
            f"{cpu}/cpu0/cpuidle/state1/name": "C1\n",
            f"{cpu}/cpu0/cpuidle/state1/usage": "10\n",
            f"{cpu}/cpu0/cpuidle/state1/above": "3\n",
            f"{cpu}/cpu1/cpuidle/state1/name": "C1\n",
            f"{cpu}/cpu1/cpuidle/state1/usage": "5\n",
            f"{cpu}/cpufreq/policy0/scaling_cur_freq": "2400000\n",
            "sys/class/thermal/thermal_zone0/temp": "45000\n",
            "sys/class/powercap/intel-rapl:0/name": "package-0\n",
            "sys/class/powercap/intel-rapl:0/energy_uj": "123456\n",
        },
    )
    found = context.moment(tmp_path)
    assert found["cpuidle"] == {"C1": {"usage": 15, "time_us": 0, "above": 3, "below": 0}}
    assert (found["steal_ticks"], found["context_switches"]) == (80, 1234)
    assert found["frequency_khz"] == [2400000]
    assert found["temperature_mc"] == [45000]
    assert found["energy_uj"] == {"package-0": 123456}
    machine = context.machine(tmp_path)
    assert (machine["microcode"], machine["hypervisor"], machine["cpus"]) == ("0x2b", "yes", 2)


REAL = """\
name = "real"
iterations = 2
warmup = 0
timeout_s = 60
cpus = "0"

[[benchmark]]
name = "hackbench"
tool = "hackbench"
command = ["hackbench", "-g", "1", "-f", "2", "-l", "50"]

[[benchmark]]
name = "sysbench"
tool = "sysbench"
metrics = ["events per second"]
command = ["sysbench", "cpu", "--time=0", "--events=20", "run"]

[[benchmark]]
name = "bzip2"
tool = "rusage"
prepare = ["sh", "-c", "head -c 200000 /dev/zero > input"]
creates = "input"
command = ["bzip2", "-k", "-f", "input"]

[[benchmark]]
name = "pipe"
tool = "perf-bench"
metrics = ["time per operation"]
command = ["perf", "bench", "sched", "pipe", "-l", "200"]

[[variant]]
name = "other"

[[variant]]
name = "batch"
prefix = ["chrt", "-b", "0"]
"""


@pytest.mark.skipif(
    not all(map(shutil.which, ("hackbench", "sysbench", "bzip2", "perf", "chrt"))),
    reason="needs rt-tests, sysbench, bzip2 and linux-perf",
)
def test_real_benchmarks_of_this_machine(tmp_path: Path) -> None:
    path = tmp_path / "real.toml"
    path.write_text(REAL, encoding="utf-8")
    result = run("run", path, "--store", tmp_path / "store")
    assert result.exit_code == 0, result.output
    rows = stored(tmp_path / "store")
    found = Counter((row["benchmark"], row["metric"]) for row in rows)
    assert found == {
        ("hackbench", "time"): 4,
        ("sysbench", "events per second"): 4,
        ("bzip2", "elapsed"): 4,
        ("bzip2", "user"): 4,
        ("bzip2", "system"): 4,
        ("pipe", "time per operation"): 4,
    }
    table = CliRunner().invoke(main, ["compare", str(tmp_path / "store")])
    assert table.exit_code == 0, table.output
    assert "batch against other" in table.stdout
