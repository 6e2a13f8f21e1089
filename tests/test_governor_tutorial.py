"""The governor tutorial's commands print what the tutorial shows, and its code is the file's.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_governor_tutorial.py`` writes the output anew.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner
from schedlab.cli import main

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "docs" / "tutorial-governors.md"
TRACE = "python/schedlab/samples/idle-menu.dat"

SESSION = re.compile(r"```console\n\$ ([^\n]*)\n(.*?)```", re.DOTALL)
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def printed_by(command: str) -> str:
    words = [TRACE if word == "$TRACE" else word for word in shlex.split(command)]
    if words[0] == "python":
        done = subprocess.run(
            [sys.executable, *words[1:]], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return done.stdout
    result = CliRunner().invoke(main, words[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_tutorial_shows_what_is_printed() -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    updated = SESSION.sub(
        lambda found: f"```console\n$ {found[1]}\n{printed_by(found[1])}```", text
    )
    if os.environ.get("SCHEDLAB_UPDATE_DOCS"):
        TUTORIAL.write_text(updated, encoding="utf-8")
    assert TUTORIAL.read_text(encoding="utf-8") == updated


def test_the_tutorial_shows_the_file_that_it_runs() -> None:
    found = CODE.search(TUTORIAL.read_text(encoding="utf-8"))
    assert found is not None
    assert found[1] in (ROOT / "docs" / "governors" / "patient.py").read_text(encoding="utf-8")
