"""Replays of the traces whose timing is trustworthy: those that came back must go on doing so.

``SCHEDLAB_TRACES=DIR make traces`` runs it after the comparison with the tools that print traces.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from schedlab.replay import Given, Replay, replay_trace

# What a trace does not show of ptask's tasks: its own command line tells.
MIX = (Given("idlehog", "idle"), Given("batch", "batch"), Given("audio", "rr"))


@dataclass(frozen=True)
class Expected:
    """A trace, how it was taken, and whether it comes back."""

    file: str
    machine: str
    comes_back: bool
    governor: str | None = None
    given: tuple[Given, ...] = ()
    rows_min: int = 0
    """How many rows come back of one that does not as a whole."""


KERNEL = "v6.12"
TRACES = (
    Expected("qemu/full4-ic/idle-light.dat", "qemu4", comes_back=True),
    Expected("qemu/full4-ic/cyclictest.dat", "qemu4", comes_back=True),
    Expected("qemu/full4-idle-ic/idle-menu.dat", "simidle", comes_back=True),
    Expected("qemu/full4-idle-ic/idle-ladder.dat", "simidle", comes_back=True, governor="ladder"),
    # Two or three tasks that never sleep on virtual CPUs which share one instruction stream: which
    # CPU a task shares with which of them differs from one moment to the next, and from one seed of
    # the kernel's own random numbers to the next.
    Expected("qemu/full4-ic/ptask-mix.dat", "qemu4", comes_back=False, given=MIX, rows_min=4),
    Expected("qemu/full8-ic/ptask-mix.dat", "qemu8", comes_back=False, given=MIX, rows_min=4),
    Expected("qemu/full8-pelt-ic/pelt-ptask.dat", "qemu8", comes_back=False, given=MIX, rows_min=9),
)


def replayed(root: Path, expected: Expected) -> Replay:
    """Replay one trace under the traced kernel."""
    return replay_trace(
        root / expected.file,
        machine=expected.machine,
        traced_kernel=KERNEL,
        governor=expected.governor,
        given=expected.given,
    )


def check(root: Path) -> list[str]:
    """Replay every expected trace below a directory; give those that stopped coming back."""
    failures = []
    for expected in TRACES:
        if not (root / expected.file).exists():
            print(f"{expected.file}: not there, not replayed")
            continue
        found = replayed(root, expected).agreement
        verdict = "comes back" if found.passed else "does not come back"
        print(f"{expected.file}: {found.rows_passed} of {len(found.rows)} rows, {verdict}")
        for row in found.rows:
            off = f" off: {', '.join(row['off'])}" if row["off"] else ""
            print(
                f"  {row['comm']:<16} run {row['traced_run_ns'] / 1e6:.3f} "
                f"{row['replayed_run_ns'] / 1e6:.3f} ms, wakeups {row['traced_wakeups']} "
                f"{row['replayed_wakeups']}, p50 {_us(row['traced_p50_us'])} "
                f"{_us(row['replayed_p50_us'])} us, p99 {_us(row['traced_p99_us'])} "
                f"{_us(row['replayed_p99_us'])} us{off}"
            )
        enough = found.passed or not expected.comes_back
        if not enough or found.rows_passed < expected.rows_min:
            failures.append(expected.file)
        if found.passed and not expected.comes_back:
            print("  it comes back now: expect it to from here on")
    return failures


def _us(value: float | None) -> str:
    return "none" if value is None else f"{value:.1f}"


def main(arguments: list[str]) -> int:
    """Check the one directory that the arguments name."""
    match arguments:
        case [name] if Path(name).is_dir():
            failures = check(Path(name))
        case _:
            print("name one directory of traces: SCHEDLAB_TRACES=DIR make traces", file=sys.stderr)
            return 2
    for file in failures:
        print(f"NO LONGER COMES BACK {file}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
