//! The figures that describe a set of durations.

/// Count, means, percentiles and maximum of a set of durations.
///
/// Percentiles interpolate linearly between the two nearest order statistics (Hyndman and Fan's
/// definition 7, the default of numpy, R and pandas). The geometric mean takes a duration of 0 ns
/// as 1 ns, the clock's grain, because one zero would make all of it zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution {
    /// How many durations.
    pub count: u64,
    /// Geometric mean, ns.
    pub gmean_ns: f64,
    /// Arithmetic mean, ns.
    pub mean_ns: f64,
    /// Median, ns.
    pub p50_ns: f64,
    /// 90th percentile, ns.
    pub p90_ns: f64,
    /// 99th percentile, ns.
    pub p99_ns: f64,
    /// The longest, ns.
    pub max_ns: u64,
}

impl Distribution {
    /// Describes `durations_ns`, which it sorts; `None` for an empty set.
    ///
    /// ```
    /// use schedlab_metrics::Distribution;
    /// let figures = Distribution::of(&mut [4_000, 1_000, 2_000]).unwrap();
    /// assert_eq!((figures.count, figures.p50_ns, figures.max_ns), (3, 2_000.0, 4_000));
    /// assert!((figures.gmean_ns - 2_000.0).abs() < 1e-9);
    /// assert_eq!(figures.p90_ns, 3_600.0); // 2000 + 0.8 * (4000 - 2000)
    /// assert!(Distribution::of(&mut []).is_none());
    /// ```
    pub fn of(durations_ns: &mut [u64]) -> Option<Distribution> {
        durations_ns.sort_unstable();
        let max_ns = *durations_ns.last()?;
        let count = durations_ns.len() as f64;
        let sum: u128 = durations_ns.iter().map(|&ns| u128::from(ns)).sum();
        Some(Distribution {
            count: durations_ns.len() as u64,
            gmean_ns: (sum_of_logarithms(durations_ns) / count).exp(),
            mean_ns: sum as f64 / count,
            p50_ns: quantile(durations_ns, 0.50),
            p90_ns: quantile(durations_ns, 0.90),
            p99_ns: quantile(durations_ns, 0.99),
            max_ns,
        })
    }
}

/// The sum of natural logarithms, with one logarithm for many factors: the product is carried as a
/// mantissa and a binary exponent, which is both quicker and more exact than adding logarithms.
fn sum_of_logarithms(durations_ns: &[u64]) -> f64 {
    let (mut mantissa, mut exponent) = (1.0_f64, 0_i64);
    for &duration in durations_ns {
        mantissa *= duration.max(1) as f64;
        // A factor is below 2^64, so the mantissa stays far below the largest double, 2^1024.
        if mantissa >= 2.0_f64.powi(512) {
            mantissa *= 2.0_f64.powi(-512);
            exponent += 512;
        }
    }
    mantissa.ln() + exponent as f64 * std::f64::consts::LN_2
}

/// The `fraction` quantile of a sorted, non-empty slice, by linear interpolation.
fn quantile(sorted_ns: &[u64], fraction: f64) -> f64 {
    let position = fraction * (sorted_ns.len() - 1) as f64;
    let below = (position.floor() as usize).min(sorted_ns.len() - 1);
    let above = (below + 1).min(sorted_ns.len() - 1);
    let (low, high) = (sorted_ns[below], sorted_ns[above]);
    low as f64 + (high - low) as f64 * (position - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zero_counts_as_one_nanosecond_in_the_geometric_mean_only() {
        let figures = Distribution::of(&mut [0, 0, 8]).unwrap();
        assert!((figures.gmean_ns - 2.0).abs() < 1e-12);
        assert_eq!(figures.mean_ns, 8.0 / 3.0);
        assert_eq!(figures.p50_ns, 0.0);
    }

    #[test]
    fn percentiles_are_those_of_numpy() {
        // numpy.percentile([15, 20, 35, 40, 50], [50, 90, 99]) = [35, 46, 49.6]
        let figures = Distribution::of(&mut [50, 15, 40, 20, 35]).unwrap();
        assert_eq!(figures.p50_ns, 35.0);
        assert!((figures.p90_ns - 46.0).abs() < 1e-9);
        assert!((figures.p99_ns - 49.6).abs() < 1e-9);
    }

    #[test]
    fn the_largest_durations_do_not_overflow() {
        let figures = Distribution::of(&mut [u64::MAX; 100]).unwrap();
        assert_eq!(figures.max_ns, u64::MAX);
        assert!((figures.gmean_ns / u64::MAX as f64 - 1.0).abs() < 1e-12);
        assert!((figures.mean_ns / u64::MAX as f64 - 1.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn the_geometric_mean_equals_the_sum_of_logarithms(
            durations in prop::collection::vec(1_u64..10_000_000_000, 1..500)
        ) {
            let mean_log = durations.iter().map(|&ns| (ns as f64).ln()).sum::<f64>()
                / durations.len() as f64;
            let figures = Distribution::of(&mut durations.clone()).unwrap();
            prop_assert!((figures.gmean_ns / mean_log.exp() - 1.0).abs() < 1e-9);
        }

        #[test]
        fn the_figures_are_in_order(durations in prop::collection::vec(any::<u64>(), 1..100)) {
            let figures = Distribution::of(&mut durations.clone()).unwrap();
            prop_assert!(figures.p50_ns <= figures.p90_ns && figures.p90_ns <= figures.p99_ns);
            prop_assert!(figures.p99_ns <= figures.max_ns as f64);
            prop_assert!(figures.gmean_ns <= figures.mean_ns * (1.0 + 1e-9) + 1.0);
        }
    }
}
