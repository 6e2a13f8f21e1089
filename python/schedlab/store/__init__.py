"""The local store of runs: one Parquet file per run, under the key of what determines it.

A file appears under its name once it is complete and on disk, so a run is either there or not,
whatever interrupts its writer. Nothing ever changes a file, so any number of processes may write.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

__all__ = ["Store", "StoreError", "default_folder"]

# What a writer that was killed leaves behind.
PARTIAL = ".part"
STALE_S = 3600


class StoreError(ValueError):
    """The store cannot answer; the text names the folder and what DuckDB says."""


def default_folder() -> Path:
    """Name the store that is used where nobody names one.

    It is ``$SCHEDLAB_STORE``, or ``schedlab`` in the user's cache (``$XDG_CACHE_HOME`` or
    ``~/.cache``).
    """
    named = os.environ.get("SCHEDLAB_STORE")
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "schedlab"


class Store:
    """A folder of runs.

    >>> import polars as pl, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder))
    ...     store.write("a1", pl.DataFrame({"key": ["a1"], "value": [1.5]}))
    ...     store.keys(), store.rows(["a1"])
    ({'a1'}, [{'key': 'a1', 'value': 1.5}])
    """

    def __init__(self, folder: Path) -> None:
        """Use a folder; it is created when the first run is written."""
        self.folder = folder
        self.runs = folder / "runs"

    def keys(self) -> set[str]:
        """Give the keys of all complete runs."""
        return {path.stem for path in self.runs.glob("*.parquet")}

    def path(self, key: str) -> Path:
        """Name the file of a run."""
        return self.runs / f"{key}.parquet"

    def write(self, key: str, rows: pl.DataFrame) -> None:
        """Keep a run's rows for good: they survive a crash from here on.

        Raises ``OSError`` with the file's name.
        """
        self.runs.mkdir(parents=True, exist_ok=True)
        partial = self.runs / f"{key}.{secrets.token_hex(4)}{PARTIAL}"
        try:
            with partial.open("wb") as file:
                rows.write_parquet(file)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path(key))
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
        self._sync_folder()

    def _sync_folder(self) -> None:
        """Make the new name last; the file's content does already."""
        folder = os.open(self.runs, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def rows(self, keys: Iterable[str]) -> list[dict[str, Any]]:
        """Give the rows of these runs, in the order of their keys and within a run as written.

        Raises :class:`StoreError` for a file that something else than this class has damaged.
        """
        wanted = [str(self.path(key)) for key in dict.fromkeys(keys)]
        if not wanted:
            return []
        return self._query("SELECT * FROM read_parquet($files)", wanted)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Answer SQL about ``runs``, a table of every run in the store.

        Raises :class:`StoreError` with DuckDB's words.

        >>> import polars as pl, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(Path(folder))
        ...     store.write("a1", pl.DataFrame({"kernel": ["v5.7"], "value": [1.5]}))
        ...     store.query("SELECT kernel, avg(value) AS mean FROM runs GROUP BY kernel")
        [{'kernel': 'v5.7', 'mean': 1.5}]
        """
        files = sorted(str(self.path(key)) for key in self.keys())
        if not files:
            return []
        return self._query(f"WITH runs AS (FROM read_parquet($files)) {sql}", files)

    def _query(self, sql: str, files: Sequence[str]) -> list[dict[str, Any]]:
        import duckdb  # noqa: PLC0415 - `--help` needs none

        with duckdb.connect() as connection:
            try:
                found = connection.execute(sql, {"files": list(files)})
            except duckdb.Error as error:
                words = str(error).splitlines()[0]
                raise StoreError(f"{self.folder}: {words}") from None
            names = [column[0] for column in found.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def sweep(self) -> None:
        """Remove what killed writers left behind; a live writer is done in far less time."""
        for path in self.runs.glob(f"*{PARTIAL}"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > STALE_S:
                    path.unlink()
