"""Tables of mmtests' compare, as they stand in mails.

Each kernel has a column ``mean ( gain %)``, the gain positive where it is better, so that its sign
tells which direction is. A row ``CoeffVar`` gives the spread, where it was printed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from schedlab.bench.parse.items import Item, Mean, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from schedlab.bench.parse.lines import Line
    from schedlab.stats import Better

_QUOTE = re.compile(r"^(?:> ?)+")
_MEANS = ("Amean", "Hmean", "Gmean", "Ops")
_ROW = re.compile(r"([A-Z][\w-]{1,20})\s+(\S.{0,80}?)\s+(\d.*[)*])\s*$")
_CELL = re.compile(r"(\d+(?:\.\d+)?)\s+[(*]\s*(-?\d+(?:\.\d+)?)%[)*]")
_CELLS = re.compile(rf"(?:{_CELL.pattern}\s*)+$")
_DURATION = re.compile(r"Duration\s")
_HEADER = re.compile(r"\s{4,}\S")
_UNIT = re.compile(r"\((\w[\w/]{0,15})\)\s*$")


class _Table:
    """One table, which ends where the next begins."""

    def __init__(self, title: str, header: list[str]) -> None:
        self.title, self.header = title, header
        self.means: dict[tuple[str, str], list[tuple[float, float]]] = {}
        self.spreads: dict[str, list[float]] = {}

    def take(self, row: re.Match[str]) -> None:
        """Take a row of means or of spreads; other rows are about the same runs."""
        cells = [(float(a), float(b)) for a, b in _CELL.findall(row[3])]
        if row[1] in _MEANS:
            self.means[row[1], row[2]] = cells
        elif row[1] == "CoeffVar":
            self.spreads[row[2]] = [value for value, _ in cells]

    def done(self) -> Iterator[Mean]:
        unit = _UNIT.search(self.title)
        name = _UNIT.sub("", self.title).strip() or "mmtests"
        for (kind, case), cells in self.means.items():
            labels = self._labels(len(cells))
            spread = self.spreads.get(case, [])
            for place, (mean, _) in enumerate(cells):
                yield Mean(
                    name,
                    case,
                    kind,
                    unit[1] if unit else "",
                    _better(kind, cells),
                    labels[place],
                    mean,
                    spread[place] if len(spread) == len(cells) else None,
                )

    def _labels(self, columns: int) -> list[str]:
        """Name kernels by their header, whose words may have run into one another."""
        rows = [words for words in (line.split() for line in self.header) if len(words) == columns]
        names = [" ".join(words) for words in zip(*rows, strict=True)]
        if len(set(names)) == columns:
            return names
        return [f"kernel-{place + 1}" for place in range(columns)]


def _better(kind: str, cells: list[tuple[float, float]]) -> Better:
    base = cells[0][0]
    for mean, gain in cells[1:]:
        if mean != base and gain:
            return "higher" if (mean > base) == (gain > 0) else "lower"
    return "lower" if kind == "Amean" else "higher"


def parse(lines: Iterable[Line]) -> Iterator[Item]:
    """Give the means of each table."""
    title = ""
    header: list[str] = []
    table: _Table | None = None
    for line in lines:
        text = _QUOTE.sub("", line.text)
        row = _ROW.match(text)
        if row and _CELLS.match(row[3]):
            table = table or _Table(title, header)
            table.take(row)
            continue
        if _DURATION.match(text):
            continue
        if table is not None:
            yield from table.done()
            table, title, header = None, "", []
        if _HEADER.match(text):
            header = [*header, text][-2:]
        elif text.strip():
            # The line above a table is its title; any further ones were prose.
            if title:
                yield Unread(line.number - 1, title)
            title, header = text.strip()[:200], []
    if table is not None:
        yield from table.done()
