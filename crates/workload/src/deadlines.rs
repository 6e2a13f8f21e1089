//! Refuses deadline tasks that the kernel would refuse (`__checkparam_dl()`,
//! `__sched_setscheduler()`, `sched_fork()` in kernel/sched/syscalls.c and core.c, Linux 6.12).

use crate::error::WorkloadError;
use crate::program::{Op, Policy, Program, Workload};
use schedlab_machine::Machine;

/// The shortest run time that can be reserved, ns (`DL_SCALE`).
const RUNTIME_NS_MIN: u64 = 1 << 10;

/// The shortest and the longest period, ns (`sysctl_sched_dl_period_min`, `_max`).
const PERIOD_NS: (u64, u64) = (100_000, (1 << 22) * 1_000);

impl Program {
    /// What its tasks reserve, as the kernel would take it.
    fn check_reservation(&self) -> Result<(), String> {
        let Policy::Deadline { runtime_ns, deadline_ns, period_ns } = self.attributes.policy else {
            return Ok(());
        };
        let comm = &self.comm;
        if runtime_ns < RUNTIME_NS_MIN || runtime_ns > deadline_ns || deadline_ns > period_ns {
            return Err(format!(
                "program {comm} reserves {runtime_ns} ns by {deadline_ns} ns in every {period_ns} \
                 ns; run time, deadline and period go up in this order, from {RUNTIME_NS_MIN} ns"
            ));
        }
        if !(PERIOD_NS.0..=PERIOD_NS.1).contains(&period_ns) {
            let (low, high) = PERIOD_NS;
            return Err(format!(
                "program {comm} has a deadline period of {period_ns} ns, which is not in {low} to \
                 {high}"
            ));
        }
        if self.ops.iter().any(|op| matches!(op, Op::SetAffinity { .. })) {
            return Err(format!(
                "program {comm} changes its CPUs, which the kernel refuses deadline tasks"
            ));
        }
        if self.ops.iter().any(|op| matches!(op, Op::Fork { .. })) {
            return Err(format!(
                "program {comm} creates tasks, which the kernel refuses deadline tasks; have \
                 another one do so"
            ));
        }
        Ok(())
    }
}

impl Workload {
    /// Checks deadline tasks as far as that does not depend on the machine.
    pub(crate) fn check_deadlines(&self) -> Result<(), WorkloadError> {
        let whole = |what: String| WorkloadError::whole(&self.name, what);
        for program in &self.programs {
            program.check_reservation().map_err(whole)?;
        }
        for (program, count) in self.programs.iter().zip(self.tasks_created()) {
            if count.is_none() && matches!(program.attributes.policy, Policy::Deadline { .. }) {
                return Err(whole(format!(
                    "program {} has deadline tasks of which more and more are created, so that \
                     what they reserve is not known in advance; create them outside endless loops",
                    program.comm
                )));
            }
        }
        Ok(())
    }

    /// Checks that deadline tasks may use every CPU: the kernel has no other ones.
    pub(crate) fn check_deadlines_on(&self, machine: &Machine) -> Result<(), WorkloadError> {
        for program in &self.programs {
            let attributes = &program.attributes;
            let bound = |allowed| !(*machine.cpus() - allowed).is_empty();
            if !matches!(attributes.policy, Policy::Deadline { .. })
                || !attributes.affinity.is_some_and(bound)
            {
                continue;
            }
            let what = format!(
                "program {} binds deadline tasks to some CPUs, which the kernel refuses; let them \
                 use all",
                program.comm
            );
            return Err(match &attributes.affinity_from {
                Some((path, line)) => WorkloadError::line(path, *line, what),
                None => WorkloadError::whole(&self.name, what),
            });
        }
        Ok(())
    }

    /// What deadline tasks reserve: how many reserve how much run time in which period, ns.
    pub fn reservations(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let counted = self.programs.iter().zip(self.tasks_created());
        counted.filter_map(|(program, count)| match program.attributes.policy {
            Policy::Deadline { runtime_ns, period_ns, .. } => Some((count?, runtime_ns, period_ns)),
            _ => None,
        })
    }
}
