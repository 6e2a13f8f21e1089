"""What tuning varies, what it aims at, and what it yields."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from schedlab.names import near
from schedlab.study.reading import StudyError
from schedlab.sweep.model import Axis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from schedlab.study.model import Study
    from schedlab.sweep.execute import Tally
    from schedlab.sweep.model import Plan
    from schedlab.sweep.table import Row

__all__ = ["TUNED", "UNTUNED", "Objective", "Parameter", "Trial", "TuneResult"]

UNTUNED, TUNED = "untuned", "tuned"

# Short for where the parameters of governors stand.
SHORT = {"governor.": "kernel.cpuidle.", "cpufreq.": "kernel.cpufreq."}

RANGE = re.compile(r"(-?[\d.]+(?:e-?\d+)?)\.\.(-?[\d.]+(?:e-?\d+)?)(:log)?")


@dataclass(frozen=True)
class Parameter:
    """A number or word to be chosen."""

    axis: Axis

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``TARGET=LOW..HIGH``, with ``:log`` for steps by factors, or ``TARGET=A,B,C``.

        >>> Parameter.parse("governor.utilization_shift=1..10:log").axis.targets
        ['kernel.cpuidle.utilization_shift']
        >>> Parameter.parse("kernel.cpuidle.governor=menu-6.1,teo-6.1").axis.values
        ['menu-6.1', 'teo-6.1']

        Raises :class:`schedlab.StudyError` for anything else.
        """
        target, equals, words = text.partition("=")
        for short, whole in SHORT.items():
            if target.startswith(short):
                target = whole + target.removeprefix(short)
        if equals and words and "." not in target:
            raise StudyError(
                f"--parameter {text}: {target or 'nothing'} does not say whose it is; write "
                "governor., cpufreq., kernel., machine. or workload. before it, as in "
                "governor.utilization_shift=1..10"
            )
        if not equals or not words:
            raise StudyError(
                f"--parameter {text}: write TARGET=LOW..HIGH or TARGET=A,B,C, such as "
                "governor.utilization_shift=1..10"
            )
        name = target.rpartition(".")[2]
        found = RANGE.fullmatch(words)
        if found is None:
            values = [_value(word) for word in words.split(",")]
            if len(values) < 2:  # noqa: PLR2004 - one is no choice
                raise StudyError(f"--parameter {text}: one value is no choice; add others")
            return cls(Axis(name, [target], values))
        low, high = float(found[1]), float(found[2])
        if not low < high or (found[3] and low <= 0):
            raise StudyError(f"--parameter {text}: {words} is no range that can be searched")
        both_whole = found[1].lstrip("-").isdigit() and found[2].lstrip("-").isdigit()
        by_factors = found[3] is not None
        return cls(Axis(name, [target], [], low, high, 2, logarithmic=by_factors, whole=both_whole))


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word


@dataclass(frozen=True)
class Objective:
    """A figure to be made less, or more."""

    figure: str
    higher: bool
    workload: str | None = None
    """Of this workload alone; ``None``: of all, by the geometric mean of their changes."""

    @classmethod
    def parse(cls, text: str, study: Study) -> Self:
        """Read ``[min:|max:]FIGURE[@WORKLOAD]``; the study's metrics tell which where neither does.

        Raises :class:`schedlab.StudyError` where nobody tells, or for an unknown workload.
        """
        direction, colon, rest = text.partition(":")
        if not colon or direction not in {"min", "max"}:
            direction, rest = "", text
        figure, _, workload = rest.partition("@")
        cases = [case.name for case in study.cases]
        if workload and workload not in cases:
            raise StudyError(
                f"--objective {text}: there is no workload {workload}; there are {', '.join(cases)}"
                f"{near(workload, cases)}"
            )
        better = {metric.better for metric in study.metrics if metric.figure == figure}
        if not direction and len(better) != 1:
            word, colon, rest = text.partition(":")
            if colon and word.isalpha():
                raise StudyError(
                    f"--objective {text}: {word} is neither min nor max; write min:{rest} or "
                    f"max:{rest}"
                )
            raise StudyError(f"--objective {text}: say which way, as min:{text} or max:{text}")
        higher = direction == "max" if direction else better == {"higher"}
        return cls(figure, higher, workload or None)

    @property
    def name(self) -> str:
        """Name it as it was given."""
        place = f"@{self.workload}" if self.workload else ""
        return f"{'max' if self.higher else 'min'}:{self.figure}{place}"


@dataclass(frozen=True)
class Trial:
    """A set of values that was tried."""

    number: int
    values: Mapping[str, Any]
    """By the parameter's name."""
    changes_pct: Sequence[float]
    """Of each objective, against the untuned kernel, in the runs of the search."""
    iterations: int
    """Fewer than all for one that was given up."""
    pruned: bool


@dataclass(frozen=True)
class TuneResult:
    """What tuning yields."""

    plan: Plan
    objectives: Sequence[Objective]
    trials: Sequence[Trial]
    front: Sequence[Trial]
    """The best trial, or with several objectives those that no other is better than in all."""
    search: Mapping[int, Sequence[Row]]
    """Of each trial of the front, what the search itself saw, by the trial's number."""
    fresh: Mapping[int, Sequence[Row]]
    """The same on seeds that the search has not seen."""
    held_out: Mapping[int, Sequence[Row]]
    """The same on workloads that it has not seen; none where none was given."""
    tally: Tally

    @property
    def table(self) -> pl.DataFrame:
        """The trials as a Polars frame, a row each."""
        import polars as pl  # noqa: PLC0415 - `--help` needs none

        aims = [each.name for each in self.objectives]
        return pl.DataFrame(
            [
                {
                    "trial": trial.number,
                    **trial.values,
                    **{
                        f"{aim}, change %": change
                        for aim, change in zip(aims, trial.changes_pct, strict=True)
                    },
                    "iterations": trial.iterations,
                    "pruned": trial.pruned,
                }
                for trial in self.trials
            ],
            infer_schema_length=None,
        )

    @property
    def confirmed(self) -> pl.DataFrame:
        """The front as a Polars frame: a row per trial, ``where`` it ran, workload and figure.

        ``where`` is ``search``, ``fresh`` or ``held_out``; each figure has a row ``untuned`` and a
        row ``tuned``.
        """
        import polars as pl  # noqa: PLC0415 - as above

        from schedlab.sweep.table import rows_frame  # noqa: PLC0415 - as above

        parts = [
            rows_frame(self.plan, rows[trial.number]).select(
                pl.lit(trial.number).alias("trial"), pl.lit(where).alias("where"), pl.all()
            )
            for trial in self.front
            for where, rows in (
                ("search", self.search),
                ("fresh", self.fresh),
                ("held_out", self.held_out),
            )
            if rows[trial.number]
        ]
        return pl.concat(parts, how="vertical_relaxed") if parts else pl.DataFrame()
