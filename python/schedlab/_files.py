"""Files that are written, and errors that say which one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["naming", "write_bytes", "write_text"]


@contextlib.contextmanager
def naming(path: str | Path, partial: Path | None = None) -> Iterator[None]:
    """Name the file in every ``OSError``: opening does, but writing and closing do not.

    ``partial`` is what the file is called until it is complete, and nobody asked for.

    >>> with naming("page.html"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'page.html'
    """
    try:
        yield
    except OSError as error:
        if error.filename not in (None, str(partial)):
            raise
        reason = error.strerror or str(error)
        raise OSError(error.errno, reason, os.fspath(path)) from error


def write_text(path: str | Path, text: str) -> None:
    """Write a file of text. Raises ``OSError`` with the file's name."""
    write_bytes(path, text.encode())


def write_bytes(path: str | Path, content: bytes | memoryview) -> None:
    """Write a file. Raises ``OSError`` with the file's name."""
    with naming(path):
        Path(path).write_bytes(content)
