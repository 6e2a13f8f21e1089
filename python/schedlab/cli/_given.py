"""Options that would be without effect: they are refused, not dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from schedlab.cli._errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from schedlab.replay import Given

__all__ = ["check_tasks", "given", "need"]

_BY_ITSELF = (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)


def given(*options: str) -> list[str]:
    """Give those of these options, written as ``--option``, that the user gave."""
    context = click.get_current_context()
    return [
        option
        for option in options
        for parameter in context.command.params
        if option in (*parameter.opts, *parameter.secondary_opts)
        and parameter.name is not None
        and context.get_parameter_source(parameter.name) not in _BY_ITSELF
    ]


def need(*options: str, what: str) -> None:
    """Refuse these options, since ``what`` they are for was not asked for.

    Raises ``click.UsageError`` for the first that the user gave.
    """
    for option in given(*options):
        raise click.UsageError(f"{option} is for {what}; give that, too, or leave {option} out.")


def check_tasks(file: Path, known: Iterable[Given], names: Iterable[str]) -> None:
    """Refuse what is known of tasks that a trace, whose tasks have these names, does not have."""
    from schedlab.names import near  # noqa: PLC0415 - `--help` needs none

    there = sorted(set(names))
    for each in known:
        if each.comm not in there:
            option = "--policy" if each.policy is not None else "--cpus"
            raise Refusal(
                f"{option}: no task of {file} is called {each.comm}"
                + (near(each.comm, there) or "; `schedlab trace tasks` lists them")
            )
