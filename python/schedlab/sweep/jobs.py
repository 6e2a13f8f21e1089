"""Each run of a plan, with its key, as a stream: a plan of millions is never held at once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from schedlab.study.plan import program
from schedlab.sweep import design
from schedlab.sweep.model import KERNEL
from schedlab.sweep.resolve import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from schedlab.sweep.model import Plan

__all__ = ["Block", "Cell", "Job", "Jobs"]

# What a run yields and how it is keyed; another number makes older runs unknown.
FORMAT = 1

SEED_BITS = 48


class Job(NamedTuple):
    """One run."""

    key: str
    """Digest of all that determines it, the program included."""
    machine: str
    workload: str
    kernel: str
    settings: Mapping[str, Any]
    """What the axes set, by target."""
    seed: int

    def order(self) -> list[Any]:
        """Give it for a worker."""
        return [self.machine, self.workload, self.kernel, dict(self.settings), self.seed]


@dataclass(frozen=True)
class Cell:
    """What all variants along the compared axis have in common, but for the iteration."""

    number: int
    machine: str
    workload: str
    kernel: str
    """Empty where kernels are compared."""
    values: Mapping[str, Any]
    """By axis, but for the compared one."""


class Block(NamedTuple):
    """One iteration of a cell: the runs that are compared with one another."""

    cell: Cell
    iteration: int
    jobs: Sequence[Job]
    """One per variant, the baseline first."""
    variants: Sequence[int]
    """Which variants these are."""


class Jobs:
    """The runs of a plan."""

    def __init__(self, plan: Plan) -> None:
        """Read what the plan begins with.

        Raises what loading machines, kernels and workloads raises.
        """
        self.plan = plan
        self.recipe = Recipe.of(plan.study, small=plan.small)
        self._digests = self.recipe.digests()
        self._program = program()

    def __len__(self) -> int:
        """Count the runs of all iterations."""
        return self.cell_count * len(self.plan.variants) * self.plan.iterations

    @property
    def cell_count(self) -> int:
        """Count the cells."""
        plan = self.plan
        places = sum(len(plan.study.machines_of(case)) for case in plan.study.cases)
        kernels = 1 if plan.compare == KERNEL else len(plan.study.kernels)
        return places * kernels * design.count(plan)

    def cells(self) -> Iterator[Cell]:
        """Give each cell."""
        plan = self.plan
        names = [axis.name for axis in plan.free]
        kernels = [""] if plan.compare == KERNEL else [each.name for each in plan.study.kernels]
        number = 0
        for point in design.points(plan):
            values = dict(zip(names, point, strict=True))
            for case in plan.study.cases:
                for machine in plan.study.machines_of(case):
                    for kernel in kernels:
                        yield Cell(number, machine, case.name, kernel, values)
                        number += 1

    def blocks(self) -> Iterator[Block]:
        """Give every block, iteration by iteration, so that early tables show every cell."""
        for iteration in range(self.plan.iterations):
            for cell in self.cells():
                yield self.block(cell, iteration)

    def block(self, cell: Cell, iteration: int, wanted: Sequence[int] | None = None) -> Block:
        """Give one iteration of a cell; of these variants alone, if they are given."""
        seed = self._seed(cell, iteration)
        plan = self.plan
        if plan.compare == KERNEL:
            variants: list[tuple[str, Mapping[str, Any]]] = [
                (kernel.name, cell.values) for kernel in plan.study.kernels
            ]
        else:
            values = plan.axis(plan.compare).grid()
            variants = [(cell.kernel, {**cell.values, plan.compare: value}) for value in values]
        numbers = range(len(variants)) if wanted is None else wanted
        jobs = [self._job(cell, *variants[number], seed) for number in numbers]
        return Block(cell, iteration, jobs, numbers)

    def _seed(self, cell: Cell, iteration: int) -> int:
        """Draw the seed of a block from what tells it apart, not from its place in the plan.

        So a point keeps its seeds when others are added.
        """
        if self.plan.common == "all":
            return self.plan.seed + iteration
        parts = [self.plan.seed, iteration, cell.machine, cell.workload, cell.kernel]
        text = json.dumps([*parts, cell.values], sort_keys=True)
        digest = hashlib.sha256(text.encode()).digest()
        return int.from_bytes(digest[:8], "little") % (1 << SEED_BITS)

    def _job(self, cell: Cell, kernel: str, point: Mapping[str, Any], seed: int) -> Job:
        settings: dict[str, Any] = {}
        for axis in self.plan.axes:
            if axis.kernels and kernel not in axis.kernels:
                continue
            for target in axis.targets:
                room, _, rest = target.partition(".")
                case, _, option = rest.partition(".")
                if room != "workload" or not option or case == cell.workload:
                    settings[target] = point[axis.name]
        text = json.dumps(
            [
                FORMAT,
                self._program,
                self._digests[f"machine/{cell.machine}/{cell.workload}"],
                self._digests[f"kernel/{kernel}/{cell.workload}"],
                self._digests[f"workload/{cell.workload}"],
                self.recipe.durations_s[cell.workload],
                {
                    target.replace(f"workload.{cell.workload}.", "workload."): value
                    for target, value in settings.items()
                },
                seed,
            ],
            sort_keys=True,
        )
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        return Job(key, cell.machine, cell.workload, kernel, settings, seed)
