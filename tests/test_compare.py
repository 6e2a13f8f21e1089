"""``schedlab compare``: files in, verdicts and exit codes out."""

from __future__ import annotations

import contextlib
import csv
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from schedlab.cli import main
from schedlab.comparison.model import CompareError, Results
from schedlab.comparison.read import read
from schedlab.comparison.read_csv import read as read_csv

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "benchmark,case,metric,unit,better,kernel,iteration,value\n"


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["compare", *words])


def rows_of(*words: str) -> list[dict[str, Any]]:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["rows"]
    return found


def samples(path: Path, means: dict[str, float], n: int = 12, case: str = "pipe") -> Path:
    generator = np.random.default_rng(3)
    lines = [
        f"hackbench,{case},time,s,lower,{label},{i},{generator.normal(mean, 0.01 * mean):.6f}"
        for label, mean in means.items()
        for i in range(n)
    ]
    path.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_file_with_two_labels_gives_verdicts(tmp_path: Path) -> None:
    path = samples(tmp_path / "a.csv", {"base": 1.0, "slow": 1.1, "fast": 0.9, "same": 1.0})
    found = {row["other"]["label"]: row for row in rows_of(str(path))}
    assert {label: row["verdict"] for label, row in found.items()} == {
        "slow": "regressed",
        "fast": "improved",
        "same": "equivalent",
    }
    slow = found["slow"]
    assert slow["case"] == "pipe"
    assert slow["interval"][0] < slow["effect"] < slow["interval"][1]
    assert slow["p"] <= slow["p_corrected"] <= 3 * slow["p"]
    assert (slow["base"]["n"], slow["better"], slow["unit"]) == (12, "lower", "s")


def test_files_labels_and_an_explicit_baseline_choose(tmp_path: Path) -> None:
    one = samples(tmp_path / "one.csv", {"v1": 1.0})
    two = samples(tmp_path / "two.csv", {"v2": 1.1})
    assert [row["verdict"] for row in rows_of(str(one), str(two))] == ["regressed"]
    assert [row["verdict"] for row in rows_of(str(one), str(two), "--base", "v2")] == ["improved"]
    both = samples(tmp_path / "both.csv", {"a": 1.0, "b": 1.1, "c": 1.2})
    [row] = rows_of(str(both), "c", "a")
    assert (row["base"]["label"], row["other"]["label"]) == ("c", "a")
    same = samples(tmp_path / "same.csv", {"v1": 1.1})
    [row] = rows_of(str(one), str(same))
    assert (row["base"]["label"], row["other"]["label"]) == ("one", "same")


def test_a_regression_beyond_the_limit_sets_the_exit_code(tmp_path: Path) -> None:
    path = str(samples(tmp_path / "a.csv", {"base": 1.0, "slow": 1.05}))
    assert run(path).exit_code == 0
    failed = run(path, "--max-regression", "2%")
    assert failed.exit_code == 1
    assert "worse by more than 2 %: hackbench pipe time (slow)" in failed.stderr
    assert run(path, "--max-regression", "8%").exit_code == 0
    assert run(path, "--max-regression", "much").exit_code == 2
    quicker = str(samples(tmp_path / "b.csv", {"base": 1.0, "fast": 0.9}))
    assert run(quicker, "--max-regression", "0").exit_code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "columns a, b are not those of results"),
        ("", "(none)"),
        ("\x7fELF\0\1,\0", "bad.csv: not text but something else; give a CSV file"),
        (HEADER, "no results in it"),
        (HEADER + "h,c,m,s,lower,base,0,x\n", "value is 'x', no number"),
        (HEADER + "h,c,m,s,lower,base,0,nan\n", "must be finite"),
        (HEADER + "h,c,m,s,worse,base,0,1\n", "better is 'worse'"),
        (HEADER + "h,c,m,s,lower,,0,1\n", "kernel is empty"),
        (HEADER + "h,c,m,s,lower,base,0,1\n", "base is the only label"),
        (HEADER + "h,c,m,s,lower,a,0,1\nh,d,m,s,lower,b,0,1\n", "no case stands under both"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    result = run(str(path))
    assert result.exit_code == 2
    assert words in result.output
    assert len(result.output.splitlines()) <= 3


def test_a_bad_row_is_told_of_and_the_others_count(tmp_path: Path) -> None:
    path = samples(tmp_path / "a.csv", {"base": 1.0, "slow": 1.1})
    with path.open("a", encoding="utf-8") as file:
        file.write("hackbench,pipe,time,s,lower,base,zero,broken\n")
        file.write("hackbench,pipe,time,s,lower,base,0,1.0\n")
    result = run(str(path), "--json")
    table = json.loads(result.stdout)
    assert len(table["rows"]) == 1
    assert table["rows"][0]["base"]["n"] == 12
    assert [text.split(": ", 1)[1] for text in table["unread"]] == [
        "value is 'broken', no number",
        "hackbench pipe time: iteration 0 of base is there already; number them",
    ]


def test_drift_without_turns_takes_a_verdict_back(tmp_path: Path) -> None:
    lines = [
        f"h,c,time,s,lower,{label},{i},{1 + 0.01 * (place * 12 + i) + 0.0003 * (i % 3)}"
        for place, label in enumerate(("base", "other"))
        for i in range(12)
    ]
    path = tmp_path / "drift.csv"
    path.write_text(HEADER + "\n".join(lines), encoding="utf-8")
    # One after the other: 12 % slower, and 11 % of drift within each.
    [row] = rows_of(str(path))
    assert row["base"]["drift"]["pct"] == pytest.approx(10.6, abs=0.5)
    assert any("drifts by" in note for note in row["notes"])


def test_geometric_means_stand_below_the_cases(tmp_path: Path) -> None:
    one = samples(tmp_path / "1.csv", {"base": 1.0, "new": 1.1}, case="a")
    two = samples(tmp_path / "2.csv", {"base": 5.0, "new": 5.0}, case="b")
    text = one.read_text(encoding="utf-8") + two.read_text(encoding="utf-8").removeprefix(HEADER)
    one.write_text(text, encoding="utf-8")
    table = json.loads(run(str(one), "--json").stdout)
    [mean] = table["geometric_means"]
    a, b = table["rows"]
    assert mean["effect"] == pytest.approx((a["effect"] * b["effect"]) ** 0.5)
    assert mean["interval"][0] < mean["effect"] < mean["interval"][1]


def test_power_plans(tmp_path: Path) -> None:
    plan = json.loads(run("--power", "--std", "2%", "--effect", "3%", "--json").stdout)
    assert plan["rows"] == [
        {"case": "any", "std_pct": 2.0, "iterations": {"3": 9}, "equivalent": 18}
    ]
    path = str(samples(tmp_path / "a.csv", {"base": 1.0, "slow": 1.1}))
    assert "hackbench pipe time" in run("--power", path).stdout
    assert run("--power").exit_code == 2


def test_published_changes_are_tested_as_their_authors_computed_them(tmp_path: Path) -> None:
    """A row of schedtests: std % of a population of five, positive is better."""
    path = tmp_path / "published.csv"
    path.write_text(
        "benchmark,kernel,mode,groups,baseline_std_pct,delta_pct,kernel_std_pct,flagged\n"
        "hackbench,patch1,process,1,4.0,-10.0,3.0,yes\n",
        encoding="utf-8",
    )
    [row] = rows_of(str(path))
    assert row["case"] == "process groups=1"
    assert row["base"]["std_pct"] == pytest.approx(4.0 * (5 / 4) ** 0.5)
    assert row["flagged"]
    assert (row["verdict"], row["effect"]) == ("regressed", pytest.approx(0.9))
    reboots = json.loads(run(str(path), "--reboots", "--json").stdout)
    assert reboots["rows"][0]["explained_by_pct"] > 2


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_every_column_of_several_kernels_has_a_name(statistic: str, tmp_path: Path) -> None:
    path = str(samples(tmp_path / "a.csv", {"base": 1.0, "slow": 1.1, "fast": 0.9}))
    header = run(path, "--statistic", statistic).stdout.splitlines()[1]
    assert re.split(r"\s{2,}", header.strip())[:5] == ["case", "kernel", "base", "std %", statistic]


def test_csv_output_reads_back(tmp_path: Path) -> None:
    path = str(samples(tmp_path / "a.csv", {"base": 1.0, "slow": 1.1}))
    [row] = csv.DictReader(run(path, "--format", "csv").stdout.splitlines())
    assert float(row["effect_pct"]) == pytest.approx(10, abs=1)
    assert row["verdict"] == "regressed"


@pytest.mark.parametrize("shape", ["schedtests", "mmtests"])
def test_mail_shapes_keep_to_75_columns(tmp_path: Path, shape: str) -> None:
    path = samples(tmp_path / "a.csv", {"base": 1.0, "a-label-too-long-for-any-column": 123.0})
    with path.open("a", encoding="utf-8") as file:
        for i in range(6):
            for label in ("base", "a-label-too-long-for-any-column"):
                file.write(
                    f"very-long-benchmark-name,process-sockets-45-long 16-groups,m,s,lower,"
                    f"{label},{i},{1e9 + i}\n"
                )
    result = run(str(path), "--format", shape)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 75
    assert "compared by schedlab" in result.stdout


def test_markdown_has_a_row_per_case(tmp_path: Path) -> None:
    path = str(samples(tmp_path / "a.csv", {"base": 1.0, "x|y": 1.1}))
    lines = run(path, "--format", "markdown").stdout.splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 3
    assert "x\\|y" in table[2]


@given(st.text(max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "any.csv"
    path.write_text(HEADER + text, encoding="utf-8")
    with contextlib.suppress(CompareError):
        read_csv(path, Results(), runs=5, better=None)


def test_nothing_there_is_said() -> None:
    with pytest.raises(CompareError, match="no such file"):
        read(["nowhere.csv"])
