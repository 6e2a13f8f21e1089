"""``schedlab compare --reboots``: marked rows, and what spread of boots would explain them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from schedlab.cli._output import Column, print_json, print_table, print_title, print_wrapped

if TYPE_CHECKING:
    from schedlab.comparison.table import Table


def print_reboots(table: Table, *, as_json: bool, limit: int) -> None:
    """Print the analysis, the marked rows first, or all significant rows if none is marked."""
    from schedlab.comparison.reboots import analyse  # noqa: PLC0415 - scipy takes its time

    found = analyse(table)
    if as_json:
        print_json(found.as_dict())
        return
    print_title("What spread from boot to boot would explain")
    print_table(
        [
            Column("benchmark", "benchmark", numeric=False),
            Column("rows", "rows"),
            Column("tau", "estimated spread %"),
        ],
        [
            {"benchmark": name, "rows": str(rows), "tau": f"{tau:.2f}"}
            for name, rows, tau in found.estimates
        ],
    )
    click.echo()
    print_table(
        [
            Column("case", "case", numeric=False),
            Column("kernel", "kernel", numeric=False),
            Column("change", "change %"),
            Column("p", "p"),
            Column("p_holm", "p Holm"),
            Column("p_bh", "p BH"),
            Column("explains", "explained by %"),
            Column("p_reboot", "p with boots"),
        ],
        [each.cells() for each in found.rows],
        limit=limit,
    )
    print_wrapped(found.words(), indent=2)
