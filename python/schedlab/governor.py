"""A user's own idle governors: as a class in Python, or as a file of C from a kernel tree.

Both can stand wherever a governor's name can: in :func:`schedlab.idle_governors` and in
:func:`schedlab.simulate`.

>>> import schedlab
>>> class Shallow(schedlab.Governor):
...     def select(self, states, view):
...         return 0, False
>>> trace = "tests/data/traces/qemu_idle_menu.dat"
>>> frame = schedlab.idle_governors(trace, "simidle", ["menu", Shallow])
>>> frame["governor"].to_list(), frame["too_deep_pct"].to_list()[-1]
(['traced', 'menu', 'Shallow'], 0.0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab._schedlab import GovernorError, GovernorSource, IdleView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.cpuidle import IdleState

__all__ = ["Governor", "GovernorError", "GovernorSource", "IdleView"]

# More values than this are no memory of a governor but something that it carries along.
VALUES_MAX = 64


class Governor:
    """An idle governor of your own: derive from this, and write :meth:`select`.

    An instance serves one CPU and is made without arguments, so that ``governors=[MyGovernor]``
    is all it takes; ``functools.partial(MyGovernor, threshold=3)`` gives it parameters. In a run
    each CPU has an instance, and :attr:`cpu`, :attr:`tick_ns` and :attr:`capacity` are set before
    :meth:`start` is called.

    A replay sometimes learns only after a decision that the traced kernel knew more, and asks
    again; the instance is copied before (``copy.deepcopy``) and the copy put in its place. So keep
    what you learn in attributes of ``self``.

    What a method raises ends the run with :class:`schedlab.GovernorError`, whose text names class,
    method, file and line, and whose ``__cause__`` is what was raised.

    >>> class Mean(Governor):
    ...     def __init__(self):
    ...         self.slept_ns = [0, 0, 0, 0]
    ...     def select(self, states, view):
    ...         expected_ns = min(view.sleep_length_ns, sum(self.slept_ns) // 4)
    ...         fitting = [s.target_residency_ns <= expected_ns for s in states]
    ...         return max(sum(fitting) - 1, 0), expected_ns >= self.tick_ns
    ...     def reflect(self, states, state, residency_ns, view):
    ...         self.slept_ns = [*self.slept_ns[1:], residency_ns]
    >>> from schedlab import simulate
    >>> simulate("periodic", governor=Mean, duration_s=0.01).governor
    'Mean'
    """

    cpu: int = 0
    """The number of the CPU that this instance serves."""
    tick_ns: int = 4_000_000
    """The length of a tick (``TICK_NSEC``), ns."""
    capacity: int = 1024
    """The CPU's capacity, 1024 for the biggest (``arch_scale_cpu_capacity()``)."""

    def start(self, states: Sequence[IdleState]) -> None:
        """Take over a CPU with these idle states (``->enable()``)."""

    def select(self, states: Sequence[IdleState], view: IdleView) -> int | tuple[int, bool]:
        """Choose a state for the sleep that begins now (``->select()``).

        ``states`` are the CPU's idle states, shallowest first, each with ``exit_latency_ns``,
        ``target_residency_ns``, ``polling`` and ``disabled``. ``view`` tells:

        - ``now_ns``: ``local_clock()``, ns;
        - ``sleep_length_ns``: time to the next timer with the tick left aside, ns, and
          ``delta_next_ns``: the same with the tick (``tick_nohz_get_sleep_length()``);
        - ``latency_limit_ns``: the exit latency that PM QoS allows, ns;
        - ``tick_stopped``: the tick is stopped already;
        - ``cpu_util``: the CPU's utilisation, 0 to :attr:`capacity` (``sched_cpu_util()``);
        - ``nr_iowait``: tasks of this CPU that wait for I/O.

        The answer is a state's number, or that and whether the tick may stop; the number alone
        lets it stop, as the kernel's idle loop presets.
        """
        raise NotImplementedError(f"{type(self).__name__} has no select()")

    def reflect(
        self, states: Sequence[IdleState], state: int, residency_ns: int, view: IdleView
    ) -> None:
        """Learn how the last sleep went (``->reflect()``).

        ``state`` is the one that was really entered and ``residency_ns`` the time in it, exit
        latency included, ns. Beside what :meth:`select` may look at, ``view`` tells ``got_tick``
        (the tick ended the sleep) and ``poll_time_limit`` (a poll ended by its time limit).
        """

    def reject(self) -> None:
        """Take note, instead of :meth:`reflect`, that the state was not entered."""

    def memory(self) -> list[tuple[str, int | None, int]]:
        """Tell what it remembers, as names, places and values, to explain its decisions.

        By default that is every attribute that is a whole number or a list of such.
        """
        found: list[tuple[str, int | None, int]] = []
        for name, value in vars(self).items():
            if isinstance(value, int):
                found.append((name, None, int(value)))
            elif isinstance(value, list) and len(value) <= VALUES_MAX:
                numbers = [(name, place, each) for place, each in enumerate(value)]
                found += [one for one in numbers if isinstance(one[2], int)]
        return found
