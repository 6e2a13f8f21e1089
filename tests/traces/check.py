"""Check every trace of a directory against the tool that wrote it: ``make traces``.

Counts of events by name and every task's wakeup latencies must equal, exactly, what plain rules
make of the text that ``trace-cmd report`` or ``perf script`` prints (or of the file itself, where
it is text). A mismatch, an unreadable trace or a directory without any trace is an error.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import schedlab

from traces.printed import Printed, read_printed

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_TRACES = {
    ".cmd": "a recording command",
    ".csv": "a table",
    ".golden": "an expectation",
    ".json": "a workload or a machine",
    ".md": "a document",
    ".out": "a workload's output",
    ".toml": "a configuration",
    ".xml": "a machine",
    ".yaml": "a machine",
    ".yml": "a machine",
    ".zst": "compressed",
}
NOT_TRACE_NAMES = {
    "COPYING": "a licence",
    "LICENSE": "a licence",
    "ORIGIN": "a document",
    "README": "a document",
    "sysinfo": "a description of the machine",
}
MISMATCHES_SHOWN = 5


def skip_reason(path: Path) -> str | None:
    """Say why a file is no trace, by its name."""
    return NOT_TRACE_NAMES.get(path.name.split(".")[0]) or NOT_TRACES.get(path.suffix)


@dataclass
class Report:
    """What became of each file."""

    traces: int = 0
    skipped: int = 0
    uncompared: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def fail(self, path: Path, what: str) -> None:
        """Print a failure and remember it."""
        print(f"  MISMATCH {what}")
        self.failures.append(f"{path}: {what}")


def tool_of(trace_format: str) -> list[str]:
    """Name the command that prints a trace of this format with nanoseconds; empty for a text."""
    if trace_format.startswith("trace.dat"):
        return ["trace-cmd", "report", "-t", "-i"]
    if trace_format.startswith("perf.data"):
        fields = "comm,tid,cpu,time,event,trace"
        return ["perf", "script", "--ns", "--force", "--show-lost-events", "-F", fields, "-i"]
    return []


def printed_lines(command: list[str], path: Path) -> Iterator[str]:
    """Give the lines of a tool's print, or of the file itself."""
    if not command:
        with path.open(errors="replace", newline="\n") as text:
            yield from (line.rstrip("\r\n") for line in text)
        return
    with subprocess.Popen(
        [*command, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
    ) as tool:
        if tool.stdout is None:
            message = f"{command[0]} has no output"
            raise OSError(message)
        yield from (line.rstrip("\n") for line in tool.stdout)
        if tool.wait() != 0:
            message = f"{command[0]} failed with {tool.returncode} on {path}"
            raise OSError(message)


def own_latencies(
    trace: schedlab.Trace, beginning: Literal["waking", "wakeup"]
) -> dict[int, list[int]]:
    """List what schedlab makes of the trace, per task and sorted."""
    latencies: dict[int, list[int]] = {}
    frame = trace.wakeup_latencies(beginning)
    for pid, latency_ns in zip(frame["pid"], frame["latency_ns"], strict=True):
        latencies.setdefault(pid, []).append(latency_ns)
    return {pid: sorted(values) for pid, values in latencies.items()}


def compare_counts(path: Path, own: dict[str, int], printed: Printed, report: Report) -> None:
    """Compare the number of events of each name."""
    for name in sorted(own.keys() | printed.counts.keys()):
        ours, theirs = own.get(name, 0), printed.counts.get(name, 0)
        if ours != theirs:
            report.fail(path, f"{name}: {ours} events, the print has {theirs}")


def compare_latencies(path: Path, trace: schedlab.Trace, printed: Printed, report: Report) -> None:
    """Compare every wakeup latency of every task, from either beginning."""
    beginnings: tuple[Literal["waking", "wakeup"], ...] = ("waking", "wakeup")
    for beginning in beginnings:
        own, theirs = own_latencies(trace, beginning), printed.latencies_ns[beginning]
        wrong = [
            pid for pid in sorted(own.keys() | theirs.keys()) if own.get(pid) != theirs.get(pid)
        ]
        for pid in wrong[:MISMATCHES_SHOWN]:
            ours, expected = own.get(pid, []), theirs.get(pid, [])
            first = next(
                (pair for pair in zip(ours, expected, strict=False) if pair[0] != pair[1]), ""
            )
            report.fail(
                path,
                f"latencies from {beginning} of task {pid}: {len(ours)}, the print has "
                f"{len(expected)} {first}",
            )
        if len(wrong) > MISMATCHES_SHOWN:
            report.fail(path, f"and {len(wrong) - MISMATCHES_SHOWN} more tasks")
        count = sum(map(len, theirs.values()))
        print(f"  latencies from {beginning}: {count} of {len(theirs)} tasks, wrong {len(wrong)}")


def check(path: Path, report: Report) -> None:
    """Read one trace whole and compare it with its tool's print."""
    try:
        trace = schedlab.read_trace(path)
    except (schedlab.TraceError, OSError) as error:
        report.fail(path, f"cannot be read: {error}")
        return
    report.traces += 1
    info = trace.info
    events = info["events"]
    print(
        f"  {info['format']}: {sum(events.values())} events of {len(events)} types, "
        f"{len(info['cpus'])} CPUs, {info['duration_s']:.6f} s, {info['lost_events']} lost"
    )
    for finding in info["data_quality"]:
        cpu = "" if finding["cpu"] is None else f" on CPU {finding['cpu']}"
        print(f"  {finding['severity']} {finding['code']}{cpu} x{finding['count']}")
    if info["format"].startswith("perfetto"):
        report.uncompared.append(f"{path}: no packaged tool prints Perfetto's ftrace events")
        return
    command = tool_of(info["format"])
    if command and shutil.which(command[0]) is None:
        report.uncompared.append(f"{path}: {command[0]} is not installed")
        return
    try:
        printed = read_printed(printed_lines(command, path))
    except OSError as error:
        report.uncompared.append(f"{path}: {error}")
        return
    compare_counts(path, events, printed, report)
    compare_latencies(path, trace, printed, report)


def check_all(root: Path) -> Report:
    """Check every file under a directory, in the order of their names."""
    report = Report()
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        reason = skip_reason(path)
        print(f"{path.relative_to(root)}{f': skipped, {reason}' if reason else ''}")
        if reason:
            report.skipped += 1
        else:
            check(path, report)
    return report


def main(arguments: list[str]) -> int:
    """Check the one directory that the arguments name."""
    match arguments:
        case [name] if Path(name).is_dir():
            report = check_all(Path(name))
        case _:
            print("name one directory of traces: SCHEDLAB_TRACES=DIR make traces", file=sys.stderr)
            return 2
    print(f"{report.traces} traces read, {report.skipped} files skipped")
    for line in report.uncompared:
        print(f"not compared: {line}")
    for line in report.failures:
        print(f"MISMATCH {line}")
    if report.traces == 0:
        print(f"{name} holds no trace", file=sys.stderr)
        return 1
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
