"""hackbench of rt-tests and of old: one time per run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Unread, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line

_MODE = re.compile(
    r"Running in (process|threaded) mode with (\d{1,9}) groups using (\d{1,9}) file descriptors"
)
_OLD = re.compile(r"Running with (\d{1,9})\*(\d{1,9}) \(== \d+\) tasks")
_SENDERS = re.compile(r"Each sender will pass \d+ messages of \d+ bytes")
_TIME = re.compile(r"Time: (\d+(?:\.\d+)?)$")


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give the time of each run.

    The tool prints twice its number of file descriptors (rt-tests 2.4), and does not say whether it
    used pipes or sockets.
    """
    case = ""
    for line in lines:
        if found := _TIME.match(line.text):
            yield Value("hackbench", case, "time", "s", "lower", float(found[1]))
            case = ""
        elif found := _MODE.match(line.text):
            case = f"{found[1]} groups={found[2]} fds={int(found[3]) // 2}"
        elif found := _OLD.match(line.text):
            case = f"groups={found[1]}"
        elif not _SENDERS.match(line.text):
            yield Unread(line.number, line.text)
