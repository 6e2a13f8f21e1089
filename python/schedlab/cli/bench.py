"""``schedlab bench``: other tools' output parsed, and benchmarks run on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlab._files import naming
from schedlab.cli import cpupri
from schedlab.cli._errors import Refusal
from schedlab.cli._files import OUT_FILE
from schedlab.cli._given import given
from schedlab.cli._numbers import ITERATIONS_MAX
from schedlab.cli._output import Column, counted, print_json, print_note, print_table, print_title
from schedlab.cli.study import running

if TYPE_CHECKING:
    from schedlab.bench.results import Problems
    from schedlab.bench.run.plan import Plan

# Lines that were not understood, as many as tell what is wrong.
SHOWN = 10


@click.group
def command() -> None:
    """Benchmarks on real machines: parse what other tools print, or run them here."""


command.add_command(cpupri.command, "cpupri")


@command.command
@click.argument("tool", required=False)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--label", help="What was measured: a kernel, a setting.")
@click.option(
    "--out",
    type=OUT_FILE,
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
        if tool is not None or (wrong := given("--label", "--out")):
            what = "TOOL" if tool is not None else wrong[0]
            raise click.UsageError(f"--list lists the tools and reads none; leave {what} out.")
        tools = [{"name": name, "what": what} for name, (_, what) in TOOLS.items()]
        if as_json:
            print_json(tools)
            return
        print_table(
            [Column("name", "tool", numeric=False), Column("what", "reads", numeric=False)], tools
        )
        return
    if as_json and out is not None:
        raise click.UsageError("--out writes CSV, and --json prints JSON; give one of them.")
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
        with naming(out), out.open("w", encoding="utf-8", newline="") as file:
            count = write_csv(rows, file)
    else:
        count = write_csv(rows, sys.stdout)
    _tell(problems)
    if not count:
        raise Refusal(f"{files[0]}: no result of {tool} in it")


def _tell(problems: Problems) -> None:
    from schedlab.comparison.model import shortened  # noqa: PLC0415 - as above

    for each in problems.first[:SHOWN]:
        print_note(f"{each['file']}:{each['line']}: not understood: {shortened(each['text'])}")
    if problems.count > SHOWN:
        print_note(f"... {problems.count - SHOWN} more lines were not understood")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_plans(*, as_json: bool) -> None:
    """List the built-in plans."""
    from schedlab.bench.run.plan import load, names  # noqa: PLC0415 - as above
    from schedlab.bench.run.tools import missing  # noqa: PLC0415 - as above

    rows = []
    for name in names():
        plan = load(name)
        programs = dict.fromkeys(each.command[0] for each in plan.benchmarks)
        lacks = [text for program in programs if (text := missing(program))]
        rows.append({"name": name, "title": plan.title, "missing": "; ".join(lacks)})
    if as_json:
        print_json(rows)
        return
    print_table(
        [
            Column("name", "plan", numeric=False),
            Column("title", "what", numeric=False),
            Column("missing", "missing here", numeric=False),
        ],
        rows,
    )


@command.command
@click.argument("name", metavar="NAME")
def show(*, name: str) -> None:
    """Print a built-in plan, to copy and edit."""
    from schedlab.bench.run.plan import load, names, text_of  # noqa: PLC0415 - as above

    if name not in names():
        load(name)
        raise click.UsageError(f"{name} is a file already; print it as it is.")
    click.echo(text_of(name), nl=False)


@command.command
@click.argument("plan_name", metavar="PLAN")
@click.option("--label", help="What this boot is, where a variant takes a reboot.")
@click.option("--iterations", type=click.IntRange(1, ITERATIONS_MAX), help="Instead of the plan's.")
@click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep results here; in the folder PLAN-results by default.",
)
@click.option("--dry-run", is_flag=True, help="Check, and print what would run in which order.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run(
    *,
    plan_name: str,
    label: str | None,
    iterations: int | None,
    store: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run the benchmarks of PLAN, a built-in plan or a file, its variants in turns.

    Each iteration is stored as soon as it is done: whatever interrupts a run, the same command goes
    on where it stopped. Settings that variants change are put back at the end, on error, on Ctrl-C
    and SIGTERM, and after a kill -9 at the next start (or by bench restore).
    """
    from dataclasses import replace  # noqa: PLC0415 - as above

    from schedlab.bench.run.plan import load  # noqa: PLC0415 - as above
    from schedlab.bench.run.session import carry_out_plan  # noqa: PLC0415 - as above

    plan = load(plan_name)
    if iterations is not None:
        plan = replace(plan, iterations=iterations)
    if dry_run:
        _print_order(plan, label, as_json=as_json)
        return
    folder = store or Path(f"{plan.name}-results")
    with running("running") as told:
        done = carry_out_plan(plan, folder, label=label, progress=told, tell=print_note)
    if as_json:
        print_json(
            {
                "store": str(folder),
                "runs": done.runs,
                "stored": done.stored,
                "retried": done.retried,
                "restored": list(done.restored),
            }
        )
        return
    known = f", {done.stored} were there already" if done.stored else ""
    click.echo(f"{counted(done.runs, 'run')} stored{known}; next: schedlab compare {folder}")


def _print_order(plan: Plan, label: str | None, *, as_json: bool) -> None:
    from schedlab.bench.run.session import check, schedule  # noqa: PLC0415 - as above

    check(plan)
    rows = [
        {
            "iteration": run.iteration,
            "benchmark": run.benchmark.name,
            "kernel": run.label,
            "command": " ".join([*run.variant.prefix, *run.benchmark.command]),
            "set": ", ".join(f"{name} = {value}" for name, value in run.variant.set.items()),
        }
        for run in schedule(plan, label)
    ]
    if as_json:
        print_json(rows)
        return
    print_title(f"{plan.name}: {len(rows)} runs")
    print_table(
        [
            Column("iteration", "iteration"),
            Column("benchmark", "benchmark", numeric=False),
            Column("kernel", "variant", numeric=False),
            Column("set", "set", numeric=False, spare=1),
            Column("command", "command", numeric=False, spare=2),
        ],
        rows,
    )


@command.command
def restore() -> None:
    """Put back the settings that a killed run left changed."""
    from schedlab.bench.run.journal import locked, state_folder  # noqa: PLC0415 - as above

    with locked(state_folder()) as journal:
        for text in journal.restored:
            click.echo(f"put back {text}")
        if not journal.restored:
            click.echo("nothing to put back")
