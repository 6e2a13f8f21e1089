//! `rq->cpu_load[]`: the load of a run queue at its ticks, smoothed over 1, 2, 4, 8 and 16 of them.

/// Length of `cpu_load[]` (`CPU_LOAD_IDX_MAX`).
pub const LOADS: usize = 5;

/// Ticks after which nothing is left of a load (`degrade_zero_ticks`).
const ZERO_TICKS: [u64; LOADS] = [0, 8, 32, 64, 128];

/// What is left after 1, 2, 4 ... missed ticks, out of 128 (`degrade_factor`).
const LEFT: [[u64; 8]; LOADS] = [
    [0, 0, 0, 0, 0, 0, 0, 0],
    [64, 32, 8, 0, 0, 0, 0, 0],
    [96, 72, 40, 12, 1, 0, 0, 0],
    [112, 98, 75, 43, 15, 1, 0, 0],
    [120, 112, 98, 76, 45, 16, 2, 0],
];

/// Which load a domain's balancing looks at: 0 is that of now, else one more than the place in
/// `cpu_load[]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadIndices {
    /// By a busy CPU.
    pub busy: usize,
    /// By an idle one.
    pub idle: usize,
    /// By one that is about to idle.
    pub newidle: usize,
}

/// One run queue's smoothed loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuLoad {
    /// The loads, the least smoothed first.
    pub cpu_load: [u64; LOADS],
    /// When they were last brought up to date, jiffies (`last_load_update_tick`).
    last_jiffies: u64,
}

impl CpuLoad {
    /// A tick finds `weight` (`update_cpu_load()` of 2.6.32).
    pub fn tick(&mut self, weight: u64) {
        for (index, load) in self.cpu_load.iter_mut().enumerate() {
            *load = smoothed(*load, weight, index);
        }
    }

    /// The same when ticks may have been missed, in which the CPU idled (2.6.36).
    pub fn tick_after(&mut self, weight: u64, jiffies: u64) {
        let passed = jiffies.wrapping_sub(self.last_jiffies);
        if passed == 0 {
            return;
        }
        self.last_jiffies = jiffies;
        self.cpu_load[0] = weight;
        for (index, load) in self.cpu_load.iter_mut().enumerate().skip(1) {
            *load = smoothed(decayed(*load, passed - 1, index), weight, index);
        }
    }
}

/// One more sample counts one part in `2^index`; it is rounded up while the load grows, so that it
/// arrives.
fn smoothed(old: u64, weight: u64, index: usize) -> u64 {
    let scale = 1_u64 << index;
    let new = if weight > old { weight + scale - 1 } else { weight };
    (old * (scale - 1) + new) >> index
}

/// `decay_load_missed()`.
fn decayed(load: u64, missed: u64, index: usize) -> u64 {
    if missed == 0 {
        return load;
    }
    if missed >= ZERO_TICKS[index] {
        return 0;
    }
    if index == 1 {
        return load >> missed;
    }
    let bits = (0..7).filter(|bit| missed >> bit & 1 == 1);
    bits.fold(load, |load, bit| (load * LEFT[index][bit]) >> 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_arrives_and_goes() {
        let mut load = CpuLoad::default();
        load.tick(1024);
        // 1/1, (0 + 1024 + 1) / 2, (0 + 1024 + 3) / 4, ...
        assert_eq!(load.cpu_load, [1024, 512, 256, 128, 64]);
        for _ in 0..200 {
            load.tick(1024);
        }
        assert_eq!(load.cpu_load, [1024; 5]);
        load.tick(0);
        assert_eq!(load.cpu_load, [0, 512, 768, 896, 960]);
    }

    #[test]
    fn missed_ticks_decay_by_the_kernel_s_table() {
        let full = CpuLoad { cpu_load: [1024; 5], last_jiffies: 100 };
        let mut load = full;
        load.tick_after(1024, 100);
        assert_eq!(load, full, "once a jiffy");
        load.tick_after(0, 101);
        assert_eq!(load.cpu_load, [0, 512, 768, 896, 960], "none was missed");
        // Three were missed: 1/8, (96 * 72) / 128^2 and so on are left, then one tick of nothing.
        let mut load = full;
        load.tick_after(0, 104);
        let left = |row: [u64; 2]| (((1024 * row[0]) >> 7) * row[1]) >> 7;
        assert_eq!(load.cpu_load[1], 128 / 2);
        assert_eq!(load.cpu_load[2], left([96, 72]) * 3 / 4);
        assert_eq!(load.cpu_load[3], left([112, 98]) * 7 / 8);
        assert_eq!(load.cpu_load[4], left([120, 112]) * 15 / 16);
        let mut load = full;
        load.tick_after(0, 100 + 129);
        assert_eq!(load.cpu_load, [0; 5]);
    }
}
