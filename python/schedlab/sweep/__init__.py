"""Sweeps: thousands of runs as one plan, on the cores of this machine or on a cluster.

- :mod:`schedlab.sweep.load`: the plan's file; :mod:`schedlab.sweep.model`: what a plan is
- :mod:`schedlab.sweep.design`: which points of the axes are run
- :mod:`schedlab.sweep.jobs`: each run of a plan with its key
- :mod:`schedlab.sweep.execute`: the loop that hands runs out until all are stored
- :mod:`schedlab.sweep.hand`, :mod:`schedlab.sweep.worker`: a process that simulates, and who
  watches over it
- :mod:`schedlab.sweep.table`: what the store says about a plan, compared
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.sweep.load import load
from schedlab.sweep.model import Axis, Plan

if TYPE_CHECKING:
    from schedlab.sweep.run import SweepResult, run_sweep

__all__ = ["Axis", "Plan", "SweepResult", "load", "run_sweep"]


def __getattr__(name: str) -> object:
    """Import what runs a sweep only where someone runs one."""
    if name in {"SweepResult", "run_sweep"}:
        from schedlab.sweep import run  # noqa: PLC0415 - as said

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
