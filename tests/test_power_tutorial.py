"""The power tutorial's commands print what the tutorial shows.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_power_tutorial.py`` writes the output anew.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from click.testing import CliRunner
from schedlab.cli import main
from schedlab.kernel import Kernel

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial-power.md"

SESSION = re.compile(r"```console\n\$ schedlab ([^\n]*)\n(.*?)```", re.DOTALL)
SETTINGS = re.compile(r"```toml\n(\[cpuidle\].*?)```", re.DOTALL)


def printed_by(arguments: str) -> str:
    result = CliRunner().invoke(main, shlex.split(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_tutorial_shows_what_is_printed() -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    updated = SESSION.sub(
        lambda found: f"```console\n$ schedlab {found[1]}\n{printed_by(found[1])}```", text
    )
    if os.environ.get("SCHEDLAB_UPDATE_DOCS"):
        TUTORIAL.write_text(updated, encoding="utf-8")
    assert TUTORIAL.read_text(encoding="utf-8") == updated


def test_a_kernel_file_takes_the_settings_that_the_tutorial_shows() -> None:
    found = SETTINGS.search(TUTORIAL.read_text(encoding="utf-8"))
    assert found is not None
    preset = Kernel.preset_toml("v6.1")
    text = preset[: preset.index("[cpuidle]")] + found[1]
    settings = Kernel.parse(text, "mine.toml").settings()
    assert settings["cpuidle.governor"] == "teo_util-v2"
    assert settings["cpufreq.rate_limit_us"] == "500"
