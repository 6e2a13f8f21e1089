//! What is assumed where a source is silent. Every figure here is an estimate, and every import
//! that uses one says so in the comments of its file.

use super::survey::{Architecture, FoundOpp, FoundState};
use crate::{IdleState, Opp, SmtCurve};

/// Power of a core of capacity 1024 at full speed: a middling server or desktop core.
const BUSY_POWER_UW: u64 = 5_000_000;

/// Full speed where the source names no frequency.
pub const KHZ: u32 = 2_000_000;

/// `REMOTE_DISTANCE` of the kernel: the distance of nodes where firmware tells none.
pub const REMOTE_DISTANCE: u32 = 20;

/// What each further thread adds to a core's throughput and to its power, in thousandths of the
/// lone thread's. The first two follow published SMT2 and SMT4 figures.
const SMT_THROUGHPUT_GAIN: [u32; 7] = [250, 150, 100, 80, 60, 50, 40];
const SMT_POWER_GAIN: [u32; 7] = [100, 60, 40, 30, 20, 20, 20];

/// Yield and power of cores with up to `threads` threads.
pub fn smt(threads: usize) -> SmtCurve {
    let curve = |gains: [u32; 7]| {
        let gains = gains.into_iter().chain(std::iter::repeat(0));
        let rising = gains.scan(1000, |total, gain| {
            *total += gain;
            Some(*total)
        });
        std::iter::once(1000).chain(rising).take(threads.max(1)).collect()
    };
    SmtCurve::new(curve(SMT_THROUGHPUT_GAIN), curve(SMT_POWER_GAIN))
}

/// Operating points with a power each: the source's own power where it has one for every point,
/// else the square of the frequency, scaled to 5 W for a core of capacity 1024 at full speed.
pub fn opps(found: &[FoundOpp], capacity: u32) -> Vec<Opp> {
    let fallback = [FoundOpp { khz: KHZ, uv: None, power_uw: None }];
    let found = if found.is_empty() { &fallback } else { found };
    let told = found.iter().all(|opp| opp.power_uw.is_some());
    let max_khz = found.iter().map(|opp| u128::from(opp.khz)).max().unwrap_or(1).max(1);
    let full_uw = u128::from(BUSY_POWER_UW) * u128::from(capacity) / 1024;
    let power_uw = |khz: u32| (full_uw * u128::from(khz).pow(2) / max_khz.pow(2)) as u64;
    found
        .iter()
        .map(|opp| Opp {
            khz: opp.khz,
            uv: opp.uv,
            power_uw: opp.power_uw.filter(|_| told).unwrap_or_else(|| power_uw(opp.khz)),
        })
        .collect()
}

/// Five frequencies from the slowest to the fastest, where a driver tells only those two.
pub fn frequencies(min_khz: u32, max_khz: u32) -> Vec<FoundOpp> {
    let step = |part: u32| min_khz + (max_khz - min_khz) / 4 * part;
    let mut khz: Vec<u32> = (0..4).map(step).chain([max_khz]).collect();
    khz.dedup();
    khz.into_iter().map(|khz| FoundOpp { khz, uv: None, power_uw: None }).collect()
}

/// Idle states with power and transition energy. The source's own power counts where it falls
/// from state to state; else polling draws 60 % of full speed, the first sleeping state 8 %, and
/// each further one 60 % of the one above. A transition costs half of full speed while it lasts.
pub fn idle_states(found: &[FoundState], busy_uw: u64) -> Vec<IdleState> {
    let told: Option<Vec<u64>> = found.iter().map(|state| state.power_uw).collect();
    let told = told.filter(|uw| uw.is_sorted_by(|above, below| above >= below));
    let mut sleeping_uw = busy_uw * 8 / 100;
    let mut states = Vec::with_capacity(found.len());
    for (index, state) in found.iter().enumerate() {
        let estimate_uw = if state.polling {
            busy_uw * 60 / 100
        } else {
            let uw = sleeping_uw;
            sleeping_uw = sleeping_uw * 60 / 100;
            uw
        };
        let transition_ns = if state.polling { 0 } else { state.entry_ns + state.exit_ns };
        let femtojoules = u128::from(transition_ns) * u128::from(busy_uw) / 2;
        states.push(IdleState {
            name: state.name.clone(),
            entry_latency_ns: state.entry_ns,
            exit_latency_ns: state.exit_ns,
            governor_exit_latency_ns: state.entry_ns + state.exit_ns,
            target_residency_ns: state.residency_ns,
            power_uw: told.as_ref().and_then(|uw| uw.get(index)).copied().unwrap_or(estimate_uw),
            transition_energy_nj: (femtojoules / 1_000_000) as u64,
            polling: state.polling,
            local_timer_stop: state.local_timer_stop,
            disabled: state.disabled,
            power_of_busy_permille: None,
            rejects_pending: false,
        });
    }
    states
}

/// The idle states that a CPU has at least, by its architecture.
pub fn least_states(architecture: Architecture) -> Vec<FoundState> {
    match architecture {
        // drivers/cpuidle/cpuidle-psci.c: WFI, 1/1 us.
        Architecture::Arm => vec![FoundState::sleeping("WFI", 1, 1)],
        // drivers/cpuidle/cpuidle-pseries.c: snooze 0/0 us, CEDE 10/100 us.
        Architecture::Power => {
            let snooze = FoundState { name: "snooze".into(), ..FoundState::poll() };
            vec![snooze, FoundState::sleeping("CEDE", 10, 100)]
        }
        // drivers/cpuidle/poll_state.c, and the halt that every processor has.
        Architecture::X86 => vec![FoundState::poll(), FoundState::sleeping("C1", 1, 1)],
        Architecture::Other => vec![FoundState::sleeping("HLT", 1, 1)],
    }
}

/// LISA names idle states and tells nothing more: WFI as its driver has it, every deeper state
/// 500 us of latency and 2 ms of residency beyond the one above, as the device trees of phones.
pub fn named_states(names: &[String]) -> Vec<FoundState> {
    let state = |(depth, name): (usize, &String)| match depth as u64 {
        0 => FoundState::sleeping(name, 1, 1),
        depth => FoundState {
            local_timer_stop: true,
            ..FoundState::sleeping(name, 500 * depth, 2_000 * depth)
        },
    };
    names.iter().enumerate().map(state).collect()
}
