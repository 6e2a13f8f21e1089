"""pi_stress of rt-tests: priority inversions that were resolved."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Unread, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line

_TOTAL = re.compile(r"Total inversion performed: (\d{1,18})$")
_TALK = re.compile(
    r"Test Duration|Starting PI Stress|Number of |Duration of|Current Inversions|Stopping test|"
    r"\s*(?:Admin|High|Med|Low) +thread|\d+ groups of"
)


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give the inversions of each run; its duration is printed in whole seconds only."""
    for line in lines:
        if found := _TOTAL.match(line.text):
            yield Value("pi_stress", "", "inversions", "1", "higher", float(found[1]))
        elif not _TALK.match(line.text):
            yield Unread(line.number, line.text)
