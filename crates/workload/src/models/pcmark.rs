//! PCMark Work 2.0, web browsing: a script in a WebView renders, scrolls, searches and edits local
//! pages. Its four timed actions make the score.

use super::android::{Background, FrameCosts, Frames, REFRESH_NS, about, signal};
use super::{Model, in_range, seconds_ns};
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{Amount, Better, MetricKind, Op, Workload};

/// What the score counts for an action of 1 ms: its makers' formula, 2,500,000 times the geometric
/// mean of the rates.
const POINTS_MS: f64 = 2_500_000.0;

/// The timed actions, by how long they take against each other: rendering the page, searching,
/// selecting, and adding a picture. *Estimate.*
const ACTIONS: [(&str, u64); 4] = [("R1", 16), ("R4", 10), ("R5", 6), ("R7", 12)];

/// Options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How long the script runs, s.
    pub seconds: u64,
    /// Pause before each action, ms.
    pub pause_ms: u64,
    /// Bursts of the page's main thread in the mean action.
    pub bursts: u64,
    /// Computation of one burst, us.
    pub burst_us: u64,
    /// What a helper (network, compositor, storage) computes between two bursts, us.
    pub helper_us: u64,
    /// Frames that are drawn after each action.
    pub frames: u64,
    /// What the script's own thread computes for a frame, us.
    pub script_us: u64,
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
            pause_ms: 400,
            bursts: 16,
            burst_us: 10_000,
            helper_us: 1_000,
            frames: 20,
            script_us: 1_000,
            render_us: 1_500,
            gpu_us: 3_000,
            compose_us: 1_000,
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
        in_range(name, "pause_ms", self.pause_ms, (0, 1_000_000))?;
        in_range(name, "bursts", self.bursts, (1, 100_000))?;
        in_range(name, "burst_us", self.burst_us, (1, 1_000_000))?;
        in_range(name, "helper_us", self.helper_us, (1, 1_000_000))?;
        in_range(name, "frames", self.frames, (0, 100_000))?;
        in_range(name, "script_us", self.script_us, (1, 1_000_000))?;
        self.costs().check(name)?;
        self.background().check(name)?;
        let time_ns = seconds_ns(name, "seconds", self.seconds)?;
        let mut build = Builder::new(name);
        let score = build.metric("score", "points", Better::Higher, MetricKind::Score(POINTS_MS));
        let times: Vec<_> = ACTIONS
            .iter()
            .map(|(action, _)| build.metric(action, "ms", Better::Lower, MetricKind::MeanMs))
            .collect();
        let (burst, burst_done) = (signal(&mut build), signal(&mut build));
        let (help, helped) = (signal(&mut build), signal(&mut build));
        let frames = Frames::of(&mut build, self.costs(), |_| {});
        let page = build.program("CrRendererMain", |code| {
            code.forever(|turn| {
                turn.op(Op::Down(burst));
                // Half of it to half more.
                let ns = self.burst_us * 1000;
                turn.op(Op::Run(Amount::Uniform { low: ns / 2, high: ns * 3 / 2 }));
                turn.op(Op::Up(help)).op(Op::Down(helped)).op(Op::Up(burst_done));
            });
        });
        let helper = build.program("ThreadPoolForeg", |code| {
            code.forever(|turn| {
                turn.op(Op::Down(help)).op(about(self.helper_us)).op(Op::Up(helped));
            });
        });
        let share: u64 = ACTIONS.iter().map(|(_, weight)| weight).sum();
        let script = build.program("chmark:workload", |code| {
            let (start, refresh) = (code.slot(), code.slot());
            code.forever(|round| {
                for ((_, weight), time) in ACTIONS.iter().zip(&times) {
                    let bursts = (self.bursts * ACTIONS.len() as u64 * weight / share).max(1);
                    let pause = Amount::Exponential { mean: self.pause_ms * 1_000_000 };
                    round.op(Op::Sleep(pause)).op(Op::Mark(start));
                    round.repeat(bursts, |each| {
                        each.op(about(self.script_us)).op(Op::Up(burst)).op(Op::Down(burst_done));
                    });
                    round.op(Op::Measure { metric: score, since: start });
                    round.op(Op::Measure { metric: *time, since: start });
                    round.repeat(self.frames, |frame| {
                        frame.op(Op::RestartingTimer { slot: refresh, period_ns: REFRESH_NS });
                        frame.op(about(self.script_us)).op(Op::Up(frames.draw));
                    });
                }
            });
        });
        let main = build.program("pcmark", |code| {
            code.sleep(time_ns).op(Op::ExitGroup);
        });
        for program in [page, helper, script, main] {
            build.spawn(program, 0, 0);
        }
        frames.spawn(&mut build);
        self.background().add(&mut build, cpus, time_ns);
        build.finish()
    }
}
