"""The tutorial's commands print what it shows.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_compare_tutorial.py`` writes the output anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sessions

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "docs" / "tutorial-compare.md"


def test_commands_print_what_the_tutorial_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    sessions.check(TUTORIAL)
