"""``schedlab sweep``: thousands of runs as one plan, on all cores or on a cluster."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli._files import OUT_FILE
from schedlab.cli._given import given, need
from schedlab.cli._numbers import ITERATIONS_MAX, JOBS, Finite
from schedlab.cli._output import (
    Column,
    counted,
    limit_option,
    print_json,
    print_note,
    print_table,
    print_title,
)
from schedlab.sweep.model import KERNEL, label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from schedlab.sweep.execute import Tally
    from schedlab.sweep.model import Plan
    from schedlab.sweep.run import SweepResult
    from schedlab.sweep.sensitivity import Index
    from schedlab.sweep.sequential import Pick, Until
    from schedlab.sweep.table import Row

__all__ = ["command", "print_rows", "store_option", "watched", "worker_options"]

FAILURES_SHOWN = 3

store_option = click.option(
    "--store",
    metavar="DIR|ADDRESS",
    help="Keep runs in segments/ of this folder or address, such as s3://bucket/sweeps; "
    "$SCHEDLAB_STORE or schedlab in the user's cache by default.",
)


def worker_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say who simulates."""
    for option in reversed(
        (
            click.option(
                "--jobs",
                type=JOBS,
                help="Simulate in so many processes of this machine; one per CPU by default.",
            ),
            click.option(
                "--scheduler",
                metavar="tcp://HOST:PORT|tls://HOST:PORT",
                help="Simulate on this Dask cluster instead.",
            ),
            click.option(
                "--tls-ca",
                type=click.Path(exists=True, dir_okay=False),
                help="Who signs for tls://.",
            ),
            click.option(
                "--tls-cert",
                type=click.Path(exists=True, dir_okay=False),
                help="This client's certificate for tls://.",
            ),
            click.option(
                "--tls-key",
                type=click.Path(exists=True, dir_okay=False),
                help="The key of that; left out if it stands in the same file.",
            ),
        )
    ):
        function = option(function)
    return function


def tls_files(
    scheduler: str | None, tls_ca: str | None, tls_cert: str | None, tls_key: str | None
) -> list[str]:
    """Check that the files for TLS come together.

    Raises ``click.UsageError`` where they do not.
    """
    given = [tls_ca, tls_cert]
    if not any((*given, tls_key)):
        return []
    if scheduler is None or not scheduler.startswith("tls://"):
        raise click.UsageError("--tls-ca, --tls-cert and --tls-key are for --scheduler tls://...")
    if tls_ca is None or tls_cert is None:
        raise click.UsageError("--tls-ca and --tls-cert go together; give both")
    return [tls_ca, tls_cert, tls_key or tls_cert]


@click.command
@click.argument("plan_file", metavar="PLAN.toml", type=click.Path(path_type=Path))
@worker_options
@store_option
@click.option(
    "--until",
    metavar="verdict|width=PCT",
    help="Add iterations where a comparison has no verdict, or an interval wider than PCT points, "
    "with intervals that hold however often they are looked at.",
)
@click.option(
    "--select",
    metavar="FIGURE",
    help="Find the variant that is best by this figure, and drop others on the way.",
)
@click.option(
    "--zone",
    type=Finite(0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="PCT",
    help="Of --select: a difference below this many percent does not matter.",
)
@click.option(
    "--most",
    type=click.IntRange(2, ITERATIONS_MAX),
    default=1000,
    show_default=True,
    help="Of --until and --select: iterations at most.",
)
@click.option(
    "--figure",
    "figures",
    multiple=True,
    metavar="FIGURE",
    help="Print this figure of the plan only; several times for several.",
)
@click.option(
    "--map",
    "as_map",
    is_flag=True,
    help="Of a grid of two axes: print each figure's changes as a map in place of the table.",
)
@click.option(
    "--report",
    type=OUT_FILE,
    help="Write pictures and table as an HTML page, too.",
)
@click.option("--retry-failed", is_flag=True, help="Try runs again that are recorded as failed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@limit_option
def command(
    *,
    plan_file: Path,
    jobs: int | None,
    scheduler: str | None,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    store: str | None,
    until: str | None,
    select: str | None,
    zone: float,
    most: int,
    figures: tuple[str, ...],
    as_map: bool,
    report: Path | None,
    retry_failed: bool,
    as_json: bool,
    limit: int,
) -> None:
    """Run a plan, and compare its variants at every point.

    Each run is kept under a key of all that determines it, so that a sweep that was interrupted
    goes on where it stopped, and nothing runs twice. A run that fails is recorded with its seed
    and the others go on; exit code 1 says that some failed.
    """
    from schedlab.sweep.load import load  # noqa: PLC0415 - `--help` needs none of these
    from schedlab.sweep.planes import check_map, figures_of  # noqa: PLC0415
    from schedlab.sweep.run import Session, run_sweep  # noqa: PLC0415

    _check_ways(until, select)
    plan = load(plan_file)
    tls = tls_files(scheduler, tls_ca, tls_cert, tls_key)
    wanted = None if until is None else _until(until, most)
    shown = figures_of(plan, figures)
    if as_map:
        check_map(plan)
    with watched(plan) as (told, so_far):
        options: dict[str, Any] = {
            "store": store,
            "jobs": jobs,
            "scheduler": scheduler,
            "tls": tls,
            "retry_failed": retry_failed,
            "progress": told,
        }
        if select is not None:
            from schedlab.sweep.sequential import pick  # noqa: PLC0415 - as above

            with Session(plan, **options) as session:
                picks = pick(session, select, zone_pct=zone, most=most)
        else:
            result = run_sweep(plan, until=wanted, so_far=so_far, **options)
    if select is not None:
        _print_picks(plan, select, picks, as_json=as_json)
        print_tally(session.tally)
        return
    if report is not None:
        from schedlab.report.sweep_page import write  # noqa: PLC0415 - as above

        write(result, report)
    if as_json:
        from schedlab.sweep.table import result_dict  # noqa: PLC0415 - as above

        print_json(result_dict(result))
    else:
        rows = [row for row in result.rows if row.figure in shown]
        print_result(result, rows, as_map=as_map, limit=limit)
        if result.indices:
            _print_indices(plan, result.indices)
    print_tally(result.tally)
    if any(row.failed for row in result.rows):
        sys.exit(1)


def _check_ways(until: str | None, select: str | None) -> None:
    """Refuse two ways to stop, and what would be without effect on the one that was chosen."""
    if select is None:
        need("--zone", what="--select")
        if until is None:
            need("--most", what="--until or --select")
    elif until is not None:
        raise click.UsageError("--until and --select are two ways to stop; give one of them")
    elif wrong := given("--figure", "--map", "--report"):
        raise click.UsageError(f"{wrong[0]} is of a table, and --select prints none; give one")


def _until(text: str, most: int) -> Until:
    from schedlab.sweep.sequential import Until  # noqa: PLC0415 - as above

    if text == "verdict":
        return Until(most=most)
    word, _, number = text.partition("=")
    try:
        width_pct = float(number)
    except ValueError:
        width_pct = 0.0
    if word != "width" or not width_pct > 0:
        raise click.UsageError(f"--until {text} is neither verdict nor width=PCT, such as width=2")
    return Until(width_pct, most)


def _print_picks(plan: Plan, figure: str, picks: Sequence[Pick], *, as_json: bool) -> None:
    from schedlab.study.words import number  # noqa: PLC0415 - as above

    if as_json:
        print_json([asdict(each) for each in picks])
        return
    confidence = f"{100 * (1 - plan.significance):g} %"
    for each in picks:
        place = ", ".join(
            [each.cell.workload, *(f"{name} {label(v)}" for name, v in each.cell.values.items())]
        )
        print_title(f"{plan.name}: {place}: best by {figure}: {plan.compare} {each.variant}")
        print_table(
            [
                Column("variant", plan.compare, numeric=plan.compare != KERNEL),
                Column("runs", "runs"),
                Column("mean", "mean", lambda value: number(value) or ""),
                Column("fate", "", numeric=False),
            ],
            [
                {
                    "variant": variant,
                    "runs": runs,
                    "mean": mean,
                    "fate": f"dropped after {dropped}" if dropped else "selected",
                }
                for variant, runs, mean, dropped in each.means
            ],
        )
        click.echo(
            f"with {confidence} probability, if it is better by {number(each.zone)} at least"
        )


def print_result(
    result: SweepResult, rows: Sequence[Row], *, as_map: bool = False, limit: int = 0
) -> None:
    """Print these rows of a sweep as a table, or as maps."""
    plan = result.plan
    cells = counted(len({row.cell for row in result.rows}), "cell")
    places = f"{cells} x {counted(len(plan.variants), 'variant')}"
    iterations = counted(plan.iterations, "iteration")
    print_title(f"{plan.name}: {plan.title}" if plan.title != plan.name else plan.name)
    click.echo(f"{plan.design}, {places}, {iterations}; compared: {plan.compare}")
    if as_map:
        _print_maps(plan, rows)
    else:
        print_rows(plan, rows, limit=limit)


def _print_maps(plan: Plan, rows: Sequence[Row]) -> None:
    """Print each figure over the two axes of a grid, a map per variant."""
    from schedlab.study.words import number  # noqa: PLC0415 - as above
    from schedlab.sweep.planes import planes  # noqa: PLC0415

    down, across = plan.free
    figures = dict.fromkeys(row.figure for row in rows)
    found = [plane for figure in figures for plane in planes(plan, rows, figure)]
    places = {(plane.workload, plane.machine) for plane in found}

    def unsure(row: Row) -> bool:
        return row.compared is not None and row.compared.verdict == "inconclusive"

    brackets = any(unsure(row) for plane in found for row in plane.rows.values())

    def square(row: Row | None) -> str | None:
        if row is None or row.compared is None:
            return number(row.mean) if row is not None else None
        change = f"{row.compared.change_pct:+.2f}"
        return f"({change})" if unsure(row) else change + " " * brackets

    for plane in found:
        place = f"{plane.workload} on {plane.machine}: " if len(places) > 1 else ""
        click.echo()
        click.echo(f"{place}{plane.title}; across: {across.name}")
        print_table(
            [Column("down", down.name), *(Column(f"at {each}", each) for each in plane.across)],
            [
                {"down": y, **{f"at {x}": square(plane.rows.get((x, y))) for x in plane.across}}
                for y in plane.down
            ],
        )
    if brackets:
        click.echo("in brackets: inconclusive")


def _print_indices(plan: Plan, indices: Sequence[Index]) -> None:
    """Print which axes matter, the greatest share first."""
    click.echo()
    print_title("what matters: Sobol indices")
    print_table(
        [
            Column("workload", "workload", numeric=False),
            Column("variant", plan.compare, numeric=False),
            Column("figure", "figure", numeric=False),
            Column("axis", "axis", numeric=False),
            Column("first", "first order"),
            Column("total", "total"),
        ],
        [
            {
                **asdict(each),
                "first": f"{each.first:.3f} by {each.first_by:.3f}",
                "total": f"{each.total:.3f} by {each.total_by:.3f}",
            }
            for each in sorted(
                indices, key=lambda each: (each.workload, each.variant, each.figure, -each.total)
            )
        ],
    )


def print_rows(plan: Plan, rows: Sequence[Row], *, limit: int = 0) -> None:
    """Print a table's rows, a column per axis."""
    from schedlab.study.words import number  # noqa: PLC0415 - as above

    def varies(values: Sequence[object]) -> bool:
        return len(set(values)) > 1

    columns = []
    if varies([row.machine for row in rows]):
        columns.append(Column("machine", "machine", numeric=False))
    if varies([row.workload for row in rows]):
        columns.append(Column("workload", "workload", numeric=False))
    columns += [Column(f"axis {axis.name}", axis.name) for axis in plan.free]
    if plan.compare != KERNEL and varies([row.kernel for row in rows]):
        columns.append(Column("kernel", "kernel", numeric=False))
    columns += [
        Column("variant", plan.compare, numeric=plan.compare != KERNEL),
        Column("figure", "figure", numeric=False),
        Column("n", "n"),
        Column("mean", "mean"),
        Column("interval", f"{100 * (1 - plan.significance):g} % interval", spare=2),
        Column("unit", "unit", numeric=False),
        Column("change", "change %"),
        Column("change_interval", "interval %", spare=1),
        Column("verdict", "verdict", numeric=False),
    ]
    if any(row.failed for row in rows):
        columns.append(Column("failed", "failed"))

    def cells(row: Row) -> dict[str, Any]:
        compared = row.compared
        interval = row.interval
        change = None if compared is None else compared.interval_pct
        return {
            "machine": row.machine,
            "workload": row.workload,
            **{f"axis {name}": label(value) for name, value in row.values.items()},
            "kernel": row.kernel,
            "variant": row.variant,
            "figure": row.figure,
            "n": row.n,
            "mean": number(row.mean),
            "interval": interval and f"{number(interval[0])} .. {number(interval[1])}",
            "unit": "" if row.unit == "1" else row.unit,
            "change": None if compared is None else f"{compared.change_pct:+.2f}",
            "change_interval": change and f"{change[0]:+.2f} .. {change[1]:+.2f}",
            "verdict": None if compared is None else compared.verdict,
            "failed": row.failed or None,
        }

    print_table(columns, [cells(row) for row in rows], limit=limit)


def print_tally(tally: Tally) -> None:
    """Tell what was done, and what went wrong."""
    same = f", {tally.same} the same as another" if tally.same else ""
    print_note(f"{counted(tally.done, 'run')} simulated, {tally.stored} taken from the store{same}")
    if tally.deaths:
        print_note(f"{tally.deaths} workers died and were begun anew; nothing is lost")
    for workload, seed, error in tally.failures[:FAILURES_SHOWN]:
        print_note(f"failed: {workload}, seed {seed}: {error}")
    if tally.failed > FAILURES_SHOWN:
        print_note(f"{tally.failed} runs failed; `schedlab store query` shows them all")


@contextlib.contextmanager
def watched(
    plan: Plan,
) -> Iterator[tuple[Callable[[Tally], None] | None, Callable[[list[Row]], None] | None]]:
    """Show rate, time left and the table so far, where someone watches."""
    if not sys.stderr.isatty():
        yield None, None
        return
    from rich import progress as bars  # noqa: PLC0415 - only where someone watches
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True)
    shown = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[rate]}"),
        console=console,
        transient=True,
    )
    with shown:
        task = shown.add_task("simulating", total=None, rate="")

        def told(tally: Tally) -> None:
            left = tally.left_s
            words = [f"{tally.rate:,.1f} runs/s"]
            if left is not None:
                words.append(f"{_time(left)} left")
            if tally.failed:
                words.append(f"{tally.failed} failed")
            if tally.late_s > LATE_S:
                words.append(f"the store took {tally.late_s:.0f} s once")
            if tally.note:
                words.append(tally.note)
            done = tally.done + tally.stored + tally.same
            shown.update(task, completed=done, total=tally.total, rate=", ".join(words))

        def so_far(rows: list[Row]) -> None:
            console.print(f"so far, of {plan.name}:")
            for line in _lines(plan, rows):
                console.print(line, highlight=False)

        yield told, so_far


LATE_S = 5.0
SO_FAR_LINES = 12


def _lines(plan: Plan, rows: Sequence[Row]) -> list[str]:
    """Write the table so far, a line per comparison."""
    lines = []
    for row in rows:
        if row.compared is None:
            continue
        place = ", ".join(f"{name} {label(value)}" for name, value in row.values.items())
        low, high = row.compared.interval_pct or (float("nan"), float("nan"))
        lines.append(
            f"  {row.workload} {place}: {row.figure}: {plan.compare} {row.variant} "
            f"{row.compared.change_pct:+.2f} % ({low:+.2f} .. {high:+.2f}, n {row.n})"
        )
    more = len(lines) - SO_FAR_LINES
    return lines[:SO_FAR_LINES] + ([f"  ... {more} more"] if more > 0 else [])


def _time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
