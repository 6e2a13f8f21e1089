"""``schedlab bench cpupri``: what the RT priority map's layouts cost, here and at scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from schedlab._files import naming
from schedlab.cli._errors import Refusal
from schedlab.cli._files import OUT_FILE
from schedlab.cli._given import given, need
from schedlab.cli._numbers import Finite
from schedlab.cli._output import Column, decimal, integer, print_json, print_note, print_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import polars as pl


@click.command
@click.option(
    "--machine",
    default="gnr-2s-snc3",
    show_default=True,
    metavar="NAME|FILE",
    help="The map is as wide as this machine; of a simulation, its cache costs.",
)
@click.option(
    "--layout",
    "layouts",
    multiple=True,
    metavar="NAME",
    help="Only this layout, and others named so.  [default: all]",
)
@click.option(
    "--threads", type=click.IntRange(1), multiple=True, help="So many threads.  [default: 1 to all]"
)
@click.option(
    "--duration-ms",
    type=click.IntRange(1, 60_000),
    default=300,
    show_default=True,
    help="Measure each for so long.",
)
@click.option(
    "--simulate", is_flag=True, help="Simulate machines of 8 to 2,048 CPUs instead of measuring."
)
@click.option(
    "--cpus", type=click.IntRange(8, 2048), multiple=True, help="Simulate these sizes only."
)
@click.option(
    "--uniform", is_flag=True, help="Simulate transfers that cost the same over any distance."
)
@click.option(
    "--think-us",
    type=Finite(0.1, 1e6),
    default=500.0,
    show_default=True,
    help="Simulate this time between two tasks of a CPU.",
)
@click.option(
    "--plot",
    type=OUT_FILE,
    metavar="OUT.html|.svg",
    help="Write what was simulated as plots: a page, or an .svg drawing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    machine: str,
    layouts: tuple[str, ...],
    threads: tuple[int, ...],
    duration_ms: int,
    simulate: bool,
    cpus: tuple[int, ...],
    uniform: bool,
    think_us: float,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure the layouts of the RT priority map with real threads, or simulate them at scale.

    A thread stands for a CPU: it goes real-time and back (set), and searches in vain for a CPU that
    runs something less urgent (find).
    """
    from schedlab import cpupri  # noqa: PLC0415 - `--help` needs none
    from schedlab.machine import Machine  # noqa: PLC0415 - as above
    from schedlab.names import near  # noqa: PLC0415 - as above

    for layout in layouts:
        if layout not in cpupri.layouts():
            known = ", ".join(cpupri.layouts())
            raise Refusal(f"no layout {layout}; there are {known}{near(layout, cpupri.layouts())}")
    if not simulate:
        need("--cpus", "--uniform", "--think-us", "--plot", what="--simulate")
    elif wrong := given("--threads", "--duration-ms"):
        raise click.UsageError(f"{wrong[0]} is for measuring; leave it out, or --simulate.")
    hardware = Machine.load(machine)
    only = layouts or None
    if simulate:
        if any(size & (size - 1) for size in cpus):
            raise click.UsageError("--cpus takes powers of two.")
        sizes = tuple(sorted(cpus)) or cpupri.CPUS
        rows = list(
            cpupri.scaling(
                machine=hardware, cpus=sizes, only=only, uniform=uniform, think_us=think_us
            )
        )
        if plot is not None:
            _plot(rows, plot)
    else:
        try:
            rows = list(
                cpupri.measure(
                    machine=hardware,
                    only=only,
                    threads=threads or None,
                    duration_ms=duration_ms,
                )
            )
        except (OSError, ValueError) as error:
            raise Refusal(str(error)) from None
    if as_json:
        print_json({"machine": hardware.name, "simulated": simulate, "rows": rows})
        return
    _print(rows, simulated=simulate)


def _print(rows: list[dict[str, Any]], *, simulated: bool) -> None:
    size = Column("cpus", "CPUs", integer) if simulated else Column("threads", "threads")
    columns = [size, Column("layout", "layout", numeric=False)]
    for name in ("find", "set"):
        columns += [
            Column(f"{name}_mean_ns", f"{name} ns", decimal(1)),
            Column(f"{name}_p50_ns", "p50", decimal(1), spare=2),
            Column(f"{name}_p99_ns", "p99", decimal(1), spare=2),
        ]
        if simulated:
            columns.append(Column(f"{name}_lines", "lines", decimal(1), spare=1))
        elif any(row[f"{name}_cycles"] is not None for row in rows):
            columns.append(Column(f"{name}_cycles", "cycles", _cycles(), spare=1))
    print_table(columns, rows)
    if not simulated and all(row["find_cycles"] is None for row in rows):
        print_note("no cycles: this machine does not let us count them")


def _cycles() -> Callable[[float | None], str]:
    return lambda value: "" if value is None else f"{value:,.0f}"


def _plot(rows: list[dict[str, Any]], out: Path) -> None:
    import altair as alt  # noqa: PLC0415 - a second of imports that only plots need
    import polars as pl  # noqa: PLC0415 - as above

    frame = pl.DataFrame(rows)

    def drawing(column: str, title: str, *, logarithmic: bool = False) -> Any:
        powers = alt.Axis(values=[10**power for power in range(10)]) if logarithmic else alt.Axis()
        return (
            alt.Chart(_points(frame, column))
            .mark_line(point=True)
            .encode(
                x=alt.X("cpus:Q", title="CPUs").scale(type="log", base=2, nice=False),
                y=alt.Y("value:Q", title=None, axis=powers).scale(
                    type="log" if logarithmic else "linear"
                ),
                color=alt.Color("layout:N", title="layout", sort=None).legend(
                    orient="bottom", columns=8
                ),
                tooltip=["layout:N", "cpus:Q", "value:Q"],
            )
            .properties(width=420, height=280, title=title)
        )

    times = drawing("find_mean_ns", "time per search, ns", logarithmic=True) | drawing(
        "set_mean_ns", "time per change, ns", logarithmic=True
    )
    counts = drawing("find_lines", "lines per search", logarithmic=True) | drawing(
        "set_lines", "lines per change"
    )
    drawn = alt.vconcat(times, counts)
    with naming(out):
        if out.suffix == ".svg":
            drawn.save(out, format="svg")
        else:
            # One page that works offline.
            drawn.save(out, format="html", inline=True)


def _points(frame: pl.DataFrame, column: str) -> Any:
    import altair as alt  # noqa: PLC0415 - as above

    points = frame.select("cpus", "layout", value=column)
    return alt.InlineData(values=points.to_dicts())
