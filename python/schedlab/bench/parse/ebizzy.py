"""ebizzy 0.3: records per second."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Unread, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line

_RECORDS = re.compile(r"\s*(\d{1,18}) records/s$")
# Builds differ in whether these stand on one line.
_TIMES = re.compile(r"\s*(?:(?:real|user|sys)\s+\d+(?:\.\d+)? s\s*)+$")


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give the rate of each run."""
    for line in lines:
        if found := _RECORDS.match(line.text):
            yield Value("ebizzy", "", "records", "records/s", "higher", float(found[1]))
        elif not _TIMES.match(line.text):
            yield Unread(line.number, line.text)
