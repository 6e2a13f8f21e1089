"""``schedlab kernel`` and ``schedlab.Kernel`` as people and programs meet them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from schedlab import Kernel, KernelError
from schedlab.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str | Path) -> Result:
    runner = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"})
    return runner.invoke(main, ["kernel", *map(str, arguments)])


def run_json(*arguments: str | Path) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refusal(*arguments: str | Path) -> str:
    """Give the complaint of a run that must end with one or two lines and exit code 2."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) <= 2, result.stderr
    return result.stderr


def test_list() -> None:
    names = ["v2.6.32", "v2.6.36", "v3.9", "v3.9-power", "v5.7", "v5.9", "v6.1", "v6.12"]
    assert [row["name"] for row in run_json("list")] == names
    result = run("list")
    assert result.exit_code == 0
    assert "v6.12" in result.stdout
    assert "EEVDF" in result.stdout


def test_show_prints_every_setting() -> None:
    settings = run_json("show", "v6.1")["settings"]
    assert settings["fair.cfs.latency_ns"] == "6000000"
    assert settings["cpuidle.governor"] == "menu-6.1"
    text = run("show", "v6.1").stdout
    assert all(key in text and value in text for key, value in settings.items())


def test_show_scales_times_as_at_boot() -> None:
    scaled = run_json("show", "v6.12", "--cpus", "4")["settings"]
    assert scaled["fair.eevdf.base_slice_ns"] == "2100000"


def test_diff_names_the_settings_that_differ() -> None:
    found = run_json("diff", "v5.7", "v5.9")
    assert found["differences"] == [
        {"setting": "placement.idlest_tie", "base": "first", "other": "group-util"}
    ]
    differences = {row["setting"]: row for row in run_json("diff", "v6.1", "v6.12")["differences"]}
    assert differences["fair"] == {"setting": "fair", "base": "cfs", "other": "eevdf"}
    assert differences["fair.cfs.latency_ns"]["other"] is None
    assert "idlest_tie" in run("diff", "v5.7", "v5.9").stdout
    assert run("diff", "v6.1", "v6.1").stdout.startswith("v6.1 and v6.1 do not differ")


def test_a_preset_s_file_can_be_edited_and_loaded(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    text = run("show", "v6.12", "--toml").stdout
    mine.write_text(text.replace("base_slice_ns = 700_000", "base_slice_ns = 3_000_000"))
    rows = run_json("diff", "v6.12", mine)["differences"]
    assert [row["setting"] for row in rows] == ["fair.eevdf.base_slice_ns"]
    assert Kernel.load(mine) != Kernel.load("v6.12")


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (("hz = 250", "hz = 250\nuclamp = true"), "uclamp: utilisation clamps"),
        (("[wake]", "[wake]\neas = true"), "eas: energy-aware placement"),
        (('"util"', '"utl"'), "unknown variant `utl`"),
        (('governor = "menu', 'governor = "manu'), "no idle governor is called"),
        (("hz = 250", "hz = x"), ":"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(
    tmp_path: Path, edit: tuple[str, str], complaint: str
) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(Kernel.preset_toml("v6.12").replace(*edit))
    message = refusal("show", wrong)
    assert f"{wrong}:" in message
    assert complaint in message


def test_unknown_names_are_told_the_known_ones(tmp_path: Path) -> None:
    known = "v2.6.32, v2.6.36, v3.9, v3.9-power, v5.7, v5.9, v6.1, v6.12"
    assert f"built in are {known}" in refusal("show", "v9.99")
    with pytest.raises(KernelError, match="neither a file nor a built-in kernel"):
        Kernel.load("v9.99")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "not text" in refusal("show", binary)
