"""Cache lines as ``perf c2c report`` prints them, of a simulated run or of the real tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from schedlab.cli._output import Column, decimal, integer, print_table, print_title

if TYPE_CHECKING:
    import polars as pl

LINES_SHOWN = 4


def print_simulated(c2c: pl.DataFrame, limit: int) -> None:
    """Print the hottest lines of a run: the shares of each place in its line's hits and stores."""
    if c2c.is_empty():
        click.echo("\nno cache line that real-time scheduling shares was accessed")
    for number, rows in enumerate(c2c.partition_by("number", maintain_order=True)):
        if limit and number >= LINES_SHOWN:
            left = c2c["number"].n_unique() - LINES_SHOWN
            click.echo(f"\n... {left} more lines; --limit 0 shows all")
            break
        places = rows.to_dicts()
        first = places[0]
        click.echo()
        print_title(
            f"{first['line']}: {first['line_remote_hitm']:,} remote HITM, "
            f"{first['line_local_hitm']:,} local HITM, {first['line_stores']:,} stores"
        )
        for place in places:
            place["rmt"] = _share(place["remote_hitm"], first["line_remote_hitm"])
            place["lcl"] = _share(place["local_hitm"], first["line_local_hitm"])
            place["hit"] = _share(place["stores_l1_hit"], first["line_stores"])
            place["miss"] = _share(place["stores_l1_miss"], first["line_stores"])
            place["at"] = f"{place['offset']:#x}"
        print_table(
            [
                Column("rmt", "Rmt HITM %", decimal(2)),
                Column("lcl", "Lcl HITM %", decimal(2)),
                Column("hit", "L1 hit %", decimal(2), spare=1),
                Column("miss", "L1 miss %", decimal(2), spare=1),
                Column("at", "offset"),
                Column("load_cycles_mean", "load cycles", integer),
                Column("load_cycles_p50", "p50", integer, spare=2),
                Column("load_cycles_p99", "p99", integer, spare=2),
                Column("records", "records", integer),
                Column("cpus", "CPUs", spare=3),
                Column("symbol", "symbol", numeric=False),
            ],
            places,
            limit=limit,
        )


def print_parsed(rows: pl.DataFrame, limit: int) -> None:
    """Print what the real tool printed, in the same shape."""
    for line in rows.partition_by("number", maintain_order=True):
        places = line.to_dicts()
        first = places[0]
        click.echo()
        print_title(
            f"{first['line']}: {first['line_remote_hitm']:,} remote HITM, "
            f"{first['line_local_hitm']:,} local HITM, "
            f"{first['line_stores_l1_hit']:,} stores that hit"
        )
        for place in places:
            place["at"] = f"{place['offset']:#x}"
        print_table(
            [
                Column("remote_hitm_pct", "Rmt HITM %", decimal(2)),
                Column("local_hitm_pct", "Lcl HITM %", decimal(2)),
                Column("stores_l1_hit_pct", "L1 hit %", decimal(2), spare=1),
                Column("stores_l1_miss_pct", "L1 miss %", _known(2), spare=1),
                Column("at", "offset"),
                Column("load_cycles", "load cycles", _known(0)),
                Column("records", "records", integer),
                Column("cpus", "CPUs", _known(0), spare=3),
                Column("symbol", "symbol", numeric=False),
            ],
            places,
            limit=limit,
        )


def _share(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _known(digits: int) -> Any:
    """Show a number, or nothing where the tool's version does not tell it."""
    return lambda value: "" if value is None else f"{value:,.{digits}f}"
