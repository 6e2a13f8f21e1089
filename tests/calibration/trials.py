"""The trials: false alarms, coverage, power, and benchstat on the same data."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from schedlab import stats
from schedlab.stats.power import to_detect
from scipy import stats as reference

from calibration import noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.stats import Statistic

    from calibration.noise import Pair

N = 10
"""Iterations of each label."""
TIMES = 1000
PLANTED = 0.03


@dataclass(frozen=True)
class Method:
    """One way to compare."""

    name: str
    statistic: Statistic
    paired: bool


METHODS = (
    Method("means, paired", "mean", paired=True),
    Method("means, unpaired", "mean", paired=False),
    Method("medians, paired", "median", paired=True),
    Method("medians, unpaired", "median", paired=False),
)


@dataclass(frozen=True)
class Rate:
    """How often something happened."""

    hits: int
    times: int

    @property
    def pct(self) -> float:
        """Give it in percent."""
        return 100 * self.hits / self.times

    @property
    def interval_pct(self) -> tuple[float, float]:
        """Give Clopper and Pearson's 95 % interval."""
        found = reference.binomtest(self.hits, self.times).proportion_ci()
        return 100 * float(found.low), 100 * float(found.high)

    def __str__(self) -> str:
        low, high = self.interval_pct
        return f"{self.pct:.1f} ({low:.1f} .. {high:.1f})"


@dataclass(frozen=True)
class Kept:
    """What a method made of comparisons without any effect, and with a known one."""

    alarms: Rate
    """p below 0.05 though nothing differs."""
    covers: Rate
    """The interval holds the true change of 3 %."""
    bootstrap_covers: Rate
    tables: Rate
    """Tables of 50 rows with any alarm after Holm's correction."""


def draw(kind: str, turns: bool, seed: int = 1) -> list[Pair]:  # noqa: FBT001 - a table's column
    """Draw a thousand pairs of samples that differ in nothing."""
    generator = np.random.default_rng(seed)
    if kind == "real":
        found = noise.windows(noise.real(), 2 * N, TIMES, generator)
        series = list(found)
    else:
        series = [noise.simulated(kind, 2 * N, generator) for _ in range(TIMES)]
    if turns:
        return [noise.in_turns(each, N, seed) for seed, each in enumerate(series)]
    return [noise.one_after_the_other(each, N) for each in series]


def hold(pairs: Sequence[Pair], method: Method, resamples: int = 999) -> Kept:
    """Compare all pairs, and again with 3 % planted."""
    p_values: list[float] = []
    covers = bootstrap_covers = 0
    for base, other in pairs:
        plain = stats.measure(
            base, other, paired=method.paired, statistic=method.statistic, resamples=0
        )
        p_values.append(1.0 if plain.p is None else plain.p)
        found = stats.measure(
            base,
            [value * (1 + PLANTED) for value in other],
            paired=method.paired,
            statistic=method.statistic,
            resamples=resamples,
        )
        covers += _holds(found.interval_pct)
        bootstrap_covers += _holds(found.bootstrap_pct)
    tables = [p_values[start : start + 50] for start in range(0, len(p_values), 50)]
    return Kept(
        alarms=Rate(sum(p < 0.05 for p in p_values), len(p_values)),
        covers=Rate(covers, len(pairs)),
        bootstrap_covers=Rate(bootstrap_covers, len(pairs)),
        # Holm's first step decides whether there is any alarm at all.
        tables=Rate(sum(min(table) * len(table) < 0.05 for table in tables), len(tables)),
    )


def _holds(bounds: tuple[float, float] | None) -> bool:
    return bounds is None or bounds[0] <= 100 * PLANTED <= bounds[1]


@dataclass(frozen=True)
class Power:
    """A planted change, and how often the planned iterations found it."""

    what: str
    std_pct: float
    n: int
    found: Rate


def power(what: str, values: Sequence[float], times: int = TIMES, seed: int = 3) -> Power:
    """Plan for 3 % by the spread of ``values``, draw so many of them anew, and compare.

    Values are drawn one by one, so that their distribution is that of the machine and their order
    is not.
    """
    std = (stats.spread_pct(values) or 0.0) / 100
    n = to_detect(PLANTED, math.sqrt(2) * std)
    if n is None:
        raise ValueError(f"{what} spreads by {std:.1%}, for which no plan finds 3 %")
    generator = np.random.default_rng(seed)
    hits = 0
    for _ in range(times):
        base = generator.choice(values, n)
        other = generator.choice(values, n) * (1 + PLANTED)
        row = stats.measure(list(base), list(other), paired=False, resamples=0)
        hits += row.p is not None and row.p < 0.05 and row.change_pct > 0
    return Power(what, 100 * std, n, Rate(hits, times))


_BENCHSTAT_P = re.compile(r"p=(\d\.\d+) n=")


def benchmark_rates(pairs: Sequence[Pair], planted: float) -> dict[str, Rate] | None:
    """Give how often each calls pairs different; ``None`` where there is no benchstat."""
    theirs = benchstat(pairs, planted)
    if theirs is None:
        return None
    found = {"benchstat": theirs}
    statistics: tuple[tuple[str, Statistic], ...] = (("means", "mean"), ("medians", "median"))
    for name, statistic in statistics:
        hits = 0
        for base, other in pairs:
            changed = [value * (1 + planted) for value in other]
            row = stats.measure(base, changed, paired=False, statistic=statistic, resamples=0)
            hits += row.p is not None and row.p < 0.05
        found[name] = Rate(hits, len(pairs))
    return found


def benchstat(pairs: Sequence[Pair], planted: float) -> Rate | None:
    """Give how often benchstat calls pairs different; ``None`` where there is no benchstat."""
    program = shutil.which("benchstat")
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, place, factor in (("base", 0, 1.0), ("other", 1, 1 + planted)):
            path = Path(folder) / name
            path.write_text(
                "".join(
                    f"BenchmarkPair{number:04} 1 {value * factor:.9g} sec/op\n"
                    for number, pair in enumerate(pairs)
                    for value in pair[place]
                ),
                encoding="utf-8",
            )
            paths.append(path)
        text = subprocess.run(
            [program, "-format", "csv", *paths], check=True, capture_output=True, text=True
        ).stdout
    rows = [line for line in text.splitlines() if line.startswith("Pair")]
    rows = [line for line in rows if _BENCHSTAT_P.search(line)]
    return Rate(sum(",~," not in line for line in rows), len(rows))
