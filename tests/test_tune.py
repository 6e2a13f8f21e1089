"""``schedlab tune``: searches that find, go on, give up early, and confirm what they found."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import beat
import pytest
from click.testing import CliRunner, Result
from postgres_server import postgres_server
from schedlab.cli import main
from schedlab.study import StudyError, load
from schedlab.tune import Objective, Parameter, tune_study

if TYPE_CHECKING:
    from pathlib import Path

# The shorter the burst, the less energy: what is best is known.
STUDY = (
    beat.study("tasks = 4, run_us = 2000", "energy", iterations=4, duration_s=0.02)
    + """
[[workload]]
name = "wide"
workload = "periodic"
duration_s = 0.02
options = { tasks = 9, run_us = 2000 }
"""
)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "beat.toml"
    path.write_text(STUDY, encoding="utf-8")
    return path


def tune(study: Path, *words: str) -> Result:
    store = str(study.parent / "store")
    return CliRunner().invoke(main, ["tune", str(study), "--store", store, *words])


BURST = ("--parameter", "workload.run_us=100..4000", "--jobs", "2")


def test_what_is_best_is_found_and_confirmed(study: Path) -> None:
    words = (*BURST, "--objective", "energy", "--held-out", "wide", "--trials", "16", "--json")
    found = tune(study, *words)
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    [best] = told["front"]
    assert len(told["trials"]) == 16
    assert best["values"]["run_us"] < 1000
    assert best["changes_pct"][0] == min(
        trial["changes_pct"][0] for trial in told["trials"] if not trial["pruned"]
    )
    # Trials that are worse than most do not get all their runs.
    given_up = [trial for trial in told["trials"] if trial["pruned"]]
    assert all(trial["iterations"] < 4 for trial in given_up)
    assert {trial["iterations"] for trial in told["trials"] if not trial["pruned"]} == {4}
    seeds = {}
    for where, workload in (("search", "beat"), ("fresh", "beat"), ("held_out", "wide")):
        tuned = [row for row in best[where] if row["compared"]]
        assert [row["workload"] for row in tuned] == [workload]
        seeds[where] = tuned[0]["n"]
        assert tuned[0]["compared"]["change_pct"] < -10
    assert seeds == {"search": 4, "fresh": 10, "held_out": 10}
    # What it takes twice it takes from the store, and it is the same.
    page = study.parent / "page.html"
    again = json.loads(tune(study, *words, "--report", str(page)).stdout)
    assert again["runs"]["simulated"] == 0
    assert again["trials"] == told["trials"]
    for where in ("search", "fresh", "held_out"):
        first, second = ([row["mean"] for row in each["front"][0][where]] for each in (told, again))
        assert first == pytest.approx(second, rel=1e-12)
    told_there = re.search(r'id="figures">(.*?)</script>', page.read_text(), re.DOTALL)
    assert told_there is not None
    assert json.loads(told_there[1])["trials"] == told["trials"]
    titles = re.findall(r"<figcaption>(.*?)</figcaption>", page.read_text())
    assert titles == ["min:energy by run_us", "min:energy, trial by trial"]


def test_a_front_of_two_objectives_holds_what_no_other_is_better_than(study: Path) -> None:
    found = tune(
        study,
        *BURST,
        *("--objective", "min:energy", "--objective", "max:busy CPUs@beat"),
        *("--trials", "10", "--iterations", "2", "--fresh", "2", "--json"),
        *("--report", str(study.parent / "page.html")),
    )
    assert found.exit_code == 0, found.output
    page = (study.parent / "page.html").read_text(encoding="utf-8")
    assert "min:energy against max:busy CPUs@beat" in page
    assert "untuned" in page.split("<figure")[1]
    told = json.loads(found.stdout)
    front = [trial["changes_pct"] for trial in told["front"]]
    assert len(front) > 2
    assert front == sorted(front)
    # More energy buys busier CPUs all along it.
    assert [busy for _, busy in front] == sorted(busy for _, busy in front)
    for trial in told["trials"]:
        energy, busy = trial["changes_pct"]
        assert any(one <= energy and other >= busy for one, other in front) or len(front) == 8


def test_values_that_do_the_same_are_one_point_of_a_front(study: Path) -> None:
    # Neither keeps a CPU from any state.
    found = tune(
        study,
        *("--parameter", "kernel.cpuidle.cpu_latency_us=5000,6000", "--jobs", "2"),
        *("--objective", "min:energy", "--objective", "max:busy CPUs@beat"),
        *("--trials", "6", "--iterations", "2", "--fresh", "2", "--json"),
    )
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert len({str(trial["values"]) for trial in told["trials"]}) == 2
    assert len(told["front"]) == 1


def test_a_search_that_was_killed_goes_on(study: Path) -> None:
    store = study.parent / "store"
    words = [*BURST, "--objective", "energy", "--trials", "16", "--iterations", "2", "--fresh", "2"]
    command = [sys.executable, "-c", "from schedlab.cli import main; main()", "tune", str(study)]
    process = subprocess.Popen([*command, "--store", str(store), *words], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(store.glob("segments/*.parquet")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(random.random())  # noqa: S311 - no secret
    process.send_signal(signal.SIGKILL)
    process.wait()
    found = tune(study, *words, "--json")
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    assert len(told["trials"]) == 16
    assert told["runs"]["stored"] > 0
    # Whoever was killed may have held the journal's lock, which then lies beside it.
    assert len(list((store / "tune").glob("*.journal"))) == 1


def test_a_search_may_stand_in_a_database(study: Path) -> None:
    url = f"sqlite:///{study.parent / 'search.db'}"
    words = (*BURST, "--objective", "energy", "--trials", "4", "--iterations", "2", "--fresh", "2")
    first = json.loads(tune(study, *words, "--storage", url, "--json").stdout)
    again = json.loads(tune(study, *words, "--storage", url, "--json").stdout)
    assert first["trials"] == again["trials"]
    assert not (study.parent / "store" / "tune").exists()
    refused = tune(study, *words, "--storage", "postgresql://me:secret@127.0.0.1:1/x")
    assert refused.exit_code == 2
    assert "--storage 127.0.0.1:1/x" in refused.output
    assert "secret" not in refused.output


def test_several_may_work_at_one_search_in_postgresql(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*BURST, "--objective", "energy", "--trials", "6", "--iterations", "2", "--fresh", "2")
    with postgres_server() as url:
        command = [sys.executable, "-c", "from schedlab.cli import main; main()", "tune"]
        command += [str(study), *words, "--store", str(study.parent / "other"), "--storage", url]
        other = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        found = tune(study, *words, "--storage", url, "--json")
        assert found.exit_code == 0, found.output
        assert other.wait(60) == 0
        # All that both did is there, and each number once.
        told = json.loads(tune(study, *words, "--storage", url, "--json").stdout)
        numbers = [trial["number"] for trial in told["trials"]]
        assert len(set(numbers)) == len(numbers) >= 6
        assert told["front"][0]["number"] in numbers
        missing = tune(study, *words, "--storage", f"{url}x")
        assert missing.exit_code == 2
        assert 'database "postgresx" does not exist' in missing.output
    monkeypatch.setitem(sys.modules, "psycopg", None)
    refused = tune(study, *words, "--storage", "postgresql://127.0.0.1:1/x")
    assert refused.exit_code == 2
    assert "for PostgreSQL, `pip install psycopg[binary]` brings it" in refused.output


def test_words_are_chosen_among(study: Path) -> None:
    result = tune_study(
        study,
        ["kernel.cpuidle.governor=menu-6.1,teo-6.1,haltpoll"],
        ["energy"],
        workloads=["beat"],
        trials=6,
        iterations=2,
        fresh=2,
        store=study.parent / "store",
        jobs=1,
    )
    assert {trial.values["governor"] for trial in result.trials} <= {
        "menu-6.1",
        "teo-6.1",
        "haltpoll",
    }
    assert result.front[0].values["governor"] != "haltpoll"
    # The same as frames, for notebooks.
    trials = result.table
    assert trials["trial"].to_list() == [trial.number for trial in result.trials]
    assert trials["min:energy, change %"].to_list() == [t.changes_pct[0] for t in result.trials]
    confirmed = result.confirmed
    assert confirmed["where"].unique(maintain_order=True).to_list() == ["search", "fresh"]
    assert confirmed.filter(where="fresh", kernel="tuned")["n"].to_list() == [2]


def test_no_point_is_left_out_of_as_many_trials(study: Path) -> None:
    hz, run_us = "kernel.tick.hz=100,250,300", "workload.run_us=500..501"
    words = (
        "--parameter",
        hz,
        "--parameter",
        run_us,
        "--objective",
        "energy",
        "--iterations",
        "2",
        "--workload",
        "beat",
    )
    for trials, points in ((6, 6), (7, 6)):
        found = tune(study, *words, "--trials", str(trials), "--json")
        assert found.exit_code == 0, found.output
        told = [each["values"] for each in json.loads(found.stdout)["trials"]]
        assert len(told) == trials
        assert len({tuple(each.values()) for each in told}) == points


@pytest.mark.parametrize(
    ("parameter", "objective", "message"),
    [
        ("run_us=1..2", "energy", "run_us does not say whose it is; write governor."),
        ("workload.run_us", "energy", "write TARGET=LOW..HIGH"),
        ("workload.run_us=5..2", "energy", "no range that can be searched"),
        ("workload.run_us=0..2:log", "energy", "no range that can be searched"),
        ("workload.run_us=7", "energy", "one value is no choice"),
        ("workload.run_us=1..2", "power", "say which way"),
        ("workload.run_us=1..2", "up:energy", "up is neither min nor max; write min:energy or"),
        ("workload.run_us=1..2", "min:power@beats", "there is no workload beats"),
        ("kernel.cpuidle.no_such=1..2", "energy", "no_such"),
        ("workload.run_us=1..2", "min:birth CPUs", "no positive 'birth CPUs'"),
    ],
)
def test_what_cannot_be_tuned_is_refused(
    study: Path, parameter: str, objective: str, message: str
) -> None:
    found = tune(study, "--parameter", parameter, "--objective", objective, "--trials", "1")
    assert found.exit_code == 2, found.output
    assert message in found.output


def test_the_search_needs_its_extra(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    found = tune(study, *BURST, "--objective", "energy")
    assert found.exit_code == 2
    assert "needs optuna; install it by `pip install schedlab[sweep]`" in found.output


def test_a_study_tells_which_way_its_figures_go(study: Path) -> None:
    assert Objective.parse("energy", load(study)).name == "min:energy"
    assert Parameter.parse("governor.x=0.5..2").axis.whole is False
    with pytest.raises(StudyError):
        Objective.parse("migrations", load(study))
