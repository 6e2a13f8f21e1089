"""cyclictest of rt-tests: timer latencies over all threads of a run."""

from __future__ import annotations

import re
from statistics import fmean
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Unread, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line

_THREAD = re.compile(
    r"T:\s*(\d{1,6}) \(\s*\d+\) P:\s*\d+ I:\s*\d+ C:\s*(\d{1,18}) "
    r"Min:\s*(\d{1,18}) Act:\s*\d+ Avg:\s*(\d{1,18}) Max:\s*(\d{1,18})"
)
_HISTOGRAM = re.compile(r"# (Min|Avg|Max) Latencies: ([\d ]+)$")
_TALK = re.compile(r"# |policy: |\s*\d+(?:\s+\d+)+$|WARN|defaulting")

# The cursor goes back to the first thread at each refresh; only the last state of a run counts.
Thread = tuple[int, float, float, float]


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give the least, mean and greatest latency of each run, over its threads."""
    threads: dict[int, Thread] = {}
    histogram: dict[str, list[float]] = {}
    for line in lines:
        if found := _THREAD.match(line.text):
            number, cycles = int(found[1]), int(found[2])
            # Cycles only grow within a run.
            if number in threads and cycles < threads[number][0]:
                yield from _done(threads)
                threads = {}
            threads[number] = (cycles, float(found[3]), float(found[4]), float(found[5]))
        elif found := _HISTOGRAM.match(line.text):
            histogram[found[1]] = [float(word) for word in found[2].split()]
            if found[1] == "Max" and len(histogram) == 3 and all(histogram.values()):  # noqa: PLR2004 - Min, Avg, Max
                rows = zip(histogram["Min"], histogram["Avg"], histogram["Max"], strict=False)
                yield from _done({place: (0, *row) for place, row in enumerate(rows)})
                histogram = {}
        elif not _TALK.match(line.text):
            yield Unread(line.number, line.text)
    yield from _done(threads)


def _done(threads: dict[int, Thread]) -> Iterator[Value]:
    if not threads:
        return
    rows = list(threads.values())
    for name, value in (
        ("latency min", min(row[1] for row in rows)),
        ("latency avg", fmean(row[2] for row in rows)),
        ("latency max", max(row[3] for row in rows)),
    ):
        yield Value("cyclictest", f"threads={len(rows)}", name, "us", "lower", value)
