//! Checkers of patience: no task waits for its CPU for ever, and no kick for its answer.

use crate::engine::Engine;
use crate::observe::Observer;
use schedlab_kernel::fair::TaskId;
use schedlab_kernel::fair::queue::FairRules;
use schedlab_kernel::sched::{Scheduler, TaskState};
use schedlab_machine::CpuId;

/// How long a kicked CPU takes to answer at most, ns: it sleeps, or runs a kernel path.
const ANSWER_MAX_NS: u64 = 20_000_000;

/// How many times longer a task may wait than its queue takes to serve everybody once by weight: it
/// may have run ahead, and others may be owed time.
const ROUNDS_MAX: u128 = 4;

/// Time that interrupts and kernel paths may take in addition, ns.
const KERNEL_NS: u128 = 50_000_000;

/// What is known of those that wait.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    waits: Vec<Option<Wait>>,
    /// Since when each CPU is seen kicked, and how many kicks it had dealt with by then.
    kicked: Vec<Option<(u64, u64)>>,
}

/// A task that waits for its CPU.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since_ns: u64,
    /// How often it had got a CPU by then.
    switches: u64,
    /// The longest that a round took meanwhile.
    round_ns: u128,
    migrations: u64,
}

impl Patience {
    /// Looks at a run between two events.
    pub fn watch<O: Observer>(&mut self, engine: &Engine<'_, O>) -> Result<(), String> {
        let (scheduler, now_ns) = (engine.scheduler(), engine.now_ns());
        self.watch_kicks(scheduler, now_ns)?;
        let slices = longest_slices(scheduler);
        self.waits.resize(scheduler.tasks().len(), None);
        for index in 0..self.waits.len() {
            self.watch_task(scheduler, TaskId(index as u32), &slices, now_ns)?;
        }
        Ok(())
    }

    fn watch_kicks(&mut self, scheduler: &Scheduler, now_ns: u64) -> Result<(), String> {
        self.kicked.resize(scheduler.cpus().len(), None);
        for (index, kicked) in self.kicked.iter_mut().enumerate() {
            let cpu = CpuId(index as u32);
            let counts = scheduler.balance_counts(cpu);
            let dealt_with = counts.kicks_answered + counts.kicks_refused;
            let pending = scheduler.kick_pending(cpu);
            *kicked = kicked.filter(|&(_, before)| pending && before == dealt_with);
            if !pending {
                continue;
            }
            let (since_ns, _) = *kicked.get_or_insert((now_ns, dealt_with));
            if now_ns.saturating_sub(since_ns) > ANSWER_MAX_NS {
                return Err(format!("CPU {index} was kicked by {since_ns} ns and never answers"));
            }
        }
        Ok(())
    }

    fn watch_task(
        &mut self,
        scheduler: &Scheduler,
        id: TaskId,
        slices: &[u64],
        now_ns: u64,
    ) -> Result<(), String> {
        let (task, entity) = (scheduler.task(id), scheduler.entity(id));
        let wait = &mut self.waits[id.index()];
        let state = &scheduler.cpus()[task.cpu.index()];
        // Real-time tasks may keep fair ones waiting as long as they like.
        let waits = task.state == TaskState::Runnable
            && entity.on_rq
            && scheduler.current(task.cpu) != Some(id)
            && state.nr_running == state.h_nr_queued;
        if !waits {
            *wait = None;
            return Ok(());
        }
        let round_ns = round_ns(scheduler, id, slices[task.cpu.index()]);
        let now = Wait {
            since_ns: now_ns,
            switches: task.switches,
            round_ns,
            migrations: task.migrations,
        };
        let known = wait.get_or_insert(now);
        if known.switches != task.switches {
            *known = now;
        }
        known.round_ns = known.round_ns.max(round_ns);
        // Wherever it comes, it takes its place anew.
        let queues = u128::from(1 + task.migrations - known.migrations);
        let waited_ns = u128::from(now_ns.saturating_sub(known.since_ns));
        if waited_ns > queues * (ROUNDS_MAX * known.round_ns + KERNEL_NS) {
            return Err(format!(
                "task {} starves on CPU {} since {} ns: a round takes {} ns",
                id.0, task.cpu.0, known.since_ns, known.round_ns
            ));
        }
        Ok(())
    }
}

/// The longest slice of a task on each CPU's queue, ns.
fn longest_slices(scheduler: &Scheduler) -> Vec<u64> {
    let mut longest = vec![0; scheduler.cpus().len()];
    for index in 0..scheduler.tasks().len() {
        let id = TaskId(index as u32);
        let (cpu, entity) = (scheduler.task(id).cpu, scheduler.entity(id));
        if entity.on_rq {
            longest[cpu.index()] = entity.slice_ns.max(longest[cpu.index()]);
        }
    }
    longest
}

/// How long the queue of a task takes until this one had its share, ns: the period of all, and what
/// a tick is too late, in relation to its weight.
fn round_ns(scheduler: &Scheduler, id: TaskId, slice_ns: u64) -> u128 {
    let fair = &scheduler.run_queue(scheduler.task(id).cpu).fair;
    let tasks = u64::from(fair.nr_running());
    let period_ns = match scheduler.config().fair {
        FairRules::Cfs(cfs) => cfs.latency_ns.max(tasks * cfs.min_granularity_ns),
        FairRules::Eevdf(eevdf) => tasks * slice_ns.max(eevdf.base_slice_ns),
    };
    let period_ns = u128::from(period_ns + 3 * scheduler.config().tick_ns());
    let weight = u128::from(scheduler.entity(id).load.weight.max(1));
    period_ns * u128::from(fair.load_weight()).div_ceil(weight)
}
