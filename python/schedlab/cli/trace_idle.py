"""The tables of ``schedlab trace idle``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import polars as pl

from schedlab.cli._output import Column, decimal, integer, print_table, print_title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab._schedlab import TraceInfo
    from schedlab.trace import Idle

_MISSES = [
    "periods",
    "too_deep",
    "too_shallow",
    "extra_exit_latency_us",
    "shallow_us",
    "excess_energy_mj",
    "kernel_too_deep",
    "kernel_too_shallow",
    "unknown_state",
]

Found = dict[str, Any]


def summed(idle: Idle, about: TraceInfo) -> Found:
    """Sum residency and misses by state and by CPU, beside the rows of each state of each CPU."""
    by_place = idle.states.join(
        idle.misses.drop("name"), on=["cpu", "state"], how="full", coalesce=True
    ).sort("cpu", "state")
    counted = ["entries", "residency_ns"]
    if "cpu_idle_miss" in about["events"]:
        counted += ["kernel_too_deep", "kernel_too_shallow"]
    by_place = by_place.with_columns(pl.col(counted).fill_null(0))
    sums = ["entries", "residency_ns", *_MISSES]
    # Of no verdict at all the sum is unknown, not 0.
    added = [pl.when(pl.col(key).count() > 0).then(pl.col(key).sum()).alias(key) for key in sums]
    states = by_place.group_by("state").agg(pl.col("name").drop_nulls().first(), *added)
    cpus = by_place.group_by("cpu").agg(added)
    wall_ns = about["end_ns"] - about["begin_ns"]
    return {
        "states": _shares(states.sort("state"), wall_ns * max(len(about["cpus"]), 1)),
        "cpus": _shares(cpus.sort("cpu"), wall_ns),
        "cpu_states": _shares(by_place, wall_ns),
        "tasks": idle.task_misses.to_dicts(),
    }


def _shares(frame: pl.DataFrame, wall_ns: int) -> list[dict[str, Any]]:
    rows = frame.to_dicts()
    for row in rows:
        row["residency_pct"] = 100 * row["residency_ns"] / wall_ns if wall_ns else None
        for kind in ("too_deep", "too_shallow"):
            judged = row["periods"]
            row[f"{kind}_pct"] = 100 * row[kind] / judged if judged else None
    return rows


def print_summed(found: Found, *, judged: bool, limit: int) -> None:
    """Print the tables by state, by CPU and by woken task."""
    kernel = any(row["kernel_too_deep"] is not None for row in found["states"])
    print_title("Idle states, all CPUs")
    state = [Column("state", "state"), Column("name", "name", numeric=False)]
    print_table(
        [*(state if judged else state[:1]), *_times(), *_verdicts(judged=judged, kernel=kernel)],
        found["states"],
    )
    click.echo()
    print_title("Idle CPUs")
    print_table(
        [Column("cpu", "CPU"), *_times(), *_verdicts(judged=judged, kernel=kernel)],
        found["cpus"],
        limit=limit,
    )
    tasks = sorted(found["tasks"], key=_missed, reverse=True)
    tasks = [task for task in tasks if _missed(task)]
    if not tasks:
        return
    click.echo()
    print_title("Idle misses by the task that ran next")
    for task in tasks:
        task["comm"] = task["comm"] if task["pid"] is not None else "(none)"
    who = [Column("comm", "task", numeric=False, most=20), Column("pid", "pid")]
    wakes = [Column("periods", "wakes", integer)] if judged else []
    print_table(
        [*who, *wakes, *_verdicts(judged=judged, kernel=kernel, shares=False)], tasks, limit=limit
    )


def _missed(row: dict[str, Any]) -> int:
    own: int = (row["too_deep"] or 0) + (row["too_shallow"] or 0)
    return own + (row["kernel_too_deep"] or 0) + (row["kernel_too_shallow"] or 0)


def _times() -> Sequence[Column]:
    return [
        Column("entries", "entries", integer),
        Column("residency_ns", "time ms", decimal(3, 1e6), spare=7),
        Column("residency_pct", "time %", decimal(1)),
    ]


def _verdicts(*, judged: bool, kernel: bool, shares: bool = True) -> Sequence[Column]:
    traced = [
        Column("kernel_too_deep", "kernel: deep", integer),
        Column("kernel_too_shallow", "shallow", integer),
    ][: 2 if kernel else 0]
    if not judged:
        return traced
    deep = [Column("too_deep", "too deep", integer)]
    shallow = [Column("too_shallow", "too shallow", integer)]
    if shares:
        deep.append(Column("too_deep_pct", "%", decimal(2), spare=6))
        shallow.append(Column("too_shallow_pct", "%", decimal(2), spare=6))
    costs = [
        Column("extra_exit_latency_us", "late us", decimal(0), spare=4),
        Column("shallow_us", "shallow us", decimal(0), spare=5),
        Column("excess_energy_mj", "excess mJ", decimal(3), spare=3),
    ]
    return [*deep, *shallow, *traced, *costs]
