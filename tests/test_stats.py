"""Comparisons: against scipy's own tests, and where their numbers end."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from schedlab import stats
from schedlab.stats import (
    Measured,
    Rules,
    Summary,
    compare,
    mean_interval,
    measure_geometric,
    spread_pct,
)
from schedlab.stats.power import detection_power, equivalence_power, to_detect, to_show_equivalent
from schedlab.stats.ratio import IndependentMeans, Medians, PairedMeans
from scipy import stats as reference

figures = st.floats(min_value=1e-3, max_value=1e9)
several = st.lists(figures, min_size=2, max_size=12)
pairs = st.lists(st.tuples(figures, figures), min_size=2, max_size=12)
# Benchmarks spread by far less than their mean.
near = st.floats(min_value=90, max_value=110)
near_pairs = st.lists(st.tuples(near, near), min_size=3, max_size=12)


def spread_out(values: list[float]) -> bool:
    return max(values) - min(values) > 1e-6 * max(map(abs, values))


@given(near_pairs)
@settings(deadline=None)
def test_a_geometric_mean_s_change_is_tested_by_logarithms(rows: list[tuple[float, float]]) -> None:
    base, other = np.array([a for a, _ in rows]), np.array([b for _, b in rows])
    ratios = np.log(other) - np.log(base)
    assume(spread_out(list(ratios + 1)))
    found = measure_geometric(list(base), list(other))
    means = [stats.mean_of(list(values), "geometric") for values in (base, other)]
    assert means == pytest.approx([reference.gmean(base), reference.gmean(other)])
    assert found.change_pct == pytest.approx(100 * (means[1] / means[0] - 1), abs=1e-9)
    scipys = reference.ttest_1samp(ratios, 0)
    assert found.p == pytest.approx(scipys.pvalue, rel=1e-6, abs=1e-12)
    bounds = scipys.confidence_interval(0.95)
    expected = [100 * math.expm1(bounds.low), 100 * math.expm1(bounds.high)]
    assert found.interval_pct == pytest.approx(expected, rel=1e-6, abs=1e-6)
    low, high = mean_interval(list(base), mean="geometric") or (0, 0)
    assert low <= means[0] * (1 + 1e-12)
    assert math.sqrt(low * high) == pytest.approx(means[0])


def test_a_geometric_mean_knows_0_and_refuses_less() -> None:
    assert stats.mean_of([0.0, 5.0], "geometric") == 0
    assert mean_interval([0.0, 5.0], mean="geometric") is None
    assert spread_pct([0.0, 5.0], "geometric") is None
    with pytest.raises(ValueError, match="positive"):
        stats.mean_of([-1.0, 5.0], "geometric")
    with pytest.raises(ValueError, match="positive"):
        measure_geometric([0.0, 5.0], [1.0, 5.0])


@given(near_pairs)
@settings(deadline=None)
def test_p_interval_and_equivalence_of_pairs_are_scipys(rows: list[tuple[float, float]]) -> None:
    base, other = np.array([a for a, _ in rows]), np.array([b for _, b in rows])
    # Where differences are equal but for rounding, scipy's t statistic is noise.
    assume(spread_out(list(other - base + 100)))
    found = compare(list(base), list(other), better="higher", margin_pct=2, resamples=0)
    assert found.p == pytest.approx(reference.ttest_rel(other, base).pvalue, rel=1e-6, abs=1e-12)
    if found.interval_pct is not None:
        for bound in found.interval_pct:
            at_bound = reference.ttest_rel(other, base * (1 + bound / 100)).pvalue
            assert at_bound == pytest.approx(0.05, rel=1e-6)
    above = reference.ttest_rel(other, base * 0.98, alternative="greater").pvalue
    below = reference.ttest_rel(other, base * 1.02, alternative="less").pvalue
    assert found.p_equivalent == pytest.approx(max(above, below), rel=1e-6, abs=1e-12)


@settings(deadline=None)
@given(st.lists(near, min_size=2, max_size=9), st.lists(near, min_size=2, max_size=9))
def test_p_and_interval_without_pairs_are_welchs(base: list[float], other: list[float]) -> None:
    assume(spread_out(base) and spread_out(other))
    found = compare(base, other, better="lower", margin_pct=2, paired=False, resamples=0)
    welch = reference.ttest_ind(other, base, equal_var=False)
    assert found.p == pytest.approx(welch.pvalue, rel=1e-6, abs=1e-12)
    if found.interval_pct is not None:
        for bound in found.interval_pct:
            scaled = [value * (1 + bound / 100) for value in base]
            refused = reference.ttest_ind(other, scaled, equal_var=False).pvalue
            assert refused == pytest.approx(0.05, rel=1e-6)


@given(near_pairs)
@settings(deadline=None)
def test_interval_p_and_verdict_agree(rows: list[tuple[float, float]]) -> None:
    base, other = [a for a, _ in rows], [b for _, b in rows]
    for paired in (True, False):
        found = compare(base, other, better="higher", margin_pct=2, paired=paired, resamples=0)
        assert found.p is not None
        assert found.p_equivalent is not None
        if found.interval_pct is not None and found.error_pct:
            low, high = found.interval_pct
            assert low <= found.change_pct <= high
            assert (found.p < 0.05) == (low > 0 or high < 0)
        if found.verdict == "equivalent":
            assert abs(found.change_pct) <= 2
            assert found.iterations is None
        elif found.verdict != "inconclusive":
            assert found.p < 0.05
            assert (found.verdict == "improved") == (found.change_pct > 0)


@settings(deadline=None)
@given(several, st.floats(min_value=-0.5, max_value=0.5))
def test_a_constant_change_has_a_p(base: list[float], change: float) -> None:
    """Common random numbers may cancel altogether; nothing is divided by zero then."""
    shift = change * math.fsum(base) / len(base)
    found = compare(
        base, [value + shift for value in base], better="higher", margin_pct=1, resamples=0
    )
    assert found.p is not None
    assert not math.isnan(found.p)
    assert 0 <= found.p <= 1


def test_equal_runs_are_equivalent_and_exactly_scaled_ones_are_not() -> None:
    base = [1.0, 2.0, 4.0]
    same = compare(base, base, better="lower", margin_pct=0)
    assert (same.change_pct, same.interval_pct, same.p) == (0.0, (0.0, 0.0), 1.0)
    assert same.verdict == "equivalent"
    slower = compare(base, [value * 1.5 for value in base], better="lower", margin_pct=1)
    assert slower.change_pct == pytest.approx(50)
    assert slower.interval_pct == pytest.approx((50, 50))
    shifted = compare(base, [value + 0.5 for value in base], better="lower", margin_pct=1)
    assert (shifted.p, shifted.verdict) == (0.0, "regressed")
    faster = compare(base, [value - 0.5 for value in base], better="lower", margin_pct=1)
    assert faster.verdict == "improved"


@given(pairs, st.floats(min_value=0.1, max_value=1000))
def test_the_unit_does_not_matter(rows: list[tuple[float, float]], unit: float) -> None:
    base, other = [a for a, _ in rows], [b for _, b in rows]
    differences = [b - a for a, b in rows]
    assume(max(differences) - min(differences) > 1e-6 * max(*base, *other))
    one = PairedMeans(base, other)
    two = PairedMeans([a * unit for a in base], [b * unit for b in other])
    assert two.change == pytest.approx(one.change, rel=1e-6, abs=1e-8)
    assert one.p() == pytest.approx(two.p(), rel=1e-3, abs=1e-9)


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
    assert (found.verdict, found.iterations) == ("inconclusive", None)
    assert mean_interval([1.0]) is None
    assert spread_pct([1.0]) is None


@pytest.mark.parametrize(
    ("base", "other"), [([1.0], [1.0, 2.0]), ([], []), ([0.0], [1.0]), ([0.0, 0.0], [1.0, 1.0])]
)
def test_what_cannot_be_compared_is_refused(base: list[float], other: list[float]) -> None:
    with pytest.raises(ValueError, match=r"pair|baseline"):
        compare(base, other, better="higher", margin_pct=1)


def test_a_negative_baseline_keeps_the_direction() -> None:
    found = compare([-10.0, -11.0, -10.5], [-5.0, -6.0, -5.5], better="higher", margin_pct=1)
    assert found.change_pct > 0
    assert found.interval_pct is not None
    assert found.interval_pct[0] < found.change_pct < found.interval_pct[1]
    assert found.verdict == "improved"


def test_a_baseline_that_may_be_0_has_no_bounds() -> None:
    found = compare([1.0, -2.0, 3.0], [1.0, 5.0, 3.0], better="higher", margin_pct=1)
    assert found.interval_pct is None
    assert found.verdict == "inconclusive"


def row(change_pct: float, error_pct: float, n: int = 10) -> Measured:
    std = error_pct / 100 * math.sqrt(n / 2)
    return stats.measure_summaries(Summary(1, std, n), Summary(1 + change_pct / 100, std, n))


def test_holm_and_benjamini_hochberg_are_as_published() -> None:
    """Four p values: Holm's steps by hand, and scipy's own Benjamini-Hochberg."""
    rows = [row(change, 1.0) for change in (4.0, 3.0, 2.5, 0.1)]
    p = [each.p or 0 for each in rows]
    found = stats.judge(rows, ["higher"] * 4, Rules())
    by_hand = [4 * p[0], max(4 * p[0], 3 * p[1]), 0.0, 0.0]
    by_hand[2] = max(by_hand[1], 2 * p[2])
    by_hand[3] = max(by_hand[2], p[3])
    assert [each.p_holm for each in found] == pytest.approx(by_hand)
    assert [each.p_bh for each in found] == pytest.approx(
        list(reference.false_discovery_control(p, method="bh"))
    )


def test_correction_takes_a_verdict_back_and_says_what_would_settle_it() -> None:
    alone = stats.judge([row(-2.5, 1.0)], ["higher"], Rules())[0]
    assert alone.verdict == "regressed"
    many = stats.judge([row(-2.5, 1.0)] + [row(0.5, 1.0)] * 99, ["higher"] * 100, Rules())[0]
    assert many.verdict == "inconclusive"
    assert many.iterations is not None
    assert many.iterations > 10
    single = stats.judge(
        [row(-2.5, 1.0)] + [row(0.5, 1.0)] * 99, ["higher"] * 100, Rules(correction="none")
    )[0]
    assert single.verdict == "regressed"


def test_the_iterations_proposed_have_the_power_promised() -> None:
    for change, std in ((0.03, 0.02), (0.01, 0.05), (0.1, 0.03)):
        unit = math.sqrt(2) * std
        n = to_detect(change, unit, power=0.8)
        assert n is not None
        assert detection_power(n, change, unit, significance=0.05, paired=False) >= 0.8
        if n > 2:
            assert detection_power(n - 1, change, unit, significance=0.05, paired=False) < 0.8
    assert to_detect(1e-6, 0.1) is None
    n = to_show_equivalent(0.0, 0.02, 0.03)
    assert n is not None
    found = [
        equivalence_power(size, 0.0, 0.02, 0.03, significance=0.05, paired=False)
        for size in (n - 1, n)
    ]
    assert found[0] < 0.8 <= found[1]
    assert to_show_equivalent(0.03, 0.02, 0.03) is None


def test_what_nobody_calls_better_is_never_improved() -> None:
    assert stats.judge([row(30, 1.0)], [None], Rules())[0].verdict == "inconclusive"


def test_medians_do_not_follow_an_outlier() -> None:
    base = [100.0, 101, 99, 100, 102, 98, 100, 101]
    other = [*(value * 1.05 for value in base[:-1]), 1000.0]
    found = compare(base, other, better="lower", margin_pct=2, paired=False, statistic="median")
    assert found.change_pct == pytest.approx(5, abs=0.6)
    assert found.verdict == "regressed"
    with pytest.raises(ValueError, match="positive"):
        Medians([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])


def test_outliers_and_drift_are_named_and_noise_is_not() -> None:
    generator = np.random.default_rng(5)
    accused = drifting = 0
    for _ in range(400):
        values = list(generator.normal(100, 2, 12))
        accused += bool(stats.outliers(values))
        drifting += stats.drift(values) is not None
    # Both at a level of 1 %, and 400 samples.
    assert accused <= 12
    assert drifting <= 12
    values = list(generator.normal(100, 1, 20))
    values[7] = 120
    values[12] = 81
    assert stats.outliers(values) == [7, 12]
    trend = stats.drift([value + place for place, value in enumerate(generator.normal(100, 1, 20))])
    assert trend is not None
    assert trend.pct == pytest.approx(19, abs=4)


def test_the_bootstrap_has_the_middle_and_order_of_the_t_interval() -> None:
    generator = np.random.default_rng(7)
    base, other = generator.normal(100, 3, 30), generator.normal(103, 3, 30)
    for paired in (True, False):
        found = stats.measure(list(base), list(other), paired=paired)
        assert found.bootstrap_pct is not None
        assert found.interval_pct is not None
        assert found.bootstrap_pct == pytest.approx(found.interval_pct, abs=0.4)
        again = stats.measure(list(base), list(other), paired=paired)
        assert again.bootstrap_pct == found.bootstrap_pct


def test_summaries_say_what_their_samples_say() -> None:
    base, other = [100.0, 103.0, 98.0], [110.0, 104.0, 107.0]
    mine, theirs = (
        Summary(float(np.mean(values)), float(np.std(values, ddof=1)), len(values))
        for values in (base, other)
    )
    test = IndependentMeans(mine, theirs)
    welch = reference.ttest_ind(other, base, equal_var=False)
    assert test.p() == pytest.approx(welch.pvalue)


def test_a_sample_of_many_values_takes_no_time() -> None:
    generator = np.random.default_rng(11)
    base, other = list(generator.normal(100, 3, 20_000)), list(generator.normal(101, 3, 20_000))
    found = stats.measure(base, other, paired=False)
    assert found.bootstrap_pct is None
    assert found.interval_pct is not None
    assert found.interval_pct[0] < 1 < found.interval_pct[1]
    assert len(stats.outliers(base)) <= 50
    trend = stats.drift([value + place / 2000 for place, value in enumerate(base)])
    assert trend is not None
    assert trend.pct == pytest.approx(10, rel=0.2)
