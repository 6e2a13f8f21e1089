"""Samples without any effect: recorded hackbench times, and noise of all kinds that spoil them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from schedlab.bench.run.order import turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.random import Generator

__all__ = ["KINDS", "Pair", "in_turns", "one_after_the_other", "real", "simulated"]

Pair = tuple[list[float], list[float]]

RECORDED = Path(__file__).parent / "hackbench-aa.csv"

KINDS = ("normal", "drift", "outliers", "drift and outliers", "bursts", "lognormal")

SPREAD = 0.02
"""Standard deviation of simulated noise, of the mean."""


def real() -> list[float]:
    """Read the recorded times, in the order of time."""
    with RECORDED.open(encoding="utf-8") as file:
        return [float(row["value"]) for row in csv.DictReader(file)]


def simulated(kind: str, length: int, generator: Generator) -> list[float]:
    """Draw a series of one kind.

    Drift is 10 % over the series; one value in 20 is an outlier, longer by 20 to 50 %; bursts are
    stretches in which everything takes 5 % longer, as when something else runs.
    """
    values = generator.normal(1.0, SPREAD, length)
    if kind == "lognormal":
        values = generator.lognormal(0.0, 0.3, length)
    if "drift" in kind:
        values = values + np.linspace(0, 0.1, length)
    if "outliers" in kind:
        hit = generator.random(length) < 0.05
        values = values + hit * generator.uniform(0.2, 0.5, length)
    if kind == "bursts":
        state = np.cumsum(generator.random(length) < 0.15) % 2
        values = values + 0.05 * state
    return [float(value) for value in values]


def in_turns(series: list[float], n: int, seed: int) -> Pair:
    """Deal a series of 2 n values to two labels, as ``bench run`` would have."""
    parts: Pair = ([], [])
    for iteration in range(n):
        for place, variant in enumerate(turns(2, iteration, seed)):
            parts[variant].append(series[2 * iteration + place])
    return parts


def one_after_the_other(series: list[float], n: int) -> Pair:
    """Give the first half to one label and the second to the other, as scripts do."""
    return series[:n], series[n : 2 * n]


def windows(
    series: list[float], length: int, count: int, generator: Generator
) -> Iterator[list[float]]:
    """Draw stretches of a series."""
    for start in generator.integers(0, len(series) - length + 1, count):
        yield series[int(start) : int(start) + length]
