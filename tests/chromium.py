"""Drives headless Chromium through its DevTools pipe: no driver, no network, no port."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import tempfile
import time
from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

NAMES = ("chromium", "chromium-browser", "google-chrome")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--remote-debugging-pipe",
)

PATIENCE_S = 60


def find() -> str:
    """Find the browser, or fail the test with the package to install."""
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    pytest.fail("Chromium is missing: install the Debian package chromium (apt install chromium)")


def _pipes() -> tuple[tuple[int, int], tuple[int, int]]:
    """Make two pipes, ours (write, read) and theirs (read, write), clear of descriptors 3 and 4."""
    read_command, write_command = os.pipe()
    read_answer, write_answer = os.pipe()
    low = (read_command, write_answer)
    theirs = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return (write_command, read_answer), (theirs[0], theirs[1])


class Chromium:
    """One browser with one page."""

    def __init__(self) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        ours, theirs = _pipes()
        self._commands, self._answers = ours
        # Chromium reads commands from descriptor 3 and answers on descriptor 4.
        actions: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_DUP2, theirs[0], 3),
            (os.POSIX_SPAWN_DUP2, theirs[1], 4),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        command = [find(), *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._pid = os.posix_spawn(command[0], command, dict(os.environ), file_actions=actions)
        for descriptor in theirs:
            os.close(descriptor)
        self._buffer = b""
        self._calls = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._session = None
        try:
            self.call("Browser.close")
        except (EOFError, BrokenPipeError):
            os.kill(self._pid, signal.SIGTERM)
        os.waitpid(self._pid, 0)
        os.close(self._commands)
        os.close(self._answers)
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a DevTools command and wait for its answer."""
        self._calls += 1
        message: dict[str, Any] = {"id": self._calls, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        while True:
            answer = self._read()
            if answer.get("id") == self._calls:
                assert "error" not in answer, f"{method}: {answer.get('error')}"
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._answers, 1 << 20)
            if not part:
                message = "Chromium ended"
                raise EOFError(message)
            self._buffer += part
        message_bytes, self._buffer = self._buffer.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(message_bytes)
        return answer

    def evaluate(self, expression: str) -> Any:
        """Evaluate JavaScript in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until a JavaScript condition holds."""
        end = time.monotonic() + PATIENCE_S
        while not self.evaluate(condition):
            assert time.monotonic() < end, f"never true: {condition}"
            time.sleep(0.02)

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a report and wait until it is drawn."""
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri() + fragment)
        self.wait_for("['ready', 'failed'].includes(document.body?.dataset.state)")

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Send a mouse event: mouseMoved, mousePressed, mouseReleased, mouseWheel."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def settle(self) -> None:
        """Wait until what was laid out has been drawn, so that the pointer meets it there."""
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def press(self, key: str) -> None:
        """Press and release a key."""
        named = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}
        if key in named:
            code = named[key]
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code)
        else:
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def complaints(self) -> list[str]:
        """List errors and warnings of the page since it was opened."""
        found = []
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(event["params"]["exceptionDetails"]))
            if event.get("method") == "Log.entryAdded":
                found.append(str(event["params"]["entry"]["text"]))
        return found

    def requests(self) -> list[str]:
        """List the addresses that the page asked for since it was opened."""
        return [
            str(event["params"]["request"]["url"])
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
