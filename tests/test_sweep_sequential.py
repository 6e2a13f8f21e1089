"""Stopping by evidence: intervals that hold at every look, and the best of many variants."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from beat import PLAN
from click.testing import CliRunner
from schedlab.cli import main
from schedlab.stats.selection import Selection
from schedlab.stats.sequential import LEAST, critical
from schedlab.sweep import run_sweep
from schedlab.sweep.load import parse
from schedlab.sweep.sequential import Until
from scipy import special

LOOKS = 200
TRIALS = 4000


def ever_beyond(limits: list[float], generator: np.random.Generator) -> float:
    """Give the share of trials of no effect in which t is beyond its limit at some look."""
    values = generator.normal(size=(TRIALS, LOOKS))
    n = np.arange(1, LOOKS + 1)
    mean = values.cumsum(axis=1) / n
    variance = ((values**2).cumsum(axis=1) - n * mean**2)[:, 1:] / (n - 1)[1:]
    t = np.abs(mean[:, 1:]) / np.sqrt(variance / n[1:])
    return float((t[:, LEAST - 2 :] > np.array(limits[LEAST - 1 :])).any(axis=1).mean())


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_looking_often_errs_no_more_often_than_said_and_fixed_intervals_do(alpha: float) -> None:
    generator = np.random.default_rng(7)
    sequence = ever_beyond([critical(n, alpha) for n in range(1, LOOKS + 1)], generator)
    fixed = [float("inf"), *special.stdtrit(np.arange(1, LOOKS), 1 - alpha / 2)]
    assert sequence <= alpha + 3 * (alpha * (1 - alpha) / TRIALS) ** 0.5
    # Not so far below that nothing would ever be found, either.
    assert sequence > alpha / 4
    assert ever_beyond(fixed, generator) > 4 * alpha


def test_the_best_is_selected_as_often_as_said_and_common_numbers_shorten_the_search() -> None:
    generator = np.random.default_rng(3)
    right, runs = 0, {True: 0, False: 0}
    trials = 60
    for _ in range(trials):
        for common in (True, False):
            search = Selection(6, zone=1.0, alpha=0.1, first=10)
            while len(search.left) > 1:
                shared = 3 * generator.normal()
                search.add(
                    {
                        at: float(at > 0)
                        + generator.normal()
                        + (shared if common else 3 * generator.normal())
                        for at in search.left
                    }
                )
            runs[common] += sum(search.count(at) for at in range(6))
            right += common and search.left == [0]
    assert right >= 0.9 * trials
    assert runs[True] < 0.5 * runs[False]


def test_equal_variants_end_the_search() -> None:
    search = Selection(2, zone=0.1, alpha=0.05, first=3)
    for _ in range(3):
        search.add(dict.fromkeys(search.left, 1.0))
    assert search.left == [0]


def test_open_comparisons_get_iterations_and_settled_ones_do_not(tmp_path: Path) -> None:
    # Migrations differ by much, energy by a little: the second needs more looks.
    text = PLAN.replace("iterations = 3", "iterations = 5\nmargin_pct = 0.01")
    plan = parse(text.replace('better = "lower"', 'better = "lower"', 1), "plan.toml", Path())
    result = run_sweep(plan, store=tmp_path, until=Until(width_pct=3.0, most=40), jobs=2)
    compared = [row for row in result.rows if row.compared is not None]
    counts = {row.n for row in compared}
    assert len(counts) == 2
    assert min(counts) >= LEAST
    for row in compared:
        assert row.compared is not None
        assert row.compared.interval_pct is not None
        low, high = row.compared.interval_pct
        assert high - low <= 3.0 or row.n == 40
    assert result.tally.done == 2 * sum(row.n for row in compared)


def test_select_names_the_best_and_drops_the_others(tmp_path: Path) -> None:
    text = PLAN.replace('name = "beat"\nmachines', 'name = "beat"\ncompare = "run_us"\nmachines')
    text = text.replace("[300, 2000]", "[2000, 1000, 300, 310]").replace(
        '[[treatment]]\nkernel = "v6.12"\n', ""
    )
    plan = tmp_path / "plan.toml"
    plan.write_text(text, encoding="utf-8")
    words = ["sweep", str(plan), "--store", str(tmp_path / "store"), "--select", "energy"]
    found = CliRunner().invoke(main, [*words, "--zone", "5", "--json"])
    assert found.exit_code == 0, found.output
    [picked] = json.loads(found.stdout)
    assert picked["variant"] in {"300", "310"}
    assert {name: dropped is None for name, _, _, dropped in picked["means"]}[picked["variant"]]
    assert picked["means"][-1][3] == 10
    shown = CliRunner().invoke(main, [*words, "--zone", "5"])
    assert "best by energy: run_us 3" in shown.stdout
    assert "0 runs simulated" in shown.stderr


@pytest.mark.parametrize("words", [["--until", "width=x"], ["--until", "w=3"], ["--until", ""]])
def test_a_stop_that_cannot_be_is_refused(words: list[str], tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN, encoding="utf-8")
    found = CliRunner().invoke(main, ["sweep", str(plan), *words])
    assert found.exit_code == 2
    assert "is neither verdict nor width=PCT" in found.output
