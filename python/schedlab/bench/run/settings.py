"""The machine's settings by name, each a file of the kernel that is read and written.

- ``cpuidle.governor``, ``cpufreq.governor`` (of every policy), ``smt`` and ``thp``
- ``sysctl.kernel.numa_balancing``: any file of /proc/sys, dots for slashes
- ``sched.base_slice_ns``: any knob of /sys/kernel/debug/sched
- ``sched.features.NEXT_BUDDY``: a feature, on (1) or off (0)
- a path that begins with a slash: that file
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from schedlab.comparison.model import CompareError

__all__ = ["Setting", "find"]

_DIRECT = {
    "cpuidle.governor": "sys/devices/system/cpu/cpuidle/current_governor",
    "smt": "sys/devices/system/cpu/smt/control",
    "thp": "sys/kernel/mm/transparent_hugepage/enabled",
}
_CHOICES = {
    "cpuidle.governor": "sys/devices/system/cpu/cpuidle/available_governors",
}
_POLICIES = "sys/devices/system/cpu/cpufreq"
_FEATURES = "sys/kernel/debug/sched/features"

# What is chosen of a list: "always [madvise] never".
_CHOSEN = re.compile(r"\[([^\]]+)\]")


@dataclass(frozen=True)
class Setting:
    """One file, or one word of one."""

    path: Path
    feature: str = ""
    """Of the scheduler's features, the one that is meant."""

    def read(self) -> str:
        """Read the present value.

        Raises ``OSError`` with the file's name.
        """
        text = self.path.read_text(encoding="utf-8", errors="replace").strip()
        if self.feature:
            words = text.split()
            return f"NO_{self.feature}" if f"NO_{self.feature}" in words else self.feature
        chosen = _CHOSEN.search(text)
        return chosen[1] if chosen else text

    def write(self, value: str) -> None:
        """Write a value; whether it took has to be read.

        Raises ``OSError`` with the file's name.
        """
        # One write call: the kernel takes each as a value of its own.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(descriptor, f"{value}\n".encode())
        except OSError as error:
            raise OSError(
                error.errno, f"{error.strerror} (writing {value})", str(self.path)
            ) from None
        finally:
            os.close(descriptor)

    def holds(self, value: str) -> bool:
        """Tell whether the present value is this one; blanks between numbers do not matter."""
        return self.read().split() == value.split()

    def as_dict(self) -> dict[str, str]:
        """Give it for the journal."""
        return {"path": str(self.path), "feature": self.feature}


def find(name: str, value: str, root: Path = Path("/")) -> list[tuple[Setting, str]]:
    """Find what a name stands for on this machine, and the text to write there.

    Raises :class:`schedlab.CompareError` for what is not there, cannot be written, or cannot take
    the value.
    """
    found = _places(name, value, root)
    for setting, _ in found:
        if not setting.path.exists():
            raise CompareError(f"{name}: {setting.path} is not on this machine; {_why(name)}")
        if not os.access(setting.path, os.W_OK):
            raise CompareError(f"{name}: {setting.path} cannot be written; run as root")
        try:
            setting.read()
        except OSError as error:
            raise CompareError(f"{name}: {setting.path}: {error.strerror}") from None
    _check_choice(name, value, found, root)
    return found


def _places(name: str, value: str, root: Path) -> list[tuple[Setting, str]]:
    if name.startswith("/"):
        return [(Setting(root / name.lstrip("/")), value)]
    if name in _DIRECT:
        return [(Setting(root / _DIRECT[name]), value)]
    if name == "cpufreq.governor":
        policies = sorted((root / _POLICIES).glob("policy*/scaling_governor"))
        if not policies:
            raise CompareError(f"{name}: no policy in {root / _POLICIES}; {_why(name)}")
        return [(Setting(path), value) for path in policies]
    room, _, rest = name.partition(".")
    if room == "sysctl" and rest:
        return [(Setting(root / "proc/sys" / rest.replace(".", "/")), value)]
    if room == "sched" and rest.startswith("features."):
        feature = rest.removeprefix("features.")
        text = feature if value not in ("0", "off", "false") else f"NO_{feature}"
        return [(Setting(root / _FEATURES, feature), text)]
    if room == "sched" and rest:
        return [(Setting(root / "sys/kernel/debug/sched" / rest.replace(".", "/")), value)]
    known = ", ".join([*_DIRECT, "cpufreq.governor", "sysctl.NAME", "sched.NAME"])
    raise CompareError(f"{name}: no such setting; there are {known}, and paths")


def _why(name: str) -> str:
    if name.startswith("sched."):
        return "mount debugfs: mount -t debugfs none /sys/kernel/debug"
    if name.startswith("cpufreq"):
        return "it has no cpufreq driver, as many virtual machines have none"
    return "compare what this machine has"


def _check_choice(name: str, value: str, found: list[tuple[Setting, str]], root: Path) -> None:
    listing = root / _CHOICES[name] if name in _CHOICES else None
    if name == "cpufreq.governor":
        listing = found[0][0].path.parent / "scaling_available_governors"
    if listing is not None and listing.exists():
        choices = listing.read_text(encoding="utf-8").split()
        if value not in choices:
            raise CompareError(f"{name}: no {value} here; there are {', '.join(choices)}")
    setting = found[0][0]
    if setting.feature:
        words = setting.path.read_text(encoding="utf-8").split()
        if setting.feature not in [word.removeprefix("NO_") for word in words]:
            raise CompareError(f"{name}: this kernel has no feature {setting.feature}")
