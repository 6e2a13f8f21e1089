"""Finding the best of many variants with as few runs as may be.

The procedure of S.-H. Kim and B. L. Nelson, "A fully sequential procedure for indifference-zone
selection in simulation", ACM TOMACS 11, 2001 (KN, with c = 1). After a first stage, which estimates
the variance of every pair's difference, it takes one run of each variant at a time and drops those
that another is clearly better than. With probability 1 - alpha the variant that stays is the best,
if the best is better than any other by ``zone`` at least, the indifference zone; where others are
nearer, one of those that are within it stays. It needs normal values, and allows for variances that
differ and for common random numbers, which make differences small and the search short.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["Selection"]


class Selection:
    """A search for the variant with the least mean.

    >>> search = Selection(3, zone=0.5, alpha=0.05, first=10)
    >>> generator = np.random.default_rng(1)
    >>> while len(search.left) > 1:
    ...     search.add({at: at + generator.normal() for at in search.left})
    >>> search.left
    [0]
    """

    def __init__(self, count: int, *, zone: float, alpha: float, first: int) -> None:
        """Search among ``count`` variants, with ``first`` runs of each before any is dropped."""
        if count < 2 or not zone > 0 or first < 2:  # noqa: PLR2004 - a pair, and its spread
            raise ValueError("a search needs two variants, two runs of each, and a zone above 0")
        self.zone = zone
        self.first = first
        self.left = list(range(count))
        """The variants that are still in it."""
        self.dropped_at: dict[int, int] = {}
        """After how many runs each other one went."""
        eta = 0.5 * ((2 * alpha / (count - 1)) ** (-2 / (first - 1)) - 1)
        self._h_squared = 2 * eta * (first - 1)
        self._values: dict[int, list[float]] = {at: [] for at in range(count)}
        self._variances: dict[tuple[int, int], float] = {}

    @property
    def runs(self) -> int:
        """How many runs each variant has had that is still in it."""
        return len(self._values[self.left[0]])

    def count(self, at: int) -> int:
        """Tell how many runs of a variant were looked at."""
        return len(self._values[at])

    def mean(self, at: int) -> float:
        """Give a variant's mean so far."""
        return float(np.mean(self._values[at]))

    def add(self, values: dict[int, float]) -> None:
        """Take one run of every variant that is left, runs of common random numbers."""
        for at in self.left:
            self._values[at].append(values[at])
        if self.runs == self.first:
            self._estimate()
        if self.runs >= self.first:
            self._drop()

    def _estimate(self) -> None:
        for i in self.left:
            for j in self.left:
                if i < j:
                    pairs = np.subtract(self._values[i], self._values[j])
                    self._variances[i, j] = float(np.var(pairs, ddof=1))

    def _drop(self) -> None:
        runs = self.runs
        sums = {at: math.fsum(self._values[at]) for at in self.left}

        def beaten(i: int, by: int) -> bool:
            variance = self._variances[min(i, by), max(i, by)]
            # The triangle of Fabian: what a difference of sums may be without meaning anything.
            may_be = max(0.0, (self._h_squared * variance / self.zone - self.zone * runs) / 2)
            return bool(sums[i] - sums[by] > may_be)

        kept = [i for i in self.left if not any(beaten(i, by) for by in self.left if by != i)]
        for i in set(self.left) - set(kept):
            self.dropped_at[i] = runs
        # Where two are equal to the last bit and beyond all doubt, either is as good.
        best = min(self.left, key=lambda at: (sums[at], at))
        self.left = kept or [best]
        if len(self.left) > 1 and all(
            variance == 0 or self._h_squared * variance / self.zone <= self.zone * runs
            for (i, j), variance in self._variances.items()
            if i in self.left and j in self.left
        ):
            for i in self.left:
                if i != best:
                    self.dropped_at[i] = runs
            self.left = [best]
