"""``schedlab pelt``: rebuilt utilisation against the kernel's own."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from schedlab.cli._output import (
    Column,
    integer,
    print_json,
    print_note,
    print_table,
    print_title,
    progress,
)
from schedlab.machine import Machine
from schedlab.pelt import check

_SIGNALS = {
    "task": "tasks",
    "cpu_fair": "CPUs, fair class",
    "cpu_rt": "CPUs, real-time",
    "cpu_dl": "CPUs, deadline",
}


@click.command
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--machine",
    "machine_name",
    metavar="NAME|FILE",
    help="The machine that the trace was taken on, for capacities and frequencies; without it all "
    "CPUs count as big and at full speed.",
)
@click.option(
    "--invariance",
    type=click.Choice(["clock", "contribution"]),
    help="How the traced kernel makes slow CPUs comparable: by the clock (Linux 5.1 on) or by the "
    "contribution (before). By default the nearer to its values.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    file: Path,
    machine_name: str | None,
    invariance: Literal["clock", "contribution"] | None,
    as_json: bool,
) -> None:
    """Rebuild util_avg from a trace and hold it against the kernel's own values.

    The values come from the trace's sched_load or pelt events. Errors are absolute, of 1024. A
    value is compared once its history is known.
    """
    machine = None if machine_name is None else Machine.load(machine_name)
    with progress(file, "reading") as told:
        found = check(file, machine, invariance=invariance, progress=told)
    if as_json:
        print_json({"file": str(file), **found})
        return
    print_title(
        f"{file.name}: error of rebuilt util_avg, of 1024 ({found['invariance']} invariance)"
    )
    rows = [{"signal": title, **found[signal]} for signal, title in _SIGNALS.items()]
    print_table(
        [
            Column("signal", "signal", numeric=False),
            Column("compared", "compared", integer),
            Column("unknown", "unknown history", integer),
            Column("median", "median"),
            Column("p90", "p90"),
            Column("p99", "p99"),
            Column("max", "max"),
        ],
        rows,
    )
    if not any(row["compared"] or row["unknown"] for row in rows):
        print_note("the trace has no util_avg of the kernel's to compare with")
