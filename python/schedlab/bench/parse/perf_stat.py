"""perf stat: counters as text and as -x prints them, with -r, -A and -I."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Unread, Value
from schedlab.bench.parse.lines import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line
    from schedlab.stats import Better

_COUNT = re.compile(
    r"\s*(?:(?P<at>\d+\.\d{9})\s+)?(?:(?P<cpu>(?:S\d+-)?(?:D\d+-)?(?:C\d+|CPU\d+))\s+)?"
    r"(?P<value>\d[\d,]*(?:\.\d+)?)\s+(?:(?P<unit>msec|Joules|MiB|KiB|GiB|nsec|usec|sec)\s+)?"
    r"(?P<event>[a-zA-Z][\w.:/=,@{}-]{0,200})\s*(?:#.*|\(.*)?$"
)
_TIMES = re.compile(r"\s+(\d[\d,]*(?:\.\d+)?)(?: \+- [\d.,]+)? seconds (time elapsed|user|sys)")
_TALK = re.compile(
    r"\s*Performance counter stats|\s*<not (?:supported|counted)>|\s*[\d.]+\s+<not|#|\s+#|"
    r"\s*Some events weren't counted|\s*echo |\s*perf stat |.*<not (?:supported|counted)>|"
    r"\s+\([\d.]+%\)$"
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?$")
_EVENT = re.compile(r"[a-zA-Z][\w.:/=@{}-]{0,200}$")
_SEPARATORS = (";", ",", "|", "\t")

# More of these is worse at the same work; of others that depends on what was asked.
_COSTS = re.compile(
    r"misses|faults|switches|migrations|clock|cycles|energy|stalled|duration_time", re.IGNORECASE
)


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give every counter that counted; with -I each interval is an iteration."""
    for line in lines:
        text = line.text
        if found := _TIMES.match(text):
            name = {"time elapsed": "elapsed"}.get(found[2], found[2])
            yield Value("perf stat", "", name, "s", "lower", number(found[1]))
        elif value := _separated(text):
            yield value
        elif _separated_empty(text):
            continue
        elif found := _COUNT.match(text):
            yield _value(
                found["cpu"] or "", found["event"], found["unit"] or "1", number(found["value"])
            )
        elif not _TALK.match(text):
            yield Unread(line.number, text)


def _separated(text: str) -> Value | None:
    """Read value, unit, event, with the time or the CPU before them."""
    fields = _fields(text)
    for start in range(min(3, len(fields) - 2)):
        value, unit, event = fields[start : start + 3]
        if _NUMBER.match(value) and _EVENT.match(event) and not _NUMBER.match(unit):
            place = fields[start - 1] if start else ""
            return _value("" if _NUMBER.match(place) else place, event, unit or "1", float(value))
    return None


def _separated_empty(text: str) -> bool:
    """Whether it is a counter that did not count, or a metric of the counter before."""
    fields = _fields(text)
    return bool(fields) and (
        any(field.startswith("<not ") for field in fields[:3]) or not any(fields[:3])
    )


def _fields(text: str) -> list[str]:
    for separator in _SEPARATORS:
        fields = [field.strip() for field in text.split(separator)]
        if len(fields) > 4:  # noqa: PLR2004 - no counter as text has so many
            return fields
    return []


def _value(place: str, event: str, unit: str, value: float) -> Value:
    better: Better | None = "lower" if _COSTS.search(event) else None
    return Value("perf stat", place, event, unit, better, value)
