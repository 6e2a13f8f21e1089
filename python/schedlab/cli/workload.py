"""``schedlab workload``: list and show workloads."""

from __future__ import annotations

import json
from typing import Any

import click

from schedlab.cli._given import given
from schedlab.cli._output import (
    Column,
    integer,
    print_json,
    print_table,
    print_title,
    print_wrapped,
)
from schedlab.cli.from_trace import from_trace
from schedlab.machine import Machine
from schedlab.workload import Workload


@click.group
def command() -> None:
    """Workloads: models of benchmarks, rt-app files, or files of your own."""


command.add_command(from_trace)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_workloads(*, as_json: bool) -> None:
    """List the built-in workloads; tasks are those on a machine with 8 CPUs."""
    workloads = [Workload.load(name) for name in Workload.names()]
    rows = [
        {"name": w.name, "tasks": w.task_count, "follows": w.follows, "figures": w.figures}
        for w in workloads
    ]
    if as_json:
        print_json(rows)
        return
    print_table(
        [
            Column("name", "workload", numeric=False),
            Column("tasks", "tasks", integer),
            Column("follows", "follows", numeric=False),
        ],
        rows,
    )


@command.command
@click.argument("name_or_file", metavar="NAME|FILE")
@click.option("--machine", help="Defaults follow this machine, and it must be able to run it all.")
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=16,
    show_default=True,
    help="Lines per program; 0 for all.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--toml", "as_toml", is_flag=True, help="Print the built-in file, to copy and edit.")
def show(
    *, name_or_file: str, machine: str | None, limit: int, as_json: bool, as_toml: bool
) -> None:
    """Show what a workload's tasks do, and the parameters of its model.

    NAME|FILE is a built-in workload, a TOML file, or rt-app JSON.
    """
    if as_json and as_toml:
        raise click.UsageError("--json and --toml are two shapes of one workload; give one.")
    if as_toml and (wrong := given("--machine", "--limit")):
        raise click.UsageError(
            f"{wrong[0]} changes nothing of the file that --toml prints; give one."
        )
    workload = Workload.load(name_or_file, None if machine is None else Machine.load(machine))
    if as_json:
        print_json(workload.to_dict())
        return
    if as_toml:
        text = Workload.preset_toml(name_or_file)
        if text is None:
            raise click.UsageError(f"{name_or_file} is a file already; print it as it is.")
        click.echo(text, nl=False)
        return
    _print(workload.to_dict(), workload.task_count, limit)


def _print(data: dict[str, Any], tasks: int | None, limit: int) -> None:
    count = "some" if tasks is None else integer(tasks)
    print_title(f"{data['name']}: {count} tasks, after {data['follows']}")
    if data["parameters"]:
        click.echo()
        _print_parameters(data["parameters"])
    for program, alike in _folded(data["programs"]):
        click.echo()
        _print_program(program, alike, limit)
    click.echo()
    figures = [f"{figure['name']} ({figure['unit']})" for figure in data["figures"]]
    print_wrapped("Figures: " + (", ".join(figures) or "none"), 2)


def _print_parameters(parameters: list[dict[str, Any]]) -> None:
    rows = [
        {
            **row,
            "value": _quantity(row["value"], row["unit"]),
            "default": _quantity(row["default"], row["unit"]),
            "changed": "" if row["value"] == row["default"] else "*",
        }
        for row in parameters
    ]
    print_table(
        [
            Column("name", "parameter", numeric=False),
            Column("changed", "", numeric=False),
            Column("value", "value", numeric=False),
            Column("default", "default", numeric=False),
            Column("source", "option, or source", numeric=False, spare=1),
        ],
        rows,
    )


def _quantity(value: object, unit: str) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value)
    return f"{text} {unit}".rstrip()


def _folded(programs: list[dict[str, Any]]) -> list[tuple[dict[str, Any], int]]:
    """Give programs that differ in nothing but which objects they use once, with their number."""
    seen: dict[str, tuple[dict[str, Any], int]] = {}
    for program in programs:
        shape = [(step["depth"], step["op"]) for step in program["steps"]]
        rest = {key: value for key, value in program.items() if key != "steps"}
        key = json.dumps([rest, shape])
        first, alike = seen.get(key, (program, 0))
        seen[key] = (first, alike + 1)
    return list(seen.values())


def _print_program(program: dict[str, Any], alike: int, limit: int) -> None:
    tasks = program["tasks"]
    words = ["tasks: as many as are created" if tasks is None else f"{integer(tasks)} tasks"]
    if tasks == 1:
        words = ["1 task"]
    if alike > 1:
        words.append(f"and {alike - 1} programs alike")
    if program["policy"] != "SCHED_OTHER":
        priority = program["priority"]
        words.append(program["policy"] + (f" {priority}" if priority else ""))
    if program["nice"]:
        words.append(f"nice {program['nice']}")
    if program["slice_ns"] is not None:
        words.append(f"slice {program['slice_ns'] / 1e6:g} ms")
    if program["cpus"] is not None:
        words.append(f"CPUs {program['cpus']}")
    print_title(f"{program['comm']}: {', '.join(words)}")
    steps = program["steps"]
    shown = steps[:limit] if limit else steps
    width = max([2 * step["depth"] + len(step["op"]) for step in shown], default=0)
    for step in shown:
        op = "  " * step["depth"] + step["op"]
        print_wrapped(f" {op.ljust(width)}  {step['what']}".rstrip(), width + 3)
    if len(shown) < len(steps):
        click.echo(f" ... {len(steps) - len(shown)} more; --limit 0 shows all")
