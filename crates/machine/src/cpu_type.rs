//! What a kind of core can do: capacity, operating points, idle states.

/// An operating point (`struct em_perf_state` and the OPP behind it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opp {
    /// Frequency, kHz.
    pub khz: u32,
    /// Supply voltage, microvolts, where known.
    pub uv: Option<u32>,
    /// Power of one core that runs one busy thread, microwatts.
    pub power_uw: u64,
}

/// An idle state as the hardware has it and as the kernel's governors see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// The driver's name for it (`POLL`, `C6`, `WFI`).
    pub name: String,
    /// Worst-case time to enter it, ns. A wake-up that arrives meanwhile waits for the entry.
    pub entry_latency_ns: u64,
    /// Worst-case time to leave it, ns.
    pub exit_latency_ns: u64,
    /// `cpuidle_state.exit_latency_ns`: what a governor takes for the latency. Device-tree
    /// drivers add entry and exit (`drivers/cpuidle/dt_idle_states.c`); ACPI and intel_idle
    /// tables give the exit alone.
    pub governor_exit_latency_ns: u64,
    /// `cpuidle_state.target_residency_ns`: the shortest sleep for which the state pays.
    pub target_residency_ns: u64,
    /// Power of a core all of whose threads are in this state or deeper, microwatts.
    pub power_uw: u64,
    /// The same by the power of the core when it is busy at the present operating point, in
    /// thousandths, where the state's power follows that; `power_uw` is then what it is where the
    /// operating point is not known.
    pub power_of_busy_permille: Option<u32>,
    /// Energy of one entry and exit beyond the state's own power, nanojoules.
    pub transition_energy_nj: u64,
    /// A busy loop (`CPUIDLE_FLAG_POLLING`).
    pub polling: bool,
    /// The CPU's own timer stops, and a broadcast timer wakes it (`CPUIDLE_FLAG_TIMER_STOP`); see
    /// [`BroadcastIrq`](crate::BroadcastIrq).
    pub local_timer_stop: bool,
    /// Switched off by the driver or the user (`CPUIDLE_FLAG_OFF`, sysfs `disable`).
    pub disabled: bool,
    /// The driver refuses to enter the state while an interrupt is pending, which the kernel counts
    /// as `rejected`. Otherwise the processor returns at once.
    pub rejects_pending: bool,
}

impl IdleState {
    /// Power of a core in this state that would draw `busy_uw` if it were busy, microwatts.
    #[inline]
    pub fn power_at_uw(&self, busy_uw: u64) -> u64 {
        match self.power_of_busy_permille {
            Some(permille) => busy_uw * u64::from(permille) / 1000,
            None => self.power_uw,
        }
    }
}

/// A kind of core. Symmetric machines have one, big.LITTLE two or three.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuType {
    /// What people call it.
    pub name: String,
    /// `arch_scale_cpu_capacity()`: 1024 for the fastest CPU of the machine at its fastest.
    pub capacity: u32,
    /// Operating points, slow first; at least one.
    pub opps: Vec<Opp>,
    /// Idle states, shallow first; at least one.
    pub idle_states: Vec<IdleState>,
    /// Time that a change of frequency takes, ns (`cpuinfo_transition_latency`).
    pub transition_latency_ns: u64,
    /// The highest frequency that heat allows, kHz, if that is less than the fastest.
    pub thermal_limit_khz: Option<u32>,
}

impl CpuType {
    /// The fastest operating point.
    #[inline]
    pub fn max_opp(&self) -> Opp {
        self.opps[self.opps.len() - 1]
    }

    /// The slowest operating point of at least `khz`, or the fastest (`em_pd_get_efficient_state()`
    /// without inefficient states).
    #[inline]
    pub fn opp_at(&self, khz: u32) -> Opp {
        let index = self.opps.partition_point(|opp| opp.khz < khz);
        self.opps[index.min(self.opps.len() - 1)]
    }

    /// Power of one core with one busy thread at `khz`, microwatts: the point itself, or the
    /// straight line between its neighbours; beyond the ends the end's.
    pub fn busy_power_uw(&self, khz: u32) -> u64 {
        let above = self.opps.partition_point(|opp| opp.khz < khz);
        let Some(high) = self.opps.get(above) else { return self.max_opp().power_uw };
        if above == 0 || high.khz == khz {
            return high.power_uw;
        }
        let low = self.opps[above - 1];
        let share =
            i128::from(khz - low.khz) * (i128::from(high.power_uw) - i128::from(low.power_uw));
        (i128::from(low.power_uw) + share / i128::from(high.khz - low.khz)) as u64
    }

    /// Power in idle state `state`, microwatts; a number beyond the table is the deepest state.
    #[inline]
    pub fn idle_power_uw(&self, state: usize) -> u64 {
        self.idle_states[state.min(self.idle_states.len() - 1)].power_uw
    }

    /// Power in idle state `state` of a core that would draw `busy_uw` if it were busy, microwatts; a
    /// number beyond the table is the deepest state.
    #[inline]
    pub fn idle_power_at_uw(&self, state: usize, busy_uw: u64) -> u64 {
        self.idle_states[state.min(self.idle_states.len() - 1)].power_at_uw(busy_uw)
    }

    /// Capacity at `khz`, out of 1024 (`capacity * khz / max_khz`).
    #[inline]
    pub fn capacity_at(&self, khz: u32) -> u32 {
        (u64::from(self.capacity) * u64::from(khz) / u64::from(self.max_opp().khz)) as u32
    }
}
