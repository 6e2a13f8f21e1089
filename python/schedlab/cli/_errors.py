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


class Refusal(click.ClickException):
    """An input that cannot be used: exit code 2."""

    exit_code = 2


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
    from schedlab._schedlab import (  # noqa: PLC0415 - `--help` needs none
        GovernorError,
        KernelError,
        MachineError,
        ReplayError,
        TraceError,
        WorkloadError,
    )
    from schedlab.comparison.model import CompareError  # noqa: PLC0415 - as above
    from schedlab.store import StoreError  # noqa: PLC0415 - as above
    from schedlab.study.reading import StudyError  # noqa: PLC0415

    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except (
        GovernorError,
        KernelError,
        MachineError,
        ReplayError,
        TraceError,
        WorkloadError,
        StudyError,
        StoreError,
        CompareError,
    ) as error:
        raise Refusal(str(error)) from None
    except KeyboardInterrupt:
        raise _Interrupted from None
    except BrokenPipeError:
        _drop_output()
        raise _NobodyReads from None
    except MemoryError:
        raise Refusal("out of memory; the command line streams, so the input is at fault") from None
    except OSError as error:
        if error.filename is None:
            _drop_output()
        place = "standard output" if error.filename is None else os.fsdecode(error.filename)
        raise Refusal(f"{place}: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "no space left; free some, or write elsewhere"
    return error.strerror or str(error)


def _drop_output() -> None:
    """Let the interpreter's last flush go nowhere, since the output takes nothing more."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
