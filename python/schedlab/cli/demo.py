"""``schedlab demo``: what schedlab tells of a real trace and of a change, in half a minute."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from schedlab import samples
from schedlab.cli._files import OUT_FILE
from schedlab.cli._output import print_json, print_title, print_wrapped
from schedlab.cli.report import PAGE, print_written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from schedlab.report.model import Report
    from schedlab.study import StudyResult

ROWS = 12

VARIABLE = "TRACE"

STUDY = "idlest-group-util"


@click.command
@click.option(
    "-o",
    "--output",
    type=OUT_FILE,
    default=PAGE,
    show_default=True,
    help="Write the page here.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the page's figures as JSON.")
@click.pass_context
def command(context: click.Context, *, output: Path, as_json: bool) -> None:
    """Show a recorded trace, a study at a small size, and an HTML page with both.

    The trace comes with schedlab. Every step names the command that does the same with another.
    """
    with samples.idle_trace() as file:
        if as_json:
            _print_json(file, output)
        else:
            _show(context, file, output)


def _print_json(file: Path, output: Path) -> None:
    from schedlab.report import figures_of  # noqa: PLC0415 - `--help` needs none of these
    from schedlab.study import run_study  # noqa: PLC0415
    from schedlab.study.table import result_dict  # noqa: PLC0415

    study = run_study(STUDY, small=True)
    figures = figures_of(_write(file, output, study))
    print_json({"page": str(output), **figures, "studies": [result_dict(study)]})


def _write(file: Path, output: Path, study: StudyResult) -> Report:
    from schedlab.machine import Machine  # noqa: PLC0415 - as above
    from schedlab.report import write  # noqa: PLC0415
    from schedlab.trace import read_trace  # noqa: PLC0415

    return write(read_trace(file), output, Machine.load(samples.MACHINE), studies=[study])


def _study() -> StudyResult:
    from schedlab.cli.study import print_result, running  # noqa: PLC0415 - as above
    from schedlab.study import run_study  # noqa: PLC0415

    with running() as told:
        result = run_study(STUDY, small=True, progress=told)
    print_result(result)
    return result


def _show(context: click.Context, file: Path, output: Path) -> None:
    from schedlab.cli import idle, trace  # noqa: PLC0415 - as above

    machine = f"--machine {samples.MACHINE}"
    studies: list[StudyResult] = []
    steps: list[tuple[str, str, Callable[[], object]]] = [
        (
            "What the trace holds",
            "trace info {}",
            lambda: context.invoke(trace.info, file=file, limit=ROWS),
        ),
        (
            "How long woken tasks waited for a CPU",
            "trace latency {}",
            lambda: context.invoke(trace.latency, file=file, limit=ROWS),
        ),
        (
            "How long CPUs slept, and how often in the wrong state",
            f"trace idle {{}} {machine}",
            lambda: context.invoke(trace.idle, file=file, machine_name=samples.MACHINE, limit=ROWS),
        ),
        (
            "What other idle governors would have done",
            f"idle {{}} {machine}",
            lambda: context.invoke(idle.command, file=file, machine_name=samples.MACHINE),
        ),
        (
            "What a change of the scheduler does, simulated beside the published figures",
            f"study run {STUDY} --small",
            lambda: studies.append(_study()),
        ),
        (
            "All of it on one page, with a timeline",
            f"report {{}} {machine}",
            lambda: _write(file, output, studies[0]),
        ),
    ]
    print_wrapped(f"A trace that comes with schedlab: {samples.DESCRIPTION}.", indent=0)
    click.echo(f"$ {VARIABLE}={shlex.quote(str(file))}")
    for number, (what, how, run) in enumerate(steps, start=1):
        click.echo()
        print_title(f"[{number}/{len(steps)}] {what}")
        click.echo(f"$ schedlab {how.format(f'${VARIABLE}')}")
        click.echo()
        run()
    print_written(output)
