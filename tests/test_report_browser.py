"""The page in a real browser: headless Chromium opens it, reads it, zooms, selects and prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from chromium import Chromium
from click.testing import CliRunner
from sample_report import HOSTILE, sample
from schedlab import samples
from schedlab.cli import main
from schedlab.report.page import render

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def small(folder: Path) -> Path:
    path = folder / "small.html"
    path.write_text(render(sample()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def large(folder: Path) -> Path:
    path = folder / "large.html"
    path.write_text(render(sample(runs=100_000)), encoding="utf-8")
    return path


def schedlab(*words: str) -> Any:
    """Run a command and read its JSON."""
    result = CliRunner().invoke(main, [*words, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def real(folder: Path) -> Path:
    """The page of the trace that comes with the package."""
    path = folder / "real.html"
    with samples.idle_trace() as file:
        schedlab("report", str(file), "--machine", samples.MACHINE, "-o", str(path))
    return path


def opened(browser: Chromium, path: Path, width: int = 1280, fragment: str = "") -> Chromium:
    browser.resize(width, 900)
    browser.open(path, fragment)
    assert browser.evaluate("document.body.dataset.state") == "ready"
    assert browser.complaints() == []
    return browser


def timeline(browser: Chromium) -> dict[str, str]:
    found: dict[str, str] = browser.evaluate("({...document.getElementById('timeline').dataset})")
    return found


def point_in_row(browser: Chromium, share: float, y: float = 18) -> tuple[float, float]:
    """Find a point of the first CPU's task lane, `share` of the way along the plot."""
    browser.evaluate("document.getElementById('section-timeline').scrollIntoView()")
    browser.settle()
    box: Any = browser.evaluate(
        "(({left, top, width}) => [left, top, width])"
        "(document.querySelector('[data-part=rows]').getBoundingClientRect())"
    )
    gutter = 58
    return box[0] + gutter + share * (box[2] - gutter), box[1] + y


def test_the_page_opens_without_a_complaint_or_a_request(browser: Chromium, small: Path) -> None:
    opened(browser, small)
    assert browser.requests() == [small.as_uri()]
    assert timeline(browser)["runs"] == "4"


def test_charts_are_drawn(browser: Chromium, small: Path) -> None:
    opened(browser, small)
    assert browser.evaluate(
        "[...document.querySelectorAll('[data-chart]')].map((c) => c.dataset.state)"
    ) == ["drawn", "drawn"]
    assert browser.evaluate("document.querySelectorAll('.chart svg path').length") > 10


def test_a_hostile_task_name_is_only_text(browser: Chromium, folder: Path) -> None:
    path = folder / "hostile.html"
    path.write_text(render(sample(HOSTILE)), encoding="utf-8")
    opened(browser, path)
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert browser.evaluate("document.querySelector('h1').textContent") == f"{HOSTILE}.dat"
    browser.press("/")
    browser.wait_for("!document.getElementById('found').hidden")
    assert HOSTILE in browser.evaluate("document.getElementById('found').textContent")
    x, y = point_in_row(browser, 0.02)
    browser.mouse("mouseMoved", x, y)
    browser.wait_for("!document.querySelector('[data-part=tip]').hidden")
    assert browser.evaluate("document.querySelector('[data-part=tip] b').textContent") == HOSTILE
    assert browser.complaints() == []


def test_the_wheel_zooms_about_the_pointer_and_a_drag_moves(browser: Chromium, small: Path) -> None:
    opened(browser, small)
    x, y = point_in_row(browser, 0.5)
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-120)
    browser.wait_for("document.getElementById('timeline').dataset.fromNs > 0")
    zoomed = timeline(browser)
    begin, end = int(zoomed["fromNs"]), int(zoomed["toNs"])
    assert end - begin < 6_000_000
    assert (begin + end) / 2 == pytest.approx(3_000_000, rel=0.02)
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseMoved", x - 100, y, button="left", buttons=1)
    browser.mouse("mouseReleased", x - 100, y, button="left", clickCount=1)
    browser.wait_for(f"document.getElementById('timeline').dataset.fromNs > {begin}")
    assert int(timeline(browser)["toNs"]) - int(timeline(browser)["fromNs"]) == pytest.approx(
        end - begin, abs=2
    )


def test_a_click_selects_a_task_and_keys_step_through_its_runs(
    browser: Chromium, small: Path
) -> None:
    opened(browser, small)
    x, y = point_in_row(browser, 0.02)
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseReleased", x, y, button="left", clickCount=1)
    browser.wait_for("document.getElementById('timeline').dataset.selectedPid === '42'")
    said = browser.evaluate("document.querySelector('[data-part=selection]').textContent")
    assert "worker (42)" in said
    assert "4 runs" in said
    assert "woken 20.0 µs before" in said
    browser.press("n")
    browser.wait_for(
        "document.querySelector('[data-part=selection]').textContent.includes('CPU 1')"
    )
    browser.press("Escape")
    browser.wait_for("document.getElementById('timeline').dataset.selectedPid === ''")


def test_search_finds_a_task(browser: Chromium, small: Path) -> None:
    opened(browser, small)
    browser.press("/")
    browser.call("Input.insertText", text="wor")
    browser.wait_for("!document.getElementById('found').hidden")
    browser.press("Enter")
    browser.wait_for("document.getElementById('timeline').dataset.selectedPid === '42'")


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_sticks_out_sideways(browser: Chromium, small: Path, width: int) -> None:
    opened(browser, small, width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_a_frame_of_100_000_runs_takes_less_than_a_display_refresh(
    browser: Chromium, large: Path
) -> None:
    browser.resize(1280, 900)
    browser.open(large, "#measure")
    browser.wait_for("document.getElementById('timeline').dataset.measured")
    figures = timeline(browser)
    assert figures["runs"] == "100000"
    assert float(figures["frameMsMedian"]) < 16


def test_the_work_of_a_frame_is_bounded_by_pixels(browser: Chromium, large: Path) -> None:
    opened(browser, large)
    lanes, pixels = 4, 1200
    assert int(timeline(browser)["drawn"]) <= lanes * pixels


def test_it_prints_in_the_light_theme(browser: Chromium, small: Path) -> None:
    browser.call(
        "Emulation.setEmulatedMedia",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    opened(browser, small)
    background = "getComputedStyle(document.body).backgroundColor"
    dark = browser.evaluate(background)
    browser.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    light = browser.evaluate(background)
    browser.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert browser.evaluate(background) == dark
    browser.call("Emulation.setEmulatedMedia", features=[])
    assert sum(map(int, light[4:-1].split(","))) > 3 * 240
    assert sum(map(int, dark[4:-1].split(","))) < 3 * 40
    assert len(browser.call("Page.printToPDF")["data"]) > 10_000


def shown(browser: Chromium, figure: str) -> float:
    """Read one of the page's headline figures."""
    return float(
        browser.evaluate(f"document.querySelector('[data-figure=\"{figure}\"]').dataset.value")
    )


def test_the_page_shows_what_the_command_line_prints(browser: Chromium, real: Path) -> None:
    with samples.idle_trace() as file:
        info = schedlab("trace", "info", str(file))
        latency = schedlab("trace", "latency", str(file))
        idle = schedlab("trace", "idle", str(file), "--machine", samples.MACHINE)
    opened(browser, real)
    assert shown(browser, "trace.events") == sum(info["events"].values())
    assert shown(browser, "trace.lost_events") == info["lost_events"]
    assert shown(browser, "latency.overall.count") == sum(row["count"] for row in latency)
    states = idle["states"]
    assert shown(browser, "idle.periods") == sum(row["periods"] for row in states)
    figures = json.loads(browser.evaluate("document.getElementById('figures').textContent"))
    assert figures["idle"]["too_deep"] == sum(row["too_deep"] for row in states)
    assert figures["idle"]["too_shallow"] == sum(row["too_shallow"] for row in states)
    key = ("comm", "pid", "count", "gmean_us", "mean_us", "p50_us", "p90_us", "p99_us", "max_us")
    assert sorted([row[k] for k in key] for row in figures["latency"]["tasks"]) == sorted(
        [row[k] for k in key] for row in latency
    )


def test_the_governors_on_the_page_are_those_of_the_command_line(
    browser: Chromium, real: Path
) -> None:
    with samples.idle_trace() as file:
        governors = schedlab("idle", str(file), "--machine", samples.MACHINE)["governors"]
    opened(browser, real)
    rows: list[list[str]] = browser.evaluate(
        "[...document.querySelectorAll('#table-governors tr[data-governor]')].map((row) => "
        "[row.dataset.governor, ...[...row.querySelectorAll('[data-value]')]"
        ".map((cell) => cell.dataset.value)])"
    )
    found = {name: [float(deep), float(shallow)] for name, deep, shallow in rows}
    del found["traced"]
    assert found == {
        name: [row["too_deep_pct"], row["too_shallow_pct"]] for name, row in governors.items()
    }
