"""The two verbs that write a page."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from schedlab import samples
from schedlab.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_demo_prints_its_tables_and_names_its_page(elsewhere: Path) -> None:
    result = CliRunner().invoke(main, ["demo"], catch_exceptions=False)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert "GPL-2.0-only" in result.output
    assert [line for line in lines if line.startswith("[")][-1].startswith("[6/6]")
    for heading in ("sched_switch", "t3", "C6", "menu-6.12", "sysbench-memory:"):
        assert any(line.split()[:1] == [heading] or heading in line for line in lines)
    assert lines[-1].startswith("schedlab-report.html: ")
    assert (elsewhere / "schedlab-report.html").read_text().startswith("<!doctype html>")


def test_every_command_that_the_demo_names_works_as_printed(elsewhere: Path) -> None:
    result = CliRunner().invoke(main, ["demo"], catch_exceptions=False)
    named = [line[len("$ schedlab ") :] for line in result.output.splitlines() if "$TRACE" in line]
    assert len(named) == 5
    with samples.idle_trace() as file:
        for command in named:
            words = [str(file) if word == "$TRACE" else word for word in command.split()]
            again = CliRunner().invoke(main, words, catch_exceptions=False)
            assert again.exit_code == 0, command
    assert (elsewhere / "schedlab-report.html").exists()


def test_the_demo_in_json_has_the_figures_of_its_page(elsewhere: Path) -> None:
    result = CliRunner().invoke(main, ["demo", "--json", "-o", "page.html"])
    figures = json.loads(result.stdout)
    assert figures["page"] == "page.html"
    assert figures["trace"]["event_counts"]["sched_switch"] == 6118
    assert figures["governors"]["menu-6.12"]["recorded"]
    assert figures["studies"][0]["study"] == "idlest-group-util"
    page = (elsewhere / "page.html").read_text()
    assert "Study idlest-group-util: simulated beside published" in page
    assert (elsewhere / "page.html").exists()


def test_a_machine_is_guessed_only_where_it_fits(elsewhere: Path) -> None:
    with samples.idle_trace() as file:
        result = CliRunner().invoke(main, ["report", str(file), "--governor", "menu", "--json"])
    assert json.loads(result.stdout)["trace"]["machine"] == "simidle"
    page = (elsewhere / "schedlab-report.html").read_text()
    assert "simidle is a guess" in page


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["missing.dat"], "missing.dat: No such file"),
        (["."], "is a directory"),
        (["TRACE", "--governor", "nobody"], "no idle governor is called `nobody`"),
        (["TRACE", "--machine", "nowhere"], "nowhere"),
        (["TRACE", "-o", "no/such/folder/page.html"], "no/such/folder/page.html"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    elsewhere: Path, words: list[str], says: str
) -> None:
    with samples.idle_trace() as file:
        given = [str(file) if word == "TRACE" else word for word in words]
        result = CliRunner().invoke(main, ["report", *given])
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 2
    assert not list(elsewhere.iterdir())


def test_the_latency_chart_reaches_as_far_as_the_table(elsewhere: Path) -> None:
    CliRunner().invoke(main, ["demo"], catch_exceptions=False)
    page = (elsewhere / "schedlab-report.html").read_text()

    def data(name: str) -> Any:
        found = re.search(f'id="{name}">(.*?)</script>', page)
        assert found
        return json.loads(found[1])

    (points,) = data("chart-latency")["datasets"].values()
    drawn = {point["comm"]: point["latency_us"] for point in points}
    table = {row["comm"]: row["max_us"] for row in data("figures")["latency"]["tasks"]}
    assert drawn == {comm: table[comm] for comm in drawn}
    assert set(drawn) >= {"t1", "t2", "t3", "t4", "t5"}
