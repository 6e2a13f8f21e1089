"""What explains noise: the machine once, and its state before and after each iteration.

Everything is read from /proc and /sys, and what is not there is left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

__all__ = ["machine", "moment"]

ROOT = Path("/")

_CPU = re.compile(r"cpu\d+$")


def machine(root: Path = ROOT) -> dict[str, Any]:
    """Describe what stays as it is during a session."""
    cpus = _cpus(root)
    info = _text(root / "proc/cpuinfo")
    topology = [
        (_text(cpu / "topology/physical_package_id"), _text(cpu / "topology/core_id"))
        for cpu in cpus
    ]
    nodes = sorted((root / "sys/devices/system/node").glob("node[0-9]*"))
    found = {
        "kernel_release": _text(root / "proc/sys/kernel/osrelease"),
        "kernel_version": _text(root / "proc/sys/kernel/version"),
        "cmdline": _text(root / "proc/cmdline"),
        "cpu_model": _field(info, "model name"),
        "microcode": _field(info, "microcode"),
        "hypervisor": "yes" if " hypervisor" in _field(info, "flags") else "",
        "cpus": len(cpus),
        "cores": len(set(topology)),
        "packages": len({package for package, _ in topology}),
        "nodes": len(nodes),
        "smt": _text(root / "sys/devices/system/cpu/smt/control"),
        "memory": _field(_text(root / "proc/meminfo"), "MemTotal"),
        "clocksource": _text(
            root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        "cpuidle_driver": _text(root / "sys/devices/system/cpu/cpuidle/current_driver"),
        "cpufreq_driver": _text(root / "sys/devices/system/cpu/cpufreq/policy0/scaling_driver"),
    }
    return {key: value for key, value in found.items() if value not in ("", 0)}


def moment(root: Path = ROOT) -> dict[str, Any]:
    """Describe the present: governors, frequency, temperature, load, counters that only grow."""
    policies = sorted((root / "sys/devices/system/cpu/cpufreq").glob("policy*"))
    found: dict[str, Any] = {
        "cpuidle_governor": _text(root / "sys/devices/system/cpu/cpuidle/current_governor"),
        "cpufreq_governor": " ".join(
            sorted({_text(policy / "scaling_governor") for policy in policies} - {""})
        ),
        "frequency_khz": [
            int(text)
            for policy in policies
            if (text := _text(policy / "scaling_cur_freq")).isdigit()
        ],
        "temperature_mc": [
            int(text)
            for zone in sorted((root / "sys/class/thermal").glob("thermal_zone*"))
            if (text := _text(zone / "temp")).lstrip("-").isdigit()
        ],
        "loadavg": _text(root / "proc/loadavg"),
        **_stat(_text(root / "proc/stat")),
        "cpuidle": _cpuidle(root),
        "energy_uj": {
            _text(domain / "name"): int(text)
            for domain in sorted((root / "sys/class/powercap").glob("intel-rapl:*"))
            if (text := _text(domain / "energy_uj")).isdigit()
        },
    }
    return {key: value for key, value in found.items() if value not in ("", [], {})}


def _stat(text: str) -> dict[str, int]:
    """Read steal time, idle time and context switches since boot."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if line.startswith("cpu ") and len(words) > 8:  # noqa: PLR2004 - steal is the eighth number
            found["idle_ticks"], found["steal_ticks"] = int(words[4]), int(words[8])
        elif line.startswith("ctxt "):
            found["context_switches"] = int(words[1])
    return found


def _cpuidle(root: Path) -> dict[str, dict[str, int]]:
    """Add up every idle state's counters over all CPUs."""
    found: dict[str, dict[str, int]] = {}
    for cpu in _cpus(root):
        for state in sorted((cpu / "cpuidle").glob("state*")):
            counters = found.setdefault(
                _text(state / "name"), {"usage": 0, "time_us": 0, "above": 0, "below": 0}
            )
            for name, file in (
                ("usage", "usage"), ("time_us", "time"), ("above", "above"), ("below", "below"),
            ):  # fmt: skip
                text = _text(state / file)
                counters[name] += int(text) if text.isdigit() else 0
    return found


def _cpus(root: Path) -> list[Path]:
    folder = root / "sys/devices/system/cpu"
    found = [path for path in folder.glob("cpu[0-9]*") if _CPU.match(path.name)]
    return sorted(found, key=lambda path: int(path.name[3:]))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _field(text: str, name: str) -> str:
    found = re.search(rf"^{name}\s*:\s*(.*)$", text, re.MULTILINE)
    return found[1].strip() if found else ""
