"""The tutorials of sweeps and tuning show what their commands print.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_sweep_tutorial.py`` writes the output anew.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import sessions
from schedlab.sweep.jobs import Jobs
from schedlab.sweep.load import load

DOCS = Path(__file__).parent.parent / "docs"


def output_of(command: str) -> str:
    return "\n".join(line.rstrip() for line in sessions.printed_by(command).splitlines()) + "\n"


@pytest.mark.parametrize("name", ["tutorial-sweep", "tutorial-tune", "sweeps"])
def test_commands_print_what_the_tutorial_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLAB_STORE", str(tmp_path))
    monkeypatch.chdir(DOCS.parent)
    sessions.check(DOCS / f"{name}.md", output_of)


def test_the_tutorials_plan_is_the_file() -> None:
    text = (DOCS / "tutorial-sweep.md").read_text(encoding="utf-8")
    shown = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0]
    file = (DOCS / "plans" / "ticks.toml").read_text(encoding="utf-8")
    assert tomllib.loads(shown) == tomllib.loads(file)


@pytest.mark.parametrize("path", sorted((DOCS / "plans").iterdir()), ids=lambda path: path.stem)
def test_every_plan_can_begin(path: Path) -> None:
    from schedlab.sweep.first import try_first  # noqa: PLC0415 - what a sweep does first

    jobs = Jobs(load(path))
    try_first(jobs)
    assert len(jobs) > 10
