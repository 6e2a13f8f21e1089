"""Packs the timeline for the page: columns of integers, deflated and base64-encoded.

The reader is ``assets/decode.js``; the two change together. One blob holds every column of every
track, each aligned to eight bytes at the offset that the track's ``columns`` name. A span's start
is stored as the gap since the end of the span before it on its lane, because small numbers deflate
well.
"""

from __future__ import annotations

import base64
import re
import sys
import zlib
from array import array
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from schedlab.report.model import IdleState, Timeline

__all__ = ["Packed", "idle_colour", "pack"]

IDLE_COLOURS = 10
"""Number of ``--idle-N`` colours in ``assets/palette.css``."""

CUT = "?"
"""Stands for the state in which a run was left where the trace does not tell."""

KERNEL_THREAD = re.compile(
    r"^(kworker|ksoftirqd|rcu[a-z_]*|migration|cpuhp|kswapd|kcompactd|khugepaged|idle_inject"
    r"|kthreadd|irq|jbd2|watchdog|kdevtmpfs|kauditd|oom_reaper|writeback)(/|$|[-_:\d])"
)
"""Names that kernel threads bear; a trace does not tell which tasks they are."""


class Packed:
    """The page's two elements: ``meta`` as JSON, ``blob`` as text."""

    def __init__(self, meta: dict[str, Any], blob: str, spans: int) -> None:
        """Hold what :func:`pack` made."""
        self.meta = meta
        self.blob = blob
        self.spans = spans


class _Blob:
    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, typecode: str, values: Iterable[Any]) -> int:
        """Append a column and return its offset."""
        column = array(typecode, values)
        if sys.byteorder == "big":
            column.byteswap()
        data = column.tobytes()
        data += bytes(-len(data) % 8)
        offset = self.size
        self.parts.append(data)
        self.size += len(data)
        return offset

    def text(self) -> str:
        """Deflate the whole blob (zlib's container) and encode it in base64."""
        packer = zlib.compressobj(level=6)
        packed = [packer.compress(part) for part in self.parts]
        packed.append(packer.flush())
        return base64.b64encode(b"".join(packed)).decode("ascii")


def idle_colour(state: int, states: int) -> int:
    """Give an idle state's colour slot: evenly spaced from the shallowest to the deepest.

    >>> [idle_colour(state, 4) for state in range(4)]
    [0, 3, 6, 9]
    """
    return round(state * (IDLE_COLOURS - 1) / max(1, states - 1))


def pack(timeline: Timeline, idle_states: list[IdleState]) -> Packed:
    """Pack the timeline; ``idle_states`` name the values of its sleeps."""
    blob = _Blob()
    tasks = (
        timeline.runs.select("pid", "comm")
        .unique()
        .sort("pid", "comm")
        .with_row_index("task")
        .with_columns(pl.col("task").cast(pl.UInt32))
    )
    letters = sorted(timeline.runs["state"].fill_null(CUT).unique().to_list())
    runs = timeline.runs.join(tasks, on=["pid", "comm"], how="left", maintain_order="left")
    tracks: list[dict[str, Any]] = []
    tracks.extend(_run_tracks(blob, runs, letters))
    tracks.extend(_sleep_tracks(blob, timeline.sleeps))
    tracks.extend(_counter_tracks(blob, timeline.counters))
    meta = {
        "origin_ns": timeline.origin_ns,
        "duration_ns": timeline.duration_ns,
        "cpus": list(timeline.cpus),
        "states": letters,
        "idle_states": [
            {"name": state.name, "colour": idle_colour(i, len(idle_states))}
            for i, state in enumerate(idle_states)
        ],
        "tasks": [
            {"pid": pid, "comm": comm, "kernel": KERNEL_THREAD.match(comm) is not None}
            for pid, comm in tasks.select("pid", "comm").iter_rows()
        ],
        "tracks": tracks,
    }
    return Packed(meta, blob.text(), timeline.runs.height + timeline.sleeps.height)


def _by_cpu(frame: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
    parts = frame.partition_by("cpu", as_dict=True, maintain_order=True)
    return sorted((int(key[0]), part) for key, part in parts.items() if part.height)


def _span_columns(blob: _Blob, part: pl.DataFrame) -> dict[str, int]:
    start, end = pl.col("start_ns"), pl.col("end_ns")
    times = part.select(
        gap=start - end.shift(1).fill_null(0),
        duration=end - start,
    )
    return {
        "gap_ns": blob.add("q", times["gap"]),
        "duration_ns": blob.add("q", times["duration"]),
    }


def _run_tracks(blob: _Blob, runs: pl.DataFrame, letters: list[str]) -> Iterable[dict[str, Any]]:
    number = {letter: index for index, letter in enumerate(letters)}
    for cpu, part in _by_cpu(runs.with_columns(pl.col("state").fill_null(CUT))):
        columns = _span_columns(blob, part)
        columns["value"] = blob.add("I", part["task"])
        columns["latency_ns"] = blob.add("q", part["latency_ns"].fill_null(-1))
        columns["state"] = blob.add("B", (number[letter] for letter in part["state"]))
        yield {"cpu": cpu, "kind": "task", "count": part.height, "columns": columns}


def _sleep_tracks(blob: _Blob, sleeps: pl.DataFrame) -> Iterable[dict[str, Any]]:
    for cpu, part in _by_cpu(sleeps):
        columns = _span_columns(blob, part)
        columns["value"] = blob.add("I", part["state"])
        columns["miss"] = blob.add("b", part["miss"].fill_null(0))
        yield {"cpu": cpu, "kind": "idle", "count": part.height, "columns": columns}


def _counter_tracks(blob: _Blob, counters: pl.DataFrame) -> Iterable[dict[str, Any]]:
    for cpu, rows in _by_cpu(counters):
        named = rows.partition_by("name", as_dict=True, maintain_order=True)
        for (name,), part in sorted(named.items()):
            gaps = part.select(pl.col("time_ns") - pl.col("time_ns").shift(1).fill_null(0))
            yield {
                "cpu": cpu,
                "kind": "counter",
                "name": name,
                "unit": part["unit"][0],
                "max": _top(counters, str(name)),
                "count": part.height,
                "columns": {
                    "gap_ns": blob.add("q", gaps.to_series()),
                    "value": blob.add("d", part["value"]),
                },
            }


def _top(counters: pl.DataFrame, name: str) -> float:
    """Find a counter's highest value over all CPUs: they share a scale, so rows compare."""
    value = counters.filter(pl.col("name") == name)["value"].max()
    return float(value) if isinstance(value, int | float) else 0.0
