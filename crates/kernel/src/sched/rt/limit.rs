//! What is left for fair tasks while real-time ones would take everything: a limit on the run time
//! of real-time tasks, or a deadline server for the fair ones.

use super::super::{Class, Scheduler};
use crate::deadline::fair_server::Resched;
use crate::fair::TaskId;
use crate::hardware::Hardware;
use crate::rt::{Limit, RT_PERIOD_NS, RT_RUNTIME_NS};
use schedlab_machine::CpuId;

impl Scheduler {
    /// The kernel's timer that was armed on `cpu` fires.
    pub fn timer(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        if !self.rt.active {
            return;
        }
        self.update_clock(cpu, hardware);
        let now_ns = self.rqs[cpu.index()].clock.clock;
        let part = &mut self.rt.queues[cpu.index()];
        part.armed_ns = part.armed_ns.filter(|&armed_ns| armed_ns > now_ns);
        self.expire_dl(cpu, now_ns, hardware);
        let part = &mut self.rt.queues[cpu.index()];
        if self.config.rt.limit == Limit::FairServer {
            if part.server.timer_ns().is_some_and(|timer_ns| timer_ns <= now_ns) {
                let resched = part.server.expire(now_ns);
                self.follow_server(cpu, resched);
                self.tell(cpu, cpu, hardware);
            }
        } else if self.rt.period_end_ns.is_some_and(|(on, end_ns)| on == cpu && end_ns <= now_ns) {
            self.end_period(cpu, now_ns, hardware);
        }
        self.arm_timer(cpu, hardware);
    }

    /// Sees to it that the timer fires when it is due next.
    pub(in super::super) fn arm_timer(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        let tasks_ns = self.dl_timer_ns(cpu);
        let part = &mut self.rt.queues[cpu.index()];
        let period = self.rt.period_end_ns.filter(|(on, _)| *on == cpu).map(|(_, end_ns)| end_ns);
        let timers = [part.server.timer_ns(), period, tasks_ns];
        let Some(due_ns) = timers.into_iter().flatten().min() else { return };
        if part.armed_ns.is_none_or(|armed_ns| armed_ns > due_ns) {
            part.armed_ns = Some(due_ns);
            hardware.arm_timer(cpu, due_ns);
        }
    }

    /// Real-time tasks of `cpu` ran (`update_curr_rt()`): beyond their limit, they wait for the
    /// next period.
    pub(super) fn account_rt(&mut self, cpu: CpuId, ran_ns: u64) {
        if !matches!(self.config.rt.limit, Limit::Throttling | Limit::ThrottlingShared) {
            return;
        }
        self.rt.queues[cpu.index()].time_ns += ran_ns;
        if self.rt.queues[cpu.index()].throttled {
            return;
        }
        self.borrow_runtime(cpu);
        let part = &mut self.rt.queues[cpu.index()];
        if part.runtime_ns < RT_PERIOD_NS && part.time_ns > part.runtime_ns {
            part.throttled = true;
            self.rqs[cpu.index()].need_resched = true;
        }
    }

    /// A CPU whose real-time tasks need more borrows what others do not use
    /// (`do_balance_runtime()`).
    fn borrow_runtime(&mut self, cpu: CpuId) {
        let part = &self.rt.queues[cpu.index()];
        if self.config.rt.limit != Limit::ThrottlingShared || part.time_ns <= part.runtime_ns {
            return;
        }
        let cpus = self.rt.queues.len() as u64;
        let mut runtime_ns = part.runtime_ns;
        for (index, other) in self.rt.queues.iter_mut().enumerate() {
            if index == cpu.index() || other.runtime_ns <= other.time_ns {
                continue;
            }
            let spare_ns = (other.runtime_ns - other.time_ns) / cpus;
            let taken_ns = spare_ns.min(RT_PERIOD_NS - runtime_ns);
            other.runtime_ns -= taken_ns;
            runtime_ns += taken_ns;
            if runtime_ns == RT_PERIOD_NS {
                break;
            }
        }
        self.rt.queues[cpu.index()].runtime_ns = runtime_ns;
    }

    /// A period begins with the first real-time task (`start_rt_bandwidth()`).
    pub(super) fn start_period(&mut self, cpu: CpuId) {
        let limited = matches!(self.config.rt.limit, Limit::Throttling | Limit::ThrottlingShared);
        if limited && self.rt.period_end_ns.is_none() {
            let end_ns = self.rqs[cpu.index()].clock.clock + RT_PERIOD_NS;
            self.rt.period_end_ns = Some((cpu, end_ns));
        }
    }

    /// A period ends: what was used is paid off, and who was throttled may run again
    /// (`do_sched_rt_period_timer()`).
    fn end_period(&mut self, timer_cpu: CpuId, now_ns: u64, hardware: &mut impl Hardware) {
        let Some((_, end_ns)) = self.rt.period_end_ns else { return };
        let periods = 1 + (now_ns - end_ns) / RT_PERIOD_NS;
        let mut idle = true;
        for index in 0..self.rt.queues.len() {
            let cpu = CpuId(index as u32);
            let part = &mut self.rt.queues[index];
            if self.config.rt.limit == Limit::Throttling {
                part.runtime_ns = RT_RUNTIME_NS;
            }
            if part.time_ns == 0 && part.queue.nr_running() == 0 {
                continue;
            }
            if part.throttled {
                self.borrow_runtime(cpu);
            }
            let part = &mut self.rt.queues[index];
            part.time_ns = part.time_ns.saturating_sub(periods * part.runtime_ns);
            idle &= part.time_ns == 0 && part.queue.nr_running() == 0;
            if part.throttled && part.time_ns < part.runtime_ns {
                part.throttled = false;
                let runs = part.queue.nr_running() > 0;
                self.update_clock(cpu, hardware);
                self.publish(cpu);
                if runs {
                    self.rqs[index].need_resched = true;
                    self.tell(cpu, timer_cpu, hardware);
                }
            }
        }
        let next_ns = end_ns + periods * RT_PERIOD_NS;
        self.rt.period_end_ns = (!idle).then_some((timer_cpu, next_ns));
    }

    /// The first fair task comes to a CPU, which `idled` if nothing else was there.
    pub(in super::super) fn serve_fair(&mut self, cpu: CpuId, idled: bool) {
        if self.config.rt.limit != Limit::FairServer {
            return;
        }
        let clock = self.rqs[cpu.index()].clock;
        let part = &mut self.rt.queues[cpu.index()];
        if idled {
            let since_ns = std::mem::replace(&mut part.idle_from_ns, clock.clock_task);
            part.server.account_idle(clock.clock_task.saturating_sub(since_ns));
        }
        let resched = part.server.start(clock.clock);
        self.follow_server(cpu, resched);
    }

    /// Accounts to the server what the fair task that runs, or ran just now, used.
    pub(in super::super) fn account_fair(&mut self, cpu: CpuId, id: TaskId) {
        let total_ns = self.entities[id.index()].sum_exec_runtime_ns;
        let now_ns = self.rqs[cpu.index()].clock.clock;
        let part = &mut self.rt.queues[cpu.index()];
        let before_ns = std::mem::replace(&mut part.fair_seen_ns, total_ns);
        if self.config.rt.limit == Limit::FairServer {
            let resched = part.server.account(total_ns.saturating_sub(before_ns), now_ns);
            self.follow_server(cpu, resched);
        }
    }

    /// Another task gets the CPU: what a fair one used is accounted, and counting begins anew.
    pub(in super::super) fn account_switch(
        &mut self,
        cpu: CpuId,
        prev: Option<TaskId>,
        next: Option<TaskId>,
    ) {
        if let Some(prev) = prev.filter(|&prev| self.class(prev) == Class::Fair) {
            // That it should schedule changes nothing: it does.
            let before = self.rqs[cpu.index()].need_resched;
            self.account_fair(cpu, prev);
            self.rqs[cpu.index()].need_resched = before;
        }
        let clock_task = self.rqs[cpu.index()].clock.clock_task;
        let part = &mut self.rt.queues[cpu.index()];
        match next {
            Some(next) => part.fair_seen_ns = self.entities[next.index()].sum_exec_runtime_ns,
            None => part.idle_from_ns = clock_task,
        }
    }

    /// Fair tasks go first, but there is none.
    pub(in super::super) fn end_service(&mut self, cpu: CpuId) {
        self.rt.queues[cpu.index()].server.stop();
        self.follow_server(cpu, Resched::No);
    }

    /// A server that has its turn is above every real-time priority in the map.
    fn follow_server(&mut self, cpu: CpuId, resched: Resched) {
        self.note_deadlines(cpu);
        if resched == Resched::Yes {
            self.rqs[cpu.index()].need_resched = true;
        }
    }
}
