"""Go's benchmark format, as benchstat reads it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Unread, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line
    from schedlab.stats import Better

_ROW = re.compile(r"Benchmark(\S{0,200})\s+\d{1,18}((?:\s+\S+\s+\S+)+)$")
_NAME_ALONE = re.compile(r"Benchmark\S*$")
_TALK = re.compile(r"[a-z][\w-]*: |PASS$|FAIL$|ok\s|\?\s|---|===|\s|#|//")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?$")


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give every measurement of every run; the name ends in the number of CPUs."""
    for line in lines:
        found = _ROW.match(line.text)
        words = found[2].split() if found else []
        if found and all(map(_NUMBER.match, words[::2])):
            for number, unit in zip(words[::2], words[1::2], strict=True):
                better: Better | None = "higher" if unit.endswith("/s") else None
                if unit.endswith("/op"):
                    better = "lower"
                yield Value("go", found[1].lstrip("_/"), unit, unit, better, float(number))
        elif not _TALK.match(line.text) and not _NAME_ALONE.match(line.text):
            yield Unread(line.number, line.text)
