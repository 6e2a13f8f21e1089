"""``schedlab report``: one page that shows a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlab.cli._errors import Refusal
from schedlab.cli._files import OUT_FILE
from schedlab.cli._output import print_json, progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.machine import Machine

PAGE = Path("schedlab-report.html")

# Smaller files are read once and kept; a page asks a trace several questions.
KEPT_BYTES = 128 << 20


@click.command
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=OUT_FILE,
    default=PAGE,
    show_default=True,
    help="Write the page here.",
)
@click.option(
    "--machine",
    "machine_name",
    metavar="NAME|FILE",
    help="The machine that the trace was taken on, for its idle states.",
)
@click.option(
    "--governor",
    "governors",
    multiple=True,
    metavar="NAME",
    help="Only this idle governor (repeatable); all by default.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the page's figures as JSON.")
def command(
    *,
    file: Path,
    output: Path,
    machine_name: str | None,
    governors: Sequence[str],
    as_json: bool,
) -> None:
    """Write an HTML page with a trace's timeline, latencies, idle periods and data quality.

    The page is one file that works offline. The machine names the idle states, judges the sleeps,
    and lets other idle governors choose anew; without --machine, it is guessed where just one fits.
    """
    from schedlab._schedlab import GovernorError  # noqa: PLC0415 - `--help` needs none of these
    from schedlab.machine import Machine  # noqa: PLC0415
    from schedlab.report import figures_of, write  # noqa: PLC0415
    from schedlab.trace import Trace  # noqa: PLC0415

    machine = _guessed(file) if machine_name is None else Machine.load(machine_name)
    if governors and machine is None:
        raise click.UsageError("--governor needs --machine: governors choose among its idle states")
    keep = file.is_file() and file.stat().st_size <= KEPT_BYTES
    with progress(file, "reading") as told:
        trace = Trace(file, keep_events=keep, progress=told)
        try:
            report = write(trace, output, machine, governors, guessed=machine_name is None)
        except GovernorError:
            raise
        except ValueError as error:
            # A machine that the trace does not fit.
            raise Refusal(f"{file}: {error}") from None
    if as_json:
        print_json(figures_of(report))
    else:
        print_written(output)


def _guessed(file: Path) -> Machine | None:
    """Guess the machine; the generic one fits too much to judge by."""
    from schedlab.idle import guess_machine  # noqa: PLC0415 - as above

    machine = guess_machine(file)
    return None if machine is None or machine.name == "generic" else machine


def print_written(page: Path) -> None:
    """Say where the page is."""
    click.echo(f"{page}: {page.stat().st_size / 1e6:.1f} MB, open it in a browser")
