"""``schedlab store``: the runs that sweeps have kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from schedlab.cli._output import Column, limit_option, print_json, print_table
from schedlab.cli.sweep import store_option

if TYPE_CHECKING:
    from schedlab.store.segments import Segments


@click.group
def command() -> None:
    """Look at the runs that sweeps have kept, and put stores together."""


def _open(store: str | None) -> Segments:
    from schedlab.sweep.run import open_store  # noqa: PLC0415 - `--help` needs none

    return open_store(store)


@command.command
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(*, store: str | None, as_json: bool) -> None:
    """Count what a store holds."""
    segments = _open(store)
    [row] = segments.query(
        "SELECT count(DISTINCT key) AS runs, count(DISTINCT key) FILTER (error IS NOT NULL) AS "
        "failed, count(figure) AS figures FROM runs"
    )
    found: dict[str, Any] = {
        "address": segments.address,
        "segments": len(segments.names()),
        **row,
    }
    programs = segments.query(
        "SELECT program, count(DISTINCT key) AS runs FROM runs GROUP BY program ORDER BY program"
    )
    if as_json:
        print_json({**found, "programs": programs})
        return
    for name, value in found.items():
        click.echo(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}")
    # A sweep takes those of its own program alone.
    for each in programs:
        click.echo(f"runs of schedlab {each['program']}: {each['runs']:,}")


@command.command
@click.argument("sql")
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@limit_option
def query(*, sql: str, store: str | None, as_json: bool, limit: int) -> None:
    """Answer SQL about `runs`, a row per figure of every run.

    Its columns: key, error, machine, workload, kernel, settings (JSON), seed, duration_s, start_ns,
    end_ns, events, digest, ending, program, wall_s, figure, unit, value.
    """
    rows = _open(store).query(sql)
    if as_json:
        print_json(rows)
        return
    names = list(rows[0]) if rows else []
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
        click.echo(f"{address}: {segments.merge(theirs)} segments taken over")


@command.command
@store_option
def compact(*, store: str | None) -> None:
    """Put small segments together."""
    click.echo(f"{_open(store).compact(least=2)} segments fewer")
