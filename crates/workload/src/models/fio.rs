//! `fio` with synchronous reads: jobs that hand a request to a device, sleep until it is done, and
//! compute for a while before the next one.

use super::{Model, in_range, tasks_in_range};
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{Amount, Better, MetricKind, ObjectKind, Op, Which, Workload};

/// fio's options by their names, and what the device is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Jobs (`--numjobs`).
    pub numjobs: u32,
    /// Bytes of a read (`--bs`).
    pub bs: u64,
    /// From one read to the next, us (`--thinktime`).
    pub thinktime: u64,
    /// Of that, computing on the biggest CPU, us (`--thinktime_spin`).
    pub thinktime_spin: u64,
    /// A request on its way to the device and back, on the biggest CPU, ns.
    pub request_ns: u64,
    /// What the device needs for a request, us.
    pub device_us: u64,
    /// Standard deviation of that, us.
    pub device_deviation_us: u64,
    /// Requests that the device serves at once.
    pub device_at_once: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            numjobs: 1,
            bs: 4096,
            thinktime: 0,
            thinktime_spin: 0,
            request_ns: 2_500,
            device_us: 80,
            device_deviation_us: 10,
            device_at_once: 64,
        }
    }
}

impl Model for Options {
    fn workload(&self, name: &str, cpus: u32) -> Result<Workload, WorkloadError> {
        tasks_in_range(name, "numjobs", u64::from(self.numjobs))?;
        in_range(name, "bs", self.bs, (1, 1 << 30))?;
        in_range(name, "thinktime", self.thinktime, (0, 1_000_000_000))?;
        in_range(name, "thinktime_spin", self.thinktime_spin, (0, self.thinktime))?;
        in_range(name, "request_ns", self.request_ns, (1, 1_000_000_000))?;
        in_range(name, "device_us", self.device_us, (1, 1_000_000_000))?;
        in_range(name, "device_deviation_us", self.device_deviation_us, (0, self.device_us))?;
        in_range(name, "device_at_once", u64::from(self.device_at_once), (1, 4096))?;
        let mut build = Builder::new(name);
        let reads = build.metric("IOPS", "1/s", Better::Higher, MetricKind::Rate);
        let bytes = build.metric("bandwidth", "MiB/s", Better::Higher, MetricKind::MibPerS);
        let latency = build.metric("clat mean", "us", Better::Lower, MetricKind::Mean);
        build.figure_of(latency, "clat 99.00th", "us", MetricKind::Percentile(99.0));
        let device = Which::One(build.object(ObjectKind::Device(self.device_at_once)));
        let service_ns = match self.device_deviation_us {
            0 => Amount::Fixed(self.device_us * 1000),
            us => Amount::Normal { mean: self.device_us * 1000, deviation: us * 1000 },
        };
        let job = build.program("fio", |code| {
            let submitted = code.slot();
            code.forever(|read| {
                // Half of the way lies before the device, half behind it.
                read.op(Op::System(Amount::Fixed(self.request_ns.div_ceil(2))))
                    .op(Op::Mark(submitted))
                    .op(Op::Io { device, service_ns })
                    .op(Op::System(Amount::Fixed(self.request_ns / 2)))
                    .op(Op::Measure { metric: latency, since: submitted })
                    .op(Op::Count { metric: reads, amount: 1 })
                    .op(Op::Count { metric: bytes, amount: self.bs });
                if self.thinktime_spin > 0 {
                    read.run(self.thinktime_spin * 1000);
                }
                if self.thinktime > self.thinktime_spin {
                    let rest_us = self.thinktime - self.thinktime_spin;
                    read.op(Op::Sleep(Amount::Fixed(rest_us * 1000)));
                }
            });
        });
        for index in 0..self.numjobs {
            build.spawn(job, index % cpus.max(1), u64::from(index) * 1_000);
        }
        build.finish()
    }
}
