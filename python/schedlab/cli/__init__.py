"""The command line: the last and thinnest room.

Each verb lives in a module of its own that is imported when the verb is called, so that
``schedlab --help`` starts fast.
"""

from __future__ import annotations

import importlib
from typing import Any

import click

from schedlab.cli._errors import refused

# Verb, module below this package that defines ``command``, one line of help. The help stands here
# so that listing the verbs imports none of them.
VERBS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "A recorded trace, a small study, and an HTML page with both."),
    "trace": (
        "trace",
        "Figures of a kernel trace: info, latency, idle, tasks, cpus, diff; convert.",
    ),
    "idle": ("idle", "A trace's idle periods under other idle governors, and their agreement."),
    "replay": ("replay", "A trace's tasks run again, under the traced kernel and others."),
    "pelt": ("pelt", "Utilisation rebuilt from a trace, against the kernel's own values."),
    "run": ("run", "Simulate a workload on a machine under a kernel."),
    "study": ("study", "Published comparisons, simulated anew: list, show, run."),
    "sweep": ("sweep", "Thousands of runs as one plan, on all cores or on a cluster."),
    "tune": ("tune", "Good parameters found, and confirmed on runs that found nothing."),
    "store": ("store", "The runs that sweeps have kept: info, query, merge, compact."),
    "bench": ("bench", "Benchmarks on real machines: run them, parse what other tools print."),
    "compare": ("compare", "Benchmark results against a baseline: which differences are real."),
    "report": ("report", "One HTML page that shows a trace, timeline included."),
    "kernel": ("kernel", "Kernels: list, show, diff."),
    "machine": ("machine", "Machines: list, show, import."),
    "workload": ("workload", "Workloads: list, show, from-trace."),
}


class _Verbs(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"schedlab.cli.{VERBS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        # The help and the version are printed while the words are read.
        with refused():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with refused():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])


@click.group(cls=_Verbs)
@click.version_option(package_name="schedlab")
def main() -> None:
    """See what a Linux scheduler change does before you boot it."""
