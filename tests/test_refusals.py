"""What people mistype or misplace: refused in a line or two that names it and the mend."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from schedlab import Kernel, Machine
from schedlab.cli import main

DATA = Path(__file__).parent / "data" / "traces"
MENU = DATA / "qemu_idle_menu.dat"

SHORT = ("--duration", "0.01")


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


def refusal(*words: str | Path) -> str:
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert len(result.stderr.split("\nError: ")[-1].splitlines()) <= 2
    return result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("run", "periodic", *SHORT, "--governor", "teoo"),
        ("replay", MENU, "--machine", "simidle", "--governor", "teoo"),
        ("idle", MENU, "--machine", "simidle", "--governor", "teoo"),
        ("report", MENU, "--machine", "simidle", "--governor", "teoo"),
    ],
)
def test_an_idle_governor_that_there_is_not_is_refused_wherever_it_is_named(
    words: tuple[str | Path, ...],
) -> None:
    says = refusal(*words)
    assert says.startswith("Error: no idle governor is called `teoo`; there are menu-6.1, ")
    assert says.endswith("; did you mean teo?\n")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("machine", "show", "pixel6"), "pixel6-gs101"),
        (("machine", "show", "qem4"), "qemu4 or qemu8"),
        (("machine", "show", "generic", "--domains", "--kernel", "v612"), "v6.12"),
        (("kernel", "show", "v612"), "v6.12"),
        (("kernel", "diff", "v6.1", "v6.21"), "v6.1"),
        (("workload", "show", "hackbenc"), "hackbench"),
        (("workload", "show", "hackbench", "--machine", "genric"), "generic"),
        (("idle", MENU, "--machine", "pixl6"), "pixel6-gs101"),
        (("pelt", MENU, "--machine", "pixl6"), "pixel6-gs101"),
        (("report", MENU, "--machine", "simidel"), "simidle"),
        (("trace", "idle", MENU, "--machine", "simidel"), "simidle"),
        (("replay", MENU, "--machine", "simidel"), "simidle"),
        (("replay", MENU, "--machine", "simidle", "--on", "genric"), "generic"),
        (("replay", MENU, "--machine", "simidle", "--kernel", "v612"), "v6.12"),
        (("workload", "from-trace", MENU, "--machine", "simidel"), "simidle"),
    ],
)
def test_a_name_that_is_near_is_suggested(words: tuple[str | Path, ...], meant: str) -> None:
    assert f"; did you mean {meant}" in refusal(*words)


@pytest.mark.parametrize(
    ("option", "was", "typed", "meant"),
    [
        ("--kernel", 'governor = "menu-6.12"', 'governor = "menuu-6.12"', "menu-6.12 or menu-6.1?"),
        ("--kernel", 'search = "util"', 'search = "utl"', "util?"),
        ("--kernel", 'priority_map = "global"', 'priority_map = "per-nod"', "per-node?"),
        ("--kernel", "[balance]", "[balanec]", "balance?"),
        ("--machine", "[topology]", "[topolgy]", "topology?"),
        ("--machine", "context_switch_ns", "context_swich_ns", "context_switch_ns?"),
    ],
)
def test_a_word_of_a_file_that_is_near_is_suggested(
    option: str, was: str, typed: str, meant: str, tmp_path: Path
) -> None:
    of_kernel = option == "--kernel"
    text = Kernel.preset_toml("v6.12") if of_kernel else Machine.preset_toml("generic")
    assert text is not None
    assert was in text
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(text.replace(was, typed, 1))
    for words in (("run", "periodic", *SHORT, option, wrong), (option[2:], "show", wrong)):
        says = refusal(*words)
        assert says.startswith(f"Error: {wrong}:")
        assert says.endswith(f"; did you mean {meant}\n")


def test_an_option_of_a_workload_that_is_near_is_suggested(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('model = "hackbench"\n[options]\ngroop = 4\n')
    for words in (("run", wrong, *SHORT), ("workload", "show", wrong)):
        assert refusal(*words).endswith("; did you mean groups or loops?\n")


@pytest.mark.parametrize(
    ("option", "word", "meant"),
    [
        ("--kernel", "teo_utl", "teo_util"),
        ("--workload", "geekbench", "geekbench5"),
        ("--held-out", "geekbench", "geekbench5"),
        ("--objective", "min:power@geekbench", "geekbench5"),
    ],
)
def test_tuning_suggests_what_its_study_has(
    option: str, word: str, meant: str, tmp_path: Path
) -> None:
    aim = () if option == "--objective" else ("--objective", "min:power")
    varied = ("--parameter", "governor.utilization_shift=1..10")
    says = refusal("tune", "idle-governors", "--store", tmp_path, *varied, *aim, option, word)
    assert f"; did you mean {meant}" in says


def test_fits_and_comparisons_suggest_what_there_is(tmp_path: Path) -> None:
    study = ("study", "calibrate", "idle-governors")
    assert "; did you mean geekbench5" in refusal(*study, "--workload", "geekbench")
    results = tmp_path / "results.csv"
    rows = [f"b,c,m,s,lower,{label},{i},{i + 1}.5" for label in ("old", "patched") for i in (0, 1)]
    header = "benchmark,case,metric,unit,better,kernel,iteration,value"
    results.write_text("\n".join([header, *rows, ""]))
    assert "; did you mean patched?" in refusal("compare", results, "--base", "patchd")
    assert "; did you mean patched?" in refusal("compare", results, "old", "patchd")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "periodic", "--thermal-limit", "big:5000000"), "limit of 5e+06 MHz on big"),
        (("run", "periodic", "--thermal-limit", "big:1e400"), "limit of inf MHz on big"),
        (("run", "periodic", "--thermal-limit", "bigg:1800"), "; there are little, mid, big; did"),
        (("run", "periodic", "--explain-task", "4294967296"), "not in the range"),
        (("run", "periodic", "--cpu-latency-us", "nan"), "not a finite number"),
        (("idle", MENU, "--explain", "99999999999:1"), "2:117"),
        (("idle", MENU, "--explain", "-1:1"), "2:117"),
        (("idle", MENU, "--explain", "-1@1"), "2:117"),
        (("idle", MENU, "--explain", "0:99999999999999999999"), "2:117"),
        (("idle", MENU, "--explain", "0:-1"), "2:117"),
        (("kernel", "show", "v6.12", "--cpus", "99999999999999999999999"), "not in the range"),
        (("workload", "show", "hackbench", "--limit", "-5"), "not in the range"),
        (("trace", "tasks", MENU, "--task", "99999999999"), "not in the range"),
        (("bench", "cpupri", "--simulate", "--think-us", "nan"), "not a finite number"),
        (("bench", "run", "hackbench", "--iterations", "99999999999"), "not in the range"),
        (("study", "run", "idlest-group-util", "--jobs", "99999999999"), "not in the range"),
        (("compare", "--power", "--significance", "nan"), "not a finite number"),
        (("compare", "--power", "--chance", "nan"), "not a finite number"),
        (("compare", "--power", "--std", "1", "--effect", "1e-300"), "out of range"),
        (("compare", "--power", "--std", "1e300", "--effect", "1"), "out of range"),
    ],
)
def test_a_number_out_of_range_is_refused(words: tuple[str | Path, ...], says: str) -> None:
    on = ("--machine", "pixel6-gs101", *SHORT) if words[0] == "run" else ()
    assert says in refusal(*words, *on)
