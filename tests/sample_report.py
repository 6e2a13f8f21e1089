"""A small report made by hand, for the tests of the page."""

from __future__ import annotations

import polars as pl
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

HOSTILE = "</script><img src=x onerror=alert(1)>{{7*7}}\u2028'\""


def sample(comm: str = "worker", runs: int = 4) -> Report:
    """Make a report of two CPUs on which one task runs every millisecond, alternating."""
    rows = [
        (i % 2, i * 1_000_000, i * 1_000_000 + 300_000, 42, comm, 20_000 + i, "S")
        for i in range(runs)
    ]
    sleeps = [
        (i % 2, i * 1_000_000 + 310_000, (i + 2) * 1_000_000 - 10_000, i % 3, i % 3 - 1, True)
        for i in range(runs)
    ]
    duration_ns = (runs + 2) * 1_000_000
    latency = TaskLatency(comm, 42, runs, 20.0, 20.0, 20.0, 20.0, 20.0, 20.0)
    return Report(
        provenance=Provenance(
            file=f"{comm}.dat",
            file_bytes=4096,
            format="trace.dat v7",
            kernel_release=comm,
            clock="mono",
            cpus=[0, 1],
            duration_ns=duration_ns,
            event_counts={"sched_switch": 2 * runs, comm: 1},
            lost_events=0,
            machine="",
            schedlab_version="0",
        ),
        timeline=Timeline(
            cpus=[0, 1],
            origin_ns=7,
            duration_ns=duration_ns,
            runs=pl.DataFrame(
                rows,
                schema={
                    "cpu": pl.UInt32,
                    "start_ns": pl.Int64,
                    "end_ns": pl.Int64,
                    "pid": pl.Int32,
                    "comm": pl.String,
                    "latency_ns": pl.Int64,
                    "state": pl.String,
                },
                orient="row",
            ).sort("cpu", "start_ns"),
            sleeps=pl.DataFrame(
                sleeps,
                schema={
                    "cpu": pl.UInt32,
                    "start_ns": pl.Int64,
                    "end_ns": pl.Int64,
                    "state": pl.UInt32,
                    "miss": pl.Int8,
                    "whole": pl.Boolean,
                },
                orient="row",
            ).sort("cpu", "start_ns"),
            counters=pl.DataFrame(
                {
                    "name": [comm, comm],
                    "unit": ["MHz", "MHz"],
                    "cpu": pl.Series([0, 0], dtype=pl.UInt32),
                    "time_ns": [0, 2_000_000],
                    "value": [800.0, 1600.0],
                }
            ),
        ),
        latencies=[latency],
        latency_samples=pl.DataFrame(
            {"comm": [comm] * runs, "latency_ns": [20_000 + i for i in range(runs)]},
            schema={"comm": pl.String, "latency_ns": pl.UInt64},
        ),
        overall_latency=latency,
        idle_states=[
            IdleState("POLL", 0, 0),
            IdleState(comm, 2_000, 10_000),
            IdleState("C6", 100_000, 600_000),
        ],
        state_uses=[StateUse(0, 2, 10, 2, 0), StateUse(1, 1, 5, 0, 0), StateUse(2, 1, 5, 0, 1)],
        kernel_misses=(2, 1),
        governors=[Governor(comm, 4, 50.0, 25.0, [50.0, 25.0, 25.0], traced=True)],
        findings=[Finding("warning", comm, None, 1, comm)],
        notes=[comm],
    )
