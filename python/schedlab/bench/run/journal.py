"""The machine's settings as they were, on disk before the first of them changes.

Whoever starts next puts them back if their owner was killed; settings of /proc and /sys that a
reboot has reset meanwhile are left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.bench.run.settings import Setting
from schedlab.comparison.model import CompareError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Journal", "boot_id", "locked", "state_folder"]

JOURNAL, LOCK = "bench-journal.json", "bench.lock"

PATIENCE_S = 1.0

# Files of the kernel, whose values a reboot resets.
VOLATILE = ("/proc/", "/sys/")


def state_folder() -> Path:
    """Name the folder of the journal: one per user, since settings belong to the machine.

    It is ``$SCHEDLAB_STATE``, or ``schedlab`` in ``$XDG_STATE_HOME`` or ``~/.local/state``.
    """
    named = os.environ.get("SCHEDLAB_STATE")
    if named:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "schedlab"


def boot_id() -> str:
    """Name this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[Journal]:
    """Be the only one who changes settings, after putting back what a killed one left.

    Raises :class:`schedlab.CompareError` if another is at work, or cannot put a setting back.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not _lock(descriptor):
            raise CompareError(
                f"{folder / LOCK}: another bench run is at work on this machine; wait for it"
            )
        journal = Journal(folder)
        journal.restored = journal.restore()
        yield journal
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Take the lock; a command that was starting when its owner died lets go of it soon."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        else:
            return True


class Journal:
    """What has to be put back."""

    def __init__(self, folder: Path) -> None:
        """Use the journal of a folder, whether there is one or not."""
        self.folder = folder
        self.path = folder / JOURNAL
        self.restored: list[str] = []
        """What a killed owner had left changed, and is put back."""
        self.content: dict[str, Any] = {"boot_id": boot_id(), "settings": [], "processes": []}

    @property
    def pending(self) -> bool:
        """Whether something has to be put back."""
        return self.path.exists()

    def record(self, settings: Sequence[Setting], restore: Sequence[str]) -> Mapping[Setting, str]:
        """Put the present values on disk, and give them; only then may they change.

        ``restore`` is a command that undoes what commands did.
        """
        originals = {setting: setting.read() for setting in settings}
        self.content = {
            "boot_id": boot_id(),
            "settings": [
                {**setting.as_dict(), "value": value} for setting, value in originals.items()
            ],
            "restore": list(restore),
            "processes": [],
        }
        if originals or restore:
            self._write()
        return originals

    def started(self, pid: int) -> None:
        """Note a process that must not outlive its owner."""
        self.content["processes"].append({"pid": pid, "start": _start_of(pid)})
        # Losing power ends processes, too, so that this need not reach the disk.
        self._write(durable=False)

    def ended(self, pid: int) -> None:
        """Forget a process that ended."""
        self.content["processes"] = [
            each for each in self.content["processes"] if each["pid"] != pid
        ]
        if self.content["settings"] or self.content.get("restore"):
            self._write(durable=False)
        elif self.pending:
            self.path.unlink()

    def restore(self) -> list[str]:
        """Put everything back, tell what was, and forget it.

        Raises :class:`schedlab.CompareError` for what could not be; the journal keeps that.
        """
        if not self.pending:
            return []
        content = self._read()
        same_boot = content.get("boot_id") == boot_id()
        if same_boot:
            for process in content.get("processes", []):
                _end(process)
        entries = [
            entry
            for entry in reversed(content["settings"])
            if same_boot or not entry["path"].startswith(VOLATILE)
        ]
        done = [f"{each['path']} = {each['value']}" for each in entries if _put_back(each)]
        command = content.get("restore") or []
        if command and same_boot and not _succeeds(command):
            raise CompareError(
                f"{self.path}: {' '.join(command)} failed; undo the switch by hand, and remove it"
            )
        failed = [entry for entry in entries if not _holds(entry)]
        if failed:
            self.content = {**content, "settings": failed[::-1], "restore": []}
            self._write()
            names = "; ".join(f"{each['path']} = {each['value']}" for each in failed)
            raise CompareError(f"{self.path}: cannot put back {names}; do so, and remove the file")
        self.path.unlink()
        _sync(self.folder)
        return done

    def _read(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
            for entry in content["settings"]:
                _holds(entry)
        except (ValueError, KeyError, TypeError):
            raise CompareError(
                f"{self.path}: damaged by something else; set back what it names, and remove it"
            ) from None
        return content

    def _write(self, *, durable: bool = True) -> None:
        partial = self.path.with_suffix(".part")
        with partial.open("w", encoding="utf-8") as file:
            json.dump(self.content, file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        partial.replace(self.path)
        if durable:
            _sync(self.folder)


def _setting(entry: Mapping[str, str]) -> Setting:
    return Setting(Path(entry["path"]), entry.get("feature", ""))


def _holds(entry: Mapping[str, str]) -> bool:
    try:
        return _setting(entry).holds(entry["value"])
    except OSError:
        return False


def _put_back(entry: Mapping[str, str]) -> bool:
    """Write a value where it is not; ``True`` if it had to be written."""
    if _holds(entry):
        return False
    with contextlib.suppress(OSError):
        _setting(entry).write(entry["value"])
    return True


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _succeeds(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def _start_of(pid: int) -> str:
    """Give a process's start in ticks since boot, which tells it from a later one of its number."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]


def _end(process: Mapping[str, Any]) -> None:
    pid, start = int(process["pid"]), str(process["start"])
    if start and _start_of(pid) == start:
        # It leads a session of its own, so that what it forked goes with it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
