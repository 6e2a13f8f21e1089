"""The figures of a run: the workload's own, and those of every run.

- ``birth CPUs``: CPUs on which forked tasks were born
- ``run time``: from the start to the end of the last task, ms; nothing if the time was up before
- ``migrations``: of all tasks
- ``nodes``: NUMA nodes that did at least a hundredth of the work
- ``sockets``: packages whose CPUs did at least a twentieth of it
- ``cores``: cores that did at least a hundredth of it
- ``busy CPUs``: CPU time over the run's length
- ``kernel cycles``: CPU time in the kernel, interrupts included, percent of all CPU time
- ``mask load cycles mean``, ``least``, ``most``: where the kernel's shared cache lines are
  modelled, cycles of a load of the masks of CPUs without real-time tasks: the mean of all loads,
  and the least and the most of the means of each place in a line and kernel function
- ``energy``: of the whole machine, J
- ``energy-delay product``: that times the run time, J s; nothing if the time was up before
- ``RATE per W``: of each figure of the workload that is a rate, over the power of the machine
- ``user time``, ``system time``: of all tasks, outside the kernel and in it, s
- ``package asleep``: time in which no CPU of the package that slept most was busy, percent
- ``idle ticks``: ticks of CPUs that had nothing to run
- ``idle ticks per busy tick``: those against the ticks of CPUs that had
- ``kicks``, ``broadcasts``: requests to balance for idle CPUs, and interrupts of the timer that
  stands in for those of sleeping CPUs
- ``idle too deep``, ``idle too shallow``: sleeps that the kernel counts as misses of either kind,
  percent of all sleeps
- ``power``: of the whole machine on average, mW; ``power NAME``: of each rail that it names
- ``frequency changes``: of all domains
- ``busiest softirq``: time in softirqs of the CPU that spends most there, percent
- ``idle too deep KIND``, ``idle too shallow KIND``: the same of one kind of core, percent of its
  sleeps; ``deepest state KIND``: time of those cores in their deepest idle state, percent of their
  idle time
- ``wakeup latency COMM``: geometric mean over the wake-ups of all tasks of a name, us
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from schedlab.machine import Machine

if TYPE_CHECKING:
    from schedlab.simulation import Simulation
    from schedlab.study.plan import Run

__all__ = ["EVERY_RUN", "of_run", "rows"]

EVERY_RUN = {
    "birth CPUs": "1",
    "run time": "ms",
    "migrations": "1",
    "nodes": "1",
    "sockets": "1",
    "cores": "1",
    "busy CPUs": "1",
    "kernel cycles": "%",
    "energy": "J",
    "energy-delay product": "J s",
    "user time": "s",
    "system time": "s",
    "package asleep": "%",
    "idle ticks": "1",
    "idle ticks per busy tick": "1",
    "kicks": "1",
    "broadcasts": "1",
    "busiest softirq": "%",
    "idle too deep": "%",
    "idle too shallow": "%",
    "power": "mW",
    "frequency changes": "1",
}

# Masks of the CPUs that run nothing real-time, as the report of cache lines calls them.
LOWEST_MASKS = "pri_to_cpu[0].mask"

# Fewer loads make no mean.
LOADS_MIN = 100

# A node that did less took part by accident: an interrupt, a moment of balancing.
NODE_SHARE = 0.01
CORE_SHARE = 0.01
SOCKET_SHARE = 0.05


def rows(run: Run, key: str, done: Simulation) -> pl.DataFrame:
    """Give a run as the store keeps it: a row per figure, and in each what determined the run."""
    figures = of_run(done, Machine.parse(run.machine_toml, run.machine))
    schema = {"figure": pl.String, "unit": pl.String, "value": pl.Float64}
    return pl.DataFrame(figures, schema=schema).select(
        pl.lit(key).alias("key"),
        pl.lit(run.machine).alias("machine"),
        pl.lit(run.workload.name).alias("workload"),
        pl.lit(run.kernel).alias("kernel"),
        pl.lit(run.seed, pl.Int64).alias("seed"),
        pl.lit(run.start_ns, pl.Int64).alias("start_ns"),
        pl.lit(run.duration_s, pl.Float64).alias("duration_s"),
        pl.lit(done.ending).alias("ending"),
        pl.lit(done.end_ns, pl.Int64).alias("end_ns"),
        pl.lit(done.events, pl.Int64).alias("events"),
        pl.lit(done.digest).alias("digest"),
        "figure",
        "unit",
        "value",
    )


def of_run(done: Simulation, machine: Machine) -> list[dict[str, Any]]:
    """Give all figures of a run: ``figure``, ``unit`` and ``value``."""
    figures: list[dict[str, Any]] = [
        {"figure": row["name"], "unit": row["unit"], "value": row["value"]}
        for row in done.figures.iter_rows(named=True)
    ]
    figures += _per_watt(done)
    own = every_run(done, machine)
    figures += [
        {"figure": name, "unit": unit, "value": own[name]} for name, unit in EVERY_RUN.items()
    ]
    figures += [
        {"figure": f"power {name}", "unit": "mW", "value": power_mw}
        for name, power_mw in done.rails.select("rail", "power_mw").iter_rows()
    ]
    figures += [
        {"figure": f"wakeup latency {row['comm']}", "unit": "us", "value": row["geometric_mean_us"]}
        for row in done.latencies.iter_rows(named=True)
    ]
    figures += _mask_loads(done)
    figures += _by_kind(done, machine)
    return figures


def _per_watt(done: Simulation) -> list[dict[str, Any]]:
    """Set each rate of the workload against the power that the machine drew for it."""
    power_mw = done.power_mw
    return [
        {
            "figure": f"{row['name']} per W",
            "unit": "1/J",
            "value": row["value"] / (power_mw / 1e3)
            if row["value"] is not None and power_mw
            else None,
        }
        for row in done.figures.iter_rows(named=True)
        if row["unit"] == "1/s"
    ]


def _mask_loads(done: Simulation) -> list[dict[str, object]]:
    """Compute what a load of the lowest level's masks takes; nothing where lines are not modelled.

    A profiler has no record of what hardly ever happens.
    """
    if done.c2c is None:
        return []
    loads = done.c2c.filter(
        pl.col("line").str.starts_with(LOWEST_MASKS) & (pl.col("loads") >= LOADS_MIN)
    )
    cycles = pl.col("load_cycles_mean")
    mean = (cycles * pl.col("loads")).sum() / pl.col("loads").sum()
    row = loads.select(mean=mean, least=cycles.min(), most=cycles.max()).row(0, named=True)
    return [
        {"figure": f"mask load cycles {name}", "unit": "cycles", "value": value}
        for name, value in row.items()
    ]


def _by_kind(done: Simulation, machine: Machine) -> list[dict[str, object]]:
    """Compute what idle states did on each kind of core; nothing where all are of one kind."""
    kinds = machine.cpus.select(pl.col("cpu").cast(pl.UInt32), "cpu_type")
    if kinds["cpu_type"].n_unique() < 2:  # noqa: PLR2004 - one kind is the whole machine
        return []
    deepest = pl.col("state") == pl.col("state").max().over("cpu")
    states = done.idle_states.join(kinds, on="cpu", maintain_order="left")
    of_kind = states.group_by("cpu_type", maintain_order=True).agg(
        (100 * pl.col("above").sum() / pl.col("usage").sum()).alias("idle too deep"),
        (100 * pl.col("below").sum() / pl.col("usage").sum()).alias("idle too shallow"),
        (100 * pl.col("time_ns").filter(deepest).sum() / pl.col("time_ns").sum()).alias(
            "deepest state"
        ),
    )
    # Cores that never left their state have no sleeps to judge.
    of_kind = of_kind.fill_nan(None)
    return [
        {"figure": f"{name} {row['cpu_type']}", "unit": "%", "value": row[name]}
        for row in of_kind.iter_rows(named=True)
        for name in ("idle too deep", "idle too shallow", "deepest state")
    ]


def every_run(done: Simulation, machine: Machine) -> dict[str, float | None]:
    """Compute the figures that every run has."""
    forked = done.tasks.filter(pl.col("task") >= done.first_tasks)
    by_node = done.cpus.group_by("node").agg(pl.col("busy_ns").sum())["busy_ns"].to_list()
    busy_ns = sum(by_node)
    where = machine.cpus.select(pl.col("cpu").cast(pl.UInt32), "core", "package")
    by_cpu = done.cpus.join(where, on="cpu")

    def used(part: str, share: float) -> float:
        parts = by_cpu.group_by(part).agg(pl.col("busy_ns").sum())["busy_ns"]
        return float((parts >= share * busy_ns).sum())

    span_ns = done.end_ns - done.start_ns
    run_ns, user_ns = (sum(done.tasks[column]) for column in ("runtime_ns", "user_ns"))
    asleep = done.packages.filter(pl.col("state").is_not_null()).group_by("package")
    asleep_ns = max(asleep.agg(pl.col("time_ns").sum())["time_ns"], default=0)
    idle_ticks = sum(done.cpus["idle_ticks"])
    busy_ticks = sum(done.cpus["ticks"]) - idle_ticks
    too_deep_pct, too_shallow_pct = done.idle_misses_pct() or (None, None)
    changes = done.frequencies.group_by("domain").agg(pl.col("changes").first())["changes"]
    return {
        "birth CPUs": float(forked["birth_cpu"].drop_nulls().n_unique()),
        "run time": span_ns / 1e6 if done.ending == "finished" else None,
        "migrations": float(done.tasks["migrations"].sum()),
        "nodes": float(sum(node_ns >= NODE_SHARE * busy_ns for node_ns in by_node)),
        "sockets": used("package", SOCKET_SHARE),
        "cores": used("core", CORE_SHARE),
        "busy CPUs": busy_ns / span_ns if span_ns > 0 else None,
        "kernel cycles": 100 * (busy_ns - user_ns) / busy_ns if busy_ns else None,
        "energy": done.energy.total_j,
        "energy-delay product": done.energy.total_j * span_ns / 1e9
        if done.ending == "finished"
        else None,
        "user time": user_ns / 1e9,
        "system time": (run_ns - user_ns) / 1e9,
        "idle ticks": float(idle_ticks),
        "idle ticks per busy tick": idle_ticks / busy_ticks if busy_ticks else None,
        "kicks": float(sum(done.cpus["kicks_sent"])),
        "broadcasts": float(sum(done.cpus["broadcasts"])),
        "busiest softirq": 100 * max(done.cpus["softirq_ns"]) / done.end_ns
        if done.end_ns
        else None,
        "idle too deep": too_deep_pct,
        "idle too shallow": too_shallow_pct,
        "power": done.power_mw,
        "frequency changes": float(sum(changes)),
        "package asleep": 100 * asleep_ns / done.end_ns if done.end_ns else None,
    }
