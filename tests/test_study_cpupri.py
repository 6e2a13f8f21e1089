"""The studies of the priority map's layouts, and the figures that they compare."""

from __future__ import annotations

import pytest
import schedlab
from schedlab.study.figures import every_run
from schedlab.study.load import load
from schedlab.study.plan import plan

LAYOUTS = {
    "global",
    "per-node",
    "per-llc",
    "scalable-bitmap",
    "padded",
    "reordered",
    "overload-per-node",
    "contiguous",
}


@pytest.fixture(scope="module")
def run() -> schedlab.Simulation:
    """Give 5 ms of 60 processes on 480 CPUs, with every access to shared lines."""
    return schedlab.simulate("ffmpeg", machine="gnr-2s-snc3", duration_s=0.005, keep_c2c=True)


def test_every_layout_is_a_kernel_of_the_study() -> None:
    study = load("cpupri-per-node")
    assert {kernel.name for kernel in study.kernels} == LAYOUTS
    assert study.baseline.name == "global"
    assert len(plan(study, small=True)) == 2 * len(LAYOUTS)


def test_the_matrices_have_the_published_cases() -> None:
    study = load("cpupri-regressions")
    names = [case.name for case in study.cases]
    counts = {
        kind: sum(name.startswith(kind) for name in names)
        for kind in ("hackbench-process", "hackbench-threads", "schbench-old", "schbench-new")
    }
    assert counts == {
        "hackbench-process": 24,
        "hackbench-threads": 24,
        "schbench-old": 24,
        "schbench-new": 8,
    }
    assert study.published is not None
    published = {metric.published_change for metric in study.metrics if metric.published_change}
    assert published == {name for name, _ in study.published.values}


def test_shared_lines_are_told_by_place_and_function(run: schedlab.Simulation) -> None:
    assert run.c2c is not None
    masks = run.c2c.filter(run.c2c["line"].str.starts_with("pri_to_cpu[0].mask"))
    assert set(masks["symbol"]) >= {"cpupri_set", "_find_first_and_bit"}
    assert all(cycles >= 30 for cycles in masks.filter(masks["loads"] > 0)["load_cycles_mean"])


def test_nothing_is_told_where_nothing_is_asked(run: schedlab.Simulation) -> None:
    unasked = schedlab.simulate("ffmpeg", machine="gnr-2s-snc3", duration_s=0.005)
    assert unasked.c2c is None
    assert unasked.digest == run.digest


def test_kernel_cycles_are_what_tasks_do_not_compute(run: schedlab.Simulation) -> None:
    busy_ns, user_ns = sum(run.cpus["busy_ns"]), sum(run.tasks["user_ns"])
    share = every_run(run, schedlab.Machine.load("gnr-2s-snc3"))["kernel cycles"]
    assert share is not None
    assert share == pytest.approx(100 * (1 - user_ns / busy_ns))
    assert 0 < share < 100
