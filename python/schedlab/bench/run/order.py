"""Who runs when: every variant once in each round, in every place equally often."""

from __future__ import annotations

import random

__all__ = ["turns"]


def turns(variants: int, iteration: int, seed: int, benchmark: int = 0) -> list[int]:
    """Give the order of the variants in a round.

    As many rounds as there are variants form a Latin square with its rows, columns and names
    drawn at random: each variant is first, second, ... once, so that a drift meets all alike.

    >>> sorted(turns(2, round_, 7)[0] for round_ in (0, 1))
    [0, 1]
    """
    group, row = divmod(iteration, variants)
    generator = random.Random(f"{seed}/{benchmark}/{group}")  # noqa: S311 - no secret
    names = generator.sample(range(variants), variants)
    rows = generator.sample(range(variants), variants)
    columns = generator.sample(range(variants), variants)
    return [names[(rows[row] + column) % variants] for column in columns]
