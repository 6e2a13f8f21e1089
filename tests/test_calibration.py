"""A small part of ``make calibrate``: rates that a thousand comparisons show in full."""

from __future__ import annotations

import pytest
from calibration.noise import in_turns, real
from calibration.trials import METHODS, draw, hold, power


@pytest.mark.parametrize("kind", ["real", "drift and outliers"])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_comparisons_of_nothing_raise_few_alarms(kind: str, method: object) -> None:
    chosen = next(each for each in METHODS if each is method)
    kept = hold(draw(kind, turns=True)[:300], chosen, resamples=0)
    assert kept.alarms.interval_pct[0] <= 5
    assert kept.covers.interval_pct[1] >= 95


def test_planned_iterations_find_what_they_are_planned_for() -> None:
    found = power("real", real(), times=100)
    assert found.found.interval_pct[0] <= 80 <= found.found.interval_pct[1]


def test_dealing_in_turns_keeps_every_value() -> None:
    series = [float(number) for number in range(20)]
    base, other = in_turns(series, 10, 3)
    assert sorted(base + other) == series
    assert all(abs(a - b) == 1 for a, b in zip(base, other, strict=True))
