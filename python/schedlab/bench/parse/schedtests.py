"""Tables of schedtests' report.py, as they stand in mails."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Change, Item, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line

_QUOTE = re.compile(r"^(?:> ?)+")
_HEADER = re.compile(r"case\s+load\s+baseline\s*\(std%\)\s+compare%\s*\(\s*std%\)")
_ROW = re.compile(
    r"(\S{1,80})\s+(\S{1,40})\s+1\.00 \(\s*(\d+(?:\.\d+)?)\)\s+"
    r"([+-]?\d+(?:\.\d+)?) \(\s*(\d+(?:\.\d+)?)\)\s*\**$"
)
_TITLE = re.compile(r"\[?([A-Za-z][\w ().,-]{0,60})\]?$")


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give every row; the line above the rule names the benchmark."""
    benchmark = ""
    for line in lines:
        text = _QUOTE.sub("", line.text).strip()
        if found := _ROW.match(text):
            yield Change(
                benchmark, found[1], found[2], float(found[3]), float(found[4]), float(found[5])
            )
        elif not text or set(text) <= {"=", "-"} or _HEADER.match(text):
            continue
        elif found := _TITLE.match(text):
            benchmark = found[1].strip()
        else:
            yield Unread(line.number, line.text)
