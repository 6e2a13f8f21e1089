"""How a machine looks in a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.columns import Columns
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from schedlab.cli._output import counted, cpu_list, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from schedlab import Machine

# More groups than this that look alike share a line.
_ALIKE_MAX = 4

_LEVELS = {"packages": "package", "nodes": "node", "llcs": "LLC", "clusters": "cluster"}


def print_list(machines: list[Machine]) -> None:
    """Print one line per machine."""
    table = _table("machine", "CPUs", "what it is", numeric=("CPUs",))
    for machine in machines:
        _row(table, machine.name, str(machine.cpu_count), machine.description)
    _print(table)


def _print(*parts: RenderableType) -> None:
    """Print to standard output without the spaces that pad the last columns."""
    console = Console(highlight=False)
    with console.capture() as printed:
        for part in parts:
            console.print(part)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


def print_machine(machine: Machine) -> None:
    """Print everything about a machine that people ask for."""
    data = machine.to_dict()
    parts: list[RenderableType] = [_tree(data)]
    for title, table in [
        ("NUMA distances", _distances(data)),
        ("CPU types", _types(data)),
        ("Idle states (us, mW, uJ)", _idle_states(data)),
        ("Operating points", _opps(data)),
        ("Power beside the cores", _power(data)),
        ("Threads of a core", _smt(data)),
        ("Cache lines, ns", _costs(_cache(data))),
        ("Caches and memory", _memory(data)),
        ("Kernel paths, ns", _costs(data["kernel_paths"])),
    ]:
        if table is not None:
            parts += ["", Text(title, style="bold"), table]
    _print(*parts)


@dataclass
class _Group:
    """A part of the CPU tree."""

    label: str
    cpus: frozenset[int]
    children: list[_Group]


def _tree(data: dict[str, Any]) -> Tree:
    topology = data["topology"]
    levels = []
    for level, word in _LEVELS.items():
        groups = [_cpus(text) for text in topology[level] or []]
        # A level that the package or the node repeats for the whole machine still names itself.
        levels.append((word, groups))
    # Outer levels first: mostly packages over nodes, but a node may hold several packages.
    levels = sorted((level for level in levels if level[1]), key=lambda level: len(level[1]))
    everything = frozenset(range(data["cpu_count"]))
    count = counted(data["cpu_count"], "CPU")
    root = Tree(
        Text.assemble((printable(data["name"]), "bold"), f"  {count}, HZ {data['hz']}"),
        guide_style="dim",
    )
    if data["description"]:
        root.label = Text.assemble(root.label, "\n", (printable(data["description"]), "dim"))  # type: ignore[arg-type]
    for part in _parts(everything, levels):
        _draw(root, part, data)
    return root


def _parts(within: frozenset[int], levels: list[tuple[str, list[frozenset[int]]]]) -> list[_Group]:
    if not levels:
        return []
    (word, groups), *rest = levels
    parts = []
    for index, cpus in enumerate(groups):
        if not cpus <= within:
            continue
        children = _parts(cpus, rest)
        label = f"{word} {index}"
        if len(children) == 1 and children[0].cpus == cpus:
            label = f"{label}, {children[0].label}"
            children = children[0].children
        parts.append(_Group(label, cpus, children))
    return parts


def _draw(tree: Tree, group: _Group, data: dict[str, Any]) -> None:
    branch = tree.add(Text.assemble(group.label, ("  CPUs " + cpu_list(group.cpus), "cyan")))
    shapes = {_shape(child.cpus, data) for child in group.children}
    if len(group.children) > _ALIKE_MAX and len(shapes) == 1:
        word = group.children[0].label.split()[0]
        lists = [cpu_list(child.cpus) for child in group.children]
        some = f"{lists[0]}; {lists[1]}; ... {lists[-1]}"
        line = f"{len(lists)} {word}s of {shapes.pop()}"
        branch.add(Text.assemble(line, ("  CPUs " + some, "cyan")))
        return
    for child in group.children:
        _draw(branch, child, data)
    # Everything, where nothing divides the group; CPUs whose level cuts across the group, else.
    rest = group.cpus.difference(*(child.cpus for child in group.children))
    for cores in _cores(rest, data):
        branch.add(cores)


def _cores(cpus: frozenset[int], data: dict[str, Any]) -> Iterable[Text]:
    """Cores of a group that nothing divides further, a line for each type of core."""
    for kind in data["cpu_types"]:
        own = cpus & _cpus(kind["cpus"])
        if own:
            name = f" {printable(kind['name'])}" if len(data["cpu_types"]) > 1 else ""
            threads = (f"  {_threads(own, data)}", "cyan")
            yield Text.assemble(_shape(own, data), name, threads)


def _threads(cpus: frozenset[int], data: dict[str, Any]) -> str:
    cores = [core for core in map(_cpus, data["topology"]["cores"]) if core <= cpus]
    lists = sorted((cpu_list(core) for core in cores if len(core) > 1), key=_natural)
    if not lists:
        return f"CPUs {cpu_list(cpus)}"
    if len(lists) > _ALIKE_MAX:
        lists = [lists[0], "...", lists[-1]]
    return "CPUs " + " ".join(text if text == "..." else f"({text})" for text in lists)


def _natural(text: str) -> int:
    return min(_cpus(text))


def _shape(cpus: frozenset[int], data: dict[str, Any]) -> str:
    cores = [core for core in map(_cpus, data["topology"]["cores"]) if core <= cpus]
    threads = {len(core) for core in cores}
    each = "" if threads == {1} else f" x {'/'.join(map(str, sorted(threads)))} threads"
    return counted(len(cores), "core") + each


def _distances(data: dict[str, Any]) -> Table | None:
    rows = data["node_distances"]
    if len(rows) == 1:
        return None
    names = [str(node) for node in range(len(rows))]
    table = _table("node", *names, numeric=names)
    for name, row in zip(names, rows, strict=True):
        _row(table, name, *map(str, row))
    return table


def _types(data: dict[str, Any]) -> Table:
    table = _table(
        "type",
        "CPUs",
        "capacity",
        "frequency domains",
        "fastest MHz",
        "busy mW",
        numeric=("capacity", "fastest MHz", "busy mW"),
    )
    for kind in data["cpu_types"]:
        domains = [d["cpus"] for d in data["frequency_domains"] if d["cpu_type"] == kind["name"]]
        some = domains if len(domains) <= _ALIKE_MAX else [domains[0], "...", domains[-1]]
        last = kind["opps"][-1]
        _row(
            table,
            kind["name"],
            kind["cpus"],
            str(kind["capacity"]),
            f"{len(domains)}: " + "; ".join(some),
            _number(last["khz"]),
            _number(last["power_uw"]),
        )
    return table


# Column, key, and whether a table in which it is all zeros leaves it out.
_STATE_COLUMNS = [
    ("entry", "entry_latency_ns", True),
    ("exit", "exit_latency_ns", False),
    ("governor", "governor_exit_latency_ns", False),
    ("residency", "target_residency_ns", False),
    ("power", "power_uw", False),
    ("energy", "transition_energy_nj", True),
]
_STATE_FLAGS = {"polling": "polling", "local_timer_stop": "timer stop", "disabled": "off"}


def _idle_states(data: dict[str, Any]) -> Table:
    kinds = data["cpu_types"]
    states = [state for kind in kinds for state in kind["idle_states"]]
    columns = [
        (title, key)
        for title, key, spare in _STATE_COLUMNS
        if not spare or any(state[key] for state in states)
    ]
    titles = [title for title, _ in columns]
    table = _table("state", *titles, "flags", numeric=titles)
    for kind in kinds:
        if len(kinds) > 1:
            _row(table, f"{kind['name']}:")
        for state in kind["idle_states"]:
            name = state["name"] if len(kinds) == 1 else f" {state['name']}"
            flags = ", ".join(word for key, word in _STATE_FLAGS.items() if state[key])
            _row(table, name, *(_number(state[key]) for _, key in columns), flags)
    return table


def _opps(data: dict[str, Any]) -> Columns:
    """Lay the types side by side."""
    tables = []
    for kind in data["cpu_types"]:
        first = "MHz" if len(data["cpu_types"]) == 1 else f"{printable(kind['name'])} MHz"
        table = _table(first, "mV", "mW", numeric=("all",))
        for opp in kind["opps"]:
            voltage = "" if opp["uv"] is None else _number(opp["uv"])
            _row(table, _number(opp["khz"]), voltage, _number(opp["power_uw"]))
        tables.append(table)
    return Columns(tables, padding=(0, 2))


def _power(data: dict[str, Any]) -> Table | None:
    power = data["power"]
    if not (power["machine_uw"] or power["package_active_uw"]):
        return None
    table = _table("what", "mW", numeric=("mW",))
    _row(table, "machine", _number(power["machine_uw"]))
    _row(table, "package, a core busy", _number(power["package_active_uw"]))
    for row in power["package_idle"]:
        _row(table, f"package, all cores in {row['state']} or deeper", _number(row["power_uw"]))
    return table


def _smt(data: dict[str, Any]) -> Table | None:
    smt = data["smt"]
    if len(smt["throughput_permille"]) == 1:
        return None
    table = _table("busy threads", "core's throughput", "core's power", numeric=("all",))
    pairs = zip(smt["throughput_permille"], smt["power_permille"], strict=True)
    for busy, (throughput, power) in enumerate(pairs, start=1):
        _row(table, str(busy), f"{throughput / 1000:.2f}", f"{power / 1000:.2f}")
    return table


def _cache(data: dict[str, Any]) -> dict[str, int]:
    """Give the costs of distances that the machine has."""
    count = {level: len(groups or []) for level, groups in data["topology"].items()}
    present = {
        "core_ps": len(data["smt"]["throughput_permille"]) > 1,
        "cluster_ps": count["clusters"] > 0,
        "llc_ps": count["llcs"] < count["cores"],
        "package_ps": count["llcs"] > count["packages"],
        "machine_ps": count["packages"] > 1,
        "memory_remote_ps": count["nodes"] > 1,
    }
    return {name: value for name, value in data["cache"].items() if present.get(name, True)}


def _memory(data: dict[str, Any]) -> Columns | None:
    """Cache sizes and bandwidths, as far as they are known."""
    known = {name: value for name, value in data["memory"].items() if value is not None}
    scales = {
        "_bytes": (1024, "KiB"),
        "_mb_per_s": (1000, "GB/s"),
        "_permille": (1000, ""),
    }
    cells = []
    for name, value in known.items():
        suffix = next(suffix for suffix in scales if name.endswith(suffix))
        scale, unit = scales[suffix]
        label = name.removesuffix(suffix).replace("_", " ")
        cells.append(Text.assemble(f" {label} ", (f"{value / scale:,g}", "cyan"), f" {unit}"))
    return Columns(cells, equal=True, padding=(0, 1)) if cells else None


def _costs(costs: dict[str, int]) -> Columns:
    """Names and numbers, as many to a line as fit."""
    cells = []
    for name, value in costs.items():
        bare, _, unit = name.rpartition("_")
        number = _number(value) if unit == "ps" else f"{value:,}"
        label = bare if unit in {"ps", "ns"} else name
        cells.append(Text.assemble(" ", label.replace("_", " "), " ", (number, "cyan")))
    return Columns(cells, equal=True, padding=(0, 1))


def _table(*columns: str, numeric: Iterable[str] = ()) -> Table:
    right = set(numeric)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 0, 0, 1))
    for column in columns:
        table.add_column(
            Text(column), justify="right" if column in right or "all" in right else "left"
        )
    return table


def _row(table: Table, *cells: str) -> None:
    """Add a row; names come from files and may hold anything, markup and control codes included."""
    table.add_row(*(Text(printable(cell)) for cell in cells))


def _number(thousandths: int) -> str:
    """Thousandths as a short decimal number."""
    text = f"{thousandths / 1000:.3f}".rstrip("0").rstrip(".")
    whole, _, fraction = text.partition(".")
    return f"{int(whole):,}" + (f".{fraction}" if fraction else "")


def _cpus(text: str) -> frozenset[int]:
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)
