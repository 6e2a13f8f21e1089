"""``schedlab study``: published comparisons, simulated anew."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab._files import write_text
from schedlab.cli._errors import Refusal
from schedlab.cli._files import OUT_FILE
from schedlab.cli._given import given
from schedlab.cli._numbers import JOBS
from schedlab.cli._output import (
    Column,
    counted,
    print_json,
    print_note,
    print_table,
    print_title,
    print_wrapped,
)
from schedlab.cli.study_calibrate import command as calibrate_command
from schedlab.study import words
from schedlab.study.table import result_dict, row_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from schedlab.study import Control, Study, StudyResult


@click.group
def command() -> None:
    """Studies: a published comparison of kernels, simulated anew and held against its figures."""


command.add_command(calibrate_command)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_studies(*, as_json: bool) -> None:
    """List the built-in studies."""
    from schedlab.study import load, names  # noqa: PLC0415 - `--help` needs none

    rows = [{"name": name, "title": load(name).title} for name in names()]
    if as_json:
        print_json(rows)
        return
    print_table(
        [Column("name", "study", numeric=False), Column("title", "what", numeric=False)], rows
    )


@command.command
@click.argument("name_or_file", metavar="NAME|FILE")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--toml", "as_toml", is_flag=True, help="Print the study's file, to copy and edit.")
def show(*, name_or_file: str, as_json: bool, as_toml: bool) -> None:
    """Show what a study compares, under which parameters, and where those come from."""
    from schedlab.study import load  # noqa: PLC0415 - as above
    from schedlab.study.load import names, text_of  # noqa: PLC0415

    if as_json and as_toml:
        raise click.UsageError("--json and --toml are two shapes of one study; give one.")
    study = load(name_or_file)
    if as_toml:
        if name_or_file not in names():
            raise click.UsageError(f"{name_or_file} is a file already; print it as it is.")
        click.echo(text_of(name_or_file), nl=False)
    elif as_json:
        print_json(_study_dict(study))
    else:
        _print_study(study)


@command.command
@click.argument("name_or_file", metavar="NAME|FILE")
@click.option("--small", is_flag=True, help="Take few iterations and short workloads.")
@click.option("--jobs", type=JOBS, help="Simulate in so many processes; one per CPU by default.")
@click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep runs in runs/ of this folder; $SCHEDLAB_STORE or schedlab in the user's cache by "
    "default.",
)
@click.option(
    "--control", is_flag=True, help="Turn each of the study's knobs, which must make it fail."
)
@click.option("--explain", is_flag=True, help="Show the placements that the study explains.")
@click.option("--check", is_flag=True, help="Exit with 1 if a row misses.")
@click.option(
    "--report",
    type=OUT_FILE,
    help="Write the table as an HTML page, too.",
)
@click.option(
    "--plots",
    type=click.Path(path_type=Path, file_okay=False),
    help="Draw the study's plots into this folder, as SVG files.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def run(
    context: click.Context,
    *,
    name_or_file: str,
    small: bool,
    jobs: int | None,
    store: Path | None,
    control: bool,
    explain: bool,
    check: bool,
    report: Path | None,
    plots: Path | None,
    as_json: bool,
) -> None:
    """Run a study, and print its table beside what was published.

    Runs that the store has already are not simulated again, so a study that was interrupted goes
    on where it stopped. A row that misses what was published is shown as a miss and does not fail
    the command: exit code 0 says that the study ran. With --check a miss is exit code 1.

    With --control the table is one of knobs instead, and a knob that the study does not notice is
    exit code 1.
    """
    from schedlab.study import load, run_study  # noqa: PLC0415 - as above

    if control:
        for option in given("--explain", "--check", "--report", "--plots"):
            raise click.UsageError(
                f"{option} is of the study as it stands, --control of it with a knob turned; "
                "give one."
            )
    study = load(name_or_file)
    if control:
        _run_controls(context, study, small=small, jobs=jobs, store=store, as_json=as_json)
        return
    with running() as told:
        result = run_study(study, small=small, jobs=jobs, store=store, progress=told)
    if report is not None:
        from schedlab.report.study_page import write  # noqa: PLC0415 - as above

        write(result, report)
    if plots is not None:
        _write_plots(result, plots)
    if as_json:
        print_json(result_dict(result))
    else:
        print_result(result, explain=explain)
    if check and result.misses:
        context.exit(1)


def _write_plots(result: StudyResult, folder: Path) -> None:
    from schedlab.report import plots, uses  # noqa: PLC0415 - as above

    study = result.study
    if not study.plots and not study.uses:
        raise Refusal(f"{study.name} has no [[plot]]; add one, or leave --plots out")
    drawn = [
        *(plots.alone(result, plot) for plot in study.plots),
        *(plots.in_colours(uses.drawing(study, use, small=result.small)) for use in study.uses),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for number, svg in enumerate(drawn, 1):
        write_text(folder / f"{study.name}-{number}.svg", svg)


def _run_controls(
    context: click.Context,
    study: Study,
    *,
    small: bool,
    jobs: int | None,
    store: Path | None,
    as_json: bool,
) -> None:
    from schedlab.study import run_control  # noqa: PLC0415 - as above

    if not study.controls:
        raise Refusal(f"{study.name} has no [[control]]; add a knob that must make it fail")
    found = []
    for control in study.controls:
        with running() as told:
            result, noticed = run_control(
                study, control, small=small, jobs=jobs, store=store, progress=told
            )
        found.append((control, result, noticed))
    if as_json:
        print_json([_control_dict(*each) for each in found])
    else:
        _print_controls(study, found)
    if not all(noticed for _, _, noticed in found):
        context.exit(1)


def _control_dict(control: Control, result: StudyResult, noticed: bool) -> dict[str, Any]:  # noqa: FBT001
    return {**asdict(control), "noticed": noticed, "rows": [row_dict(row) for row in result.rows]}


def _turned(value: object) -> str:
    """Write a knob's factor, or what it is turned to."""
    return f"{value:g}" if isinstance(value, float) else f"to {value}"


def _print_controls(study: Study, found: list[tuple[Control, StudyResult, bool]]) -> None:
    print_title(f"{study.name}: knobs that must make it fail")
    print_table(
        [
            Column("name", "control", numeric=False),
            Column("target", "knob", numeric=False),
            Column("factor", "times", _turned),
            Column("missed", "rows that fail", numeric=False),
            Column("noticed", "noticed", numeric=False),
        ],
        [
            {
                "name": control.name,
                "target": control.target,
                "factor": control.factor if control.value is None else control.value,
                "missed": "; ".join(
                    dict.fromkeys(f"{row.workload}: {row.metric}" for row in result.misses)
                ),
                "noticed": "yes" if noticed else "NO",
            }
            for control, result, noticed in found
        ],
    )


def print_result(result: StudyResult, *, explain: bool = False) -> None:
    """Print a study's table, simulated beside published, and its decision logs on request."""
    study = result.study
    size = "small size: " if result.small else ""
    count = counted(study.small_iterations if result.small else study.iterations, "iteration")
    means = ", geometric means" if study.mean == "geometric" else ""
    print_title(f"{study.name} on {', '.join(study.machines)}, {size}{count}{means}")
    rows = [words.cells(row, several=len(study.machines) > 1) for row in result.rows]
    print_table(
        [
            Column("what", "figure", numeric=False),
            Column("kernel", "kernel", numeric=False),
            Column("simulated", "simulated"),
            Column("interval", f"{100 * (1 - study.significance):g} % interval", spare=2),
            Column("spread", "spread %", spare=4),
            Column("published", "published"),
            Column("published_spread", "spread %", spare=3),
            Column("unit", "unit", numeric=False),
            Column("claim", "must hold", numeric=False, spare=1),
            Column("p", "p", spare=2),
            Column("verdict", "verdict", numeric=False, spare=2),
            Column("ok", "", numeric=False),
        ],
        rows,
    )
    held = sum(row.ok is True for row in result.rows)
    misses = len(result.misses)
    click.echo(f"{held} of {held + misses} claims hold" + (f", {misses} miss" if misses else ""))
    for note in study.notes:
        print_wrapped(f"- {note}", indent=2)
    if explain:
        for each in result.explanations:
            click.echo()
            print_title(f"{each.workload}, {each.title}: {each.kernel}")
            click.echo(each.text)
    print_note(
        f"{counted(result.simulated_runs, 'run')} simulated, "
        f"{result.stored_runs} taken from the store"
    )


# Lines that errors name are nothing of what the study is.
PLACES = {"place", "options_place", "machines_place"}


def _study_dict(study: Study) -> dict[str, Any]:
    published = study.published
    body: dict[str, Any] = asdict(
        study, dict_factory=lambda pairs: {k: v for k, v in pairs if k not in PLACES}
    )
    return {
        **body,
        "published": published
        and {
            "file": published.file,
            "origin": published.origin,
            "figures": [
                {"benchmark": benchmark, "kernel": kernel, "values": list(values)}
                for (benchmark, kernel), values in published.values.items()
            ],
        },
    }


def _print_study(study: Study) -> None:
    print_title(f"{study.name}: {study.title}")
    for text in (study.description, f"Published: {study.source}"):
        if text.strip():
            print_wrapped(text.strip(), indent=0)
    click.echo(f"Machines: {', '.join(study.machines)}; {counted(study.iterations, 'iteration')}\n")
    print_table(
        [
            Column("name", "kernel", numeric=False),
            Column("kernel", "is", numeric=False),
            Column("settings", "with", numeric=False),
        ],
        [
            {
                "name": kernel.name,
                "kernel": kernel.kernel,
                "settings": ", ".join(f"{key} = {value}" for key, value in kernel.settings.items()),
            }
            for kernel in study.kernels
        ],
    )
    click.echo()
    print_table(
        [
            Column("workload", "workload", numeric=False),
            Column("name", "figure", numeric=False),
            Column("unit", "unit", numeric=False),
            Column("claims", "must hold", numeric=False),
        ],
        [{**asdict(metric), "claims": _claims(metric)} for metric in study.metrics],
    )
    if study.parameters:
        click.echo()
        print_table(
            [
                Column("target", "parameter", numeric=False),
                Column("value", "value"),
                Column("kind", "kind", numeric=False),
                Column("source", "source", numeric=False, spare=1),
            ],
            [asdict(parameter) for parameter in study.parameters],
        )


def _claims(metric: Any) -> str:
    claims = [f"{kernel}: exactly {value:g}" for kernel, value in metric.exactly.items()]
    if metric.within_pct is not None:
        claims.append(f"within {metric.within_pct:g} % of the published mean")
    if metric.within_points is not None:
        claims.append(f"within {metric.within_points:g} {metric.unit} of the published mean")
    if metric.order:
        claims.append("kernels in the published order")
    if metric.change == "equal":
        claims.append(f"change within {metric.margin_pct:g} %")
    elif metric.change == "near":
        what = "the published one" if metric.near_pct is None else f"{metric.near_pct:+g} %"
        claims.append(f"change within {metric.margin_pct:g} points of {what}")
    elif metric.change == "direction":
        claims.append("change in the published direction")
    elif metric.change == "shown":
        claims.append("the change is shown")
    elif metric.change == "fitted":
        claims.append("none: fitted to the published change")
    elif metric.change is not None:
        claims.append(f"change {metric.change}")
    return "; ".join(claims)


@contextlib.contextmanager
def running(doing: str = "simulating") -> Iterator[Callable[[int, int], None] | None]:
    """Show how many runs are done, where someone watches; to be told of them."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars  # noqa: PLC0415 - only where someone watches
    from rich.console import Console  # noqa: PLC0415

    shown = bars.Progress(
        bars.TextColumn(doing),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with shown:
        task = shown.add_task("", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)
