"""Idle governors on their own, for notebooks and parity tests.

Each class is one governor of the kernel, serving one CPU. Ask it with :meth:`Governor.select`, tell
it how the sleep went with :meth:`Governor.reflect`, as the kernel's idle loop does.

>>> from schedlab import Machine
>>> governor = Teo(Machine.load("simidle"))
>>> governor.select(sleep_length_ns=50_000_000)
Choice(state=5, stop_tick=True)
>>> governor.reflect(5, residency_ns=300_000, now_ns=310_000)
>>> governor.select(sleep_length_ns=50_000_000, now_ns=1_000_000)
Choice(state=3, stop_tick=True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from schedlab._schedlab import Governor as _Native
from schedlab._schedlab import GovernorError
from schedlab.machine import Machine
from schedlab.names import check_governor
from schedlab.ranges import I64, U32, U64, bounded, check_range

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Choice",
    "Governor",
    "Haltpoll",
    "IdleState",
    "Idleutil",
    "Ladder",
    "Menu",
    "Teo",
    "TeoUtil",
]

# A timer that never comes (KTIME_MAX).
NEVER_NS = (1 << 63) - 1


class IdleState(NamedTuple):
    """An idle state as a governor sees it."""

    exit_latency_ns: int
    target_residency_ns: int
    polling: bool = False
    disabled: bool = False


class Choice(NamedTuple):
    """A governor's answer."""

    state: int
    """Number of the chosen state, shallowest 0."""
    stop_tick: bool
    """The tick may stop."""


class Governor:
    """An idle governor of one CPU, by its name; see ``schedlab.idle.governor_names()``.

    ``states`` are idle states, shallowest first, or a machine, whose ``cpu`` is served. Without
    ``tick_ns`` the tick is the machine's, or else 4 ms (HZ=250).

    >>> states = [IdleState(1_000, 1_000), IdleState(455_000, 3_500_000)]
    >>> governor = Governor("menu-6.12", states)
    >>> governor.select(sleep_length_ns=50_000_000)
    Choice(state=1, stop_tick=True)
    >>> governor.reflect(1, residency_ns=20_000)
    """

    @bounded(GovernorError, tick_ns=U64, capacity=U64)
    def __init__(
        self,
        name: str,
        states: Machine | Sequence[IdleState],
        *,
        cpu: int = 0,
        tick_ns: int | None = None,
        capacity: int | None = None,
    ) -> None:
        """Make a governor that has seen nothing yet.

        Raises :class:`schedlab.GovernorError` for a name that no governor has.
        """
        check_governor(name)
        if isinstance(states, Machine):
            check_range("cpu", cpu, (0, states.cpu_count - 1), GovernorError)
            rows = states.cpus.row(cpu, named=True)
            kind = states.to_dict()["cpu_types"]
            mine = next(entry for entry in kind if entry["name"] == rows["cpu_type"])
            tick_ns = tick_ns or (1_000_000_000 + states.hz // 2) // states.hz
            capacity = capacity or mine["capacity"]
            states = [
                IdleState(
                    state["governor_exit_latency_ns"],
                    state["target_residency_ns"],
                    state["polling"],
                    state["disabled"],
                )
                for state in mine["idle_states"]
            ]
        self.states = list(states)
        for state in self.states:
            check_range("exit_latency_ns", state.exit_latency_ns, U64, GovernorError)
            check_range("target_residency_ns", state.target_residency_ns, U64, GovernorError)
        self._native = _Native(
            name,
            [
                (s.exit_latency_ns, s.target_residency_ns, s.polling, s.disabled)
                for s in self.states
            ],
            tick_ns or 4_000_000,
            capacity or 1024,
        )

    @property
    def name(self) -> str:
        """The governor's full name."""
        return self._native.name

    @property
    def source(self) -> str:
        """The code that it follows, or that there is none."""
        return self._native.source

    @bounded(
        GovernorError,
        sleep_length_ns=I64,
        delta_next_ns=I64,
        now_ns=U64,
        latency_limit_ns=I64,
        cpu_util=U64,
        nr_iowait=U32,
    )
    def select(
        self,
        sleep_length_ns: int = NEVER_NS,
        delta_next_ns: int | None = None,
        *,
        now_ns: int = 0,
        latency_limit_ns: int | None = None,
        tick_stopped: bool = False,
        cpu_util: int = 0,
        nr_iowait: int = 0,
    ) -> Choice:
        """Choose a state for the sleep that begins now (``->select()``).

        ``sleep_length_ns`` is the time to the next timer with the tick left aside,
        ``delta_next_ns`` with the tick (by default the same), as ``tick_nohz_get_sleep_length()``
        tells; ``now_ns`` is ``local_clock()``.
        """
        delta_ns = sleep_length_ns if delta_next_ns is None else delta_next_ns
        return Choice(
            *self._native.select(
                sleep_length_ns,
                delta_ns,
                now_ns=now_ns,
                latency_limit_ns=latency_limit_ns,
                tick_stopped=tick_stopped,
                cpu_util=cpu_util,
                nr_iowait=nr_iowait,
            )
        )

    @bounded(GovernorError, residency_ns=I64, now_ns=U64)
    def reflect(
        self,
        state: int,
        residency_ns: int,
        *,
        now_ns: int = 0,
        got_tick: bool = False,
        poll_time_limit: bool = False,
    ) -> None:
        """Tell how the sleep in ``state`` went (``->reflect()``)."""
        check_range("state", state, (0, len(self.states) - 1), GovernorError)
        self._native.reflect(
            state,
            residency_ns,
            now_ns=now_ns,
            got_tick=got_tick,
            poll_time_limit=poll_time_limit,
        )

    def reject(self) -> None:
        """Tell, instead of :meth:`reflect`, that the driver refused the state."""
        self._native.reject()

    @property
    def memory(self) -> dict[str, int | list[int]]:
        """The governor's internal state, named as in the kernel.

        >>> Menu([IdleState(1, 1), IdleState(2, 2)]).memory["correction_factor"]
        [8192, 8192, 8192, 8192, 8192, 8192]
        """
        found: dict[str, int | list[int]] = {}
        for name, place, value in self._native.memory():
            if place is None:
                found[name] = value
            else:
                values = found.setdefault(name, [])
                if isinstance(values, list):
                    values.append(value)
        return found

    def __repr__(self) -> str:
        """Name the governor.

        >>> Ladder([IdleState(1, 1)])
        <Governor ladder-6.12>
        """
        return f"<Governor {self.name}>"


class _OfRelease(Governor):
    """A governor that differs between releases."""

    family: ClassVar[str]

    def __init__(
        self,
        states: Machine | Sequence[IdleState],
        *,
        release: str = "6.12",
        cpu: int = 0,
        tick_ns: int | None = None,
        capacity: int | None = None,
    ) -> None:
        """Make the governor of a kernel release, 6.1 or 6.12."""
        super().__init__(
            f"{self.family}-{release}", states, cpu=cpu, tick_ns=tick_ns, capacity=capacity
        )


class Menu(_OfRelease):
    """``menu``: the next timer times a learnt correction, or a repeating interval.

    >>> Menu([IdleState(1_000, 1_000), IdleState(50_000, 200_000)], release="6.1").select(100_000)
    Choice(state=0, stop_tick=True)
    """

    family = "menu"


class Teo(_OfRelease):
    """``teo``: the next timer, unless most wake-ups came before it.

    >>> Teo([IdleState(1_000, 1_000), IdleState(50_000, 200_000)]).select(100_000)
    Choice(state=0, stop_tick=False)
    """

    family = "teo"


class Ladder(_OfRelease):
    """``ladder``: one state deeper after four long sleeps, one shallower after a short one.

    >>> Ladder([IdleState(1_000, 1_000), IdleState(50_000, 200_000)]).select()
    Choice(state=0, stop_tick=True)
    """

    family = "ladder"


class Haltpoll(_OfRelease):
    """``haltpoll``: poll before halting, for a time that adapts.

    >>> Haltpoll([IdleState(0, 0, polling=True), IdleState(1_000, 1_000)]).select()
    Choice(state=1, stop_tick=True)
    """

    family = "haltpoll"


class TeoUtil(Governor):
    """``teo_util``: teo of 6.1, one state shallower on a utilised CPU.

    >>> states = [IdleState(1_000, 1_000), IdleState(50_000, 200_000), IdleState(90_000, 900_000)]
    >>> TeoUtil(states).select(5_000_000, cpu_util=500)
    Choice(state=1, stop_tick=True)
    """

    def __init__(
        self,
        states: Machine | Sequence[IdleState],
        *,
        version: str = "v2",
        cpu: int = 0,
        tick_ns: int | None = None,
        capacity: int | None = None,
    ) -> None:
        """Make the governor of the published report, v2, or as merged in 6.3, v6."""
        super().__init__(f"teo_util-{version}", states, cpu=cpu, tick_ns=tick_ns, capacity=capacity)


class Idleutil(Governor):
    """``idleutil``: a reconstruction from its published description; no code was published.

    >>> Idleutil([IdleState(1_000, 1_000), IdleState(50_000, 200_000)]).select(300_000)
    Choice(state=1, stop_tick=False)
    """

    def __init__(
        self,
        states: Machine | Sequence[IdleState],
        *,
        cpu: int = 0,
        tick_ns: int | None = None,
        capacity: int | None = None,
    ) -> None:
        """Make the governor."""
        super().__init__("idleutil", states, cpu=cpu, tick_ns=tick_ns, capacity=capacity)
