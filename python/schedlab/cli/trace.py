"""``schedlab trace``: the figures of a kernel trace."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from schedlab.cli._errors import Refusal
from schedlab.cli._files import OUT_FILE
from schedlab.cli._output import (
    Column,
    counted,
    cpu_list,
    decimal,
    integer,
    limit_option,
    print_json,
    print_note,
    print_table,
    print_title,
    print_wrapped,
    progress,
)
from schedlab.cli.trace_diff import diff
from schedlab.trace import Trace, convert_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from schedlab._schedlab import TraceInfo
    from schedlab.trace import Converted, TraceFormat

Rows = list[dict[str, Any]]

_MS = 1e6
_SUFFIXES = {"perfetto": ".perfetto-trace", "parquet": ".parquet", "csv": ".csv"}

# A thread id is an int of the kernel's (pid_t).
PID_MAX = 2**31 - 1

_file = click.argument("file", type=click.Path(path_type=Path))
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_machine = click.option(
    "--machine",
    "machine_name",
    metavar="NAME|FILE",
    help="The machine that the trace was taken on, for its idle states.",
)
_task = click.option(
    "--task",
    "pids",
    type=click.IntRange(0, PID_MAX),
    multiple=True,
    metavar="PID",
    help="Only this task (repeatable).",
)
_comm = click.option(
    "--comm",
    "comms",
    multiple=True,
    metavar="NAME",
    help="Only tasks of this name; * and ? match (repeatable).",
)


@click.group
def command() -> None:
    """Figures of a kernel trace.

    FILE is a trace-cmd .dat, ftrace or perf script text, systrace HTML, perf.data or Perfetto
    trace; its content tells which.
    """


command.add_command(diff)


@command.command
@_file
@_json
@limit_option
def info(*, file: Path, as_json: bool, limit: int) -> None:
    """Show what a trace holds: events, CPUs, duration, and how good the data are."""
    with progress(file, "reading") as told:
        about = Trace(file, keep_events=False, progress=told).info
    if as_json:
        print_json(about)
        return
    print_title(_headline(file, about))
    events = [
        {"event": name, "count": count}
        for name, count in sorted(about["events"].items(), key=lambda item: (-item[1], item[0]))
    ]
    print_table(
        [Column("event", "event", numeric=False), Column("count", "count", integer)],
        events,
        limit=limit,
    )
    if about["data_quality"]:
        click.echo()
        print_title("Data quality")
        _print_findings(about)


@command.command
@_file
@click.option(
    "--from",
    "from_",
    type=click.Choice(["waking", "wakeup"]),
    default="waking",
    show_default=True,
    help="Which event begins a latency; sched_wakeup_new counts as one in either.",
)
@click.option(
    "--by",
    type=click.Choice(["task", "comm"]),
    default="task",
    show_default=True,
    help="A row per task, or per task name.",
)
@click.option(
    "--sort",
    default="count",
    show_default=True,
    metavar="COLUMN",
    type=click.Choice(["count", "gmean", "mean", "p50", "p90", "p99", "max", "comm", "pid"]),
    help="Largest first; names and ids in order.",
)
@_task
@_comm
@_json
@limit_option
def latency(
    *,
    file: Path,
    from_: Literal["waking", "wakeup"],
    by: Literal["task", "comm"],
    sort: str,
    pids: Sequence[int],
    comms: Sequence[str],
    as_json: bool,
    limit: int,
) -> None:
    """Show how long woken tasks waited for a CPU."""
    if by == "comm" and pids:
        raise click.UsageError("--task names one task, and --by comm adds tasks up; use --comm.")
    with progress(file, "reading") as told:
        trace = Trace(file, keep_events=False, progress=told)
        rows = trace.wakeup_latency(from_, by=by).to_dicts()
    _note_missing(trace.info, from_)
    rows = _chosen(rows, pids, comms)
    _sort(rows, sort if sort in {"count", "comm", "pid"} else f"{sort}_us")
    if as_json:
        spare = "tasks" if by == "task" else "pid"
        print_json([{key: value for key, value in row.items() if key != spare} for row in rows])
        return
    print_title(f"Wakeup latency from sched_{from_}, us")
    who = Column("pid", "pid") if by == "task" else Column("tasks", "tasks", integer)
    three = decimal(3)
    print_table(
        [
            Column("comm", "comm", numeric=False, most=20),
            who,
            Column("count", "count", integer),
            Column("gmean_us", "gmean", three),
            Column("mean_us", "mean", three, spare=1),
            Column("p50_us", "p50", three),
            Column("p90_us", "p90", three, spare=2),
            Column("p99_us", "p99", three),
            Column("max_us", "max", three),
        ],
        rows,
        limit=limit,
    )
    _note_quality(trace.info)


@command.command
@_file
@click.option(
    "--sort",
    default="run",
    show_default=True,
    metavar="COLUMN",
    type=click.Choice(["run", "wait", "blocked", "wakeups", "preempted", "moved", "comm", "pid"]),
    help="Largest first; names and ids in order.",
)
@_task
@_comm
@_json
@limit_option
def tasks(
    *,
    file: Path,
    sort: str,
    pids: Sequence[int],
    comms: Sequence[str],
    as_json: bool,
    limit: int,
) -> None:
    """Show what each task did: run, wait, sleep, block; wakeups, preemptions, migrations."""
    with progress(file, "reading") as told:
        trace = Trace(file, keep_events=False, progress=told)
        rows = _chosen(trace.tasks().to_dicts(), pids, comms)
    keys = {
        "run": "run_ns",
        "wait": "runnable_ns",
        "blocked": "blocked_ns",
        "preempted": "preemptions",
        "moved": "cpu_changes",
    }
    _sort(rows, keys.get(sort, sort))
    if as_json:
        print_json(rows)
        return
    print_title("Tasks, ms")
    ms = decimal(3, _MS)
    print_table(
        [
            Column("comm", "comm", numeric=False, most=20),
            Column("pid", "pid"),
            Column("run_ns", "run", ms),
            Column("runnable_ns", "wait", ms),
            Column("sleep_ns", "sleep", ms, spare=4),
            Column("blocked_ns", "blocked", ms, spare=2),
            Column("unknown_ns", "unknown", ms, spare=6),
            Column("wakeups", "wakeups", integer),
            Column("preemptions", "preempted", integer, spare=1),
            Column("migrations", "migrated", integer, spare=5),
            Column("cpu_changes", "moved", integer, spare=3),
            Column("cpus", "CPUs", cpu_list, numeric=False, most=16),
        ],
        rows,
        limit=limit,
    )
    _note_quality(trace.info)


@command.command
@_file
@_json
@limit_option
def cpus(*, file: Path, as_json: bool, limit: int) -> None:
    """Show what each CPU did: busy, idle and interrupt time, switches."""
    with progress(file, "reading") as told:
        trace = Trace(file, keep_events=False, progress=told)
        figures = trace.cpu_figures()
    rows = figures.cpus.to_dicts()
    frequencies = figures.frequencies.to_dicts()
    if as_json:
        for row in rows:
            own = [dict(one) for one in frequencies if one["cpu"] == row["cpu"]]
            row["frequencies"] = [{k: v for k, v in one.items() if k != "cpu"} for one in own]
        print_json(rows)
        return
    print_title(f"CPUs, ms, of {trace.info['duration_s'] * 1e3:,.3f} ms each")
    ms = decimal(3, _MS)
    counted = ["busy_ns", "idle_ns", "unknown_ns", "irq_ns", "softirq_ns"]
    counted += ["switches", "idle_entries", "interrupts", "softirqs"]
    total: dict[str, Any] = {key: sum(row[key] for row in rows) for key in counted}
    total["cpu"] = "all"
    for row in [*rows, total]:
        whole = row["busy_ns"] + row["idle_ns"] + row["unknown_ns"]
        row["busy_pct"] = 100 * row["busy_ns"] / whole if whole else None
    print_table(
        [
            Column("cpu", "CPU"),
            Column("busy_pct", "busy %", decimal(1)),
            Column("busy_ns", "busy", ms),
            Column("idle_ns", "idle", ms),
            Column("unknown_ns", "unknown", ms, spare=3),
            Column("irq_ns", "irq", ms),
            Column("softirq_ns", "softirq", ms),
            Column("switches", "switches", integer),
            Column("idle_entries", "idle entries", integer, spare=2),
            Column("interrupts", "interrupts", integer, spare=1),
            Column("softirqs", "softirqs", integer, spare=4),
        ],
        rows,
        limit=limit,
        last=total,
    )
    if frequencies:
        _print_frequencies(frequencies, limit)
    _note_quality(trace.info)


def _print_frequencies(rows: Rows, limit: int) -> None:
    click.echo()
    print_title("Frequencies")
    known = {row["cpu"]: 0 for row in rows}
    for row in rows:
        known[row["cpu"]] += row["residency_ns"]
    for row in rows:
        row["pct"] = 100 * row["residency_ns"] / max(known[row["cpu"]], 1)
    print_table(
        [
            Column("cpu", "CPU"),
            Column("frequency_khz", "MHz", decimal(3, 1e3)),
            Column("residency_ns", "time ms", decimal(3, _MS)),
            Column("pct", "time %", decimal(1)),
            Column("changes", "set", integer),
        ],
        rows,
        limit=limit,
    )


@command.command
@_file
@_machine
@_json
@limit_option
def idle(*, file: Path, machine_name: str | None, as_json: bool, limit: int) -> None:
    """Show idle residency, and idle misses as the kernel counts them.

    Sleeps that were too short or too long for their state are told by the idle states of the
    machine (--machine); beside them stand the trace's own cpu_idle_miss events.
    """
    from schedlab.cli import trace_idle  # noqa: PLC0415 - has more to import
    from schedlab.machine import Machine  # noqa: PLC0415

    machine = None if machine_name is None else Machine.load(machine_name)
    with progress(file, "reading") as told:
        trace = Trace(file, keep_events=False, progress=told)
        told_idle = trace.idle(machine)
    unknown = told_idle.misses["unknown_state"].sum()
    if machine is not None and unknown:
        print_note(
            f"{unknown:,} idle periods are not judged: machine {machine.name} lacks their states; "
            "--machine names the one that was traced"
        )
    found = trace_idle.summed(told_idle, trace.info)
    if as_json:
        print_json(found)
        return
    trace_idle.print_summed(found, judged=machine is not None, limit=limit)
    if machine is None:
        print_note("idle misses need the machine's idle states: --machine NAME|FILE")
    _note_quality(trace.info)


@command.command
@_file
@_json
@limit_option
def c2c(*, file: Path, as_json: bool, limit: int) -> None:
    """Read what `perf c2c report --stdio` printed: contended cache lines, place by place.

    `schedlab run --c2c` prints a simulated run's in the same shape.
    """
    from schedlab.cli.c2c_view import print_parsed  # noqa: PLC0415 - has more to import
    from schedlab.comparison.model import shortened  # noqa: PLC0415 - as above
    from schedlab.cpupri import read_c2c  # noqa: PLC0415 - as above

    table = read_c2c(file.read_text(encoding="utf-8", errors="replace"))
    if table.rows.is_empty():
        raise Refusal(
            f"{file}: no row of a pareto table in it; give the output of `perf c2c report --stdio`"
        )
    if as_json:
        print_json({"rows": table.rows.to_dicts(), "unread": table.unread})
        return
    print_parsed(table.rows, limit)
    for number, text in table.unread:
        print_note(f"{file}:{number}: not read: {shortened(text)}")


@command.command
@_file
@click.option(
    "--to",
    "target",
    type=click.Choice(list(_SUFFIXES)),
    required=True,
    help="perfetto opens in ui.perfetto.dev; parquet and csv have a row per event.",
)
@click.option(
    "-o",
    "--output",
    type=OUT_FILE,
    help="The file to write; FILE with another ending by default.",
)
@_json
def convert(
    *,
    file: Path,
    target: TraceFormat,
    output: Path | None,
    as_json: bool,
) -> None:
    """Write a trace for other tools: Perfetto protobuf, Parquet or CSV."""
    out = output or Path(file.name).with_suffix(_SUFFIXES[target])
    if out.exists() and file.exists() and out.samefile(file):
        raise click.UsageError(f"{out} is the trace itself; name another file with -o.")
    with progress(file, "converting") as told:
        done = convert_trace(file, target, out, progress=told)
    if as_json:
        print_json({**done._asdict(), "path": str(done.path)})
        return
    click.echo(f"{done.path}: {counted(done.events, 'event')}")
    if done.dropped:
        print_note(f"{counted(done.dropped, 'event')} left out{_kinds(done)}")


def _kinds(done: Converted) -> str:
    types = sorted(done.dropped_types.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{name} {count:,}" for name, count in types]
    rest = done.dropped - sum(done.dropped_types.values())
    if rest > 0:
        named.append(f"damaged or not about a task or CPU {rest:,}")
    return f": no place for {', '.join(named)}"


def _headline(file: Path, about: TraceInfo) -> str:
    parts = [f"{file.name}: {about['format']}"]
    if about["clock"]:
        parts.append(f"clock {about['clock']}")
    if about["kernel_release"]:
        parts.append(f"Linux {about['kernel_release']}")
    parts.append(counted(len(about["cpus"]), "CPU"))
    parts.append(f"{about['duration_s']:.6f} s")
    parts.append(counted(sum(about["events"].values()), "event"))
    lost = about["lost_events"]
    damaged = any(finding["severity"] == "error" for finding in about["data_quality"])
    parts.append(f"{lost:,} lost" if lost else "damaged" if damaged else "none lost")
    return ", ".join(parts)


def _print_findings(about: TraceInfo) -> None:
    for finding in about["data_quality"]:
        where = "" if finding["cpu"] is None else f" CPU {finding['cpu']}"
        times = "" if finding["count"] <= 1 else f" ({finding['count']:,})"
        place = f" {finding['severity']:<7} {finding['code']}{where}{times}"
        print_wrapped(f"{place}: {finding['message']}", indent=9)


def _note_quality(about: TraceInfo) -> None:
    """Say that figures suffer; the rows themselves are those of ``trace info``."""
    serious = [row for row in about["data_quality"] if row["severity"] != "info"]
    if serious:
        kinds = ", ".join(dict.fromkeys(row["code"] for row in serious))
        print_note(f"data quality: {kinds} (see schedlab trace info)")


def _note_missing(about: TraceInfo, from_: Literal["waking", "wakeup"]) -> None:
    """Say why there are no latencies, if another event begins them.

    That neither was recorded is a finding of its own.
    """
    other = "wakeup" if from_ == "waking" else "waking"
    if f"sched_{from_}" not in about["events"] and f"sched_{other}" in about["events"]:
        print_note(
            f"the trace has no sched_{from_}, with which latencies begin; --from {other} may serve"
        )


def _chosen(rows: Rows, pids: Sequence[int], comms: Sequence[str]) -> Rows:
    """Give the rows of these tasks, and say so if there is none."""
    if not pids and not comms:
        return rows
    chosen = [
        row
        for row in rows
        if row["pid"] in pids or any(fnmatchcase(row["comm"] or "", comm) for comm in comms)
    ]
    if rows and not chosen:
        asked = [f"--task {pid}" for pid in pids] + [f"--comm {comm}" for comm in comms]
        print_note(f"none of {len(rows):,} rows matches {' or '.join(asked)}")
    return chosen


def _sort(rows: Rows, key: str) -> None:
    """Sort in place; equal rows stay in the order of first sight."""
    ascending = key in {"comm", "pid"}
    order: Callable[[dict[str, Any]], Any] = lambda row: row[key]  # noqa: E731 - typed
    rows.sort(key=order, reverse=not ascending)
