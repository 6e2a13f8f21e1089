//! The records that cross the pipes, as `shim/bridge.h` lays them out.

use schedlab_kernel::cpuidle::{STATES_MAX, State};

/// `struct request`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request {
    pub kind: u32,
    pub cpu: u32,
    pub flags: u32,
    pub disabled: u32,
    pub now_ns: u64,
    pub sleep_ns: i64,
    pub delta_next_ns: i64,
    pub latency_req_ns: i64,
    pub cpu_util: u64,
    pub residency_ns: u64,
    pub nr_iowait: u32,
    pub index: i32,
}

pub(crate) const CPUS: u32 = 1;
pub(crate) const STATES: u32 = 2;
pub(crate) const START: u32 = 3;
pub(crate) const SELECT: u32 = 4;
pub(crate) const REFLECT: u32 = 5;
pub(crate) const REJECT: u32 = 6;
pub(crate) const RESTORE: u32 = 7;

pub(crate) const TICK_STOPPED: u32 = 1;
pub(crate) const GOT_TICK: u32 = 2;
pub(crate) const POLL_TIME_LIMIT: u32 = 4;
pub(crate) const SAVE: u32 = 8;

impl Request {
    pub fn new(kind: u32, cpu: u32) -> Self {
        Self { kind, cpu, ..Self::default() }
    }

    pub fn write(&self, to: &mut Vec<u8>) {
        for word in [self.kind, self.cpu, self.flags, self.disabled] {
            to.extend_from_slice(&word.to_ne_bytes());
        }
        to.extend_from_slice(&self.now_ns.to_ne_bytes());
        for word in [self.sleep_ns, self.delta_next_ns, self.latency_req_ns] {
            to.extend_from_slice(&word.to_ne_bytes());
        }
        for word in [self.cpu_util, self.residency_ns] {
            to.extend_from_slice(&word.to_ne_bytes());
        }
        to.extend_from_slice(&self.nr_iowait.to_ne_bytes());
        to.extend_from_slice(&self.index.to_ne_bytes());
    }
}

/// `CPUIDLE_FLAG_POLLING`.
const FLAG_POLLING: u32 = 1;

/// Writes `struct states_record`.
pub(crate) fn write_states(capacity: u64, states: &[State], to: &mut Vec<u8>) {
    let count = states.len().min(STATES_MAX);
    to.extend_from_slice(&capacity.to_ne_bytes());
    for word in [count as u32, 0] {
        to.extend_from_slice(&word.to_ne_bytes());
    }
    for index in 0..STATES_MAX {
        let state = states.get(index).copied().unwrap_or_default();
        to.extend_from_slice(&state.exit_latency_ns.to_ne_bytes());
        to.extend_from_slice(&state.target_residency_ns.to_ne_bytes());
        let flags = if state.polling { FLAG_POLLING } else { 0 };
        for word in [flags, 0] {
            to.extend_from_slice(&word.to_ne_bytes());
        }
    }
}

/// A bit for each disabled state.
pub(crate) fn disabled(states: &[State]) -> u32 {
    let bit = |(index, state): (usize, &State)| u32::from(state.disabled) << index;
    states.iter().take(STATES_MAX).enumerate().map(bit).sum()
}

pub(crate) const ANSWER_BYTES: usize = 32;
pub(crate) const TEXT_BYTES: usize = 168;

pub(crate) const READY: u32 = 1;
pub(crate) const CHOICE: u32 = 2;
pub(crate) const END: u32 = 3;

pub(crate) const END_SIGNAL: i32 = 1;
pub(crate) const END_BUG: i32 = 2;
pub(crate) const END_TOO_LONG: i32 = 3;
pub(crate) const END_NO_GOVERNOR: i32 = 4;
pub(crate) const END_INIT_FAILED: i32 = 5;
pub(crate) const END_ENABLE_FAILED: i32 = 6;

/// `struct answer`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub kind: u32,
    /// The chosen state, or why the program ends.
    pub index: i32,
    /// Whether the tick stops, or what the reason's detail is.
    pub stop_tick: u32,
    pub cpu: u32,
    /// The limit of a poll, or the address of a crash.
    pub poll_limit_ns: u64,
    /// The kind of the request that was being served.
    pub call: u32,
}

impl Answer {
    pub fn read(bytes: &[u8; ANSWER_BYTES]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_ne_bytes(word)
        };
        let mut limit = [0; 8];
        limit.copy_from_slice(&bytes[16..24]);
        Self {
            kind: word(0),
            index: word(4) as i32,
            stop_tick: word(8),
            cpu: word(12),
            poll_limit_ns: u64::from_ne_bytes(limit),
            call: word(24),
        }
    }
}
