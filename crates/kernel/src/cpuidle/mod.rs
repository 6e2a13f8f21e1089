//! CPU idle governors: which idle state a CPU enters, and whether its tick stops.
//!
//! A governor serves one CPU. The idle loop asks it for a state, enters that state and tells it how
//! the sleep went; what the governor wants to know in between it asks of [`IdleHardware`], which a
//! simulator, a replayed trace or a test provides. [`AnyGovernor`] is every governor behind one
//! type, chosen by [`GovernorKind`]; a user's own comes as an [`OwnKind`].
//!
//! ```
//! use schedlab_kernel::cpuidle::{AnyGovernor, FixedHardware, Governor, GovernorKind, State};
//!
//! let states = [
//!     State { exit_latency_ns: 1_000, target_residency_ns: 1_000, ..State::default() },
//!     State { exit_latency_ns: 455_000, target_residency_ns: 3_500_000, ..State::default() },
//! ];
//! let kind: GovernorKind = "menu-6.12".parse().unwrap();
//! let mut governor = AnyGovernor::new(kind, 4_000_000, 1024);
//!
//! // The next timer is 50 ms away: deep sleep, without the tick.
//! let mut hardware = FixedHardware { sleep_ns: 50_000_000, ..FixedHardware::default() };
//! let choice = governor.select(&states, &mut hardware);
//! assert_eq!((choice.index, choice.stop_tick), (1, true));
//! // Something woke the CPU after 20 us; the governor learns from it.
//! governor.reflect(&states, choice.index, 20_000, &mut hardware);
//! ```

mod any;
mod haltpoll;
mod hardware;
mod idleutil;
mod kind;
mod ladder;
mod menu;
mod own;
mod teo;
mod why;

pub use any::{AnyGovernor, Config, Detail, GovernorParameters};
pub use haltpoll::{Haltpoll, HaltpollParameters};
pub use hardware::{FixedHardware, Inputs, Recorder};
pub use idleutil::Idleutil;
pub use kind::{GovernorKind, UnknownGovernor};
pub use ladder::Ladder;
pub use menu::{Menu, MenuRelease};
pub use own::{Candidate, Checkpoint, OwnGovernor, OwnKind, Served};
pub use teo::{Bin, Teo6_1, Teo6_12, Utilization};

/// The most states a governor looks at (`CPUIDLE_STATE_MAX`); deeper ones are never chosen.
pub const STATES_MAX: usize = 10;

/// The latency limit that stands for none (`cpuidle_governor_latency_req()` of
/// `PM_QOS_RESUME_LATENCY_NO_CONSTRAINT`), ns.
pub const LATENCY_UNLIMITED_NS: i64 = i32::MAX as i64 * 1_000;

/// The residency below which a state is cheap enough to skip looking for the next timer
/// (`RESIDENCY_THRESHOLD_NS`, `drivers/cpuidle/governors/gov.h` of 6.12), ns.
const RESIDENCY_THRESHOLD_NS: i64 = 15_000;

/// `KTIME_MAX`: a timer that never comes, ns.
const KTIME_MAX: i64 = i64::MAX;

/// An idle state as a governor sees it (`struct cpuidle_state` and its `states_usage`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Worst-case exit latency, ns; device-tree drivers add the entry latency to it.
    pub exit_latency_ns: u64,
    /// The shortest sleep, entry included, for which the state pays, ns.
    pub target_residency_ns: u64,
    /// A busy loop (`CPUIDLE_FLAG_POLLING`).
    pub polling: bool,
    /// Switched off by the user or the driver.
    pub disabled: bool,
}

impl State {
    /// The exit latency as the kernel's type, for comparisons that are signed there.
    #[inline]
    fn latency(&self) -> i64 {
        self.exit_latency_ns as i64
    }

    /// The target residency as the kernel's type, for comparisons that are signed there.
    #[inline]
    fn residency(&self) -> i64 {
        self.target_residency_ns as i64
    }
}

/// The states a governor looks at; a driver cannot register more than [`STATES_MAX`].
#[inline]
fn visible(states: &[State]) -> &[State] {
    states.get(..STATES_MAX).unwrap_or(states)
}

/// The nearest enabled state above `index` that `duration_ns` pays for, or else the shallowest
/// enabled one; `index` itself if there is none. Polling states are passed over on request
/// (`teo_find_shallower_state()`; menu has the same loop).
#[inline]
fn shallower(states: &[State], index: usize, duration_ns: i64, no_poll: bool) -> usize {
    let mut found = index;
    for (candidate, state) in states.iter().enumerate().take(index).rev() {
        if state.disabled || (no_poll && state.polling) {
            continue;
        }
        found = candidate;
        if state.residency() <= duration_ns {
            break;
        }
    }
    found
}

/// What `tick_nohz_get_sleep_length()` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepLength {
    /// Time to the next event with the tick left aside, ns; may be negative.
    pub sleep_ns: i64,
    /// Time to the next event, tick included (`*delta_next`), ns; may be negative.
    pub delta_next_ns: i64,
}

/// What a governor may ask of the CPU it serves.
pub trait IdleHardware {
    /// `local_clock()`, ns.
    fn now_ns(&self) -> u64;
    /// `tick_nohz_get_sleep_length()`. Governors ask only when they need it, as the kernel's do.
    fn sleep_length(&mut self) -> SleepLength;
    /// `tick_nohz_get_next_hrtimer()`-independent latency limit: `cpuidle_governor_latency_req()`, ns.
    fn latency_req_ns(&self) -> i64;
    /// `tick_nohz_tick_stopped()`.
    fn tick_stopped(&self) -> bool;
    /// `tick_nohz_idle_got_tick()`: the wake-up that just happened was the tick. Asked at reflect.
    fn got_tick(&self) -> bool;
    /// `nr_iowait_cpu()`.
    fn nr_iowait(&self) -> u32;
    /// `sched_cpu_util()`, 0 to the CPU's capacity.
    fn cpu_util(&self) -> u64;
    /// `dev->poll_time_limit`: the last poll ended by its time limit. Asked at reflect, after a
    /// polling state only; the governor keeps the flag from then on, as the kernel's device does.
    fn poll_time_limit(&self) -> bool;
}

/// A governor's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Index of the chosen state.
    pub index: usize,
    /// The tick should be stopped (`*stop_tick`, preset to true by the idle loop).
    pub stop_tick: bool,
}

/// An idle governor of one CPU.
pub trait Governor {
    /// Chooses a state for the sleep that begins now (`->select()`).
    fn select(&mut self, states: &[State], hardware: &mut dyn IdleHardware) -> Choice;
    /// Learns how the last sleep went (`->reflect()`): the state that was really entered and
    /// `dev->last_residency_ns`. Not called for an entry that the driver rejected.
    fn reflect(
        &mut self,
        states: &[State],
        index: usize,
        last_residency_ns: i64,
        hardware: &mut dyn IdleHardware,
    );
    /// Takes note, instead of [`Governor::reflect`], that the driver refused to enter the chosen
    /// state: `dev->last_residency_ns` is then 0.
    fn reject(&mut self);
}
