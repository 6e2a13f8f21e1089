//! From what tasks did to a recording.

use super::costs::Calibration;
use super::extract::{Causes, ExtractError, Extraction, GivenPolicy, Request, TaskFacts};
use super::follow::Follower;
use super::stream::Stream;
use super::track::{Birth, Did, Kind, Sleep, State, Track};
use rustc_hash::FxHashMap;
use schedlab_machine::{CpuId, CpuSet};
use schedlab_trace::Strings;
use schedlab_workload::program::{Attributes, Policy};
use schedlab_workload::recorded::{RecordedInterrupt, RecordedTask, Recording, Start, Step};

/// Ticks of a run before the trace's first event, in which tasks get to where the trace finds them.
const LEAD_TICKS: u64 = 5;

/// Expiries this close to a grid are on it.
const GRID_NS: u64 = 1_000;

/// Fewer timers tell nothing of a grid.
const GRID_TIMERS: usize = 3;

/// Kernel priorities below this are real-time (`MAX_RT_PRIO`).
const MAX_RT_PRIO: i32 = 100;

/// Nice 0.
const DEFAULT_PRIO: i32 = 120;

/// How long the last sleep of a task lasts that the trace leaves asleep: longer than any run of
/// the recording.
const LAST_SLEEP_NS: u64 = 3_600_000_000_000;

pub(super) fn finish(
    follower: Follower<'_>,
    strings: &Strings,
    request: &Request<'_>,
    calibration: Calibration,
) -> Result<Extraction, ExtractError> {
    let begin_ns = follower.begin_ns.ok_or(ExtractError::NoTask)?;
    let tick_ns = request.tick_ns;
    // Ticks of the run come when the traced ones came.
    let base_ns = (begin_ns / tick_ns * tick_ns) as i64 - (LEAD_TICKS * tick_ns) as i64;
    let numbers = numbers(&follower.tracks);
    if numbers.iter().all(Option::is_none) {
        return Err(ExtractError::NoTask);
    }
    let mut translation = Translation {
        base_ns,
        switch_ns: follower.path_costs().context_switch_ns,
        lead_ns: follower.path_costs().wakeup_ns
            + follower.path_costs().context_switch_ns
            + follower.path_costs().idle_resched_ns
            + follower.path_costs().irq_ns,
        numbers: &numbers,
        causes: Causes::default(),
    };
    let mut recording = Recording::default();
    let mut facts = Vec::new();
    let mut seen: FxHashMap<String, u32> = FxHashMap::default();
    for (track, number) in follower.tracks.iter().zip(&numbers) {
        if number.is_none() {
            continue;
        }
        let comm = strings.get(track.comm);
        let (steps, absolute) = translation.steps(track);
        let count = seen.entry(comm.to_owned()).or_default();
        *count += 1;
        facts.push(TaskFacts {
            pid: track.pid,
            run_ns: track.run_ns,
            charged_ns: track.charged_ns,
            excess_ns: track.work_ns.min(0).unsigned_abs(),
            steps: steps.len() as u64,
            wakeups: track.wakeups,
            real_time: track.prio < MAX_RT_PRIO,
            absolute,
        });
        recording.tasks.push(RecordedTask {
            name: unique(comm, *count),
            comm: comm.to_owned(),
            attributes: attributes(track, comm, request),
            cpu: track.first_cpu.map_or(0, |cpu| cpu.0),
            start: match track.birth {
                Birth::Before => Start::Asleep,
                Birth::Forked => Start::Forked,
                Birth::At(at_ns) => Start::At(translation.time(at_ns)),
            },
            steps,
        });
    }
    for interrupt in &follower.arrivals {
        let Some(interrupt) = translation.interrupt(interrupt) else { continue };
        translation.causes.outside += u64::from(interrupt.wakes.is_some());
        recording.interrupts.push(interrupt);
    }
    let brought = follower.brought.iter().filter_map(|one| translation.interrupt(one));
    recording.brought.extend(brought);
    Ok(Extraction {
        recording,
        facts,
        calibration,
        base_ns,
        span_ns: (begin_ns, follower.end_ns),
        causes: translation.causes,
        turns: follower.stream.as_ref().map_or(0, Stream::turns),
        late: follower.late,
        late_ns: follower.late_ns,
        interrupts: follower.interrupts,
        interrupted_ns: follower.interrupted_ns,
    })
}

/// The number in the recording of each task that did something, and is the workload's.
fn numbers(tracks: &[Track]) -> Vec<Option<u32>> {
    let mut next = 0;
    let number = |track: &Track| {
        let did = track.did.iter().any(|did| *did != Did::Nothing);
        let forked = track.birth == Birth::Forked;
        if track.kind == Kind::Stopper || !(did || forked) {
            return None;
        }
        next += 1;
        Some(next - 1)
    };
    tracks.iter().map(number).collect()
}

/// A name that no other task of the file has.
fn unique(comm: &str, count: u32) -> String {
    let word: String = comm.chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect();
    let word = if word.is_empty() { "task".to_owned() } else { word };
    if count == 1 { word } else { format!("{word}#{count}") }
}

fn attributes(track: &Track, comm: &str, request: &Request<'_>) -> Attributes {
    let nice = if track.prio < MAX_RT_PRIO { 0 } else { track.prio - DEFAULT_PRIO };
    let given = request.given.iter().filter(|given| given.comm == comm);
    let mut attributes = Attributes {
        nice: nice.clamp(-20, 19),
        policy: real_time(track.prio).map_or(Policy::Normal, Policy::Fifo),
        affinity: per_cpu(comm, track.only_cpu).map(CpuSet::of),
        ..Attributes::default()
    };
    let fair = track.born_prio.is_some_and(|prio| prio >= MAX_RT_PRIO);
    attributes.born_fair =
        fair && track.birth == Birth::Forked && attributes.policy.priority().is_some();
    attributes.follows_interrupts = track.kind == Kind::Softirqd;
    for given in given {
        attributes.policy = match (given.policy, attributes.policy.priority()) {
            (Some(GivenPolicy::Batch), _) => Policy::Batch,
            (Some(GivenPolicy::Idle), _) => Policy::Idle,
            (Some(GivenPolicy::RoundRobin), Some(priority)) => Policy::RoundRobin(priority),
            _ => attributes.policy,
        };
        attributes.affinity = given.cpus.or(attributes.affinity);
    }
    attributes
}

/// The real-time priority that a kernel priority stands for.
fn real_time(prio: i32) -> Option<u8> {
    let priority = u8::try_from(MAX_RT_PRIO - 1 - prio).ok()?;
    (priority > 0).then(|| priority.min(99))
}

/// The CPU of a kernel thread that is bound to one, such as `kworker/3:1` or `ksoftirqd/3`.
fn per_cpu(comm: &str, only: Option<CpuId>) -> Option<CpuId> {
    let (_, rest) = comm.split_once('/')?;
    let digits = rest.split(':').next()?;
    let cpu: u32 = digits.parse().ok()?;
    only.filter(|only| only.0 == cpu)
}

struct Translation<'a> {
    base_ns: i64,
    switch_ns: u64,
    /// From a timer's expiry to the switch.
    lead_ns: u64,
    numbers: &'a [Option<u32>],
    causes: Causes,
}

impl Translation<'_> {
    /// A time of the trace in the run.
    fn time(&self, at_ns: u64) -> u64 {
        u64::try_from(at_ns as i64 - self.base_ns).unwrap_or(0)
    }

    /// An interrupt of the trace in the run, unless it woke a task that is not there.
    fn interrupt(&self, interrupt: &RecordedInterrupt) -> Option<RecordedInterrupt> {
        let wakes = interrupt.wakes.map(|place| self.numbers[place as usize]);
        if wakes == Some(None) {
            return None;
        }
        let at_ns = self.time(interrupt.at_ns);
        Some(RecordedInterrupt { at_ns, wakes: wakes.flatten(), ..*interrupt })
    }

    fn steps(&mut self, track: &Track) -> (Vec<Step>, Option<bool>) {
        let sleeps = track.did.iter().filter_map(|did| match did {
            Did::Timer(sleep) => Some(sleep.soft_ns),
            _ => None,
        });
        let absolute = on_grid(&sleeps.collect::<Vec<_>>());
        let mut steps = Vec::with_capacity(track.did.len() + 2);
        if let Some(at_ns) = track.ran_first_ns {
            let soft_ns = self.time(at_ns.saturating_sub(self.lead_ns));
            steps.push(Step::Until { soft_ns, slack_ns: 0 });
        }
        for did in &track.did {
            let number = |place: u32| self.numbers[place as usize];
            let step = match *did {
                Did::Run(work_ns) => Some(Step::Run(work_ns)),
                Did::Timer(sleep) => {
                    self.causes.timer += 1;
                    // Who sleeps too seldom to tell most likely counts from there.
                    Some(self.sleep(sleep, absolute == Some(true) || steps.is_empty()))
                }
                Did::Device(time_ns) => {
                    self.causes.device += 1;
                    let ns = (time_ns + self.switch_ns).max(1);
                    Some(Step::Sleep { ns, slack_ns: 0 })
                }
                Did::Late(time_ns) => (time_ns > 0).then_some(Step::Late(time_ns)),
                Did::Brought(place) => {
                    let task = number(place);
                    self.causes.outside += u64::from(task.is_some());
                    task.map(Step::Brings)
                }
                Did::Await => Some(Step::Await),
                Did::Wake(place) => {
                    let task = number(place);
                    self.causes.task += u64::from(task.is_some());
                    task.map(Step::Wake)
                }
                Did::Fork(place) => number(place).map(Step::Fork),
                Did::Exec => Some(Step::Exec),
                Did::Nothing => None,
            };
            match (step, steps.last_mut()) {
                (Some(Step::Run(more)), Some(Step::Run(work_ns))) => *work_ns += more,
                (Some(step), _) => steps.push(step),
                (None, _) => {}
            }
        }
        if track.state != State::Dead {
            steps.push(Step::Sleep { ns: LAST_SLEEP_NS, slack_ns: 0 });
        }
        (steps, absolute)
    }

    fn sleep(&self, sleep: Sleep, absolute: bool) -> Step {
        let slack_ns = sleep.hard_ns.saturating_sub(sleep.soft_ns);
        if absolute {
            return Step::Until { soft_ns: self.time(sleep.soft_ns), slack_ns };
        }
        // The run's sleep begins before the switch.
        let began_ns = sleep.left_ns.saturating_sub(self.switch_ns);
        let ns = sleep.soft_ns.saturating_sub(began_ns).max(1);
        Step::Sleep { ns, slack_ns }
    }
}

/// Whether expiries stand on a grid: half of them, and more than one, are equally far from the one
/// before.
fn on_grid(expiries_ns: &[u64]) -> Option<bool> {
    if expiries_ns.len() < GRID_TIMERS {
        return None;
    }
    let mut gaps: Vec<u64> = expiries_ns.windows(2).map(|pair| pair[1].abs_diff(pair[0])).collect();
    gaps.sort_unstable();
    let (mut most, mut first) = (0, 0);
    for (last, gap) in gaps.iter().enumerate() {
        while gap - gaps[first] > GRID_NS {
            first += 1;
        }
        most = most.max(last - first + 1);
    }
    Some(most > 1 && 2 * most >= gaps.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periodic_timers_stand_on_a_grid_and_sleeps_after_work_do_not() {
        assert_eq!(on_grid(&[1, 2]), None);
        let period: Vec<u64> = (0..20).map(|i| 7_000_000 * i + i % 3).collect();
        assert_eq!(on_grid(&period), Some(true));
        let drifts: Vec<u64> = (0..20).map(|i| 7_000_000 * i + 40_000 * i * i).collect();
        assert_eq!(on_grid(&drifts), Some(false));
        // One distance is like itself.
        assert_eq!(on_grid(&[1_000_000, 90_000_000, 90_040_000]), Some(false));
    }

    #[test]
    fn kernel_threads_of_one_cpu_are_bound_to_it() {
        assert_eq!(per_cpu("kworker/3:1", Some(CpuId(3))), Some(CpuId(3)));
        assert_eq!(per_cpu("ksoftirqd/12", Some(CpuId(12))), Some(CpuId(12)));
        assert_eq!(per_cpu("kworker/u16:0", Some(CpuId(3))), None);
        assert_eq!(per_cpu("kworker/3:1", None), None);
        assert_eq!(per_cpu("bash", Some(CpuId(0))), None);
    }
}
