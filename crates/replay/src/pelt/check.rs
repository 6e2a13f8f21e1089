//! The rebuilt signals held against the kernel's own.

use schedlab_machine::{CpuId, Machine};
use schedlab_trace::{Event, EventKind, EventSource, PeltClass, Pid, TraceError};

use super::{Invariance, Rebuilt, Signals};
use std::cmp::Ordering;

/// Whose signal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SignalKind {
    /// A task's `util_avg`.
    Task,
    /// The fair class of a CPU.
    Fair,
    /// The real-time class of a CPU.
    RealTime,
    /// The deadline class of a CPU.
    Deadline,
}

impl SignalKind {
    /// All kinds, in the order in which tables list them.
    pub const ALL: [Self; 4] = [Self::Task, Self::Fair, Self::RealTime, Self::Deadline];

    /// The lower-case word that tables print.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Fair => "cpu_fair",
            Self::RealTime => "cpu_rt",
            Self::Deadline => "cpu_dl",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// The absolute errors of a signal, in units of 1024.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorDistribution {
    /// How many values had each error from 0 to 1024.
    counts: Vec<u64>,
    total: u64,
}

impl ErrorDistribution {
    const LARGEST: usize = 1024;

    fn add(&mut self, error: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; Self::LARGEST + 1];
        }
        let at = usize::try_from(error).map_or(Self::LARGEST, |error| error.min(Self::LARGEST));
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
        self.total += 1;
    }

    fn sum(&self) -> u64 {
        self.histogram().map(|(error, count)| error * count).sum()
    }

    /// Values compared.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The smallest error that at least `per_mille` of 1000 values do not exceed; 0 without
    /// values.
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let wanted = (self.total * per_mille).div_ceil(1000);
        let mut seen = 0;
        for (error, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return error as u64;
            }
        }
        0
    }

    /// The largest error.
    pub fn max(&self) -> u64 {
        self.counts.iter().rposition(|count| *count > 0).unwrap_or(0) as u64
    }

    /// How many values had each error that occurred.
    pub fn histogram(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counted =
            |(error, count): (usize, &u64)| (*count > 0).then_some((error as u64, *count));
        self.counts.iter().enumerate().filter_map(counted)
    }
}

/// One value of the kernel's and the rebuilt one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeltCheck {
    /// The kind of invariance that it was rebuilt with.
    pub invariance: Invariance,
    /// When, ns.
    pub timestamp_ns: u64,
    /// Which signal.
    pub kind: SignalKind,
    /// The task's or the CPU's number.
    pub id: i64,
    /// The kernel's `util_avg`.
    pub kernel: u64,
    /// The rebuilt one.
    pub rebuilt: u64,
    /// The history behind the rebuilt value is known; only such values are in the distribution.
    pub known: bool,
}

/// How far the rebuilt signals are from the kernel's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeltReport {
    /// The kind of invariance that the signals were rebuilt with.
    pub invariance: Invariance,
    errors: [ErrorDistribution; 4],
    unknown: [u64; 4],
}

impl PeltReport {
    /// The errors of one kind of signal.
    pub fn errors(&self, kind: SignalKind) -> &ErrorDistribution {
        &self.errors[kind.index()]
    }

    /// Values of the kernel that were not compared, as the history was not known.
    pub fn unknown(&self, kind: SignalKind) -> u64 {
        self.unknown[kind.index()]
    }

    /// The report whose values are nearer to the kernel's on average comes first.
    fn nearness(&self, other: &Self) -> Ordering {
        let total = |report: &Self| {
            let sums = report.errors.iter().map(|errors| (errors.sum(), errors.total));
            sums.fold((0u128, 0u128), |(sum, count), (more, values)| {
                (sum + u128::from(more), count + u128::from(values))
            })
        };
        let ((mine, my_count), (others, other_count)) = (total(self), total(other));
        (mine * other_count).cmp(&(others * my_count))
    }

    fn take(&mut self, check: &PeltCheck) {
        if check.known {
            self.errors[check.kind.index()].add(check.kernel.abs_diff(check.rebuilt));
        } else {
            self.unknown[check.kind.index()] += 1;
        }
    }
}

/// Rebuilds the signals of a trace and compares them with the kernel's wherever the trace has
/// them. Without a machine every CPU counts as one of capacity 1024 at full speed.
///
/// A trace does not tell which kind of invariance its kernel has, so without a word on it both are
/// tried and the nearer is reported. `observe` is handed every comparison, of both. `progress` is
/// told bytes done and bytes in all; where it answers no, reading ends there.
///
/// # Errors
/// What the reader says.
pub fn check_pelt(
    source: &mut dyn EventSource,
    machine: Option<&Machine>,
    invariance: Option<Invariance>,
    observe: &mut dyn FnMut(&PeltCheck),
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<PeltReport, TraceError> {
    let kinds = match invariance {
        Some(kind) => vec![kind],
        None => vec![Invariance::Clock, Invariance::Contribution],
    };
    let mut checkers: Vec<Checker> =
        kinds.into_iter().map(|kind| Checker::new(machine, kind)).collect();
    let mut batch = Vec::new();
    while source.read_batch(&mut batch)? {
        for event in batch.drain(..) {
            for checker in &mut checkers {
                checker.event(&event, observe);
            }
        }
        let (done, all) = source.progress_bytes();
        if !progress(done, all) {
            break;
        }
    }
    for checker in &mut checkers {
        checker.release(None, observe);
    }
    let reports = checkers.into_iter().map(|checker| checker.report);
    Ok(reports.min_by(PeltReport::nearness).unwrap_or_default())
}

/// A value of the kernel's.
#[derive(Clone, Copy)]
struct Told {
    recorded_on: CpuId,
    timestamp_ns: u64,
    /// Whose it is; for a task's value, where the task is.
    cpu: CpuId,
    kernel: u64,
    updated_ns: Option<u64>,
}

/// Is handed every comparison.
type Observer<'o> = dyn FnMut(&PeltCheck) + 'o;

struct Checker {
    signals: Signals,
    report: PeltReport,
    /// CPUs' values that wait for the next event of the CPU that recorded them.
    ///
    /// The kernel attaches a woken task, and traces the CPU's new value, before `sched_wakeup`, by
    /// which the rebuilt signals learn of it. So a value is compared only when the recording CPU's
    /// next event shows whether a wake-up belonged to it.
    held: Vec<(PeltClass, Told)>,
}

impl Checker {
    fn new(machine: Option<&Machine>, invariance: Invariance) -> Self {
        let signals = match machine {
            Some(machine) => Signals::of_machine(machine, invariance),
            None => Signals::new(&[], invariance),
        };
        let report = PeltReport { invariance, ..PeltReport::default() };
        Self { signals, report, held: Vec::new() }
    }

    fn event(&mut self, event: &Event, observe: &mut Observer<'_>) {
        let told = |cpu, util: u32, updated_ns| Told {
            recorded_on: event.cpu,
            timestamp_ns: event.timestamp_ns,
            cpu,
            kernel: u64::from(util),
            updated_ns: Some(updated_ns).filter(|time_ns| *time_ns != 0),
        };
        match event.kind {
            EventKind::PeltTask { pid, cpu, util, last_update_time_ns, .. } => {
                self.signals.event(event);
                self.task(pid, &told(cpu, util, last_update_time_ns), observe);
            }
            EventKind::PeltCpu { class, cpu, util, last_update_time_ns, .. } => {
                // An earlier value of the same wake-up is not the last word.
                self.held.retain(|(held, told)| told.cpu != cpu || *held != class);
                self.held.push((class, told(cpu, util, last_update_time_ns)));
            }
            // Recorded in the midst of a wake-up.
            EventKind::NrRunning { .. }
            | EventKind::UtilEstCpu { .. }
            | EventKind::UtilEstTask { .. } => {}
            EventKind::Wakeup { .. } | EventKind::WakeupNew { .. } => {
                self.signals.event(event);
                self.release(Some(event.cpu), observe);
            }
            _ => {
                self.release(Some(event.cpu), observe);
                self.signals.event(event);
            }
        }
    }

    fn task(&mut self, pid: Pid, told: &Told, observe: &mut Observer<'_>) {
        let rebuilt = self.signals.task_util(pid, told.updated_ns);
        let known = rebuilt.is_some_and(|rebuilt| rebuilt.known);
        let rebuilt = rebuilt.map_or(0, |rebuilt| rebuilt.util_avg);
        self.take(
            SignalKind::Task,
            i64::from(pid.0),
            told,
            Rebuilt { util_avg: rebuilt, known },
            observe,
        );
        if !known {
            self.signals.seed_task(pid, told.cpu, told.kernel, told.updated_ns);
        }
    }

    /// Compares the values held for a recording CPU, or for all.
    fn release(&mut self, recorded_on: Option<CpuId>, observe: &mut Observer<'_>) {
        let mut at = 0;
        while let Some((class, told)) = self.held.get(at).copied() {
            if recorded_on.is_some_and(|cpu| cpu != told.recorded_on) {
                at += 1;
                continue;
            }
            self.held.remove(at);
            self.cpu(class, &told, observe);
        }
    }

    fn cpu(&mut self, class: PeltClass, told: &Told, observe: &mut Observer<'_>) {
        let [fair, real_time, deadline] = self.signals.cpu_signals(told.cpu);
        let (kind, rebuilt) = match class {
            PeltClass::Fair => (SignalKind::Fair, fair),
            PeltClass::Rt => (SignalKind::RealTime, real_time),
            PeltClass::Deadline => (SignalKind::Deadline, deadline),
            PeltClass::Irq | PeltClass::Hardware => return,
        };
        self.take(kind, i64::from(told.cpu.0), told, rebuilt, observe);
        if !rebuilt.known {
            self.signals.seed_cpu(told.cpu, class, told.kernel, told.updated_ns);
        }
    }

    fn take(
        &mut self,
        kind: SignalKind,
        id: i64,
        told: &Told,
        rebuilt: Rebuilt,
        observe: &mut Observer<'_>,
    ) {
        let check = PeltCheck {
            invariance: self.report.invariance,
            timestamp_ns: told.timestamp_ns,
            kind,
            id,
            kernel: told.kernel,
            rebuilt: rebuilt.util_avg,
            known: rebuilt.known,
        };
        self.report.take(&check);
        observe(&check);
    }
}
