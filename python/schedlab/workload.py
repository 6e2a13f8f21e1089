"""Workloads: what tasks do, as models of benchmarks, rt-app files or TOML files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

from schedlab import _schedlab as _native
from schedlab.names import guessing

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from schedlab.machine import Machine


class Workload:
    """Tasks and what they do, in words.

    >>> workload = Workload.load("hackbench")
    >>> workload.model, workload.follows, workload.task_count
    ('hackbench', 'hackbench of rt-tests 2.4', 401)
    """

    def __init__(self, data: dict[str, Any]) -> None:
        """Wrap what the compiled half tells; use :meth:`load` instead."""
        self._data = data

    @classmethod
    def load(cls, name_or_path: str | Path, machine: Machine | None = None) -> Self:
        """Load a built-in workload by its name, or else a TOML file or rt-app JSON.

        Defaults that follow the machine (a worker per CPU) take ``machine``'s, and a workload that
        it could not run is refused; without one they are those of 8 CPUs. Raises
        :class:`schedlab.WorkloadError`, whose text names file, line and mend.

        >>> from schedlab import Machine
        >>> Workload.load("schbench", Machine.load("kunpeng920-2s")).task_count
        130
        """
        # A path with a slash is never taken for a built-in name.
        name = str(name_or_path) if isinstance(name_or_path, str) else str(name_or_path.absolute())
        native = None if machine is None else machine.native
        with guessing():
            return cls(json.loads(_native.workload_describe(name, native)))

    @staticmethod
    def names() -> list[str]:
        """List the built-in workloads.

        >>> "sysbench-memory" in Workload.names()
        True
        """
        return _native.workload_names()

    @staticmethod
    def preset_toml(name: str) -> str | None:
        """Give the file of a built-in workload, comments and all.

        >>> print(Workload.preset_toml("ebizzy"), end="")
        # ebizzy with its defaults: two threads per CPU for 10 s.
        model = "ebizzy"
        """
        return _native.workload_text(name)

    @property
    def name(self) -> str:
        """The workload's name."""
        return str(self._data["name"])

    @property
    def model(self) -> str:
        """The model that the file names; ``rt-app`` for rt-app's own files."""
        return str(self._data["model"])

    @property
    def follows(self) -> str:
        """The program and release that the model follows."""
        return str(self._data["follows"])

    @property
    def task_count(self) -> int | None:
        """How many tasks come to be; ``None`` where that depends on the run.

        >>> Workload.load("periodic").task_count
        32
        """
        counts = [program["tasks"] for program in self._data["programs"]]
        return None if None in counts else sum(counts)

    @property
    def parameters(self) -> pl.DataFrame:
        """One row per option of the model: unit, default, value (as JSON) and source.

        >>> Workload.load("ebizzy").parameters.select("name", "unit", "default").rows()[1]
        ('seconds', 's', '10')
        """
        import polars as pl  # noqa: PLC0415 - a second of imports that most callers do not need

        texts = ["name", "unit", "default", "value", "source"]
        rows = [
            {**row, "default": json.dumps(row["default"]), "value": json.dumps(row["value"])}
            for row in self._data["parameters"]
        ]
        return pl.DataFrame(rows, schema=dict.fromkeys(texts, pl.String))

    @property
    def figures(self) -> list[str]:
        """The figures that a run yields.

        >>> Workload.load("ebizzy").figures
        ['records/s']
        """
        return [str(figure["name"]) for figure in self._data["figures"]]

    def to_dict(self) -> dict[str, Any]:
        """Everything about the workload: parameters, programs and their steps, figures.

        >>> programs = Workload.load("perf-sched-pipe").to_dict()["programs"]
        >>> [step["op"] for step in programs[0]["steps"]]
        ['1000000 times', 'read', 'write']
        """
        data: dict[str, Any] = json.loads(json.dumps(self._data))
        return data

    def __repr__(self) -> str:
        """Name the workload.

        >>> Workload.load("sysbench-cpu")
        <Workload sysbench-cpu: 33 tasks>
        """
        tasks = "some" if self.task_count is None else self.task_count
        return f"<Workload {self.name}: {tasks} tasks>"
