"""``schedlab sweep`` and ``schedlab.run_sweep`` as people and programs meet them."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from beat import PLAN, study
from click.testing import CliRunner, Result
from schedlab import StudyError
from schedlab.cli import main
from schedlab.stats.moments import Moments, PairedMoments
from schedlab.stats.ratio import PairedMeans
from schedlab.store.segments import KeySet, Segments
from schedlab.sweep import design, run_sweep
from schedlab.sweep.hand import Hand
from schedlab.sweep.jobs import Jobs
from schedlab.sweep.load import parse
from schedlab.sweep.model import Limits
from schedlab.sweep.resolve import Recipe

SAMPLED = PLAN.replace("[baseline]", 'design = "{design}"\nsamples = 8\n\n[baseline]').replace(
    "values = [300, 2000]", "low = 100\nhigh = 3000\nlogarithmic = true"
)


def plan_of(text: str, folder: Path = Path()) -> Any:
    return parse(text, "plan.toml", folder)


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store that holds the plan, and the plan beside it."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    result = run("sweep", folder / "plan.toml", "--store", folder / "store", "--jobs", "2")
    assert result.exit_code == 0, result.output
    assert "12 runs simulated, 0 taken from the store" in result.stderr
    return folder


def test_a_sweep_that_is_repeated_takes_all_from_the_store(swept: Path) -> None:
    words = ("sweep", swept / "plan.toml", "--store", swept / "store", "--json")
    told = json.loads(run(*words).stdout)
    assert told["runs"] == {"simulated": 0, "stored": 12, "same": 0, "failed": 0, "failures": []}
    changes = [row["compared"]["change_pct"] for row in told["rows"] if row["compared"]]
    assert len(changes) == 2
    assert [row["n"] for row in told["rows"]] == [3, 3, 3, 3]


def test_runs_are_those_that_simulate_gives(swept: Path) -> None:
    import schedlab  # noqa: PLC0415 - the public way

    [row] = Segments(swept / "store").query(
        "SELECT DISTINCT seed, start_ns, digest FROM runs WHERE kernel = 'v6.12' AND "
        "settings LIKE '%2000%' ORDER BY seed LIMIT 1"
    )
    text = str(schedlab.Workload.preset_toml("periodic")) + "[options]\nrun_us = 2000\n"
    path = swept / "periodic.toml"
    path.write_text(text, encoding="utf-8")
    alone = schedlab.simulate(
        path, machine="generic", duration_s=0.02, seed=row["seed"], start_ns=row["start_ns"]
    )
    assert alone.digest == row["digest"]


def test_more_points_and_iterations_run_what_is_new_alone(swept: Path, tmp_path: Path) -> None:
    store = Segments(tmp_path)
    store.merge(Segments(swept / "store"))
    wider = PLAN.replace("[300, 2000]", "[300, 1000, 2000]").replace(
        "iterations = 3", "iterations = 4"
    )
    result = run_sweep(plan_of(wider), store=tmp_path, jobs=2)
    assert (result.tally.done, result.tally.stored) == (12, 12)
    assert {row.n for row in result.rows} == {4}
    assert result.runs.group_by("key").len().height == 24


def test_variants_of_an_iteration_share_seed_and_cells_do_not(swept: Path) -> None:
    jobs = Jobs(plan_of(PLAN))
    blocks = list(jobs.blocks())
    assert all(len({job.seed for job in block.jobs}) == 1 for block in blocks)
    assert len({block.jobs[0].seed for block in blocks}) == len(blocks)
    shared = Jobs(plan_of(PLAN.replace("iterations = 3", 'iterations = 3\ncommon = "all"')))
    assert {job.seed for block in shared.blocks() for job in block.jobs} == {1, 2, 3}
    seeds = {row["seed"] for row in Segments(swept / "store").query("FROM runs")}
    assert seeds == {block.jobs[0].seed for block in blocks}


def test_an_axis_may_be_what_is_compared_and_may_concern_one_kernel(tmp_path: Path) -> None:
    text = PLAN.replace("iterations = 3", 'iterations = 2\ncompare = "hz"\ncommon = "all"')
    text += '\n[[axis]]\ntarget = "kernel.tick.hz"\nvalues = [250, 1000]\nkernels = ["v6.12"]\n'
    result = run_sweep(plan_of(text), store=tmp_path, jobs=2)
    assert result.plan.variants == ["250", "1000"]
    # v6.1 does not take the axis: both its variants are one run.
    assert (result.tally.done, result.tally.same) == (12, 4)
    by_kernel = {
        row.kernel: row.compared.change_pct
        for row in result.rows
        if row.compared and row.values == {"run_us": 300}
    }
    assert by_kernel["v6.1"] == 0
    assert by_kernel["v6.12"] != 0


@pytest.mark.parametrize("name", ["latin-hypercube", "sobol"])
def test_samples_fill_the_space_and_repeat(name: str) -> None:
    plan = plan_of(SAMPLED.format(design=name))
    values = [value for (value,) in design.points(plan)]
    assert values == [value for (value,) in design.points(plan)]
    assert design.count(plan) == len(values) == 8
    # One in each eighth, by factors.
    edges = [100 * 30 ** (step / 8) for step in range(9)]
    counts = [
        sum(low <= value < high for value in values) for low, high in itertools.pairwise(edges)
    ]
    assert counts == [1] * 8


def test_a_run_beyond_its_limits_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    text = (
        PLAN.replace("duration_s = 0.02", "duration_s = 0.02")
        .replace("[300, 2000]", '[300]\n\n[[axis]]\ntarget = "duration_s"\nvalues = [0.02, 3000.0]')
        .replace("iterations = 3", "iterations = 1")
    )
    text += "\n[limits]\ntime_s = 0.5\n"
    plan = tmp_path / "plan.toml"
    plan.write_text(text, encoding="utf-8")
    result = run("sweep", plan, "--store", tmp_path / "store", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)["runs"]
    assert (told["simulated"], told["failed"]) == (4, 2)
    assert {each["error"] for each in told["failures"]} == {"took more than its limit of 0.5 s"}
    rows = Segments(tmp_path / "store").query(
        "SELECT DISTINCT seed FROM runs WHERE error IS NOT NULL"
    )
    assert {row["seed"] for row in rows} == {each["seed"] for each in told["failures"]}
    again = json.loads(run("sweep", plan, "--store", tmp_path / "store", "--json").stdout)["runs"]
    assert (again["simulated"], again["stored"]) == (0, 4)


def test_memory_has_a_limit_too() -> None:
    recipe = Recipe.of(plan_of(PLAN).study, small=False)
    order = ["generic", "beat", "v6.1", {"duration_s": 3000.0}, 1]
    hand = Hand(recipe.body(), Limits(memory_mb=1.0))
    try:
        [result] = hand.carry_out([order])
    finally:
        hand.close()
    assert "more than its limit of 1 MB" in result["error"]


def kill_worker(hand: Hand, times: int) -> None:
    """Kill a hand's worker in the midst of its second order so often."""
    last = None
    for _ in range(times):
        deadline = time.monotonic() + 120
        while hand.under_way != 1 or hand.pid == last:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        last = hand.pid
        assert last is not None
        os.kill(last, signal.SIGKILL)


def test_a_killed_worker_costs_nothing_and_a_run_that_kills_twice_has_failed() -> None:
    recipe = Recipe.of(plan_of(PLAN).study, small=False)
    short, long = (
        ["generic", "beat", "v6.1", {}, 1],
        ["generic", "beat", "v6.1", {"duration_s": 1e6}, 1],
    )
    hand = Hand(recipe.body(), Limits())
    killer = threading.Thread(target=kill_worker, args=(hand, 2))
    killer.start()
    try:
        first, second, third = hand.carry_out([short, long, short])
    finally:
        killer.join()
        hand.close()
    assert first["digest"] == third["digest"]
    assert second == {"error": "the worker died of SIGKILL, and another before it"}


def test_values_that_cannot_be_together_are_recorded_with_their_reason(tmp_path: Path) -> None:
    text = PLAN.replace("workload.run_us", "workload.uclamp_min").replace("300, 2000", "0, 800")
    text = text.replace("iterations = 3", "iterations = 1")
    text += '\n[[axis]]\ntarget = "workload.uclamp_max"\nvalues = [1024, 100]\n'
    result = run_sweep(plan_of(text), store=tmp_path, jobs=1)
    assert (result.tally.done, result.tally.failed) == (8, 2)
    assert "uclamp" in result.tally.failures[0][2]


def test_an_answer_stands_before_an_error_and_a_run_counts_once(tmp_path: Path) -> None:
    store = Segments(tmp_path)
    key = "ab" * 16
    store.write([{"key": key, "error": "killed"}])
    store.write([{"key": key, "figures": [["energy", "J", 1.0]]}, {"key": "cd" * 16, "error": "x"}])
    assert store.query("SELECT count(*) AS n, count(error) AS failed FROM runs") == [
        {"n": 2, "failed": 1}
    ]
    assert len(store.keys()) == 2
    assert len(store.keys(failed=False)) == 1
    before = store.query("FROM runs ORDER BY key")
    assert store.compact(least=2) == 1
    assert len(store.names()) == 1
    assert store.query("FROM runs ORDER BY key") == before


def test_a_damaged_segment_is_named(tmp_path: Path) -> None:
    store = Segments(tmp_path)
    store.write([{"key": "ab" * 16}])
    [name] = store.names()
    (tmp_path / "segments" / name).write_bytes(b"no parquet")
    result = run("store", "info", "--store", tmp_path)
    assert result.exit_code == 2
    assert name in result.output
    # A table of something else is no segment either, and the one at fault is named.
    store.write([{"key": "cd" * 16}])
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "segments" / name)
    assert f"{name}: " in run("store", "query", "FROM runs", "--store", tmp_path).output


def test_runs_of_another_program_are_counted_apart_and_do_not_count(
    swept: Path, tmp_path: Path
) -> None:
    [own] = Segments(swept / "store").query("SELECT DISTINCT program FROM runs")
    Segments(tmp_path).merge(Segments(swept / "store"))
    Segments(tmp_path).write([{"key": "ab" * 16, "program": "0.0.1+other"}])
    told = json.loads(run("store", "info", "--store", tmp_path, "--json").stdout)
    assert {"program": "0.0.1+other", "runs": 1} in told["programs"]
    assert {"program": own["program"], "runs": 12} in told["programs"]
    assert "runs of schedlab 0.0.1+other: 1\n" in run("store", "info", "--store", tmp_path).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("info", "--store", "plan.toml"), "plan.toml: a file, where a store is a folder"),
        (("merge", "nowhere"), "nowhere: no store with runs is there"),
        (("info", "--store", "foo://x"), "Protocol not known: foo; name a folder, or an address"),
    ],
)
def test_a_store_that_cannot_be_is_refused(
    words: tuple[str, ...], message: str, swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(swept)
    found = run("store", *words)
    assert found.exit_code == 2
    assert message in found.output


def test_a_store_tells_of_runs_of_studies_too(tmp_path: Path) -> None:
    text = study("run_us = 300", "energy", iterations=2, duration_s=0.01)
    (tmp_path / "beat.toml").write_text(text, encoding="utf-8")
    store = tmp_path / "store"
    done = run("study", "run", tmp_path / "beat.toml", "--store", store, "--jobs", "1")
    assert done.exit_code == 0, done.output
    told = run("store", "info", "--store", store).stdout
    assert "runs: 0\n" in told
    assert "study runs: 4\n" in told
    assert json.loads(run("store", "info", "--store", store, "--json").stdout)["study_runs"] == 4


@pytest.mark.parametrize("words", [("info",), ("query", "FROM runs"), ("compact",)])
def test_a_store_that_is_not_there_is_not_read(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run("store", *words, "--store", tmp_path / "typo")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "typo: no store is there; mend --store" in found.stderr
    monkeypatch.setenv("SCHEDLAB_STORE", str(tmp_path / "typo"))
    assert "typo: no store is there; mend $SCHEDLAB_STORE" in run("store", *words).stderr
    # Nobody names the cache, which is filled by the first sweep.
    monkeypatch.setenv("SCHEDLAB_STORE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert run("store", *words).exit_code == 0


def test_an_answer_without_rows_says_so(swept: Path) -> None:
    found = run("store", "query", "FROM runs WHERE key = 'x'", "--store", swept / "store")
    assert (found.exit_code, found.stdout) == (0, " (none)\n")


def test_keys_are_found_in_any_number() -> None:
    keys = KeySet()
    added = [f"{number * 7919:032x}" for number in range(KeySet.FRESH + 100)]
    keys.update(added)
    assert all(key in keys for key in added)
    assert f"{7919 * (KeySet.FRESH + 200):032x}" not in keys
    assert "00" * 16 in keys
    assert len(keys) == len(added)


def test_sums_give_the_test_that_values_give() -> None:
    base, other = [100.0, 104.0, 99.0, 101.5], [103.0, 105.0, 103.0, 104.5]
    frame = pl.DataFrame({"b": base, "d": [y - x for x, y in zip(base, other, strict=True)]})
    n, mean_b, mean_d, var_b, var_d, cov = frame.select(
        n=pl.len(),
        b=pl.col("b").mean(),
        d=pl.col("d").mean(),
        vb=pl.col("b").var(),
        vd=pl.col("d").var(),
        c=pl.cov("d", "b"),
    ).row(0)
    test = PairedMoments(Moments(n, mean_b, mean_d, var_b, var_d, cov))
    values = PairedMeans(base, other)
    assert test.p() == pytest.approx(values.p())
    assert test.interval(0.95) == pytest.approx(values.interval(0.95))
    assert test.p_equivalent(0.05) == pytest.approx(values.p_equivalent(0.05))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "workload.run_us",
            "workload.beat.runs_us",
            "plan.toml:17: workload.beat.runs_us = 300: periodic: unknown field `runs_us`",
        ),
        (
            "workload.run_us",
            "kernel.tick.hertz",
            "plan.toml:17: kernel.tick.hertz = 300: v6.1: unknown field `hertz`",
        ),
        (
            "workload.run_us",
            "machine.smt.power.7",
            "plan.toml:17: machine.smt.power.7 = 300: machine generic has no 7",
        ),
        ("[300, 2000]", '["x", 300]', "plan.toml:17: workload.run_us = x: periodic: invalid type"),
        (
            "[300, 2000]",
            "[300, -1]",
            "plan.toml:17: workload.run_us = -1: periodic: invalid value: integer `-1`",
        ),
        (
            'workload.run_us"\nvalues = [300, 2000]',
            'kernel.tick.hz"\nvalues = [100, 250, 7]',
            "plan.toml:17: kernel.tick.hz = 7: v6.1: hz is 7; ",
        ),
        (
            'workload.run_us"\nvalues = [300, 2000]',
            'duration_s"\nvalues = [0.02, -1]',
            "plan.toml:17: duration_s = -1: a duration of -1 s is none",
        ),
        (
            "values = [300, 2000]",
            "low = -1\nhigh = 300",
            "plan.toml:17: workload.run_us = -1: periodic: invalid value",
        ),
        (
            "duration_s = 0.02",
            "duration_s = 0.02\noptions = { run_s = 500 }",
            "plan.toml:16: beat.toml: unknown field `run_s`",
        ),
        (
            'kernel = "v6.12"',
            'kernel = "v6.12"\nset = { tick.hz = 7 }',
            "plan.toml:10: kernel v6.12: hz is 7",
        ),
        (
            'kernel = "v6.12"',
            'kernel = "v6.12"\nset = { tick.hertz = 7 }',
            "plan.toml:10: kernel v6.12 has no setting tick.hertz",
        ),
        ('["generic"]', '["gneric"]', "plan.toml:3: gneric: neither a file nor"),
        ('"v6.12"', '"v6.7"', "plan.toml:10: v6.7: neither a file nor"),
        ('"periodic"', '"perodic"', "plan.toml:14: perodic: neither a file nor"),
        ("[baseline]", "[basline]", "plan.toml:6: unknown key basline; did you mean baseline?"),
        ("[baseline]", "[other]", "plan.toml:1: there is no [baseline]; add it"),
        ("[[figure]]", "[[figur]]", "plan.toml:21: unknown key figur; did you mean figure?"),
        ("[[workload]]", "[[worklod]]", "plan.toml:12: unknown key worklod; did you mean"),
        ("[[axis]]", "[[axes]]", "plan.toml:17: unknown key axes; did you mean axis?"),
        ("values = [300, 2000]", "values = []", "plan.toml:19: values is empty"),
        ('better = "lower"', 'better = "less"', "it must be one of higher, lower"),
        ('"energy"', '"energie"', "plan.toml:22: no run of beat has figure 'energie'; did you"),
        ('"energy"', '"x"', "no run of beat has figure 'x'; there are birth CPUs, "),
        ('"energy"', '"wakeup latency x"', "no run of beat has figure 'wakeup latency x'"),
        ("workload.run_us", "disk.size", "must be workload.CASE.OPTION"),
        ("values = [300, 2000]", "low = 3", "plan.toml:17: high is missing"),
        ("values = [300, 2000]", "low = 0\nhigh = 9\nlogarithmic = true", "begin above 0"),
        ('name = "beat"', 'name = "beat"\ndesign = "sobol"', "needs samples"),
        ('name = "beat"', 'name = "beat"\ncompare = "kernels"', "did you mean kernel?"),
        ('machines = ["generic"]', "", "machines is missing"),
        ("[[figure]]", "[limits]\ntime = 3\n\n[[figure]]", "unknown key time"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in PLAN
    with pytest.raises((StudyError, ValueError)) as refused:
        run_sweep(plan_of(PLAN.replace(old, new, 1)), store=tmp_path)
    assert message in str(refused.value)
