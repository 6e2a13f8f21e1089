"""What cannot go on: one or two lines on standard error and an exit code, never a traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator


# What writing to an open stream may end in; anything else is not standard output's fault.
_OF_STREAMS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EAGAIN}


def escaped(text: str) -> str:
    r"""Write what would move the cursor or change the terminal as Python does; lines stay.

    >>> print(escaped("a\x1b[2Jb\nc"))
    a\x1b[2Jb
    c
    """
    return "".join(
        char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text
    )


class Refusal(click.ClickException):
    """An input that cannot be used: exit code 2."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        """Refuse with a message, which may quote anything."""
        super().__init__(escaped(message))


class _Quiet(click.ClickException):
    """An end that needs no words."""

    def __init__(self) -> None:
        super().__init__("")

    def show(self, file: object = None) -> None:
        del file


class _Interrupted(_Quiet):
    exit_code = 128 + signal.SIGINT


class _NobodyReads(_Quiet):
    exit_code = 128 + signal.SIGPIPE


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Turn what inputs, outputs and the user's interrupt raise into a click error."""
    if sys.stdout is None:
        # The next file that is opened would take its place.
        raise Refusal("standard output is closed; redirect it to /dev/null if nobody is to read it")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        raise _Interrupted from None
    except BrokenPipeError:
        _drop_output()
        raise _NobodyReads from None
    except MemoryError:
        raise Refusal("out of memory; the command line streams, so the input is at fault") from None
    except OSError as error:
        raise Refusal(_told(error)) from None
    except ValueError as error:
        if not _is_own(error):
            raise
        raise Refusal(str(error)) from None


def _is_own(error: ValueError) -> bool:
    """Tell whether an error's text is for people; `--help` needs none of these modules."""
    from schedlab._schedlab import (  # noqa: PLC0415
        GovernorError,
        KernelError,
        MachineError,
        ReplayError,
        TraceError,
        WorkloadError,
    )
    from schedlab.comparison.model import CompareError  # noqa: PLC0415
    from schedlab.store import StoreError  # noqa: PLC0415
    from schedlab.study.reading import StudyError  # noqa: PLC0415

    own = (GovernorError, KernelError, MachineError, ReplayError, TraceError, WorkloadError)
    return isinstance(error, (*own, StudyError, StoreError, CompareError))


def _told(error: OSError) -> str:
    """Say what failed where; what writes files names them, so a stream alone has no name."""
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {_reason(error)}"
    if error.errno not in _OF_STREAMS:
        return _reason(error)
    _drop_output()
    return f"standard output: {_reason(error)}"


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "no space left; free some, or write elsewhere"
    return error.strerror or str(error)


def _drop_output() -> None:
    """Let the interpreter's last flush go nowhere, since the output takes nothing more."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
