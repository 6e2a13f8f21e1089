//! Jankbench: an application scrolls and edits, and every frame of 60 a second is timed. A frame
//! that is not drawn before the next refresh is jank.

use super::android::{Background, FrameCosts, Frames, REFRESH_NS, about};
use super::{Model, in_range, seconds_ns};
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{Amount, Better, MetricKind, ObjectKind, Op, Which, Workload};

/// Options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How long it runs, s.
    pub seconds: u64,
    /// Frames drawn in a row.
    pub frames: u64,
    /// Pause between two such rows, ms.
    pub pause_ms: u64,
    /// Computation of the application for a frame, us.
    pub app_us: u64,
    /// Computation of `RenderThread` for a frame, us.
    pub render_us: u64,
    /// The GPU's time for a frame, us.
    pub gpu_us: u64,
    /// Computation of `surfaceflinger` for a frame, us.
    pub compose_us: u64,
    /// Clients and servers of the system that go on meanwhile.
    pub background_pairs: u32,
    /// Mean pause of a client between two rows of requests, us.
    pub background_period_us: u64,
    /// Requests in a row, each made when the last one is answered.
    pub background_requests: u64,
    /// What a server computes for each, us.
    pub background_work_us: u64,
    /// Interrupts of devices a second.
    pub interrupts_per_s: u64,
    /// A kernel thread of each CPU wakes this often, ms; 0: there is none.
    pub housekeeping_ms: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seconds: 30,
            frames: 120,
            pause_ms: 500,
            app_us: 1_000,
            render_us: 1_500,
            gpu_us: 3_000,
            compose_us: 700,
            background_pairs: 4,
            background_period_us: 20_000,
            background_requests: 4,
            background_work_us: 100,
            interrupts_per_s: 100,
            housekeeping_ms: 40,
        }
    }
}

impl Options {
    fn background(&self) -> Background {
        Background {
            pairs: self.background_pairs,
            period_us: self.background_period_us,
            requests: self.background_requests,
            work_us: self.background_work_us,
            interrupts_per_s: self.interrupts_per_s,
            housekeeping_ms: self.housekeeping_ms,
        }
    }

    fn costs(&self) -> FrameCosts {
        let Options { render_us, gpu_us, compose_us, .. } = *self;
        FrameCosts { render_us, gpu_us, compose_us }
    }
}

impl Model for Options {
    fn workload(&self, name: &str, cpus: u32) -> Result<Workload, WorkloadError> {
        in_range(name, "frames", self.frames, (1, 1_000_000))?;
        in_range(name, "pause_ms", self.pause_ms, (0, 1_000_000))?;
        in_range(name, "app_us", self.app_us, (1, 1_000_000))?;
        self.costs().check(name)?;
        self.background().check(name)?;
        let time_ns = seconds_ns(name, "seconds", self.seconds)?;
        let mut build = Builder::new(name);
        let frame_time = build.metric("frame", "ms", Better::Lower, MetricKind::MeanMs);
        build.figure_of(frame_time, "frame p99", "us", MetricKind::Percentile(99.0));
        // Frames come one after the other, so the oldest mark is that of the frame that is done.
        const IN_FLIGHT: u32 = 8;
        let marks = build.objects(ObjectKind::Counter, IN_FLIGHT);
        let asked = build.object(ObjectKind::Counter);
        let done = build.object(ObjectKind::Counter);
        let of = |counter| Which::Next { first: marks, count: IN_FLIGHT, counter };
        let frames = Frames::of(&mut build, self.costs(), |frame| {
            frame.op(Op::MeasureShared { metric: frame_time, since: of(done) });
        });
        let app = build.program("jankbench", |code| {
            let refresh = code.slot();
            code.forever(|row| {
                row.op(Op::Sleep(Amount::Exponential { mean: self.pause_ms * 1_000_000 }));
                row.repeat(self.frames, |frame| {
                    frame.op(Op::RestartingTimer { slot: refresh, period_ns: REFRESH_NS });
                    frame.op(Op::MarkShared(of(asked)));
                    frame.op(about(self.app_us)).op(Op::Up(frames.draw));
                });
            });
        });
        let main = build.program("main", |code| {
            code.sleep(time_ns).op(Op::ExitGroup);
        });
        build.spawn(app, 0, 0);
        build.spawn(main, 0, 0);
        frames.spawn(&mut build);
        self.background().add(&mut build, cpus, time_ns);
        build.finish()
    }
}
