"""Numbers that the compiled half cannot hold, or that mean nothing: refused by their names."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

Range = tuple[int, int]

U32: Range = (0, 2**32 - 1)
U64: Range = (0, 2**64 - 1)
I64: Range = (-(2**63), 2**63 - 1)

CPUS: Range = (1, 2048)
"""As many as a machine may have."""

HZ: Range = (1, 100_000)
"""Ticks per second of a traced kernel."""

ITERATIONS: Range = (2, 1_000_000)
"""Runs that tell a spread; a million of a benchmark take years."""

JOBS: Range = (1, 4096)
"""More processes than any machine has CPUs are a slip of the finger, and may take it down."""


def check_range(
    name: str, value: float | None, allowed: Range, error: type[ValueError] = ValueError
) -> None:
    """Refuse a number out of a range, both ends of which are in it; ``None`` is no number.

    >>> check_range("hz", 0, HZ)
    Traceback (most recent call last):
    ValueError: hz is 0; give 1 to 100000
    """
    low, high = allowed
    if value is not None and not low <= value <= high:
        raise error(f"{name} is {value}; give {low} to {high}")


def bounded(
    error: type[ValueError] = ValueError, **ranges: Range
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function name the argument that the compiled half found too large or too small.

    A call that goes well pays nothing, since it is only upon an ``OverflowError`` that the
    arguments are looked at.

    >>> @bounded(seed=U32)
    ... def draw(seed):
    ...     return seed.to_bytes(4)
    >>> draw(-1)
    Traceback (most recent call last):
    ValueError: seed is -1; give 0 to 4294967295
    """

    def name_what_is_out_of_range(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except OverflowError:
                arguments = inspect.signature(function).bind(*args, **kwargs).arguments
                for name, allowed in ranges.items():
                    check_range(name, arguments.get(name), allowed, error)
                raise

        return call

    return name_what_is_out_of_range
