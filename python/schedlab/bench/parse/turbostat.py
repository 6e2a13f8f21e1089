"""turbostat: the whole machine's row of each interval."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Unread, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line
    from schedlab.stats import Better

_COLUMN = re.compile(r"[A-Za-z][\w%.]{0,30}$")
_KNOWN = {"Avg_MHz", "Busy%", "Bzy_MHz", "TSC_MHz", "PkgWatt", "CPU%c1", "Core", "CPU", "IRQ"}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?$")
_PLACES = ("Package", "Die", "Node", "Core", "CPU", "APIC", "X2APIC", "usec", "Time_Of_Day_Seconds")
_TALK = re.compile(r"turbostat|cpu\d+: |CPUID|RAPL|TSC|[\d.]+ sec$|\w+: |Supported|NOFORK|current_")
_UNITS = {"Watt": "W", "MHz": "MHz", "Tmp": "C", "_J": "J", "%": "%"}


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give every column of the machine's row; rows of single CPUs are passed over."""
    columns: list[str] = []
    for line in lines:
        words = line.text.split()
        if len(_KNOWN.intersection(words)) > 1 and all(map(_COLUMN.match, words)):
            columns = words
        elif columns and all(word == "-" or _NUMBER.match(word) for word in words):
            places = [column for column in columns if column in _PLACES]
            if places and "-" not in words[: len(places)]:
                continue
            if len(words) != len(columns):
                yield Unread(line.number, line.text)
                continue
            yield from _row(columns, words)
        elif not _TALK.match(line.text):
            yield Unread(line.number, line.text)


def _row(columns: list[str], words: list[str]) -> Iterator[Value]:
    for column, word in zip(columns, words, strict=True):
        if column in _PLACES or word == "-":
            continue
        unit = next((unit for end, unit in _UNITS.items() if column.endswith(end)), "1")
        unit = "%" if "%" in column else unit
        better: Better | None = "lower" if unit in ("W", "J") else None
        yield Value("turbostat", "", column, unit, better, float(word))
