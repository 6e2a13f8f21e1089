"""Comparisons: against scipy's own tests, and where their numbers end."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from schedlab.stats import compare, mean_interval, spread_pct
from scipy import stats

figures = st.floats(min_value=1e-3, max_value=1e9)
several = st.lists(figures, min_size=2, max_size=12)
pairs = st.lists(st.tuples(figures, figures), min_size=2, max_size=12)


@given(pairs)
def test_the_interval_and_p_are_those_of_the_paired_t_test(rows: list[tuple[float, float]]) -> None:
    base, other = [a for a, _ in rows], [b for _, b in rows]
    differences = [b - a for a, b in rows]
    # Where differences are equal but for rounding, scipy's t statistic is noise.
    assume(max(differences) - min(differences) > 1e-6 * max(*base, *other))
    found = compare(base, other, better="higher", margin_pct=0)
    expected = stats.ttest_rel(other, base)
    scale = 100 / math.fsum(base) * len(base)
    low, high = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-5, abs=1e-12)
    assert found.interval_pct is not None
    size = 1e-9 * max(map(abs, differences)) * scale
    assert found.interval_pct == pytest.approx((low * scale, high * scale), rel=1e-6, abs=size)


@given(several, st.floats(min_value=-0.5, max_value=0.5))
def test_a_constant_change_is_exact(base: list[float], change: float) -> None:
    """Common random numbers may cancel altogether; nothing is divided by zero then."""
    shift = change * math.fsum(base) / len(base)
    other = [value + shift for value in base]
    differences = {round(b - a, 12) for a, b in zip(base, other, strict=True)}
    assume(len(differences) == 1)
    found = compare(base, other, better="higher", margin_pct=1)
    assert found.p is not None
    assert not math.isnan(found.p)
    assert 0 <= found.p <= 1


def test_equal_runs_are_equivalent_and_exactly_shifted_ones_are_not() -> None:
    base = [1.0, 2.0, 4.0]
    same = compare(base, base, better="lower", margin_pct=0)
    assert (same.change_pct, same.interval_pct, same.p) == (0.0, (0.0, 0.0), 1.0)
    assert same.verdict == "equivalent"
    slower = compare(base, [value + 0.5 for value in base], better="lower", margin_pct=1)
    assert (slower.p, slower.verdict) == (0.0, "regressed")
    faster = compare(base, [value - 0.5 for value in base], better="lower", margin_pct=1)
    assert faster.verdict == "improved"
    within = compare(base, [value + 0.5 for value in base], better="lower", margin_pct=50)
    assert within.verdict == "equivalent"


@given(pairs, st.floats(min_value=0.1, max_value=1000))
def test_the_unit_does_not_matter(rows: list[tuple[float, float]], unit: float) -> None:
    base, other = [a for a, _ in rows], [b for _, b in rows]
    differences = [b - a for a, b in rows]
    assume(max(differences) - min(differences) > 1e-6 * max(*base, *other))
    one = compare(base, other, better="higher", margin_pct=1)
    two = compare(
        [a * unit for a in base], [b * unit for b in other], better="higher", margin_pct=1
    )
    assert two.change_pct == pytest.approx(one.change_pct, rel=1e-6, abs=1e-6)
    assert one.p == pytest.approx(two.p, rel=1e-3, abs=1e-9)


@given(pairs)
def test_the_verdict_follows_from_the_interval(rows: list[tuple[float, float]]) -> None:
    base, other = [a for a, _ in rows], [b for _, b in rows]
    found = compare(base, other, better="higher", margin_pct=2)
    assert found.interval_pct is not None
    low, high = found.interval_pct
    if found.verdict == "improved":
        assert low > 0
    elif found.verdict == "regressed":
        assert high < 0
    elif found.verdict == "equivalent":
        assert -2 <= found.change_pct <= 2
    else:
        assert low <= 0 <= high or high - low == 0


@given(several)
def test_a_mean_lies_in_its_interval(values: list[float]) -> None:
    interval = mean_interval(values)
    assert interval is not None
    mean = math.fsum(values) / len(values)
    assert interval[0] <= mean * (1 + 1e-12)
    assert mean * (1 - 1e-12) <= interval[1]


def test_one_pair_tells_no_spread() -> None:
    found = compare([1.0], [2.0], better="higher", margin_pct=1)
    assert (found.change_pct, found.interval_pct, found.p) == (100.0, None, None)
    assert found.verdict == "inconclusive"
    assert mean_interval([1.0]) is None
    assert spread_pct([1.0]) is None


@pytest.mark.parametrize(("base", "other"), [([1.0], [1.0, 2.0]), ([], []), ([0.0], [1.0])])
def test_what_cannot_be_compared_is_refused(base: list[float], other: list[float]) -> None:
    with pytest.raises(ValueError, match=r"pair|baseline"):
        compare(base, other, better="higher", margin_pct=1)
