"""Stores: of live runs, which ``bench run`` fills, and of simulated ones, which studies fill."""

from __future__ import annotations

import json
from statistics import fmean
from typing import TYPE_CHECKING, Any

from schedlab.comparison.model import Case, CompareError, Results, Sample, better_of
from schedlab.store import Store

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read"]


def read(folder: Path, results: Results, better: str | None) -> None:
    """Read a store's runs into ``results``.

    Raises :class:`schedlab.CompareError` for a store of which the runs cannot be told apart.
    """
    store = Store(folder)
    rows = store.query("SELECT * FROM runs")
    if not rows:
        raise CompareError(f"{folder}: a store without any run; fill it by schedlab bench run")
    if "figure" in rows[0]:
        _simulated(folder, rows, results, better)
    else:
        _live(folder, rows, results)


def _live(folder: Path, rows: list[dict[str, Any]], results: Results) -> None:
    rows.sort(key=lambda row: (row["variant"], row["time_s"]))
    order = {row["kernel"]: row["variant"] for row in rows}
    results.labels = dict.fromkeys(sorted(order, key=order.__getitem__))
    boots: dict[str, set[str]] = {}
    boot_of: dict[tuple[str, str], str] = {}
    sessions: dict[str, dict[str, str]] = {}
    for row in rows:
        case = Case(row["benchmark"], row["case"], row["metric"], row["unit"], row["better"])
        iteration = str(row["iteration"])
        if not results.add(case, row["kernel"], iteration, row["value"], row["time_s"]):
            raise CompareError(
                f"{folder}: {case.name} has iteration {iteration} of {row['kernel']} twice; "
                "keep each plan in a store of its own"
            )
        boots.setdefault(row["kernel"], set()).add(row["boot_id"])
        boot_of[row["kernel"], iteration] = row["boot_id"]
        sessions.setdefault(iteration, {})[row["kernel"]] = row["session"]
    results.interleaved = _took_turns(list(sessions.values()))
    first = json.loads(rows[0]["machine"])
    told = {key: str(value) for key, value in first.items() if isinstance(value, str | int)}
    for name in ("kernel_release", "cmdline"):
        found = {json.loads(row["machine"]).get(name) for row in rows}
        told[name] = "; ".join(sorted(str(each) for each in found))
    told["boots"] = ", ".join(f"{label} {len(ids)}" for label, ids in boots.items())
    told["plan"] = rows[0]["plan"]
    told["command"] = "; ".join(dict.fromkeys(row["command"] for row in rows))
    results.provenance |= told
    if results.interleaved:
        return
    if min(len(ids) for ids in boots.values()) > 1:
        _by_boot(results, boot_of)
        results.provenance["values"] = "means of boots, since labels differ by boot"
    elif len(set().union(*boots.values())) > 1:
        results.provenance["warning"] = (
            "one boot of a label: what differs from boot to boot looks like an effect"
        )


def _by_boot(results: Results, boot_of: dict[tuple[str, str], str]) -> None:
    """Take each boot's mean for its iterations, which share whatever the boot decided once."""
    for samples in results.samples.values():
        for label, sample in samples.items():
            found: dict[str, list[float]] = {}
            times: dict[str, float] = {}
            for iteration, value in sample.values.items():
                boot = boot_of[label, iteration]
                found.setdefault(boot, []).append(value)
                times.setdefault(boot, sample.times[iteration])
            numbered = {boot: f"boot {number}" for number, boot in enumerate(found)}
            samples[label] = Sample(
                {numbered[boot]: fmean(values) for boot, values in found.items()},
                {numbered[boot]: time_s for boot, time_s in times.items()},
            )


def _took_turns(rounds: list[dict[str, str]]) -> bool:
    """Tell whether iterations of a number ran one after the other.

    A session that went on in the midst of a round has parted it; that spoils no more than one.
    """
    whole = [each for each in rounds if len(each) > 1]
    return sum(len(set(each.values())) == 1 for each in whole) > len(whole) / 2


def _simulated(
    folder: Path, rows: list[dict[str, Any]], results: Results, better: str | None
) -> None:
    known: dict[str | None, Any] = {"higher": "higher", "lower": "lower"}
    for row in sorted(rows, key=lambda row: (row["kernel"], row["workload"], row["seed"])):
        if row["value"] is None:
            continue
        case = Case(
            row["workload"],
            row["machine"],
            row["figure"],
            row["unit"],
            known.get(better) or better_of(row["unit"]),
        )
        if not results.add(case, row["kernel"], str(row["seed"]), row["value"]):
            raise CompareError(
                f"{folder}: {case.name} under {row['kernel']} has runs of seed {row['seed']} by "
                "several programs or parameters; compare them by schedlab study run"
            )
    # Runs of one seed share their random numbers.
    results.interleaved = True
