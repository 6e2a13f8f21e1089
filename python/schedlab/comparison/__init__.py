"""Benchmark results compared: files, stores and published tables in, a table of verdicts out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.comparison.model import Case, CompareError, Results

if TYPE_CHECKING:
    from pathlib import Path

    from schedlab.comparison.table import Settings, Table

__all__ = ["Case", "CompareError", "Results", "compare"]


def compare(*inputs: str | Path, settings: Settings | None = None) -> Table:
    r"""Compare what files, folders and stores hold, all labels with the first.

    An input that is no path is a label: those named are compared, in this order. ``settings``
    says how; see :class:`schedlab.comparison.table.Settings`.

    Raises :class:`schedlab.CompareError` for what cannot be read or compared.

    >>> import tempfile, pathlib
    >>> text = "benchmark,kernel,iteration,value,unit,better\n" + "".join(
    ...     f"pipe,{kernel},{i},{base + i % 3},us,lower\n"
    ...     for kernel, base in (("old", 100), ("new", 90)) for i in range(6))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "runs.csv")
    ...     _ = path.write_text(text)
    ...     [row] = compare(path).rows
    >>> row.other.label, round(row.effect, 3), row.compared.verdict
    ('new', 0.901, 'improved')
    """
    from schedlab.comparison.read import read  # noqa: PLC0415 - Polars and scipy take their time
    from schedlab.comparison.table import Settings, tabulate  # noqa: PLC0415 - as above

    return tabulate(read(inputs), settings or Settings())
