"""How scheduling domains look in a terminal: one table for all CPUs that see them alike."""

from __future__ import annotations

from typing import Any

import click

from schedlab.cli._output import Column, cpu_list, print_table, print_title, print_wrapped

# More groups than this, or wider names of them, are only counted.
_GROUPS_MAX = 4
_GROUPS_WIDTH = 20


def print_domains(built: dict[str, Any]) -> None:
    """Draw each class of CPUs: what its stack looks like, from the lowest level up."""
    print_title(f"{built['machine']}, scheduling domains of kernel {built['kernel']}")
    print_wrapped(
        "pct: imbalance_pct; ms: shortest and longest balance interval; numa_nr: imb_numa_nr", 2
    )
    for cpus in _classes(built):
        click.echo()
        _print_class(built, cpus)


def _classes(built: dict[str, Any]) -> list[list[int]]:
    """Group CPUs whose domains differ in nothing but which CPUs they are."""
    classes: dict[str, list[int]] = {}
    for cpu in built["cpus"]:
        shape = []
        for place in cpu["stack"]:
            domain = built["domains"][place["domain"]]
            groups = _ring(domain, place["first_group"])
            rest = {key: domain[key] for key in domain if key not in {"span", "groups"}}
            sizes = [(group["weight"], group["capacity"]) for group in groups]
            # Its own group first, the others in any order.
            shape.append((rest, sizes[:1], sorted(sizes[1:])))
        classes.setdefault(repr(shape), []).append(cpu["cpu"])
    return list(classes.values())


def _ring(domain: dict[str, Any], first: int) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = domain["groups"]
    return groups[first:] + groups[:first]


def _print_class(built: dict[str, Any], cpus: list[int]) -> None:
    cpu = cpus[0]
    drawn = "" if len(cpus) == 1 else f" ({len(cpus)} alike, drawn for CPU {cpu})"
    print_title(f"CPUs {cpu_list(cpus)}{drawn}" if drawn else f"CPU {cpu}")
    stack = [
        (built["domains"][place["domain"]], place["first_group"])
        for place in built["cpus"][cpu]["stack"]
    ]
    if not stack:
        click.echo(" no domains: nothing to balance with")
        return
    common = set.intersection(*(set(domain["flags"]) for domain, _ in stack))
    rows = [
        {
            "level": domain["level"],
            "span": domain["span"],
            "weight": domain["weight"],
            "groups": _groups(_ring(domain, first)),
            "pct": domain["imbalance_pct"],
            "interval": f"{domain['min_interval_ms']}-{domain['max_interval_ms']}",
            "numa": domain["imb_numa_nr"],
        }
        for domain, first in stack
    ]
    print_table(
        [
            Column("level", "level", numeric=False),
            Column("span", "span", numeric=False),
            Column("weight", "CPUs"),
            Column("groups", "groups, own first", numeric=False),
            Column("pct", "pct"),
            Column("interval", "ms", numeric=False),
            Column("numa", "numa_nr", spare=1),
        ],
        rows,
    )
    print_wrapped(f" flags of every level: {_names(stack[0][0], common)}", 4)
    for domain, _ in stack:
        own = set(domain["flags"]) - common
        if own:
            print_wrapped(f" {domain['level']} {domain['span']}: {_names(domain, own)}", 4)
    busy = {domain["busy_factor"] for domain, _ in stack}
    print_wrapped(f" a busy CPU waits {', '.join(map(str, sorted(busy)))} times as long", 4)


def _groups(groups: list[dict[str, Any]]) -> str:
    text = " | ".join(group["span"] for group in groups)
    if len(groups) <= _GROUPS_MAX and len(text) <= _GROUPS_WIDTH:
        return text
    weights = sorted({group["weight"] for group in groups})
    noun = "CPU" if weights == [1] else "CPUs"
    return f"{len(groups)} of {' or '.join(map(str, weights))} {noun}"


def _names(domain: dict[str, Any], wanted: set[str]) -> str:
    names = [flag.removeprefix("SD_") for flag in domain["flags"] if flag in wanted]
    return " ".join(names) or "none"
