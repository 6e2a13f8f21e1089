"""What the store says about a plan: figures per cell and variant, compared with the baseline."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from schedlab import stats
from schedlab.stats.moments import Moments, PairedMoments
from schedlab.store import StoreError
from schedlab.store.segments import to_frame
from schedlab.sweep.model import KERNEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    import polars as pl

    from schedlab.stats import Comparison, Interval
    from schedlab.store.segments import Segments
    from schedlab.sweep.index import Index
    from schedlab.sweep.model import Plan
    from schedlab.sweep.run import Session, SweepResult

__all__ = [
    "Row",
    "figures_of",
    "frame",
    "moments_of",
    "rows_frame",
    "tabulate",
    "values_of",
    "view",
]


@dataclass(frozen=True)
class Row:
    """A figure of one variant in one cell."""

    cell: int
    machine: str
    workload: str
    values: Mapping[str, Any]
    """By axis, but for the compared one."""
    variant: str
    kernel: str
    figure: str
    unit: str
    n: int
    failed: int
    """Runs of this variant that failed."""
    mean: float | None
    std: float | None
    interval: Interval | None
    """Of the mean, by Student's t."""
    compared: Comparison | None
    """With the baseline of the cell; ``None`` for the baseline itself, and where nothing pairs."""
    moments: Moments | None
    """What the comparison was made of."""


def view(connection: duckdb.DuckDBPyConnection, index: Index) -> None:
    """Make ``mine``, a view of the plan's runs: a row per figure, with cell and iteration."""
    index.flush()
    connection.execute(
        f"""
        CREATE OR REPLACE VIEW mine AS
        SELECT p.cell, p.variant, p.iteration, r.*
        FROM read_parquet('{index.runs}/*.parquet') p JOIN runs r USING (key)
        """  # noqa: S608 - a folder of our own making
    )
    connection.execute(
        f"CREATE OR REPLACE VIEW cells AS FROM read_parquet('{index.cells}/*.parquet')"
    )


def tabulate(plan: Plan, segments: Segments, index: Index, *, limit: int = 0) -> list[Row]:
    """Compare what is stored of a plan so far; of the first ``limit`` cells if that is not 0.

    All rows are judged together. Memory is that of the rows, however many runs there are.
    """
    import duckdb  # noqa: PLC0415 - `--help` needs none

    with segments.connect() as connection:
        try:
            view(connection, index)
            wanted = sorted({choice.figure for choice in plan.figures})
            where = f"AND cell < {limit}" if limit else ""
            levels = connection.execute(
                f"""
                SELECT cell, variant, figure, any_value(unit), count(value), avg(value),
                       stddev_samp(value)
                FROM mine WHERE list_contains($wanted, figure) {where}
                GROUP BY ALL ORDER BY ALL
                """,  # noqa: S608 - a number
                {"wanted": wanted},
            ).fetchall()
            failures = connection.execute(
                f"""
                SELECT cell, variant, count(*) FROM mine WHERE error IS NOT NULL {where}
                GROUP BY ALL
                """  # noqa: S608 - as above
            ).fetchall()
            moments = moments_of(connection, wanted, limit)
            cells = connection.execute("FROM cells ORDER BY cell").fetchall()
        except duckdb.Error as error:
            words = str(error).splitlines()[0]
            raise StoreError(f"{segments.address}: {words}") from None
    failed = {(cell, variant): count for cell, variant, count in failures}
    return _rows(plan, cells, levels, failed, moments)


def moments_of(
    connection: duckdb.DuckDBPyConnection, figures: Sequence[str], limit: int = 0
) -> dict[tuple[int, int, str], Moments]:
    """Sum up the pairs of each variant with the baseline, by cell, variant and figure."""
    where = f"AND o.cell < {limit}" if limit else ""
    found = connection.execute(
        f"""
        SELECT o.cell, o.variant, o.figure, count(*), avg(b.value), avg(o.value - b.value),
               var_samp(b.value), var_samp(o.value - b.value),
               covar_samp(o.value - b.value, b.value)
        FROM mine o JOIN mine b USING (cell, iteration, figure)
        WHERE b.variant = 0 AND o.variant > 0 AND list_contains($wanted, o.figure) {where}
              AND b.value IS NOT NULL AND o.value IS NOT NULL
        GROUP BY ALL
        """,  # noqa: S608 - a number
        {"wanted": list(figures)},
    ).fetchall()
    return {
        (cell, variant, figure): Moments(
            n, base, difference, base_variance or 0.0, variance or 0.0, covariance or 0.0
        )
        for cell, variant, figure, n, base, difference, base_variance, variance, covariance in found
    }


def _rows(
    plan: Plan,
    cells: Sequence[tuple[Any, ...]],
    levels: Sequence[tuple[Any, ...]],
    failed: Mapping[tuple[int, int], int],
    moments: Mapping[tuple[int, int, str], Moments],
) -> list[Row]:
    by_place = {(cell, variant, figure): rest for cell, variant, figure, *rest in levels}
    variants = plan.variants
    rows: list[Row] = []
    measured: list[stats.Measured] = []
    better: list[stats.Better | None] = []
    places: list[int] = []
    for cell, machine, workload, kernel, values in cells:
        for choice in plan.figures:
            if choice.workload not in {None, workload}:
                continue
            for variant, name in enumerate(variants):
                found = by_place.get((cell, variant, choice.figure))
                lost = failed.get((cell, variant), 0)
                if found is None and not lost:
                    continue
                unit, n, mean, std = found or (choice.unit, 0, None, None)
                own = moments.get((cell, variant, choice.figure))
                row = Row(
                    cell=cell,
                    machine=machine,
                    workload=workload,
                    values=json.loads(values),
                    variant=name,
                    kernel=name if plan.compare == KERNEL else kernel,
                    figure=choice.figure,
                    unit=unit or choice.unit,
                    n=n,
                    failed=lost,
                    mean=mean,
                    std=std,
                    interval=_interval(n, mean, std, 1 - plan.significance),
                    compared=None,
                    moments=own,
                )
                rows.append(row)
                if own is not None and (change := _change(own, plan.significance)) is not None:
                    places.append(len(rows) - 1)
                    measured.append(change)
                    better.append(choice.better)
    rules = stats.Rules(margin_pct=plan.margin_pct, significance=plan.significance)
    for place, compared in zip(places, stats.judge(measured, better, rules), strict=True):
        rows[place] = _with(rows[place], compared)
    return rows


def _with(row: Row, compared: Comparison) -> Row:
    return Row(**{**row.__dict__, "compared": compared})


def _change(own: Moments, significance: float) -> stats.Measured | None:
    if own.base == 0:
        return None
    if own.n < 2:  # noqa: PLR2004 - a spread needs two
        return stats.Measured(100 * own.difference / abs(own.base), None, None, None, None)
    return stats.measure_test(PairedMoments(own), significance=significance)


def _interval(n: int, mean: float | None, std: float | None, confidence: float) -> Interval | None:
    if n < 2 or mean is None or std is None:  # noqa: PLR2004 - as above
        return None
    from schedlab.stats.ratio import quantile  # noqa: PLC0415 - scipy takes its time

    half = quantile((1 + confidence) / 2, n - 1) * std / n**0.5
    return mean - half, mean + half


def rows_frame(plan: Plan, rows: Sequence[Row]) -> pl.DataFrame:
    """Give the table as a Polars frame, a column per axis."""
    import polars as pl  # noqa: PLC0415 - as above

    names = [axis.name for axis in plan.free]
    records = []
    for row in rows:
        compared = row.compared
        low, high = row.interval or (None, None)
        change = None if compared is None else compared.interval_pct
        records.append(
            {
                "machine": row.machine,
                "workload": row.workload,
                **{name: row.values.get(name) for name in names},
                **({} if plan.compare == KERNEL else {"kernel": row.kernel}),
                plan.compare: row.variant,
                "figure": row.figure,
                "unit": row.unit,
                "n": row.n,
                "failed": row.failed,
                "mean": row.mean,
                "low": low,
                "high": high,
                "std": row.std,
                "change_pct": None if compared is None else compared.change_pct,
                "change_low_pct": None if change is None else change[0],
                "change_high_pct": None if change is None else change[1],
                "p": None if compared is None else compared.p,
                "p_holm": None if compared is None else compared.p_holm,
                "verdict": None if compared is None else compared.verdict,
            }
        )
    return pl.DataFrame(records, infer_schema_length=None, strict=False)


def frame(segments: Segments, index: Index) -> pl.DataFrame:
    """Give every figure of every run of the plan, with its cell, variant and iteration."""
    with segments.connect() as connection:
        view(connection, index)
        return to_frame(connection, "FROM mine ORDER BY cell, iteration, variant, figure")


def figures_of(segments: Segments, index: Index) -> dict[str, set[str]]:
    """Give the names of the figures that runs of the plan have, by workload."""
    with segments.connect() as connection:
        view(connection, index)
        found = connection.execute(
            "SELECT DISTINCT workload, figure FROM mine WHERE figure IS NOT NULL"
        ).fetchall()
    names: dict[str, set[str]] = {}
    for workload, figure in found:
        names.setdefault(workload, set()).add(figure)
    return names


def values_of(session: Session, figure: str, cell: int, first: int) -> dict[int, list[float]]:
    """Give a figure's values in a cell by variant, in the order of iterations from the first on."""
    with session.segments.connect() as connection:
        view(connection, session.index)
        found = connection.execute(
            """
            SELECT variant, value FROM mine
            WHERE figure = $figure AND cell = $cell AND iteration >= $first AND value IS NOT NULL
            ORDER BY variant, iteration
            """,
            {"figure": figure, "cell": cell, "first": first},
        ).fetchall()
    values: dict[int, list[float]] = {}
    for variant, value in found:
        values.setdefault(variant, []).append(value)
    return values


def result_dict(result: SweepResult) -> dict[str, Any]:
    """Give a sweep for JSON."""
    tally = result.tally
    return {
        "plan": result.plan.settings,
        "name": result.plan.name,
        "compare": result.plan.compare,
        "variants": result.plan.variants,
        "rows": [
            {**asdict(row), "interval": None if row.interval is None else list(row.interval)}
            for row in result.rows
        ],
        "indices": [asdict(each) for each in result.indices],
        "runs": {
            "simulated": tally.done,
            "stored": tally.stored,
            "same": tally.same,
            "failed": tally.failed,
            "failures": [
                {"workload": workload, "seed": seed, "error": error}
                for workload, seed, error in tally.failures
            ],
        },
        "seconds": {
            "elapsed": round(tally.elapsed_s, 3),
            "runs": round(tally.wall_s, 3),
            "simulated": round(tally.simulated_s, 3),
            "store": round(tally.stored_s, 3),
        },
    }
