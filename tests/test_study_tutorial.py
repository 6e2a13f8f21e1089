"""The tutorial's and README's study commands print what the texts show.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_study_tutorial.py`` writes the output anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import schedlab
import sessions

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial-studies.md"
GOLDEN = Path(__file__).parent / "data" / "studies" / "idlest-group-util-small.txt"

POOL = Path(schedlab.__file__).parent / "studies" / "thread-pool.json"


def output_of(command: str) -> str:
    return sessions.printed_by(command, {"$POOL": str(POOL)})


def test_commands_print_what_the_tutorial_shows() -> None:
    sessions.check(TUTORIAL, output_of)


def test_the_study_at_small_size_prints_its_golden_table() -> None:
    table = output_of("schedlab study run idlest-group-util --small")
    if os.environ.get("SCHEDLAB_UPDATE_DOCS"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(table, encoding="utf-8")
    assert table == GOLDEN.read_text(encoding="utf-8")
