"""perf bench: futex, sched messaging, sched pipe, and whatever else prints in their ways."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Unread, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line
    from schedlab.stats import Better

_NUMBER = r"(\d+(?:\.\d+)?)"
_NAME = re.compile(r"# Running '?([\w/ -]{1,80}?)'? benchmark")
_FIGURES: list[tuple[re.Pattern[str], str, str, Better]] = [
    (re.compile(rf"\s*Total time:\s+{_NUMBER} \[sec\]"), "total time", "s", "lower"),
    (re.compile(rf"\s*{_NUMBER} usecs/op"), "time per operation", "us/op", "lower"),
    (re.compile(rf"\s*{_NUMBER} ops/sec"), "operations per second", "ops/s", "higher"),
    (
        re.compile(rf"(?:Wokeup|Requeued) \d+ of \d+ threads in {_NUMBER} ms"),
        "wake time",
        "ms",
        "lower",
    ),
    (re.compile(rf"Averaged {_NUMBER} operations/sec"), "operations per second", "ops/s", "higher"),
    (re.compile(rf"{_NUMBER}$"), "total time", "s", "lower"),
]
_TALK = re.compile(
    r"#|Run summary|\[Run \d+\]|\[thread +\d+\]|\s*\d+ (?:groups|processes)|Futex hashing|"
    r"Using \d+ (?:private|global)"
)


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give the figures of each run; ``--format=simple`` prints nothing but the total time."""
    name = ""
    for line in lines:
        if found := _NAME.match(line.text):
            name = found[1]
            continue
        for pattern, metric, unit, better in _FIGURES:
            if found := pattern.match(line.text):
                yield Value("perf bench", name, metric, unit, better, float(found[1]))
                break
        else:
            if not _TALK.match(line.text):
                yield Unread(line.number, line.text)
