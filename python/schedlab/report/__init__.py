"""The HTML report: one self-contained page with a timeline, distributions and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedlab._files import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from schedlab.machine import Machine
    from schedlab.report.model import Report
    from schedlab.study import StudyResult
    from schedlab.trace import Trace

__all__ = ["figures_of", "write"]


def write(
    trace: Trace,
    path: str | Path,
    machine: Machine | None = None,
    governors: Sequence[str] = (),
    *,
    guessed: bool = False,
    studies: Sequence[StudyResult] = (),
) -> Report:
    """Write a page about a trace, and return what it shows.

    With a machine, idle states have names, sleeps are judged, and the idle governors named (all
    of them if none is) choose anew for the trace's idle periods. ``guessed`` says on the page that
    nobody named the machine. Results of studies get a section each.

    >>> import pathlib, schedlab, tempfile
    >>> trace = schedlab.read_trace("tests/data/traces/qemu_idle_menu.dat")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = write(trace, f"{folder}/page.html", schedlab.Machine.load("simidle"), ["menu"])
    ...     page = pathlib.Path(folder, "page.html").read_text()
    >>> page.startswith("<!doctype html>"), figures_of(report)["trace"]["cpus"]
    (True, 4)
    """
    from schedlab.report import gather, page  # noqa: PLC0415 - Altair and Polars take their time

    report = gather.gather(trace, machine, governors, guessed=guessed)
    write_text(path, page.render(report, studies))
    return report


def figures_of(report: Report) -> dict[str, Any]:
    """Give a report's numbers, as the page carries them in its element ``figures``."""
    from schedlab.report.figures import figures  # noqa: PLC0415 - as above

    return figures(report)
