"""schbench: percentiles of wakeup and request latencies and of requests per second.

Blocks are printed at intervals, each over the whole run so far, so that the last of a run is the
run's. Old versions have one kind of block without a name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Unread, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line

_HEADER = re.compile(
    r"(?:(Wakeup|Request) Latencies|(Latency)|(RPS)) percentiles \((?:usec|requests)\)"
    r"(?: runtime (\d{1,12}) \(s\))?"
)
_PERCENTILE = re.compile(r"\s*\*?\s*(\d{1,3}(?:\.\d{1,6})?)th: (\d{1,18})(?:\s|$)")
_RANGE = re.compile(r"\s*min=(\d{1,18}), max=(\d{1,18})$")
_AVERAGE = re.compile(r"average rps: (\d+(?:\.\d+)?)$")
_TALK = re.compile(
    r"warmup done|setting worker threads|current rps|rps: |avg worker transfer|sched delay|"
    r"final rps goal|schbench |\s*-?\d+ message threads"
)


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give the figures of each run."""
    run: dict[str, Value] = {}
    kind, ended = "", False
    runtime: dict[str, int] = {}
    for line in lines:
        text = line.text
        if found := _HEADER.match(text):
            kind = (found[1] or found[2] or found[3]).lower()
            at = int(found[4] or 0)
            # New versions end a run by its average; old ones begin again.
            if ended or (kind == "latency" and at <= runtime.get(kind, -1)):
                yield from run.values()
                run, runtime, ended = {}, {}, False
            runtime[kind] = at
        elif kind and (found := _PERCENTILE.match(text)):
            _keep(run, kind, f"p{float(found[1]):g}", float(found[2]))
        elif kind and (found := _RANGE.match(text)):
            _keep(run, kind, "min", float(found[1]))
            _keep(run, kind, "max", float(found[2]))
        elif found := _AVERAGE.match(text):
            _keep(run, "rps", "average", float(found[1]))
            ended = True
        elif not _TALK.match(text):
            yield Unread(line.number, text)
    yield from run.values()


def _keep(run: dict[str, Value], kind: str, name: str, value: float) -> None:
    metric = f"{kind} {name}"
    if kind == "rps":
        run[metric] = Value("schbench", "", metric, "requests/s", "higher", value)
    else:
        run[metric] = Value("schbench", "", metric, "us", "lower", value)
