"""From figures to the study's table: means, intervals, changes, and what holds."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from schedlab import stats
from schedlab.study.model import Row
from schedlab.study.reading import StudyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.study.model import Figure, Metric, Study

__all__ = ["evaluate"]

Values = dict[tuple[str, str, str, str], list[float]]


def evaluate(study: Study, figures: Sequence[Figure], *, small: bool = False) -> list[Row]:
    """Give the rows of the study's table, metric by metric.

    Raises :class:`schedlab.StudyError` for a figure that no run has, or that a run did not measure.
    """
    values = _by_kernel(figures)
    names: dict[str, list[str]] = {}
    for figure in figures:
        if figure.figure not in names.setdefault(figure.workload, []):
            names[figure.workload].append(figure.figure)
    for metric in study.metrics:
        known = names.get(metric.workload, [])
        if metric.figure not in known:
            raise StudyError(
                f"{study.name}: workload {metric.workload} has no figure {metric.figure!r}; "
                f"there are {', '.join(known)}"
            )
    compared = _compared(study, values)
    rows = []
    for number, metric in enumerate(study.metrics):
        for machine in study.machines_of(study.case(metric.workload)):
            rows += _levels(study, metric, machine, values, small=small)
            if metric.order:
                rows += _order(study, metric, machine, values)
            if metric.change is not None:
                rows += [
                    _change(
                        study, metric, machine, kernel.name, compared[number, machine, kernel.name]
                    )
                    for kernel in study.treatments
                ]
    return rows


def _compared(study: Study, values: Values) -> dict[tuple[int, str, str], stats.Comparison]:
    """Compare every treatment with the baseline wherever a metric has a change, judged together.

    Runs of one iteration share their random numbers, so they pair.
    """
    places = [
        (number, machine, kernel.name)
        for number, metric in enumerate(study.metrics)
        if metric.change is not None
        for machine in study.machines_of(study.case(metric.workload))
        for kernel in study.treatments
    ]
    measured = []
    for number, machine, kernel_name in places:
        metric = study.metrics[number]
        base = _measured(study, metric, machine, study.baseline.name, values)
        found = _measured(study, metric, machine, kernel_name, values)
        try:
            if metric.mean == "geometric":
                row = stats.measure_geometric(base, found, significance=study.significance)
            else:
                row = stats.measure(
                    base, found, paired=True, significance=study.significance, resamples=0
                )
        except ValueError as error:
            raise StudyError(f"{study.name}: {metric.name} of {metric.workload}: {error}") from None
        measured.append(row)
    metrics = [study.metrics[number] for number, _, _ in places]
    judged = stats.judge(
        measured,
        [metric.better for metric in metrics],
        stats.Rules(significance=study.significance),
        [metric.margin_pct for metric in metrics],
    )
    return dict(zip(places, judged, strict=True))


def _by_kernel(figures: Sequence[Figure]) -> Values:
    values: Values = {}
    for figure in sorted(figures, key=lambda figure: figure.iteration):
        place = (figure.machine, figure.workload, figure.figure, figure.kernel)
        if figure.value is not None:
            values.setdefault(place, []).append(figure.value)
    return values


def _measured(
    study: Study, metric: Metric, machine: str, kernel: str, values: Values
) -> list[float]:
    found = values.get((machine, metric.workload, metric.figure, kernel), [])
    if not found:
        case = study.case(metric.workload)
        raise StudyError(
            f"{study.name}: {metric.figure!r} of {metric.workload} was not measured under {kernel} "
            f"within {case.duration_s:g} s; give the workload more time"
        )
    return found


def _mean(study: Study, metric: Metric, values: Sequence[float]) -> float:
    try:
        return stats.mean_of(values, metric.mean)
    except ValueError:
        raise StudyError(
            f"{study.name}: {metric.name} of {metric.workload} is {min(values):g} in some run, "
            'which has no geometric mean; give the metric mean = "arithmetic"'
        ) from None


def _published(study: Study, metric: Metric, kernel: str) -> Sequence[float]:
    if study.published is None or metric.published is None:
        return []
    return study.published.values.get((metric.published, kernel), [])


def _levels(
    study: Study, metric: Metric, machine: str, values: Values, *, small: bool
) -> list[Row]:
    rows = []
    for kernel in study.kernels:
        found = _measured(study, metric, machine, kernel.name, values)
        comparable = not (small and metric.full_size)
        published = _published(study, metric, kernel.name) if comparable else []
        simulated = _mean(study, metric, found)
        mean = _mean(study, metric, published) if published else None
        rule, tolerance, expected, ok = "", None, None, None
        if kernel.name in metric.exactly:
            expected = float(metric.exactly[kernel.name])
            rule, tolerance = "exactly", metric.exactly_by
            ok = all(abs(value - expected) <= metric.exactly_by for value in found)
        elif metric.within_pct is not None and mean is not None:
            rule, tolerance = "within %", metric.within_pct
            ok = abs(simulated - mean) <= metric.within_pct / 100 * abs(mean)
        elif metric.within_points is not None and mean is not None:
            rule, tolerance = "within points", metric.within_points
            ok = abs(simulated - mean) <= metric.within_points
        rows.append(
            Row(
                machine=machine,
                workload=metric.workload,
                metric=metric.name,
                kernel=kernel.name,
                unit=metric.unit,
                mean=metric.mean,
                simulated=simulated,
                interval=stats.mean_interval(found, 1 - study.significance, metric.mean),
                spread_pct=stats.spread_pct(found, metric.mean),
                published=mean,
                published_spread_pct=stats.spread_pct(published, metric.mean)
                if published
                else None,
                expected=expected,
                rule=rule,
                tolerance=tolerance,
                p=None,
                p_corrected=None,
                verdict=None,
                ok=ok,
            )
        )
    return rows


def _order(study: Study, metric: Metric, machine: str, values: Values) -> list[Row]:
    """Hold each two kernels that are neighbours in the published order against each other."""
    published = {
        kernel.name: _mean(study, metric, found)
        for kernel in study.kernels
        if (found := _published(study, metric, kernel.name))
    }
    ranked = sorted(published, key=lambda name: -published[name])
    rows = []
    for more, less in pairwise(ranked):
        means = [
            _mean(study, metric, _measured(study, metric, machine, name, values))
            for name in (more, less)
        ]
        difference = means[0] - means[1]
        rows.append(
            Row(
                machine=machine,
                workload=metric.workload,
                metric=f"{metric.name}, difference",
                kernel=f"{more} > {less}",
                unit=metric.unit,
                mean=metric.mean,
                simulated=difference,
                interval=None,
                spread_pct=None,
                published=published[more] - published[less],
                published_spread_pct=None,
                expected=None,
                rule="order",
                tolerance=None,
                p=None,
                p_corrected=None,
                verdict=None,
                ok=difference > 0,
            )
        )
    return rows


def _change(
    study: Study, metric: Metric, machine: str, kernel: str, compared: stats.Comparison
) -> Row:
    published = _published_change(study, metric, kernel)
    claimed = kernel in (metric.treatments or [kernel])
    expected = None
    tolerance, ok = None, None
    if claimed and metric.change not in {"fitted", "shown"}:
        expected = _expected_change(study, metric, published)
        if metric.change == "direction":
            ok = None if published is None else compared.change_pct * published > 0
        else:
            tolerance, ok = _holds(study, metric, kernel, compared, expected)
    return Row(
        machine=machine,
        workload=metric.workload,
        metric=f"{metric.name}, change",
        kernel=kernel,
        unit="%",
        mean=metric.mean,
        simulated=compared.change_pct,
        interval=compared.interval_pct,
        spread_pct=None,
        published=published,
        published_spread_pct=None,
        expected=expected,
        rule=f"{metric.change}" if claimed else "",
        tolerance=tolerance,
        p=compared.p,
        p_corrected=compared.p_holm,
        verdict=compared.verdict,
        ok=ok,
    )


def _expected_change(study: Study, metric: Metric, published: float | None) -> float | None:
    if metric.change != "near":
        return None
    if metric.near_pct is None and published is None:
        raise StudyError(
            f"{study.name}: {metric.name} of {metric.workload}: no change was published that it "
            "could be near; give near_pct"
        )
    return metric.near_pct if metric.near_pct is not None else published


def _holds(
    study: Study,
    metric: Metric,
    kernel: str,
    compared: stats.Comparison,
    expected: float | None,
) -> tuple[float, bool | None]:
    margin_pct = metric.margins.get(kernel, metric.margin_pct)
    if expected is not None:
        return margin_pct, abs(compared.change_pct - expected) <= margin_pct
    if metric.change == "equal":
        return margin_pct, abs(compared.change_pct) <= margin_pct
    # A single pair tells nothing of significance.
    if compared.p is None:
        return study.significance, None
    if metric.change == "better":
        return study.significance, compared.verdict == "improved"
    return study.significance, compared.p >= study.significance or compared.verdict == "equivalent"


def _published_change(study: Study, metric: Metric, kernel: str) -> float | None:
    if study.published is not None and metric.published_change is not None:
        changes = study.published.values.get((metric.published_change, kernel), [])
        return fmean(changes) if changes else None
    base = _published(study, metric, study.baseline.name)
    found = _published(study, metric, kernel)
    if not base or not found:
        return None
    return 100 * (_mean(study, metric, found) / _mean(study, metric, base) - 1)
