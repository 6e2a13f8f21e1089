"""Reads TOML tables strictly: what is unknown, missing or of a wrong type is named by its line."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, TypeVar

from schedlab.names import near
from schedlab.study.each import EachError, expand

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

_ARRAY = re.compile(r"\s*\[\[([^\]]+)\]\]")
_TABLE = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([\w.-]+)\s*=")


class StudyError(ValueError):
    """A study cannot be used; the text names file, line and mend."""


def lines_of(text: str) -> dict[str, int]:
    r"""Give the line, from 1, of each table and key by its path.

    >>> lines_of("a = 1\n[[w]]\n[w.options]\nb = 2")
    {'a': 1, 'w[0]': 2, 'w[0].options': 3, 'w[0].options.b': 4}
    """
    found: dict[str, int] = {}
    last: dict[str, int] = {}
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := _ARRAY.match(line):
            name = _indexed(match[1].strip(), last)
            last[name] = last.get(name, -1) + 1
            current = f"{name}[{last[name]}]"
            found.setdefault(current, number)
        elif match := _TABLE.match(line):
            current = _indexed(match[1].strip(), last)
            found.setdefault(current, number)
        elif match := _KEY.match(line):
            found.setdefault(f"{current}.{match[1]}" if current else match[1], number)
    return found


def _indexed(name: str, last: dict[str, int]) -> str:
    """Put the index of the array's latest table after each array on the way."""
    *parents, own = name.split(".")
    path = ""
    for parent in parents:
        path = f"{path}.{parent}" if path else parent
        if path in last:
            path += f"[{last[path]}]"
    return f"{path}.{own}" if path else own


class Reader:
    """A table that is read key by key."""

    def __init__(
        self, values: dict[str, Any], file: str, lines: dict[str, int], place: str = ""
    ) -> None:
        """Read ``values``, which stand at ``place`` of ``file``."""
        self.values = values
        self.file = file
        self.lines = lines
        self.place = place
        self.used: list[str] = []

    @classmethod
    def parse(cls, text: str, file: str) -> Reader:
        """Read TOML text; ``file`` is what errors call it."""
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            words = str(error)
            line = re.search(r"at line (\d+)", words)
            what = re.sub(r" \(at .*\)$", "", words)
            raise StudyError(f"{file}:{line[1] if line else 1}: {what}") from None
        return cls(values, file, lines_of(text))

    def where(self, key: str = "") -> str:
        """Give file and line of a key, or of the whole table."""
        path = ".".join(part for part in (self.place, key) if part)
        while path:
            # An array of tables stands where its first one does, and a table where its parts do.
            inner = (f"{path}[", f"{path}.")
            for known, line in self.lines.items():
                if known == path or known.startswith(inner):
                    return f"{self.file}:{line}"
            path = path.rpartition(".")[0]
        return f"{self.file}:1"

    def error(self, what: str, key: str = "") -> StudyError:
        """Make the error of a key, or of the whole table."""
        return StudyError(f"{self.where(key)}: {what}")

    def missing(self, key: str, what: str) -> StudyError:
        """Make the error of a key that there must be: ``what``, or else how it is misspelt."""
        # An unknown key may be this one misspelt, which is the better thing to say.
        self._refuse_unknown(near_only=key)
        return self.error(what)

    def optional(self, key: str, kind: type[T], default: T) -> T:
        """Read a key that may be left out."""
        return self.required(key, kind) if key in self.values else self._known(key, default)

    def _known(self, key: str, default: T) -> T:
        self.used.append(key)
        return default

    def required(self, key: str, kind: type[T]) -> T:
        """Read a key that there must be."""
        self.used.append(key)
        if key not in self.values:
            raise self.missing(key, f"{key} is missing; add it")
        value = self.values[key]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
            raise self.error(f"{key} is {value!r}; it must be {_noun(kind)}", key)
        return value

    def one_of(self, key: str, choices: Sequence[str], default: str | None = None) -> str:
        """Read a word."""
        word = self.required(key, str) if default is None else self.optional(key, str, default)
        if key in self.values and word not in choices:
            known = ", ".join(choices)
            raise self.error(f"{key} is {word!r}; it must be one of {known}", key)
        return word

    def texts(self, key: str, default: list[str] | None = None) -> list[str]:
        """Read a list of strings."""
        values = self.required(key, list) if default is None else self.optional(key, list, default)
        if not all(isinstance(value, str) for value in values):
            raise self.error(f"{key} must be a list of strings", key)
        return values

    def needed(self, key: str) -> Reader:
        """Read a table that there must be."""
        if key not in self.values:
            raise self.missing(key, f"there is no [{key}]; add it")
        return self.table(key)

    def table(self, key: str) -> Reader:
        """Read a table, empty if left out."""
        values = self.optional(key, dict, {})
        return Reader(values, self.file, self.lines, f"{self.place}.{key}" if self.place else key)

    def tables(self, key: str) -> list[Reader]:
        """Read an array of tables, none if left out; one with ``each`` stands for several."""
        rows = self.optional(key, list, [])
        if not all(isinstance(row, dict) for row in rows):
            raise self.error(f"{key} must be tables: [[{key}]]", key)
        place = f"{self.place}.{key}" if self.place else key
        readers = []
        for index, row in enumerate(rows):
            own = f"{place}[{index}]"
            try:
                expanded = expand(row)
            except EachError as error:
                raise self.error(str(error), f"{key}[{index}].each") from None
            readers += [Reader(one, self.file, self.lines, own) for one in expanded]
        return readers

    def finish(self) -> None:
        """Refuse keys that nothing has read."""
        self._refuse_unknown()

    def _refuse_unknown(self, near_only: str = "") -> None:
        for key in self.values:
            if key in self.used:
                continue
            guess = near(key, [near_only] if near_only else self.used)
            if guess or not near_only:
                known = "" if guess else f"; there are {', '.join(self.used)}"
                raise self.error(f"unknown key {key}{guess or known}", key)


def _noun(kind: type) -> str:
    return {
        str: "a string",
        int: "a whole number",
        float: "a number",
        list: "a list",
        dict: "a table",
    }.get(kind, kind.__name__)
