//! What goes on beside a benchmark on a server that is otherwise idle: daemons that wake now and then.

use super::in_range;
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{Amount, Op};

/// How many there are and what they do; none by default. Pauses and work vary exponentially.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Daemons {
    /// Tasks.
    pub count: u32,
    /// Pause between two wake-ups of one, ms.
    pub period_ms: u64,
    /// Computation of one, us.
    pub work_us: u64,
}

impl Daemons {
    /// Adds them to a workload.
    ///
    /// # Errors
    /// Names the option that cannot be, and its mend.
    pub fn spawn(&self, name: &str, build: &mut Builder, cpus: u32) -> Result<(), WorkloadError> {
        in_range(name, "daemons", u64::from(self.count), (0, 10_000))?;
        in_range(name, "daemon_period_ms", self.period_ms, (1, 1_000_000))?;
        in_range(name, "daemon_work_us", self.work_us, (1, 1_000_000))?;
        if self.count == 0 {
            return Ok(());
        }
        let program = build.program("daemon", |code| {
            code.forever(|turn| {
                turn.op(Op::Sleep(Amount::Exponential { mean: self.period_ms * 1_000_000 }));
                turn.op(Op::Run(Amount::Exponential { mean: self.work_us * 1_000 }));
            });
        });
        // They have been around for long, so they are all over the machine.
        for daemon in 0..self.count {
            let cpu = u64::from(daemon) * u64::from(cpus.max(1)) / u64::from(self.count);
            build.spawn(program, cpu as u32, 0);
        }
        Ok(())
    }
}
