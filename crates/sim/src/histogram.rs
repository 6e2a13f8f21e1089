//! Streaming latency figures in bounded memory.

/// Sub-buckets of each power of two: values are known within 0.4 %.
const PRECISION_BITS: u32 = 8;
const SUB_BUCKETS: usize = 1 << PRECISION_BITS;

/// Counts of values in buckets that grow with the value; values below 512 are exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u32>,
    count: u64,
    sum: u128,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = (64 - PRECISION_BITS as usize + 1) * SUB_BUCKETS;
        Histogram { counts: vec![0; buckets], count: 0, sum: 0 }
    }
}

fn bucket(value: u64) -> usize {
    let magnitude = (64 - value.leading_zeros()).saturating_sub(PRECISION_BITS + 1);
    (magnitude as usize) * SUB_BUCKETS + (value >> magnitude) as usize
}

fn middle(bucket: usize) -> f64 {
    if bucket < 2 * SUB_BUCKETS {
        return bucket as f64;
    }
    let magnitude = bucket / SUB_BUCKETS - 1;
    let low = ((bucket - magnitude * SUB_BUCKETS) as u64) << magnitude;
    low as f64 + ((1u64 << magnitude) - 1) as f64 / 2.0
}

impl Histogram {
    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        let count = &mut self.counts[bucket(value)];
        *count = count.saturating_add(1);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean, `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The geometric mean, within 0.4 %; a value of 0 counts as 1. `None` without values.
    pub fn geometric_mean(&self) -> Option<f64> {
        let logarithm =
            |(bucket, &count): (usize, &u32)| f64::from(count) * middle(bucket).max(1.0).ln();
        let sum: f64 = self.counts.iter().enumerate().map(logarithm).sum();
        (self.count > 0).then(|| (sum / self.count as f64).exp())
    }

    /// The value that `percent` of all values do not exceed, as the middle of its bucket.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let rank =
            ((percent / 100.0 * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        self.counts.iter().enumerate().find_map(|(bucket, &count)| {
            seen += u64::from(count);
            (seen >= rank).then(|| middle(bucket))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_the_precision() {
        let mut histogram = Histogram::default();
        (1..=100_000_u64).for_each(|value| histogram.record(value * 37));
        for percent in [1.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
            let exact = percent / 100.0 * 100_000.0 * 37.0;
            let got = histogram.percentile(percent).unwrap();
            assert!((got / exact - 1.0).abs() < 0.005, "{percent}: {got} for {exact}");
        }
        assert_eq!(histogram.mean(), Some(37.0 * 50_000.5));
        assert_eq!(Histogram::default().percentile(50.0), None);
    }

    #[test]
    fn small_values_are_exact() {
        for value in 0..512 {
            assert_eq!(middle(bucket(value)), value as f64);
        }
        assert!(bucket(u64::MAX) < Histogram::default().counts.len());
    }
}
