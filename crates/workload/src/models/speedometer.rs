//! Speedometer 2: a page adds, completes and removes entries of lists as fast as it can, so that its
//! main thread hardly rests.

use super::android::{Background, FrameCosts, Frames, about, signal};
use super::{Model, in_range, seconds_ns};
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{Amount, Better, MetricKind, Op, Workload};

/// Options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How long it runs, s.
    pub seconds: u64,
    /// Steps of one measured run through the lists.
    pub steps: u64,
    /// Computation of one step on average, us.
    pub step_us: u64,
    /// What a helper (the compositor, the collector of garbage) computes after a step, us.
    pub helper_us: u64,
    /// Steps after which a frame is drawn.
    pub steps_per_frame: u64,
    /// Computation of `RenderThread` for a frame, us.
    pub render_us: u64,
    /// The GPU's time for a frame, us.
    pub gpu_us: u64,
    /// Computation of `surfaceflinger` for a frame, us.
    pub compose_us: u64,
    /// The score if a run took 1 ms.
    pub points_ms: u64,
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
            steps: 300,
            step_us: 1_500,
            helper_us: 300,
            steps_per_frame: 10,
            render_us: 1_500,
            gpu_us: 3_000,
            compose_us: 700,
            points_ms: 60_000,
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
        in_range(name, "steps", self.steps, (1, 1_000_000))?;
        in_range(name, "step_us", self.step_us, (1, 1_000_000))?;
        in_range(name, "helper_us", self.helper_us, (1, 1_000_000))?;
        in_range(name, "steps_per_frame", self.steps_per_frame, (1, 1_000_000))?;
        in_range(name, "points_ms", self.points_ms, (1, 1_000_000_000_000))?;
        self.costs().check(name)?;
        self.background().check(name)?;
        let time_ns = seconds_ns(name, "seconds", self.seconds)?;
        let mut build = Builder::new(name);
        let points = MetricKind::Score(self.points_ms as f64);
        let score = build.metric("score", "points", Better::Higher, points);
        build.figure_of(score, "run", "ms", MetricKind::MeanMs);
        let (help, helped) = (signal(&mut build), signal(&mut build));
        let frames = Frames::of(&mut build, self.costs(), |_| {});
        let helper = build.program("Compositor", |code| {
            code.forever(|turn| {
                turn.op(Op::Down(help)).op(about(self.helper_us)).op(Op::Up(helped));
            });
        });
        let page = build.program("CrRendererMain", |code| {
            let start = code.slot();
            code.forever(|run| {
                run.op(Op::Mark(start));
                run.repeat((self.steps / self.steps_per_frame).max(1), |frame| {
                    frame.repeat(self.steps_per_frame, |step| {
                        let work = Amount::Exponential { mean: self.step_us * 1000 };
                        step.op(Op::Run(work)).op(Op::Up(help)).op(Op::Down(helped));
                    });
                    frame.op(Op::Up(frames.draw));
                });
                run.op(Op::Measure { metric: score, since: start });
            });
        });
        let main = build.program("chrome", |code| {
            code.sleep(time_ns).op(Op::ExitGroup);
        });
        for program in [helper, page, main] {
            build.spawn(program, 0, 0);
        }
        frames.spawn(&mut build);
        self.background().add(&mut build, cpus, time_ns);
        build.finish()
    }
}
