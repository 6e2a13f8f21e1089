"""The replay tutorial's commands print what the tutorial shows.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_replay_tutorial.py`` writes the output anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sessions

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "docs" / "tutorial-replay.md"
FILES = {
    "$TRACE": ROOT / "tests" / "data" / "traces" / "qemu_idle_menu.dat",
    "$LADDER": ROOT / "tests" / "data" / "traces" / "qemu_idle_ladder.dat",
    "$PTASK": ROOT / "tests" / "data" / "traces" / "qemu_pelt_ptask.dat",
}


def output_of(command: str) -> str:
    return sessions.printed_by(command, {word: str(file) for word, file in FILES.items()})


def test_the_tutorial_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # In order: a later command reads what an earlier one wrote.
    sessions.check(TUTORIAL, output_of)


def test_the_tutorial_has_a_session_for_every_verb() -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    verbs = [found[1].split()[1] for found in sessions.SESSION.finditer(text)]
    assert verbs == ["replay", "replay", "replay", "workload", "run", "trace"]
