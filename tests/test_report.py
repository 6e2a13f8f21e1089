"""The page: what it holds, that no trace can break out of it, and that it asks for nothing."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import struct
import zlib
from html.parser import HTMLParser
from typing import Any

import pytest
from sample_report import HOSTILE, sample
from schedlab.report.page import render


class Page(HTMLParser):
    """Elements, attributes, and the text of script elements by id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self.unnamed: list[str] = []
        self._script: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        self._script = (attributes.get("id") or "") if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data
        elif self._script == "":
            self.unnamed.append(data)

    def json(self, name: str) -> Any:
        return json.loads(self.scripts[name])


@pytest.fixture(scope="module")
def text() -> str:
    return render(sample())


@pytest.fixture(scope="module")
def hostile() -> str:
    return render(sample(HOSTILE))


def test_the_page_is_the_same_every_time(text: str) -> None:
    assert render(sample()) == text


def test_the_page_refers_to_nothing_outside(text: str) -> None:
    page = Page(text)
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert len(style) == 1
    assert "url(" not in style[0]
    assert "@import" not in style[0]


def test_the_policy_allows_these_scripts_and_no_request(text: str) -> None:
    page = Page(text)
    policy = next(a["content"] for t, a in page.elements if t == "meta" and "http-equiv" in a) or ""
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert len(page.unnamed) == 2
    for script in page.unnamed:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_no_string_of_a_trace_becomes_markup(hostile: str) -> None:
    page = Page(hostile)
    kinds = {tag for tag, _ in page.elements}
    assert "img" not in kinds
    assert [t for t, _ in page.elements] == [t for t, _ in Page(render(sample())).elements]
    assert not any(name.startswith("on") for _, a in page.elements for name in a)
    heading = re.findall(r"<h1>(.*?)</h1>", hostile, re.DOTALL)
    assert [html.unescape(text) for text in heading] == [f"{HOSTILE}.dat"]


def test_hostile_strings_arrive_unchanged_in_the_data(hostile: str) -> None:
    page = Page(hostile)
    assert page.json("figures")["latency"]["tasks"][0]["comm"] == HOSTILE
    assert page.json("timeline-meta")["tasks"] == [{"pid": 42, "comm": HOSTILE, "kernel": False}]
    (points,) = page.json("chart-latency")["datasets"].values()
    assert {point["comm"] for point in points} == {HOSTILE}


def test_figures_stand_in_the_page_and_in_its_data(text: str) -> None:
    page = Page(text)
    shown = {
        a["data-figure"] or "": float(a["data-value"] or "nan")
        for _, a in page.elements
        if "data-figure" in a
    }
    figures = page.json("figures")
    assert shown["trace.events"] == 9
    for path, value in shown.items():
        node: Any = figures
        for key in path.split("."):
            node = node[key]
        assert node == value, path


def test_idle_figures_add_up(text: str) -> None:
    idle = Page(text).json("figures")["idle"]
    assert idle["periods"] == 4
    assert idle["too_deep_pct"] == 50.0
    assert idle["too_shallow_pct"] == 25.0


def unpack(page: Page, cpu: int, kind: str) -> list[tuple[int, int]]:
    """Read a lane's spans back, as assets/decode.js does."""
    blob = zlib.decompress(base64.b64decode(page.scripts["timeline-data"]))
    meta = page.json("timeline-meta")
    track = next(t for t in meta["tracks"] if t["cpu"] == cpu and t["kind"] == kind)
    count = track["count"]
    gaps = struct.unpack_from(f"<{count}q", blob, track["columns"]["gap_ns"])
    durations = struct.unpack_from(f"<{count}q", blob, track["columns"]["duration_ns"])
    spans, now = [], 0
    for gap, duration in zip(gaps, durations, strict=True):
        spans.append((now + gap, now + gap + duration))
        now += gap + duration
    return spans


def test_packed_spans_read_back_exactly(text: str) -> None:
    page = Page(text)
    runs = sample().timeline.runs
    for cpu in (0, 1):
        part = runs.filter(runs["cpu"] == cpu)
        assert unpack(page, cpu, "task") == list(zip(part["start_ns"], part["end_ns"], strict=True))


def test_columns_are_aligned_for_typed_arrays(text: str) -> None:
    meta = Page(text).json("timeline-meta")
    offsets = [o for track in meta["tracks"] for o in track["columns"].values()]
    assert len(offsets) == len(set(offsets))
    assert all(offset % 8 == 0 for offset in offsets)


def test_a_report_without_wakeups_and_idle_events_has_no_such_sections() -> None:
    full = sample(runs=0)
    bare = type(full)(provenance=full.provenance, timeline=full.timeline)
    page = Page(render(bare))
    sections = {a.get("id") for tag, a in page.elements if tag == "section"}
    assert sections == {"section-timeline", "section-quality", "section-provenance"}
    assert page.json("figures")["latency"]["overall"] is None


def test_the_page_of_a_small_trace_stays_small(text: str) -> None:
    assert len(text) < 1_100_000
