"""``schedlab machine``: list, show and import machines."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from schedlab import Kernel, Machine
from schedlab._files import write_text
from schedlab.cli._files import OUT_FILE
from schedlab.cli._output import print_json, print_note


@click.group
def command() -> None:
    """Machines: hardware as data, built in, from a file, or imported."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_machines(*, as_json: bool) -> None:
    """List the built-in machines."""
    machines = [Machine.load(name) for name in Machine.names()]
    if as_json:
        rows = [
            {"name": m.name, "cpus": m.cpu_count, "hz": m.hz, "description": m.description}
            for m in machines
        ]
        print_json(rows)
        return
    from schedlab.cli import machine_view  # noqa: PLC0415 - rich is not needed for JSON

    machine_view.print_list(machines)


@command.command
@click.argument("name_or_file", metavar="NAME|FILE")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--toml", "as_toml", is_flag=True, help="Print the machine's file, to copy and edit.")
@click.option("--domains", is_flag=True, help="Draw the scheduling domains, not the hardware.")
@click.option("--kernel", help="With --domains, the kernel that builds them; else the newest.")
def show(
    *, name_or_file: str, as_json: bool, as_toml: bool, domains: bool, kernel: str | None
) -> None:
    """Draw a machine: CPU tree, distances, idle states, operating points, power, costs."""
    if kernel is not None and not domains:
        raise click.UsageError("--kernel chooses who builds --domains; give both.")
    if as_json and as_toml:
        raise click.UsageError("--json and --toml are two shapes of one machine; give one.")
    if domains and as_toml:
        raise click.UsageError("--domains are no part of the file that --toml prints; give one.")
    machine = Machine.load(name_or_file)
    if domains:
        built = machine.domains(Kernel.load(kernel or Kernel.names()[-1]))
        if as_json:
            print_json(built)
            return
        from schedlab.cli import domain_view  # noqa: PLC0415 - rich is not needed for JSON

        domain_view.print_domains(built)
    elif as_json:
        print_json(machine.to_dict())
    elif as_toml:
        click.echo(Machine.preset_toml(name_or_file) or machine.to_toml(), nl=False)
    else:
        from schedlab.cli import machine_view  # noqa: PLC0415 - rich is not needed for JSON

        machine_view.print_machine(machine)


@command.command("import")
@click.argument("source", required=False)
@click.option("--root", help="A directory that holds a copied /sys, in place of this machine's.")
@click.option(
    "--cpu-model",
    help="Idle states of this processor where the source tells none: SKYLAKE_X, skx or 6/85.",
)
@click.option("--name", help="The machine's name.")
@click.option("-o", "--output", type=OUT_FILE, help="Write here, not to the terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, not TOML.")
def import_machine(
    *,
    source: str | None,
    root: str | None,
    cpu_model: str | None,
    name: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Describe a machine in TOML from what another tool tells.

    SOURCE is lscpu -J output, hwloc XML (lstopo --of xml), LISA's plat_info.yml, a directory that
    holds a copied /sys, or - for standard input; its content tells which. Without SOURCE, this
    machine. What the source does not tell is estimated, and a comment says so.
    """
    if source is not None and root is not None:
        raise click.UsageError("SOURCE and --root are two sources; give one.")

    machine = _imported(source, root, name, cpu_model)
    text = json.dumps(machine.to_dict(), indent=2) + "\n" if as_json else machine.to_toml()
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text)
        print_note(f"{output}: {machine.name}, {machine.cpu_count} CPUs")


def _imported(
    source: str | None, root: str | None, name: str | None, cpu_model: str | None
) -> Machine:
    if source == "-":
        content = sys.stdin.buffer.read()
        return Machine.import_bytes(content, source="<stdin>", name=name, cpu_model=cpu_model)
    if source is None or Path(source).is_dir():
        tree = root if source is None else source
        return Machine.import_sysfs(tree or "/", name=name, cpu_model=cpu_model)
    return Machine.import_file(source, name=name, cpu_model=cpu_model)
