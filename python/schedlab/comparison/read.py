"""Takes results from files and folders, whatever their shape."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.comparison import read_csv, read_json, read_store
from schedlab.comparison.model import CompareError, Results
from schedlab.names import near

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.comparison.model import Case

__all__ = ["read"]


def read(
    inputs: Sequence[str | Path],
    *,
    runs: int = read_csv.PUBLISHED_RUNS,
    better: str | None = None,
) -> Results:
    """Read all inputs into one table of samples.

    Inputs that are no paths are labels: the first is the baseline, and only labels named are kept.
    Two files with the same label get the files' names as labels. ``runs`` is behind each mean of a
    published table that does not say; ``better`` holds for cases that do not say it themselves.

    Raises :class:`schedlab.CompareError` for an input that is neither, or has nothing in it.
    """
    paths = [Path(each) for each in inputs if Path(each).exists()]
    wanted = [str(each) for each in inputs if not Path(each).exists()]
    if not paths:
        names = ", ".join(map(str, inputs)) or "nothing"
        raise CompareError(f"{names}: no such file or folder; name a CSV file or a store")
    parts = [(path, _read_one(path, runs, better)) for path in paths]
    results = _merged(parts)
    results.provenance["inputs"] = ", ".join(map(str, paths))
    for label in wanted:
        if label not in results.labels:
            known = ", ".join(results.labels)
            raise CompareError(
                f"{label} is neither a path nor a label; there are {known}"
                f"{near(label, results.labels)}"
            )
    if wanted:
        results.labels = dict.fromkeys(wanted)
    if not (results.samples or results.summaries or results.changes):
        what = "; ".join(results.unread[:3]) or "no results in it"
        raise CompareError(f"{paths[0]}: {what}")
    return results


def _read_one(path: Path, runs: int, better: str | None) -> Results:
    results = Results()
    if path.is_dir():
        if (path / "runs").is_dir():
            read_store.read(path, results, better)
            return results
        files = sorted(path.glob("*.csv"))
        if not files:
            raise CompareError(f"{path}: neither a store nor a folder of CSV files")
        parts = []
        for file in files:
            part = Results()
            try:
                read_csv.read(file, part, runs=runs, better=better)
            except CompareError as error:
                results.unread.append(str(error))
            else:
                parts.append((file, part))
        return _side_by_side(results, parts)
    if path.suffix == ".json":
        read_json.read(path, results, better)
    else:
        read_csv.read(path, results, runs=runs, better=better)
    return results


def _side_by_side(results: Results, parts: list[tuple[Path, Results]]) -> Results:
    """Put files of a folder into one table: each is a comparison with a baseline of its own."""
    for path, part in parts:
        own = next(iter(part.labels), "")
        renamed = {label: read_csv.BASELINE if label == own else label for label in part.labels}
        results.labels |= dict.fromkeys(renamed.values())
        mine: list[tuple[dict[Case, dict[str, Any]], dict[Case, dict[str, Any]]]] = [
            (results.samples, part.samples),
            (results.summaries, part.summaries),
            (results.changes, part.changes),
        ]
        for known, added in mine:
            for case, labels in added.items():
                if case in known:
                    results.unread.append(f"{path}: {case.name} stands in another file, too")
                    continue
                known[case] = {renamed[label]: each for label, each in labels.items()}
        results.flagged |= {(case, renamed[label]) for case, label in part.flagged}
        results.unread += part.unread
    return results


def _merged(parts: list[tuple[Path, Results]]) -> Results:
    if len(parts) == 1:
        return parts[0][1]
    taken: list[str] = [label for _, part in parts for label in part.labels]
    merged = Results(interleaved=False)
    for path, part in parts:
        renamed = {
            label: label
            if taken.count(label) == 1
            else (path.stem if len(part.labels) == 1 else f"{path.stem}:{label}")
            for label in part.labels
        }
        for label in renamed.values():
            if label in merged.labels:
                raise CompareError(f"{path}: label {label} stands in another input, too")
            merged.labels[label] = None
        for case, samples in part.samples.items():
            mine = merged.samples.setdefault(case, {})
            mine.update({renamed[label]: sample for label, sample in samples.items()})
        for case, summaries in part.summaries.items():
            merged.summaries.setdefault(case, {}).update(
                {renamed[label]: each for label, each in summaries.items()}
            )
        for case, changes in part.changes.items():
            merged.changes.setdefault(case, {}).update(
                {renamed[label]: each for label, each in changes.items()}
            )
        merged.flagged |= {(case, renamed[label]) for case, label in part.flagged}
        merged.unread += part.unread
        for key, text in part.provenance.items():
            known = merged.provenance.get(key)
            merged.provenance[key] = text if known in (None, text) else f"{known}; {text}"
    return merged
