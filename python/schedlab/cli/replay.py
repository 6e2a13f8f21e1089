"""``schedlab replay``: a trace's tasks under other kernels."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.agreement import P99_MIN, WAKEUPS_MIN
from schedlab.cli._given import check_tasks
from schedlab.cli._output import (
    Column,
    decimal,
    integer,
    limit_option,
    print_json,
    print_note,
    print_table,
    print_title,
    progress,
)
from schedlab.cli._traced import given_of, options, traced_kernel, traced_machine
from schedlab.replay import SPREAD_SEEDS, replay_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.agreement import Agreement, Chance, Figures
    from schedlab.replay import Replay, Rerun, TracedTasks


@click.command
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="NAME|FILE",
    help="Run the tasks under this kernel (repeatable); none: only the check.",
)
@click.option(
    "--on",
    "machines",
    multiple=True,
    metavar="NAME|FILE",
    help="Run them on this machine, too (repeatable).",
)
@options
@click.option(
    "--traced-kernel",
    "kernel_name",
    metavar="NAME|FILE",
    help="The kernel under which the trace was taken; by default the built-in one of the trace's "
    "release.",
)
@click.option(
    "--governor",
    metavar="NAME",
    help="The traced kernel's idle governor, if not the one that the kernel's file names.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=0,
    show_default=True,
    help="Of all that is random.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=2, max=1000),
    default=SPREAD_SEEDS,
    show_default=True,
    help="Of a trace that does not come back, tell by so many replays what chance does.",
)
@click.option("--anyway", is_flag=True, help="Show other kernels even if the check fails.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@limit_option
def command(
    *,
    file: Path,
    kernels: Sequence[str],
    machines: Sequence[str],
    machine_name: str | None,
    policies: Sequence[str],
    affinities: Sequence[str],
    hz: int | None,
    kernel_name: str | None,
    governor: str | None,
    seed: int,
    seeds: int,
    anyway: bool,
    as_json: bool,
    limit: int,
) -> None:
    """Run a trace's tasks again under other kernels.

    Tasks, what they compute, their sleeps, and who wakes whom are taken from the trace. First they
    run under the traced kernel on the traced machine: only a trace that comes back is a basis for
    other kernels.
    """
    machine = traced_machine(file, machine_name)
    kernel = kernel_name or traced_kernel(file, "--traced-kernel")
    given = given_of(policies, affinities)
    with progress(file, "replaying") as told:
        replay = replay_trace(
            file,
            kernels,
            machine=machine,
            traced_kernel=kernel,
            machines=machines,
            governor=governor,
            hz=hz,
            given=given,
            seed=seed,
            seeds=seeds,
            progress=told,
        )
    check_tasks(file, given, replay.tasks.tasks["comm"])
    shown = replay.agreement.passed or anyway
    if as_json:
        answer = _as_dict(file, replay, shown=shown)
        print_json({**answer, "machine_guessed": machine_name is None})
        return
    print_tasks(file, replay.tasks, kernel)
    click.echo()
    _print_agreement(replay, limit)
    if not replay.what_if:
        return
    if not shown:
        print_note("what other kernels would do is not shown; --anyway shows it")
        return
    for run in replay.what_if:
        click.echo()
        _print_what_if(replay, run, limit)


def print_tasks(file: Path, tasks: TracedTasks, kernel: str | None = None) -> None:
    """Print what was taken out of a trace, and the calibrated costs."""
    facts = tasks.facts
    under = "" if kernel is None else f" under {kernel}"
    seconds = (facts["end_ns"] - facts["begin_ns"]) / 1e9
    print_title(
        f"{file.name}: {integer(tasks.tasks.height)} tasks in {seconds:.3f} s on "
        f"{tasks.machine.name}{under}"
    )
    click.echo(
        f" sleeps ended by the task's own timer {integer(facts['ended_by_timer'])}, a device "
        f"{integer(facts['ended_by_device'])}, another task {integer(facts['ended_by_task'])}, "
        f"from outside {integer(facts['ended_from_outside'])}"
    )
    click.echo(
        f" interrupts {integer(facts['interrupts'])} ({facts['interrupted_ns'] / 1e6:.3f} ms), "
        f"wake-ups held up {integer(facts['late'])} ({facts['late_ns'] / 1e6:.3f} ms)"
    )
    if facts["turns"]:
        click.echo(
            f" the instruction stream that its CPUs share changed hands {integer(facts['turns'])} "
            "times"
        )
    if not (facts["has_hrtimers"] and facts["has_interrupts"]):
        click.echo(_unseen(facts))
    click.echo()
    print_title("Costs of kernel paths, from the trace")
    costs = [
        {**row, "name": row["name"] if row["state"] is None else f"{row['name']} {row['state']}"}
        for row in tasks.costs.iter_rows(named=True)
    ]
    print_table(
        [
            Column("name", "cost", numeric=False),
            Column("value_ns", "ns", integer),
            Column("samples", "samples", lambda count: integer(count) if count else "none"),
            Column("rule", "median of the time", numeric=False, spare=1),
        ],
        costs,
    )


def _unseen(facts: Figures) -> str:
    """Tell what the trace lacks that tells causes of wake-ups, and how to record it."""
    lacking = {
        "timers": not facts["has_hrtimers"],
        "interrupts": not facts["has_interrupts"],
    }
    events = {
        "timers": "-e timer:hrtimer_start -e timer:hrtimer_expire_entry",
        "interrupts": "-e irq",
    }
    names = [name for name, lacks in lacking.items() if lacks]
    by = "by who ran there" + (" and by regular times" if all(lacking.values()) else "")
    return (
        f" the trace shows no {' and no '.join(names)}: what woke a task is guessed {by};\n"
        f" record {' '.join(events[name] for name in names)}, too"
    )


def _print_agreement(replay: Replay, limit: int) -> None:
    found: Agreement = replay.agreement
    governor = f" with {replay.check.governor}" if replay.check.governor else ""
    print_title(f"Agreement of {replay.check.kernel}{governor} with the trace")
    rows = [
        {
            **row,
            "run_off": _off_pct(row["traced_run_ns"], row["replayed_run_ns"]),
            "verdict": ", ".join(name.split("_")[0] for name in row["off"]) or "",
        }
        for row in sorted(found.rows, key=lambda row: -row["traced_run_ns"])
    ]
    us = decimal(1)
    print_table(
        [
            Column("comm", "comm", numeric=False, most=16),
            Column("pid", "pid"),
            Column("traced_run_ns", "run ms", decimal(3, 1e6)),
            Column("run_off", "off %", decimal(2)),
            Column("traced_wakeups", "wakeups", integer),
            Column("replayed_wakeups", "again", integer),
            Column("traced_p50_us", "p50 us", us),
            Column("replayed_p50_us", "again", us),
            Column("traced_p99_us", "p99 us", us),
            Column("replayed_p99_us", "again", us),
            Column("verdict", "too far off", numeric=False),
        ],
        rows,
        limit=limit,
    )
    click.echo(
        " near enough: run time 2 % or 10 us, wakeups 2 %, latencies 20 % or 10 us; tasks that "
        f"woke less than {WAKEUPS_MIN} times\n stand together, and p99 counts from {P99_MIN} "
        f"wakeups on; without these allowances {found.tasks_passed} of {len(found.tasks)} tasks "
        "come back"
    )
    if found.passed:
        click.echo(" The trace comes back: it is a basis for other kernels.")
    else:
        click.echo(
            f" {len(found.rows) - found.rows_passed} of {len(found.rows)} rows do not come back: "
            "the trace is NO BASIS for other kernels."
        )
    if replay.chance is not None:
        _print_spread(found, len(replay.chance.with_trace), limit)
        _print_chance(replay.chance)


def _print_chance(found: Chance) -> None:
    """Show whether the check asks for more than the seed allows."""

    def words(rows: Sequence[int]) -> str:
        return f"{min(rows)} to {max(rows)}, median {statistics.median(rows):g}"

    pairs = [rows for of in found.with_each_other for rows in of]
    more = "" if found.whole else ": the check asks for more than replays of one model come to"
    click.echo(
        f" rows that these have in common with the trace: {words(found.with_trace)}; with each "
        f"other: {words(pairs)};\n {found.whole} of {integer(len(pairs))} pairs have all rows "
        f"alike{more};\n by its rows in common with the others the trace is number {found.rank} of "
        f"{len(found.with_trace) + 1} from below"
    )


def _print_spread(found: Agreement, seeds: int, limit: int) -> None:
    """Show what of the difference is chance: replays that differ in their seed alone."""
    scales = {"run_ns": 1e6, "wakeups": 1.0, "p50_us": 1e3, "p99_us": 1e3}
    names = {"run_ns": "run ms", "wakeups": "wakeups", "p50_us": "p50 ms", "p99_us": "p99 ms"}
    rows = [
        {
            "comm": row["comm"],
            "pid": row["pid"],
            "figure": names[name],
            "traced": row[f"traced_{name}"] / scales[name],
            "least": least / scales[name],
            "most": most / scales[name],
            "place": "within" if least <= row[f"traced_{name}"] <= most else "beyond",
        }
        for row in sorted(found.rows, key=lambda row: -row["traced_run_ns"])
        for name, (least, most) in row["spread"].items()
        if row[f"traced_{name}"] is not None
    ]
    click.echo()
    print_title(f"What is too far off, in {seeds} replays that differ in their seed alone")
    print_table(
        [
            Column("comm", "comm", numeric=False, most=16),
            Column("pid", "pid"),
            Column("figure", "figure", numeric=False),
            Column("traced", "trace", decimal(3)),
            Column("least", "least", decimal(3)),
            Column("most", "most", decimal(3)),
            Column("place", "the trace is", numeric=False),
        ],
        rows,
        limit=limit,
    )


def _off_pct(before: float, after: float) -> float | None:
    return 100 * (after - before) / before if before else None


def _print_what_if(replay: Replay, run: Rerun, limit: int) -> None:
    check = replay.check
    print_title(
        f"{run.kernel} on {run.machine}, against {check.kernel} on {check.machine} (replayed)"
    )
    rows = what_if_rows(replay, run)
    us = decimal(1)
    print_table(
        [
            Column("comm", "comm", numeric=False, most=16),
            Column("pid", "pid"),
            Column("check_p50_us", "p50 us", us),
            Column("p50_us", "now", us),
            Column("check_p99_us", "p99 us", us),
            Column("p99_us", "now", us),
            Column("run_pct", "run %", _signed),
            Column("check_migrations", "moves", integer),
            Column("migrations", "now", integer),
            Column("check_idle_misses", "misses", integer, spare=2),
            Column("idle_misses", "now", integer, spare=2),
            Column("check_energy_mj", "mJ", decimal(2), spare=1),
            Column("energy_mj", "now", decimal(2), spare=1),
        ],
        sorted(rows, key=lambda row: -row["check_run_ns"]),
        limit=limit,
    )
    click.echo(f" energy in all: {run.energy.total_j:.3f} J, was {check.energy.total_j:.3f} J")


def _signed(value: float) -> str:
    return f"{value:+.2f}"


def what_if_rows(replay: Replay, run: Rerun) -> list[Figures]:
    """Give a row per task: its figures in the check and in another run."""
    before, after = replay.check.figures(), run.figures()
    rows = []
    for pid in replay.tasks.tasks["pid"]:
        if pid not in before or pid not in after:
            continue
        one, other = before[pid], after[pid]
        row: Figures = {"pid": pid, "comm": one["comm"]}
        for name in (
            "run_ns",
            "wakeups",
            "p50_us",
            "p99_us",
            "migrations",
            "idle_misses",
            "energy_mj",
        ):
            row[f"check_{name}"], row[name] = one[name], other[name]
        row["run_pct"] = _off_pct(one["run_ns"], other["run_ns"])
        rows.append(row)
    return rows


def _chance(found: Chance | None) -> Figures | None:
    return None if found is None else found._asdict() | {"rank": found.rank}


def _as_dict(file: Path, replay: Replay, *, shown: bool) -> dict[str, Any]:
    return {
        "file": str(file),
        "facts": replay.tasks.facts,
        "costs": replay.tasks.costs.to_dicts(),
        "check": {
            "kernel": replay.check.kernel,
            "machine": replay.check.machine,
            "governor": replay.check.governor,
            "digest": replay.check.digest,
            "basis": replay.agreement.passed,
            "rows": replay.agreement.rows,
            "tasks": replay.agreement.tasks,
            "chance": _chance(replay.chance),
        },
        "what_if": [
            {
                "kernel": run.kernel,
                "machine": run.machine,
                "digest": run.digest,
                "energy_j": run.energy.total_j,
                "check_energy_j": replay.check.energy.total_j,
                "tasks": what_if_rows(replay, run),
            }
            for run in (replay.what_if if shown else [])
        ],
    }
