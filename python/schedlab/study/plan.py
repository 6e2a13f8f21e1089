"""Turns a study into runs: every machine, workload, kernel and iteration, and each run's key."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomlkit

from schedlab import _schedlab
from schedlab._schedlab import KernelError, MachineError, WorkloadError
from schedlab.kernel import Kernel
from schedlab.machine import Machine
from schedlab.names import near
from schedlab.simulation import WorkloadText, duration_to_ns, load_workload
from schedlab.study.reading import StudyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from schedlab.study.model import Case, KernelChoice, Parameter, Study

__all__ = ["Run", "Turn", "options_of", "plan", "program", "start_within", "texts", "words_of"]

# What a run yields and how it is stored; another number makes older runs unknown.
FORMAT = 4

# An error of a text that was made for a run names a line that nobody has seen.
_LINE = re.compile(r"^([^:\n]+):\d+: ")


@dataclass(frozen=True)
class Run:
    """One run, self-contained: all that determines it, as text and numbers."""

    machine: str
    """The machine's name."""
    machine_toml: str
    kernel: str
    """The kernel's name in the study."""
    kernel_toml: str
    workload: WorkloadText
    duration_s: float
    seed: int
    start_ns: int
    """When the workload starts, against the machine's ticks: drawn from the seed."""
    iteration: int
    place: str = ""
    """File and line of the workload's options in the study, if they alone are to blame for it."""

    @property
    def key(self) -> str:
        """Digest of all that determines the run, the program included."""
        parts = {
            "format": FORMAT,
            "program": program(),
            "machine": self.machine_toml,
            "kernel": Kernel.parse(self.kernel_toml).settings(),
            "workload": [Path(self.workload.path).suffix, self.workload.text],
            "duration_ns": duration_to_ns(self.duration_s),
            "seed": self.seed,
            "start_ns": self.start_ns,
        }
        text = json.dumps(parts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Turn:
    """A knob that is turned for a negative control."""

    target: str
    factor: float
    value: Any = None
    """What it is turned to, if not by the factor."""


@cache
def program() -> str:
    """Name the program's version, and by a digest the code that simulates."""
    code = Path(str(_schedlab.__file__)).read_bytes()
    return f"{_schedlab.__version__}+{hashlib.sha256(code).hexdigest()[:16]}"


def plan(study: Study, *, small: bool = False, turn: Turn | None = None) -> list[Run]:
    """List the runs of a study, those of one iteration together.

    All kernels of one iteration share its seed and its start: common random numbers.

    Raises what loading a machine, kernel or workload raises, and :class:`schedlab.StudyError` for a
    target that is not there.
    """
    machines, kernels, workloads = texts(study, small=small, turn=turn)
    runs = []
    for iteration in range(study.small_iterations if small else study.iterations):
        seed = study.seed + iteration
        for (machine, name), machine_toml in machines.items():
            case = study.case(name)
            for kernel in study.kernels:
                kernel_toml = kernels[kernel.name, name]
                runs.append(
                    Run(
                        machine=machine,
                        machine_toml=machine_toml,
                        kernel=kernel.name,
                        kernel_toml=kernel_toml,
                        workload=workloads[name],
                        duration_s=case.small_duration_s if small else case.duration_s,
                        seed=seed,
                        start_ns=start_within(_tick_ns(kernel_toml), seed),
                        iteration=iteration,
                        place=options_of(study, case),
                    )
                )
    return runs


def texts(
    study: Study, *, small: bool = False, turn: Turn | None = None
) -> tuple[dict[tuple[str, str], str], dict[tuple[str, str], str], dict[str, WorkloadText]]:
    """Give the text of each machine and workload, each kernel and workload, and each workload.

    Raises as :func:`plan`.
    """
    parameters = study.parameters
    machines = {
        (name, case.name): _machine_toml(study, name, case, turn)
        for case in study.cases
        for name in study.machines_of(case)
    }
    kernels = {
        (kernel.name, case.name): _kernel_toml(kernel, case, parameters, turn)
        for case in study.cases
        for kernel in study.kernels
    }
    workloads = {case.name: _workload(case, parameters, turn, small=small) for case in study.cases}
    return machines, kernels, workloads


def options_of(study: Study, case: Case) -> str:
    """Give file and line of a workload's options; empty where parameters set some, too.

    Parameters stand elsewhere, and so does a knob that is turned.
    """
    own = _for_room(f"workload.{case.name}", study.parameters)
    return case.options_place if case.options and not own else ""


@contextlib.contextmanager
def _at(place: str) -> Iterator[None]:
    """Name file and line of a study or plan in what loading something that it names raises."""
    try:
        yield
    except (KernelError, MachineError, StudyError, WorkloadError) as error:
        raise type(error)(f"{place}: {words_of(error)}" if place else str(error)) from None


def words_of(error: Exception) -> str:
    """Give an error's text without a line of a text that was made for a run."""
    return _LINE.sub(r"\1: ", str(error))


def start_within(tick_ns: int, seed: int) -> int:
    """Draw when a run starts within a tick.

    >>> start_within(4_000_000, 1) == start_within(4_000_000, 1) < 4_000_000
    True
    """
    digest = hashlib.sha256(f"start {seed}".encode()).digest()
    return int.from_bytes(digest[:8], "little") % tick_ns


def _tick_ns(kernel_toml: str) -> int:
    hz: int = tomllib.loads(kernel_toml)["tick"]["hz"]
    return 1_000_000_000 // hz


def _machine_toml(study: Study, name: str, case: Case, turn: Turn | None) -> str:
    with _at(study.machines_place):
        machine = Machine.load(name)
    document = tomlkit.parse(machine.to_toml())
    own = [each for each in study.parameters if name in (each.machines or [name])]
    settings = {**_for_room("machine", own), **case.machine_settings}
    for target, value in settings.items():
        _set(document, target, value, f"machine {name}", create=True)
    if turn is not None and turn.target.startswith("machine."):
        _turn(document, turn, turn.target.removeprefix("machine."), f"machine {name}")
    return load_machine_text(tomlkit.dumps(document), name)


def load_machine_text(text: str, name: str) -> str:
    """Check a machine's text and give it in its canonical form."""
    return Machine.parse(text, f"{name} with the study's parameters").to_toml()


def _kernel_toml(
    choice: KernelChoice, case: Case, parameters: Sequence[Parameter], turn: Turn | None
) -> str:
    if choice.kernel in Kernel.names():
        text = Kernel.preset_toml(choice.kernel)
    else:
        with _at(choice.place):
            Kernel.load(choice.kernel)
        text = Path(choice.kernel).read_text(encoding="utf-8")
    document = tomlkit.parse(text)
    settings = {
        **_for_room("kernel", parameters),
        **choice.settings,
        **case.kernel_settings,
    }
    for target, value in settings.items():
        # Parameters of governors are in no kernel's file, whose parser knows them all.
        create = target.startswith(("cpuidle.", "cpufreq."))
        place = case.place if target in case.kernel_settings else choice.place
        with _at(place if target in {*case.kernel_settings, *choice.settings} else ""):
            _set(document, target, value, f"kernel {choice.kernel}", create=create)
    if turn is not None and turn.target.startswith("kernel."):
        _turn(document, turn, turn.target.removeprefix("kernel."), f"kernel {choice.name}")
    if settings:
        document["name"] = choice.name
        document["description"] = f"{choice.kernel} with {', '.join(settings)}"
    text = tomlkit.dumps(document)
    # What parameters set stands elsewhere.
    own = settings and settings == dict(choice.settings)
    with _at(choice.place if own else ""):
        Kernel.parse(text, f"kernel {choice.name}")
    return text


def _workload(
    case: Case,
    parameters: Sequence[Parameter],
    turn: Turn | None,
    *,
    small: bool,
) -> WorkloadText:
    with _at(case.place):
        base = case.file or load_workload(case.base)
    options: dict[str, Any] = dict(case.options)
    options |= _for_room(f"workload.{case.name}", parameters)
    if small:
        options |= case.small_options
    turned = None
    if turn is not None and turn.target.startswith(f"workload.{case.name}."):
        turned = turn.target.removeprefix(f"workload.{case.name}.")
    if not options and turned is None:
        return base._replace(name=case.name)
    if base.path.endswith(".json"):
        raise StudyError(f"workload {case.name} is rt-app JSON, which has no options to set")
    try:
        document = tomlkit.parse(base.text)
    except tomlkit.exceptions.TOMLKitError as error:
        raise StudyError(f"{base.path}: {error}") from None
    for key, value in options.items():
        _set(document, f"options.{key}", value, f"workload {case.name}", create=True)
    if turn is not None and turned is not None:
        _turn(document, turn, f"options.{turned}", f"workload {case.name}")
    return WorkloadText(case.name, f"{case.name}.toml", tomlkit.dumps(document))


def _for_room(room: str, parameters: Sequence[Parameter]) -> dict[str, Any]:
    prefix = f"{room}."
    return {
        each.target.removeprefix(prefix): each.value
        for each in parameters
        if each.target.startswith(prefix)
    }


def _set(document: Any, target: str, value: Any, what: str, *, create: bool) -> None:
    table, key = _walk(document, target, what, create=create)
    if key not in table and not create:
        raise StudyError(f"{what} has no setting {target}{near(key, list(table))}")
    table[key] = value


def _turn(document: Any, turn: Turn, target: str, what: str) -> None:
    if turn.value is None:
        _scale(document, target, turn.factor, what)
    else:
        _set(document, target, turn.value, what, create=False)


def _scale(document: Any, target: str, factor: float, what: str) -> None:
    table, key = _walk(document, target, what, create=False)
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise StudyError(f"{what} has no number {target} to turn; set it as a parameter")
    table[key] = round(value * factor) if isinstance(value, int) else value * factor


def _walk(document: Any, target: str, what: str, *, create: bool) -> tuple[Any, str]:
    *parents, key = target.split(".")
    table = document
    for parent in parents:
        if isinstance(table, list):
            table = _named(table, parent)
        else:
            if parent not in table and create:
                table[parent] = tomlkit.table()
            table = table.get(parent)
        if not isinstance(table, dict | list):
            raise StudyError(f"{what} has no section {parent}, which {target} names")
    if isinstance(table, list):
        raise StudyError(f"{what}: {target} names an array; name one of its tables before the key")
    return table, key


def _named(tables: list[Any], name: str) -> Any:
    """Give the table of an array that has this name, or this number among them.

    >>> _named([{"name": "little"}, {"name": "big"}], "big")
    {'name': 'big'}
    >>> _named([{"khz": 1}, {"khz": 2}], "1")
    {'khz': 2}
    """
    for table in tables:
        if isinstance(table, dict) and table.get("name") == name:
            return table
    return tables[int(name)] if name.isdecimal() and int(name) < len(tables) else None
