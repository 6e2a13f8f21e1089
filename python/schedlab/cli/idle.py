"""``schedlab idle``: a trace's idle periods under other governors."""

from __future__ import annotations

import io
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab._files import write_bytes
from schedlab._schedlab import GovernorError, GovernorSource
from schedlab.cli._errors import Refusal
from schedlab.cli._files import OUT_FILE
from schedlab.cli._numbers import CPUS_MAX
from schedlab.cli._output import (
    Column,
    cpu_list,
    decimal,
    integer,
    print_json,
    print_table,
    print_title,
    progress,
)
from schedlab.cli._traced import MACHINE_HELP, traced_machine
from schedlab.idle import Explained, replay
from schedlab.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from schedlab.idle import AnyGovernor
    from schedlab.machine import Machine

# What a trace says of the next timers, and where a row says it.
TIMERS = {
    "next tick": "next_tick_ns",
    "next high-resolution timer": "next_hrtimer_ns",
    "next timer-wheel timer": "next_wheel_ns",
}

# No trace's clock goes so far.
MAX_S = 1 << 33

# No trace holds so many periods.
MAX_PERIODS = 1 << 63


@click.command
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--machine",
    "machine_name",
    metavar="NAME|FILE",
    help=MACHINE_HELP,
)
@click.option(
    "--governor",
    "governors",
    multiple=True,
    metavar="NAME",
    help="Replay this governor (repeatable); all by default.",
)
@click.option(
    "--governor-source",
    "sources",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE.c",
    help="Compile and replay this governor of a kernel tree, drivers/cpuidle/governors/teo.c say "
    "(repeatable).",
)
@click.option(
    "--hz",
    type=click.IntRange(min=1, max=100_000),
    help="The traced kernel's tick rate; by default as the trace shows it, or the machine's.",
)
@click.option(
    "--periods",
    "periods_file",
    type=OUT_FILE,
    metavar="FILE.csv|FILE.parquet",
    help="Write what went into each decision and what came out, a row per period and governor.",
)
@click.option(
    "--explain",
    "explained",
    metavar="CPU:PERIOD|CPU@SECONDS",
    help="Tell of one idle period what each governor saw and why it chose: the period of this "
    "number on a CPU, from 0, or the one at this time of the trace's clock.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    file: Path,
    machine_name: str | None,
    governors: Sequence[str],
    sources: Sequence[Path],
    hz: int | None,
    periods_file: Path | None,
    explained: str | None,
    as_json: bool,
) -> None:
    """Show what other idle governors would have done with a trace's idle periods.

    Each governor lives through the trace's idle time with its own choices and its own tick. Beside
    them stands the traced governor. The agreement is how often a governor chooses the traced state
    when it is given the traced past: near 100 % for the governor that was traced.
    """
    if periods_file is not None and periods_file.suffix not in {".csv", ".parquet"}:
        raise click.UsageError(f"{periods_file}: --periods writes .csv or .parquet.")
    if explained is not None and periods_file is not None:
        raise click.UsageError("--explain tells of one period, --periods writes all: give one.")
    wanted = None if explained is None else _wanted(explained)
    machine = traced_machine(file, machine_name)
    asked: list[AnyGovernor] = [*governors, *map(GovernorSource, sources)]
    try:
        with progress(file, "replaying") as told:
            report, rows = replay(
                file,
                machine,
                asked,
                hz=hz,
                periods=periods_file is not None,
                explain=wanted,
                progress=told,
            )
    except GovernorError:
        raise
    except ValueError as error:
        raise Refusal(_placed(file, str(error))) from None
    if wanted is not None and rows is not None:
        _explain(file, machine, explained or "", rows, as_json=as_json)
        return
    if periods_file is not None and rows is not None:
        _write(rows, periods_file)
    if as_json:
        print_json({"file": str(file), "machine_guessed": machine_name is None, **report})
        return
    _print(file, report)


def _wanted(text: str) -> Explained:
    """Read which period is meant.

    >>> _wanted("2:117")
    Explained(cpu=2, period=117, time_ns=None)
    >>> _wanted("0@12.000345")
    Explained(cpu=0, period=None, time_ns=12000345000)
    """
    cpu, mark, rest = text.partition("@" if "@" in text else ":")
    try:
        if mark == "@":
            seconds = Decimal(rest)
            known = 0 <= seconds < MAX_S
            wanted = Explained(int(cpu), time_ns=int(seconds * 1_000_000_000) if known else 0)
        else:
            wanted = Explained(int(cpu), period=int(rest))
            known = 0 <= int(rest) < MAX_PERIODS
        if not known or not 0 <= wanted.cpu < CPUS_MAX:
            raise ValueError  # noqa: TRY301 - the same words for every mistake
    except (ValueError, InvalidOperation):
        raise click.UsageError(
            f"--explain {text}: give a CPU and the number of an idle period, 2:117, or a time, "
            "2@12.000345."
        ) from None
    return wanted


def _explain(file: Path, machine: Machine, text: str, rows: pl.DataFrame, *, as_json: bool) -> None:
    if rows.is_empty():
        info = Trace(file, keep_events=False).info
        raise Refusal(
            f"{file}: no idle period {text}; the trace has CPUs {cpu_list(info['cpus'])} from "
            f"{info['begin_ns'] / 1e9:.6f} to {info['end_ns'] / 1e9:.6f} s, and --periods writes "
            "its periods"
        )
    # A time at the border of two periods is in both.
    rows = rows.filter(rows["period"] == rows["period"][0])
    if as_json:
        print_json(rows.to_dicts())
        return
    period = rows.row(0, named=True)
    types = {kind["name"]: kind for kind in machine.to_dict()["cpu_types"]}
    states = types[machine.cpus.row(period["cpu"], named=True)["cpu_type"]]["idle_states"]
    print_title(f"{file.name}: idle period {period['period']} of CPU {period['cpu']}")
    click.echo(
        f"idle from {period['entry_ns'] / 1e9:.9f} s, in a state for "
        f"{period['residency_ns'] / 1e3:.1f} us; ended by: {period['wake'].replace('_', ' ')}"
    )
    tick = "was stopped" if period["tick_was_stopped"] else "ran"
    for name, column in TIMERS.items():
        if period[column] is not None:
            away_us = (period[column] - period["entry_ns"]) / 1e3
            click.echo(f"{name}: {away_us:,.1f} us away")
    click.echo(
        f"tick: {tick}; utilization {period['cpu_util']}; waiting for I/O: {period['nr_iowait']}"
    )
    print_table(
        [
            Column("state", "state"),
            Column("name", "name", numeric=False),
            Column("governor_exit_latency_ns", "exit us", decimal(1, 1e3)),
            Column("target_residency_ns", "residency us", decimal(1, 1e3)),
            Column("traced", "", numeric=False),
        ],
        [
            {
                **state,
                "state": index,
                "traced": "traced" if index == period["traced_state"] else "",
            }
            for index, state in enumerate(states)
        ],
    )
    for row in rows.iter_rows(named=True):
        stop = "stops" if row["stop_tick"] else "keeps"
        click.echo(f"\n{row['governor']} chooses state {row['chosen_state']} and {stop} the tick:")
        for line in (row["why"] or row["memory"] or "it tells nothing of itself").splitlines():
            click.echo(f"  {line}")


def _placed(file: Path, message: str) -> str:
    return message if str(file) in message else f"{file}: {message}"


def _write(rows: pl.DataFrame, path: Path) -> None:
    # Polars would not say which file, nor why, in the system's words.
    content = io.BytesIO()
    if path.suffix == ".csv":
        rows.write_csv(content)
    else:
        rows.write_parquet(content)
    write_bytes(path, content.getbuffer())


def _print(file: Path, report: dict[str, Any]) -> None:
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
    elif len(traced["state_share_pct"]) == 1:
        click.echo("The machine has one idle state, so governors have nothing to choose.")
