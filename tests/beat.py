"""Plans and studies of tasks that compute for a while in every 10 ms, under two kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

RUN_US = (300, 2000)


def plan(iterations: int = 3, duration_s: float = 0.02, run_us: Sequence[int] = RUN_US) -> str:
    """Write a plan that varies how long each task computes."""
    return f"""
name = "beat"
machines = ["generic"]
iterations = {iterations}

[baseline]
kernel = "v6.1"

[[treatment]]
kernel = "v6.12"

[[workload]]
name = "beat"
workload = "periodic"
duration_s = {duration_s}

[[axis]]
target = "workload.run_us"
values = {list(run_us)}

[[figure]]
figure = "energy"
better = "lower"
"""


PLAN = plan()


def study(options: str, figure: str, *, iterations: int, duration_s: float) -> str:
    """Write a study of one workload, ``beat``, that is held to one figure, the lower the better."""
    return f"""
name = "beat"
title = "How long to compute"
machines = ["generic"]
iterations = {iterations}

[baseline]
name = "old"
kernel = "v6.1"

[[treatment]]
name = "new"
kernel = "v6.12"

[[workload]]
name = "beat"
workload = "periodic"
duration_s = {duration_s}
options = {{ {options} }}

[[metric]]
workload = "beat"
figure = "{figure}"
better = "lower"
"""
