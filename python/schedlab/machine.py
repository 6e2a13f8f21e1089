"""Machines: hardware as data, built in, from a file, or imported from what other tools tell."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from schedlab._schedlab import Machine as _Native
from schedlab._schedlab import MachineError
from schedlab.names import guessing, near

if TYPE_CHECKING:
    import polars as pl

    from schedlab.kernel import Kernel


class Machine:
    """Hardware as data: CPUs, distances, capacities, operating points, idle states, costs.

    >>> machine = Machine.load("simidle")
    >>> machine.name, machine.cpu_count, machine.hz
    ('simidle', 4, 250)
    """

    def __init__(self, native: _Native) -> None:
        """Wrap what the compiled half has loaded; use :meth:`load` and its like instead."""
        self.native = native

    @classmethod
    def load(cls, name_or_path: str | Path) -> Self:
        """Load a built-in machine by its name, or else a TOML file.

        Raises :class:`schedlab.MachineError`, whose text names file, line and mend, and built-in
        names that are near.

        >>> Machine.load("pixel6-gs101").cpus["capacity"].to_list()
        [124, 124, 124, 124, 427, 427, 1024, 1024]
        """
        try:
            with guessing():
                if isinstance(name_or_path, Path):
                    return cls(_Native.load(name_or_path))
                return cls(_Native.find(name_or_path))
        except MachineError as error:
            if isinstance(name_or_path, Path) or Path(name_or_path).exists():
                raise
            raise MachineError(f"{error}{near(name_or_path, cls.names())}") from None

    @classmethod
    def parse(cls, text: str, name: str = "<text>") -> Self:
        """Load a machine from TOML text; ``name`` is what errors call it.

        >>> text = Machine.load("generic").to_toml()
        >>> Machine.parse(text) == Machine.load("generic")
        True
        """
        with guessing():
            return cls(_Native.parse(text, Path(name)))

    @classmethod
    def import_file(
        cls, path: str | Path, *, name: str | None = None, cpu_model: str | None = None
    ) -> Self:
        """Import ``lscpu -J`` output, hwloc XML or LISA's ``plat_info.yml``, told by content.

        ``cpu_model`` (``SKYLAKE_X``, ``skx`` or ``6/85``) chooses intel_idle's table of idle
        states where the file tells none.
        """
        return cls(_Native.import_file(Path(path), name, cpu_model))

    @classmethod
    def import_bytes(
        cls,
        content: bytes,
        *,
        source: str = "<bytes>",
        name: str | None = None,
        cpu_model: str | None = None,
    ) -> Self:
        """Import what :meth:`import_file` reads, from memory; ``source`` is what errors call it.

        >>> lscpu = b'{"lscpu": [{"field": "CPU(s):", "data": "4"}]}'
        >>> Machine.import_bytes(lscpu, cpu_model="skx").idle_states["name"].to_list()
        ['POLL', 'C1', 'C1E', 'C6']
        """
        return cls(_Native.import_bytes(content, Path(source), name, cpu_model))

    @classmethod
    def import_sysfs(
        cls, root: str | Path = "/", *, name: str | None = None, cpu_model: str | None = None
    ) -> Self:
        """Import this machine, or the one whose ``/sys`` was copied below ``root``."""
        return cls(_Native.import_sysfs(Path(root), name, cpu_model))

    @staticmethod
    def names() -> list[str]:
        """List the built-in machines.

        >>> "kunpeng920-2s" in Machine.names()
        True
        """
        return _Native.preset_names()

    @staticmethod
    def preset_toml(name: str) -> str | None:
        """Give the file of a built-in machine, sources and estimates in its comments.

        >>> "intel_idle" in Machine.preset_toml("nehalem-ep-2s")
        True
        """
        return _Native.preset_text(name)

    @cached_property
    def _data(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.native.to_json())
        return data

    @property
    def name(self) -> str:
        """The machine's name."""
        return str(self._data["name"])

    @property
    def description(self) -> str:
        """One line on what it is; may be empty."""
        return str(self._data["description"])

    @property
    def cpu_count(self) -> int:
        """How many logical CPUs there are."""
        return int(self._data["cpu_count"])

    @property
    def hz(self) -> int:
        """The usual tick rate of its kernel, per second."""
        return int(self._data["hz"])

    @property
    def cpus(self) -> pl.DataFrame:
        """One row per CPU: its place in the tree, type, capacity and frequency domain.

        >>> Machine.load("nehalem-ep-2s").cpus.select("cpu", "core", "node").head(3).rows()
        [(0, 0, 0), (1, 4, 1), (2, 1, 0)]
        """
        return _frame(self._data["cpus"])

    @property
    def idle_states(self) -> pl.DataFrame:
        """One row per CPU type and idle state, shallow first; latencies in ns, power in uW.

        >>> states = Machine.load("simidle").idle_states
        >>> states.select("name", "exit_latency_ns", "target_residency_ns").row(4)
        ('C6', 133000, 600000)
        """
        return self._by_type("idle_states")

    @property
    def opps(self) -> pl.DataFrame:
        """One row per CPU type and operating point, slow first; kHz, uV and uW.

        >>> Machine.load("pixel6-gs101").opps.group_by("cpu_type", maintain_order=True).len().rows()
        [('little', 11), ('mid', 14), ('big', 17)]
        """
        return self._by_type("opps")

    @property
    def node_distances(self) -> list[list[int]]:
        """``node_distance()`` by row and column; 10 within a node.

        >>> Machine.load("power7-2s").node_distances
        [[10, 20], [20, 10]]
        """
        distances: list[list[int]] = self._data["node_distances"]
        return distances

    def to_dict(self) -> dict[str, Any]:
        """Everything about the machine, every default filled in.

        >>> Machine.load("atom-netbook-ht").to_dict()["smt"]["throughput_permille"]
        [1000, 1390]
        """
        data: dict[str, Any] = json.loads(self.native.to_json())
        return data

    def domains(self, kernel: Kernel) -> dict[str, Any]:
        """Give the scheduling domains that a kernel builds: all of them, and each CPU's stack.

        >>> from schedlab import Kernel
        >>> built = Machine.load("kunpeng920-2s").domains(Kernel.load("v6.12"))
        >>> [built["domains"][at["domain"]]["weight"] for at in built["cpus"][0]["stack"]]
        [4, 32, 64, 96, 128]
        """
        data: dict[str, Any] = json.loads(self.native.domains_json(kernel.native))
        return data

    def to_toml(self) -> str:
        """Write the machine as a file that loads to an equal machine."""
        return self.native.to_toml()

    def __eq__(self, other: object) -> bool:
        """Tell whether both describe the same machine."""
        return isinstance(other, Machine) and self.native == other.native

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Name the machine.

        >>> Machine.load("generic")
        <Machine generic: 8 CPUs>
        """
        return f"<Machine {self.name}: {self.cpu_count} CPUs>"

    def _by_type(self, table: str) -> pl.DataFrame:
        rows = [
            {"cpu_type": kind["name"], "index": index, **row}
            for kind in self._data["cpu_types"]
            for index, row in enumerate(kind[table])
        ]
        return _frame(rows)


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415 - a second of imports that most callers do not need

    return pl.DataFrame(rows, infer_schema_length=None)
