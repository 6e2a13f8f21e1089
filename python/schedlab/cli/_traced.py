"""Options of what takes tasks out of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from schedlab.cli._errors import Refusal
from schedlab.cli._output import print_note
from schedlab.idle import guess
from schedlab.machine import Machine
from schedlab.replay import Given, guess_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from schedlab.idle import Guess

MACHINE_HELP = (
    "The machine that the trace was taken on. Without it, a guess: the built-in machine with as "
    "many CPUs and idle states as the trace, if there is just one, or else the generic one."
)

_OPTIONS = [
    click.option(
        "--machine",
        "machine_name",
        metavar="NAME|FILE",
        help=MACHINE_HELP,
    ),
    click.option(
        "--policy",
        "policies",
        multiple=True,
        metavar="TASK=POLICY",
        help="Tasks of this name are batch, idle or rr, which a trace does not show (repeatable).",
    ),
    click.option(
        "--cpus",
        "affinities",
        multiple=True,
        metavar="TASK=LIST",
        help="Tasks of this name may use these CPUs only (repeatable).",
    ),
    click.option(
        "--hz",
        type=click.IntRange(min=1, max=100_000),
        help="The traced kernel's tick rate; by default the machine's.",
    ),
]


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def traced_machine(file: Path, name: str | None) -> Machine:
    """Give the machine that was traced, guessed if it has no name, which people are told."""
    if name is not None:
        return Machine.load(name)
    found = guess(file)
    machine = found.machine
    if machine is None:
        names = ", ".join(Machine.names())
        raise Refusal(
            f"{file}: the generic machine has fewer CPUs or idle states than the trace; name the "
            f"one that was traced with --machine: a file, or {names}"
        )
    print_note(_guessed(machine, found))
    return machine


def _guessed(machine: Machine, found: Guess) -> str:
    if machine.cpu_count == found.cpus:
        return (
            f"machine {machine.name} is a guess from the trace's CPUs and idle states; "
            "--machine names another"
        )
    mend = (
        f"built in with as many: {', '.join(found.alike)}; --machine names the traced one"
        if found.alike
        else "none that is built in has as many; --machine names the file of the traced one"
    )
    return (
        f"machine {machine.name} is a guess, and has {machine.cpu_count} CPUs where the trace "
        f"shows {found.cpus}; {mend}"
    )


def traced_kernel(file: Path, option: str) -> str:
    """Give the built-in kernel of the trace's release; ``option`` names another, says a refusal."""
    from schedlab.trace import Trace  # noqa: PLC0415 - read only if the kernel is to be guessed

    release = Trace(file, keep_events=False).info["kernel_release"]
    kernel = guess_kernel(release)
    if kernel is None:
        of = f"of release {release}" if release else "that does not name its release"
        raise Refusal(f"{file}: no built-in kernel stands for a trace {of}; name one with {option}")
    return kernel


def given_of(policies: Sequence[str], affinities: Sequence[str]) -> list[Given]:
    """Read what is known of tasks beside the trace."""
    found = [Given(task, policy=value) for task, value in map(_divided, policies)]
    found += [Given(task, cpus=value) for task, value in map(_divided, affinities)]
    return found


def _divided(text: str) -> tuple[str, str]:
    task, equals, value = text.rpartition("=")
    if not equals or not task or not value:
        raise click.UsageError(f"{text!r} is not TASK=VALUE.")
    return task, value
