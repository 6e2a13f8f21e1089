"""A trace's idle periods under other idle governors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from schedlab import _schedlab
from schedlab._schedlab import GovernorSource, ReplayError
from schedlab.machine import Machine
from schedlab.names import check_governor
from schedlab.ranges import HZ, U32, U64, check_range
from schedlab.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from os import PathLike

    import polars as pl

    from schedlab.governor import Governor

    AnyGovernor = str | GovernorSource | Callable[[], Governor]
    """A governor's name, a file of C, or what makes one: a class, above all."""

Figures = dict[str, Any]

# Agreement from which on a governor counts as the one that was traced.
TRACED_FROM_PCT = 99.0


class Explained(NamedTuple):
    """An idle period that is to be explained: a CPU, and a number or a time on it."""

    cpu: int
    """Its CPU."""
    period: int | None = None
    """Its number on that CPU, from 0."""
    time_ns: int | None = None
    """A time within it, ns of the trace's clock."""


class Replay(NamedTuple):
    """What a replay of a trace's idle periods tells."""

    report: Figures
    """The figures; see :func:`replay`."""
    periods: pl.DataFrame | None
    """A row per idle period and governor with what went in and what came out, if asked for; of one
    that is explained, ``why`` tells in sentences, a line each."""


class Guess(NamedTuple):
    """Which machine a trace may have been taken on."""

    machine: Machine | None
    """The machine, or ``None`` if even the generic one is too small."""
    cpus: int
    """CPUs that the trace shows."""
    alike: list[str]
    """The built-in machines that have as many."""


def governor_names() -> list[str]:
    """Name every governor.

    >>> governor_names()[:4]
    ['menu-6.1', 'menu-6.12', 'teo-6.1', 'teo-6.12']
    """
    return [name for name, _ in _schedlab.governor_names()]


def replay(
    path: str | PathLike[str],
    machine: Machine,
    governors: Sequence[AnyGovernor] | None = None,
    *,
    hz: int | None = None,
    periods: bool = False,
    explain: Explained | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Replay a trace's idle periods under governors; all of the kernel's by default.

    A governor is a name, a :class:`schedlab.GovernorSource`, or a class derived from
    :class:`schedlab.Governor`.

    The report has the traced governor's own figures under ``traced`` and those of each governor
    under ``governors``, by the name that it was asked for: ``periods``, ``too_deep_pct``,
    ``too_shallow_pct``, ``state_share_pct``, ``exit_latency_us`` (mean over wake-ups of a task),
    ``idle_energy_mj``, ``agreement_pct`` (how often it chooses the traced state, given the traced
    past; ``None`` without ``cpu_idle`` events) and ``estimated_pct``. ``traced_governor`` is the
    governor whose agreement says that it was the traced one, or ``None``, also where the machine
    has one state.

    Raises :class:`schedlab.GovernorError` for a governor that there is not, and
    :class:`schedlab.ReplayError` or :class:`schedlab.TraceError` for a trace that cannot be used.

    >>> machine = Machine.load("simidle")
    >>> report = replay("tests/data/traces/qemu_idle_menu.dat", machine, ["menu", "teo"]).report
    >>> report["traced_governor"], report["governors"]["menu"]["agreement_pct"] > 99.5
    ('menu', True)
    """
    asked = list(dict.fromkeys(governors)) if governors else list(governor_names())
    for one in asked:
        if isinstance(one, str):
            check_governor(one)
    check_range("hz", hz, HZ, ReplayError)
    if explain is not None:
        for field, value, allowed in zip(Explained._fields, explain, (U32, U64, U64), strict=False):
            check_range(field, value, allowed, ReplayError)
    tick_ns = None if hz is None else (1_000_000_000 + hz // 2) // hz
    report, table = _schedlab.idle_replay(
        Path(path),
        machine.native,
        asked,
        tick_ns=tick_ns,
        rows=periods or explain is not None,
        explain=explain,
        progress=progress,
    )
    labels = _state_labels(machine, report)
    names = _distinct(
        one if isinstance(one, str) else found["governor"]
        for one, found in zip(asked, report["governors"], strict=True)
    )
    figures = {
        name: _labelled(found, labels)
        for name, found in zip(names, report["governors"], strict=True)
    }
    whole: Figures = {
        "machine": machine.name,
        "duration_s": report["duration_s"],
        "tick_ns": report["tick_ns"],
        "event_cost_ns": report["event_cost_ns"],
        "coverage": report["coverage"],
        "wakes": report["wakes"],
        "traced": _labelled(report["traced"], labels),
        # All governors agree about the only state.
        "traced_governor": _traced_governor(figures) if len(labels) > 1 else None,
        "governors": figures,
    }
    traced_us = whole["traced"]["exit_latency_us"]
    for found in figures.values():
        known = whole["traced"]["periods"] > 0
        found["extra_exit_latency_us"] = found["exit_latency_us"] - traced_us if known else None
    return Replay(whole, None if table is None else _frame(table))


def idle_governors(
    trace: Trace | str | PathLike[str],
    machine: Machine | str | None = None,
    governors: Sequence[AnyGovernor] | None = None,
    *,
    hz: int | None = None,
) -> pl.DataFrame:
    """Tell what each governor would have done with a trace's idle periods, a row each.

    The first row is the traced governor. Columns and ``governors`` are as in
    :func:`schedlab.idle.replay`. Without a machine, it is :func:`guess_machine`'s.

    >>> trace = "tests/data/traces/qemu_idle_menu.dat"
    >>> frame = idle_governors(trace, "simidle", ["menu", "ladder"])
    >>> frame.select("governor", "periods").rows()
    [('traced', 4062), ('menu', 4048), ('ladder', 3108)]
    """
    import polars as pl  # noqa: PLC0415 - a second of imports that most callers do not need

    path = trace.path if isinstance(trace, Trace) else trace
    loaded = Machine.load(machine) if isinstance(machine, str) else machine
    loaded = loaded or guess_machine(path)
    if loaded is None:
        raise ReplayError(f"{path}: no built-in machine fits the trace; name the traced one")
    report = replay(path, loaded, governors, hz=hz).report
    rows = [{"governor": "traced", **report["traced"]}]
    rows += [{**found, "governor": name} for name, found in report["governors"].items()]
    columns = {
        "governor": pl.String,
        "periods": pl.UInt64,
        "too_deep_pct": pl.Float64,
        "too_shallow_pct": pl.Float64,
        "exit_latency_us": pl.Float64,
        "extra_exit_latency_us": pl.Float64,
        "idle_energy_mj": pl.Float64,
        "agreement_pct": pl.Float64,
        "estimated_pct": pl.Float64,
    }
    shares = [row["state_share_pct"] for row in rows]
    frame = pl.DataFrame(
        [{name: row.get(name) for name in columns} for row in rows], schema=columns
    )
    states = list(dict.fromkeys(name for share in shares for name in share))
    return frame.with_columns(
        pl.Series(f"{name}_pct", [share.get(name) for share in shares], dtype=pl.Float64)
        for name in states
    )


def periods(
    trace: Trace | str | PathLike[str],
    machine: Machine | str,
    governors: Sequence[AnyGovernor] | None = None,
    *,
    hz: int | None = None,
) -> pl.DataFrame:
    """Tell what each governor saw and chose at each traced idle period.

    ``traced_state`` and ``chosen_state`` differ where the governor disagrees; ``sleep_length_ns``
    and ``delta_next_ns`` are what ``tick_nohz_get_sleep_length()`` told it, counted from
    ``entry_ns``; ``memory`` is its internal state when it had decided.

    >>> frame = periods("tests/data/traces/qemu_idle_menu.dat", "simidle", ["menu"])
    >>> frame.select("cpu", "traced_state", "chosen_state", "wake").row(100)
    (1, 4, 4, 'tick')
    """
    path = trace.path if isinstance(trace, Trace) else trace
    loaded = Machine.load(machine) if isinstance(machine, str) else machine
    found = replay(path, loaded, governors, hz=hz, periods=True).periods
    if found is None:
        raise AssertionError
    return found


def guess_machine(path: str | PathLike[str]) -> Machine | None:
    """Guess the built-in machine that a trace was taken on; see :func:`guess`.

    >>> guess_machine("tests/data/traces/qemu_idle_menu.dat")
    <Machine simidle: 4 CPUs>
    """
    return guess(path).machine


def guess(path: str | PathLike[str]) -> Guess:
    """Guess the built-in machine that a trace was taken on, and tell how good the guess is.

    It is the one with as many CPUs as the trace and as many idle states as the trace enters, if
    there is just one; else the generic machine, if the trace fits it; else none. A trace that
    enters one state only, as kernels without a cpuidle driver do, tells nothing of the machine's
    states.

    >>> guess("tests/data/traces/qemu_idle_menu.dat")
    Guess(machine=<Machine simidle: 4 CPUs>, cpus=4, alike=['simidle', 'qemu4'])
    """
    trace = Trace(path, keep_events=False)
    entered: set[int] = set(trace.idle_states()["state"])
    states = 1 + max(entered, default=-1)
    cpus = 1 + max(trace.info["cpus"], default=0)
    alike = [each for each in map(Machine.load, Machine.names()) if each.cpu_count == cpus]
    exact = [machine for machine in alike if _state_counts(machine) == {states}]
    names = [machine.name for machine in alike]
    if len(exact) == 1 and len(entered) > 1:
        return Guess(exact[0], cpus, names)
    generic = Machine.load("generic")
    fits = cpus <= generic.cpu_count and states <= min(_state_counts(generic))
    return Guess(generic if fits else None, cpus, names)


def _state_counts(machine: Machine) -> set[int]:
    return {len(kind["idle_states"]) for kind in machine.to_dict()["cpu_types"]}


def _state_labels(machine: Machine, report: Figures) -> list[str]:
    """Name the states: by name where all kinds of CPUs agree, else by number."""
    kinds = [
        [state["name"] for state in kind["idle_states"]] for kind in machine.to_dict()["cpu_types"]
    ]
    found = [report["traced"], *report["governors"]]
    count = max(len(figures["state_share_pct"]) for figures in found)
    labels = []
    for index in range(count):
        names = {kind[index] for kind in kinds if index < len(kind)}
        labels.append(names.pop() if len(names) == 1 else str(index))
    # Names need not be unique within a machine.
    return labels if len(set(labels)) == count else [str(index) for index in range(count)]


def _distinct(names: Iterable[str]) -> list[str]:
    """Give numbers to names that come twice, as two classes may share one."""
    found: list[str] = []
    for name in names:
        twins = sum(one == name or one.startswith(f"{name} (") for one in found)
        found.append(f"{name} ({twins + 1})" if twins else name)
    return found


def _labelled(found: Figures, labels: list[str]) -> Figures:
    named = {
        key: dict(zip(labels, found[key], strict=False))
        for key in ("state_share_pct", "state_time_pct")
    }
    return {**found, **named}


def _traced_governor(figures: Figures) -> str | None:
    agreeing = [
        (found["agreement_pct"], name)
        for name, found in figures.items()
        if (found["agreement_pct"] or 0) >= TRACED_FROM_PCT
    ]
    # Of equals the later release: a kernel is more likely new than old.
    best = max((pct for pct, _ in agreeing), default=None)
    return next((name for pct, name in reversed(agreeing) if pct == best), None)


def _frame(table: _schedlab.Table) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415 - see idle_governors

    return pl.DataFrame(table)
