//! The generator that each task owns (PCG XSH-RR 64/32), so that one task's draws never disturb
//! another's.

use schedlab_workload::program::Amount;

/// O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random
/// Number Generation" (2014).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcg {
    state: u64,
    stream: u64,
}

const MULTIPLIER: u64 = 6364136223846793005;

impl Pcg {
    /// The generator number `stream` of a run's `seed`.
    pub fn new(seed: u64, stream: u64) -> Pcg {
        let mut pcg = Pcg { state: 0, stream: (stream << 1) | 1 };
        pcg.next_u32();
        pcg.state = pcg.state.wrapping_add(seed);
        pcg.next_u32();
        pcg
    }

    /// 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        let old = self.state;
        self.state = old.wrapping_mul(MULTIPLIER).wrapping_add(self.stream);
        let mixed = (((old >> 18) ^ old) >> 27) as u32;
        mixed.rotate_right((old >> 59) as u32)
    }

    /// A number below `bound`, evenly; 0 if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let bits = (u64::from(self.next_u32()) << 32) | u64::from(self.next_u32());
        ((u128::from(bits) * u128::from(bound)) >> 64) as u64
    }

    /// A number in (0, 1].
    fn unit(&mut self) -> f64 {
        (f64::from(self.next_u32()) + 1.0) / 4294967296.0
    }

    /// Draws an amount.
    pub fn draw(&mut self, amount: Amount) -> u64 {
        match amount {
            Amount::Fixed(value) => value,
            Amount::Uniform { low, high } => {
                low.saturating_add(self.below(high.saturating_sub(low).saturating_add(1)))
            }
            Amount::Exponential { mean } => (-self.unit().ln() * mean as f64) as u64,
            Amount::Normal { mean, deviation } => {
                // Box and Muller's transform; its second half is not kept, so that a draw depends
                // on nothing but the generator's state.
                let radius = (-2.0 * self.unit().ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * self.unit()).cos();
                (mean as f64 + deviation as f64 * normal).max(0.0) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let take = |seed, stream| {
            let mut pcg = Pcg::new(seed, stream);
            (0..8).map(|_| pcg.next_u32()).collect::<Vec<_>>()
        };
        assert_eq!(take(1, 2), take(1, 2));
        assert_ne!(take(1, 2), take(1, 3));
        assert_ne!(take(1, 2), take(2, 2));
    }

    #[test]
    fn amounts_have_their_means() {
        let mut pcg = Pcg::new(7, 0);
        for amount in [
            Amount::Uniform { low: 500, high: 1500 },
            Amount::Exponential { mean: 1000 },
            Amount::Normal { mean: 1000, deviation: 100 },
        ] {
            let sum: u64 = (0..100_000).map(|_| pcg.draw(amount)).sum();
            let mean = sum as f64 / 100_000.0;
            assert!((mean - 1000.0).abs() < 15.0, "{amount:?}: {mean}");
        }
    }
}
