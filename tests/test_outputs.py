"""Files and streams that commands write to: named where they fail, and looked for beforehand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner
from schedlab.cli import main
from schedlab.trace import convert_trace

MENU = Path(__file__).parent / "data" / "traces" / "qemu_idle_menu.dat"
IDLE = ("idle", MENU, "--machine", "simidle", "--governor", "menu")
REPORT = ("report", MENU, "--machine", "simidle", "--governor", "menu")

COMMAND = [sys.executable, "-c", "from schedlab.cli import main; main()"]

FULL = Path("/dev/full")

needs_full = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")


def refusal(*words: str | Path) -> str:
    result = CliRunner().invoke(main, list(map(str, words)))
    assert result.exit_code == 2, result.output
    return result.stderr


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (IDLE, "--periods=x.csv"),
        (REPORT, "--output=x.html"),
        (("run", "periodic"), "--trace=x.csv"),
        (("run", "periodic"), "--report=x.html"),
        (("workload", "from-trace", MENU), "--out=x.toml"),
        (("workload", "from-trace", MENU), "--rt-app=x.json"),
        (("trace", "convert", MENU, "--to", "csv"), "--output=x.csv"),
        (("study", "run", "idlest-group-util"), "--report=x.html"),
        (("sweep", "plan.toml"), "--report=x.html"),
        (("tune", "idle-governors"), "--report=x.html"),
        (("compare", "results.csv"), "--report=x.html"),
        (("bench", "parse", "hackbench"), "--out=x.csv"),
        (("bench", "cpupri"), "--plot=x.svg"),
        (("machine", "import"), "--output=x.toml"),
        (("demo",), "--output=x.html"),
    ],
)
def test_a_folder_that_is_not_there_is_refused_before_the_work(
    words: tuple[str | Path, ...], option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, _, file = option.partition("=")
    says = refusal(*words, name, f"nowhere/{file}")
    mend = "there is no folder nowhere; make it, or write elsewhere"
    assert says == f"Error: nowhere/{file}: {mend}\n"


@needs_full
@pytest.mark.parametrize(
    ("words", "option", "name"),
    [
        (IDLE, "--periods", "x.csv"),
        (IDLE, "--periods", "x.parquet"),
        (REPORT, "--output", "x.html"),
        (("run", "periodic", "--duration", "0.01"), "--report", "x.html"),
        (("workload", "from-trace", MENU, "--machine", "simidle"), "--out", "x.toml"),
        (("machine", "import"), "--output", "x.toml"),
    ],
)
def test_a_file_on_a_full_disk_is_named(
    words: tuple[str | Path, ...], option: str, name: str, tmp_path: Path
) -> None:
    out = tmp_path / name
    out.symlink_to(FULL)
    last = refusal(*words, option, out).splitlines()[-1]
    assert last == f"Error: {out}: no space left; free some, or write elsewhere"


@needs_full
@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_to_a_full_disk_is_refused_in_a_line(word: str) -> None:
    with FULL.open("w") as full:
        result = subprocess.run([*COMMAND, word], stdout=full, stderr=subprocess.PIPE, check=False)
    assert result.returncode == 2
    assert result.stderr == (
        b"Error: standard output: no space left; free some, or write elsewhere\n"
    )


def test_a_closed_output_is_refused_in_a_line() -> None:
    script = 'exec "$@" >&-'
    result = subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND, "kernel", "list"], stderr=subprocess.PIPE, check=False
    )
    assert result.returncode == 2
    assert result.stderr.startswith(b"Error: standard output is closed; ")


@pytest.mark.parametrize("to", ["parquet", "csv"])
def test_a_conversion_names_the_file_that_was_asked_for(
    to: Literal["parquet", "csv"], tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        convert_trace(MENU, to, tmp_path / "missing" / "x")
    assert str(raised.value.filename) == str(tmp_path / "missing" / "x")


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "FILE"),
        ("bench", "parse", "hackbench", "FILE", "--label", "a"),
        ("bench", "show", "FILE"),
        ("bench", "run", "FILE", "--dry-run"),
    ],
)
def test_what_is_quoted_of_a_file_is_escaped_and_short(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(b"a\x1b[2Jb\x07\x9b\xff\x00" + b"\x1b]0;title\x02 x" * 500 + b"\n")
    says = refusal(*(str(file) if word == "FILE" else word for word in words))
    assert str(file) in says
    assert all(char.isprintable() or char == "\n" for char in says)
    assert max(map(len, says.splitlines())) < 500


def test_a_file_name_is_escaped() -> None:
    says = refusal("trace", "info", "no\x1b[2Jfile")
    assert says == "Error: no\\x1b[2Jfile: No such file or directory\n"
