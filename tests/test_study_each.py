"""Tables of a study that stand for many."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedlab.study import StudyError, load
from schedlab.study.each import EachError, expand

if TYPE_CHECKING:
    from pathlib import Path

WORDS = st.text("abcdefgh", min_size=1, max_size=5)
LISTS = st.dictionaries(
    WORDS, st.lists(st.integers(0, 99), min_size=1, max_size=5, unique=True), min_size=1, max_size=4
)


@given(LISTS)
def test_every_combination_comes_once_and_keeps_its_types(each: dict[str, list[int]]) -> None:
    table = {
        "name": "-".join(["all", *(f"{{{name}}}" for name in each)]),
        "options": {name: f"{{{name}}}" for name in each},
        "each": each,
    }
    rows = expand(table)
    assert len(rows) == math.prod(len(values) for values in each.values())
    assert len({row["name"] for row in rows}) == len(rows)
    for row in rows:
        assert set(row) == {"name", "options"}
        assert row["name"] == "-".join(["all", *map(str, row["options"].values())])
        assert all(row["options"][name] in values for name, values in each.items())


def test_the_last_name_varies_fastest_and_tables_have_parts() -> None:
    rows = expand(
        {
            "name": "{mode.word}-{n}",
            "threads": "{mode.threads}",
            "each": {
                "mode": [{"word": "p", "threads": False}, {"word": "t", "threads": True}],
                "n": [1, 2],
            },
        }
    )
    assert [(row["name"], row["threads"]) for row in rows] == [
        ("p-1", False),
        ("p-2", False),
        ("t-1", True),
        ("t-2", True),
    ]


@pytest.mark.parametrize(
    ("each", "name", "what"),
    [
        ("3", "{n}", "each must name lists"),
        ("{ n = [] }", "{n}", "each.n is []; it must be a list"),
        ("{ n = [1] }", "{m}", "{m} is not in each, which has n"),
        ("{ n = [1] }", "{n.x}", "{n.x} has no such part; write {n}"),
        ("{ n = [{ x = 1 }] }", "{n}", "{n} has no such part; write {n.x}"),
        ("{ n = [1], m = [2] }", "{n}", "each.m is used nowhere"),
        (f"{{ n = {list(range(101))}, m = {list(range(100))} }}", "{n}{m}", "10,100 tables"),
    ],
)
def test_a_slip_is_named_with_its_line(tmp_path: Path, each: str, name: str, what: str) -> None:
    text = f"""name = "s"
title = "S"
machines = ["generic"]
iterations = 1
[baseline]
kernel = "v6.12"
[[workload]]
name = "{name}"
workload = "periodic"
duration_s = 1
each = {each}
"""
    file = tmp_path / "study.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(StudyError) as raised:
        load(file)
    message = str(raised.value)
    assert message.startswith(f"{file}:11: ")
    assert what in message
    with pytest.raises(EachError):
        expand({"name": "{x}", "each": {"y": [1]}})


def test_the_matrices_of_the_priority_map_are_those_that_were_published() -> None:
    study = load("cpupri-regressions")
    names = [case.name for case in study.cases]
    assert len(names) == len(set(names)) == 48 + 24 + 8 + 3
    options = next(
        case.options for case in study.cases if case.name == "hackbench-threads-sockets-45-8"
    )
    assert options == {"groups": 8, "fds": 45, "threads": True, "pipe": False, "loops": 100}
