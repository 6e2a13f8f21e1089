"""The study of packing at its small size: what needs no fitting, and what the pictures show."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from schedlab import Kernel, KernelError
from schedlab.cli import main
from schedlab.report import uses
from schedlab.study import load, run_control

if TYPE_CHECKING:
    from pathlib import Path

NAME = "power-aware"

Found = tuple[dict[str, Any], "Path"]


def study(*arguments: str | Path) -> str:
    result = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"}).invoke(
        main, ["study", *map(str, arguments)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("power")
    found = study(
        *("run", NAME, "--small", "--json", "--store", folder / "store"),
        *("--plots", folder / "plots", "--report", folder / "page.html"),
    )
    return json.loads(found), folder


def value(found: Found, workload: str, metric: str, kernel: str) -> float:
    rows: list[dict[str, Any]] = found[0]["rows"]
    (only,) = (
        row["simulated"]
        for row in rows
        if (row["workload"], row["metric"], row["kernel"]) == (workload, metric, kernel)
    )
    return float(only)


@pytest.mark.parametrize("threads", [2, 4, 8, 16])
def test_by_default_both_sockets_are_used_and_packed_one(small: Found, threads: int) -> None:
    workload = f"ebizzy-{threads}"
    assert value(small, workload, "sockets", "performance") == 2
    assert value(small, workload, "sockets", "group-weight") == 1
    assert value(small, workload, "cores", "group-weight") < value(
        small, workload, "cores", "performance"
    )


def test_efficiency_follows_from_records_and_power(small: Found) -> None:
    for threads in (2, 16):
        change = {
            figure: 1 + value(small, f"ebizzy-{threads}", f"{figure}, change", "group-weight") / 100
            for figure in ("records/s", "power", "records/s per W")
        }
        # Means of ratios of few runs, not the ratio of means.
        assert change["records/s per W"] == pytest.approx(
            change["records/s"] / change["power"], abs=0.01
        )


def test_the_page_and_the_pictures_show_cores_over_time(small: Found) -> None:
    page = (small[1] / "page.html").read_text(encoding="utf-8")
    assert "cores 0 to 7 are the first socket" in page
    drawings = sorted((small[1] / "plots").glob("*.svg"))
    assert len(drawings) == len(load(NAME).plots) + len(load(NAME).uses)
    panels = drawings[-1].read_text(encoding="utf-8")
    assert "var(--" not in panels
    assert {"performance", "group-weight"} <= set(re.findall(r">([\w-]+)</text>", panels))


def test_a_picture_adds_up_to_the_threads_that_run() -> None:
    found = load(NAME)
    use = next(use for use in found.uses if use.workload == "ebizzy-4")
    rows = [row for row in uses.values(found, use) if row["kernel"] == "performance"]
    area = sum(row["busy"] * (row["to"] - row["from"]) for row in rows)
    # Four threads compute all the time, and hardly anything else does.
    assert area / use.until_s == pytest.approx(4, abs=0.3)


def test_threads_that_share_nothing_lose_nothing_by_packing(tmp_path: Path) -> None:
    found = load(NAME)
    (control,) = found.controls
    knob = replace(control, fails=["ebizzy-2"])
    result, noticed = run_control(found, knob, small=True, store=tmp_path)
    change = next(
        row.simulated
        for row in result.rows
        if (row.metric, row.kernel) == ("records/s, change", "group-weight")
    )
    assert noticed
    assert change == pytest.approx(0, abs=2)


def test_what_the_series_does_not_have_is_refused() -> None:
    text = Kernel.preset_toml("v3.9-power")
    for old, new, says in [
        ('policy = "powersaving"', 'policy = "balance"', "dropped with version 6"),
        ('policy = "powersaving"', 'policy = "eco"', 'policy is "performance" or "powersaving"'),
        ("burst_threshold_ns = 100_000", "burst_threshold_ns = 99_000_000_000", "10 s at most"),
        ("smt_gain = 1_178", "smt_gain = 0", "smt_gain must be 1 to 65536"),
        ('threshold = "group-weight"', 'threshold = "cores"', "group-capacity"),
    ]:
        with pytest.raises(KernelError, match=re.escape(says)):
            Kernel.parse(text.replace(old, new, 1), "mine.toml")
    alone = re.sub(r"\[classic\.v3_9\].*?(?=# The series' own)", "", text, flags=re.DOTALL)
    with pytest.raises(KernelError, match=re.escape("builds on [classic.v3_9]")):
        Kernel.parse(alone, "mine.toml")
