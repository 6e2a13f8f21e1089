"""An independent reading of printed traces: event counts and wakeup latencies, by plain rules.

Nothing of schedlab is used here. The rules are written for being obviously right, not for speed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TIME_AND_REST = r"""
    (?P<seconds>\d+)\.(?P<fraction>\d{1,9}):\s+
    (?:\d+\s+)?                    # perf's sample period
    (?:[\w-]+:(?=\w+:))?           # perf's system
    (?P<name>\S+):(?:\s+(?P<body>.*))?$"""
EVENTS = (
    # `comm-pid [cpu] flags seconds.fraction: name: body`, and perf's `comm pid/tid [cpu] ...`.
    re.compile(
        r"""^\s*.*?[-\s/](?P<pid>-?\d+)\s+
        (?:\([-\s\d]+\)\s+)?           # thread group
        \[(?P<cpu>\d+)\]\s+
        (?:\([-\s\d]+\)\s+)?           # thread group, elsewhere
        (?:[^\s\d]\S*\s+)?             # flags"""
        + TIME_AND_REST,
        re.VERBOSE,
    ),
    # The latency format has CPU and flags in one word: `comm-pid   3d..2. seconds...`.
    re.compile(r"^\s*.*?-(?P<pid>\d+)\s+(?P<cpu>\d+)[^\s\d]\S+\s+" + TIME_AND_REST, re.VERBOSE),
)
LOST = re.compile(r"CPU:(?P<cpu>\d+) \[(?:LOST.*EVENTS|.*EVENTS DROPPED)\]$")
SWITCHES = (
    re.compile(
        r"prev_comm=.* prev_pid=(?P<prev>\d+) prev_prio=-?\d+ prev_state=\S+ (?:==> )?"
        r"next_comm=.* next_pid=(?P<next>\d+) next_prio=-?\d+"
    ),
    re.compile(r".*:(?P<prev>\d+) \[-?\d+\] \S+ ==> .*:(?P<next>\d+) \[-?\d+\]"),
)
WAKES = (
    re.compile(r"comm=.* pid=(?P<pid>\d+) prio=-?\d+ (?P<success>success=\d )?target_cpu=\d+"),
    re.compile(r".*:(?P<pid>\d+) \[-?\d+\](?P<success> success=\d)? CPU:\d+"),
)

BEGINS = {
    "waking": {"sched_waking", "sched_wakeup_new"},
    "wakeup": {"sched_wakeup", "sched_wakeup_new"},
}


@dataclass(frozen=True)
class Line:
    """One event line, or a mark of lost events (whose name is empty)."""

    time_ns: int
    cpu: int
    pid: int
    name: str
    body: str


def event_lines(lines: Iterable[str]) -> Iterator[Line]:
    """Take the event lines apart, in the order of the text; a loss has the next event's time."""
    lost: set[int] = set()
    for text in lines:
        if event := first_match(EVENTS, text):
            cpu = int(event["cpu"])
            time_ns = int(event["seconds"]) * 10**9 + int(event["fraction"].ljust(9, "0"))
            if cpu in lost:
                lost.remove(cpu)
                yield Line(time_ns, cpu, -1, "", "")
            yield Line(time_ns, cpu, int(event["pid"]), event["name"], event["body"] or "")
        elif loss := LOST.search(text):
            lost.add(int(loss["cpu"]))


@dataclass
class Latencies:
    """Follows who runs where, and from when each woken task waits."""

    begins: set[str]
    running: dict[int, int] = field(default_factory=dict)
    woken_ns: dict[int, int] = field(default_factory=dict)
    latencies_ns: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def feed(self, line: Line) -> None:
        """Take one line, in time order."""
        if not line.name:
            self.running.pop(line.cpu, None)
            self.woken_ns.clear()
            return
        # What a CPU runs before its first switch is what its lines say of themselves.
        self.running.setdefault(line.cpu, line.pid)
        if line.name == "sched_switch":
            if switch := first_match(SWITCHES, line.body):
                self.switch(line, int(switch["prev"]), int(switch["next"]))
        elif line.name in self.begins and (wake := first_match(WAKES, line.body)):
            pid = int(wake["pid"])
            succeeded = "0" not in (wake["success"] or "")
            if succeeded and pid not in self.running.values():
                self.woken_ns.setdefault(pid, line.time_ns)

    def switch(self, line: Line, prev: int, incoming: int) -> None:
        """One task leaves, another comes."""
        self.woken_ns.pop(prev, None)
        self.running[line.cpu] = incoming
        woken_ns = self.woken_ns.pop(incoming, None)
        if woken_ns is not None and incoming != 0:
            self.latencies_ns[incoming].append(line.time_ns - woken_ns)


def first_match(patterns: Iterable[re.Pattern[str]], body: str) -> re.Match[str] | None:
    """Match whichever print of an event the body has."""
    return next((match for pattern in patterns if (match := pattern.match(body))), None)


@dataclass
class Printed:
    """What a printed trace holds."""

    counts: dict[str, int]
    latencies_ns: dict[str, dict[int, list[int]]]


def read_printed(lines: Iterable[str]) -> Printed:
    """Count events by name, and list each task's wakeup latencies (sorted) for both beginnings."""
    events = list(event_lines(lines))
    counts = Counter(line.name for line in events if line.name)
    # Merging tools leave slight disorder; equal times keep the order of the text.
    events.sort(key=lambda line: line.time_ns)
    latencies_ns = {}
    for beginning, names in BEGINS.items():
        latencies = Latencies(names)
        for line in events:
            latencies.feed(line)
        latencies_ns[beginning] = {
            pid: sorted(values) for pid, values in sorted(latencies.latencies_ns.items())
        }
    return Printed(dict(sorted(counts.items())), latencies_ns)
