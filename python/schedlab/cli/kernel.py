"""``schedlab kernel``: list, show and compare kernels."""

from __future__ import annotations

import click

from schedlab.cli._numbers import CPUS_MAX
from schedlab.cli._output import Column, print_json, print_table, print_title
from schedlab.kernel import Kernel


@click.group
def command() -> None:
    """Kernels: a variant for every mechanism, built in or from a file."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_kernels(*, as_json: bool) -> None:
    """List the built-in kernels, oldest first."""
    kernels = [Kernel.load(name) for name in Kernel.names()]
    rows = [{"name": kernel.name, "description": kernel.description} for kernel in kernels]
    if as_json:
        print_json(rows)
        return
    print_table(
        [Column("name", "kernel", numeric=False), Column("description", "what", numeric=False)],
        rows,
    )


@command.command
@click.argument("name_or_file", metavar="NAME|FILE")
@click.option(
    "--cpus", type=click.IntRange(1, CPUS_MAX), help="Scale times to so many CPUs, as at boot."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--toml", "as_toml", is_flag=True, help="Print the kernel's file, to copy and edit.")
def show(*, name_or_file: str, cpus: int | None, as_json: bool, as_toml: bool) -> None:
    """Show every setting of a kernel."""
    if as_json and as_toml:
        raise click.UsageError("--json and --toml are two shapes of one kernel; give one.")
    if as_toml and cpus is not None:
        raise click.UsageError("--cpus scales no file that --toml prints; give one.")
    kernel = Kernel.load(name_or_file)
    settings = kernel.settings(cpus)
    if as_json:
        print_json({"name": kernel.name, "description": kernel.description, "settings": settings})
    elif as_toml:
        if name_or_file not in Kernel.names():
            raise click.UsageError(f"{name_or_file} is a file already; print it as it is.")
        click.echo(Kernel.preset_toml(name_or_file), nl=False)
    else:
        print_title(f"{kernel.name}: {kernel.description}")
        print_table(
            [Column("key", "setting", numeric=False), Column("value", "value", numeric=False)],
            [{"key": key, "value": value} for key, value in settings.items()],
        )


@command.command
@click.argument("base")
@click.argument("other")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diff(*, base: str, other: str, as_json: bool) -> None:
    """Tell what two kernels differ in."""
    first, second = Kernel.load(base), Kernel.load(other)
    rows = [
        {"setting": key, "base": here, "other": there}
        for key, (here, there) in first.diff(second).items()
    ]
    if as_json:
        print_json({"base": first.name, "other": second.name, "differences": rows})
        return
    if not rows:
        click.echo(f"{first.name} and {second.name} do not differ in what is modelled")
        return
    print_table(
        [
            Column("setting", "setting", numeric=False),
            Column("base", first.name, numeric=False),
            Column("other", second.name, numeric=False),
        ],
        rows,
    )
