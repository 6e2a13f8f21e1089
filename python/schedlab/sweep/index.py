"""Which run of the store stands where in a plan, as files: a plan of millions needs no memory."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from schedlab.sweep.jobs import Block

__all__ = ["Index"]

# Runs that are held before they are written.
HELD = 1 << 15


class Index:
    """The runs of a plan: key, cell, variant and iteration; and the cells."""

    def __init__(self) -> None:
        """Begin with none."""
        self._folder = tempfile.TemporaryDirectory(prefix="schedlab-sweep-")
        self.runs = Path(self._folder.name, "runs")
        self.cells = Path(self._folder.name, "cells")
        for folder in (self.runs, self.cells):
            folder.mkdir()
        self._runs: list[tuple[str, int, int, int]] = []
        self._cells: list[tuple[Any, ...]] = []
        self._next_cell = 0
        self._files = 0

    def add(self, block: Block) -> None:
        """Note the runs of a block, and its cell if it is a new one."""
        cell = block.cell
        self._runs += [
            (job.key, cell.number, variant, block.iteration)
            for variant, job in zip(block.variants, block.jobs, strict=True)
        ]
        if cell.number >= self._next_cell:
            self._next_cell = cell.number + 1
            values = json.dumps(dict(cell.values))
            self._cells.append((cell.number, cell.machine, cell.workload, cell.kernel, values))
        if len(self._runs) >= HELD:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        import polars as pl  # noqa: PLC0415 - `--help` needs none

        self._files += 1
        name = f"{self._files:06}.parquet"
        if self._runs:
            schema = {
                "key": pl.String,
                "cell": pl.Int64,
                "variant": pl.Int32,
                "iteration": pl.Int32,
            }
            pl.DataFrame(self._runs, schema=schema, orient="row").write_parquet(self.runs / name)
        if self._cells:
            schema = {
                "cell": pl.Int64,
                "machine": pl.String,
                "workload": pl.String,
                "kernel": pl.String,
                "values": pl.String,
            }
            pl.DataFrame(self._cells, schema=schema, orient="row").write_parquet(self.cells / name)
        self._runs, self._cells = [], []

    def close(self) -> None:
        """Remove the files."""
        self._folder.cleanup()

    def __enter__(self) -> Self:
        """Use it for a while."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the files."""
        self.close()
