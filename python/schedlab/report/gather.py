"""Gathers a report's data from a trace."""

from __future__ import annotations

import math
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from schedlab.idle import replay
from schedlab.report.model import (
    Finding,
    Governor,
    IdleState,
    Provenance,
    Report,
    StateUse,
    TaskLatency,
    Timeline,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.machine import Machine
    from schedlab.trace import Idle, Trace

__all__ = ["INTERVALS_MAX", "gather"]

INTERVALS_MAX = 2_000_000
"""Intervals that a page's timeline holds at most: some 15 MB of it."""


def gather(
    trace: Trace,
    machine: Machine | None = None,
    names: Sequence[str] = (),
    *,
    guessed: bool = False,
    intervals_max: int = INTERVALS_MAX,
) -> Report:
    """Ask the trace for everything that the page shows; see :func:`schedlab.report.write`.

    Without a machine, idle states have numbers for names, and no sleep is judged but by the
    kernel's own ``cpu_idle_miss`` events.
    """
    info = trace.info
    governors = [] if machine is None else _governors(trace, machine, names)
    begins: Literal["waking", "wakeup"] = "waking" if "sched_waking" in info["events"] else "wakeup"
    found = trace.timeline(machine, begins, intervals_max=intervals_max)
    idle = trace.idle(machine)
    states = _idle_states(machine, idle.states, governors)
    begin_ns = info["begin_ns"]
    end_ns = info["end_ns"] if found.cut_ns is None else found.cut_ns
    notes = []
    if machine is not None and guessed:
        notes.append(_guess(machine))
    if found.cut_ns is not None:
        notes.append(_cut(end_ns - begin_ns, intervals_max))
    samples = trace.wakeup_latencies(begins)
    latencies = trace.wakeup_latency(begins).sort("count", "pid", descending=[True, False])
    return Report(
        provenance=Provenance(
            file=trace.path.name,
            file_bytes=trace.path.stat().st_size if trace.path.is_file() else None,
            format=info["format"],
            kernel_release=info["kernel_release"],
            clock=info["clock"],
            cpus=info["cpus"],
            duration_ns=info["end_ns"] - begin_ns,
            event_counts=info["events"],
            lost_events=info["lost_events"],
            machine="" if machine is None else machine.name,
            schedlab_version=metadata.version("schedlab"),
        ),
        timeline=Timeline(
            cpus=info["cpus"],
            origin_ns=begin_ns,
            duration_ns=max(1, end_ns - begin_ns),
            runs=_from(found.runs, begin_ns, "start_ns", "end_ns").sort("cpu", "start_ns"),
            sleeps=_from(found.sleeps, begin_ns, "start_ns", "end_ns").sort("cpu", "start_ns"),
            counters=_counters(_from(found.samples, begin_ns, "time_ns")),
        ),
        latencies=[_latency(row) for row in latencies.iter_rows(named=True)],
        latency_samples=samples,
        overall_latency=_overall(samples["latency_ns"]),
        latency_begins=f"sched_{begins}",
        idle_states=states,
        state_uses=_state_uses(
            idle, judged=machine is not None, told="cpu_idle_miss" in info["events"]
        ),
        kernel_misses=_kernel_misses(idle, info["events"]),
        governors=governors,
        findings=[Finding(**row) for row in info["data_quality"]],
        notes=list(notes),
    )


def _governors(trace: Trace, machine: Machine, names: Sequence[str]) -> list[Governor]:
    """Let governors choose anew; the first row is what the trace shows."""
    # A simulated run is no file that could be read again; it can be run again instead.
    if not trace.path.is_file() or not trace.idle_states().height:
        return []
    report = replay(trace.path, machine, names).report
    recorded = report["traced_governor"]
    rows = [_governor("traced", report["traced"], traced=True)]
    rows += [
        _governor(name, found, recorded=name == recorded)
        for name, found in report["governors"].items()
    ]
    return rows


def _governor(
    name: str, found: dict[str, Any], *, traced: bool = False, recorded: bool = False
) -> Governor:
    return Governor(
        name=name,
        periods=found["periods"],
        too_deep_pct=found["too_deep_pct"],
        too_shallow_pct=found["too_shallow_pct"],
        state_share_pct=list(found["state_share_pct"].values()),
        agreement_pct=found.get("agreement_pct"),
        estimated_pct=found.get("estimated_pct"),
        wake_latency_us=found["exit_latency_us"],
        # A machine without powers has no energy, not an energy of nothing.
        energy_mj=found["idle_energy_mj"] or None,
        traced=traced,
        recorded=recorded,
    )


def _guess(machine: Machine) -> str:
    return (
        f"Nobody named the machine: {machine.name} is a guess from the trace's CPUs and idle "
        "states. The verdicts on idle periods rest on it; name another with --machine."
    )


def _cut(shown_ns: int, intervals_max: int) -> str:
    return (
        f"The timeline and the histogram of idle periods show the first {shown_ns / 1e9:.3f} s: "
        f"what follows would exceed {intervals_max:,} intervals. The tables are of the whole trace."
    )


def _from(frame: pl.DataFrame, begin_ns: int, *columns: str) -> pl.DataFrame:
    """Count times from the trace's first event."""
    return frame.with_columns(pl.col(*columns).cast(pl.Int64) - begin_ns)


def _counters(samples: pl.DataFrame) -> pl.DataFrame:
    """Turn kHz into MHz, and sort by CPU, counter and time."""
    is_khz = pl.col("unit") == "kHz"
    value = pl.col("value").cast(pl.Float64)
    return samples.with_columns(
        value=pl.when(is_khz).then(value / 1000).otherwise(value),
        unit=pl.when(is_khz).then(pl.lit("MHz")).otherwise(pl.col("unit")),
    ).sort("cpu", "name", "time_ns", maintain_order=True)


def _latency(row: dict[str, Any]) -> TaskLatency:
    fields = ("comm", "pid", "count", "gmean_us", "mean_us", "p50_us", "p90_us", "p99_us", "max_us")
    return TaskLatency(**{field: row[field] for field in fields})


def _overall(latency_ns: pl.Series) -> TaskLatency | None:
    """Sum up all tasks' latencies by the rules of ``Trace.wakeup_latency``."""
    if latency_ns.is_empty():
        return None
    us = latency_ns.cast(pl.Float64) / 1000
    points = [us.quantile(share, "linear") or 0.0 for share in (0.5, 0.9, 0.99, 1.0)]
    logs = latency_ns.clip(lower_bound=1).cast(pl.Float64).log()
    gmean_us = math.exp(float(logs.to_frame().select(pl.all().mean()).item())) / 1000
    mean_us = float(us.to_frame().select(pl.all().mean()).item())
    return TaskLatency("", 0, latency_ns.len(), gmean_us, mean_us, *points)


def _idle_states(
    machine: Machine | None, used: pl.DataFrame, governors: Sequence[Governor]
) -> list[IdleState]:
    """Name the states; where CPU types disagree on one, only what they share is told."""
    count = max((1 + state for state in used["state"]), default=0)
    count = max([count, *(len(governor.state_share_pct) for governor in governors)])
    rows = [] if machine is None else machine.idle_states.to_dicts()
    states = []
    for index in range(max([count, *(1 + row["index"] for row in rows)])):
        kinds = [row for row in rows if row["index"] == index]
        names = dict.fromkeys(row["name"] for row in kinds)
        states.append(
            IdleState(
                name=" / ".join(names) or f"state {index}",
                exit_latency_ns=_shared(kinds, "exit_latency_ns"),
                target_residency_ns=_shared(kinds, "target_residency_ns"),
            )
        )
    return states if count else []


def _shared(rows: list[dict[str, Any]], key: str) -> int | None:
    values = {int(row[key]) for row in rows}
    return values.pop() if len(values) == 1 else None


def _state_uses(idle: Idle, *, judged: bool, told: bool) -> list[StateUse]:
    """Sum states over CPUs: misses as judged, or else as the trace told them."""
    held = idle.states.group_by("state").agg(pl.col("entries", "residency_ns").sum())
    miss = ("too_deep", "too_shallow") if judged else ("kernel_too_deep", "kernel_too_shallow")
    missed = idle.misses.group_by("state").agg(pl.col("periods", *miss).sum())
    rows = held.join(missed, on="state", how="left").sort("state").to_dicts()
    return [
        StateUse(
            state=row["state"],
            periods=(row["periods"] or 0) if judged else row["entries"],
            time_ns=row["residency_ns"],
            too_deep=(row[miss[0]] or 0) if judged or told else None,
            too_shallow=(row[miss[1]] or 0) if judged or told else None,
        )
        for row in rows
    ]


def _kernel_misses(idle: Idle, events: dict[str, int]) -> tuple[int, int] | None:
    if "cpu_idle_miss" not in events:
        return None
    counted = idle.misses.select("kernel_too_deep", "kernel_too_shallow").sum().row(0)
    return int(counted[0] or 0), int(counted[1] or 0)
