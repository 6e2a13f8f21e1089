"""``schedlab tune``: good parameters found, and confirmed on runs that found nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from schedlab.cli._files import OUT_FILE
from schedlab.cli._numbers import ITERATIONS_MAX, Finite
from schedlab.cli._output import Column, counted, print_json, print_note, print_table, print_title
from schedlab.cli.sweep import print_tally, store_option, tls_files, worker_options
from schedlab.sweep.model import Limits, label

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from schedlab.tune.model import Trial, TuneResult


@click.command
@click.argument("study", metavar="STUDY|FILE")
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    required=True,
    metavar="TARGET=LOW..HIGH[:log]|A,B,C",
    help="What may vary, such as governor.utilization_shift=1..10; several times for several.",
)
@click.option(
    "--objective",
    "objectives",
    multiple=True,
    required=True,
    metavar="[min:|max:]FIGURE[@WORKLOAD]",
    help="What is aimed at; several times for a front of trade-offs.",
)
@click.option("--kernel", help="The study's kernel to tune; its first treatment by default.")
@click.option("--workload", "workloads", multiple=True, help="Search on this workload only.")
@click.option(
    "--held-out", multiple=True, metavar="WORKLOAD", help="Confirm on this one, and do not search."
)
@click.option(
    "--trials",
    type=click.IntRange(1, ITERATIONS_MAX),
    default=40,
    show_default=True,
    help="Of them all.",
)
@click.option(
    "--iterations",
    type=click.IntRange(2, ITERATIONS_MAX),
    help="Runs of a trial per workload; the study's number.",
)
@click.option(
    "--fresh",
    type=click.IntRange(2, ITERATIONS_MAX),
    help="Runs of the winner on fresh seeds; twice as many.",
)
@click.option("--small", is_flag=True, help="Take the study's short workloads.")
@click.option(
    "--storage",
    metavar="URL",
    help="Keep the search in this database, such as postgresql://...; in a journal beside the "
    "runs by default.",
)
@click.option(
    "--time-limit",
    type=Finite(0, min_open=True),
    metavar="S",
    help="Of a run, before it has failed.",
)
@worker_options
@store_option
@click.option(
    "--report",
    type=OUT_FILE,
    help="Write pictures and tables as an HTML page, too.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    study: str,
    parameters: tuple[str, ...],
    objectives: tuple[str, ...],
    kernel: str | None,
    workloads: tuple[str, ...],
    held_out: tuple[str, ...],
    trials: int,
    iterations: int | None,
    fresh: int | None,
    small: bool,
    storage: str | None,
    time_limit: float | None,
    jobs: int | None,
    scheduler: str | None,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    store: str | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Search for good values of a study's parameters, and confirm the best.

    Each trial runs beside the untuned kernel with the same random numbers. The best of many trials
    looks better than it is, so it runs again on fresh seeds and on what was held out: believe
    those. A search that was interrupted goes on; the same command with more --trials adds some.
    """
    from schedlab.tune.search import tune_study  # noqa: PLC0415 - `--help` needs none

    result = tune_study(
        study,
        parameters,
        objectives,
        kernel=kernel,
        workloads=workloads,
        held_out=held_out,
        trials=trials,
        iterations=iterations,
        fresh=fresh,
        small=small,
        storage=storage,
        store=store,
        jobs=jobs,
        scheduler=scheduler,
        tls=tls_files(scheduler, tls_ca, tls_cert, tls_key),
        limits=Limits(time_s=time_limit),
        told=_told(),
    )
    if report is not None:
        from schedlab.report.tune_page import write  # noqa: PLC0415 - as above

        write(result, report)
    if as_json:
        from schedlab.tune.table import result_dict  # noqa: PLC0415 - as above

        print_json(result_dict(result))
    else:
        print_result(result)
    print_tally(result.tally)


def _told() -> Callable[[Trial], None] | None:
    if not sys.stderr.isatty():
        return None
    from schedlab.tune.table import values_text  # noqa: PLC0415 - as above

    def tell(trial: Trial) -> None:
        changes = ", ".join(f"{change:+.2f} %" for change in trial.changes_pct)
        given_up = f", given up after {trial.iterations} iterations" if trial.pruned else ""
        print_note(f"trial {trial.number}: {values_text(trial)}: {changes}{given_up}")

    return tell


def print_result(result: TuneResult) -> None:
    """Print the best trials, and each of the front as confirmed."""
    from schedlab.tune.table import best, values_text  # noqa: PLC0415 - as above

    aims = [each.name for each in result.objectives]
    given_up = sum(trial.pruned for trial in result.trials)
    print_title(f"{result.plan.name}: {result.plan.settings['kernel']} tuned for {', '.join(aims)}")
    click.echo(f"{counted(len(result.trials), 'trial')}, {given_up} of them given up early")
    shown = best(result)
    names = list(result.front[0].values) if result.front else []
    print_table(
        [
            Column("number", "trial"),
            *(Column(f"value {name}", name) for name in names),
            *(Column(f"change {aim}", f"{aim}, change %") for aim in aims),
        ],
        [
            {
                "number": trial.number,
                **{f"value {name}": label(value) for name, value in trial.values.items()},
                **{
                    f"change {aim}": f"{change:+.2f}"
                    for aim, change in zip(aims, trial.changes_pct, strict=True)
                },
            }
            for trial in shown
        ],
    )
    for trial in result.front:
        click.echo()
        print_title(f"{values_text(trial)}: in the search, and confirmed")
        _print_confirmed(result, trial)


def _print_confirmed(result: TuneResult, trial: Trial) -> None:
    from schedlab.tune.table import confirmed  # noqa: PLC0415 - as above

    print_table(
        [
            Column("where", "", numeric=False),
            Column("workload", "workload", numeric=False),
            Column("figure", "figure", numeric=False),
            Column("n", "n"),
            Column("untuned", "untuned"),
            Column("tuned", "tuned"),
            Column("unit", "unit", numeric=False),
            Column("change", "change %"),
            Column("interval", f"{100 * (1 - result.plan.significance):g} % interval"),
            Column("verdict", "verdict", numeric=False),
        ],
        confirmed(result, trial),
    )
