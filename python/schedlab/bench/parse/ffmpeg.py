"""ffmpeg: frames per second and speed of its last progress line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Unread, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line

_PROGRESS = re.compile(r"frame=\s*(\d{1,18}) fps=\s*(\d+(?:\.\d+)?) ")
_SPEED = re.compile(r"speed=\s*(\d+(?:\.\d+)?(?:e[+-]?\d{1,2})?)x")
_BENCHMARK = re.compile(
    r"bench: utime=(\d+(?:\.\d+)?)s stime=(\d+(?:\.\d+)?)s rtime=(\d+(?:\.\d+)?)s"
)
_TALK = re.compile(
    r"\s|ffmpeg version|Input #|Output #|Stream mapping|Press \[q\]|video:|\[|bench: maxrss|"
    r"size=|Last message|Guessed|Metadata"
)


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give the figures of each run; the banner of the next one, or the summary, ends one."""
    last = None
    for line in lines:
        if line.text.startswith("frame="):
            if found := _PROGRESS.match(line.text):
                last = (found, _SPEED.search(line.text))
            else:
                yield Unread(line.number, line.text)
        elif found := _BENCHMARK.match(line.text):
            for name, word in zip(("user", "system", "elapsed"), found.groups(), strict=True):
                yield Value("ffmpeg", "", name, "s", "lower", float(word))
        elif line.text.startswith(("video:", "ffmpeg version")):
            yield from _done(last)
            last = None
        elif not _TALK.match(line.text):
            yield Unread(line.number, line.text)
    yield from _done(last)


def _done(last: tuple[re.Match[str], re.Match[str] | None] | None) -> Iterator[Value]:
    if last is None:
        return
    progress, speed = last
    # The tool prints 0.0 until half a second has passed.
    if float(progress[2]) > 0:
        yield Value("ffmpeg", "", "frames per second", "frames/s", "higher", float(progress[2]))
    if speed:
        yield Value("ffmpeg", "", "speed", "x", "higher", float(speed[1]))
