"""Plan files: benchmarks, variants of the machine, and how often each runs."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.bench.parse import TOOLS
from schedlab.names import near
from schedlab.study.reading import Reader, StudyError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Benchmark", "Plan", "Variant", "cpu_list", "load", "names", "text_of"]

OWN_TOOL = "rusage"
"""Not a tool's output but the run itself: elapsed, user and system time."""


@dataclass(frozen=True)
class Benchmark:
    """A command and how its output is read."""

    name: str
    tool: str
    case: str
    """Names the rows; what the tool itself tells, by default."""
    command: Sequence[str]
    env: Mapping[str, str]
    metrics: Sequence[str]
    """Figures to keep; all by default."""
    prepare: Sequence[str]
    """A command that runs once before everything, in the work folder."""
    creates: str
    """A file that ``prepare`` makes, and that spares it."""
    timeout_s: float


@dataclass(frozen=True)
class Variant:
    """One state of the machine that is compared."""

    name: str
    set: Mapping[str, str]
    """Settings by name: see :mod:`schedlab.bench.run.settings`."""
    env: Mapping[str, str]
    prefix: Sequence[str]
    """A command that runs the benchmark, such as ``chrt -b 0``."""
    cpus: str
    switch: Sequence[str]
    """A command that brings the machine into this state."""
    scheduler: Sequence[str]
    """A sched_ext scheduler that runs meanwhile."""


@dataclass(frozen=True)
class Plan:
    """What ``bench run`` carries out."""

    name: str
    title: str
    iterations: int
    seed: int
    warmup: int
    """Runs of each benchmark and variant whose results are thrown away."""
    cooldown_s: float
    """Rest before every run."""
    cpus: str
    """CPUs that benchmarks may use; all by default."""
    restore: Sequence[str]
    """A command that undoes every ``switch``."""
    attempts: int
    """How often a failing run is tried before the session ends."""
    benchmarks: Sequence[Benchmark]
    variants: Sequence[Variant]

    @cached_property
    def digest(self) -> str:
        """Name all that determines a run; the number of iterations does not."""
        text = json.dumps(asdict(replace(self, iterations=0, title="")), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def names() -> list[str]:
    """List the built-in plans."""
    folder = resources.files("schedlab.bench") / "plans"
    return sorted(Path(file.name).stem for file in folder.iterdir() if file.name.endswith(".toml"))


def text_of(name: str) -> str:
    """Give a built-in plan's text."""
    return (resources.files("schedlab.bench") / "plans" / f"{name}.toml").read_text("utf-8")


def load(name_or_file: str) -> Plan:
    """Load a plan by name or from a file.

    Raises :class:`schedlab.StudyError` with file, line and mend.
    """
    path = Path(name_or_file)
    if name_or_file in names():
        return read(text_of(name_or_file), f"{name_or_file}.toml")
    if not path.exists():
        guess = near(name_or_file, names()) or f"; there are {', '.join(names())}"
        raise StudyError(f"{name_or_file}: no such file or built-in plan{guess}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise StudyError(f"{path}: not text but something else; give a TOML file") from None
    return read(text, str(path))


def read(text: str, file: str) -> Plan:
    """Read a plan's text; ``file`` is what errors call it."""
    reader = Reader.parse(text, file)
    plan = Plan(
        name=reader.required("name", str),
        title=reader.optional("title", str, ""),
        iterations=_at_least(reader, "iterations", 1, 10),
        seed=reader.optional("seed", int, 1),
        warmup=_at_least(reader, "warmup", 0, 1),
        cooldown_s=_not_negative(reader, "cooldown_s", 0.0),
        cpus=_cpus(reader),
        restore=tuple(reader.texts("restore", [])),
        attempts=_at_least(reader, "attempts", 1, 2),
        benchmarks=(),
        variants=(),
    )
    timeout_s = _not_negative(reader, "timeout_s", 600.0)
    benchmarks = [_benchmark(each, timeout_s) for each in reader.tables("benchmark")]
    variants = [_variant(each) for each in reader.tables("variant")]
    reader.finish()
    if not plan.name.replace("-", "").replace("_", "").isalnum():
        raise reader.error(f"name is {plan.name!r}; use letters, digits, - and _", "name")
    if not benchmarks:
        raise reader.error("there is nothing to run: add a [[benchmark]]")
    for what, found in (
        ("benchmark", [each.name for each in benchmarks]),
        ("variant", [each.name for each in variants]),
    ):
        twice = next((name for name in found if found.count(name) > 1), None)
        if twice is not None:
            raise reader.error(f"{what} {twice} stands there twice; rename one")
    if any(variant.switch for variant in variants) and not plan.restore:
        raise reader.error("a variant has switch, so there must be restore: what undoes it")
    return replace(plan, benchmarks=tuple(benchmarks), variants=tuple(variants))


def _benchmark(reader: Reader, timeout_s: float) -> Benchmark:
    tool = reader.one_of("tool", [*TOOLS, OWN_TOOL], OWN_TOOL)
    found = Benchmark(
        name=reader.required("name", str),
        tool=tool,
        case=reader.optional("case", str, ""),
        command=tuple(_command(reader, "command")),
        env=_strings(reader, "env"),
        metrics=tuple(reader.texts("metrics", [])),
        prepare=tuple(reader.texts("prepare", [])),
        creates=reader.optional("creates", str, ""),
        timeout_s=_not_negative(reader, "timeout_s", timeout_s),
    )
    reader.finish()
    return found


def _variant(reader: Reader) -> Variant:
    found = Variant(
        name=reader.required("name", str),
        set=_strings(reader, "set"),
        env=_strings(reader, "env"),
        prefix=tuple(reader.texts("prefix", [])),
        cpus=_cpus(reader),
        switch=tuple(reader.texts("switch", [])),
        scheduler=tuple(reader.texts("scheduler", [])),
    )
    reader.finish()
    return found


def _command(reader: Reader, key: str) -> list[str]:
    words = reader.texts(key)
    if not words or not words[0]:
        raise reader.error(f'{key} is empty; write it as a list: ["hackbench", "-g", "4"]', key)
    return words


def _strings(reader: Reader, key: str) -> dict[str, str]:
    values: dict[str, Any] = reader.optional(key, dict, {})
    found = {}
    for name, value in _flat(values):
        if isinstance(value, bool):
            found[name] = "1" if value else "0"
        elif isinstance(value, str | int | float):
            found[name] = str(value)
        else:
            raise reader.error(f"{key}.{name} is {value!r}; it must be a string or a number", key)
    return found


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Undo what TOML makes of dotted keys."""
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{name}.")
        else:
            found.append((prefix + name, value))
    return found


def _at_least(reader: Reader, key: str, least: int, default: int) -> int:
    value = reader.optional(key, int, default)
    if value < least:
        raise reader.error(f"{key} is {value}; it must be at least {least}", key)
    return value


def _not_negative(reader: Reader, key: str, default: float) -> float:
    value = reader.optional(key, float, default)
    if not 0 <= value < float("inf"):
        raise reader.error(f"{key} is {value}; it must not be negative", key)
    return value


def _cpus(reader: Reader) -> str:
    text = reader.optional("cpus", str, "")
    try:
        wanted = cpu_list(text)
    except ValueError:
        raise reader.error(f"cpus is {text!r}; write it as in 0-3,8", "cpus") from None
    missing = wanted - os.sched_getaffinity(0) if wanted else set()
    if missing:
        raise reader.error(f"CPU {min(missing)} is not there, or not for this process", "cpus")
    return text


def cpu_list(text: str) -> set[int]:
    """Read CPUs as the kernel writes them.

    >>> sorted(cpu_list("0-2,5"))
    [0, 1, 2, 5]
    """
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
