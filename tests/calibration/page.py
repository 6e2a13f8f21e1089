"""The page, and whether the promises are kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
from schedlab import stats

from calibration import noise
from calibration.trials import METHODS, PLANTED, TIMES, N, benchmark_rates, draw, hold, power

if TYPE_CHECKING:
    from calibration.trials import Kept, Power, Rate

__all__ = ["write"]

BESIDE = (("real", True), ("normal", True), ("drift", True), ("drift", False), ("outliers", True))


def write(path: Path) -> int:
    """Write the page, and give 1 if a promise is not kept."""
    broken: list[str] = []
    kept = []
    for kind in ("real", *noise.KINDS):
        pairs = draw(kind, turns=True)
        for method in METHODS:
            found = hold(pairs, method)
            broken += _broken(f"{kind}, {method.name}", found)
            kept.append(
                {
                    "noise": kind,
                    "method": method.name,
                    "alarms": found.alarms,
                    "covers": found.covers,
                    "bootstrap": found.bootstrap_covers,
                    "tables": found.tables,
                }
            )
    powers = _powers()
    broken += [
        f"power of {each.what}: {each.found}" for each in powers if each.found.interval_pct[1] < 80
    ]
    real = noise.real()
    text = Path(__file__).with_name("page.md.j2").read_text(encoding="utf-8")
    # Markdown, not HTML: nothing is to be escaped.
    template = jinja2.Environment(  # noqa: S701 - as said
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    ).from_string(text)
    path.write_text(
        template.render(
            times=f"{TIMES:,}",
            n=N,
            tables=TIMES // 50,
            recorded=len(real),
            spread=f"{stats.spread_pct(real):.0f}",
            kept=kept,
            apart=_apart(),
            power=powers,
            benchstat=_beside(),
        ),
        encoding="utf-8",
    )
    for text in broken:
        print(f"not kept: {text}")
    return 1 if broken else 0


def _broken(what: str, found: Kept) -> list[str]:
    """Name rates that chance does not explain."""
    problems = []
    if found.alarms.interval_pct[0] > 5:
        problems.append(f"{what}: alarms {found.alarms}")
    if found.covers.interval_pct[1] < 95:
        problems.append(f"{what}: covers {found.covers}")
    if found.tables.interval_pct[0] > 5:
        problems.append(f"{what}: tables {found.tables}")
    return problems


def _apart() -> list[dict[str, Any]]:
    return [
        {
            "noise": kind,
            "method": method.name,
            "alarms": hold(draw(kind, turns=False), method, resamples=0).alarms,
        }
        for kind in ("real", "normal", "drift", "bursts")
        for method in METHODS[1:2]
    ]


def _powers() -> list[Power]:
    generator = np.random.default_rng(9)
    return [
        power("real", noise.real()),
        power("normal, 2 %", list(generator.normal(1.0, 0.02, 400))),
        power("outliers", noise.simulated("outliers", 400, generator)),
    ]


def _beside() -> list[dict[str, Any]]:
    rows = []
    for kind, turns in BESIDE:
        pairs = draw(kind, turns=turns)
        for planted in (0.0, PLANTED):
            rates = benchmark_rates(pairs, planted)
            if rates is None:
                return []
            what = "found" if planted else "alarms"
            rows.append(
                {
                    "noise": kind,
                    "turns": "yes" if turns else "no",
                    **{name: _said(rate, what) for name, rate in rates.items()},
                }
            )
    return rows


def _said(rate: Rate, what: str) -> str:
    return f"{what} {rate}"
