"""What a search shows: its best trials, and each of the front as it was confirmed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from schedlab.study.words import number
from schedlab.sweep.model import label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.sweep.table import Row
    from schedlab.tune.model import Trial, TuneResult

__all__ = ["best", "confirmed", "result_dict", "values_text"]

TRIALS_SHOWN = 5


def values_text(trial: Trial) -> str:
    """Write what was tried."""
    return ", ".join(f"{name} {label(value)}" for name, value in trial.values.items())


def best(result: TuneResult) -> list[Trial]:
    """Give the best trials, or with several objectives the front."""
    if len(result.objectives) > 1:
        return list(result.front)
    sign = -1 if result.objectives[0].higher else 1
    whole = [trial for trial in result.trials if not trial.pruned]
    return sorted(whole, key=lambda trial: sign * trial.changes_pct[0])[:TRIALS_SHOWN]


def confirmed(result: TuneResult, trial: Trial) -> list[dict[str, Any]]:
    """Give a line per figure and workload: in the search, on fresh seeds, and held out."""
    lines = []
    for where, found in (
        ("in the search", result.search),
        ("fresh seeds", result.fresh),
        ("held out", result.held_out),
    ):
        own = found[trial.number]
        untuned = {
            (row.machine, row.workload, row.figure): row for row in own if row.compared is None
        }
        for row in own:
            if row.compared is None:
                continue
            base = untuned.get((row.machine, row.workload, row.figure))
            interval = row.compared.interval_pct
            lines.append(
                {
                    "where": where,
                    "workload": row.workload,
                    "figure": row.figure,
                    "n": row.n,
                    "untuned": base and number(base.mean),
                    "tuned": number(row.mean),
                    "unit": "" if row.unit == "1" else row.unit,
                    "change": f"{row.compared.change_pct:+.2f}",
                    "interval": interval and f"{interval[0]:+.2f} .. {interval[1]:+.2f}",
                    "verdict": "" if where == "in the search" else row.compared.verdict,
                }
            )
    return lines


def result_dict(result: TuneResult) -> dict[str, Any]:
    """Give a search for JSON."""

    def rows(found: Sequence[Row]) -> list[dict[str, Any]]:
        return [{**asdict(row), "interval": row.interval and list(row.interval)} for row in found]

    return {
        "study": result.plan.name,
        "kernel": result.plan.settings["kernel"],
        "objectives": [each.name for each in result.objectives],
        "trials": [asdict(trial) for trial in result.trials],
        "front": [
            {
                **asdict(trial),
                "search": rows(result.search[trial.number]),
                "fresh": rows(result.fresh[trial.number]),
                "held_out": rows(result.held_out[trial.number]),
            }
            for trial in result.front
        ],
        "runs": {"simulated": result.tally.done, "stored": result.tally.stored},
    }
