//! The `menu` governor (`drivers/cpuidle/governors/menu.c`).
//!
//! It predicts how long the CPU will be idle and takes the deepest state that pays for it. The
//! prediction is the time to the next timer, times a correction learnt for sleeps of that order of
//! magnitude; or, if shorter, the typical value of the last eight sleeps if they were alike.
//!
//! 6.12 looks at the sleeps first and does not ask for the next timer when they say "very short".
//! 6.1 keeps a second set of corrections for when tasks wait for I/O, and lets them limit the
//! exit latency.

use super::{
    Choice, Detail, Governor, IdleHardware, KTIME_MAX, RESIDENCY_THRESHOLD_NS, SleepLength, State,
    shallower, visible,
};

/// Orders of magnitude of the time to the next timer.
const MAGNITUDES: usize = 6;
/// Sleeps that the repeating-interval detector remembers.
const INTERVALS: usize = 8;
/// What a perfect prediction adds to a correction factor (`RESOLUTION`).
const RESOLUTION: u64 = 1024;
/// Weight of a correction factor's past, in sleeps (`DECAY`).
const DECAY: u64 = 8;
/// The correction factor that stands for 1.
const UNITY: u32 = (RESOLUTION * DECAY) as u32;
/// Sleeps beyond this count as perfectly predicted (`MAX_INTERESTING`), ns.
const MAX_INTERESTING_NS: u64 = 50_000_000;
const NSEC_PER_USEC: u64 = 1_000;
/// Sleeps beyond this are never counted as typical (`INT_MAX`), us.
const LONGEST_COUNTED_US: u32 = i32::MAX as u32;

/// The kernel release whose `menu` it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MenuRelease {
    /// Linux 6.1: twelve corrections and the performance multiplier.
    V6_1,
    /// Linux 6.12: six corrections, and the timer is looked up only when needed.
    V6_12,
}

/// `menu`'s memory of one CPU.
#[derive(Clone, Copy, Debug)]
pub struct Menu {
    release: MenuRelease,
    tick_ns: u64,
    needs_update: bool,
    tick_wakeup: bool,
    next_timer_ns: u64,
    bucket: usize,
    correction_factor: [u32; 2 * MAGNITUDES],
    intervals_us: [u32; INTERVALS],
    interval_ptr: usize,
    last_index: usize,
    last_residency_ns: u64,
    poll_time_limit: bool,
}

impl Menu {
    /// A governor that has seen nothing yet, under a tick of `tick_ns`.
    pub fn new(release: MenuRelease, tick_ns: u64) -> Self {
        Self {
            release,
            tick_ns,
            needs_update: false,
            tick_wakeup: false,
            next_timer_ns: 0,
            bucket: 0,
            correction_factor: [UNITY; 2 * MAGNITUDES],
            intervals_us: [0; INTERVALS],
            interval_ptr: 0,
            last_index: 0,
            last_residency_ns: 0,
            poll_time_limit: false,
        }
    }

    /// The time to the next timer at the last choice; `KTIME_MAX` where it was not asked for, ns.
    pub fn next_timer_ns(&self) -> u64 {
        self.next_timer_ns
    }

    /// Which correction factor the last choice used.
    pub fn bucket(&self) -> usize {
        self.bucket
    }

    /// The correction factors, 8192 for 1: six by magnitude of the time to the next timer, and in
    /// 6.1 six more for while tasks wait for I/O.
    pub fn correction_factors(&self) -> &[u32] {
        match self.release {
            MenuRelease::V6_1 => &self.correction_factor,
            MenuRelease::V6_12 => &self.correction_factor[..MAGNITUDES],
        }
    }

    /// The last sleeps, us; `u32::MAX` for one that the driver refused.
    pub fn intervals_us(&self) -> &[u32; INTERVALS] {
        &self.intervals_us
    }

    /// The release that it decides as.
    pub fn release(&self) -> MenuRelease {
        self.release
    }

    /// The length of a tick, ns.
    pub(super) fn tick_ns(&self) -> u64 {
        self.tick_ns
    }

    /// Where the next sleep goes in [`Menu::intervals_us`].
    pub fn interval_ptr(&self) -> usize {
        self.interval_ptr
    }

    pub(super) fn explain(&self) -> Vec<Detail> {
        let mut details = vec![
            Detail::new("next_timer_ns", self.next_timer_ns as i64),
            Detail::new("bucket", self.bucket as i64),
        ];
        details.extend(Detail::array("correction_factor", self.correction_factors()));
        details.extend(Detail::array("interval_us", &self.intervals_us));
        details.push(Detail::new("interval_ptr", self.interval_ptr as i64));
        details
    }

    fn push_interval(&mut self, interval_us: u32) {
        self.intervals_us[self.interval_ptr] = interval_us;
        self.interval_ptr = (self.interval_ptr + 1) % INTERVALS;
    }

    /// Learns from the last sleep, when the next one begins (`menu_update()`).
    fn update(&mut self, states: &[State]) {
        let target = states.get(self.last_index).copied().unwrap_or_default();
        let measured_ns = if self.tick_wakeup && self.next_timer_ns > self.tick_ns {
            // No timer was due within the tick and yet the tick was kept and woke the CPU: the
            // prediction was too short, and the CPU would have slept long, though not for ever.
            9 * MAX_INTERESTING_NS / 10
        } else if target.polling && self.poll_time_limit {
            // A better prediction would have slept until the timer.
            self.next_timer_ns
        } else if self.last_residency_ns > 2u64.wrapping_mul(target.exit_latency_ns) {
            self.last_residency_ns.wrapping_sub(target.exit_latency_ns)
        } else {
            // Too short for the state to have been reached.
            self.last_residency_ns / 2
        };
        let measured_ns = measured_ns.min(self.next_timer_ns);

        let factor = self.correction_factor[self.bucket];
        let gain = if self.next_timer_ns > 0 && measured_ns < MAX_INTERESTING_NS {
            RESOLUTION * measured_ns / self.next_timer_ns
        } else {
            RESOLUTION
        };
        let decayed = factor.wrapping_sub(factor / DECAY as u32);
        self.correction_factor[self.bucket] = decayed.wrapping_add(gain as u32);
        self.push_interval((measured_ns / NSEC_PER_USEC) as u32);
    }

    /// The length that the last sleeps had in common, us, or `u32::MAX`
    /// (`get_typical_interval()`). 6.1 gives up early when it cannot beat `limit_us`.
    ///
    /// Each of the kernel's passes leaves out the longest sleep and computes all anew; here the sums
    /// are corrected, and the longest sleeps sought only if the first pass does not do. Endless
    /// sleeps and equal longest ones go the kernel's way.
    pub(super) fn typical_interval_us(&self, limit_us: u32) -> u32 {
        let (mut sum, mut squares) = (0_u64, 0_u64);
        for value in self.intervals_us {
            sum += u64::from(value);
            squares = squares.wrapping_add(u64::from(value) * u64::from(value));
        }
        let too_long = self.release == MenuRelease::V6_1
            && self.intervals_us.iter().all(|value| *value >= limit_us);
        if too_long || (self.release == MenuRelease::V6_12 && sum == 0) {
            return u32::MAX;
        }
        if sum > u64::from(LONGEST_COUNTED_US)
            && self.intervals_us.iter().any(|value| *value > LONGEST_COUNTED_US)
        {
            return self.typical_interval_within(LONGEST_COUNTED_US, limit_us);
        }
        if let Some(average_us) = alike::<8>(sum, squares) {
            return average_us;
        }
        let (mut first, mut second, mut third) = (0, 0, 0);
        for value in self.intervals_us {
            third = third.max(second.min(value));
            second = second.max(first.min(value));
            first = first.max(value);
        }
        // That the shortest is within the limit is known by now.
        let hopeless = |max: u32| self.release == MenuRelease::V6_12 && max == 0;
        if first == second || second == third {
            return self.typical_interval_within(first - 1, limit_us);
        }
        if hopeless(second) {
            return u32::MAX;
        }
        let without = |sum: &mut u64, squares: &mut u64, longest: u32| {
            *sum -= u64::from(longest);
            *squares = squares.wrapping_sub(u64::from(longest) * u64::from(longest));
        };
        without(&mut sum, &mut squares, first);
        if let Some(average_us) = alike::<7>(sum, squares) {
            return average_us;
        }
        if hopeless(third) {
            return u32::MAX;
        }
        without(&mut sum, &mut squares, second);
        // No more than a quarter of them is left out.
        alike::<6>(sum, squares).unwrap_or(u32::MAX)
    }

    /// As [`Menu::typical_interval_us`], of the sleeps up to `threshold` us, pass by pass.
    #[cold]
    fn typical_interval_within(&self, mut threshold: u32, limit_us: u32) -> u32 {
        loop {
            let (mut sum, mut squares, mut count) = (0_u64, 0_u64, 0_usize);
            let (mut min, mut max) = (u32::MAX, 0);
            for value in self.intervals_us {
                let kept = value <= threshold;
                let counted = if kept { u64::from(value) } else { 0 };
                sum += counted;
                squares = squares.wrapping_add(counted * counted);
                min = min.min(if kept { value } else { u32::MAX });
                max = max.max(if kept { value } else { 0 });
                count += usize::from(kept);
            }
            if count == 0 {
                return u32::MAX;
            }
            let hopeless = match self.release {
                MenuRelease::V6_1 => min >= limit_us,
                MenuRelease::V6_12 => max == 0,
            };
            if hopeless {
                return u32::MAX;
            }
            let average_us = match count {
                8 => alike::<8>(sum, squares),
                7 => alike::<7>(sum, squares),
                6 => alike::<6>(sum, squares),
                5 => alike::<5>(sum, squares),
                4 => alike::<4>(sum, squares),
                3 => alike::<3>(sum, squares),
                2 => alike::<2>(sum, squares),
                _ => alike::<1>(sum, squares),
            };
            if let Some(average_us) = average_us {
                return average_us;
            }
            if count * 4 <= INTERVALS * 3 {
                return u32::MAX;
            }
            threshold = max.wrapping_sub(1);
        }
    }

    /// Asks for the next timer and returns the corrected time to it, us, and the time to the next
    /// event with the tick.
    fn look_up_timer(&mut self, iowaiters: u32, hardware: &mut dyn IdleHardware) -> (u32, i64) {
        let mut length = hardware.sleep_length();
        if length.sleep_ns < 0 {
            length = SleepLength { sleep_ns: 0, delta_next_ns: 0 };
        }
        self.next_timer_ns = length.sleep_ns as u64;
        self.bucket = bucket(self.next_timer_ns) + if iowaiters > 0 { MAGNITUDES } else { 0 };
        (self.corrected_timer_us(), length.delta_next_ns)
    }

    /// The time to the next timer, times its correction, rounded to us.
    pub(super) fn corrected_timer_us(&self) -> u32 {
        const UNIT: u64 = RESOLUTION * DECAY * NSEC_PER_USEC;
        let factor = u64::from(self.correction_factor[self.bucket]);
        (self.next_timer_ns.wrapping_mul(factor).wrapping_add(UNIT / 2) / UNIT) as u32
    }

    /// State 0 is the only answer: the timer or the latency limit rules out the next one.
    fn only_shallowest(&self, states: &[State], latency_ns: i64) -> bool {
        let [first, second, ..] = states else { return true };
        latency_ns == 0
            || (!first.disabled
                && (self.next_timer_ns < second.target_residency_ns
                    || latency_ns < second.latency()))
    }

    /// The search that both releases share in outline; what differs is by release.
    fn search(&self, states: &[State], prediction: Prediction) -> Choice {
        let Prediction { mut predicted_ns, latency_ns, delta_tick_ns, tick_stopped } = prediction;
        let tick_ns = self.tick_ns;
        let mut chosen = None;
        for (index, state) in states.iter().enumerate() {
            if state.disabled {
                continue;
            }
            let so_far = chosen.unwrap_or(index);
            chosen = Some(so_far);

            let too_slow = state.latency() > latency_ns;
            if self.release == MenuRelease::V6_12 && too_slow {
                break;
            }
            if state.target_residency_ns <= predicted_ns {
                if too_slow {
                    break;
                }
                chosen = Some(index);
                continue;
            }
            // Rather than poll, enter a state unless a timer comes soon.
            let before_timer = state.target_residency_ns <= self.next_timer_ns;
            let quick = match self.release {
                MenuRelease::V6_1 => !too_slow,
                MenuRelease::V6_12 => {
                    state.residency() < RESIDENCY_THRESHOLD_NS
                        && state.exit_latency_ns <= predicted_ns
                }
            };
            if states[so_far].polling && before_timer && quick {
                predicted_ns = state.target_residency_ns;
                chosen = Some(index);
                break;
            }
            if predicted_ns < tick_ns {
                break;
            }
            if !tick_stopped {
                // The tick will wake the CPU out of a shallow state, so too shallow costs little.
                predicted_ns = states[so_far].target_residency_ns;
                break;
            }
            // Without a tick a shallow state may last very long: go deeper if the timer allows it.
            let shallow = states[so_far].residency() < tick_ns as i64;
            if shallow && state.residency() <= delta_tick_ns {
                chosen = Some(index);
            }
            return Choice { index: chosen.unwrap_or(0), stop_tick: true };
        }

        let mut index = chosen.unwrap_or(0);
        let keep_tick = (states[index].polling || predicted_ns < tick_ns) && !tick_stopped;
        if keep_tick && index > 0 && states[index].residency() > delta_tick_ns {
            index = shallower(states, index, delta_tick_ns, false);
        }
        Choice { index, stop_tick: !keep_tick }
    }
}

/// What the search for a state starts from.
struct Prediction {
    predicted_ns: u64,
    latency_ns: i64,
    delta_tick_ns: i64,
    tick_stopped: bool,
}

/// The order of magnitude of a time to the next timer (`which_bucket()`), counted without a branch,
/// since it is hard to foresee.
fn bucket(duration_ns: u64) -> usize {
    [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000]
        .iter()
        .map(|limit| usize::from(duration_ns >= *limit))
        .sum()
}

/// The average of `COUNT` sleeps of that sum and sum of squares, if they were alike: within a
/// deviation of 20 us, or of a sixth of the average for at least three quarters of the sleeps.
/// The count is a constant, so that nothing is divided by a variable.
#[inline]
fn alike<const COUNT: u64>(sum: u64, squares: u64) -> Option<u32> {
    let average = sum / COUNT;
    // The sum of the squared distances, multiplied out. The kernel's sum wraps, and so does this
    // one, to the same.
    let distances = squares
        .wrapping_sub(average.wrapping_mul(2 * sum))
        .wrapping_add(COUNT.wrapping_mul(average.wrapping_mul(average)));
    let variance = distances / COUNT;
    let relative = COUNT * 4 >= INTERVALS as u64 * 3
        && variance <= u64::MAX / 36
        && average.wrapping_mul(average) > variance * 36;
    (relative || variance <= 400).then_some(average as u32)
}

impl Governor for Menu {
    fn select(&mut self, states: &[State], hardware: &mut dyn IdleHardware) -> Choice {
        let states = visible(states);
        let Some(first) = states.first() else { return Choice { index: 0, stop_tick: false } };
        if self.needs_update {
            self.update(states);
            self.needs_update = false;
        } else if self.last_residency_ns == 0 {
            self.push_interval(u32::MAX);
        }
        let mut latency_ns = hardware.latency_req_ns();
        let tick_stopped = hardware.tick_stopped();
        let shallowest = Choice { index: 0, stop_tick: !first.polling };

        let (mut predicted_ns, delta_tick_ns);
        match self.release {
            MenuRelease::V6_1 => {
                let iowaiters = hardware.nr_iowait();
                let timer_us;
                (timer_us, delta_tick_ns) = self.look_up_timer(iowaiters, hardware);
                if self.only_shallowest(states, latency_ns) {
                    return shallowest;
                }
                let predicted_us = timer_us.min(self.typical_interval_us(timer_us));
                predicted_ns = u64::from(predicted_us) * NSEC_PER_USEC;
                if !tick_stopped {
                    // The more tasks wait for I/O, the less a slow exit is acceptable.
                    let multiplier = 1u32.wrapping_add(iowaiters.wrapping_mul(10)).max(1);
                    let limit_ns = predicted_ns / u64::from(multiplier);
                    latency_ns = (latency_ns as u64).min(limit_ns) as i64;
                }
            }
            MenuRelease::V6_12 => {
                predicted_ns = u64::from(self.typical_interval_us(u32::MAX)) * NSEC_PER_USEC;
                if predicted_ns > RESIDENCY_THRESHOLD_NS as u64 || tick_stopped {
                    let timer_us;
                    (timer_us, delta_tick_ns) = self.look_up_timer(0, hardware);
                    predicted_ns = predicted_ns.min(u64::from(timer_us) * NSEC_PER_USEC);
                } else {
                    // The timer will not be asked for: suppose that it is far away, and the tick
                    // half a tick.
                    self.next_timer_ns = KTIME_MAX as u64;
                    self.bucket = MAGNITUDES - 1;
                    delta_tick_ns = (self.tick_ns / 2) as i64;
                }
                if self.only_shallowest(states, latency_ns) {
                    return shallowest;
                }
            }
        }
        // A wrong guess is dear without a tick to correct it: trust the timer alone.
        if tick_stopped && predicted_ns < self.tick_ns {
            predicted_ns = self.next_timer_ns;
        }
        self.search(states, Prediction { predicted_ns, latency_ns, delta_tick_ns, tick_stopped })
    }

    fn reflect(
        &mut self,
        states: &[State],
        index: usize,
        last_residency_ns: i64,
        hardware: &mut dyn IdleHardware,
    ) {
        self.last_index = index;
        self.last_residency_ns = last_residency_ns as u64;
        self.needs_update = true;
        self.tick_wakeup = hardware.got_tick();
        if states.get(index).is_some_and(|state| state.polling) {
            self.poll_time_limit = hardware.poll_time_limit();
        }
    }

    fn reject(&mut self) {
        self.last_residency_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpuidle::FixedHardware;

    fn after(release: MenuRelease, intervals_us: [u32; INTERVALS]) -> Menu {
        Menu { intervals_us, last_residency_ns: 1, ..Menu::new(release, 4_000_000) }
    }

    #[test]
    fn alike_sleeps_have_a_typical_length_and_a_long_one_is_left_out() {
        let typical =
            |intervals| after(MenuRelease::V6_12, intervals).typical_interval_us(u32::MAX);
        assert_eq!(typical([100; 8]), 100);
        assert_eq!(typical([100, 110, 90, 105, 95, 100, 100, 5_000]), 100);
        // Two may be left out, not three.
        assert_eq!(typical([100, 100, 100, 100, 100, 100, 5_000, 9_000]), 100);
        assert_eq!(typical([100, 100, 100, 100, 100, 5_000, 7_000, 9_000]), u32::MAX);
        // A refused entry counts as endless.
        assert_eq!(typical([100, 100, 100, 100, 100, 100, 100, u32::MAX]), 100);
        assert_eq!(typical([0; 8]), u32::MAX);
    }

    /// The kernel's passes as its code has them, distance by distance.
    fn typical_by_passes(release: MenuRelease, intervals_us: [u32; 8], limit_us: u32) -> u32 {
        let mut threshold = LONGEST_COUNTED_US;
        loop {
            let kept: Vec<u64> =
                intervals_us.iter().filter(|us| **us <= threshold).map(|us| (*us).into()).collect();
            let (count, max) = (kept.len() as u64, kept.iter().max().copied().unwrap_or(0));
            let min = kept.iter().min().copied().unwrap_or(u32::MAX.into());
            let hopeless = match release {
                MenuRelease::V6_1 => min >= u64::from(limit_us),
                MenuRelease::V6_12 => max == 0,
            };
            if hopeless {
                return u32::MAX;
            }
            let average = kept.iter().sum::<u64>() / count;
            let square = |us: &u64| us.abs_diff(average).wrapping_mul(us.abs_diff(average));
            let variance =
                kept.iter().map(square).fold(0, u64::wrapping_add).checked_div(count).unwrap();
            let close = variance <= u64::MAX / 36 && average * average > variance * 36;
            if close && count * 4 >= 24 || variance <= 400 {
                return average as u32;
            }
            if count * 4 <= 24 {
                return u32::MAX;
            }
            threshold = max as u32 - 1;
        }
    }

    proptest::proptest! {
        #[test]
        fn one_pass_says_what_the_passes_of_the_kernel_say(
            base in 0..2_000_u32,
            spread in proptest::array::uniform8(0..60_u32),
            outliers in proptest::collection::vec((0..8_usize, proptest::num::u32::ANY), 0..5),
            same in proptest::bool::ANY,
            limit_us in proptest::prop_oneof![0..3_000_u32, proptest::num::u32::ANY],
        ) {
            let mut intervals_us = spread.map(|spread| base + spread);
            for (index, value) in &outliers {
                intervals_us[*index] = if same { outliers[0].1 } else { *value };
            }
            for release in [MenuRelease::V6_1, MenuRelease::V6_12] {
                proptest::prop_assert_eq!(
                    after(release, intervals_us).typical_interval_us(limit_us),
                    typical_by_passes(release, intervals_us, limit_us)
                );
            }
        }
    }

    #[test]
    fn only_6_1_gives_up_on_sleeps_that_the_timer_beats() {
        let sleeps = [100; 8];
        assert_eq!(after(MenuRelease::V6_1, sleeps).typical_interval_us(100), u32::MAX);
        assert_eq!(after(MenuRelease::V6_1, sleeps).typical_interval_us(101), 100);
        assert_eq!(after(MenuRelease::V6_12, sleeps).typical_interval_us(100), 100);
    }

    #[test]
    fn tasks_that_wait_for_io_limit_the_exit_latency_in_6_1_only() {
        let state = |latency_us: u64, residency_us: u64| State {
            exit_latency_ns: latency_us * 1_000,
            target_residency_ns: residency_us * 1_000,
            ..State::default()
        };
        let states = [state(1, 1), state(100, 400)];
        let mut hardware =
            FixedHardware { sleep_ns: 1_000_000, nr_iowait: 1, ..FixedHardware::default() };
        for (release, expected) in [(MenuRelease::V6_1, 0), (MenuRelease::V6_12, 1)] {
            let mut menu = after(release, [u32::MAX; 8]);
            assert_eq!(menu.select(&states, &mut hardware).index, expected, "{release:?}");
        }
    }
}
