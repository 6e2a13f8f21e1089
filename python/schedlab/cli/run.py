"""``schedlab run``: simulate a workload."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab.cli._errors import Refusal
from schedlab.cli._files import OUT_FILE
from schedlab.cli._numbers import Finite
from schedlab.cli._output import (
    Column,
    counted,
    decimal,
    integer,
    print_json,
    print_table,
    print_title,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from schedlab.simulation import Simulation
    from schedlab.trace import TraceFormat

# A shorter run ends before a progress bar could be read.
PROGRESS_AFTER_S = 1.0

WAITING_SHOWN = 3

# No run has more tasks than fit into a number of 32 bits.
TASK_MAX = 2**32 - 1

FORMATS: dict[str, TraceFormat] = {
    ".pftrace": "perfetto",
    ".perfetto": "perfetto",
    ".perfetto-trace": "perfetto",
    ".parquet": "parquet",
    ".csv": "csv",
}


@click.command
@click.argument("workload", metavar="WORKLOAD|FILE")
@click.option(
    "--machine", default="generic", show_default=True, metavar="NAME|FILE", help="On this machine."
)
@click.option(
    "--kernel", default="v6.12", show_default=True, metavar="NAME|FILE", help="Under this kernel."
)
@click.option(
    "--governor", metavar="NAME", help="Under this idle governor in place of the kernel's."
)
@click.option(
    "--governor-source",
    "source",
    type=click.Path(path_type=Path),
    metavar="FILE.c",
    help="Under this idle governor of a kernel tree, drivers/cpuidle/governors/teo.c say, which is "
    "compiled.",
)
@click.option(
    "--duration",
    "duration_s",
    type=float,
    metavar="SECONDS",
    help="Stop at this virtual time, unless the workload ends before.  [default: 60 for workloads "
    "that end by themselves, else 10]",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True, help="Draw from it."
)
@click.option("--shuffle-ties", is_flag=True, help="Handle simultaneous events in random order.")
@click.option(
    "--trace",
    "trace_file",
    type=OUT_FILE,
    metavar="OUT",
    help="Write the run as a trace: .pftrace (Perfetto), .parquet or .csv.",
)
@click.option(
    "--trace-interrupts/--no-trace-interrupts",
    default=True,
    show_default=True,
    help="Write timers and interrupts into the trace, too: three events for every tick. `schedlab "
    "replay` tells by them what woke a task.",
)
@click.option(
    "--report",
    "page",
    type=OUT_FILE,
    metavar="OUT.html",
    help="Write an HTML page with the run's timeline and latencies.",
)
@click.option(
    "--interrupts", is_flag=True, help="Show ticks, kicks and interrupts of every CPU by kind."
)
@click.option(
    "--idle",
    is_flag=True,
    help="Show every idle state: its part of the time, and of the sleeps that ended how many there "
    "were and how many were misses of either kind.",
)
@click.option(
    "--cpufreq",
    metavar="GOVERNOR",
    help="performance, powersave, schedutil or userspace:MHZ.  [default: the kernel's, else the "
    "machine's usual one]",
)
@click.option(
    "--cpu-latency-us",
    type=Finite(0, 2**31 - 1),
    metavar="US",
    help="No idle state with a longer exit latency, as by /dev/cpu_dma_latency.",
)
@click.option(
    "--thermal-limit",
    "thermal_limits",
    metavar="KIND:MHZ",
    multiple=True,
    help="Heat keeps this kind of core at or below a frequency, as in big:1800.",
)
@click.option("--explain", is_flag=True, help="List where tasks were placed, and why.")
@click.option(
    "--explain-task",
    type=click.IntRange(0, TASK_MAX),
    metavar="TASK",
    help="Show this task's placements with all candidates and their scores.",
)
@click.option(
    "--c2c",
    is_flag=True,
    help="Show the cache lines that real-time scheduling shares, as perf c2c would.",
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=16,
    show_default=True,
    help="Show so many CPUs and placements (0: all).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    workload: str,
    machine: str,
    kernel: str,
    governor: str | None,
    source: Path | None,
    duration_s: float | None,
    seed: int,
    shuffle_ties: bool,
    trace_file: Path | None,
    trace_interrupts: bool,
    page: Path | None,
    interrupts: bool,
    idle: bool,
    cpufreq: str | None,
    cpu_latency_us: float | None,
    thermal_limits: tuple[str, ...],
    explain: bool,
    explain_task: int | None,
    c2c: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Simulate a workload: a built-in one, a TOML file, or rt-app JSON (a name ending in .json).

    The same machine, kernel, workload, duration and seed give the same run to the bit, which its
    digest tells.

    A CPU is busy whenever it is not in an idle state: while a task runs, and in interrupts and on
    its way out of idle states. Switches are those to tasks. (`schedlab trace cpus` of the run's own
    trace counts tasks' time alone as busy, and switches to the idle task, too.)
    """
    from schedlab._schedlab import GovernorSource  # noqa: PLC0415 - `--help` needs none
    from schedlab.machine import Machine  # noqa: PLC0415 - as above
    from schedlab.simulation import simulate  # noqa: PLC0415 - as above

    if governor is not None and source is not None:
        raise click.UsageError("one of --governor and --governor-source, not both.")
    if not trace_interrupts and trace_file is None:
        raise click.UsageError("--no-trace-interrupts says what --trace leaves out; give both.")
    chosen = None if source is None else GovernorSource(source)
    to = None if trace_file is None else _format(trace_file)
    hardware = Machine.load(machine)
    with _progress() as told:
        run = simulate(
            workload,
            machine=hardware,
            kernel=kernel,
            duration_s=duration_s,
            seed=seed,
            shuffle_ties=shuffle_ties,
            keep_events=trace_file is not None or page is not None,
            keep_interrupts=trace_interrupts and trace_file is not None,
            keep_decisions=explain or explain_task is not None,
            keep_c2c=c2c,
            cpufreq=cpufreq,
            cpu_latency_us=cpu_latency_us,
            thermal_limits_mhz=dict(map(_thermal_limit, thermal_limits)),
            governor=chosen or governor,
            progress=told,
        )
    if run.ending == "stuck":
        raise Refusal(_stuck(run))
    if explain_task is not None and explain_task not in run.tasks["task"]:
        raise Refusal(f"--explain-task {explain_task}: there is no such task; {_tasks_of(run)}")
    if trace_file is not None and run.trace is not None and to is not None:
        run.trace.convert(to, trace_file)
    if page is not None and run.trace is not None:
        from schedlab.report import write  # noqa: PLC0415 - as above

        write(run.trace, page, hardware)
    if as_json:
        print_json(_as_dict(run, explain_task))
        return
    _print(run, limit, governor_asked=chosen is not None or governor is not None)
    if interrupts:
        _print_interrupts(run, limit)
    if idle:
        _print_idle(run)
    _print_kept(run, explain_task, limit)


def _print_kept(run: Simulation, task: int | None, limit: int) -> None:
    """Print what was kept of the run because it was asked for."""
    if run.c2c is not None:
        from schedlab.cli.c2c_view import print_simulated  # noqa: PLC0415 - few runs want it

        print_simulated(run.c2c, limit)
    if run.decisions is not None:
        _print_decisions(run, task, limit)
        if run.decisions_left_out:
            click.echo(f"{run.decisions_left_out} later decisions were not kept.")


def _format(out: Path) -> TraceFormat:
    to = FORMATS.get(out.suffix)
    if to is None:
        raise click.UsageError(f"{out}: --trace writes {', '.join(FORMATS)}.")
    return to


def _thermal_limit(text: str) -> tuple[str, float]:
    kind, colon, mhz = text.rpartition(":")
    try:
        if colon and kind and float(mhz) > 0:
            return kind, float(mhz)
    except ValueError:
        pass
    raise click.UsageError(f"{text}: --thermal-limit takes KIND:MHZ, as in big:1800.")


def _tasks_of(run: Simulation) -> str:
    count = run.tasks.height
    return f"the run has {count:,}, 0 to {count - 1}" if count else "the run has none"


def _stuck(run: Simulation) -> str:
    waiting = "; ".join(run.waiting[:WAITING_SHOWN])
    more = len(run.waiting) - WAITING_SHOWN
    return (
        f"{run.workload}: nothing can happen any more after {run.end_ns / 1e9:.6f} s: {waiting}"
        + (f"; and {more} more" if more > 0 else "")
        + "\nMend the workload so that something wakes them."
    )


def _as_dict(run: Simulation, task: int | None) -> dict[str, Any]:
    decisions = run.decisions
    if decisions is not None and task is not None:
        decisions = decisions.filter(decisions["task"] == task)
    explained: dict[str, Any] = {}
    if decisions is not None:
        explained["decisions"] = decisions.to_dicts()
        explained["decisions_left_out"] = run.decisions_left_out
    if run.c2c is not None:
        explained["c2c"] = run.c2c.to_dicts()
    return {
        "machine": run.machine,
        "kernel": run.kernel,
        "workload": run.workload,
        "governor": run.governor,
        "seed": run.seed,
        "ending": run.ending,
        "end_ns": run.end_ns,
        "events": run.events,
        "digest": run.digest,
        "figures": run.figures.to_dicts(),
        "energy": vars(run.energy),
        "power_mw": run.power_mw,
        "rails": run.rails.to_dicts(),
        "groups": run.groups.to_dicts(),
        "cpus": run.cpus.to_dicts(),
        "idle_states": run.idle_states.to_dicts(),
        "frequencies": run.frequencies.to_dicts(),
        "packages": run.packages.to_dicts(),
        "tasks": run.tasks.to_dicts(),
        **explained,
    }


def _print(run: Simulation, limit: int, *, governor_asked: bool) -> None:
    print_title(
        f"{run.workload} on {run.machine} under {run.kernel}: "
        f"{run.end_ns / 1e9:.6f} s, {run.ending}"
    )
    print_table(
        [
            Column("name", "figure", numeric=False),
            Column("value", "value", decimal(3)),
            Column("unit", "unit", numeric=False),
            Column("samples", "samples", integer, spare=1),
        ],
        run.figures.to_dicts(),
    )
    click.echo()
    cpus = run.cpus.to_dicts()
    for row in cpus:
        row["busy_pct"] = 100 * row["busy_ns"] / max(run.end_ns, 1)
        row["busy_ms"], row["idle_ms"] = row["busy_ns"] / 1e6, row["idle_ns"] / 1e6
    print_table(
        [
            Column("cpu", "CPU"),
            Column("node", "node", spare=2),
            Column("busy_pct", "busy %", decimal(2)),
            Column("busy_ms", "busy ms", decimal(3)),
            Column("idle_ms", "idle ms", decimal(3)),
            Column("ticks", "ticks", integer, spare=1),
            Column("ipis", "IPIs", integer, spare=1),
        ],
        sorted(cpus, key=lambda row: (-row["busy_ns"], row["cpu"])) if limit else cpus,
        limit=limit,
    )
    energy, tasks = run.energy, run.tasks
    click.echo()
    _print_packages(run)
    switches, migrations = (int(tasks[name].sum()) for name in ("switches", "migrations"))
    click.echo(
        f"{counted(tasks.height, 'task')} born on "
        f"{counted(tasks['birth_cpu'].drop_nulls().n_unique(), 'CPU')}; "
        f"{switches:,} switch{'' if switches == 1 else 'es'}, {counted(migrations, 'migration')}"
    )
    click.echo(
        f"energy {energy.total_j:,.3f} J: cores {energy.cores_j:,.3f}, packages "
        f"{energy.packages_j:,.3f}, machine {energy.machine_j:,.3f}, idle entries and exits "
        f"{energy.transitions_j:,.3f}"
    )
    for part, cpus, asleep_ns, entries, energy_j in run.groups.iter_rows():
        click.echo(
            f"{part}, CPUs {cpus}: asleep for {100 * asleep_ns / max(run.end_ns, 1):.2f} %, "
            f"{entries:,} times; {energy_j * 1e3:,.3f} mJ"
        )
    for rail, cpus, energy_mj, power_mw in run.rails.iter_rows():
        click.echo(f"rail {rail}, CPUs {cpus}: {energy_mj:,.3f} mJ, {power_mw:,.3f} mW on average")
    if run.frequencies["changes"].sum():
        _print_frequencies(run)
    if governor_asked:
        click.echo(f"idle governor {run.governor}")
    click.echo(f"{counted(run.events, 'event')}, digest {run.digest}")


def _print_frequencies(run: Simulation) -> None:
    """Tell how fast each domain was on average, and how often that changed."""
    for rows in run.frequencies.partition_by("domain", maintain_order=True):
        mean_khz = sum(rows["khz"] * rows["time_ns"]) / max(run.end_ns, 1)
        click.echo(
            f"CPUs {rows['cpus'][0]}: {mean_khz / 1e3:,.1f} MHz on average, "
            f"{counted(rows['changes'][0], 'change')}"
        )


def _print_idle(run: Simulation) -> None:
    """Tell what the kernel counts of the idle states, those of the same name together.

    Sleeps that go on at the end have taken their time, but the kernel has yet to count them.
    """
    import polars as pl  # noqa: PLC0415 - a second of imports that most callers do not need

    counts = ("usage", "residency_ns", "above", "below", "rejected")
    rows = (
        run.idle_states.group_by("state", "name", maintain_order=True)
        .agg(pl.len().alias("cpus"), *(pl.col(count).sum() for count in counts))
        .sort("state", maintain_order=True)
        .to_dicts()
    )
    for row in rows:
        row["time_pct"] = 100 * row["residency_ns"] / max(row["cpus"] * run.end_ns, 1)
    click.echo()
    print_table(
        [
            Column("name", "idle state", numeric=False),
            Column("cpus", "CPUs"),
            Column("usage", "entries", integer),
            Column("time_pct", "time %", decimal(2)),
            Column("above", "too deep", integer),
            Column("below", "too shallow", integer),
            Column("rejected", "rejected", integer),
        ],
        rows,
    )
    misses = run.idle_misses_pct()
    if misses is not None:
        too_deep_pct, too_shallow_pct = misses
        click.echo(f"misses: {too_deep_pct:.2f} % too deep, {too_shallow_pct:.2f} % too shallow")


def _print_interrupts(run: Simulation, limit: int) -> None:
    click.echo()
    print_table(
        [
            Column("cpu", "CPU"),
            Column("ticks", "ticks", integer),
            Column("idle_ticks", "idle", integer),
            Column("balance_softirqs", "softirqs", integer),
            Column("kicks_sent", "kicks", integer),
            Column("kicks_answered", "answered", integer),
            Column("kicks_refused", "refused", integer, spare=1),
            Column("ipis_reschedule", "IPIs", integer),
            Column("ipis_kick", "kick", integer),
            Column("ipis_timer", "timer", integer),
            Column("broadcasts", "broadcast", integer),
            Column("irq_ns", "irq ms", decimal(3, 1e6)),
            Column("softirq_ns", "softirq ms", decimal(3, 1e6)),
        ],
        run.cpus.to_dicts(),
        limit=limit,
    )


def _print_packages(run: Simulation) -> None:
    """Tell how deep each package slept, where it has idle states."""
    for rows in run.packages.partition_by("package", maintain_order=True):
        shares = [
            f"{100 * time_ns / max(run.end_ns, 1):.2f} % "
            + ("in use" if state is None else f"asleep in state {state}")
            for _, state, time_ns in rows.iter_rows()
            if time_ns > 0
        ]
        click.echo(f"package {rows['package'][0]}: {', '.join(shares)}")


def _print_decisions(run: Simulation, task: int | None, limit: int) -> None:
    decisions = run.decisions
    if decisions is None:
        return
    click.echo()
    if task is not None:
        own = decisions.filter(decisions["task"] == task)
        if own.is_empty():
            click.echo(f"task {task} was never placed: no fork, exec or wake-up of it is kept")
        for row in own.iter_rows(named=True):
            click.echo(f"{row['time_ns'] / 1e6:.6f} ms: {row['text']}")
        return
    print_table(
        [
            Column("time_ns", "ms", decimal(6, 1e6)),
            Column("task", "task"),
            Column("occasion", "at", numeric=False),
            Column("from_cpu", "from CPU"),
            Column("cpu", "to CPU"),
            Column("reason", "why", numeric=False),
        ],
        decisions.drop("text").to_dicts(),
        limit=limit,
    )


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """Show how far virtual time is, where someone watches a run that takes its time."""
    if not sys.stderr.isatty():
        yield None
        return
    import time  # noqa: PLC0415 - as below

    from rich import progress as bars  # noqa: PLC0415 - few runs are long
    from rich.console import Console  # noqa: PLC0415

    shown = bars.Progress(
        bars.TextColumn("simulating"),
        bars.BarColumn(),
        bars.TaskProgressColumn(),
        bars.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    begin = time.monotonic()
    task = shown.add_task("", total=None)

    def told(done: int, total: int) -> None:
        if time.monotonic() - begin > PROGRESS_AFTER_S:
            shown.start()
            shown.update(task, completed=done, total=total)

    try:
        yield told
    finally:
        shown.stop()
