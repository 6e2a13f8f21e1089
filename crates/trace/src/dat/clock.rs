//! From a record's time stamp to nanoseconds, as `trace-cmd report` shows them.

use crate::format::Abi;

/// What the file says of its clock.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// Added to every time stamp: `OFFSET` and `DATE` options.
    pub(super) offset_ns: i64,
    /// Cycles to nanoseconds, multiplier and shift: `TSC2NSEC`.
    pub(super) tsc: Option<(u32, u32)>,
    /// From a guest's clock to its host's, by CPU: `TIME_SHIFT`.
    pub(super) guest: GuestShift,
}

/// Offsets between a guest's and its host's clock, measured while the trace was taken.
#[derive(Clone, Debug, Default)]
pub(super) struct GuestShift {
    interpolate: bool,
    cpus: Vec<Vec<Sample>>,
}

/// One measurement.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    time: i64,
    offset: i64,
    scaling: i64,
    fraction_bits: u32,
}

impl Clock {
    /// The time in nanoseconds.
    #[inline]
    pub(super) fn nanoseconds(&self, stamp: u64, cpu: usize) -> u64 {
        let mut time = stamp;
        if let Some(samples) = self.guest.cpus.get(cpu) {
            time = self.guest.host_time(time, samples);
        }
        if let Some((multiplier, shift)) = self.tsc {
            time = ((u128::from(time) * u128::from(multiplier)) >> shift.min(127)) as u64;
        }
        time.wrapping_add_signed(self.offset_ns)
    }
}

impl GuestShift {
    /// Reads the data of a `TIME_SHIFT` option; `None` if it is cut short.
    pub(super) fn parse(data: &[u8], abi: Abi) -> Option<GuestShift> {
        let mut at = 8;
        let mut number = |size: usize| {
            let value = match size {
                4 => abi.u32_at(data, at).map(u64::from),
                _ => abi.u64_at(data, at),
            };
            at += size;
            value
        };
        let flags = number(4)?;
        let cpu_count = number(4)?;
        let mut cpus = Vec::new();
        for _ in 0..cpu_count {
            let count = number(4)?;
            if count > data.len() as u64 {
                return None;
            }
            let mut samples = vec![Sample::default(); count as usize];
            for sample in &mut samples {
                sample.time = number(8)? as i64;
            }
            for sample in &mut samples {
                sample.offset = number(8)? as i64;
            }
            for sample in &mut samples {
                sample.scaling = number(8)? as i64;
            }
            cpus.push(samples);
        }
        // Files of trace-cmd before 2.9.3 end here.
        for sample in cpus.iter_mut().flatten() {
            match number(8) {
                Some(bits) => sample.fraction_bits = bits.min(63) as u32,
                None => break,
            }
        }
        for samples in &mut cpus {
            samples.sort_by_key(|sample| sample.time);
            samples.dedup_by_key(|sample| sample.time);
        }
        Some(GuestShift { interpolate: flags & 1 != 0, cpus })
    }

    fn host_time(&self, time: u64, samples: &[Sample]) -> u64 {
        let after = samples.partition_point(|sample| sample.time <= time as i64);
        let first = after.saturating_sub(1).min(samples.len().saturating_sub(2));
        match (samples.get(first), samples.get(first + 1)) {
            (None, _) => time,
            (Some(only), None) => time.wrapping_add_signed(only.offset),
            (Some(from), Some(to)) => {
                let offset =
                    if self.interpolate { interpolated(time, from, to) } else { from.offset };
                (time.wrapping_mul(from.scaling as u64) >> from.fraction_bits)
                    .wrapping_add_signed(offset)
            }
        }
    }
}

/// The offset at `time` on the line through two samples.
fn interpolated(time: u64, from: &Sample, to: &Sample) -> i64 {
    let span = i128::from(to.time) - i128::from(from.time);
    let rise = i128::from(to.offset) - i128::from(from.offset);
    let run = i128::from(time as i64) - i128::from(from.time);
    (i128::from(from.offset) + (run * rise + span / 2) / span) as i64
}

/// Why durations of a trace clock are not what they seem; `None` for a clock of nanoseconds that
/// all CPUs share.
pub(super) fn doubt(clock: &str, converted: bool) -> Option<&'static str> {
    match clock {
        "counter" => Some(
            "the trace clock `counter` numbers events and tells no time: only the order of events \
             and their counts mean anything",
        ),
        "uptime" => Some(
            "the trace clock `uptime` advances by whole ticks: latencies, idle and run times \
             shorter than that are lost, and longer ones are in ticks",
        ),
        "x86-tsc" | "ppc-tb" | "arm64-cntvct" if !converted => Some(
            "the trace clock counts processor cycles and the file has no rate for it: every \
             duration is in cycles, not nanoseconds",
        ),
        "local" | "perf" => Some(
            "the trace clock is not synchronised between CPUs: latencies from one CPU to another \
             can be off by the difference of their clocks",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_then_offset() {
        let clock = Clock { offset_ns: -5, tsc: Some((1 << 20, 21)), ..Clock::default() };
        assert_eq!(clock.nanoseconds(1_000, 0), 495);
    }

    #[test]
    fn guest_time_between_two_samples() {
        let mut data = 9_u64.to_le_bytes().to_vec();
        data.extend([1_u32, 1, 2].iter().flat_map(|number| number.to_le_bytes()));
        for number in [100_i64, 200, 1_000, 1_010, 1, 1, 0, 0] {
            data.extend(number.to_le_bytes());
        }
        let guest = GuestShift::parse(&data, Abi::LITTLE_64).unwrap();
        let clock = Clock { guest, ..Clock::default() };
        assert_eq!(clock.nanoseconds(150, 0), 150 + 1_005);
        assert_eq!(clock.nanoseconds(300, 0), 300 + 1_020);
        assert_eq!(clock.nanoseconds(150, 1), 150);
        assert!(GuestShift::parse(&data[..30], Abi::LITTLE_64).is_none());
    }
}
