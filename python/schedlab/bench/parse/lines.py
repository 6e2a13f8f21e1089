"""Lines of files that nobody vouches for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

__all__ = ["LONGEST", "Line", "lines_of", "number", "of_text"]

LONGEST = 1 << 16
"""Bytes of a line that are looked at; no tool prints longer ones."""

# Moves of the cursor, colours, and titles of terminals.
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)")


class Line(NamedTuple):
    """A line, counted from 1; a carriage return ends one as well but is not counted."""

    number: int
    text: str


def lines_of(path: Path) -> Iterator[Line]:
    """Read a file line by line, whatever is in it, in bounded memory.

    Raises ``OSError`` with the file's name.
    """
    with path.open("rb") as file:
        yield from _lines(file)


def _lines(file: BinaryIO) -> Iterator[Line]:
    number = 1
    whole = True
    while chunk := file.readline(LONGEST):
        # What a line has beyond its bound is dropped; its beginning was given already.
        if whole:
            yield from _parts(number, chunk.decode("utf-8", "replace"))
        whole = chunk.endswith(b"\n")
        number += whole


def of_text(text: str) -> Iterator[Line]:
    """Give the lines of a text in the same way."""
    for number, line in enumerate(text.split("\n"), 1):
        yield from _parts(number, line[:LONGEST])


def _parts(number: int, text: str) -> Iterator[Line]:
    for part in text.rstrip("\n").split("\r"):
        bare = _ESCAPES.sub("", part).rstrip()
        if bare:
            yield Line(number, bare)


def number(text: str) -> float:
    """Read a number that may have thousands marked by commas.

    >>> number("1,234.5")
    1234.5
    """
    return float(text.replace(",", ""))
