"""Builds the page: one HTML file with everything inside.

A trace is untrusted input. Jinja2 escapes every string that goes into the markup, data blocks
escape ``<`` so that no name can end them, and the page's Content-Security-Policy allows no
request at all and only the scripts whose digests it lists.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
import vl_convert
from markupsafe import Markup

from schedlab.report import charts, figures
from schedlab.report.pack import idle_colour, pack

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from schedlab.report.model import Governor, Report
    from schedlab.study import StudyResult

__all__ = ["asset", "environment", "json_text", "render"]

STYLES = ("palette.css", "page.css", "tables.css", "timeline.css")

LATENCY_ROWS = {"first": 12, "most": 1000}
"""Rows of the latency table at first, and unfolded; all of them stand in the figures."""

NONE = "\N{EN DASH}"

SCRIPTS = (
    "format.js",
    "decode.js",
    "view.js",
    "palette.js",
    "paint.js",
    "overview.js",
    "gestures.js",
    "timeline.js",
    "search.js",
    "charts.js",
    "measure.js",
    "page.js",
)
"""In the order in which they need one another; they share one scope."""


def render(report: Report, studies: Sequence[StudyResult] = ()) -> str:
    """Write the page, with a section for each study's result."""
    from schedlab.report import study_page  # noqa: PLC0415 - it needs this module
    from schedlab.study.table import result_dict  # noqa: PLC0415 - few pages have studies

    template = environment().get_template("page.html.j2")
    specs = _charts(report)
    samples = report.latency_samples
    names = 0 if samples is None else samples["comm"].n_unique()
    packed = pack(report.timeline, list(report.idle_states))
    scripts = [_own_script()]
    if specs:
        scripts.insert(0, _chart_library())
    data: dict[str, Any] = {
        "figures": figures.figures(report),
        "timeline-meta": packed.meta,
        **{f"chart-{name}": spec for name, spec in specs.items()},
    }
    if studies:
        data["studies"] = [result_dict(result) for result in studies]
    return template.render(
        **_sections(report, [result.study.name for result in studies]),
        studies=[study_page.section(result) for result in studies],
        policy=_policy(scripts),
        style=Markup("\n".join(asset(name) for name in STYLES)),  # noqa: S704 - our own files
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - our own files and Vega
        data=[(name, json_text(value)) for name, value in data.items()],
        blob=packed.blob,
        counts={
            "runs": report.timeline.runs.height,
            "sleeps": report.timeline.sleeps.height,
            "tasks": len(packed.meta["tasks"]),
        },
        left_out=names > charts.SERIES,
        series=charts.SERIES,
        rows=LATENCY_ROWS,
    )


def environment() -> jinja2.Environment:
    """Make what renders the package's templates; it escapes every string."""
    made = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, loader=jinja2.FunctionLoader(asset)
    )
    made.filters["grouped"] = _grouped
    made.filters["fixed"] = _fixed
    made.filters["microseconds"] = _microseconds
    return made


def asset(name: str) -> str:
    """Read one of the package's own files."""
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _own_script() -> str:
    body = "\n".join(asset(name) for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{body}}})();\n'


@cache
def _chart_library() -> str:
    """Vega, Vega-Lite and vega-embed in one script, as vl-convert carries them."""
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # What would end or confuse a script element means the same with the escape.
    return re.sub(r"<(?=/script|script|!--)", r"\\x3c", bundle, flags=re.IGNORECASE)


def _policy(scripts: list[str]) -> str:
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    # Vega compiles its expressions; styles are inline because the file is one.
    return (
        f"default-src 'none'; script-src {allowed} 'unsafe-eval'; "
        "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )


def json_text(value: Any) -> Markup:
    r"""Write JSON that cannot end the script element it stands in.

    >>> json_text("</script>")
    Markup('"\\u003c/script>"')
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - escaped for where it stands


def _charts(report: Report) -> dict[str, dict[str, Any]]:
    specs: dict[str, dict[str, Any]] = {}
    if report.latency_samples is not None and report.latency_samples.height:
        points = charts.latency_points(report.latency_samples)
        specs["latency"] = charts.latency_distribution(points)
    sleeps = report.timeline.sleeps.filter("whole")
    if report.state_uses and sleeps.height:
        bins = charts.idle_bins(sleeps, report.idle_states)
        specs["idle"] = charts.idle_histogram(bins, report.idle_states)
    return specs


def _sections(report: Report, studies: list[str]) -> dict[str, Any]:
    """Collect everything that the template prints."""
    sections = [("section-timeline", "Timeline")]
    if report.latencies:
        sections.append(("section-latency", "Wakeup latency"))
    if report.state_uses:
        sections.append(("section-idle", "Idle periods"))
    if report.governors:
        sections.append(("section-governors", "Idle governors"))
    sections += [(f"section-study-{name}", f"Study {name}") for name in studies]
    sections += [("section-quality", "Data quality"), ("section-provenance", "Provenance")]
    states = report.idle_states
    return {
        "trace": report.provenance,
        "subtitle": _subtitle(report),
        "headline": _headline(report),
        "sections": sections,
        "notes": report.notes,
        "idle_states": [
            {"name": state.name, "colour": idle_colour(i, len(states))}
            for i, state in enumerate(states)
        ],
        "latencies": report.latencies,
        "latency_begins": report.latency_begins,
        "state_uses": list(_state_rows(report)),
        "residencies": any(state.target_residency_ns is not None for state in states),
        "kernel_misses": _kernel_misses(report),
        "governors": list(_governor_rows(report)),
        "columns": _governor_columns(report),
        "findings": [
            {
                "severity": row.severity,
                "tone": row.severity if row.severity in {"info", "warning", "error"} else "info",
                "code": row.code,
                "cpu": row.cpu,
                "count": row.count,
                "message": row.message,
            }
            for row in report.findings
        ],
        "provenance": _provenance(report),
        "event_counts": sorted(
            report.provenance.event_counts.items(), key=lambda item: (-item[1], item[0])
        ),
    }


def _subtitle(report: Report) -> list[str]:
    trace = report.provenance
    cpus = len(trace.cpus)
    facts = [trace.format]
    if trace.kernel_release:
        facts.append(f"Linux {trace.kernel_release}")
    facts.append(f"{cpus} CPU" + ("s" if cpus != 1 else ""))
    facts.append(f"{trace.duration_ns / 1e9:.3f} s")
    if trace.machine:
        facts.append(f"machine {trace.machine}")
    return facts


def _headline(report: Report) -> list[dict[str, Any]]:
    values = figures.headline(report)
    return [
        {
            "key": figure.key,
            "label": figure.label,
            "value": figure.value,
            "text": _grouped(figure.value) if isinstance(figure.value, int) else figure.text,
            "unit": figure.unit,
            "tone": figure.tone,
        }
        for figure in values
    ]


def _state_rows(report: Report) -> Iterator[dict[str, Any]]:
    for use in report.state_uses:
        state = report.idle_states[use.state]
        residency = state.target_residency_ns
        yield {
            "name": state.name,
            "colour": idle_colour(use.state, len(report.idle_states)),
            "residency": NONE if residency is None else f"{residency / 1000:g}",
            "periods": use.periods,
            "seconds": f"{use.time_ns / 1e9:.3f}",
            "too_deep_pct": figures.percent(use.too_deep, use.periods),
            "too_shallow_pct": figures.percent(use.too_shallow, use.periods),
        }


def _kernel_misses(report: Report) -> str:
    if report.kernel_misses is None:
        return ""
    deep, shallow = report.kernel_misses
    theirs = (
        f"The kernel's own cpu_idle_miss events count {_grouped(deep)} too deep and "
        f"{_grouped(shallow)} too shallow"
    )
    ours_deep = figures.total([use.too_deep for use in report.state_uses])
    ours_shallow = figures.total([use.too_shallow for use in report.state_uses])
    if not report.provenance.machine or ours_deep is None or ours_shallow is None:
        return f"{theirs}."
    ours = f"{_grouped(ours_deep)} and {_grouped(ours_shallow)}"
    return f"{theirs}; rebuilt from the idle events: {ours}."


def _governor_columns(report: Report) -> dict[str, bool]:
    rows = report.governors
    return {
        "agreement": any(row.agreement_pct is not None for row in rows),
        "wake_latency": any(row.wake_latency_us is not None for row in rows),
        "energy": any(row.energy_mj is not None for row in rows),
        "estimated": any(row.estimated_pct is not None for row in rows),
    }


def _governor_rows(report: Report) -> Iterator[dict[str, Any]]:
    rows: list[Governor] = list(report.governors)
    deep_top = max((row.too_deep_pct for row in rows), default=0) or 1
    shallow_top = max((row.too_shallow_pct for row in rows), default=0) or 1
    count = len(report.idle_states)
    for row in rows:
        yield {
            "name": row.name,
            "traced": row.traced,
            "recorded": row.recorded,
            "periods": row.periods,
            "too_deep_pct": row.too_deep_pct,
            "too_shallow_pct": row.too_shallow_pct,
            "deep_bar": round(90 * row.too_deep_pct / deep_top, 2),
            "shallow_bar": round(90 * row.too_shallow_pct / shallow_top, 2),
            "shares": [
                {
                    "name": report.idle_states[i].name,
                    "colour": idle_colour(i, count),
                    "pct": round(share, 3),
                }
                for i, share in enumerate(row.state_share_pct)
            ],
            "agreement_pct": row.agreement_pct,
            "estimated_pct": row.estimated_pct,
            "wake_latency_us": row.wake_latency_us,
            "energy_mj": row.energy_mj,
        }


def _provenance(report: Report) -> list[tuple[str, str]]:
    trace = report.provenance
    size = "" if trace.file_bytes is None else f" ({_grouped(trace.file_bytes)} bytes)"
    return [
        ("run" if trace.file_bytes is None else "file", f"{trace.file}{size}"),
        ("format", trace.format),
        ("kernel", trace.kernel_release or "not named in the file"),
        ("clock", trace.clock or "not named in the file"),
        ("CPUs", _ranges(list(trace.cpus))),
        ("duration", f"{trace.duration_ns / 1e9:.9f} s"),
        ("events", _grouped(sum(trace.event_counts.values()))),
        ("lost events", _grouped(trace.lost_events)),
        ("machine", trace.machine or "none: idle states by number"),
        ("schedlab", trace.schedlab_version),
    ]


def _ranges(cpus: list[int]) -> str:
    """Print a CPU list as the kernel does.

    >>> _ranges([0, 1, 2, 5])
    '0-2,5'
    """
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][1] + 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _grouped(value: int) -> str:
    r"""Set thousands apart by a thin space.

    >>> _grouped(41570)
    '41\u202f570'
    """
    return f"{value:,}".replace(",", "\u202f")


def _fixed(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


def _microseconds(value: float) -> str:
    r"""Print latencies to a tenth, and from a millisecond on without.

    >>> _microseconds(11.46), _microseconds(4000.0)
    ('11.5', '4\u202f000')
    """
    return f"{value:.1f}" if value < 1000 else _grouped(round(value))  # noqa: PLR2004 - µs a ms
