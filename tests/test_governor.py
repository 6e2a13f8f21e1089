"""A user's own governors, in Python and in C, through the package and the command line."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import schedlab
from click.testing import CliRunner, Result
from schedlab.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from schedlab.cpuidle import IdleState
    from schedlab.governor import IdleView

MENU = "tests/data/traces/qemu_idle_menu.dat"
STEADY = "docs/governors/steady.c"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


class Timer(schedlab.Governor):
    """The next timer alone."""

    def __init__(self, limit_ns: int = 1 << 62) -> None:
        self.limit_ns = limit_ns
        self.seen = [0, 0]

    def select(self, states: Sequence[IdleState], view: IdleView) -> tuple[int, bool]:
        expected_ns = min(view.sleep_length_ns, self.limit_ns)
        self.seen[0] += 1
        fitting = [n for n, s in enumerate(states) if s.target_residency_ns <= expected_ns]
        return max(fitting), expected_ns >= self.tick_ns

    def reflect(
        self, states: Sequence[IdleState], state: int, residency_ns: int, view: IdleView
    ) -> None:
        assert 0 <= state < len(states)
        assert residency_ns >= 0
        assert isinstance(view.got_tick, bool)
        self.seen[1] += 1


def test_a_class_stands_beside_the_kernels_governors() -> None:
    short = functools.partial(Timer, limit_ns=50_000)
    frame = schedlab.idle_governors(MENU, governors=["menu", Timer, short])
    assert frame["governor"].to_list() == ["traced", "menu", "Timer", "Timer (2)"]
    deep = dict(frame.select("governor", "C6_pct").iter_rows())
    assert deep["Timer (2)"] == 0.0
    assert deep["Timer"] > 0.0
    # It decides by the same rule as a governor that only looks at timers and utilisation.
    assert frame["too_deep_pct"][2] > frame["too_deep_pct"][3]


def test_a_class_serves_a_simulated_run_and_repeats_itself() -> None:
    first, second = (
        schedlab.simulate("periodic", machine="simidle", governor=Timer, duration_s=0.05)
        for _ in range(2)
    )
    assert first.governor == "Timer"
    assert first.digest == second.digest
    by_name = schedlab.simulate("periodic", machine="simidle", governor="menu", duration_s=0.05)
    assert by_name.governor == "menu-6.12"


def test_what_a_class_remembers_explains_it() -> None:
    found = schedlab.idle.periods(MENU, "simidle", [Timer])
    memory = found["memory"][1000]
    assert "limit_ns 4611686018427387904" in memory
    assert "seen[0] " in memory


class Fails(schedlab.Governor):
    def select(self, states: Sequence[IdleState], view: IdleView) -> int:
        return len(states) // (0 if view.now_ns > 10_000_000 else 99)


class Late(schedlab.Governor):
    def select(self, states: Sequence[IdleState], view: IdleView) -> int:
        del view
        return len(states)


@pytest.mark.parametrize("where", ["replay", "run"])
def test_an_exception_is_told_with_class_method_and_line(where: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "replay": lambda: schedlab.idle_governors(MENU, "simidle", [Fails]),
        "run": lambda: schedlab.simulate("periodic", governor=Fails, duration_s=0.1),
    }
    with pytest.raises(schedlab.GovernorError) as raised:
        calls[where]()
    line = Fails.select.__code__.co_firstlineno + 1
    assert str(raised.value).startswith("Fails.select(), ")
    assert f"test_governor.py:{line}: ZeroDivisionError: " in str(raised.value)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_a_state_that_is_not_there_is_refused() -> None:
    with pytest.raises(schedlab.GovernorError, match=r"Late\.select\(\).*state 6 of 6"):
        schedlab.idle_governors(MENU, "simidle", [Late])


def test_what_is_no_governor_is_refused() -> None:
    with pytest.raises(TypeError, match="is no governor"):
        schedlab.idle_governors(MENU, "simidle", [3])  # type: ignore[list-item]
    with pytest.raises(schedlab.GovernorError, match=r"Governor has no select\(\)"):
        schedlab.idle_governors(MENU, "simidle", [schedlab.Governor])


def test_a_source_is_compiled_and_run() -> None:
    source = schedlab.GovernorSource(STEADY)
    assert source.name == f"steady.c@{source.digest[:8]}"
    result = run("idle", MENU, "--machine", "simidle", "--governor-source", STEADY, "--json")
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    assert list(report["governors"]) == [source.name]
    assert report["governors"][source.name]["periods"] > 3000
    result = run("run", "periodic", "--duration", "0.02", "--governor-source", STEADY)
    assert result.exit_code == 0, result.output
    assert f"idle governor {source.name}" in result.output


def test_a_crash_ends_the_run_with_a_message(tmp_path: Path) -> None:
    text = Path(STEADY).read_text(encoding="utf-8")
    text = text.replace("int i, chosen = 0;", "int i, chosen = *(volatile int *)0;")
    (tmp_path / "steady.c").write_text(text, encoding="utf-8")
    (tmp_path / "steady.h").write_text("#define STEADY_SLEEPS 4\n", encoding="utf-8")
    result = run(
        "idle", MENU, "--machine", "simidle", "--governor-source", str(tmp_path / "steady.c")
    )
    assert result.exit_code == 2
    assert "segmentation fault" in result.output
    assert "in steady_select()" in result.output


def test_the_compilers_words_reach_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.c"
    broken.write_text("#include <linux/cpuidle.h>\nint x = nothing;\n", encoding="utf-8")
    result = run("run", "periodic", "--governor-source", str(broken))
    assert result.exit_code == 2
    assert "broken.c:2:9: error:" in result.output
    missing = run("run", "periodic", "--governor-source", str(tmp_path / "none.c"))
    assert missing.exit_code == 2
    assert "none.c: No such file" in missing.output
    monkeypatch.setenv("CC", "/no/such/cc")
    result = run("run", "periodic", "--governor-source", STEADY)
    assert result.exit_code == 2
    assert "apt install gcc libc6-dev" in result.output


def test_one_period_is_explained() -> None:
    words = ["idle", MENU, "--machine", "simidle", "--governor", "menu", "--governor", "teo"]
    result = run(*words, "--explain", "1:700")
    assert result.exit_code == 0, result.output
    assert "idle period 700 of CPU 1" in result.output
    assert "the last sleeps: " in result.output
    assert "hits/intercepts" in result.output
    (found, _) = json.loads(run(*words, "--explain", "1:700", "--json").stdout)
    at = run(*words, "--explain", f"1@{found['enter_ns'] / 1e9:.9f}")
    assert at.output == result.output
    for beyond in ("1:999999", "1@1.5", "7:0"):
        nowhere = run(*words, "--explain", beyond)
        assert nowhere.exit_code == 2
        where = f"no idle period {beyond}; the trace has CPUs 0-3 from 26.979"
        assert where in nowhere.stderr
    assert run(*words, "--explain", "first").exit_code == 2
