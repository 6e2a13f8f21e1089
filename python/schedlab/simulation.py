"""Simulated runs: a workload on a machine under a kernel, the same to the bit for the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from schedlab import _schedlab
from schedlab._schedlab import MachineError, WorkloadError
from schedlab.kernel import Kernel
from schedlab.machine import Machine
from schedlab.names import check_governor, guessing, near
from schedlab.ranges import U64, check_range
from schedlab.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from schedlab.idle import AnyGovernor

    Frame = pl.DataFrame

# A longer file describes no workload.
WORKLOAD_BYTES_MAX = 16 << 20

SECOND_NS = 1_000_000_000

# A thousand times what cores run at.
THERMAL_LIMIT_MHZ_MAX = 4_000_000


class WorkloadText(NamedTuple):
    """A workload as the text of its file."""

    name: str
    """What people call it."""
    path: str
    """What errors call it; ``.json`` says that it is rt-app's."""
    text: str
    """TOML that names a model and its options, or rt-app JSON."""


@dataclass(frozen=True)
class Energy:
    """Energy of a run by rail, joules."""

    cores_j: float
    """All cores, in use and idle."""
    packages_j: float
    """The uncore of all packages."""
    machine_j: float
    """The rest of the machine."""
    transitions_j: float
    """Entries into and exits from idle states."""
    groups_j: float
    """What groups of CPUs share and switch off together."""
    total_j: float
    """All of them."""


@dataclass(frozen=True)
class Simulation:
    """What a simulated run yields."""

    machine: str
    """The machine's name."""
    kernel: str
    """The kernel's name."""
    workload: str
    """The workload's name."""
    governor: str
    """The idle governor; a file of C by its name and the digest of its source."""
    seed: int
    """The seed of everything random."""
    ending: Literal["finished", "time up", "stuck"]
    """How it ended; a stuck run has live tasks, none of which can ever be woken."""
    waiting: list[str]
    """What the tasks of a stuck run wait for."""
    end_ns: int
    """When it ended, in virtual time."""
    events: int
    """Scheduling events."""
    digest: str
    """Hash of all events: equal runs have equal digests."""
    figures: Frame
    """The benchmark's figures: ``name, unit, better, value, samples``."""
    cpus: Frame
    """A row per CPU: ``cpu, node, busy_ns`` (interrupts and ways out of idle states included)``,
    idle_ns``; ``iowait_ns`` of the idle time while tasks that ran there last waited for I/O;
    ``irq_ns`` of the busy time in interrupts and softirqs, ``softirq_ns`` of that in softirqs;
    ``ticks``, of which ``idle_ticks`` found it idle; ``ipis`` from other CPUs, for wake-ups and the
    stopper thread (``ipis_reschedule``), to balance for idle CPUs (``ipis_kick``) and in place of
    its sleeping timer's (``ipis_timer``); ``broadcasts``, interrupts of the broadcast timer;
    ``balance_softirqs``; ``kicks_sent`` to idle CPUs so that they balance, ``kicks_answered`` and
    ``kicks_refused`` by this one."""
    idle_states: Frame
    """A row per CPU and idle state, with what the kernel counts in sysfs as sleeps end: ``cpu,
    state, name, usage, time_ns`` (exits included)``, above`` (sleeps too short for it: too
    deep)``, below`` (long enough for a deeper one: too shallow)``, rejected``; and
    ``residency_ns``, its part of the CPU's ``idle_ns`` (without exits, and up to the run's end
    if a sleep goes on there)."""
    frequencies: Frame
    """A row per frequency domain and operating point: ``domain, cpus, khz, time_ns``, and the
    domain's ``changes``."""
    groups: Frame
    """A row per part that CPUs share and switch off together: ``part, cpus, asleep_ns, entries,
    energy_j``; machine files call it ``group_state``."""
    rails: Frame
    """A row per rail that the machine names: ``rail, cpus, energy_mj, power_mw`` (the mean)."""
    tasks: Frame
    """A row per task: ``task, comm, policy`` (with its priority if it is a real-time one)``,
    birth_cpu, cpu`` (the last one)``, runtime_ns, user_ns, switches, migrations``; ``birth_cpu`` is
    null for a task that the run's end kept from being born, ``user_ns`` is the part of
    ``runtime_ns`` outside the kernel, and ``switches`` are those to the task."""
    packages: Frame
    """A row per package and state: ``package, state, time_ns``, ``state`` being the number of the
    shallowest idle state of its CPUs, and null while one of them was busy."""
    energy: Energy
    """Energy by rail."""
    latencies: Frame
    """Wakeup latency, a row per task name: ``comm, wakeups, mean_us, geometric_mean_us, max_us``,
    from ``sched_waking`` to the switch-in."""
    first_tasks: int
    """How many tasks there were from the start; the others were forked."""
    start_ns: int
    """When the first tasks were told to start."""
    decisions: Frame | None = None
    """A row per placement, if kept: ``time_ns, task, occasion`` (fork, exec, wake)``, from_cpu,
    cpu, reason, text`` (candidates with their scores)."""
    c2c: Frame | None = None
    """Accesses to cache lines that the kernel's real-time code shares, if kept, as ``perf c2c``
    tells them: a row per ``line``, ``offset`` and ``symbol``, the hottest line first, with
    ``remote_hitm, local_hitm, stores_l1_hit, stores_l1_miss, loads`` (of 30 cycles or more that
    left the core's caches)``, load_cycles_mean, load_cycles_p50, load_cycles_p99, records, cpus``,
    and the line's sums (``line_remote_hitm``, ...). An atomic operation is a load and a store."""
    decisions_left_out: int = 0
    """Placements after those: only the first 100000 are kept."""
    trace: Trace | None = None
    """The run's events, if kept, to be asked as a real trace is."""

    @property
    def power_mw(self) -> float | None:
        """Give the mean power of the whole machine; ``None`` for a run without any time."""
        return self.energy.total_j * 1e3 / (self.end_ns / 1e9) if self.end_ns else None

    def idle_misses_pct(self) -> tuple[float, float] | None:
        """Give the shares of sleeps that were too deep and too shallow, as the kernel counts them.

        ``None`` if no CPU slept.
        """
        usage, above, below = (sum(self.idle_states[c]) for c in ("usage", "above", "below"))
        return (100 * above / usage, 100 * below / usage) if usage else None

    def figure(self, name: str) -> float | None:
        """Give a figure by its name; ``None`` if nothing was measured.

        Raises ``KeyError`` with the names there are.
        """
        for row in self.figures.iter_rows(named=True):
            if row["name"] == name:
                value: float | None = row["value"]
                return value
        raise KeyError(f"no figure {name!r}; there are {', '.join(self.figures['name'])}")


def workload_names() -> list[str]:
    """List the built-in workloads.

    >>> "sysbench-cpu" in workload_names()
    True
    """
    return _schedlab.workload_names()


def load_workload(name_or_path: str | Path) -> WorkloadText:
    """Read a built-in workload by its name, or else a file: TOML, or rt-app JSON (``.json``).

    Raises :class:`schedlab.WorkloadError` for an unknown name, ``OSError`` for an unreadable file.

    >>> load_workload("hackbench").path
    'hackbench'
    """
    name = str(name_or_path)
    built_in = _schedlab.workload_text(name) if isinstance(name_or_path, str) else None
    if built_in is not None:
        return WorkloadText(name, name, built_in)
    path = Path(name_or_path)
    if not path.exists():
        known = workload_names()
        raise WorkloadError(
            f"{name}: neither a file nor a built-in workload; built in are {', '.join(known)}"
            f"{near(name, known)}"
        )
    with path.open("rb") as file:
        content = file.read(WORKLOAD_BYTES_MAX + 1)
    if len(content) > WORKLOAD_BYTES_MAX:
        raise WorkloadError(
            f"{name}: longer than {WORKLOAD_BYTES_MAX} bytes, so no description of a workload"
        )
    try:
        return WorkloadText(path.stem, name, content.decode())
    except UnicodeDecodeError:
        raise WorkloadError(
            f"{name}: not text but something else; give a TOML file or rt-app JSON"
        ) from None


def simulate(
    workload: str | Path | WorkloadText,
    *,
    machine: str | Path | Machine = "generic",
    kernel: str | Path | Kernel = "v6.12",
    duration_s: float | None = None,
    seed: int = 0,
    start_ns: int = 0,
    shuffle_ties: bool = False,
    keep_events: bool = False,
    keep_decisions: bool = False,
    keep_c2c: bool = False,
    keep_interrupts: bool = True,
    cpufreq: str | None = None,
    cpu_latency_us: float | None = None,
    thermal_limits_mhz: Mapping[str, float] | None = None,
    governor: AnyGovernor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Simulation:
    """Run a workload on a machine under a kernel until it ends or the time is up.

    Without a duration, a workload that ends by itself has 60 s to do so, and any other one runs for
    10 s.

    ``governor`` is the idle governor in place of the kernel's: a name, a
    :class:`schedlab.GovernorSource`, or a class derived from :class:`schedlab.Governor`.

    ``start_ns`` delays the workload's start against the machine's ticks, which is what differs
    from run to run on a real machine. ``keep_events`` keeps the run as a trace, with timers and
    interrupts unless ``keep_interrupts`` is false (three events for every tick), and
    ``keep_decisions`` every placement with its candidates. ``progress`` is called now and then
    with the virtual time and the duration, ns. Other threads run meanwhile. ``keep_c2c`` keeps
    accesses to the cache lines that real-time scheduling shares, and charges them on any machine.

    ``cpufreq`` chooses the governor of CPU frequencies instead of the kernel and the machine:
    ``performance``, ``powersave``, ``schedutil`` or ``userspace:MHZ``. ``cpu_latency_us`` limits
    the exit latency of idle states as ``/dev/cpu_dma_latency`` does, and ``thermal_limits_mhz`` the
    frequency of kinds of cores.

    Raises :class:`schedlab.WorkloadError`, :class:`schedlab.MachineError` or
    :class:`schedlab.KernelError`, whose texts name file, line and mend, and
    :class:`schedlab.GovernorError` for an idle governor that there is not, or where a user's own
    fails.

    >>> run = simulate("periodic", machine="generic", duration_s=0.1)
    >>> run.ending, run.tasks.height, run.cpus.height
    ('time up', 32, 8)
    """
    if isinstance(governor, str):
        check_governor(governor)
    check_range("seed", seed, U64, WorkloadError)
    check_range("start_ns", start_ns, U64, WorkloadError)
    machine = machine if isinstance(machine, Machine) else Machine.load(machine)
    kernel = kernel if isinstance(kernel, Kernel) else Kernel.load(kernel)
    workload = workload if isinstance(workload, WorkloadText) else load_workload(workload)
    with guessing():
        facts, tables, decisions, trace = _schedlab.simulate(
            machine.native,
            kernel.native,
            workload.text,
            Path(workload.path),
            duration_ns=None if duration_s is None else duration_to_ns(duration_s),
            seed=seed,
            start_ns=start_ns,
            shuffle_ties=shuffle_ties,
            keep_events=keep_events,
            keep_decisions=keep_decisions,
            keep_c2c=keep_c2c,
            keep_interrupts=keep_interrupts,
            cpufreq=cpufreq,
            cpu_latency_ns=None if cpu_latency_us is None else latency_to_ns(cpu_latency_us),
            thermal_limits=_thermal_limits_khz(machine, thermal_limits_mhz or {}),
            governor=governor,
            progress=progress,
        )
    figures, cpus, idle_states, frequencies, rails, packages, tasks = tables
    import polars as pl  # noqa: PLC0415 - a second of imports that most callers do not need

    group_schema = {
        "part": pl.String,
        "cpus": pl.String,
        "asleep_ns": pl.UInt64,
        "entries": pl.UInt64,
        "energy_j": pl.Float64,
    }
    nodes = machine.cpus.select("cpu", "node").cast(pl.UInt32)
    return Simulation(
        machine=machine.name,
        kernel=kernel.name,
        workload=workload.name,
        governor=facts["governor"],
        seed=seed,
        ending=facts["ending"],
        waiting=facts["waiting"],
        end_ns=facts["end_ns"],
        events=facts["events"],
        digest=facts["digest"],
        figures=pl.DataFrame(figures),
        cpus=nodes.join(pl.DataFrame(cpus), on="cpu", maintain_order="left"),
        idle_states=pl.DataFrame(idle_states),
        frequencies=pl.DataFrame(frequencies),
        groups=pl.DataFrame(facts["groups"], schema=group_schema, orient="row"),
        rails=pl.DataFrame(rails),
        tasks=pl.DataFrame(tasks),
        packages=pl.DataFrame(packages),
        energy=Energy(**facts["energy"]),
        latencies=pl.DataFrame(facts["latencies"]),
        first_tasks=facts["first_tasks"],
        start_ns=start_ns,
        decisions=None if decisions is None else pl.DataFrame(decisions),
        c2c=None if facts["c2c"] is None else pl.DataFrame(facts["c2c"]),
        decisions_left_out=facts["decisions_left_out"],
        trace=None
        if trace is None
        else Trace.recorded(f"{workload.name} on {machine.name}", trace),
    )


def _thermal_limits_khz(machine: Machine, limits: Mapping[str, float]) -> list[tuple[str, int]]:
    kinds = [kind["name"] for kind in machine.to_dict()["cpu_types"]]
    for kind, mhz in limits.items():
        if kind not in kinds:
            raise MachineError(
                f"{machine.name} has no kind of core {kind}; there are {', '.join(kinds)}"
                f"{near(kind, kinds)}"
            )
        if not 0 < mhz <= THERMAL_LIMIT_MHZ_MAX:
            raise MachineError(
                f"a thermal limit of {mhz:g} MHz on {kind} is none; give more than 0, and "
                f"{THERMAL_LIMIT_MHZ_MAX} at most"
            )
    return [(kind, round(mhz * 1000)) for kind, mhz in limits.items()]


def latency_to_ns(latency_us: float) -> int:
    """Convert a latency limit.

    >>> latency_to_ns(0.5)
    500

    Raises ``ValueError`` for what is no such limit.
    """
    most_us = 2**31 - 1
    if not 0 <= latency_us <= most_us:
        raise ValueError(f"a latency limit of {latency_us:g} us is none; give 0 to {most_us}")
    return round(latency_us * 1000)


def duration_to_ns(duration_s: float) -> int:
    """Convert a duration.

    >>> duration_to_ns(0.25)
    250000000

    Raises :class:`schedlab.WorkloadError` for what is no time that can be simulated.
    """
    most_s = 100 * 24 * 3600
    if not 1 / SECOND_NS <= duration_s <= most_s:
        raise WorkloadError(f"a duration of {duration_s:g} s is none; give 1e-9 to {most_s} s")
    return round(duration_s * SECOND_NS)
