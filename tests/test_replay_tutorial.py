"""The replay tutorial's commands print what the tutorial shows.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_replay_tutorial.py`` writes the output anew.
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
TUTORIAL = ROOT / "docs" / "tutorial-replay.md"
FILES = {
    "$TRACE": ROOT / "tests" / "data" / "traces" / "qemu_idle_menu.dat",
    "$LADDER": ROOT / "tests" / "data" / "traces" / "qemu_idle_ladder.dat",
}

SESSION = re.compile(r"```console\n\$ (schedlab [^\n]*)\n(.*?)```", re.DOTALL)


def printed_by(command: str) -> str:
    words = [str(FILES.get(word, word)) for word in shlex.split(command)]
    result = CliRunner().invoke(main, words[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_tutorial_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    # In order: a later command reads what an earlier one wrote.
    printed = {found[1]: printed_by(found[1]) for found in SESSION.finditer(text)}
    updated = SESSION.sub(lambda found: f"```console\n$ {found[1]}\n{printed[found[1]]}```", text)
    if os.environ.get("SCHEDLAB_UPDATE_DOCS"):
        TUTORIAL.write_text(updated, encoding="utf-8")
    assert TUTORIAL.read_text(encoding="utf-8") == updated


def test_the_tutorial_has_a_session_for_every_verb() -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    verbs = [found[1].split()[1] for found in SESSION.finditer(text)]
    assert verbs == ["replay", "replay", "workload", "run", "trace"]
