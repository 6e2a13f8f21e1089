"""sysbench 1.0 and master: cpu, memory, threads, mutex, and the databases' rates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Unread, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line
    from schedlab.stats import Better

_NUMBER = r"(\d+(?:\.\d+)?)"

# What a line says, and the figure that it is: metric, unit, better.
_FIGURES: list[tuple[re.Pattern[str], str, str, Better]] = [
    (re.compile(rf"\s+events per second:\s+{_NUMBER}$"), "events per second", "events/s", "higher"),
    (re.compile(rf"\s+events/s \(eps\):\s+{_NUMBER}$"), "events per second", "events/s", "higher"),
    (
        re.compile(rf"Total operations: \d+ \(\s*{_NUMBER} per second\)"),
        "operations per second",
        "ops/s",
        "higher",
    ),
    (re.compile(rf"[\d.]+ Mi?B transferred \({_NUMBER} Mi?B/sec\)"), "MiB/sec", "MiB/s", "higher"),
    (re.compile(rf"\s+(?:total time|time elapsed):\s+{_NUMBER}s"), "total time", "s", "lower"),
    (re.compile(rf"\s+min:\s+{_NUMBER}$"), "latency min", "ms", "lower"),
    (re.compile(rf"\s+avg:\s+{_NUMBER}$"), "latency avg", "ms", "lower"),
    (re.compile(rf"\s+max:\s+{_NUMBER}$"), "latency max", "ms", "lower"),
    (
        re.compile(rf"\s+transactions:\s+\d+\s+\({_NUMBER} per sec"),
        "transactions per second",
        "1/s",
        "higher",
    ),
    (
        re.compile(rf"\s+queries:\s+\d+\s+\({_NUMBER} per sec"),
        "queries per second",
        "1/s",
        "higher",
    ),
]
_PERCENTILE = re.compile(rf"\s+(\d{{1,3}})th percentile:\s+{_NUMBER}$")
_EVENTS = re.compile(r"\s+total number of events:\s+(\d{1,18})")
_THREADS = re.compile(r"Number of threads: (\d{1,9})")
_START = re.compile(r"sysbench \S+")
_TESTS = {
    "Prime numbers limit": "cpu",
    "Running memory speed test": "memory",
    "Doing CPU performance": "cpu",
    "CPU speed": "cpu",
}
_TALK = re.compile(
    r"Running the test|Initializing|Threads started|General statistics|Latency \(ms\)|Throughput|"
    r"Threads fairness|\s+events \(avg/stddev\)|\s+execution time \(avg/stddev\)|\s+sum:|"
    r"\s+block size|\s+total size|\s+operation:|\s+scope:|SQL statistics|\s+queries performed|"
    r"\s+(?:read|write|other|total|ignored errors|reconnects):|\[ \d|Random number|"
    r"WARNING|Done\.|(?:File operations|reads/s|writes/s|fsyncs/s)"
)


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give the figures of each run.

    Version 1.0 prints no rate for threads and mutex: it is that of its events over its time.
    """
    case = _Case()
    run: dict[str, Value] = {}
    events = 0.0
    for line in lines:
        text = line.text
        if _START.match(text):
            yield from _done(run, events, case)
            case, run, events = _Case(), {}, 0.0
            continue
        for words, test in _TESTS.items():
            if text.startswith(words):
                case.test = test
        if found := _THREADS.match(text):
            case.threads = found[1]
        elif found := _EVENTS.match(text):
            events = float(found[1])
        elif found := _PERCENTILE.match(text):
            metric = f"latency p{found[1]}"
            run[metric] = Value("sysbench", "", metric, "ms", "lower", float(found[2]))
        elif (
            not _figure(text, run) and not _TALK.match(text) and not text.startswith(tuple(_TESTS))
        ):
            yield Unread(line.number, text)
    yield from _done(run, events, case)


class _Case:
    test = ""
    threads = ""

    def __str__(self) -> str:
        threads = f"threads={self.threads}" if self.threads else ""
        return " ".join(part for part in (self.test, threads) if part)


def _figure(text: str, run: dict[str, Value]) -> bool:
    for pattern, metric, unit, better in _FIGURES:
        if found := pattern.match(text):
            run.setdefault(metric, Value("sysbench", "", metric, unit, better, float(found[1])))
            return True
    return False


def _done(run: dict[str, Value], events: float, case: _Case) -> Iterator[Value]:
    total = run.get("total time")
    if total is not None and total.value > 0 and events and "events per second" not in run:
        rate = events / total.value
        run["events per second"] = Value(
            "sysbench", "", "events per second", "events/s", "higher", rate
        )
    for value in run.values():
        yield value._replace(case=str(case))
