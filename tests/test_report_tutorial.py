"""The tutorial's commands print what the tutorial shows.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_report_tutorial.py`` writes the output anew.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from schedlab import samples
from schedlab.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial-traces.md"

SESSION = re.compile(r"```console\n\$ (schedlab [^\n]*)\n(.*?)```", re.DOTALL)


def sessions() -> Iterator[tuple[str, str]]:
    for found in SESSION.finditer(TUTORIAL.read_text(encoding="utf-8")):
        yield found[1], found[2]


def output_of(command: str) -> str:
    with samples.idle_trace() as file:
        words = [str(file) if word == "$TRACE" else word for word in shlex.split(command)]
        result = CliRunner().invoke(main, words[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("command", [command for command, _ in sessions()])
def test_the_tutorial_shows_what_is_printed(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = output_of(command)
    if os.environ.get("SCHEDLAB_UPDATE_DOCS"):
        text = TUTORIAL.read_text(encoding="utf-8")
        shown = f"```console\n$ {command}\n{printed}```"
        updated = SESSION.sub(lambda found: shown if found[1] == command else found[0], text)
        TUTORIAL.write_text(updated, encoding="utf-8")
    assert dict(sessions())[command] == printed


def test_the_tutorials_python_does_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TUTORIAL.parent.parent)
    failed, tried = doctest.testfile(str(TUTORIAL), module_relative=False)
    assert tried > 0
    assert failed == 0


def test_the_tutorial_has_a_session_for_every_step() -> None:
    verbs = [" ".join(command.split()[1:3]) for command, _ in sessions()]
    assert verbs == ["trace info", "trace latency", "trace idle", "idle $TRACE", "report $TRACE"]
