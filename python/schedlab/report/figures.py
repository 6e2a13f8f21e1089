"""The page's figures for machines: what its tables print, as one JSON object."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schedlab.report.model import Report, StateUse

__all__ = ["Headline", "figures", "headline", "percent", "total"]


@dataclass(frozen=True)
class Headline:
    """One of the large numbers at the top of the page."""

    key: str
    """Where :func:`figures` has it, such as ``latency.overall.p99_us``."""
    label: str
    value: float
    text: str
    unit: str = ""
    tone: str = ""


def percent(part: int | None, whole: int) -> float | None:
    """Give a share of 100, rounded to more digits than a page prints.

    >>> percent(1, 3)
    33.333333
    """
    if part is None:
        return None
    return round(100 * part / whole, 6) if whole else 0.0


def total(parts: Sequence[int | None]) -> int | None:
    """Add what is known; of nothing known the sum is unknown."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def headline(report: Report) -> list[Headline]:
    """Pick the numbers that a reader wants first."""
    trace = report.provenance
    events = sum(trace.event_counts.values())
    found = [Headline("trace.events", "events", events, str(events))]
    overall = report.overall_latency
    if overall is not None:
        found += [
            Headline("latency.overall.count", "wakeups", overall.count, str(overall.count)),
            _latency("p50_us", "median latency", overall.p50_us),
            _latency("p99_us", "99 % latency", overall.p99_us),
        ]
    idle = _idle(report.state_uses)
    if report.state_uses:
        periods = idle["periods"]
        found.append(Headline("idle.periods", "idle periods", periods, str(periods)))
    deep, shallow = idle["too_deep_pct"], idle["too_shallow_pct"]
    if deep is not None and shallow is not None:
        found += [
            Headline("idle.too_deep_pct", "too deep", deep, f"{deep:.2f}", "%", "deep"),
            Headline(
                "idle.too_shallow_pct", "too shallow", shallow, f"{shallow:.2f}", "%", "shallow"
            ),
        ]
    lost = trace.lost_events
    found.append(Headline("trace.lost_events", "lost events", lost, str(lost)))
    return found


def _latency(key: str, label: str, microseconds: float) -> Headline:
    path = f"latency.overall.{key}"
    if microseconds >= 1000:  # noqa: PLR2004 - the next unit
        return Headline(path, label, microseconds, f"{microseconds / 1000:.3g}", "ms")
    return Headline(path, label, microseconds, f"{microseconds:.3g}", "µs")


def figures(report: Report) -> dict[str, Any]:
    """Collect everything that the page prints as a number."""
    trace = report.provenance
    return {
        "schedlab_version": trace.schedlab_version,
        "trace": {
            "file": trace.file,
            "format": trace.format,
            "kernel_release": trace.kernel_release,
            "clock": trace.clock,
            "cpus": len(trace.cpus),
            "duration_s": trace.duration_ns / 1e9,
            "events": sum(trace.event_counts.values()),
            "event_counts": dict(sorted(trace.event_counts.items())),
            "lost_events": trace.lost_events,
            "machine": trace.machine,
        },
        "timeline": {
            "duration_ns": report.timeline.duration_ns,
            "runs": report.timeline.runs.height,
            "sleeps": report.timeline.sleeps.height,
            "samples": report.timeline.counters.height,
        },
        "latency": {
            "overall": None if report.overall_latency is None else asdict(report.overall_latency),
            "tasks": [asdict(row) for row in report.latencies],
        },
        "idle": {
            **_idle(report.state_uses),
            "kernel_misses": report.kernel_misses,
            "states": [
                {"name": report.idle_states[use.state].name, **asdict(use)}
                for use in report.state_uses
            ],
        },
        "governors": {row.name: asdict(row) for row in report.governors},
        "data_quality": [asdict(row) for row in report.findings],
    }


def _idle(uses: Sequence[StateUse]) -> dict[str, Any]:
    periods = sum(use.periods for use in uses)
    deep = total([use.too_deep for use in uses])
    shallow = total([use.too_shallow for use in uses])
    return {
        "periods": periods,
        "too_deep": deep,
        "too_shallow": shallow,
        "too_deep_pct": percent(deep, periods),
        "too_shallow_pct": percent(shallow, periods),
    }
