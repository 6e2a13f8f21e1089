//! What a run yields, once it has ended.

use crate::cpu::Doing;
use crate::engine::Engine;
use crate::observe::Observer;
use crate::outcome::{CpuTimes, Ending, Outcome, TaskSummary};
use schedlab_kernel::fair::TaskId;
use schedlab_kernel::sched::BalanceCounts;
use schedlab_machine::CpuId;

impl<O: Observer> Engine<'_, O> {
    /// What a run yields that ended as [`Engine::advance`] told, with the same `duration_ns`.
    pub fn finish(mut self, ending: Ending, duration_ns: u64) -> Outcome<O> {
        let end_ns = match ending {
            Ending::TimeUp => duration_ns,
            _ => self.platform.clock_ns,
        };
        self.count_streams(end_ns);
        let figures = self.figures.finish(&self.workload.metrics, end_ns);
        let cpus = self.platform.cpus.iter_mut().enumerate().map(|(index, cpu)| {
            // It is on its way down, or waits for what it shares, when the end comes.
            cpu.sleeps[cpu.last_state as usize].idle_ns -= cpu.woke_ns.saturating_sub(end_ns);
            if let Some(since_ns) = cpu.busy_since_ns {
                cpu.busy_ns += end_ns.saturating_sub(since_ns);
            }
            if let Doing::Idle { since_ns, state } = cpu.doing {
                cpu.sleeps[state as usize].idle_ns += end_ns.saturating_sub(since_ns);
                if self.sched.nr_iowait(CpuId(index as u32)) > 0 {
                    cpu.iowait_ns += end_ns.saturating_sub(since_ns);
                }
                // A kernel path that the end cut short counts up to the end.
                cpu.busy_ns -= since_ns.saturating_sub(end_ns.max(cpu.woke_ns));
            }
            CpuTimes {
                busy_ns: cpu.busy_ns,
                iowait_ns: cpu.iowait_ns,
                irq_ns: cpu.irq_ns,
                softirq_ns: cpu.softirq_ns,
                idle_ns: cpu.sleeps.iter().map(|sleeps| sleeps.idle_ns).collect(),
                idle_counts: cpu.sleeps.iter().map(|sleeps| sleeps.counts).collect(),
                ticks: cpu.ticks,
                idle_ticks: cpu.idle_ticks,
                ipis: cpu.ipis,
                ipis_reschedule: cpu.ipis_for[0],
                ipis_kick: cpu.ipis_for[1],
                ipis_timer: cpu.ipis_for[2],
                broadcasts: cpu.broadcasts,
                balance: BalanceCounts::default(),
            }
        });
        let mut cpus: Vec<CpuTimes> = cpus.collect();
        for (index, cpu) in cpus.iter_mut().enumerate() {
            cpu.balance = self.sched.balance_counts(CpuId(index as u32));
        }
        let tasks = self.sched.tasks().iter().enumerate().map(|(index, task)| TaskSummary {
            comm: self.strings.get(self.platform.comms[index]).to_owned(),
            policy: {
                let program = self.progress[index].program;
                self.workload.programs[program.0 as usize].attributes.policy
            },
            program: self.progress[index].program,
            runtime_ns: self.sched.entity(TaskId(index as u32)).sum_exec_runtime_ns,
            user_ns: self.progress[index].user_ns,
            switches: task.switches,
            migrations: task.migrations,
            cpu: task.cpu,
        });
        let decisions = self.platform.decisions.take().unwrap_or_default();
        Outcome {
            ending,
            end_ns,
            events: self.platform.events,
            operations: self.operations,
            expiries: self.expiries,
            digest: self.platform.digest.value(),
            figures,
            cpus,
            tasks: tasks.collect(),
            task_names: crate::record::task_names(&self.platform.comms),
            packages: self.platform.energy.packages(self.platform.machine, end_ns),
            energy: self.platform.energy.read(self.platform.machine, end_ns),
            groups: self.platform.energy.groups(self.platform.machine, end_ns),
            frequencies: self.platform.frequencies.finish(end_ns),
            decisions: decisions.kept,
            decisions_left_out: decisions.left_out,
            c2c: self.platform.coherence.and_then(|coherence| coherence.report()),
            strings: self.strings,
            observer: self.platform.observer,
        }
    }
}
