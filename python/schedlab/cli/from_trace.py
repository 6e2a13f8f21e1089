"""``schedlab workload from-trace``: a trace's tasks as a workload file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab._files import write_text
from schedlab.cli._files import OUT_FILE
from schedlab.cli._given import check_tasks
from schedlab.cli._output import (
    Column,
    decimal,
    integer,
    print_json,
    print_note,
    print_table,
    print_title,
)
from schedlab.cli._traced import given_of, options, traced_kernel, traced_machine
from schedlab.kernel import Kernel
from schedlab.replay import TracedTasks, task_figures
from schedlab.trace import read_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.agreement import Figures

# How far times of one loop may be from those of its first round.
TOLERANCE_PCT = 100


@click.command("from-trace")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=OUT_FILE,
    metavar="FILE.toml",
    help="Write the tasks as a workload file.",
)
@click.option(
    "--rt-app",
    type=OUT_FILE,
    metavar="FILE.json",
    help="Write them as rt-app JSON.",
)
@options
@click.option(
    "--kernel",
    metavar="NAME|FILE",
    help="Simulate the file under this kernel for the comparison; by default that of the trace.",
)
@click.option(
    "--tolerance",
    "tolerance_pct",
    type=click.IntRange(min=0, max=1000),
    default=TOLERANCE_PCT,
    show_default=True,
    metavar="PERCENT",
    help="How far times may be from those of a loop's first round and still be its rounds.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def from_trace(
    *,
    file: Path,
    out: Path | None,
    rt_app: Path | None,
    machine_name: str | None,
    policies: Sequence[str],
    affinities: Sequence[str],
    hz: int | None,
    kernel: str | None,
    tolerance_pct: int,
    as_json: bool,
) -> None:
    """Write the tasks of a trace as a workload, and show how well it fits.

    What a task repeats becomes a loop; the rest stays as it was recorded. The table compares the
    trace with a run of the workload on the traced machine.
    """
    if out is not None and out.suffix == ".json":
        raise click.UsageError(f"{out}: --out writes TOML; use --rt-app for JSON.")
    if rt_app is not None and rt_app.suffix != ".json":
        raise click.UsageError(f"{rt_app}: rt-app files end in .json.")
    under = Kernel.load(kernel or traced_kernel(file, "--kernel"))
    machine = traced_machine(file, machine_name)
    given = given_of(policies, affinities)
    tasks = TracedTasks(file, machine, hz=hz, given=given)
    check_tasks(file, given, tasks.tasks["comm"])
    folded = tasks.folded(tolerance_pct)
    if out is not None:
        write_text(out, folded.to_toml())
    if rt_app is not None:
        write_text(rt_app, tasks.to_rt_app(tolerance_pct))
    run = folded.simulate(under)
    rows = fit(task_figures(read_trace(file)), run.figures(), folded)
    written = [str(path) for path in (out, rt_app) if path is not None]
    if as_json:
        print_json(
            {
                "file": str(file),
                "machine_guessed": machine_name is None,
                "written": written,
                "tasks": rows,
            }
        )
        return
    _print(file, rows, run.kernel, run.machine)
    for path in written:
        click.echo(f" written: {path}")
    if not written:
        print_note("nothing written; --out FILE.toml or --rt-app FILE.json writes it")


def fit(traced: dict[int, Figures], run: dict[int, Figures], tasks: TracedTasks) -> list[Figures]:
    """Give a row per task: its figures in the trace and in a run of the workload."""
    rows = []
    steps = dict(zip(tasks.tasks["pid"], tasks.tasks["steps"], strict=True))
    for pid, count in steps.items():
        if pid not in traced:
            continue
        after = run.get(pid, {})
        row: Figures = {"pid": pid, "comm": traced[pid]["comm"], "steps": count}
        for name in ("run_ns", "wakeups", "period_ms", "p50_us", "p99_us"):
            row[name], row[f"again_{name}"] = traced[pid][name], after.get(name)
        rows.append(row)
    return sorted(rows, key=lambda row: -row["run_ns"])


def _print(file: Path, rows: list[dict[str, Any]], kernel: str, machine: str) -> None:
    print_title(f"{file.name}: the workload under {kernel} on {machine} against the trace")
    us = decimal(1)
    print_table(
        [
            Column("comm", "comm", numeric=False, most=16),
            Column("pid", "pid"),
            Column("steps", "steps", integer),
            Column("run_ns", "run ms", decimal(3, 1e6)),
            Column("again_run_ns", "again", decimal(3, 1e6)),
            Column("wakeups", "wakeups", integer),
            Column("again_wakeups", "again", integer),
            Column("period_ms", "period ms", decimal(3)),
            Column("again_period_ms", "again", decimal(3)),
            Column("p50_us", "p50 us", us),
            Column("again_p50_us", "again", us),
            Column("p99_us", "p99 us", us, spare=1),
            Column("again_p99_us", "again", us, spare=1),
        ],
        rows,
    )
