"""The study of idle balancing, at its small size: what theory says, exactly or nearly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from schedlab.cli import main
from schedlab.study import load

NAME = "nohz-push"

Found = tuple[dict[str, Any], Path]


def study(*arguments: str | Path) -> str:
    result = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"}).invoke(
        main, ["study", *map(str, arguments)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("nohz")
    found = study(
        *("run", NAME, "--small", "--json", "--store", folder / "store"),
        *("--plots", folder / "plots", "--report", folder / "page.html"),
    )
    return json.loads(found), folder


def row(found: Found, workload: str, metric: str, kernel: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = found[0]["rows"]
    (only,) = (
        row
        for row in rows
        if (row["workload"], row["metric"], row["kernel"]) == (workload, metric, kernel)
    )
    return only


def test_the_idle_thread_ticks_with_the_busy_one_or_never(small: Found) -> None:
    ticks = {
        kernel: row(small, "bunzip2", "idle ticks", kernel)["simulated"]
        for kernel in ("pull", "push", "modern")
    }
    elapsed_s = row(small, "bunzip2", "elapsed", "pull")["simulated"]
    # A thousand a second while bunzip2 does not wait for the disk: 237 ms, in 40 parts, each of
    # which is some ticks short or long at its ends.
    assert abs(ticks["pull"] - 1000 * (elapsed_s - 0.237)) <= 2 * 40
    assert (ticks["push"], ticks["modern"]) == (0, 0)
    assert row(small, "bunzip2", "kicks", "push")["simulated"] == 0


def test_the_loss_goes_with_the_ticks_and_with_what_threads_share(small: Found) -> None:
    change = {
        workload: row(small, workload, "user time, change", "push")["simulated"]
        for workload in ("bunzip2", "bunzip2-hz100", "bunzip2-two-cores")
    }
    assert change["bunzip2"] == pytest.approx(-16.6, abs=1)
    assert change["bunzip2-hz100"] == pytest.approx(change["bunzip2"] / 10, abs=0.35)
    assert change["bunzip2-two-cores"] == pytest.approx(0, abs=0.1)


def test_the_idle_socket_sleeps_and_saves(small: Found) -> None:
    asleep = {
        kernel: row(small, "bzip2", "package asleep", kernel)["simulated"]
        for kernel in ("pull", "push", "modern")
    }
    assert asleep["pull"] < 85
    assert min(asleep["push"], asleep["modern"]) > 99
    assert row(small, "bzip2", "energy, change", "push")["simulated"] < -1
    assert row(small, "bzip2", "elapsed, change", "push")["ok"]


def test_balancing_for_more_cpus_costs_more(small: Found) -> None:
    sizes = (8, 64, 480, 1024)
    cost = [row(small, f"idle-{cpus}", "busiest softirq", "modern")["simulated"] for cpus in sizes]
    assert cost == sorted(cost)
    assert cost[-1] > 20 * cost[0]


def test_plots_stand_in_files_and_on_the_page(small: Found) -> None:
    plots = load(NAME).plots
    files = sorted((small[1] / "plots").glob("*.svg"))
    assert len(files) == len(plots) == 2
    page = (small[1] / "page.html").read_text(encoding="utf-8")
    for plot, file in zip(plots, files, strict=True):
        drawing = file.read_text(encoding="utf-8")
        assert drawing.startswith("<svg ")
        assert "var(" not in drawing
        assert plot.y_title in drawing
        assert plot.title in page
    assert page.count("<svg ") == len(plots)


def test_turned_knobs_are_noticed(small: Found) -> None:
    found = json.loads(
        study("run", NAME, "--small", "--control", "--json", "--store", small[1] / "store")
    )
    assert [control["noticed"] for control in found] == [True, True]


def test_the_fitted_number_is_the_only_one_and_is_labelled() -> None:
    fitted = [each.target for each in load(NAME).parameters if each.kind == "fitted"]
    assert fitted == ["machine.kernel_paths.idle_tick_ns"]
