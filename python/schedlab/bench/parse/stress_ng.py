"""stress-ng --metrics and --metrics-brief."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Unread, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line
    from schedlab.stats import Better

_PREFIX = re.compile(r"stress-ng: +(\w+): +\[\d+\] ?(.*)$")
_ROW = re.compile(r"([a-z][\w-]{0,60})((?:\s+\d+(?:\.\d+)?){6,10})$")
_EXTRA = re.compile(
    r"([a-z][\w-]{0,60})\s+(\d+(?:\.\d+)?) ([A-Za-z%].{0,120}?)(?: \(geo\w+ mean.*)?$"
)
_TALK = re.compile(
    r"stressor +bogo|\(secs\)|miscellaneous metrics|setting to|dispatching|successful run|"
    r"unsuccessful|skipped|passed|failed|metrics? |^$|note:|default|for a"
)
_COSTS = ("nanosec", "microsec", "millisec", "sec per", "seconds per")


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give the rates of each stressor, by real time and by CPU time, and its own metrics."""
    for line in lines:
        prefix = _PREFIX.match(line.text)
        if prefix is None:
            yield Unread(line.number, line.text)
            continue
        text = prefix[2].strip()
        if found := _ROW.match(text):
            numbers = [float(word) for word in found[2].split()]
            yield _rate(found[1], "bogo ops/s (real time)", numbers[4])
            yield _rate(found[1], "bogo ops/s (usr+sys time)", numbers[5])
        elif _TALK.search(text):
            continue
        elif prefix[1].startswith("metr") and (found := _EXTRA.match(text)):
            words = found[3].strip()
            better: Better | None = None
            if words.startswith(_COSTS):
                better = "lower"
            elif "per sec" in words or words.endswith("/sec"):
                better = "higher"
            yield Value("stress-ng", found[1], words, "", better, float(found[2]))
        else:
            yield Unread(line.number, line.text)


def _rate(stressor: str, metric: str, value: float) -> Value:
    return Value("stress-ng", stressor, metric, "ops/s", "higher", value)
