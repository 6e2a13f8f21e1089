"""Parsers of other tools' output: real output against what must come out, and damage.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_bench_parse.py`` writes the expected files anew.
"""

from __future__ import annotations

import io
import json
import math
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from schedlab.bench.parse import TOOLS, Unread, lines_of, of_text, parser
from schedlab.bench.parse.lines import LONGEST
from schedlab.bench.results import Problems, parse_files, write_csv
from schedlab.cli import main
from scipy import stats

DATA = Path(__file__).parent / "data" / "bench"
FILES = sorted(DATA.glob("*.txt"))

# The tool's name as files have it.
PREFIXES = {
    **{tool: tool for tool in TOOLS},
    "perf-futex": "perf-bench",
    "perf-messaging": "perf-bench",
    "perf-pipe": "perf-bench",
    "perf-simple": "perf-bench",
}


def tool_of(path: Path) -> str:
    known = [prefix for prefix in PREFIXES if path.stem.startswith(prefix)]
    return PREFIXES[max(known, key=len)]


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["bench", "parse", *words])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_real_output_gives_what_it_must(path: Path) -> None:
    problems = Problems()
    out = io.StringIO()
    count = write_csv(parse_files(tool_of(path), [path], "base", problems), out)
    # What the one mail says between its tables is prose, which nobody can parse.
    unread = [each["text"] for each in problems.first]
    if path.stem == "mmtests-hackbench":
        assert unread == [
            "As schbench has been mentioned in numerous bugs recently, the results",
            "are interesting. A test case that represents the default schbench",
            "behaviour is",
        ]
    else:
        assert unread == []
    assert count > 0
    golden = path.with_suffix(".csv")
    if os.environ.get("SCHEDLAB_UPDATE_DOCS"):
        golden.write_text(out.getvalue(), encoding="utf-8")
    assert out.getvalue() == golden.read_text(encoding="utf-8")


def test_every_tool_has_real_output() -> None:
    assert {tool_of(path) for path in FILES} == set(TOOLS) - {"csv"}


def test_csv_goes_through_and_takes_a_label(tmp_path: Path) -> None:
    text = "benchmark,case,metric,unit,better,kernel,iteration,value\nh,c,m,s,lower,old,3,1.5\n"
    path = tmp_path / "in.csv"
    path.write_text(text, encoding="utf-8")
    assert run("csv", str(path)).stdout == text
    assert run("csv", str(path), "--label", "new").stdout == text.replace("old", "new")


def test_several_files_number_on(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        path = tmp_path / f"{number}.txt"
        path.write_text(f"Time: 0.{number}\n", encoding="utf-8")
        paths.append(str(path))
    out = tmp_path / "out.csv"
    assert run("hackbench", *paths, "--label", "v1", "--out", str(out)).exit_code == 0
    rows = out.read_text(encoding="utf-8").splitlines()
    assert [row.rsplit(",", 2)[1:] for row in rows[1:]] == [
        ["0", "0.0"],
        ["1", "0.1"],
        ["2", "0.2"],
    ]


def test_unread_lines_are_told_of(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("Time: 0.5\nTime: fast\nTime: 0.6\n", encoding="utf-8")
    result = run("hackbench", str(path), "--label", "a", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert [row["value"] for row in found["rows"]] == [0.5, 0.6]
    assert found["unread"] == [{"file": str(path), "line": 2, "text": "Time: fast"}]
    assert f"{path}:2: not understood: Time: fast" in result.stderr


@pytest.mark.parametrize(
    ("tool", "text", "words"),
    [
        ("hackbench", "nothing\n", "no result of hackbench"),
        ("hackbenhc", "", "no such tool; did you mean hackbench?"),
        ("sysbench", "", "no result of sysbench"),
    ],
)
def test_what_has_no_result_is_refused(tmp_path: Path, tool: str, text: str, words: str) -> None:
    path = tmp_path / "out.txt"
    path.write_text(text, encoding="utf-8")
    result = run(tool, str(path), "--label", "a")
    assert result.exit_code == 2
    assert words in result.output


def test_a_label_is_asked_for() -> None:
    assert "name it by --label" in run("hackbench", str(DATA / "hackbench-process.txt")).output


def test_parsed_output_compares(tmp_path: Path) -> None:
    for label, base in (("old", 0.50), ("new", 0.60)):
        path = tmp_path / f"{label}.txt"
        path.write_text("".join(f"Time: {base + i / 1000:.3f}\n" for i in range(8)), "utf-8")
        run("hackbench", str(path), "--label", label, "--out", str(tmp_path / f"{label}.csv"))
    result = CliRunner().invoke(
        main, ["compare", str(tmp_path / "old.csv"), str(tmp_path / "new.csv"), "--json"]
    )
    [row] = json.loads(result.stdout)["rows"]
    assert (row["verdict"], row["other"]["label"]) == ("regressed", "new")


@pytest.mark.parametrize("name", ["mmtests-hackbench", "schedtests-hackbench"])
def test_tables_of_means_compare(tmp_path: Path, name: str) -> None:
    out = tmp_path / "table.csv"
    path = DATA / f"{name}.txt"
    assert run(tool_of(path), str(path), "--label", "patched", "--out", str(out)).exit_code == 0
    result = CliRunner().invoke(main, ["compare", str(out), "--json"])
    rows = json.loads(result.stdout)["rows"]
    if name == "mmtests-hackbench":
        # Printed gains are the table's own: -8.46 % where the time grew by as much.
        assert rows[0]["effect_pct"] == pytest.approx(8.46, abs=0.01)
        assert {row["verdict"] for row in rows} == {"inconclusive"}
    else:
        assert rows[1]["effect_pct"] == pytest.approx(-8.37)
        # Spreads of a population of five, each in percent of its own mean.
        samples = [(1.0, 3.67), (1 - 0.0837, 2.33)]
        stds = [mean * std / 100 * math.sqrt(5 / 4) for mean, std in samples]
        p = stats.ttest_ind_from_stats(
            samples[0][0], stds[0], 5, samples[1][0], stds[1], 5, equal_var=False
        ).pvalue
        assert rows[1]["p"] == pytest.approx(p)


# Lines of real output, whole and broken, in any order.
LINES = [line for path in FILES for line in path.read_text(encoding="utf-8").splitlines()]
broken = st.sampled_from(LINES).flatmap(
    lambda line: st.one_of(
        st.just(line),
        st.integers(0, max(0, len(line))).map(lambda end: line[:end]),
        st.integers(0, max(0, len(line))).map(lambda start: line[start:]),
        st.text(max_size=20).map(lambda tail: line + tail),
    )
)


@given(st.lists(st.one_of(broken, st.text(max_size=80)), max_size=30), st.sampled_from(list(TOOLS)))
@settings(max_examples=400, deadline=None)
def test_any_text_gives_finite_figures_or_is_told_of(lines: list[str], tool: str) -> None:
    text = "\n".join(lines)
    for item in parser(tool)(of_text(text)):
        if isinstance(item, Unread):
            assert 0 <= item.line <= text.count("\n") + 1
        else:
            numbers = [part for part in item if isinstance(part, float)]
            assert numbers
            assert all(map(math.isfinite, numbers))


@given(st.binary(max_size=400))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_lines(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "out"
    path.write_bytes(data)
    for line in lines_of(path):
        assert "\n" not in line.text
        assert "\r" not in line.text


@pytest.mark.parametrize("tool", list(TOOLS))
def test_an_endless_line_takes_bounded_time_and_memory(tmp_path: Path, tool: str) -> None:
    path = tmp_path / "long"
    for fill in (b"1,", b"1 ", b"a b ", b"= (", b"> ", b"T:"):
        path.write_bytes(fill * (1 << 17) + b"\nTime: 1\n")
        items = list(parser(tool)(lines_of(path)))
        assert len(items) <= 4
    assert max(len(line.text) for line in lines_of(path)) <= LONGEST


def test_the_tools_that_can_be_read_are_listed() -> None:
    assert [row["name"] for row in json.loads(run("--list", "--json").stdout)] == list(TOOLS)
    assert all(tool in run("--list").stdout for tool in TOOLS)
