//! What must hold between any two steps of the scheduler, as a check that tests run.

use super::{Class, Scheduler, TaskState};
use crate::fair::TaskId;
use crate::fair::census::Census;
use crate::fair::entity::FairPolicy;
use crate::fair::queue::{FairQueue, FairRules};
use crate::fair::sums::CpuSums;
use schedlab_machine::CpuId;

impl Scheduler {
    /// Checks that every task is in one place, where it may be, that queues count what they hold,
    /// and that lags keep their bounds.
    ///
    /// # Errors
    /// The first thing that does not hold, in one line.
    pub fn verify(&self) -> Result<(), String> {
        let mut places = vec![0_u32; self.tasks.len()];
        for index in 0..self.rqs.len() {
            self.verify_queue(CpuId(index as u32), &mut places)?;
            self.verify_rt_queue(CpuId(index as u32), &mut places)?;
            self.verify_dl_queue(CpuId(index as u32), &mut places)?;
        }
        self.verify_rt()?;
        self.verify_dl()?;
        self.verify_sums()?;
        self.verify_idle_balancing()?;
        for (index, &places) in places.iter().enumerate() {
            self.verify_task(TaskId(index as u32), places)?;
        }
        Ok(())
    }

    fn verify_queue(&self, cpu: CpuId, places: &mut [u32]) -> Result<(), String> {
        let rq = &self.rqs[cpu.index()];
        let wrong = |what: String| Err(format!("run queue of CPU {}: {what}", cpu.0));
        let (mut weight, mut delayed, mut idle_policy, mut util_est) = (0, 0, 0, 0);
        for &id in &rq.tasks {
            let (task, entity) = (&self.tasks[id.index()], &self.entities[id.index()]);
            places[id.index()] += 1;
            if task.cpu != cpu || !entity.on_rq {
                return wrong(format!("task {} is on CPU {}", id.0, task.cpu.0));
            }
            if !self.allowed(id).contains(cpu) {
                return wrong(format!("task {} may not run here", id.0));
            }
            weight += entity.load.weight;
            delayed += u32::from(entity.sched_delayed);
            idle_policy += u32::from(entity.policy == FairPolicy::Idle);
            util_est += if entity.sched_delayed { 0 } else { task.util_est() };
        }
        let fair = &rq.fair;
        let counted =
            (fair.nr_running(), fair.load_weight(), fair.nr_delayed(), fair.nr_idle_policy());
        let found = (rq.tasks.len() as u32, weight, delayed, idle_policy);
        if counted != found {
            return wrong(format!("it counts {counted:?}, but holds {found:?}"));
        }
        if rq.util_est != util_est {
            return wrong(format!("util_est is {}, of its tasks {util_est}", rq.util_est));
        }
        if rq.curr.filter(|&curr| self.class(curr) == Class::Fair) != fair.curr() {
            return wrong(format!("{:?} runs, but {:?} is picked", rq.curr, fair.curr()));
        }
        if let Some(curr) = rq.curr
            && (self.tasks[curr.index()].cpu != cpu || !self.allowed(curr).contains(cpu))
        {
            return wrong(format!("task {} runs here, but belongs elsewhere", curr.0));
        }
        let waiting = match fair {
            FairQueue::Cfs(queue) => queue.waiting().count(),
            FairQueue::Eevdf(queue) => queue.waiting().count(),
        };
        let running = rq.curr.is_some_and(|curr| self.entities[curr.index()].on_rq);
        if waiting + usize::from(running) != rq.tasks.len() {
            return wrong(format!("{waiting} wait, of {} queued", rq.tasks.len()));
        }
        for &id in &rq.wake_list {
            places[id.index()] += 1;
            if self.tasks[id.index()].cpu != cpu || self.is_queued(id) {
                return wrong(format!("task {} wakes here, but is elsewhere", id.0));
            }
        }
        let view = &self.cpus[cpu.index()];
        let seen = (view.nr_running, view.util, view.load, view.ttwu_pending, view.curr_is_idle);
        let is = (
            self.nr_running(cpu),
            rq.avg.util_avg,
            rq.avg.load_avg,
            !rq.wake_list.is_empty(),
            rq.curr.is_none() && !rq.stopper_ran,
        );
        if seen != is {
            return wrong(format!("others see {seen:?}, but it is {is:?}"));
        }
        Ok(())
    }

    fn verify_sums(&self) -> Result<(), String> {
        // As balancing would find them.
        let (mut census, mut sums) = (self.census.clone(), self.sums.clone());
        for cpu in &self.stale {
            census.recount(cpu, &self.cpus[cpu.index()]);
            sums.update(cpu, &self.cpus[cpu.index()]);
        }
        if census != Census::of(&self.domains, &self.cpus) {
            return Err("the sets of idle and busy CPUs are not those of their states".to_owned());
        }
        if !sums.kept() {
            return Ok(());
        }
        for (index, domain) in self.domains.domains.iter().enumerate() {
            let Some(kept) = sums.known(&self.domains, index as u32) else { continue };
            let mut found = CpuSums::default();
            for cpu in &domain.span {
                found.add(&CpuSums::of(&self.cpus[cpu.index()]));
            }
            if *kept != found {
                return Err(format!("domain {index}: sums are {kept:?}, of CPUs {found:?}"));
            }
        }
        Ok(())
    }

    fn verify_task(&self, id: TaskId, places: u32) -> Result<(), String> {
        let (task, entity) = (&self.tasks[id.index()], &self.entities[id.index()]);
        let queued = self.is_queued(id);
        let right = match task.state {
            TaskState::New | TaskState::Dead => places == 0 && !queued,
            TaskState::Runnable => places == 1 && !entity.sched_delayed,
            TaskState::Blocked => places == u32::from(queued) && entity.sched_delayed == queued,
        };
        if !right {
            return Err(format!(
                "task {} is {:?}, queued: {queued}, delayed: {}, in {places} places",
                id.0, task.state, entity.sched_delayed
            ));
        }
        if let FairRules::Eevdf(tunables) = self.config.fair
            && !queued
        {
            let span_ns = tunables.tick_ns.max(2 * entity.slice_ns);
            let bound = entity.load.virtual_time(span_ns) as i64;
            if entity.vlag.abs() > bound {
                return Err(format!("task {} has lag {}, beyond {bound}", id.0, entity.vlag));
            }
        }
        Ok(())
    }
}
