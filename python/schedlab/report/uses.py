"""Pictures of which cores a workload keeps busy over time, a panel for each kernel of a study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from schedlab.kernel import Kernel
from schedlab.machine import Machine
from schedlab.report.charts import FONT
from schedlab.report.plots import to_svg
from schedlab.simulation import simulate
from schedlab.study.plan import plan

if TYPE_CHECKING:
    from markupsafe import Markup

    from schedlab.study import Study
    from schedlab.study.model import Use
    from schedlab.study.plan import Run

__all__ = ["drawing", "values"]

BINS = 120
"""Stretches of time that a panel tells apart."""

PANEL_WIDTH, CORE_HEIGHT = 250, 7
COLUMNS = 2


def values(study: Study, use: Use, *, small: bool = False) -> list[dict[str, Any]]:
    """Give the busy threads of each core and stretch of time, on average, where there are any.

    The run is simulated anew, in its first iteration: keeping its events costs more than that.
    """
    kernels = use.kernels or [kernel.name for kernel in study.kernels]
    runs = {
        run.kernel: run
        for run in reversed(plan(study, small=small))
        if run.workload.name == use.workload and run.iteration == 0 and run.kernel in kernels
    }
    return [row for name in kernels for row in _panel(runs[name], use.until_s)]


def _panel(run: Run, until_s: float) -> list[dict[str, Any]]:
    machine = Machine.parse(run.machine_toml, run.machine)
    done = simulate(
        run.workload,
        machine=machine,
        kernel=Kernel.parse(run.kernel_toml, run.kernel),
        duration_s=min(until_s, run.duration_s),
        seed=run.seed,
        start_ns=run.start_ns,
        keep_events=True,
        keep_interrupts=False,
    )
    if done.trace is None:
        return []
    core_of = dict(machine.cpus.select("cpu", "core").iter_rows())
    width_ns = max(done.end_ns, 1) / BINS
    busy: dict[tuple[int, int], float] = {}
    stretches = done.trace.timeline().runs.select("cpu", "start_ns", "end_ns").drop_nulls()
    for cpu, start_ns, end_ns in stretches.iter_rows():
        core = core_of[cpu]
        first = int(start_ns // width_ns)
        last = min(int(end_ns // width_ns), BINS - 1)
        for number in range(first, last + 1):
            within_ns = min(end_ns, (number + 1) * width_ns) - max(start_ns, number * width_ns)
            place = (core, number)
            busy[place] = busy.get(place, 0.0) + max(within_ns, 0.0) / width_ns
    rows: list[dict[str, Any]] = []
    for (core, number), exact in sorted(busy.items()):
        share = round(exact, 1)
        begin, end = (round(at * width_ns / 1e9, 6) for at in (number, number + 1))
        before = rows[-1] if rows else {}
        # Stretches alike are one: most of a picture is.
        if (before.get("core"), before.get("busy"), before.get("to")) == (core, share, begin):
            before["to"] = end
        elif share > 0:
            own = {"kernel": run.kernel, "core": core, "from": begin, "to": end, "busy": share}
            rows.append(own)
    return rows


def drawing(study: Study, use: Use, *, small: bool = False) -> Markup:
    """Draw a picture as SVG, in the colours of the page that it stands on."""
    found = values(study, use, small=small)
    kernels = list(use.kernels or [kernel.name for kernel in study.kernels])
    machine = study.machines_of(study.case(use.workload))[0]
    cores = _cores(machine)
    chart = (
        alt.Chart(alt.InlineData(values=found))
        .mark_rect()
        .encode(
            x=alt.X("from:Q", title="s", scale=alt.Scale(nice=False), axis=alt.Axis(grid=False)),
            x2="to:Q",
            y=alt.Y(
                "core:O",
                title="core",
                scale=alt.Scale(domain=list(range(cores))),
                axis=alt.Axis(labelFontSize=8),
            ),
            color=alt.Color(
                "busy:Q",
                title="busy threads",
                scale=alt.Scale(
                    domain=[0, max((row["busy"] for row in found), default=1)],
                    range=["#e3eefa", "#0b62b8"],
                ),
                legend=alt.Legend(orient="bottom", titleColor=_ink(2), labelColor=_ink(2)),
            ),
            facet=alt.Facet(
                "kernel:N",
                title=None,
                columns=COLUMNS,
                sort=kernels,
                header=alt.Header(labelColor=_ink(1)),
            ),
        )
        .properties(width=PANEL_WIDTH, height=CORE_HEIGHT * cores)
        .configure(background="transparent", font=FONT)
        .configure_view(stroke="var(--line-2)")
        .configure_axis(
            labelColor=_ink(3), titleColor=_ink(2), domainColor="var(--line-2)", labelOverlap=True
        )
    )
    return to_svg(chart.to_dict())


def _cores(machine: str) -> int:
    count: int = Machine.load(machine).cpus["core"].n_unique()
    return count


def _ink(strength: int) -> str:
    return "var(--ink)" if strength == 1 else f"var(--ink-{strength})"
