"""Tables of a study that stand for many: ``each`` names what differs between them.

With ``each = { n = [1, 2], mode = [{ word = "a", on = true }, { word = "b", on = false }] }`` one
table makes four, in which ``{n}``, ``{mode.word}`` and ``{mode.on}`` are replaced. A string that is
nothing but such a name becomes the value itself, whatever its type.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

__all__ = ["EACH_MAX", "EachError", "expand"]

# Tables that one may stand for: a slip should not fill the memory.
EACH_MAX = 10_000

_NAME = re.compile(r"\{(\w+)(?:\.(\w+))?\}")


class EachError(ValueError):
    """What is wrong with ``each``, or with a name that should be replaced."""


def expand(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the tables that one stands for, the last name of ``each`` varying fastest.

    >>> [row["name"] for row in expand({"name": "a-{n}", "each": {"n": [1, 2]}})]
    ['a-1', 'a-2']
    >>> expand({"x": "{m.x}", "each": {"m": [{"x": 0.5}]}})
    [{'x': 0.5}]

    Raises :class:`EachError`.
    """
    if "each" not in table:
        return [table]
    names = table["each"]
    if not isinstance(names, dict) or not names:
        raise EachError("each must name lists: each = { groups = [1, 2] }")
    for name, values in names.items():
        if not isinstance(values, list) or not values:
            raise EachError(f"each.{name} is {values!r}; it must be a list of one value or more")
    count = 1
    for values in names.values():
        count *= len(values)
    if count > EACH_MAX:
        raise EachError(f"each makes {count:,} tables of one; at most {EACH_MAX:,} are taken")
    rest = {key: value for key, value in table.items() if key != "each"}
    rows = [
        {
            key: _replaced(value, dict(zip(names, chosen, strict=True)))
            for key, value in rest.items()
        }
        for chosen in itertools.product(*names.values())
    ]
    unused = [name for name in names if not _mentions(rest, name)]
    if unused:
        raise EachError(f"each.{unused[0]} is used nowhere in this table; write {{{unused[0]}}}")
    return rows


def _replaced(value: Any, chosen: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(inner, chosen) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, chosen) for inner in value]
    if not isinstance(value, str):
        return value
    if whole := _NAME.fullmatch(value):
        return _looked_up(whole, chosen)
    return _NAME.sub(lambda match: str(_looked_up(match, chosen)), value)


def _looked_up(match: re.Match[str], chosen: dict[str, Any]) -> Any:
    name, part = match[1], match[2]
    if name not in chosen:
        raise EachError(f"{match[0]} is not in each, which has {', '.join(chosen)}")
    value = chosen[name]
    if part is None and not isinstance(value, dict):
        return value
    if isinstance(value, dict) and part in value:
        return value[part]
    parts = f"{{{name}.{next(iter(value), '')}}}" if isinstance(value, dict) else f"{{{name}}}"
    raise EachError(f"{match[0]} has no such part; write {parts}")


def _mentions(value: Any, name: str) -> bool:
    if isinstance(value, dict):
        return any(_mentions(inner, name) for inner in value.values())
    if isinstance(value, list):
        return any(_mentions(inner, name) for inner in value)
    return isinstance(value, str) and any(match[1] == name for match in _NAME.finditer(value))
