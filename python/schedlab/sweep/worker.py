"""A process that simulates: orders come by standard input, each run's result leaves at once.

``python -m schedlab.sweep.worker`` reads a line of JSON per batch and answers with a line when a
run begins and another when it is done. It ends when its input does, which is when whoever started
it has ended, however that came.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from schedlab.simulation import simulate
from schedlab.study.figures import of_run
from schedlab.sweep.resolve import Kitchen, Recipe

if TYPE_CHECKING:
    from typing import BinaryIO

__all__ = ["main"]

Line = dict[str, Any]


def main() -> None:
    """Carry out batches until there are no more."""
    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    # Results go where nothing else prints by accident.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    threading.Thread(target=_listen, args=(sys.stdin.buffer, orders), daemon=True).start()
    kitchen: Kitchen | None = None
    while True:
        order = json.loads(orders.get())
        if "recipe" in order:
            kitchen = Kitchen(Recipe.parse(order["recipe"]))
        elif kitchen is not None:
            for number, run in enumerate(order["runs"]):
                _tell(out, {"begun": number})
                _tell(out, {"done": number, **_carry_out(kitchen, run)})


def _listen(orders: BinaryIO, into: queue.SimpleQueue[bytes]) -> None:
    """Pass orders on; at their end the process ends, in the midst of a run, too."""
    for line in orders:
        into.put(line)
    os._exit(0)


def _tell(out: BinaryIO, line: Line) -> None:
    out.write(json.dumps(line).encode() + b"\n")
    out.flush()


def _carry_out(kitchen: Kitchen, order: list[Any]) -> Line:
    machine, workload, kernel, settings, seed = order
    begun = time.perf_counter()
    try:
        run = kitchen.ready(machine, workload, kernel, settings, seed)
        simulating = time.perf_counter()
        done = simulate(
            run.workload,
            machine=run.machine,
            kernel=run.kernel,
            duration_s=run.duration_s,
            seed=seed,
            start_ns=run.start_ns,
        )
        simulated_s = time.perf_counter() - simulating
        if done.ending == "stuck":
            first = done.waiting[0] if done.waiting else "nothing"
            return {
                "error": f"nothing can happen any more after {done.end_ns / 1e9:.6f} s, and "
                f"{len(done.waiting)} tasks wait, the first so: {first}"
            }
        figures = [
            [each["figure"], each["unit"], each["value"]] for each in of_run(done, run.machine)
        ]
    except Exception as error:  # noqa: BLE001 - a run that fails is recorded, whatever fails it
        return {"error": f"{type(error).__name__}: {error}"}
    return {
        "duration_s": run.duration_s,
        "start_ns": run.start_ns,
        "end_ns": done.end_ns,
        "events": done.events,
        "digest": done.digest,
        "ending": done.ending,
        "simulated_s": simulated_s,
        "wall_s": time.perf_counter() - begun,
        "figures": figures,
    }


if __name__ == "__main__":
    main()
