"""A session: checks first, then iterations in turns, each stored as soon as it is done.

Nothing on the machine changes before its old state is on disk; whatever ends the session puts it
back, and after a kill -9 the next one does. What is stored stays; a session goes on where the one
before it ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from schedlab.bench.parse import Value, of_text, parser
from schedlab.bench.run import context, settings, signals
from schedlab.bench.run.journal import boot_id, locked, state_folder
from schedlab.bench.run.order import turns
from schedlab.bench.run.plan import OWN_TOOL, Variant, cpu_list
from schedlab.bench.run.process import Outcome, carry_out, with_guard
from schedlab.bench.run.tools import missing
from schedlab.comparison.model import CompareError
from schedlab.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from schedlab.bench.run.journal import Journal
    from schedlab.bench.run.plan import Benchmark, Plan
    from schedlab.bench.run.settings import Setting

__all__ = ["Done", "Run", "carry_out_plan", "check", "schedule"]

# Of a command's output that is stored: its end.
STORED_BYTES = 16 << 10
SCHED_EXT_STATE = Path("/sys/kernel/sched_ext/state")
SCHEDULER_STARTS_S = 10.0

PLAIN = Variant("", {}, {}, (), "", (), ())


@dataclass(frozen=True)
class Run:
    """One iteration of one benchmark under one variant."""

    benchmark: Benchmark
    variant: Variant
    place: int
    """Of the variant in the plan."""
    label: str
    """What the table calls it."""
    iteration: int
    key: str


@dataclass(frozen=True)
class Done:
    """What a session did."""

    runs: int
    stored: int
    """Runs that the store had already."""
    retried: int
    restored: Sequence[str]
    """Settings that a killed session had left changed."""


def schedule(plan: Plan, label: str | None) -> list[Run]:
    """List all runs in their order: round by round, variants in balanced random turns."""
    variants = list(plan.variants) or [PLAIN]
    if label is None and not plan.variants:
        raise CompareError(
            f"{plan.name} has no [[variant]]; name what this boot is by --label, and run it again "
            "after the next"
        )
    runs = []
    for iteration in range(plan.iterations):
        order = turns(len(plan.benchmarks), iteration, plan.seed, -1)
        for number in order:
            for place in turns(len(variants), iteration, plan.seed, number):
                variant, benchmark = variants[place], plan.benchmarks[number]
                name = " ".join(part for part in (label, variant.name) if part)
                key = _key(plan, benchmark, name, iteration)
                runs.append(Run(benchmark, variant, place, name, iteration, key))
    return runs


def _key(plan: Plan, benchmark: Benchmark, label: str, iteration: int) -> str:
    parts = [plan.digest, benchmark.name, label, iteration]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def check(plan: Plan) -> dict[str, list[tuple[Setting, str]]]:
    """Refuse what cannot run or be set here, and find each variant's settings.

    Raises :class:`schedlab.CompareError` with everything that is missing, a line each.
    """
    problems: list[str] = []
    programs = [benchmark.command[0] for benchmark in plan.benchmarks]
    programs += [benchmark.prepare[0] for benchmark in plan.benchmarks if benchmark.prepare]
    for variant in plan.variants:
        programs += [
            each[0] for each in (variant.prefix, variant.switch, variant.scheduler) if each
        ]
    programs += list(plan.restore[:1])
    if plan.cpus or any(variant.cpus for variant in plan.variants):
        programs.append("taskset")
    for program in dict.fromkeys(programs):
        problem = missing(program)
        if problem:
            problems.append(problem)
    found: dict[str, list[tuple[Setting, str]]] = {}
    for variant in plan.variants:
        found[variant.name] = []
        for name, value in variant.set.items():
            try:
                found[variant.name] += settings.find(name, value)
            except CompareError as error:
                problems.append(f"variant {variant.name}: {error}")
        if variant.scheduler and not SCHED_EXT_STATE.exists():
            problems.append(f"variant {variant.name}: this kernel has no sched_ext")
    if problems:
        raise CompareError(f"{plan.name} cannot run here: " + "\n".join(dict.fromkeys(problems)))
    return found


def carry_out_plan(
    plan: Plan,
    folder: Path,
    *,
    label: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    tell: Callable[[str], None] = lambda _text: None,
) -> Done:
    """Run what the store does not have yet.

    Raises :class:`schedlab.CompareError` for what cannot start, for a command that keeps failing,
    and for a store of another plan or another boot's label.
    """
    runs = schedule(plan, label)
    wanted = check(plan)
    store = Store(folder)
    store.sweep()
    machine = context.machine()
    known = store.keys()
    _check_store(store, plan, {run.label for run in runs}, machine)
    todo = [run for run in runs if run.key not in known]
    told = progress or (lambda _done, _total: None)
    with locked(state_folder()) as journal:
        restored = journal.restored
        for text in restored:
            tell(f"put back after a killed run: {text}")
        session = _Session(plan, store, journal, machine=machine, tell=tell)
        retried = session.carry_out(todo, wanted, told)
    return Done(len(todo), len(runs) - len(todo), retried, restored)


def _check_store(store: Store, plan: Plan, labels: set[str], machine: Mapping[str, Any]) -> None:
    rows = store.query("SELECT DISTINCT plan, digest, kernel, machine FROM runs")
    for row in rows:
        if row["digest"] != plan.digest:
            raise CompareError(
                f"{store.folder}: holds runs of plan {row['plan']} as it was before it changed; "
                "name another folder by --store"
            )
        then = json.loads(row["machine"])
        now = {name: machine.get(name, "") for name in ("kernel_release", "cmdline")}
        if row["kernel"] in labels and any(then.get(name, "") != now[name] for name in now):
            raise CompareError(
                f"{store.folder}: {row['kernel']} ran under {then.get('kernel_release')} "
                f"{then.get('cmdline')}; this boot is another, so give it another --label"
            )


class _Session:
    """What one session holds together."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        journal: Journal,
        *,
        machine: Mapping[str, Any],
        tell: Callable[[str], None],
    ) -> None:
        self.plan, self.store, self.journal = plan, store, journal
        self.machine = json.dumps(machine)
        self.tell = tell
        self.work = store.folder / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        self.name = secrets.token_hex(8)
        self.boot = boot_id()
        self.present: str | None = None
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.originals: Mapping[Setting, str] = {}
        self.retried = 0

    def carry_out(
        self,
        todo: Sequence[Run],
        wanted: Mapping[str, list[tuple[Setting, str]]],
        told: Callable[[int, int], None],
    ) -> int:
        with signals.stopping():
            try:
                self._prepare(todo)
                every = [setting for pairs in wanted.values() for setting, _ in pairs]
                self.originals = self.journal.record(list(dict.fromkeys(every)), self.plan.restore)
                told(0, len(todo))
                warmed: set[tuple[str, str]] = set()
                for done, run in enumerate(todo):
                    self._switch(run.variant, wanted)
                    if (run.benchmark.name, run.label) not in warmed:
                        warmed.add((run.benchmark.name, run.label))
                        for _ in range(self.plan.warmup):
                            self._attempt(run)
                    self._iterate(run)
                    told(done + 1, len(todo))
            except signals.Stop:
                raise KeyboardInterrupt from None
            finally:
                with signals.held():
                    self._end_scheduler()
                    self.journal.restore()
        return self.retried

    def _prepare(self, todo: Sequence[Run]) -> None:
        for benchmark in dict.fromkeys(run.benchmark.name for run in todo):
            found = next(each for each in self.plan.benchmarks if each.name == benchmark)
            if not found.prepare or (found.creates and (self.work / found.creates).exists()):
                continue
            outcome = carry_out(
                with_guard(found.prepare, ""), folder=str(self.work), env={}, timeout_s=3600
            )
            if outcome.code != 0:
                raise CompareError(f"{benchmark}: prepare: {_why(outcome)}")

    def _switch(self, variant: Variant, wanted: Mapping[str, list[tuple[Setting, str]]]) -> None:
        """Bring the machine into a variant's state; what it does not name is as it was."""
        if self.present == variant.name:
            return
        self._end_scheduler()
        target = {**self.originals, **dict(wanted.get(variant.name, []))}
        for setting, value in target.items():
            if not setting.holds(value):
                setting.write(value)
                if not setting.holds(value):
                    raise CompareError(
                        f"variant {variant.name}: {setting.path} does not take {value}; it says "
                        f"{setting.read()}"
                    )
        if self.plan.restore and self.present is not None:
            self._command(self.plan.restore, "restore")
        if variant.switch:
            self._command(variant.switch, f"variant {variant.name}: switch")
        if variant.scheduler:
            self._start_scheduler(variant)
        self.present = variant.name

    def _command(self, command: Sequence[str], what: str) -> None:
        outcome = carry_out(with_guard(command, ""), folder=str(self.work), env={}, timeout_s=60)
        if outcome.code != 0:
            raise CompareError(f"{what}: {_why(outcome)}")

    def _start_scheduler(self, variant: Variant) -> None:
        with signals.held():
            self.scheduler = subprocess.Popen(
                with_guard(variant.scheduler, ""),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self.journal.started(self.scheduler.pid)
        deadline = time.monotonic() + SCHEDULER_STARTS_S
        while settings.Setting(SCHED_EXT_STATE).read() != "enabled":
            if self.scheduler.poll() is not None or time.monotonic() > deadline:
                raise CompareError(f"variant {variant.name}: {variant.scheduler[0]} does not start")
            time.sleep(0.05)

    def _end_scheduler(self) -> None:
        if self.scheduler is None:
            return
        process, self.scheduler = self.scheduler, None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=SCHEDULER_STARTS_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.journal.ended(process.pid)

    def _attempt(self, run: Run) -> tuple[Outcome, list[Value], str]:
        """Run once; the third is what was wrong, empty if nothing."""
        time.sleep(self.plan.cooldown_s)
        benchmark, variant = run.benchmark, run.variant
        cpus = variant.cpus or self.plan.cpus
        count = len(cpu_list(cpus) or os.sched_getaffinity(0))
        words = [word.replace("{cpus}", str(count)) for word in benchmark.command]
        outcome = carry_out(
            with_guard([*variant.prefix, *words], cpus),
            folder=str(self.work),
            env={**benchmark.env, **variant.env},
            timeout_s=benchmark.timeout_s,
            started=self.journal.started,
            ended=self.journal.ended,
        )
        values = _figures(benchmark, outcome)
        wrong = "" if outcome.code == 0 and not outcome.timed_out and values else _why(outcome)
        return outcome, values, wrong

    def _iterate(self, run: Run) -> None:
        wrong = ""
        for attempt in range(self.plan.attempts):
            before, began = context.moment(), time.time()
            outcome, values, wrong = self._attempt(run)
            if not wrong:
                after = context.moment()
                self._keep(run, outcome, values, began, {"before": before, "after": after})
                return
            if attempt + 1 < self.plan.attempts:
                self.retried += 1
                self.tell(f"{run.benchmark.name} under {run.label}: {wrong}; tried again")
        raise CompareError(
            f"{run.benchmark.name} under {run.label}, iteration {run.iteration}: {wrong}; what is "
            "done is stored, run again to go on"
        )

    def _keep(
        self,
        run: Run,
        outcome: Outcome,
        values: Sequence[Value],
        began: float,
        noise: Mapping[str, Any],
    ) -> None:
        rows = [
            {
                "benchmark": run.benchmark.name,
                "case": run.benchmark.case or value.case,
                "metric": value.metric,
                "unit": value.unit,
                "better": value.better,
                "value": value.value,
            }
            for value in values
        ]
        schema = {
            name: pl.Float64 if name == "value" else pl.String
            for name in ("benchmark", "case", "metric", "unit", "better", "value")
        }
        frame = pl.DataFrame(rows, schema=schema).with_columns(
            pl.lit(run.key).alias("key"),
            pl.lit(self.plan.name).alias("plan"),
            pl.lit(self.plan.digest).alias("digest"),
            pl.lit(run.label).alias("kernel"),
            pl.lit(run.place, pl.Int64).alias("variant"),
            pl.lit(run.iteration, pl.Int64).alias("iteration"),
            pl.lit(began, pl.Float64).alias("time_s"),
            pl.lit(outcome.elapsed_s, pl.Float64).alias("elapsed_s"),
            pl.lit(self.name).alias("session"),
            pl.lit(self.boot).alias("boot_id"),
            pl.lit(shlex.join(run.benchmark.command)).alias("command"),
            pl.lit(self.machine).alias("machine"),
            pl.lit(json.dumps(noise)).alias("noise"),
            pl.lit(outcome.output[-STORED_BYTES:]).alias("output"),
        )
        self.store.write(run.key, frame)


def _figures(benchmark: Benchmark, outcome: Outcome) -> list[Value]:
    if benchmark.tool == OWN_TOOL:
        times = (
            ("elapsed", outcome.elapsed_s), ("user", outcome.user_s), ("system", outcome.system_s),
        )  # fmt: skip
        found = [Value("", "", name, "s", "lower", value) for name, value in times]
    else:
        # The last of a figure counts: some tools print it at intervals.
        last: dict[tuple[str, str], Value] = {}
        for item in parser(benchmark.tool)(of_text(outcome.output)):
            if isinstance(item, Value):
                last[item.case, item.metric] = item
        found = list(last.values())
    return [each for each in found if not benchmark.metrics or each.metric in benchmark.metrics]


def _why(outcome: Outcome) -> str:
    lines = [line for line in outcome.output.splitlines() if line.strip()]
    last = lines[-1].strip()[:200] if lines else "no output"
    if outcome.timed_out:
        return f"took longer than its timeout and was killed after {outcome.elapsed_s:.1f} s"
    if outcome.code < 0:
        return f"was killed by {signal.Signals(-outcome.code).name}: {last}"
    if outcome.code:
        return f"exit code {outcome.code}: {last}"
    return f"its output has no figure that was asked for: {last}"
