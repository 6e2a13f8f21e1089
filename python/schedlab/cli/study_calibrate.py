"""``schedlab study calibrate``: the free parameters of a study, fitted to its baseline."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedlab._files import write_text
from schedlab.cli._errors import Refusal
from schedlab.cli._numbers import ITERATIONS_MAX, JOBS
from schedlab.cli._output import Column, print_json, print_note, print_table, print_title
from schedlab.study import words

if TYPE_CHECKING:
    from collections.abc import Callable

    from schedlab.study.calibrate import Fit


@click.command("calibrate")
@click.argument("name_or_file", metavar="NAME|FILE")
@click.option(
    "--workload", "workloads", multiple=True, help="Fit what concerns this workload only."
)
@click.option(
    "--evaluations",
    type=click.IntRange(2, ITERATIONS_MAX),
    default=60,
    show_default=True,
    help="Try so many sets of parameters at most, rounded to whole steps of the search.",
)
@click.option("--jobs", type=JOBS, help="Simulate in so many processes.")
@click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep runs in runs/ of this folder; $SCHEDLAB_STORE or schedlab in the user's cache by "
    "default.",
)
@click.option("--write", is_flag=True, help="Put the fitted values into FILE.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    name_or_file: str,
    workloads: tuple[str, ...],
    evaluations: int,
    jobs: int | None,
    store: Path | None,
    write: bool,
    as_json: bool,
) -> None:
    """Fit a study's free parameters to its baseline, and show the fit and what is left over.

    Only the baseline and the controls that [calibration] names are run: what a treatment does is
    what the study is to predict. Runs are kept, so that a fit that was interrupted goes on.
    """
    from schedlab.names import near  # noqa: PLC0415 - `--help` needs none
    from schedlab.study import load  # noqa: PLC0415
    from schedlab.study.calibrate import calibrate  # noqa: PLC0415

    study = load(name_or_file)
    path = Path(name_or_file)
    if write and not path.is_file():
        raise click.UsageError(
            f"{name_or_file} is built in; print it by `schedlab study show --toml`, and fit the "
            "copy."
        )
    known = [case.name for case in study.cases]
    for name in workloads:
        if name not in known:
            raise Refusal(
                f"{study.name} has no workload {name}; there are {', '.join(known)}"
                f"{near(name, known)}"
            )
    fit = calibrate(
        study,
        workloads=workloads,
        evaluations=evaluations,
        jobs=jobs,
        store=store,
        progress=_told(),
    )
    if write:
        _write(fit, path)
    if as_json:
        print_json(_as_dict(fit))
    else:
        _print(fit)


def _told() -> Callable[[int, float], None] | None:
    if not sys.stderr.isatty():
        return None

    def tell(tried: int, squares: float) -> None:
        print_note(f"set {tried}: sum of squared misses {squares:.2f}")

    return tell


def _as_dict(fit: Fit) -> dict[str, Any]:
    return {
        "study": fit.study.name,
        "evaluations": fit.evaluations,
        "parameters": [asdict(each) for each in fit.parameters],
        "residuals": [
            {**asdict(each.target), "before": each.before, "after": each.after, "miss": each.miss}
            for each in fit.residuals
        ],
    }


def _print(fit: Fit) -> None:
    print_title(f"{fit.study.name}: fitted in {fit.evaluations} sets of parameters")
    print_table(
        [
            Column("target", "parameter", numeric=False),
            Column("before", "before", _shown),
            Column("after", "fitted", _shown),
            Column("low", "from", _shown),
            Column("high", "to", _shown),
            Column("note", "", numeric=False),
        ],
        [
            {**asdict(each), "note": "at its bound" if each.at_bound else ""}
            for each in fit.parameters
        ],
    )
    click.echo()
    print_table(
        [
            Column("what", "aimed at", numeric=False),
            Column("kernel", "kernel", numeric=False),
            Column("value", "published", _shown),
            Column("before", "before", _shown),
            Column("after", "fitted", _shown),
            Column("unit", "unit", numeric=False),
            Column("miss", "miss in tolerances", lambda miss: f"{miss:+.2f}"),
        ],
        [
            {
                **asdict(each.target),
                "what": f"{each.target.workload}: {each.target.figure}",
                "before": each.before,
                "after": each.after,
                "miss": each.miss,
            }
            for each in fit.residuals
        ],
    )


def _shown(value: float) -> str:
    return words.number(value) or ""


def _write(fit: Fit, path: Path) -> None:
    """Put values where they stand; comments and the order of the file stay."""
    import tomlkit  # noqa: PLC0415 - as above

    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    fitted = {each.target: each.after for each in fit.parameters}
    for parameter in document["parameter"]:
        if parameter["target"] in fitted:
            value = fitted[parameter["target"]]
            parameter["value"] = int(value) if value == int(value) else value
    write_text(path, tomlkit.dumps(document))
