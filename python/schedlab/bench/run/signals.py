"""Signals that ask a session to end: at once, or once what must not be torn apart is whole."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Stop", "held", "stop_if_asked", "stopping"]

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop(BaseException):
    """A signal asks to end; nothing but the session catches it."""


class _State:
    """What the handler of signals sees."""

    holders = 0
    asked = False


def _handle(number: int, _frame: object) -> None:
    _State.asked = True
    if not _State.holders:
        raise Stop(number)


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """Let SIGINT, SIGTERM and a closed terminal raise :class:`Stop`."""
    _State.asked = False
    old = {number: signal.signal(number, _handle) for number in ASKING}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let no signal interrupt; :func:`stop_if_asked` tells of those that came."""
    _State.holders += 1
    try:
        yield
    finally:
        _State.holders -= 1


def stop_if_asked() -> None:
    """Raise what a signal asked for meanwhile."""
    if _State.asked:
        raise Stop
