//! Placement decisions with what led to them: what `--explain` shows.

use crate::fair::TaskId;
use crate::fair::energy::EnergyCandidate;
use crate::fair::group::{GroupStats, GroupType};
use crate::fair::slow_path::{CpuRule, GroupChoice, GroupRule, IdlestTie};
use crate::fair::view::CpuState;
use crate::fair::wake::WakeRule;
use schedlab_machine::CpuId;
use std::fmt;

/// Why a task goes the slow path of placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// It is new (`WF_FORK`).
    Fork,
    /// It calls exec (`WF_EXEC`).
    Exec,
}

/// A CPU that a wake-up weighed, as it saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeCandidate {
    /// Which.
    pub cpu: CpuId,
    /// Its run queue.
    pub state: CpuState,
}

/// One decision with what led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Fork or exec placement.
    Slow {
        /// The task.
        task: TaskId,
        /// Why it is placed.
        occasion: Occasion,
        /// From where.
        from_cpu: CpuId,
        /// Every choice between groups, from the widest domain down.
        choices: Vec<GroupChoice>,
        /// The chosen CPU.
        cpu: CpuId,
    },
    /// Wake-up placement.
    Wake {
        /// The task.
        task: TaskId,
        /// Where it slept.
        prev_cpu: CpuId,
        /// Where it was woken from.
        waker_cpu: CpuId,
        /// What `wake_affine()` answered, if asked.
        affine: Option<CpuId>,
        /// The waker's CPU, the previous one, the recently used one and the chosen one, without
        /// repetition.
        candidates: Vec<WakeCandidate>,
        /// The step of the search that decided.
        rule: WakeRule,
        /// The chosen CPU.
        cpu: CpuId,
    },
    /// Wake-up placement by energy.
    Energy {
        /// The task.
        task: TaskId,
        /// Where it slept.
        prev_cpu: CpuId,
        /// Where it was woken from.
        waker_cpu: CpuId,
        /// The CPUs whose energy was computed, in the order in which the kernel looked at them.
        candidates: Vec<EnergyCandidate>,
        /// Nothing was weighed.
        early: bool,
        /// The chosen CPU.
        cpu: CpuId,
    },
    /// Placement of a real-time task that wakes or is new.
    RealTime {
        /// The task.
        task: TaskId,
        /// Where it was.
        prev_cpu: CpuId,
        /// It would have to wait there.
        waits: bool,
        /// The CPU that runs the least urgent task, if it was looked for and is below the task.
        lowest: Option<CpuId>,
        /// The chosen CPU.
        cpu: CpuId,
    },
    /// Placement of a deadline task that wakes.
    Deadline {
        /// The task.
        task: TaskId,
        /// Where it was.
        prev_cpu: CpuId,
        /// It would have to wait there, or the CPU is too small.
        waits: bool,
        /// The CPU that can wait longest, if it was looked for and is there.
        later: Option<CpuId>,
        /// The chosen CPU.
        cpu: CpuId,
    },
}

impl Decision {
    /// The task that was placed.
    pub fn task(&self) -> TaskId {
        match *self {
            Decision::Slow { task, .. }
            | Decision::Wake { task, .. }
            | Decision::Energy { task, .. }
            | Decision::RealTime { task, .. }
            | Decision::Deadline { task, .. } => task,
        }
    }

    /// Where it was placed.
    pub fn cpu(&self) -> CpuId {
        match *self {
            Decision::Slow { cpu, .. }
            | Decision::Wake { cpu, .. }
            | Decision::Energy { cpu, .. }
            | Decision::RealTime { cpu, .. }
            | Decision::Deadline { cpu, .. } => cpu,
        }
    }

    /// `fork`, `exec` or `wake`; `real-time` for a real-time task that wakes or is new, `deadline`
    /// for a deadline task that wakes.
    pub fn occasion(&self) -> &'static str {
        match self {
            Decision::Slow { occasion: Occasion::Fork, .. } => "fork",
            Decision::Slow { occasion: Occasion::Exec, .. } => "exec",
            Decision::Wake { .. } | Decision::Energy { .. } => "wake",
            Decision::RealTime { .. } => "real-time",
            Decision::Deadline { .. } => "deadline",
        }
    }

    /// What decided, in a few words: for the slow path, its last choice that left a group.
    pub fn reason(&self) -> String {
        match self {
            Decision::Wake { rule, .. } => rule.to_string(),
            Decision::Energy { early: true, .. } => "nothing to weigh".to_owned(),
            Decision::Energy { candidates, .. } if candidates.is_empty() => {
                "energy: it fits nowhere, so it stays".to_owned()
            }
            Decision::Energy { prev_cpu, cpu, .. } if prev_cpu == cpu => {
                "energy: no CPU is cheaper".to_owned()
            }
            Decision::Energy { cpu, candidates, .. } => {
                let delta = |cpu: &CpuId| {
                    candidates.iter().find(|one| one.cpu == *cpu).map(|one| one.delta)
                };
                let cheaper = delta(cpu) <= candidates.iter().map(|one| one.delta).min();
                if cheaper { "least energy" } else { "energy: it fits better" }.to_owned()
            }
            Decision::RealTime { waits: false, prev_cpu, cpu, .. } if prev_cpu != cpu => {
                "a CPU that is big enough".to_owned()
            }
            Decision::RealTime { waits: false, .. } => "nothing to wait for there".to_owned(),
            Decision::RealTime { lowest: None, .. } => "no CPU runs less urgent tasks".to_owned(),
            Decision::RealTime { prev_cpu, cpu, .. } if prev_cpu == cpu => {
                "the CPU of lowest priority is no better".to_owned()
            }
            Decision::RealTime { .. } => "the CPU of lowest priority".to_owned(),
            Decision::Deadline { waits: false, .. } => "nothing to wait for there".to_owned(),
            Decision::Deadline { later: None, .. } => "no CPU has a later deadline".to_owned(),
            Decision::Deadline { prev_cpu, cpu, .. } if prev_cpu == cpu => {
                "the CPU of the latest deadline is no better".to_owned()
            }
            Decision::Deadline { .. } => "the CPU of the latest deadline".to_owned(),
            Decision::Slow { choices, .. } => {
                let left = choices.iter().rev().find(|choice| choice.chosen.is_some());
                left.or(choices.last()).map_or_else(
                    || "no domain balances at this occasion".to_owned(),
                    GroupChoice::reason,
                )
            }
        }
    }
}

impl GroupChoice {
    /// What decided, in a few words.
    pub fn reason(&self) -> String {
        let verb = if self.chosen.is_some() { "leaves by" } else { "stays by" };
        let mut text = format!("{verb} {}", self.rule);
        if self.chosen.is_some()
            && let Some(tie) = self.tie
        {
            text += match tie {
                IdlestTie::First => ", tie by ring order",
                IdlestTie::GroupUtil => ", tie by group_util",
            };
        }
        if let Some((cpu, rule)) = self.picked
            && rule != CpuRule::Only
        {
            text += &format!(", CPU {} by {rule}", cpu.0);
        }
        text
    }
}

impl fmt::Display for GroupRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GroupRule::NoOther => "having no other group",
            GroupRule::LocalForbidden => "affinity",
            GroupRule::Type => "group type",
            GroupRule::Load => "avg_load",
            GroupRule::Capacity => "max_capacity",
            GroupRule::PreferredNode => "preferred node",
            GroupRule::NumaAllowance => "NUMA allowance",
            GroupRule::IdleCpus => "idle_cpus",
            GroupRule::Stays => "group type, which is never left",
            GroupRule::LeastRoom => "having room, but least",
        })
    }
}

impl fmt::Display for CpuRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CpuRule::Only => "being the only one",
            CpuRule::IdlePolicy => "running SCHED_IDLE tasks only",
            CpuRule::ExitLatency => "exit latency",
            CpuRule::LatestIdle => "latest idle_stamp",
            CpuRule::Load => "load",
            CpuRule::SmallTask => "having room for a small task",
        })
    }
}

impl fmt::Display for WakeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WakeRule::WakersCpu => "the waker insists on its CPU",
            WakeRule::TargetFree => "the target is free",
            WakeRule::PreviousFree => "the previous CPU is free",
            WakeRule::KernelThreadHandsOver => "a kernel thread hands its CPU over",
            WakeRule::RecentlyUsed => "the recently used CPU is free",
            WakeRule::Capacity => "capacity",
            WakeRule::SameCore => "a thread of the core is free",
            WakeRule::IdleCore => "idle core",
            WakeRule::FreeCpu => "free CPU",
            WakeRule::OtherCluster => "free CPU outside the cluster",
            WakeRule::NothingFree => "nothing is free",
            WakeRule::Packed => "tasks are packed",
        })
    }
}

impl GroupType {
    /// The kernel's name without its prefix, such as `has_spare`.
    pub const fn name(self) -> &'static str {
        match self {
            GroupType::HasSpare => "has_spare",
            GroupType::FullyBusy => "fully_busy",
            GroupType::MisfitTask => "misfit_task",
            GroupType::SmtBalance => "smt_balance",
            GroupType::AsymPacking => "asym_packing",
            GroupType::Imbalanced => "imbalanced",
            GroupType::Overloaded => "overloaded",
        }
    }
}

/// The scores of a group, in the kernel's words.
fn scores(stats: &GroupStats, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "{} idle_cpus={} nr_running={} group_util={} group_load={} spare_capacity={}",
        stats.group_type.name(),
        stats.idle_cpus,
        stats.sum_nr_running,
        stats.util,
        stats.load,
        stats.capacity.saturating_sub(stats.util),
    )?;
    match stats.group_type {
        GroupType::FullyBusy | GroupType::Overloaded => write!(f, " avg_load={}", stats.avg_load),
        _ => Ok(()),
    }
}

/// What kernels looked at that knew no types of groups.
fn loads(stats: &GroupStats, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let GroupStats { avg_load, load, capacity, sum_nr_running, .. } = stats;
    write!(
        f,
        "avg_load={avg_load} group_load={load} cpu_power={capacity} nr_running={sum_nr_running}"
    )
}

/// What packing looked at.
fn room(stats: &GroupStats, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let GroupStats { util, capacity, sum_nr_running, .. } = stats;
    let left = *capacity as i64 - *util as i64;
    write!(f, "group_util={util} of {capacity} left={left} nr_running={sum_nr_running}")
}

/// The decision in full: a line of result and reason, then its candidates, one a line.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decision::Slow { task, from_cpu, choices, cpu, .. } => {
                let (task, occasion) = (task.0, self.occasion());
                write!(f, "{occasion} of task {task} from CPU {}: CPU {}", from_cpu.0, cpu.0)?;
                for choice in choices {
                    write!(f, "\n  domain {} of CPU {}: ", choice.level, choice.from.0)?;
                    write!(f, "{}", choice.reason())?;
                    for candidate in &choice.candidates {
                        let first = candidate.first_cpu;
                        let mark = match (choice.chosen == Some(first), candidate.local) {
                            (true, _) => "chosen",
                            (false, true) => "local",
                            (false, false) => "",
                        };
                        write!(f, "\n    group of CPU {:<4} {mark:<6} ", first.0)?;
                        if choice.rule == GroupRule::LeastRoom {
                            room(&candidate.stats, f)?;
                        } else if candidate.by_load {
                            loads(&candidate.stats, f)?;
                        } else {
                            scores(&candidate.stats, f)?;
                        }
                    }
                }
                Ok(())
            }
            Decision::RealTime { task, prev_cpu, cpu, .. } => {
                let (task, prev) = (task.0, prev_cpu.0);
                write!(f, "real-time task {task}, was on CPU {prev}: CPU {}, ", cpu.0)?;
                f.write_str(&self.reason())
            }
            Decision::Deadline { task, prev_cpu, cpu, .. } => {
                let (task, prev) = (task.0, prev_cpu.0);
                write!(f, "deadline task {task}, was on CPU {prev}: CPU {}, ", cpu.0)?;
                f.write_str(&self.reason())
            }
            Decision::Energy { task, prev_cpu, waker_cpu, candidates, cpu, .. } => {
                write!(
                    f,
                    "wake of task {} from CPU {}, slept on CPU {}: CPU {}, {}",
                    task.0,
                    waker_cpu.0,
                    prev_cpu.0,
                    cpu.0,
                    self.reason()
                )?;
                for one in candidates {
                    let EnergyCandidate { cpu, base_energy, delta, spare_capacity, .. } = one;
                    let minimum = if one.fits_minimum { "" } else { ", but not its uclamp_min" };
                    write!(
                        f,
                        "\n    CPU {:<4} energy {base_energy} + {delta}, \
                         spare_capacity={spare_capacity}{minimum}",
                        cpu.0,
                    )?;
                }
                Ok(())
            }
            Decision::Wake { task, prev_cpu, waker_cpu, affine, candidates, rule, cpu } => {
                write!(
                    f,
                    "wake of task {} from CPU {}, slept on CPU {}: CPU {}, {rule}",
                    task.0, waker_cpu.0, prev_cpu.0, cpu.0
                )?;
                if let Some(affine) = affine {
                    write!(f, "; wake_affine chose CPU {}", affine.0)?;
                }
                for WakeCandidate { cpu, state } in candidates {
                    let free = if state.is_available() { "free" } else { "busy" };
                    write!(
                        f,
                        "\n    CPU {:<4} {free} nr_running={} load={} util={} spare_capacity={}",
                        cpu.0,
                        state.nr_running,
                        state.load,
                        state.util,
                        state.capacity.saturating_sub(state.util),
                    )?;
                }
                Ok(())
            }
        }
    }
}
