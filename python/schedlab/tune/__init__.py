"""Tuning: good parameters found rather than guessed, and confirmed on runs that found nothing.

- :mod:`schedlab.tune.model`: what is varied, what is aimed at, what came of it
- :mod:`schedlab.tune.search`: Optuna's search over the workers that sweeps use
- :mod:`schedlab.tune.table`: what a search shows
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.tune.model import Objective, Parameter, TuneResult

if TYPE_CHECKING:
    from schedlab.tune.search import tune_study

__all__ = ["Objective", "Parameter", "TuneResult", "tune_study"]


def __getattr__(name: str) -> object:
    """Import what searches only where someone does."""
    if name == "tune_study":
        from schedlab.tune.search import tune_study  # noqa: PLC0415 - as said

        return tune_study
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
