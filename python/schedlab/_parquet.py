"""A trace's events as a Parquet file, which Polars writes while they are read."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from schedlab._files import naming

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import polars as pl

    from schedlab._schedlab import EventTables

ROW_GROUP_ROWS = 1 << 17
"""Rows of a row group: a few megabytes in memory."""


def write_events(tables: EventTables, path: Path) -> None:
    """Write all events of ``tables``, compressed with zstd, in bounded memory.

    The file's key-value metadata holds ``format``, ``clock``, ``kernel_release`` and
    ``lost_events`` of the trace. The file appears under its name once it is complete.

    Raises what reading raises (:class:`schedlab.TraceError`, or what a progress callback does) and
    :class:`OSError` for what cannot be written.
    """
    import polars as pl  # noqa: PLC0415 - a fifth of a second that the command line need not pay
    from polars.io.plugins import register_io_source  # noqa: PLC0415 - as above

    raised: list[BaseException] = []

    def frames(*_: object) -> Iterator[pl.DataFrame]:
        # Polars would wrap an exception; the caller is to see it as it was raised.
        try:
            for table in tables:
                yield pl.DataFrame(table)
        except BaseException as error:  # noqa: BLE001 - raised again below
            raised.append(error)

    def origin(_: object) -> dict[str, str]:
        # Polars asks when it writes the footer: what the tracer lost is known then.
        names = ("format", "clock", "kernel_release", "lost_events")
        return dict(zip(names, map(str, tables.origin()), strict=True))

    schema = pl.DataFrame(tables.empty()).schema
    # A link is written through; nothing may take the place of a device or a pipe.
    path = path.resolve()
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.ESPIPE, "it is no file, as Parquet needs; write .csv there", str(path))
    partial = path.with_name(f"{path.name}.part")
    try:
        with naming(path, partial), partial.open("wb"):
            # Opening it here gives the system's own words where that is refused.
            pass
        register_io_source(frames, schema=schema).sink_parquet(
            partial,
            compression="zstd",
            compression_level=3,
            row_group_size=ROW_GROUP_ROWS,
            metadata=origin,
        )
        if raised:
            raise raised[0]
        with naming(path, partial):
            partial.replace(path)
    except pl.exceptions.PolarsError as error:
        raise OSError(errno.EIO, str(error), str(path)) from error
    finally:
        partial.unlink(missing_ok=True)
