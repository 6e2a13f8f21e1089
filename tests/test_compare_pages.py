"""Pages of comparisons: the one about published tables stands in docs, and HTML is self-contained.

``SCHEDLAB_UPDATE_DOCS=1 pytest tests/test_compare_pages.py`` writes docs/published-tables.md anew.
"""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner
from schedlab.cli import main

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "published-tables.md"


def compare(*words: str) -> str:
    result = CliRunner().invoke(main, ["compare", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_page_about_published_tables_is_what_its_command_prints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    text = compare("docs/published", "--reboots", "--format", "markdown")
    if os.environ.get("SCHEDLAB_UPDATE_DOCS"):
        PAGE.write_text(text, encoding="utf-8")
    assert text == PAGE.read_text(encoding="utf-8")


def test_the_analysis_says_which_marked_rows_hold() -> None:
    found = json.loads(compare(str(ROOT / "docs" / "published"), "--reboots", "--json"))
    rows = found["rows"]
    assert len(rows) == 10
    assert all(row["flagged"] for row in rows)
    assert sum(row["p"] < 0.05 for row in rows) == 9
    assert sum(row["p_holm"] < 0.05 for row in rows) == 5
    for row in rows:
        assert (row["explained_by_pct"] == 0) == (row["p"] >= 0.05)


class Checker(HTMLParser):
    """Notes what a page would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_html_page_has_all_rows_and_loads_nothing(tmp_path: Path) -> None:
    text = "benchmark,case,metric,unit,better,kernel,iteration,value\n" + "".join(
        f"<b>&x,{case},time,s,lower,{kernel},{i},{1 + 0.1 * (kernel == 'new') + i / 500}\n"
        for case in ("a", "b")
        for kernel in ("old", "new")
        for i in range(6)
    )
    source, page = tmp_path / "in.csv", tmp_path / "page.html"
    source.write_text(text, encoding="utf-8")
    compare(str(source), "--report", str(page))
    html = page.read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(html)
    assert not [tag for tag, _ in checker.tags if tag in {"img", "link", "iframe", "b"}]
    scripts = [attributes for tag, attributes in checker.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "figures"}]
    # A forest of all rows and their geometric mean, and the values of each row.
    assert len([tag for tag, _ in checker.tags if tag == "svg"]) == 3
    figures = re.search(r'id="figures">(.*?)</script>', html, re.DOTALL)
    assert figures is not None
    table = json.loads(figures[1])
    assert [row["verdict"] for row in table["rows"]] == ["regressed", "regressed"]
    assert table["rows"][0]["benchmark"] == "<b>&x"


def test_a_page_of_summaries_has_a_forest_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    compare(str(ROOT / "docs" / "published" / "cpupri-schbench-old.csv"), "--report", str(page))
    assert page.read_text(encoding="utf-8").count("<svg") == 1
