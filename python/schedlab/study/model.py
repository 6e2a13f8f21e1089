"""What a study is, and what it yields, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from schedlab.simulation import WorkloadText
    from schedlab.stats import Interval, Mean, Verdict

__all__ = [
    "Calibration",
    "Case",
    "Control",
    "Explanation",
    "Figure",
    "FreeParameter",
    "KernelChoice",
    "Metric",
    "Parameter",
    "Plot",
    "Point",
    "Published",
    "Row",
    "Scenario",
    "Study",
    "StudyResult",
    "Target",
    "Use",
]

Better = Literal["higher", "lower"]

Value = Any


@dataclass(frozen=True)
class KernelChoice:
    """A kernel of the comparison."""

    name: str
    """What the table calls it, which is what the publication called it."""
    kernel: str
    """A built-in kernel or a file."""
    settings: Mapping[str, Value] = field(default_factory=dict)
    """Settings that differ from that kernel, by their names in kernel files."""
    place: str = field(default="", compare=False)
    """File and line that name it."""


@dataclass(frozen=True)
class Parameter:
    """A number that the study sets itself, and where it comes from."""

    target: str
    """``workload.CASE.OPTION``, ``machine.SECTION.KEY`` or ``kernel.SECTION.KEY``."""
    machines: Sequence[str]
    """Of ``machine.``: on which; on all by default."""
    value: Value
    kind: Literal["published", "measured", "documentation", "estimate", "calibrated", "fitted"]
    """``calibrated``: on the baseline's published column, never on a treatment's. ``fitted``: on
    the published effect itself, so that the figure it was fitted to is shown, not predicted."""
    source: str


@dataclass(frozen=True)
class Case:
    """A workload of the study."""

    name: str
    base: str
    """A built-in workload or a file."""
    file: WorkloadText | None
    """The file's text, if it stands beside the study."""
    options: Mapping[str, Value]
    """Options of its model that the study sets."""
    machines: Sequence[str]
    """Where it runs; every machine of the study by default."""
    machine_settings: Mapping[str, Value]
    """Settings of those machines that differ for this workload."""
    kernel_settings: Mapping[str, Value]
    """Settings of every kernel that differ for this workload."""
    duration_s: float
    small_options: Mapping[str, Value]
    """What to set besides for a small run."""
    small_duration_s: float
    place: str = field(default="", compare=False)
    """File and line that name it."""
    options_place: str = field(default="", compare=False)
    """File and line of its options."""


@dataclass(frozen=True)
class Metric:
    """A figure that is compared, and what must hold of it."""

    workload: str
    figure: str
    """The workload's own figure, or one of every run: see :mod:`schedlab.study.figures`."""
    name: str
    unit: str
    better: Better
    published: str | None
    """The benchmark's name in the published figures; ``None`` if it was not published."""
    within_pct: float | None
    """A kernel's mean must be that near the published mean."""
    within_points: float | None
    """A kernel's mean must be that near the published mean, in the figure's own unit, as shares
    are."""
    order: bool
    """The kernels' means must stand in the order of the published ones."""
    exactly: Mapping[str, float]
    """What the figure must be in every iteration, by kernel."""
    exactly_by: float
    """How much it may differ from that, since the run begins and ends somewhere within a tick."""
    change: (
        Literal["equal", "not significant", "better", "near", "direction", "fitted", "shown"] | None
    )
    """What must hold between a treatment and the baseline: equal within the margin, no
    significant difference, a significant improvement, a change within the margin of
    ``near_pct``, or one in the direction of the published one. A parameter was ``fitted`` to this
    change, or it is merely ``shown``: then it claims nothing."""
    near_pct: float | None
    """The change that ``near`` is about; the published one by default."""
    published_change: str | None
    """The benchmark's name among the published figures if a change, in percent, was published
    instead of levels."""
    treatments: Sequence[str]
    """The treatments whose change is claimed; all by default. The others' is shown."""
    full_size: bool
    """In a small run the figure is another quantity, so its level is not compared."""
    margin_pct: float
    """The margin of ``equal`` and ``near``, and of the verdict ``equivalent``."""
    mean: Mean
    """Over iterations; the study's by default."""
    margins: Mapping[str, float] = field(default_factory=dict)
    """The margin of ``equal`` and ``near`` for treatments that have one of their own."""


@dataclass(frozen=True)
class Control:
    """A knob that must move a figure: turned, the study has to fail."""

    name: str
    target: str
    """As in :class:`Parameter`."""
    factor: float
    value: Value | None
    """What it is turned to, where a factor does not do."""
    fails: Sequence[str]
    """Workloads of which a row must fail."""
    why: str


@dataclass(frozen=True)
class Scenario:
    """A run whose placement decisions the study explains."""

    workload: str
    title: str
    task: int
    """The task whose decisions are shown."""


@dataclass(frozen=True)
class Point:
    """Where a workload, or a kernel, stands in a plot."""

    workload: str | None
    kernel: str | None
    x: float | None
    """``None`` in a plot of bars, which stand side by side under their names."""


@dataclass(frozen=True)
class Plot:
    """A figure over workloads that differ in a number, a line per kernel; or the other way.

    Where the points have no number they are bars, beside marks of what was published.
    """

    title: str
    figure: str
    """As in :class:`Metric`."""
    y_title: str
    x_title: str
    logarithmic: bool
    """Both axes are."""
    points: Sequence[Point]
    lines: Sequence[str]
    """If kernels are the points: workloads, a line each."""

    @property
    def bars(self) -> bool:
        """Whether points are names and not numbers."""
        return self.points[0].x is None


@dataclass(frozen=True)
class Use:
    """A picture of how many threads of each core are busy over time, under every kernel."""

    title: str
    workload: str
    until_s: float
    """It shows so much of the run, from its begin."""
    kernels: Sequence[str]
    """Of these kernels; of all by default."""


@dataclass(frozen=True)
class FreeParameter:
    """A number that calibration chooses."""

    target: str
    """As in :class:`Parameter`."""
    low: float
    high: float
    """Between these; both are more than 0, and steps are by factors."""
    whole: bool
    """It is a whole number."""


@dataclass(frozen=True)
class Target:
    """A published figure that calibration aims at."""

    workload: str
    figure: str
    kernel: str
    """The baseline, or one of the calibration's own kernels."""
    value: float
    unit: str
    tolerance: float
    """What counts as a miss by one, in the figure's unit."""
    source: str


@dataclass(frozen=True)
class Calibration:
    """How free parameters are fitted: to the baseline and to controls, never to a treatment."""

    iterations: int
    kernels: Sequence[KernelChoice]
    """Controls that were published besides, such as a kernel that uses one idle state alone."""
    parameters: Sequence[FreeParameter]
    targets: Sequence[Target]


@dataclass(frozen=True)
class Published:
    """The published figures."""

    file: str
    origin: str
    values: Mapping[tuple[str, str], Sequence[float]]
    """By benchmark and kernel, in the order of iterations."""


@dataclass(frozen=True)
class Study:
    """One baseline kernel, its treatments, and what is compared."""

    name: str
    title: str
    description: str
    source: str
    """Where it was published."""
    machines: Sequence[str]
    iterations: int
    small_iterations: int
    seed: int
    """The seed of iteration 0; each further iteration adds 1."""
    significance: float
    mean: Mean
    """Over iterations, of figures in the table, in plots and in calibration; changes are those of
    this mean."""
    baseline: KernelChoice
    treatments: Sequence[KernelChoice]
    cases: Sequence[Case]
    metrics: Sequence[Metric]
    parameters: Sequence[Parameter]
    controls: Sequence[Control]
    scenarios: Sequence[Scenario]
    plots: Sequence[Plot]
    uses: Sequence[Use]
    notes: Sequence[str]
    published: Published | None
    calibration: Calibration | None
    machines_place: str = field(default="", compare=False)
    """File and line that name the machines."""

    @property
    def kernels(self) -> list[KernelChoice]:
        """The baseline and then its treatments."""
        return [self.baseline, *self.treatments]

    def case(self, name: str) -> Case:
        """Give a workload by its name."""
        return next(case for case in self.cases if case.name == name)

    def only(self, workloads: Sequence[str]) -> Study:
        """Leave out all workloads but these, and what is about others."""
        return replace(
            self,
            cases=[case for case in self.cases if case.name in workloads],
            metrics=[metric for metric in self.metrics if metric.workload in workloads],
            scenarios=[],
            plots=[],
            uses=[],
        )

    def machines_of(self, case: Case) -> Sequence[str]:
        """List where a workload runs."""
        return case.machines or self.machines


@dataclass(frozen=True)
class Figure:
    """One number of one iteration."""

    machine: str
    workload: str
    figure: str
    unit: str
    kernel: str
    iteration: int
    value: float | None
    key: str
    """The run in the store that it comes from."""
    digest: str
    """That run's digest."""


@dataclass(frozen=True)
class Row:
    """A row of the study's table."""

    machine: str
    workload: str
    metric: str
    kernel: str
    unit: str
    mean: Mean
    """Which mean over iterations the figure is, simulated and published."""
    simulated: float | None
    """The mean over iterations; for a change, that of the paired differences, percent."""
    interval: Interval | None
    """Its confidence interval; ``None`` from a single iteration."""
    spread_pct: float | None
    """Standard deviation over iterations, percent of the mean."""
    published: float | None
    published_spread_pct: float | None
    expected: float | None
    """What the figure must be exactly, where the study says so from the kernel's own rules, or
    what change it must be near."""
    rule: str
    """What must hold; empty for a row without any claim."""
    tolerance: float | None
    """The number of that rule: percent of the published figure, points of a change, or the level
    of significance; 0 where it must be exact."""
    p: float | None
    """Of a change: paired t test of no difference."""
    p_corrected: float | None
    """That p corrected by Holm for the number of changes in the table."""
    verdict: Verdict | None
    """Of a change, by the corrected p."""
    ok: bool | None
    """Whether the rule holds; ``None`` where there is none."""


@dataclass(frozen=True)
class Explanation:
    """A task's placements under one kernel, with all candidates and their scores."""

    workload: str
    title: str
    kernel: str
    text: str


@dataclass(frozen=True)
class StudyResult:
    """What running a study yields."""

    study: Study
    small: bool
    rows: Sequence[Row]
    figures: Sequence[Figure]
    """Every figure of every iteration."""
    explanations: Sequence[Explanation]
    """Of the study's scenarios, in the first iteration."""
    simulated_runs: int
    """Runs that had to be simulated."""
    stored_runs: int
    """Runs that the store had already."""

    @property
    def misses(self) -> list[Row]:
        """Rows whose rule does not hold."""
        return [row for row in self.rows if row.ok is False]
