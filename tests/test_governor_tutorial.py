"""The governor tutorial's commands print what the tutorial shows, and its code is the file's.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_governor_tutorial.py`` writes the output anew.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import sessions

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "docs" / "tutorial-governors.md"
TRACE = "python/schedlab/samples/idle-menu.dat"

CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def output_of(command: str) -> str:
    words = shlex.split(command)
    if words[0] == "python":
        done = subprocess.run(
            [sys.executable, *words[1:]], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return done.stdout
    return sessions.printed_by(command, {"$TRACE": TRACE})


def test_the_tutorial_shows_what_is_printed() -> None:
    sessions.check(TUTORIAL, output_of)


def test_the_tutorial_shows_the_file_that_it_runs() -> None:
    found = CODE.search(TUTORIAL.read_text(encoding="utf-8"))
    assert found is not None
    assert found[1] in (ROOT / "docs" / "governors" / "patient.py").read_text(encoding="utf-8")
