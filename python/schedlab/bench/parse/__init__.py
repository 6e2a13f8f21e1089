"""Other tools' output as results: one small module per tool, in bounded memory.

A parser takes lines and gives what it finds: values, means of a table, or lines that it does not
know. Lines that a tool prints besides its figures are known to its parser; any other is told of.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Change, Item, Mean, Unread, Value
from schedlab.bench.parse.lines import Line, lines_of, of_text
from schedlab.comparison.model import CompareError
from schedlab.names import near

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["TOOLS", "Change", "Item", "Line", "Mean", "Unread", "Value", "lines_of", "of_text"]

# Tool, module, and what it reads.
TOOLS: dict[str, tuple[str, str]] = {
    "hackbench": ("hackbench", "rt-tests' hackbench"),
    "schbench": ("schbench", "schbench, old and new"),
    "sysbench": ("sysbench", "sysbench 1.0 and master"),
    "perf-bench": ("perf_bench", "perf bench: futex, sched messaging, sched pipe, ..."),
    "ebizzy": ("ebizzy", "ebizzy"),
    "cyclictest": ("cyclictest", "rt-tests' cyclictest"),
    "pi_stress": ("pi_stress", "rt-tests' pi_stress"),
    "stress-ng": ("stress_ng", "stress-ng --metrics"),
    "time": ("time", "GNU time, and time of bash, zsh, csh and POSIX"),
    "ffmpeg": ("ffmpeg", "ffmpeg's progress line"),
    "perf-stat": ("perf_stat", "perf stat, as text and by -x"),
    "turbostat": ("turbostat", "turbostat"),
    "go": ("go", "Go's benchmark format"),
    "mmtests": ("mmtests", "tables of mmtests' compare"),
    "schedtests": ("schedtests", "tables of schedtests' report.py"),
    "csv": ("plain_csv", "CSV with the columns that compare reads"),
}

NAMES_OWN_KERNELS = ("mmtests", "csv")
"""Formats that say which kernel a figure belongs to."""


def parser(tool: str) -> Callable[[Iterable[Line]], Iterator[Item]]:
    """Give the parser of a tool.

    Raises :class:`schedlab.CompareError` for a tool that there is not.

    >>> [item.value for item in parser("hackbench")(of_text("Time: 0.064"))]
    [0.064]
    """
    if tool not in TOOLS:
        guess = near(tool, list(TOOLS)) or f"; there are {', '.join(TOOLS)}"
        raise CompareError(f"{tool}: no such tool{guess}")
    module = importlib.import_module(f"schedlab.bench.parse.{TOOLS[tool][0]}")
    found: Callable[[Iterable[Line]], Iterator[Item]] = module.parse
    return found
