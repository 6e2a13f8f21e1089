"""Makes the texts of one run from those that a plan begins with and what its axes set.

A worker does this for every run, so documents are read once and written without looks: a machine
of some hundred lines takes less than a millisecond.
"""

from __future__ import annotations

import copy
import hashlib
import json
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from schedlab.kernel import Kernel
from schedlab.machine import Machine
from schedlab.simulation import WorkloadText
from schedlab.study.plan import start_within, texts
from schedlab.study.reading import StudyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schedlab.study.model import Study

__all__ = ["Ready", "Recipe", "dumps"]

# Texts of machines and kernels that a worker keeps ready: a sample sets other values each time.
KEPT = 256


@dataclass(frozen=True)
class Recipe:
    """What a plan's runs begin with, as text: it goes to every worker."""

    machines: Mapping[str, str]
    """By machine and workload, as ``MACHINE/WORKLOAD``."""
    kernels: Mapping[str, str]
    """By kernel and workload."""
    workloads: Mapping[str, tuple[str, str]]
    """What errors call it, and the text."""
    durations_s: Mapping[str, float]

    @classmethod
    def of(cls, study: Study, *, small: bool) -> Recipe:
        """Take what a study's parameters make of its machines, kernels and workloads.

        Raises what loading them raises.
        """
        machines, kernels, workloads = texts(study, small=small)
        return cls(
            {f"{name}/{case}": text for (name, case), text in machines.items()},
            {f"{name}/{case}": text for (name, case), text in kernels.items()},
            {name: (workload.path, workload.text) for name, workload in workloads.items()},
            {
                case.name: case.small_duration_s if small else case.duration_s
                for case in study.cases
            },
        )

    def body(self) -> dict[str, Any]:
        """Give it for JSON."""
        return {
            "machines": dict(self.machines),
            "kernels": dict(self.kernels),
            "workloads": {name: list(each) for name, each in self.workloads.items()},
            "durations_s": dict(self.durations_s),
        }

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Recipe:
        """Read it back."""
        workloads = {name: (path, text) for name, (path, text) in body["workloads"].items()}
        return cls(body["machines"], body["kernels"], workloads, body["durations_s"])

    def digests(self) -> dict[str, str]:
        """Give a digest of each text, by ``machine/``, ``kernel/`` or ``workload/`` and its name.

        A kernel's comments and name do not count; a machine's text is canonical already.
        """
        found = {f"machine/{name}": _digest(text) for name, text in self.machines.items()}
        for name, text in self.kernels.items():
            settings = Kernel.parse(text, name).settings()
            found[f"kernel/{name}"] = _digest(json.dumps(settings, sort_keys=True))
        for name, (path, text) in self.workloads.items():
            kind = "rt-app" if path.endswith(".json") else "toml"
            found[f"workload/{name}"] = _digest(f"{kind}\n{text}")
        return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Ready:
    """A run that can be simulated."""

    machine: Machine
    kernel: Kernel
    workload: WorkloadText
    duration_s: float
    start_ns: int


class Kitchen:
    """Makes runs of a recipe, and keeps what several of them share."""

    def __init__(self, recipe: Recipe) -> None:
        """Read each text once."""
        self._recipe = recipe
        self._documents: dict[str, dict[str, Any]] = {}
        self._machine = lru_cache(KEPT)(self._make_machine)
        self._kernel = lru_cache(KEPT)(self._make_kernel)
        self._workload = lru_cache(KEPT)(self._make_workload)

    def ready(
        self, machine: str, workload: str, kernel: str, settings: Mapping[str, Any], seed: int
    ) -> Ready:
        """Make a run.

        Raises :class:`schedlab.StudyError` for a setting that is not there, and what parsing the
        texts raises.
        """
        rooms: dict[str, dict[str, Any]] = {"machine": {}, "kernel": {}, "workload": {}}
        duration_s = self._recipe.durations_s[workload]
        for target, value in settings.items():
            room, _, rest = target.partition(".")
            if target == "duration_s":
                duration_s = float(value)
            elif room == "workload":
                rooms[room][rest.removeprefix(f"{workload}.")] = value
            else:
                rooms[room][rest] = value
        found, hz = self._kernel(f"{kernel}/{workload}", _frozen(rooms["kernel"]))
        return Ready(
            machine=self._machine(f"{machine}/{workload}", _frozen(rooms["machine"])),
            kernel=found,
            workload=self._workload(workload, _frozen(rooms["workload"])),
            duration_s=duration_s,
            start_ns=start_within(1_000_000_000 // hz, seed),
        )

    def _document(self, room: str, name: str, text: str) -> dict[str, Any]:
        key = f"{room}/{name}"
        if key not in self._documents:
            self._documents[key] = tomllib.loads(text)
        return copy.deepcopy(self._documents[key])

    def _make_machine(self, name: str, settings: str) -> Machine:
        text = self._recipe.machines[name]
        if settings != "{}":
            text = self._set("machine", name, text, settings)
        return Machine.parse(text, name.partition("/")[0])

    def _make_kernel(self, name: str, settings: str) -> tuple[Kernel, int]:
        text = self._recipe.kernels[name]
        if settings != "{}":
            text = self._set("kernel", name, text, settings)
        hz: int = tomllib.loads(text)["tick"]["hz"]
        return Kernel.parse(text, name.partition("/")[0]), hz

    def _make_workload(self, name: str, settings: str) -> WorkloadText:
        path, text = self._recipe.workloads[name]
        if settings == "{}":
            return WorkloadText(name, path, text)
        if path.endswith(".json"):
            raise StudyError(f"workload {name} is rt-app JSON, which has no options to set")
        options = {f"options.{key}": value for key, value in json.loads(settings).items()}
        return WorkloadText(name, path, self._set("workload", name, text, json.dumps(options)))

    def _set(self, room: str, name: str, text: str, settings: str) -> str:
        document = self._document(room, name, text)
        for target, value in json.loads(settings).items():
            _put(document, target, value, f"{room} {name.partition('/')[0]}")
        return dumps(document)


def _frozen(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def _put(document: dict[str, Any], target: str, value: Any, what: str) -> None:
    """Set a value at its path: keys of tables, names or numbers in arrays.

    >>> document = {"smt": {"power": [1.0, 1.15]}, "core_type": [{"name": "big", "capacity": 1}]}
    >>> _put(document, "smt.power.1", 1.3, "machine m")
    >>> _put(document, "core_type.big.capacity", 2, "machine m")
    >>> document
    {'smt': {'power': [1.0, 1.3]}, 'core_type': [{'name': 'big', 'capacity': 2}]}
    """
    *parents, key = target.split(".")
    place: Any = document
    for parent in parents:
        if isinstance(place, list):
            place = place[_index(place, parent, target, what)]
        elif isinstance(place, dict):
            place = place.setdefault(parent, {})
    if isinstance(place, list):
        place[_index(place, key, target, what)] = value
    elif isinstance(place, dict):
        place[key] = value
    else:
        raise StudyError(f"{what} has a value where {target} names a section")


def _index(values: list[Any], name: str, target: str, what: str) -> int:
    for index, value in enumerate(values):
        if isinstance(value, dict) and value.get("name") == name:
            return index
    if name.isdecimal() and int(name) < len(values):
        return int(name)
    raise StudyError(f"{what} has no {name} in the array that {target} names")


def dumps(document: Mapping[str, Any]) -> str:
    r"""Write TOML, each key of the top in one line.

    >>> dumps({"name": "x", "smt": {"power": [1.0, 2]}, "a b": True})
    'name = "x"\nsmt = {power = [1.0, 2]}\n"a b" = true\n'
    """
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in document.items())


def _key(key: str) -> str:
    plain = key.replace("_", "").replace("-", "")
    return key if plain.isascii() and plain.isalnum() else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        # JSON escapes as TOML does, but for a pair of surrogates, which TOML does not know.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
