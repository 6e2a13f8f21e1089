//! What the kernel counts of each CPU and idle state: the files of
//! `/sys/devices/system/cpu/cpuN/cpuidle/stateM/` (`cpuidle_enter_state()`,
//! `drivers/cpuidle/cpuidle.c` of Linux 6.12).

use schedlab_machine::{IdleState, Verdict, verdict};

/// One CPU's counters of one idle state, by their names in sysfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleCounts {
    /// How often it was entered.
    pub usage: u64,
    /// Time in it, ns, from before its entry until after its exit, as the kernel measures it.
    pub time_ns: u64,
    /// Sleeps too short for it, where a shallower state was to be had: too deep.
    pub above: u64,
    /// Sleeps long enough for a deeper one: too shallow.
    pub below: u64,
    /// Entries that the driver refused.
    pub rejected: u64,
}

impl IdleCounts {
    /// Takes a sleep in, and gives the kernel's verdict on it. `entered`, whose counts these are, is
    /// the state among `states`, `duration_ns` what the kernel measured.
    pub(crate) fn count(
        &mut self,
        states: &[IdleState],
        entered: u32,
        duration_ns: u64,
    ) -> Verdict {
        self.usage += 1;
        self.time_ns += duration_ns;
        let verdict = verdict(states, entered as usize, duration_ns).unwrap_or(Verdict::Fits);
        self.above += u64::from(verdict == Verdict::TooDeep);
        self.below += u64::from(verdict == Verdict::TooShallow);
        verdict
    }
}

/// One CPU's sleeps in one idle state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sleeps {
    /// Time in it, ns.
    pub idle_ns: u64,
    /// What the kernel counts.
    pub counts: IdleCounts,
}
