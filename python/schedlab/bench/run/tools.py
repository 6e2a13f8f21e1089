"""Where programs come from, for those that are missing."""

from __future__ import annotations

import shutil

__all__ = ["missing"]

# Debian's packages, and sources of what Debian does not have.
PACKAGES = {
    "hackbench": "rt-tests",
    "cyclictest": "rt-tests",
    "pi_stress": "rt-tests",
    "sysbench": "sysbench",
    "perf": "linux-perf",
    "bzip2": "bzip2",
    "bunzip2": "bzip2",
    "ffmpeg": "ffmpeg",
    "stress-ng": "stress-ng",
    "turbostat": "linux-cpupower",
    "time": "time",
    "taskset": "util-linux",
    "chrt": "util-linux",
    "numactl": "numactl",
    "java": "default-jre-headless",
}
SOURCES = {
    "schbench": "https://git.kernel.org/pub/scm/linux/kernel/git/mason/schbench.git",
    "ebizzy": "https://sourceforge.net/projects/ebizzy (or utils/benchmark/ebizzy-0.3 of LTP)",
    "scx_simple": "https://github.com/sched-ext/scx",
    "scx_rusty": "https://github.com/sched-ext/scx",
}


def missing(program: str) -> str | None:
    """Say where a program comes from if it is not here; ``None`` if it is.

    >>> missing("sh") is None
    True
    """
    if shutil.which(program):
        return None
    if program in PACKAGES:
        return f"{program} is not installed: apt-get install {PACKAGES[program]}"
    if program in SOURCES:
        return f"{program} is not installed: build it from {SOURCES[program]}"
    return f"{program} is not installed, or not in PATH"
