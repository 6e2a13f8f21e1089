"""``schedlab bench``: other tools' output parsed, and benchmarks run on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlab.cli._errors import Refusal
from schedlab.cli._output import Column, print_json, print_note, print_table

if TYPE_CHECKING:
    from schedlab.bench.results import Problems

# Lines that were not understood, as many as tell what is wrong.
SHOWN = 10


@click.group
def command() -> None:
    """Benchmarks on real machines: parse what other tools print, or run them here."""


@command.command
@click.argument("tool", required=False)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--label", help="What was measured: a kernel, a setting.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write here instead of to standard output.",
)
@click.option("--list", "as_list", is_flag=True, help="List the tools that can be read.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, unread lines included.")
def parse(
    *,
    tool: str | None,
    files: tuple[Path, ...],
    label: str | None,
    out: Path | None,
    as_list: bool,
    as_json: bool,
) -> None:
    """Turn the output of TOOL into CSV that compare reads.

    Each further run in the files is a further iteration. Lines that are not understood are told of
    on standard error, with their numbers; a file without any result is refused.
    """
    from schedlab.bench.parse import TOOLS  # noqa: PLC0415 - `--help` needs none

    if as_list:
        print_table(
            [Column("name", "tool", numeric=False), Column("what", "reads", numeric=False)],
            [{"name": name, "what": what} for name, (_, what) in TOOLS.items()],
        )
        return
    if tool is None or not files:
        raise click.UsageError("name a tool and its output, as in: bench parse hackbench out.txt")
    from schedlab.bench.results import Problems, parse_files, write_csv  # noqa: PLC0415 - as above

    problems = Problems()
    rows = parse_files(tool, files, label, problems)
    if as_json:
        found = list(rows)
        print_json({"rows": found, "unread": problems.first, "unread_lines": problems.count})
        count = len(found)
    elif out is not None:
        with out.open("w", encoding="utf-8", newline="") as file:
            count = write_csv(rows, file)
    else:
        count = write_csv(rows, sys.stdout)
    _tell(problems)
    if not count:
        raise Refusal(f"{files[0]}: no result of {tool} in it")


def _tell(problems: Problems) -> None:
    for each in problems.first[:SHOWN]:
        print_note(f"{each['file']}:{each['line']}: not understood: {each['text']}")
    if problems.count > SHOWN:
        print_note(f"... {problems.count - SHOWN} more lines were not understood")
