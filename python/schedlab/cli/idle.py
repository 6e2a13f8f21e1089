"""``schedlab idle``: a trace's idle periods under other governors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli._errors import Refusal
from schedlab.cli._output import (
    Column,
    decimal,
    integer,
    print_json,
    print_note,
    print_table,
    print_title,
    progress,
)
from schedlab.cli._traced import traced_machine
from schedlab.idle import replay

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl


@click.command
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--machine",
    "machine_name",
    metavar="NAME|FILE",
    help="The machine that the trace was taken on. Without it, the built-in machine with as many "
    "CPUs and idle states as the trace, or else the generic one.",
)
@click.option(
    "--governor",
    "governors",
    multiple=True,
    metavar="NAME",
    help="Replay this governor (repeatable); all by default.",
)
@click.option(
    "--hz",
    type=click.IntRange(min=1, max=100_000),
    help="The traced kernel's tick rate; by default as the trace shows it, or the machine's.",
)
@click.option(
    "--periods",
    "periods_file",
    type=click.Path(path_type=Path),
    metavar="FILE.csv|FILE.parquet",
    help="Write what went into each decision and what came out, a row per period and governor.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    file: Path,
    machine_name: str | None,
    governors: Sequence[str],
    hz: int | None,
    periods_file: Path | None,
    as_json: bool,
) -> None:
    """Show what other idle governors would have done with a trace's idle periods.

    Each governor lives through the trace's idle time with its own choices and its own tick. Beside
    them stands the traced governor. The agreement is how often a governor chooses the traced state
    when it is given the traced past: near 100 % for the governor that was traced.
    """
    if periods_file is not None and periods_file.suffix not in {".csv", ".parquet"}:
        raise click.UsageError(f"{periods_file}: --periods writes .csv or .parquet.")
    machine = traced_machine(file, machine_name)
    try:
        with progress(file, "replaying") as told:
            report, rows = replay(
                file,
                machine,
                governors,
                hz=hz,
                periods=periods_file is not None,
                progress=told,
            )
    except ValueError as error:
        raise Refusal(_placed(file, str(error))) from None
    if periods_file is not None and rows is not None:
        _write(rows, periods_file)
    if as_json:
        print_json({"file": str(file), "machine_guessed": machine_name is None, **report})
        return
    _print(file, report, guessed=machine_name is None)


def _placed(file: Path, message: str) -> str:
    return (
        message
        if str(file) in message or message.startswith("no idle governor")
        else f"{file}: {message}"
    )


def _write(rows: pl.DataFrame, path: Path) -> None:
    if path.suffix == ".csv":
        rows.write_csv(path)
    else:
        rows.write_parquet(path)


def _print(file: Path, report: dict[str, Any], *, guessed: bool) -> None:
    traced, governors = report["traced"], report["governors"]
    hz = round(1e9 / report["tick_ns"])
    title = f"{file.name}: idle periods on {report['machine']}, HZ={hz}"
    print_title(title)
    rows = [{"governor": "traced", **traced}] if traced["periods"] else []
    rows += [{**found, "governor": name} for name, found in governors.items()]
    states = list(dict.fromkeys(name for row in rows for name in row["state_share_pct"]))
    for row in rows:
        for name in states:
            row[f"state {name}"] = row["state_share_pct"].get(name, 0.0)
    percent = decimal(2)
    print_table(
        [
            Column("governor", "governor", numeric=False),
            Column("periods", "periods", integer),
            Column("too_deep_pct", "too deep %", percent),
            Column("too_shallow_pct", "too shallow %", percent),
            *(Column(f"state {name}", f"{name} %", decimal(1), spare=1) for name in states),
            Column("exit_latency_us", "wake us", decimal(1)),
            Column("extra_exit_latency_us", "more us", decimal(1), spare=3),
            Column("idle_energy_mj", "idle mJ", decimal(2)),
            Column("agreement_pct", "agreement %", percent),
            Column("estimated_pct", "estimated %", decimal(1), spare=2),
        ],
        rows,
    )
    if report["traced_governor"] is not None:
        click.echo(f"The trace was recorded under {report['traced_governor']}, by its agreement.")
    elif not traced["periods"]:
        click.echo("The trace has no cpu_idle events, so nothing tells what its governor chose.")
    if guessed:
        print_note(
            f"machine {report['machine']} is a guess from the trace's CPUs and idle states; "
            "--machine names another"
        )
