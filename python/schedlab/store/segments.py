"""The store of sweeps: runs by the hundred in Parquet segments, at any address.

A segment is written once, whole, under a name drawn from the runs that it holds, and removed only
by what put its runs into a larger one. A run may stand in several, since several people may have
had it at once: a reader counts it once. Segments of an address that is no folder are kept in the
user's cache, since they never change.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from schedlab.store import StoreError, default_folder
from schedlab.store.places import FolderPlace, RemotePlace, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import duckdb
    import numpy as np
    import polars as pl

    from schedlab.store.places import Place

__all__ = ["KeySet", "Segments", "frame_of", "name_of", "to_frame"]

FOLDER = "segments"
SUFFIX = ".parquet"

# Smaller segments are put together until there are so few, and one holds at most so many bytes.
COMPACT_FROM = 64
SEGMENT_BYTES_MAX = 32 << 20

# Segments that are fetched at once.
FETCHED = 64

KEY_BYTES = 16


def columns() -> dict[str, Any]:
    """Give the columns of a segment: a row per figure, a failed run has one row without any."""
    import polars as pl  # noqa: PLC0415 - `--help` needs none

    return {
        "key": pl.String,
        "error": pl.String,
        "machine": pl.String,
        "workload": pl.String,
        "kernel": pl.String,
        "settings": pl.String,
        "seed": pl.Int64,
        "duration_s": pl.Float64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "events": pl.Int64,
        "digest": pl.String,
        "ending": pl.String,
        "program": pl.String,
        "wall_s": pl.Float64,
        "figure": pl.String,
        "unit": pl.String,
        "value": pl.Float64,
    }


def frame_of(runs: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Make the rows of runs, each a mapping of the columns and ``figures``.

    ``figures`` are lists of name, unit and value; a run with an ``error`` has none.
    """
    import polars as pl  # noqa: PLC0415 - as above

    schema = columns()
    rows: dict[str, list[Any]] = {name: [] for name in schema}
    own = [name for name in schema if name not in {"figure", "unit", "value"}]
    for run in runs:
        figures = run.get("figures") or [[None, None, None]]
        for name in own:
            rows[name] += [run.get(name)] * len(figures)
        for figure, unit, value in figures:
            rows["figure"].append(figure)
            rows["unit"].append(unit)
            rows["value"].append(value)
    return pl.DataFrame(rows, schema=schema)


def to_frame(connection: duckdb.DuckDBPyConnection, sql: str) -> pl.DataFrame:
    """Answer SQL as a Polars frame, by way of a file, since both know Parquet without a third."""
    import polars as pl  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory(prefix="schedlab-") as folder:
        path = f"{folder}/answer.parquet"
        connection.execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet)")
        return pl.read_parquet(path)


def name_of(keys: Iterable[str]) -> str:
    """Name a segment after the runs that it holds: who writes it again writes the same file."""
    digest = hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()[:32]
    return f"{digest}{SUFFIX}"


class Segments:
    """A store of runs.

    >>> import tempfile
    >>> run = {"key": "0" * 32, "kernel": "v6.1", "figures": [["energy", "J", 1.5]]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Segments(folder)
    ...     store.write([run])
    ...     store.write([run, {"key": "1" * 32, "error": "stuck"}])
    ...     store.query("SELECT key, error, value FROM runs ORDER BY key")
    [{'key': '00000000000000000000000000000000', 'error': None, 'value': 1.5}, \
{'key': '11111111111111111111111111111111', 'error': 'stuck', 'value': None}]
    """

    def __init__(self, address: str | Path) -> None:
        """Use a folder, or any address that fsspec knows.

        Raises :class:`schedlab.store.StoreError` for an address that cannot be used.
        """
        self.place: Place = place_of(address)
        self.address = self.place.address

    def write(self, runs: Sequence[Mapping[str, Any]]) -> None:
        """Keep runs for good: they survive a crash from here on.

        Raises ``OSError`` with the file's name, or :class:`schedlab.store.StoreError`.
        """
        self.write_frame(frame_of(runs), name_of(str(run["key"]) for run in runs))

    def write_frame(self, rows: pl.DataFrame, name: str) -> None:
        """Keep rows under a segment's name."""
        content = io.BytesIO()
        rows.write_parquet(content, compression="zstd", statistics=False)
        self.place.write(FOLDER, name, content.getvalue())

    def names(self) -> list[str]:
        """List the segments."""
        return [name for name in self.place.names(FOLDER) if name.endswith(SUFFIX)]

    def files(self) -> list[Path]:
        """Give every segment as a file of this machine, fetched where it lies elsewhere."""
        names = self.names()
        if isinstance(self.place, FolderPlace):
            return [self.place.path(FOLDER, name) for name in names]
        cache = FolderPlace(self._cache())
        have = set(cache.names(FOLDER))
        missing = [name for name in names if name not in have]
        for first in range(0, len(missing), FETCHED):
            part = missing[first : first + FETCHED]
            for name, content in self.place.read(FOLDER, part).items():
                cache.write(FOLDER, name, content)
        kept = set(cache.names(FOLDER))
        return [cache.path(FOLDER, name) for name in names if name in kept]

    def _cache(self) -> Path:
        digest = hashlib.sha256(self.address.encode()).hexdigest()[:16]
        return default_folder() / "fetched" / digest

    def forget_fetched(self) -> None:
        """Remove what was fetched of a store that lies elsewhere."""
        if isinstance(self.place, RemotePlace):
            shutil.rmtree(self._cache(), ignore_errors=True)

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Open DuckDB with the view ``runs``: each run's rows once, an answer before an error.

        Raises :class:`schedlab.store.StoreError` for a segment that something has damaged.
        """
        import duckdb  # noqa: PLC0415 - as above

        files = [str(path) for path in self.files()]
        connection = duckdb.connect()
        try:
            if files:
                self._view(connection, files)
            else:
                kinds = {"String": "VARCHAR", "Int64": "BIGINT", "Float64": "DOUBLE"}
                fields = ", ".join(
                    f'"{name}" {kinds[str(kind)]}' for name, kind in columns().items()
                )
                connection.execute(f"CREATE TABLE runs ({fields})")
        except duckdb.Error as error:
            connection.close()
            raise StoreError(f"{_culprit(files) or self.address}: {_words(error)}") from None
        return connection

    def _view(self, connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> None:
        listed = ", ".join("'" + name.replace("'", "''") + "'" for name in files)
        source = f"read_parquet([{listed}], file_row_number = false, filename = true)"
        connection.execute(
            f"""
            CREATE TABLE chosen AS
            SELECT key, arg_min(filename, (error IS NOT NULL, filename)) AS filename,
                   count(DISTINCT filename) AS files
            FROM {source} GROUP BY key
            """  # noqa: S608 - names of our own files, quoted
        )
        twice = connection.execute("SELECT count(*) FROM chosen WHERE files > 1").fetchone()
        if twice is not None and twice[0]:
            connection.execute(
                f"""
                CREATE VIEW runs AS SELECT r.* EXCLUDE (filename)
                FROM {source} r JOIN chosen USING (key, filename)
                """  # noqa: S608 - as above
            )
        else:
            connection.execute(
                f"CREATE VIEW runs AS SELECT * EXCLUDE (filename) FROM {source}"  # noqa: S608 - as above
            )

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Answer SQL about ``runs``: a row per figure, with the columns of :func:`columns`.

        Raises :class:`schedlab.store.StoreError` with DuckDB's words.
        """
        import duckdb  # noqa: PLC0415 - as above

        with self.connect() as connection:
            try:
                found = connection.execute(sql)
                names = [column[0] for column in found.description or ()]
                return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
            except duckdb.Error as error:
                raise StoreError(f"{self.address}: {_words(error)}") from None

    def frame(self, sql: str = "FROM runs") -> pl.DataFrame:
        """Answer SQL as a Polars frame; all rows by default."""
        import duckdb  # noqa: PLC0415 - as above

        with self.connect() as connection:
            try:
                return to_frame(connection, sql)
            except duckdb.Error as error:
                raise StoreError(f"{self.address}: {_words(error)}") from None

    def keys(self, *, failed: bool = True) -> KeySet:
        """Give the keys of all runs, or of those that did not fail."""
        import polars as pl  # noqa: PLC0415 - as above

        found = KeySet()
        for path in self.files():
            try:
                rows = pl.read_parquet(path, columns=["key", "error"])
            except FileNotFoundError:
                continue  # Its runs stand in a larger segment, which is listed or will be.
            except pl.exceptions.PolarsError as error:
                raise StoreError(
                    f"{path}: {_words(error)}; remove it, its runs come anew"
                ) from None
            kept = rows if failed else rows.filter(pl.col("error").is_null())
            found.update(kept["key"].unique().to_list())
        return found

    def compact(self, *, least: int = COMPACT_FROM) -> int:
        """Put small segments together, and tell how many are gone.

        The larger one is written before the others are removed, so that whatever interrupts this
        leaves runs twice at worst, which readers put up with.
        """
        import polars as pl  # noqa: PLC0415 - as above

        files = {path.name: path for path in self.files()}
        small = [name for name, path in files.items() if path.stat().st_size < SEGMENT_BYTES_MAX]
        if len(small) < least:
            return 0
        gone = 0
        for group in _groups([(name, files[name].stat().st_size) for name in small]):
            if len(group) < 2:  # noqa: PLR2004 - one is together already
                continue
            once = _once([pl.read_parquet(files[name]) for name in group])
            name = name_of(once["key"].unique().to_list())
            self.write_frame(once, name)
            self.place.remove(FOLDER, [each for each in group if each != name])
            gone += len(group) - 1
        return gone

    def merge(self, other: Segments) -> int:
        """Take over the segments of another store, and tell how many were new."""
        have = set(self.names())
        missing = [name for name in other.names() if name not in have]
        for first in range(0, len(missing), FETCHED):
            part = missing[first : first + FETCHED]
            for name, content in other.place.read(FOLDER, part).items():
                self.place.write(FOLDER, name, content)
        return len(missing)


class KeySet:
    """Keys of runs, 16 bytes each: a sweep may have millions.

    >>> keys = KeySet()
    >>> keys.update(["00" * 16, "ff" * 16])
    >>> "ff" * 16 in keys, "01" * 16 in keys, len(keys)
    (True, False, 2)
    """

    # So many are looked up in a set before they are put in order.
    FRESH = 1 << 15

    def __init__(self) -> None:
        """Begin with none."""
        import numpy as np  # noqa: PLC0415 - as above

        # Bytes of a length compare as keys do; that NumPy drops zeros at their end harms nothing.
        self._sorted: np.ndarray[Any, Any] = np.empty(0, dtype=f"S{KEY_BYTES}")
        self._fresh: set[bytes] = set()

    def add(self, key: str) -> None:
        """Add a key that is not there."""
        self._fresh.add(bytes.fromhex(key))
        if len(self._fresh) >= self.FRESH:
            self._settle()

    def update(self, keys: Iterable[str]) -> None:
        """Add keys, some of which may be there."""
        for key in keys:
            if key not in self:
                self.add(key)

    def __contains__(self, key: str) -> bool:
        """Look a key up."""
        raw = bytes.fromhex(key)
        if raw in self._fresh:
            return True
        at = int(self._sorted.searchsorted(raw))
        return at < len(self._sorted) and bool(self._sorted[at] == raw.rstrip(b"\0"))

    def _settle(self) -> None:
        import numpy as np  # noqa: PLC0415 - as above

        fresh = np.array(list(self._fresh), dtype=self._sorted.dtype)
        fresh.sort()
        places = self._sorted.searchsorted(fresh)
        self._sorted = np.insert(self._sorted, places, fresh)
        self._fresh = set()

    def __len__(self) -> int:
        """Count the keys."""
        return len(self._sorted) + len(self._fresh)


def _once(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Put segments together, each run once: an answer before an error, else the first."""
    import polars as pl  # noqa: PLC0415 - as above

    rows = pl.concat(part.with_columns(part=pl.lit(at)) for at, part in enumerate(parts))
    rank = pl.col("part") + pl.when(pl.col("error").is_null()).then(0).otherwise(len(parts))
    ranked = rows.with_columns(rank=rank)
    kept = ranked.filter(pl.col("rank") == pl.col("rank").min().over("key"))
    return kept.drop("part", "rank")


def _groups(sized: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    """Group segments so that each group is no larger than a segment may be."""
    group: list[str] = []
    size = 0
    for name, own in sized:
        if group and size + own > SEGMENT_BYTES_MAX:
            yield group
            group, size = [], 0
        group.append(name)
        size += own
    if group:
        yield group


def _culprit(files: Sequence[str]) -> str:
    """Name the first file that is no segment; empty if all are."""
    import polars as pl  # noqa: PLC0415 - as above

    wanted = columns().keys()
    for file in files:
        try:
            there = pl.read_parquet_schema(file).keys()
        except (OSError, pl.exceptions.PolarsError):
            return file
        if not wanted <= there:
            return file
    return ""


def _words(error: BaseException) -> str:
    text = str(error)
    return text.splitlines()[0] if text else type(error).__name__
