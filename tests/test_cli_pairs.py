"""Options that would be without effect are refused, with a word what they need."""

from __future__ import annotations

from pathlib import Path

import pytest
from beat import PLAN
from click.testing import CliRunner
from schedlab.cli import main

POWER = "compare --power --std 2"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("bench cpupri --cpus 8", "--cpus is for --simulate"),
        ("bench cpupri --uniform", "--uniform is for --simulate"),
        ("bench cpupri --think-us 500", "--think-us is for --simulate"),
        ("bench cpupri --plot x.svg", "--plot is for --simulate"),
        ("bench cpupri --simulate --threads 4", "--threads is for measuring"),
        ("bench cpupri --simulate --duration-ms 300", "--duration-ms is for measuring"),
        ("sweep plan.toml --zone 5", "--zone is for --select"),
        ("sweep plan.toml --until verdict --zone 5", "--zone is for --select"),
        ("sweep plan.toml --most 5", "--most is for --until or --select"),
        ("sweep plan.toml --select energy --until verdict", "give one of them"),
        ("sweep plan.toml --select energy --map", "--map is of a table"),
        (f"{POWER} --effect 0", "--effect is 0, which no iterations find"),
        (f"{POWER} --format csv", "--power prints a table or JSON"),
        (f"{POWER} --report x.html", "leave --report out"),
        (f"{POWER} --base old", "leave --base out"),
        (f"{POWER} --statistic median", "leave --statistic out"),
        (f"{POWER} a.csv", "--std stands in place of results"),
        ("bench parse --list hackbench", "leave TOOL out"),
        ("bench parse --list --label old", "leave --label out"),
        ("bench parse hackbench plan.toml --json --out a.csv", "--out writes CSV"),
        ("workload show periodic --toml --machine generic", "--machine changes nothing"),
        ("workload show periodic --toml --limit 3", "--limit changes nothing"),
        ("compare a.csv --effect 3", "--effect is for --power"),
        ("compare a.csv --json --format csv", "--json and --format csv are two shapes"),
        ("compare a.csv --json --format table", "--json and --format table are two shapes"),
        ("compare a.csv --format markdown --limit 2", "--format markdown has every row"),
        ("compare a.csv --reboots --format csv", "and no csv"),
        ("machine show generic --json --toml", "--json and --toml are two shapes"),
        ("kernel show v6.1 --toml --json", "--json and --toml are two shapes"),
        ("kernel show v6.1 --toml --cpus 4", "--cpus scales no file"),
        ("workload show periodic --toml --json", "--json and --toml are two shapes"),
        ("study show nohz-push --toml --json", "--json and --toml are two shapes"),
    ],
)
def test_options_without_effect_are_refused(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text(PLAN, encoding="utf-8")
    found = CliRunner().invoke(main, words.split())
    assert (found.exit_code, found.stdout) == (2, "")
    assert message in found.stderr
    assert "Traceback" not in found.stderr


def test_a_shape_may_be_named_twice_and_rows_of_all_may_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"{label},{n},{1 + n / 99}" for label in ("old", "new") for n in range(4)]
    path.write_text("\n".join(["kernel,iteration,value", *rows]), encoding="utf-8")
    for words in (["--json", "--format", "json"], ["--format", "markdown", "--limit", "0"]):
        found = CliRunner().invoke(main, ["compare", str(path), *words])
        assert found.exit_code == 0, found.output
