"""The tutorial's and README's study commands print what the texts show.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_study_tutorial.py`` writes the output anew.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import schedlab
from click.testing import CliRunner
from schedlab.cli import main

if TYPE_CHECKING:
    import pytest

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial-studies.md"
GOLDEN = Path(__file__).parent / "data" / "studies" / "idlest-group-util-small.txt"

POOL = Path(schedlab.__file__).parent / "studies" / "thread-pool.json"

SESSION = re.compile(r"```console\n\$ (schedlab [^\n]*)\n(.*?)```", re.DOTALL)


def output_of(command: str) -> str:
    words = [str(POOL) if word == "$POOL" else word for word in shlex.split(command)]
    result = CliRunner().invoke(main, words[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_commands_print_what_the_tutorial_shows() -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    shown = SESSION.sub(lambda found: f"```console\n$ {found[1]}\n{output_of(found[1])}```", text)
    if os.environ.get("SCHEDLAB_UPDATE_DOCS"):
        TUTORIAL.write_text(shown, encoding="utf-8")
    assert shown == text


def test_the_study_at_small_size_prints_its_golden_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLAB_STORE", str(tmp_path))
    table = output_of("schedlab study run idlest-group-util --small")
    if os.environ.get("SCHEDLAB_UPDATE_DOCS"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(table, encoding="utf-8")
    assert table == GOLDEN.read_text(encoding="utf-8")
