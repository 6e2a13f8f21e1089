"""``schedlab study calibrate``: free parameters, fitted to the baseline alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import beat
import pytest
from click.testing import CliRunner, Result
from schedlab.cli import main
from schedlab.study import StudyError, load
from schedlab.study.calibrate import calibrate

if TYPE_CHECKING:
    from pathlib import Path

# Four tasks that compute for a while in every 10 ms of 300 ms.
STUDY = (
    beat.study("tasks = 4, stagger_ns = 100_000", "busy CPUs", iterations=2, duration_s=0.3)
    + """
# How long each computes.
[[parameter]]
target = "workload.beat.run_us"
value = 300
kind = "calibrated"
source = "fitted"

[calibration]
iterations = 1

[[calibration.kernel]]
name = "at most 1 us"
kernel = "v6.1"
set = { cpuidle.cpu_latency_us = 1 }

[[calibration.free]]
target = "workload.beat.run_us"
low = 100
high = 5_000

[[calibration.target]]
workload = "beat"
figure = "user time"
kernel = "at most 1 us"
unit = "s"
value = 0.3
tolerance = 0.003
source = "made up"
"""
)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Write the study."""
    path = tmp_path / "beat.toml"
    path.write_text(STUDY)
    return path


def invoke(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def test_a_free_parameter_is_fitted_to_what_is_aimed_at(study: Path, tmp_path: Path) -> None:
    told: list[tuple[int, float]] = []
    fit = calibrate(
        study,
        evaluations=24,
        jobs=1,
        store=tmp_path / "store",
        progress=lambda tried, squares: told.append((tried, squares)),
    )
    assert fit.evaluations <= 24
    assert [tried for tried, _ in told] == list(range(1, fit.evaluations + 1))
    (parameter,) = fit.parameters
    # 120 computations; some share their core with another, which takes them longer.
    assert parameter.before == 300
    assert parameter.after == pytest.approx(2_500, rel=0.05)
    assert not parameter.at_bound
    (residual,) = fit.residuals
    assert residual.before == pytest.approx(0.036, rel=0.1)
    assert abs(residual.miss) < 2
    assert fit.study.parameters[0].value == parameter.after


def test_what_cannot_be_reached_is_left_over_at_the_bound(study: Path, tmp_path: Path) -> None:
    study.write_text(STUDY.replace("high = 5_000", "high = 1_000"))
    fit = calibrate(study, evaluations=16, jobs=1, store=tmp_path / "store")
    assert fit.parameters[0].at_bound
    assert fit.residuals[0].miss < -50


def test_fitted_values_go_into_the_file_and_comments_stay(study: Path, tmp_path: Path) -> None:
    words = ["study", "calibrate", str(study), "--evaluations", "16", "--jobs", "1"]
    words += ["--store", str(tmp_path / "store"), "--write", "--json"]
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    fitted = json.loads(result.stdout)["parameters"][0]["after"]
    assert load(study).parameters[0].value == fitted != 300
    assert "# How long each computes." in study.read_text()


def test_a_treatment_is_no_aim(study: Path) -> None:
    study.write_text(STUDY.replace('kernel = "at most 1 us"\nunit', 'kernel = "new"\nunit'))
    with pytest.raises(
        StudyError, match="kernel names new, which is not there; there are old, at most 1 us"
    ):
        load(study)


@pytest.mark.parametrize(
    ("was", "is_now", "message"),
    [
        ("low = 100\n", "low = 0\n", "no range of positive numbers"),
        ("tolerance = 0.003", "tolerance = 0", "tolerance must be more than 0"),
        (
            'target = "workload.beat.run_us"\nlow',
            'target = "workload.beat.nice"\nlow',
            "target names workload.beat.nice, which is not there",
        ),
    ],
)
def test_bad_calibrations_are_refused(study: Path, was: str, is_now: str, message: str) -> None:
    study.write_text(STUDY.replace(was, is_now))
    result = invoke("study", "calibrate", str(study))
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


def test_what_is_not_there_is_named() -> None:
    result = invoke("study", "calibrate", "nohz-push")
    assert result.exit_code == 2
    assert "has no [calibration]" in result.output
    result = invoke("study", "calibrate", "idle-governors", "--write")
    assert result.exit_code == 2
    assert "built in" in result.output
    result = invoke("study", "calibrate", "idle-governors", "--workload", "geekbench")
    assert result.exit_code == 2
    assert "there are geekbench5" in result.output
