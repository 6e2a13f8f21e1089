"""An idle governor of one's own: deep only where the last sleeps, too, were long enough."""

from __future__ import annotations

import schedlab

TRACE = "python/schedlab/samples/idle-menu.dat"


class Patient(schedlab.Governor):
    """Expects the shortest of the last sleeps, or the next timer if that is sooner."""

    def __init__(self, remembered: int = 4) -> None:
        self.slept_ns = [0] * remembered

    def select(self, states, view):
        expected_ns = min(view.sleep_length_ns, *self.slept_ns)
        deepest = 0
        for number, state in enumerate(states):
            fits = state.target_residency_ns <= expected_ns
            if fits and not state.disabled and state.exit_latency_ns <= view.latency_limit_ns:
                deepest = number
        return deepest, expected_ns >= self.tick_ns

    def reflect(self, states, state, residency_ns, view):
        self.slept_ns = [*self.slept_ns[1:], residency_ns]


if __name__ == "__main__":
    frame = schedlab.idle_governors(TRACE, governors=["menu", "teo", Patient])
    for row in frame.iter_rows(named=True):
        print(
            f"{row['governor']:8}  {row['periods']:5} periods, "
            f"{row['too_deep_pct']:5.2f} % too deep, {row['too_shallow_pct']:5.2f} % too shallow, "
            f"{row['idle_energy_mj']:6.2f} mJ"
        )
    run = schedlab.simulate("perf-sched-pipe", machine="simidle", governor=Patient, duration_s=0.05)
    print(f"{run.governor}: {run.energy.total_j:.3f} J, digest {run.digest}")
