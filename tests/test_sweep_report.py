"""Pictures of a sweep, which axes matter, and the notebook that shows both in Python."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from beat import PLAN
from click.testing import CliRunner
from schedlab.cli import main
from schedlab.report.sweep_charts import FAINT
from schedlab.sweep.design import points
from schedlab.sweep.load import parse
from schedlab.sweep.run import run_sweep
from schedlab.sweep.sensitivity import indices
from schedlab.sweep.table import Row

SECOND_AXIS = '\n[[axis]]\ntarget = "kernel.tick.hz"\nvalues = [100, 250]\n'
SECOND_FIGURE = '\n[[figure]]\nfigure = "busy CPUs"\nbetter = "higher"\n'
SALTELLI = PLAN.replace(
    "iterations = 3", 'iterations = 1\ndesign = "saltelli"\nsamples = {samples}\ncommon = "all"'
).replace(
    "values = [300, 2000]",
    'low = 0\nhigh = 1\nwhole = false\n\n[[axis]]\nname = "b"\ntarget = "workload.period_us"\n'
    "low = 0\nhigh = 1\nwhole = false",
)


def page_of(text: str, folder: Path) -> tuple[str, dict[str, Any]]:
    (folder / "plan.toml").write_text(text, encoding="utf-8")
    words = ["sweep", folder / "plan.toml", "--store", folder / "store", "--json", "--report"]
    found = CliRunner().invoke(main, [*map(str, words), str(folder / "page.html")])
    assert found.exit_code == 0, found.output
    return (folder / "page.html").read_text(encoding="utf-8"), json.loads(found.stdout)


def test_one_axis_gives_lines_with_intervals(tmp_path: Path) -> None:
    page, told = page_of(PLAN, tmp_path)
    assert page.count("<figure") == 1
    assert page.count("<svg") == 1
    assert "energy (J)" in page
    # Two lines, each with the area of its interval.
    assert page.count('aria-roledescription="area mark"') == 2
    assert page.count('aria-roledescription="line mark"') == 2
    figures = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    assert figures is not None
    assert json.loads(figures[1])["rows"] == told["rows"]
    assert "://" not in page.replace("http://www.w3.org/", "")


def test_two_axes_give_a_heat_map_and_two_figures_a_front(tmp_path: Path) -> None:
    page, told = page_of(PLAN + SECOND_AXIS + SECOND_FIGURE, tmp_path)
    titles = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    assert titles == [
        f"beat on generic: energy, change of v6.12, %{FAINT}",
        f"beat on generic: busy CPUs, change of v6.12, %{FAINT}",
        "beat on generic: trade-offs",
    ]
    changes = [
        f"{row['compared']['change_pct']:+.2f}"
        for row in told["rows"]
        if row["compared"] and row["figure"] == "energy"
    ]
    drawn = page.split("<figure")[1].replace("\N{MINUS SIGN}", "-")
    assert len(changes) == 4
    assert all(change in drawn for change in changes)


def test_a_grid_of_two_axes_prints_as_a_map(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN + SECOND_AXIS + SECOND_FIGURE, encoding="utf-8")
    words = ["sweep", str(plan), "--store", str(tmp_path / "store"), "--figure", "energy"]
    rows = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)["rows"]
    changes = {
        (row["values"]["run_us"], row["values"]["hz"]): row["compared"]["change_pct"]
        for row in rows
        if row["compared"] and row["figure"] == "energy"
    }
    found = CliRunner().invoke(main, [*words, "--map"])
    assert found.exit_code == 0, found.output
    assert "energy, change of v6.12, %; across: hz" in found.stdout
    assert "busy CPUs" not in found.stdout
    for run_us in (300, 2000):
        [line] = [each for each in found.stdout.splitlines() if each.split()[:1] == [str(run_us)]]
        told = [float(word.strip("()")) for word in line.split()[1:]]
        assert told == [round(changes[run_us, hz], 2) for hz in (100, 250)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--map"], "--map: a map needs a grid of two axes, and beat is a grid of 1"),
        (["--figure", "energie"], "--figure energie: beat has no such [[figure]]; did you mean"),
        (["--figure", "x"], "has no such [[figure]]; there are energy"),
    ],
)
def test_what_cannot_be_shown_is_refused_before_anything_runs(
    words: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    store = tmp_path / "store"
    found = CliRunner().invoke(
        main, ["sweep", str(tmp_path / "plan.toml"), "--store", str(store), *words]
    )
    assert found.exit_code == 2
    assert message in found.output
    assert not store.exists()


def ishigami(a: float, b: float) -> float:
    """Ishigami's function without its third axis, whose indices are known."""
    return float(np.sin(a) + 7 * np.sin(b) ** 2)


def test_indices_are_those_that_are_known() -> None:
    plan = parse(SALTELLI.format(samples=1024), "plan.toml", Path())
    rows = []
    for cell, (a, b) in enumerate(points(plan)):
        value = ishigami(*(np.pi * (2 * share - 1) for share in (a, b)))
        place: dict[str, Any] = {"cell": cell, "machine": "generic", "workload": "beat"}
        rows.append(
            Row(
                **place,
                values={},
                variant="v6.1",
                kernel="v6.1",
                figure="energy",
                unit="J",
                n=1,
                failed=0,
                mean=value,
                std=None,
                interval=None,
                compared=None,
                moments=None,
            )
        )
    # Variances of the two parts: 1/2 and 49/8.
    whole = 0.5 + 49 / 8
    found = {each.axis: each for each in indices(plan, rows)}
    assert found["run_us"].first == pytest.approx(0.5 / whole, abs=0.02)
    assert found["b"].first == pytest.approx(49 / 8 / whole, abs=0.03)
    for each in found.values():
        assert each.total == pytest.approx(each.first, abs=0.03)


def test_a_sweep_tells_what_matters(tmp_path: Path) -> None:
    text = SALTELLI.format(samples=8)
    text = text.replace("low = 0\nhigh = 1\nwhole = false", "low = 100\nhigh = 2000", 1)
    text = text.replace("low = 0\nhigh = 1\nwhole = false", "low = 9000\nhigh = 10_000", 1)
    page, told = page_of(text, tmp_path)
    assert told["runs"]["simulated"] + told["runs"]["same"] == 8 * 4 * 2
    by_axis = {(each["variant"], each["axis"]): each["total"] for each in told["indices"]}
    assert by_axis["v6.12", "run_us"] > 3 * by_axis["v6.12", "b"]
    assert "what matters" in page
    result = run_sweep(parse(text, "plan.toml", tmp_path), store=tmp_path / "store")
    found = result.sensitivity.select("variant", "axis", "total").rows()
    assert {(variant, axis): total for variant, axis, total in found} == by_axis


NOTEBOOK = Path(__file__).parent.parent / "docs" / "sweep.ipynb"


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    space: dict[str, Any] = {"__name__": "notebook"}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            code = compile("".join(cell["source"]), f"cell {number}", "exec")
            exec(code, space)  # noqa: S102 - as a notebook does
    assert space["result"].tally.failed == 0
    assert space["curve"].height == 4
    assert space["chart"].to_dict()["mark"]["type"] == "line"
