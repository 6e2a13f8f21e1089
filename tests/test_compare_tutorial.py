"""The tutorial's commands print what it shows.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_compare_tutorial.py`` writes the output anew.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner
from schedlab.cli import main

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "docs" / "tutorial-compare.md"

SESSION = re.compile(r"```console\n\$ (schedlab [^\n]*)\n(.*?)```", re.DOTALL)


def output_of(command: str) -> str:
    result = CliRunner().invoke(main, shlex.split(command)[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_commands_print_what_the_tutorial_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = TUTORIAL.read_text(encoding="utf-8")
    shown = SESSION.sub(lambda found: f"```console\n$ {found[1]}\n{output_of(found[1])}```", text)
    if os.environ.get("SCHEDLAB_UPDATE_DOCS"):
        TUTORIAL.write_text(shown, encoding="utf-8")
    assert shown == text
