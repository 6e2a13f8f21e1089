"""Comparisons of benchmarks: effect, interval, tests, and a verdict in one word.

- :mod:`schedlab.stats.ratio`: tests of a ratio of means or medians, paired or not
- :mod:`schedlab.stats.moments`: the same from sums alone
- :mod:`schedlab.stats.verdict`: a table's rows measured each, and judged together
- :mod:`schedlab.stats.power`: how many iterations a question takes
- :mod:`schedlab.stats.noise`: outliers and drift
- :mod:`schedlab.stats.reboot`: what spread between boots would explain a difference
"""

from schedlab.stats.noise import Drift, drift, outliers
from schedlab.stats.ratio import Summary
from schedlab.stats.summary import Interval, Mean, mean_interval, mean_of, spread_pct
from schedlab.stats.verdict import (
    Better,
    Comparison,
    Correction,
    Measured,
    Rules,
    Statistic,
    Verdict,
    compare,
    judge,
    measure,
    measure_geomean,
    measure_geometric,
    measure_summaries,
    measure_test,
)

__all__ = [
    "Better",
    "Comparison",
    "Correction",
    "Drift",
    "Interval",
    "Mean",
    "Measured",
    "Rules",
    "Statistic",
    "Summary",
    "Verdict",
    "compare",
    "drift",
    "judge",
    "mean_interval",
    "mean_of",
    "measure",
    "measure_geomean",
    "measure_geometric",
    "measure_summaries",
    "measure_test",
    "outliers",
    "spread_pct",
]
