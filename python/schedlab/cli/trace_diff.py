"""``schedlab trace diff``: two traces of one workload."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli._output import (
    Column,
    decimal,
    integer,
    limit_option,
    print_json,
    print_table,
    print_title,
)
from schedlab.diff import diff_traces
from schedlab.trace import read_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.diff import Decision, TaskDiff, TraceDiff

FIGURES = ("run_ns", "wakeups", "p50_us", "p99_us", "migrations")


@click.command
@click.argument("one", type=click.Path(path_type=Path), metavar="A")
@click.argument("other", type=click.Path(path_type=Path), metavar="B")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@limit_option
def diff(*, one: Path, other: Path, as_json: bool, limit: int) -> None:
    """Compare two traces of one workload: where decisions first part, and how figures differ.

    Tasks are the same that have the same name and the same place among the births of that name.
    """
    found = diff_traces(read_trace(one), read_trace(other))
    if as_json:
        print_json(_as_dict(found))
        return
    print_title(f"A: {one.name}, B: {other.name}: {integer(len(found.tasks))} tasks in both")
    for letter, names in zip("AB", found.only, strict=True):
        if names:
            click.echo(f" only in {letter}: {_counted(names)}")
    if not found.tasks:
        click.echo(" Nothing can be compared: tasks are told by their names.")
        return
    _print_first(found)
    click.echo()
    _print_decisions(found, limit)
    click.echo()
    _print_figures(found, limit)


def _counted(names: Sequence[str]) -> str:
    """Write names in their order, each once.

    >>> _counted(["cat", "sh", "cat"])
    '2 x cat, sh'
    """
    return ", ".join(
        name if count == 1 else f"{count} x {name}" for name, count in Counter(names).items()
    )


def _print_first(found: TraceDiff) -> None:
    first = found.first()
    if first is None:
        click.echo(" No decision differs.")
        return
    click.echo(
        f" Decisions first part about {_name(first)}, decision {first.alike + 1}: "
        f"{_words(first, found, 0)}; {_words(first, found, 1)}."
    )


def _words(task: TaskDiff, found: TraceDiff, side: int) -> str:
    decision = task.parting[side] if task.parting else None
    letter = "AB"[side]
    if decision is None:
        return f"{letter} has none"
    seconds = (decision.time_ns - found.begin_ns[side]) / 1e9
    return f"in {letter} a {decision.what} to CPU {decision.cpu} at {seconds:.6f} s"


def _name(task: TaskDiff) -> str:
    return task.comm if task.nth == 1 else f"{task.comm} ({task.nth})"


def _print_decisions(found: TraceDiff, limit: int) -> None:
    print_title("Decisions: where tasks were put when they were born, woke, or could run")
    rows = []
    for task in found.tasks:
        row: dict[str, Any] = {"task": _name(task), "alike": task.alike}
        row["a"], row["b"] = task.decisions
        for side, decision in enumerate(task.parting or (None, None)):
            letter = "ab"[side]
            if decision is not None:
                row[f"{letter}_at"] = (decision.time_ns - found.begin_ns[side]) / 1e9
                row[f"{letter}_what"] = f"{decision.what}, CPU {decision.cpu}"
            elif task.parting:
                row[f"{letter}_what"] = "none"
        rows.append(row)
    seconds = decimal(6)
    print_table(
        [
            Column("task", "task", numeric=False, most=20),
            Column("a", "A", integer),
            Column("b", "B", integer),
            Column("alike", "alike", integer),
            Column("a_at", "A parts at s", seconds),
            Column("a_what", "by", numeric=False),
            Column("b_at", "B at s", seconds),
            Column("b_what", "by", numeric=False),
        ],
        rows,
        limit=limit,
    )


def _print_figures(found: TraceDiff, limit: int) -> None:
    print_title("Figures")
    rows = []
    for task in found.tasks:
        row: dict[str, Any] = {"task": _name(task)}
        for name in FIGURES:
            row[f"a_{name}"], row[f"b_{name}"] = task.figures[0][name], task.figures[1][name]
        rows.append(row)
    rows.sort(key=lambda row: -row["a_run_ns"])
    ms, us = decimal(3, 1e6), decimal(1)
    print_table(
        [
            Column("task", "task", numeric=False, most=20),
            Column("a_run_ns", "run ms A", ms),
            Column("b_run_ns", "B", ms),
            Column("a_wakeups", "wakeups A", integer),
            Column("b_wakeups", "B", integer),
            Column("a_p50_us", "p50 us A", us),
            Column("b_p50_us", "B", us),
            Column("a_p99_us", "p99 us A", us),
            Column("b_p99_us", "B", us),
            Column("a_migrations", "migrations A", integer, spare=1),
            Column("b_migrations", "B", integer, spare=1),
        ],
        rows,
        limit=limit,
    )


def _as_dict(found: TraceDiff) -> dict[str, Any]:
    def told(decision: Decision | None) -> dict[str, Any] | None:
        return None if decision is None else decision._asdict()

    tasks = [
        {
            "comm": task.comm,
            "nth": task.nth,
            "pids": list(task.pids),
            "decisions": list(task.decisions),
            "alike": task.alike,
            "parting": None if task.parting is None else list(map(told, task.parting)),
            "figures": [{name: side[name] for name in FIGURES} for side in task.figures],
        }
        for task in found.tasks
    ]
    first = found.first()
    return {
        "begin_ns": list(found.begin_ns),
        "only": list(found.only),
        "first": None if first is None else found.tasks.index(first),
        "tasks": tasks,
    }
