//! The figures that a workload keeps, streamed.

use crate::histogram::Histogram;
use schedlab_workload::program::{Better, Metric, MetricId, MetricKind};

/// Bytes of a mebibyte.
const MIB: f64 = 1048576.0;

/// Samples of one metric.
#[derive(Clone, Debug, Default)]
struct Series {
    total: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    latencies: Option<Box<Histogram>>,
}

/// One figure of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The metric's name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is good.
    pub better: Better,
    /// The value; `None` if nothing was measured.
    pub value: Option<f64>,
    /// How many samples it stands on.
    pub samples: u64,
}

/// All metrics of a run.
#[derive(Clone, Debug)]
pub struct Figures {
    series: Vec<Series>,
}

impl Figures {
    /// Empty metrics.
    pub fn new(metrics: &[Metric]) -> Figures {
        Figures { series: vec![Series::default(); metrics.len()] }
    }

    /// Counts.
    pub fn count(&mut self, metric: MetricId, amount: u64, now_ns: u64) {
        self.series[metric.0 as usize].count(amount, now_ns);
    }

    /// Takes a time down.
    pub fn measure(&mut self, metric: MetricId, latency_ns: u64, now_ns: u64) {
        let series = &mut self.series[metric.0 as usize];
        series.count(1, now_ns);
        series.latencies.get_or_insert_default().record(latency_ns);
    }

    /// The figures at the end, `end_ns`.
    pub fn finish(&self, metrics: &[Metric], end_ns: u64) -> Vec<Figure> {
        metrics
            .iter()
            .enumerate()
            .map(|(index, metric)| {
                let source = metric.samples_of.map_or(index, |of| of.0 as usize);
                let series = &self.series[source];
                Figure {
                    name: metric.name.clone(),
                    unit: metric.unit.clone(),
                    better: metric.better,
                    value: series.value(metric.kind, end_ns),
                    samples: series.total,
                }
            })
            .collect()
    }
}

impl Series {
    #[inline]
    fn count(&mut self, amount: u64, now_ns: u64) {
        self.first_ns.get_or_insert(now_ns);
        self.total = self.total.saturating_add(amount);
        self.last_ns = self.last_ns.max(now_ns);
    }

    fn value(&self, kind: MetricKind, end_ns: u64) -> Option<f64> {
        let latencies = self.latencies.as_deref();
        let micro = |ns: f64| ns / 1000.0;
        match kind {
            MetricKind::Total => Some(self.total as f64),
            MetricKind::Mib => Some(self.total as f64 / MIB),
            MetricKind::MibPerS => self.value(MetricKind::Rate, end_ns).map(|rate| rate / MIB),
            MetricKind::Rate => {
                let span_ns = end_ns.checked_sub(self.first_ns?)?;
                (span_ns > 0).then(|| self.total as f64 * 1e9 / span_ns as f64)
            }
            MetricKind::Percentile(percent) => latencies?.percentile(percent).map(micro),
            MetricKind::Mean => latencies?.mean().map(micro),
            MetricKind::MeanMs => latencies?.mean().map(|ns| ns / 1e6),
            MetricKind::MeanS => latencies?.mean().map(|ns| ns / 1e9),
            MetricKind::Score(points) => latencies?.geometric_mean().map(|ns| points * 1e6 / ns),
            MetricKind::Finish => self.first_ns.map(|_| self.last_ns as f64 / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_stays_at_the_most_that_it_can_hold() {
        let mut series = Series::default();
        series.count(u64::MAX - 1, 10);
        series.count(2, 20);
        assert_eq!(series.value(MetricKind::Total, 30), Some(u64::MAX as f64));
    }
}
