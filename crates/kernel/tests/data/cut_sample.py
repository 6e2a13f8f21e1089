#!/usr/bin/env python3
"""Cut the shipped samples out of whole vector files: `cut_sample.py WHOLE SAMPLES INPUT...`.

A vector file is a row of blocks, each of which starts from nothing. A sample is some of these
blocks, spread evenly over the file, inputs and outputs alike, so every line in it is a line of
the recording. A sample of `gov` is the start of the file instead, because there the clock, and
what `ladder` knows of a polling state, outlive a block.
"""

import lzma
import sys
from dataclasses import dataclass
from pathlib import Path

LINES_MIN = 2_000


@dataclass(frozen=True)
class Format:
    """How an input file is divided, by the first word of its lines."""

    starts: str
    """Starts a block."""
    silent: frozenset[str]
    """Prints nothing."""
    outputs: tuple[str, ...]
    """The files that hold what the commands printed."""
    blocks_min: int = 8
    from_start: bool = False


def _silent(words: str) -> frozenset[str]:
    return frozenset(words.split())


_MACHINE = _silent("T n s D g L c x u")
_GOVERNORS = tuple(f"{name}.out" for name in ("menu-6.1", "menu-6.12", "teo-6.1", "teo-6.12"))
_GOVERNOR_STATES = tuple(name.replace(".out", ".vout") for name in _GOVERNORS)
_PLACEMENTS = ("placement-6.12", "placement-6.1", "placement-old", "placement-old57")

FORMATS = {
    "gov": Format(
        "H",
        _silent("H S X"),
        (*_GOVERNORS, *_GOVERNOR_STATES, "ladder-6.1.out", "ladder-6.12.out"),
        from_start=True,
    ),
    "haltpoll": Format("H", _silent("H S X"), ("haltpoll-6.1.out", "haltpoll-6.12.out")),
    "pelt": Format("R", _silent("R E W"), ("pelt.out",), blocks_min=3),
    "eevdf": Format("N", _silent("N T t"), ("eevdf.out",), blocks_min=2),
    "cfs": Format("N", _silent("N T t"), ("cfs.out",), blocks_min=4),
    "cpupri": Format("N", _silent("N a s"), ("cpupri.out",), blocks_min=3),
    "cpudl": Format("N", _silent("N C s c"), ("cpudl.out",), blocks_min=4),
    "placement": Format("T", _MACHINE, tuple(f"{name}.out" for name in _PLACEMENTS)),
    "wake": Format("T", _MACHINE, ("wake.out",)),
    "balance": Format("T", _MACHINE, ("balance.out",)),
    "nohz": Format("T", _MACHINE, ("nohz.out",)),
}


def _read(path: Path) -> list[str]:
    with lzma.open(path, "rt", encoding="ascii") as file:
        return [line for line in file if line.strip() and not line.startswith("#")]


def _write(path: Path, lines: list[str]) -> None:
    path.write_bytes(lzma.compress("".join(lines).encode("ascii"), preset=9 | lzma.PRESET_EXTREME))


def cut(whole: Path, samples: Path, name: str) -> None:
    """Cut the sample of one input and of all outputs that belong to it."""
    rules = FORMATS[name]
    blocks: list[list[str]] = []
    spans: list[tuple[int, int]] = []
    printed = 0
    for line in _read(whole / f"{name}.in.xz"):
        word = line.split(maxsplit=1)[0]
        if word == rules.starts:
            blocks.append([])
            spans.append((printed, printed))
        blocks[-1].append(line)
        if word not in rules.silent:
            printed += 1
            spans[-1] = (spans[-1][0], printed)

    count = max(rules.blocks_min, -(-len(blocks) * LINES_MIN * 5 // (4 * printed)))
    step = 1 if rules.from_start else len(blocks) // count
    chosen = [place * step for place in range(count)]
    _write(samples / f"{name}.in.xz", [line for block in chosen for line in blocks[block]])
    for output in rules.outputs:
        lines = _read(whole / f"{output}.xz")
        sample = [line for block in chosen for line in lines[slice(*spans[block])]]
        if len(sample) < LINES_MIN:
            message = f"{output}: only {len(sample)} lines"
            raise ValueError(message)
        _write(samples / f"{output}.xz", sample)


if __name__ == "__main__":
    for vectors in sys.argv[3:]:
        cut(Path(sys.argv[1]), Path(sys.argv[2]), vectors)
