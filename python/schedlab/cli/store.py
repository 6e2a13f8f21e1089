"""``schedlab store``: the runs that sweeps and studies have kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli._output import Column, counted, limit_option, print_json, print_table
from schedlab.cli.sweep import store_option

if TYPE_CHECKING:
    from schedlab.store.segments import Segments


@click.group
def command() -> None:
    """Look at the runs that sweeps and studies have kept, and put stores together.

    A store is a folder: sweeps and searches keep their runs in its segments/, studies in its runs/.
    """


_read_option = click.option(
    "--store",
    metavar="DIR|ADDRESS",
    help="The store to read: a folder or an address such as s3://bucket/sweeps; $SCHEDLAB_STORE or "
    "schedlab in the user's cache by default.",
)


def _open(store: str | None) -> Segments:
    from schedlab.sweep.run import open_store  # noqa: PLC0415 - `--help` needs none

    return open_store(store)


def _read(store: str | None) -> Segments:
    """Open a store that must be there; the user's cache may be empty yet."""
    from schedlab.store import StoreError  # noqa: PLC0415 - as above
    from schedlab.store.places import FolderPlace  # noqa: PLC0415 - as above

    segments = _open(store)
    place = segments.place
    named = store is not None or os.environ.get("SCHEDLAB_STORE")
    if named and isinstance(place, FolderPlace) and not place.folder.exists():
        given = "--store" if store is not None else "$SCHEDLAB_STORE"
        raise StoreError(f"{place.folder}: no store is there; mend {given}")
    return segments


def _study_runs(segments: Segments) -> int:
    """Count the runs of studies, which keep them in folders alone."""
    from schedlab.store import Store  # noqa: PLC0415 - as above
    from schedlab.store.places import FolderPlace  # noqa: PLC0415 - as above

    place = segments.place
    return len(Store(place.folder).keys()) if isinstance(place, FolderPlace) else 0


@command.command
@_read_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(*, store: str | None, as_json: bool) -> None:
    """Count what a store holds: runs of sweeps and searches, and runs of studies."""
    segments = _read(store)
    [row] = segments.query(
        "SELECT count(DISTINCT key) AS runs, count(DISTINCT key) FILTER (error IS NOT NULL) AS "
        "failed, count(figure) AS figures FROM runs"
    )
    found: dict[str, Any] = {
        "address": segments.address,
        "segments": len(segments.names()),
        **row,
        "study_runs": _study_runs(segments),
    }
    programs = segments.query(
        "SELECT program, count(DISTINCT key) AS runs FROM runs GROUP BY program ORDER BY program"
    )
    if as_json:
        print_json({**found, "programs": programs})
        return
    for name, value in found.items():
        words = name.replace("_", " ")
        click.echo(f"{words}: {value:,}" if isinstance(value, int) else f"{words}: {value}")
    # A sweep takes those of its own program alone.
    for each in programs:
        click.echo(f"runs of schedlab {each['program']}: {each['runs']:,}")


@command.command
@click.argument("sql")
@_read_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@limit_option
def query(*, sql: str, store: str | None, as_json: bool, limit: int) -> None:
    """Answer SQL about `runs`, a row per figure of every run of sweeps and searches.

    Its columns: key, error, machine, workload, kernel, settings (JSON), seed, duration_s, start_ns,
    end_ns, events, digest, ending, program, wall_s, figure, unit, value.
    """
    rows = _read(store).query(sql)
    if as_json:
        print_json(rows)
        return
    if not rows:
        click.echo(" (none)")
        return
    names = list(rows[0])
    columns = [
        Column(name, name, numeric=any(isinstance(row[name], int | float) for row in rows))
        for name in names
    ]
    print_table(columns, rows, limit=limit)


@command.command
@click.argument("other", metavar="DIR|ADDRESS", nargs=-1, required=True)
@store_option
def merge(*, other: tuple[str, ...], store: str | None) -> None:
    """Take over the runs of other stores, each run once."""
    from schedlab.store import StoreError  # noqa: PLC0415 - as above

    segments = _open(store)
    for address in other:
        theirs = _open(address)
        if not theirs.names():
            raise StoreError(f"{address}: no store with runs is there; mend the address")
        click.echo(f"{address}: {counted(segments.merge(theirs), 'segment')} taken over")


@command.command
@_read_option
def compact(*, store: str | None) -> None:
    """Put small segments together."""
    click.echo(f"{counted(_read(store).compact(least=2), 'segment')} fewer")
