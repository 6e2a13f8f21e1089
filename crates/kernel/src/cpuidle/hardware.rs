//! Stand-ins for the hardware that a governor asks: fixed answers, and a recorder of questions.

use std::cell::Cell;

use super::{IdleHardware, KTIME_MAX, LATENCY_UNLIMITED_NS, SleepLength};

/// Hardware with fixed answers, for examples, tests and notebooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedHardware {
    /// `local_clock()`, ns.
    pub now_ns: u64,
    /// Time to the next event with the tick left aside, ns.
    pub sleep_ns: i64,
    /// Time to the next event, tick included, ns.
    pub delta_next_ns: i64,
    /// The CPU's latency limit, ns.
    pub latency_req_ns: i64,
    /// The tick is stopped.
    pub tick_stopped: bool,
    /// The tick ended the sleep.
    pub got_tick: bool,
    /// Tasks of this CPU that wait for I/O.
    pub nr_iowait: u32,
    /// The CPU's utilization, out of its capacity.
    pub cpu_util: u64,
    /// The last poll ended by its time limit.
    pub poll_time_limit: bool,
}

impl Default for FixedHardware {
    /// No timer, no latency limit, a running tick and an unused CPU.
    fn default() -> Self {
        Self {
            now_ns: 0,
            sleep_ns: KTIME_MAX,
            delta_next_ns: KTIME_MAX,
            latency_req_ns: LATENCY_UNLIMITED_NS,
            tick_stopped: false,
            got_tick: false,
            nr_iowait: 0,
            cpu_util: 0,
            poll_time_limit: false,
        }
    }
}

impl IdleHardware for FixedHardware {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn sleep_length(&mut self) -> SleepLength {
        SleepLength { sleep_ns: self.sleep_ns, delta_next_ns: self.delta_next_ns }
    }

    fn latency_req_ns(&self) -> i64 {
        self.latency_req_ns
    }

    fn tick_stopped(&self) -> bool {
        self.tick_stopped
    }

    fn got_tick(&self) -> bool {
        self.got_tick
    }

    fn nr_iowait(&self) -> u32 {
        self.nr_iowait
    }

    fn cpu_util(&self) -> u64 {
        self.cpu_util
    }

    fn poll_time_limit(&self) -> bool {
        self.poll_time_limit
    }
}

/// What a governor asked for, and what it was told; `None` where it did not ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// `local_clock()`, ns.
    pub now_ns: Option<u64>,
    /// Time to the next events, ns.
    pub sleep_length: Option<SleepLength>,
    /// The CPU's latency limit, ns.
    pub latency_req_ns: Option<i64>,
    /// The tick was stopped.
    pub tick_stopped: Option<bool>,
    /// The tick ended the sleep.
    pub got_tick: Option<bool>,
    /// Tasks of this CPU that wait for I/O.
    pub nr_iowait: Option<u32>,
    /// The CPU's utilization, out of its capacity.
    pub cpu_util: Option<u64>,
    /// The last poll ended by its time limit.
    pub poll_time_limit: Option<bool>,
}

/// Passes a governor's questions on and remembers the answers, to explain a decision by what went
/// into it.
///
/// ```
/// use schedlab_kernel::cpuidle::{
///     AnyGovernor, FixedHardware, Governor, GovernorKind, Recorder, State,
/// };
/// let states = [State::default(), State { target_residency_ns: 20_000, ..State::default() }];
/// let mut governor = AnyGovernor::new(GovernorKind::TeoUtilV6, 4_000_000, 1024);
/// let mut hardware = FixedHardware { cpu_util: 17, ..FixedHardware::default() };
/// let mut recorder = Recorder::new(&mut hardware);
/// governor.select(&states, &mut recorder);
/// assert_eq!(recorder.inputs().cpu_util, Some(17));
/// assert_eq!(recorder.inputs().nr_iowait, None);
/// ```
pub struct Recorder<'a> {
    hardware: &'a mut dyn IdleHardware,
    inputs: Cell<Inputs>,
}

impl<'a> Recorder<'a> {
    /// A recorder before `hardware`.
    pub fn new(hardware: &'a mut dyn IdleHardware) -> Self {
        Self { hardware, inputs: Cell::default() }
    }

    /// What was asked since the start; the last answer where a question came twice.
    pub fn inputs(&self) -> Inputs {
        self.inputs.get()
    }

    fn note<T: Copy>(&self, value: T, slot: impl FnOnce(&mut Inputs) -> &mut Option<T>) -> T {
        let mut inputs = self.inputs.get();
        *slot(&mut inputs) = Some(value);
        self.inputs.set(inputs);
        value
    }
}

impl IdleHardware for Recorder<'_> {
    fn now_ns(&self) -> u64 {
        self.note(self.hardware.now_ns(), |inputs| &mut inputs.now_ns)
    }

    fn sleep_length(&mut self) -> SleepLength {
        let value = self.hardware.sleep_length();
        self.note(value, |inputs| &mut inputs.sleep_length)
    }

    fn latency_req_ns(&self) -> i64 {
        self.note(self.hardware.latency_req_ns(), |inputs| &mut inputs.latency_req_ns)
    }

    fn tick_stopped(&self) -> bool {
        self.note(self.hardware.tick_stopped(), |inputs| &mut inputs.tick_stopped)
    }

    fn got_tick(&self) -> bool {
        self.note(self.hardware.got_tick(), |inputs| &mut inputs.got_tick)
    }

    fn nr_iowait(&self) -> u32 {
        self.note(self.hardware.nr_iowait(), |inputs| &mut inputs.nr_iowait)
    }

    fn cpu_util(&self) -> u64 {
        self.note(self.hardware.cpu_util(), |inputs| &mut inputs.cpu_util)
    }

    fn poll_time_limit(&self) -> bool {
        self.note(self.hardware.poll_time_limit(), |inputs| &mut inputs.poll_time_limit)
    }
}
