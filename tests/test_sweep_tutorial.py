"""The tutorials of sweeps and tuning show what their commands print.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_sweep_tutorial.py`` writes the output anew.
"""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from schedlab.cli import main
from schedlab.sweep.jobs import Jobs
from schedlab.sweep.load import load

DOCS = Path(__file__).parent.parent / "docs"

SESSION = re.compile(r"```console\n\$ (schedlab [^\n]*)\n(.*?)```", re.DOTALL)


def output_of(command: str) -> str:
    result = CliRunner().invoke(main, shlex.split(command)[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return "\n".join(line.rstrip() for line in result.stdout.splitlines()) + "\n"


@pytest.mark.parametrize("name", ["tutorial-sweep", "tutorial-tune"])
def test_commands_print_what_the_tutorial_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDLAB_STORE", str(tmp_path))
    monkeypatch.chdir(DOCS.parent)
    path = DOCS / f"{name}.md"
    text = path.read_text(encoding="utf-8")
    shown = SESSION.sub(lambda found: f"```console\n$ {found[1]}\n{output_of(found[1])}```", text)
    if os.environ.get("SCHEDLAB_UPDATE_DOCS"):
        path.write_text(shown, encoding="utf-8")
    assert shown == text


def test_the_tutorials_plan_is_the_file() -> None:
    text = (DOCS / "tutorial-sweep.md").read_text(encoding="utf-8")
    shown = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0]
    file = (DOCS / "plans" / "ticks.toml").read_text(encoding="utf-8")
    assert tomllib.loads(shown) == tomllib.loads(file)


@pytest.mark.parametrize("path", sorted((DOCS / "plans").iterdir()), ids=lambda path: path.stem)
def test_every_plan_can_begin(path: Path) -> None:
    from schedlab.sweep.run import try_first  # noqa: PLC0415 - what a sweep does first

    jobs = Jobs(load(path))
    try_first(jobs)
    assert len(jobs) > 10
