"""A page about published tables: which marked rows their runs support, and what else may."""

from __future__ import annotations

import math
from importlib import resources
from statistics import fmean
from typing import TYPE_CHECKING, Any

import jinja2
from scipy import special

from schedlab import stats
from schedlab.comparison import words
from schedlab.comparison.reboots import analyse
from schedlab.stats.ratio import standard_error

if TYPE_CHECKING:
    from schedlab.comparison.table import Row, Table
    from schedlab.stats import Verdict

__all__ = ["page"]

# A case that is marked under one kernel alone tells nothing of a common cause.
SEVERAL = 2

P_VALUES = ("p", "p_bh", "p_holm", "p_with_boots")
VERDICTS: tuple[Verdict, ...] = ("regressed", "improved", "equivalent", "inconclusive")


def page(table: Table, command: str) -> str:
    """Write the page as Markdown; ``command`` is what makes it."""
    found = analyse(table)
    tested = [row for row in table.rows if row.compared.p is not None]
    significant = [row for row in tested if (row.compared.p or 0.0) < found.significance]
    text = (resources.files(__package__) / "published.md.j2").read_text(encoding="utf-8")
    # Markdown, not HTML: nothing is to be escaped.
    template = jinja2.Environment(  # noqa: S701 - as said
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    ).from_string(text)
    return template.render(
        command=command,
        tests=len(tested),
        marked=len(found.rows),
        significance=f"{found.significance:g}",
        supported={name: found.supported(name) for name in P_VALUES},
        unmarked=sum(not row.flagged for row in significant),
        by_chance=f"{found.significance * len(tested):.0f}",
        rows=[row.cells() | {"case": row.case} for row in found.rows],
        estimates=found.estimates,
        worst=max((row.explained_by_pct for row in found.rows), default=0.0),
        counts=words.counts(table),
        settings=words.settings_text(table),
        groups=_groups(table),
        **_common(table),
        **_needed(table),
    )


def _common(table: Table) -> dict[str, Any]:
    """Show marked cases under all kernels, which were compared with one and the same baseline."""
    cases: dict[str, list[Row]] = {}
    for row in table.rows:
        cases.setdefault(row.case.name, []).append(row)
    kept = {
        name: rows for name, rows in cases.items() if sum(row.flagged for row in rows) >= SEVERAL
    }
    labels = list(dict.fromkeys(row.other.label for rows in kept.values() for row in rows))
    common = []
    for name, rows in kept.items():
        changes = {row.other.label: row.compared.change_pct for row in rows}
        ratios = [1 + change / 100 for change in changes.values()]
        common.append(
            {
                "name": name,
                "changes": [words.signed(changes.get(label)) for label in labels],
                "spread": f"{stats.spread_pct(ratios):.2f}",
                "p": words.p_value(_apart(ratios)),
            }
        )
    inside = sum(row.flagged for rows in kept.values() for row in rows)
    return {"labels": labels, "common": common, "inside": inside}


def _apart(ratios: list[float]) -> float:
    """Test whether the baseline, 1, is another draw of what the patches are draws of.

    By the t test of a single new value against a sample.
    """
    n = len(ratios)
    error = standard_error(ratios) * math.sqrt(n) * math.sqrt(1 + 1 / n)
    return float(2 * special.stdtr(n - 1, -abs(1 - fmean(ratios)) / error))


def _groups(table: Table) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in table.rows:
        groups.setdefault((row.case.benchmark, row.other.label), []).append(row)
    means = {(row.case.benchmark, row.other.label): row for row in table.geomeans}
    found = []
    for (benchmark, label), rows in groups.items():
        verdicts = [row.compared.verdict for row in rows]
        found.append(
            {
                "benchmark": benchmark,
                "label": label,
                "rows": len(rows),
                "counts": [verdicts.count(word) for word in VERDICTS],
                "mean": _mean(means.get((benchmark, label))),
            }
        )
    return found


def _mean(row: Row | None) -> str:
    if row is None:
        return ""
    compared = row.compared
    change, bounds = words.signed(compared.change_pct), words.interval(compared.interval_pct)
    return f"{change} ({bounds}), {compared.verdict}"


def _needed(table: Table) -> dict[str, str]:
    needed = sorted(row.compared.iterations for row in table.rows if row.compared.iterations)
    if not needed:
        return {"needed_half": "", "needed_most": ""}
    return {
        "needed_half": f"{needed[len(needed) // 2]:,}",
        "needed_most": f"{needed[int(0.9 * (len(needed) - 1))]:,}",
    }
