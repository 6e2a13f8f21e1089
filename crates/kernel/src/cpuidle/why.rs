//! Why a governor chose as it did, in sentences for people.
//!
//! They are made right after a choice, from the memory that it was made with: nothing that the
//! sentences tell changes between the two.

use super::{AnyGovernor, Choice, FixedHardware, Menu, MenuRelease, State};

/// A time as people read it, us.
pub(super) fn us(ns: i64) -> String {
    if ns == i64::MAX { "never".to_owned() } else { format!("{:.1} us", ns as f64 / 1e3) }
}

impl AnyGovernor {
    /// Why its last choice came about, given what it could ask then.
    ///
    /// ```
    /// use schedlab_kernel::cpuidle::{AnyGovernor, FixedHardware, Governor, GovernorKind, State};
    /// let states = [1_000, 500_000].map(|target_residency_ns| State {
    ///     target_residency_ns,
    ///     ..State::default()
    /// });
    /// let mut governor = AnyGovernor::new(GovernorKind::Menu6_12, 4_000_000, 1024);
    /// let mut seen = FixedHardware { sleep_ns: 300_000, ..FixedHardware::default() };
    /// let choice = governor.select(&states, &mut seen);
    /// let why = governor.why(&states, &seen, choice);
    /// assert!(why[0].starts_with("the next timer is 300.0 us away"), "{}", why[0]);
    /// assert_eq!(why.last().unwrap(), "state 1 pays from 500.0 us on");
    /// ```
    pub fn why(&self, states: &[State], seen: &FixedHardware, choice: Choice) -> Vec<String> {
        let mut why = match self {
            Self::Menu(governor) => menu(governor, seen),
            Self::Teo6_1(governor) => governor.why(states, seen),
            Self::Teo6_12(governor) => governor.why(states, seen),
            Self::Ladder(_) => vec![
                "it steps deeper after four sleeps longer than the exit latency, and shallower \
                 after one that is not"
                    .to_owned(),
            ],
            Self::Haltpoll(governor) => {
                vec![format!("a poll may last {}", us(governor.poll_limit_ns() as i64))]
            }
            Self::Idleutil(governor) => {
                let compared = if governor.utilized() { "above" } else { "not above" };
                vec![
                    format!("the next timer is {} away", us(seen.sleep_ns)),
                    format!("utilization {} is {compared} the threshold", seen.cpu_util),
                ]
            }
            Self::Own(_) => Vec::new(),
        };
        if let Some(deeper) = states.get(choice.index + 1) {
            let pays = us(deeper.target_residency_ns as i64);
            let disabled = if deeper.disabled { ", but is disabled" } else { "" };
            why.push(format!("state {} pays from {pays} on{disabled}", choice.index + 1));
        }
        why
    }
}

/// The bounds of menu's orders of magnitude.
const BUCKETS: [&str; 6] =
    ["below 10 us", "10 to 100 us", "0.1 to 1 ms", "1 to 10 ms", "10 to 100 ms", "100 ms and more"];

fn menu(governor: &Menu, seen: &FixedHardware) -> Vec<String> {
    let mut why = Vec::new();
    let timer_ns = governor.next_timer_ns();
    let asked = timer_ns != i64::MAX as u64 || seen.sleep_ns == i64::MAX;
    let (corrected_us, bucket) = (governor.corrected_timer_us(), governor.bucket());
    if asked {
        let factor = f64::from(governor.correction_factors().get(bucket).copied().unwrap_or(0));
        why.push(format!(
            "the next timer is {} away; sleeps with one at {} last {:.3} of that (bucket {bucket}), \
             so {corrected_us} us",
            us(timer_ns as i64),
            BUCKETS[bucket % BUCKETS.len()],
            factor / 8192.0,
        ));
    } else {
        why.push("it did not ask for the next timer: a sleep below 15 us is expected".to_owned());
    }
    let limit_us = match governor.release() {
        MenuRelease::V6_1 => corrected_us,
        MenuRelease::V6_12 => u32::MAX,
    };
    let typical_us = governor.typical_interval_us(limit_us);
    let sleeps: Vec<String> = governor
        .intervals_us()
        .iter()
        .map(|&sleep| if sleep == u32::MAX { "-".to_owned() } else { sleep.to_string() })
        .collect();
    let typical = match typical_us {
        u32::MAX => "they have no length in common that counts".to_owned(),
        typical_us => format!("typically {typical_us} us"),
    };
    why.push(format!("the last sleeps: {} us; {typical}", sleeps.join(" ")));
    let predicted_us = if asked { corrected_us.min(typical_us) } else { typical_us };
    let tick_us = governor.tick_ns() / 1_000;
    if seen.tick_stopped && u64::from(predicted_us) < tick_us {
        why.push(format!(
            "predicted {predicted_us} us; but the tick is stopped, so a wrong guess would be dear, \
             and the next timer alone counts"
        ));
    } else {
        why.push(format!("predicted: the shorter of both, {predicted_us} us"));
    }
    if governor.release() == MenuRelease::V6_1 && seen.nr_iowait > 0 && !seen.tick_stopped {
        let limit_us = u64::from(predicted_us) / (1 + 10 * u64::from(seen.nr_iowait));
        why.push(format!(
            "{} tasks wait for I/O, which allows an exit latency of {limit_us} us",
            seen.nr_iowait
        ));
    }
    why
}

/// What `teo` of either release remembers of each state, in a sentence.
pub(super) fn bins(parts: impl Iterator<Item = (u32, u32)>) -> String {
    let bin = |(index, (hits, intercepts))| format!("state {index}: {hits}/{intercepts}");
    let bins: Vec<String> = parts.enumerate().map(bin).collect();
    format!("hits/intercepts, 1024 for a sleep: {}", bins.join(", "))
}
