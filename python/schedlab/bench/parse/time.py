"""time: GNU's (short, -v, -p), and those of bash, zsh and csh."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Unread, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line

_CLOCK = r"(\d{1,9}(?::\d{1,2}){0,2}(?:\.\d+)?)"
_SECONDS = r"(\d{1,12}(?:\.\d+)?)"
# Each gives user, system and elapsed time, in the order of the names.
_WHOLE = [
    (
        re.compile(rf"{_SECONDS}user {_SECONDS}system {_CLOCK}elapsed"),
        ("user", "system", "elapsed"),
    ),
    (
        re.compile(rf".{{0,4096}}?\s{_SECONDS}s user {_SECONDS}s system \d+% cpu {_CLOCK} total"),
        ("user", "system", "elapsed"),
    ),
    (re.compile(rf"{_SECONDS}u {_SECONDS}s {_CLOCK} [\d.]+%"), ("user", "system", "elapsed")),
]
_PARTS = {"real": "elapsed", "user": "user", "sys": "system"}
_PART = re.compile(rf"(real|user|sys)\s+(?:(\d{{1,9}})m)?{_SECONDS}s?(?: s)?$")
_VERBOSE = {
    "User time (seconds)": ("user", "s"),
    "System time (seconds)": ("system", "s"),
    "Elapsed (wall clock) time (h:mm:ss or m:ss)": ("elapsed", "s"),
    "Maximum resident set size (kbytes)": ("maximum resident set", "KiB"),
    "Voluntary context switches": ("voluntary context switches", "1"),
    "Involuntary context switches": ("involuntary context switches", "1"),
}
_VERBOSE_LINE = re.compile(r"\s([A-Z][^\"]{2,60}?): (.*)$")
_TALK = re.compile(r"\d+inputs\+\d+outputs|Command exited with|Command terminated by")


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give user, system and elapsed time of each run."""
    for line in lines:
        found = list(_figures(line.text))
        if found:
            yield from found
        elif not _TALK.match(line.text) and not _VERBOSE_LINE.match(line.text):
            yield Unread(line.number, line.text)


def _figures(text: str) -> Iterator[Value]:
    for pattern, names in _WHOLE:
        if found := pattern.match(text):
            for name, word in zip(names, found.groups(), strict=True):
                yield _value(name, seconds(word))
            return
    if found := _PART.match(text):
        yield _value(_PARTS[found[1]], 60 * int(found[2] or 0) + float(found[3]))
    elif (found := _VERBOSE_LINE.match(text)) and found[1] in _VERBOSE:
        name, unit = _VERBOSE[found[1]]
        if re.fullmatch(_CLOCK, found[2]):
            yield _value(name, seconds(found[2]), unit)


def _value(name: str, value: float, unit: str = "s") -> Value:
    return Value("time", "", name, unit, "lower", value)


def seconds(clock: str) -> float:
    """Read ``h:mm:ss``, ``m:ss.cc`` or seconds.

    >>> seconds("1:12.17"), seconds("1:00:00")
    (72.17, 3600.0)
    """
    total = 0.0
    for part in clock.split(":"):
        total = 60 * total + float(part)
    return total
