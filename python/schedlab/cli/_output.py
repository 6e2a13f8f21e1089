"""How results reach people and programs: aligned tables, JSON, and progress on a terminal."""

from __future__ import annotations

import contextlib
import json
import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from schedlab.cli._errors import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

# Files that are read in the blink of an eye need no progress bar.
PROGRESS_FROM_BYTES = 64 << 20
# Wide enough for any table: a pipe has no edge to fold at.
PIPE_COLUMNS = 1000

limit_option = click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=40,
    show_default=True,
    metavar="ROWS",
    help="Print so many rows of a table at most; 0 for all. JSON is always whole.",
)


@dataclass(frozen=True)
class Column:
    """A column of a printed table."""

    key: str
    title: str
    show: Callable[[Any], str] = str
    numeric: bool = True
    # On a narrow terminal, columns with the largest number here go first; 0 stays.
    spare: int = 0
    most: int | None = None


def print_json(value: object) -> None:
    """Print ``value`` as JSON; numbers are written so that they read back to the same value."""
    click.echo(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))


def console() -> Console:
    """Make the console of standard output: its width and colours on a terminal, none in a pipe."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=PIPE_COLUMNS, color_system=None)


def print_title(text: str) -> None:
    """Print what the next table is about."""
    console().print(Text(text, style="bold"), soft_wrap=True)


def print_note(text: str) -> None:
    """Tell people something that is no result."""
    click.echo(escaped(text), err=True)


def print_table(
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    *,
    limit: int = 0,
    last: Mapping[str, Any] | None = None,
) -> None:
    """Print ``rows`` aligned, at most ``limit`` of them (0: all), and ``last`` below a line."""
    out = console()
    shown = rows[:limit] if limit else rows
    kept = list(columns)
    table = _table(kept, shown, last)
    while table.columns and _width(out, table) > out.width:
        spare = max(kept, key=lambda column: column.spare)
        if not spare.spare:
            break
        kept.remove(spare)
        table = _table(kept, shown, last)
    # A line that the terminal folds is better than a number that has lost its digits.
    out.width = max(out.width, _width(out, table))
    with out.capture() as printed:
        out.print(table)
    # A table pads its last column, which a pipe has no use for.
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))
    if not rows:
        click.echo(" (none)")
    dropped = [column.title for column in columns if column not in kept]
    if len(shown) < len(rows):
        click.echo(f" ... {len(rows) - len(shown)} more; --limit 0 shows all")
    if dropped:
        click.echo(
            f" (no room for {', '.join(dict.fromkeys(dropped))}; widen the terminal or use --json)"
        )


def _width(out: Console, table: Table) -> int:
    return out.measure(table, options=out.options.update_width(PIPE_COLUMNS)).maximum


def _table(
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    last: Mapping[str, Any] | None,
) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="bold", padding=(0, 0, 0, 1))
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.numeric else "left",
            no_wrap=True,
            overflow="ellipsis",
            max_width=column.most,
            min_width=None if column.most else len(column.title),
        )
    for index, row in enumerate(rows):
        table.add_row(
            *_cells(columns, row), end_section=last is not None and index + 1 == len(rows)
        )
    if last is not None:
        table.add_row(*_cells(columns, last))
    return table


def _cells(columns: Sequence[Column], row: Mapping[str, Any]) -> list[Text]:
    values = [(column, row.get(column.key)) for column in columns]
    # Task names come from the trace and may hold anything, markup and control codes included.
    return [
        Text("" if value is None else printable(column.show(value))) for column, value in values
    ]


def printable(text: str) -> str:
    """Replace what would move the cursor or change the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def print_wrapped(text: str, indent: int) -> None:
    """Print a sentence, folded on a terminal with its further lines indented."""
    width = console().width
    click.echo(textwrap.fill(printable(text), width, subsequent_indent=" " * indent))


def integer(value: float) -> str:
    """Write a whole number with thousands marked."""
    return f"{value:,.0f}"


def counted(number: int, noun: str) -> str:
    """Write how many there are of a noun.

    >>> counted(1, "event"), counted(2000, "event")
    ('1 event', '2,000 events')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def decimal(places: int, scale: float = 1.0) -> Callable[[float], str]:
    """Make a writer of numbers of ``scale`` with so many decimal places."""
    return lambda value: f"{value / scale:,.{places}f}"


def cpu_list(cpus: Iterable[int]) -> str:
    """Write CPUs as the kernel does: ``0-3,8``."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1][1:] = [cpu]
        else:
            runs.append([cpu])
    return ",".join("-".join(map(str, run)) for run in runs)


@contextlib.contextmanager
def progress(path: Path, doing: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show how far a large file is read, where someone watches."""
    if not sys.stderr.isatty() or not path.is_file() or path.stat().st_size < PROGRESS_FROM_BYTES:
        yield None
        return
    from rich import progress as bars  # noqa: PLC0415 - few reads are long

    shown = bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.DownloadColumn(),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with shown:
        task = shown.add_task(doing, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)
