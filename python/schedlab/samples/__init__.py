"""A recorded trace for demonstrations; ORIGIN.md tells where it comes from."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["DESCRIPTION", "MACHINE", "NAME", "idle_trace"]

NAME = "idle-menu.dat"

DESCRIPTION = (
    "five periodic tasks on a real Linux 6.12 kernel with the menu governor, 4 virtual CPUs, "
    "recorded with trace-cmd for schedlab (GPL-2.0-only)"
)

MACHINE = "simidle"
"""The machine that it was recorded on."""


@contextmanager
def idle_trace() -> Iterator[Path]:
    """Give the path of the trace.

    >>> with idle_trace() as path:
    ...     path.stat().st_size
    1567979
    """
    with resources.as_file(resources.files(__package__) / NAME) as path:
        yield path
