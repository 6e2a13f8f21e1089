"""A command whose error output is a terminal, to be interrupted from the keyboard."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def interrupt(
    command: Sequence[Any], shown: bytes, ready: Callable[[int], bool] = lambda _pid: True
) -> tuple[subprocess.Popen[bytes], bytes, bytes]:
    """Interrupt a command once its terminal shows ``shown`` and its process is ``ready``.

    Gives the process, what it wrote to its standard output, and all that the terminal showed.
    """
    master, slave = pty.openpty()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=slave, start_new_session=True
    ) as process:
        os.close(slave)
        seen = b""
        while shown not in seen:
            seen += os.read(master, 4096)
        while not ready(process.pid):
            # A terminal that nobody reads is soon full, and stops who writes to it.
            if select.select([master], [], [], 0.01)[0]:
                seen += os.read(master, 4096)
        process.send_signal(signal.SIGINT)
        try:
            written, _ = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    try:
        while chunk := os.read(master, 4096):
            seen += chunk
    except OSError:
        pass  # the other side is closed
    os.close(master)
    return process, written, seen
