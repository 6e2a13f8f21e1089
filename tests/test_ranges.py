"""Numbers out of range, given to the Python API: refused by their names, never by an overflow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from schedlab import (
    CpuPri,
    Governor,
    GovernorError,
    Kernel,
    KernelError,
    Machine,
    Pelt,
    ReplayError,
    StudyError,
    TraceError,
    WorkloadError,
    cpuidle,
    cpupri,
    read_trace,
    run_study,
    simulate,
)
from schedlab.idle import Explained, idle_governors, replay
from schedlab.replay import TracedTasks
from schedlab.sweep import run_sweep
from schedlab.tune import tune_study

if TYPE_CHECKING:
    from collections.abc import Callable

MENU = "tests/data/traces/qemu_idle_menu.dat"
STATES = [cpuidle.IdleState(1_000, 1_000), cpuidle.IdleState(50_000, 200_000)]
HUGE = 10**30


def governor() -> cpuidle.Governor:
    return cpuidle.Menu(STATES)


def tasks() -> TracedTasks:
    return TracedTasks(MENU, "simidle")


def explain(cpu: int, period: int | None = None, time_ns: int | None = None) -> object:
    return replay(MENU, Machine.load("simidle"), ["menu"], explain=Explained(cpu, period, time_ns))


CALLS: list[tuple[str, type[ValueError], Callable[[Any], object]]] = [
    ("cpus", KernelError, lambda v: Kernel.load("v6.12").settings(v)),
    ("seed", WorkloadError, lambda v: simulate("periodic", duration_s=1e-3, seed=v)),
    ("start_ns", WorkloadError, lambda v: simulate("periodic", duration_s=1e-3, start_ns=v)),
    ("tick_ns", GovernorError, lambda v: cpuidle.Teo(STATES, tick_ns=v)),
    ("capacity", GovernorError, lambda v: cpuidle.Governor("menu", STATES, capacity=v)),
    ("cpu", GovernorError, lambda v: cpuidle.Ladder(Machine.load("simidle"), cpu=v)),
    ("exit_latency_ns", GovernorError, lambda v: cpuidle.Menu([cpuidle.IdleState(v, 0)])),
    ("target_residency_ns", GovernorError, lambda v: cpuidle.Menu([cpuidle.IdleState(0, v)])),
    ("now_ns", GovernorError, lambda v: governor().select(now_ns=v)),
    ("cpu_util", GovernorError, lambda v: governor().select(cpu_util=v)),
    ("nr_iowait", GovernorError, lambda v: governor().select(nr_iowait=v)),
    ("state", GovernorError, lambda v: governor().reflect(v, 1_000)),
    ("now_ns", ValueError, Pelt),
    ("now_ns", ValueError, lambda v: Pelt().update(v, running=True)),
    ("weight", ValueError, lambda v: Pelt().update(1 << 20, running=True, weight=v)),
    ("cpu", ValueError, lambda v: CpuPri(machine="generic").set(v, 99)),
    ("prio", ValueError, lambda v: CpuPri(machine="generic").set(0, v)),
    ("prio", ValueError, lambda v: CpuPri(machine="generic").find(v)),
    ("this_cpu", ValueError, lambda v: CpuPri(machine="generic").find(0, this_cpu=v)),
    ("group", ValueError, lambda v: cpupri.contention("global", machine="generic", group=v)),
    ("think_us", ValueError, lambda v: cpupri.contention("global", think_us=v)),
    ("rounds", ValueError, lambda v: cpupri.contention("global", machine="generic", rounds=v)),
    ("seed", ValueError, lambda v: cpupri.contention("global", machine="generic", seed=v)),
    ("cpus", ValueError, lambda v: list(cpupri.scaling(cpus=[v]))),
    ("duration_ms", ValueError, lambda v: list(cpupri.measure(duration_ms=v))),
    ("hz", ReplayError, lambda v: idle_governors(MENU, "simidle", ["menu"], hz=v)),
    ("cpu", ReplayError, explain),
    ("period", ReplayError, lambda v: explain(0, v)),
    ("time_ns", ReplayError, lambda v: explain(0, None, v)),
    ("hz", ReplayError, lambda v: TracedTasks(MENU, "simidle", hz=v)),
    ("tolerance_pct", ReplayError, lambda v: tasks().folded(v)),
    ("tolerance_pct", ReplayError, lambda v: tasks().to_rt_app(v)),
    ("seed", WorkloadError, lambda v: tasks().simulate("v6.1", seed=v)),
    ("intervals_max", TraceError, lambda v: read_trace(MENU).timeline(intervals_max=v)),
    ("jobs", StudyError, lambda v: run_study("idlest-group-util", jobs=v)),
    ("jobs", StudyError, lambda v: run_sweep("docs/plans/ticks.toml", jobs=v)),
    ("trials", StudyError, lambda v: tune_study("idlest-group-util", [], [], trials=v)),
    ("iterations", StudyError, lambda v: tune_study("idlest-group-util", [], [], iterations=v)),
    ("fresh", StudyError, lambda v: tune_study("idlest-group-util", [], [], fresh=v)),
]


@pytest.mark.parametrize("value", [-1, HUGE])
@pytest.mark.parametrize(("name", "error", "call"), CALLS)
def test_a_number_out_of_range_is_refused_by_its_name(
    name: str, error: type[ValueError], call: Callable[[Any], object], value: int
) -> None:
    with pytest.raises(error, match=rf"^{name} is {value}; give \d+ to \d+$"):
        call(value)


@pytest.mark.parametrize("name", ["sleep_length_ns", "delta_next_ns", "latency_limit_ns"])
def test_times_that_may_lie_in_the_past_end_where_the_kernel_s_do(name: str) -> None:
    select: Callable[..., object] = governor().select
    select(**{name: -1})
    with pytest.raises(GovernorError, match=f"{name} is -{HUGE}; give -9223372036854775808 to "):
        select(**{name: -HUGE})
    with pytest.raises(GovernorError, match=f"residency_ns is {HUGE}; give "):
        governor().reflect(0, HUGE)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_pause_that_is_no_time_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=f"think_us is {value}; give 0 to 1000000"):
        cpupri.contention("global", think_us=value)


def test_no_ticks_at_all_are_refused() -> None:
    with pytest.raises(ReplayError, match="hz is 0; give 1 to 100000"):
        idle_governors(MENU, "simidle", ["menu"], hz=0)


class Overflows(Governor):
    """Fails in the user's own code, which is not the library's to explain."""

    def select(self, states: object, view: object) -> tuple[int, bool]:
        del states, view
        raise OverflowError("of my own")


def test_a_governor_s_own_overflow_stays_its_own() -> None:
    with pytest.raises(GovernorError, match="of my own"):
        simulate("periodic", duration_s=0.01, governor=Overflows)
