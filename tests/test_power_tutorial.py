"""The power tutorial's commands print what the tutorial shows.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_power_tutorial.py`` writes the output anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import sessions
from schedlab.kernel import Kernel

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial-power.md"

SETTINGS = re.compile(r"```toml\n(\[cpuidle\].*?)```", re.DOTALL)


def test_the_tutorial_shows_what_is_printed() -> None:
    sessions.check(TUTORIAL)


def test_a_kernel_file_takes_the_settings_that_the_tutorial_shows() -> None:
    found = SETTINGS.search(TUTORIAL.read_text(encoding="utf-8"))
    assert found is not None
    preset = Kernel.preset_toml("v6.1")
    text = preset[: preset.index("[cpuidle]")] + found[1]
    settings = Kernel.parse(text, "mine.toml").settings()
    assert settings["cpuidle.governor"] == "teo_util-v2"
    assert settings["cpufreq.rate_limit_us"] == "500"
