//! What the models of a phone share: how Android draws a frame, and what goes on besides.
//!
//! A frame goes from the thread that decides what is drawn to `RenderThread`, which hands it to the
//! GPU, and at the next refresh of the display to `surfaceflinger`, which composes the picture.

use super::in_range;
use crate::build::{Builder, Code};
use crate::error::WorkloadError;
use crate::program::{Amount, Interrupt, ObjectId, ObjectKind, Op, ProgramId, Which};
use schedlab_machine::{CpuId, CpuSet};

/// Time between two refreshes of a display of 60 Hz, ns.
pub const REFRESH_NS: u64 = 16_666_667;

/// What the interrupt of a device keeps its CPU for, ns: *estimate*.
const INTERRUPT_NS: u64 = 8_000;

/// What a kernel thread computes each time, ns: *estimate*.
const HOUSEKEEPING_NS: u64 = 10_000;

/// What the thread that serves the GPU computes for each frame, ns: *estimate*.
const GPU_THREAD_NS: u64 = 30_000;

/// Requests among the services of the system, and interrupts of devices, at random times.
#[derive(Clone, Copy, Debug)]
pub struct Background {
    /// Pairs of a client and its server.
    pub pairs: u32,
    /// Mean pause of a client between two rows of requests, us.
    pub period_us: u64,
    /// Requests in a row, each made when the last one is answered.
    pub requests: u64,
    /// What the server computes for each, us; the client computes a quarter of that before each.
    pub work_us: u64,
    /// Interrupts of devices a second, all on the first CPU.
    pub interrupts_per_s: u64,
    /// Each CPU's own kernel thread wakes this often, ms, for what the kernel does by timer on every
    /// CPU; 0: there is none. It is what a governor sees as the next timer of an idle CPU.
    pub housekeeping_ms: u64,
}

impl Background {
    /// Refuses what cannot be.
    pub fn check(&self, name: &str) -> Result<(), WorkloadError> {
        in_range(name, "background_pairs", u64::from(self.pairs), (0, 1_000))?;
        in_range(name, "background_period_us", self.period_us, (10, 100_000_000))?;
        in_range(name, "background_requests", self.requests, (1, 10_000))?;
        in_range(name, "background_work_us", self.work_us, (1, 1_000_000))?;
        in_range(name, "housekeeping_ms", self.housekeeping_ms, (0, 1_000_000))?;
        in_range(name, "interrupts_per_s", self.interrupts_per_s, (0, 100_000))
    }

    /// Adds its tasks and, for a run of `duration_ns`, its interrupts.
    pub fn add(&self, build: &mut Builder, cpus: u32, duration_ns: u64) {
        let period_ns = self.housekeeping_ms * 1_000_000;
        for cpu in 0..if period_ns > 0 { cpus } else { 0 } {
            let worker = build.program(format!("kworker/{cpu}:0"), |code| {
                let expiry = code.slot();
                code.forever(|turn| {
                    turn.system(HOUSEKEEPING_NS).op(Op::Timer { slot: expiry, period_ns });
                });
            });
            build.attributes(worker).affinity = Some(CpuSet::from_iter([CpuId(cpu)]));
            // Each CPU's timers began when it came up.
            build.spawn(worker, cpu, period_ns * u64::from(cpu) / u64::from(cpus.max(1)));
        }
        for pair in 0..self.pairs {
            let request = Which::One(build.object(ObjectKind::Semaphore(0)));
            let reply = Which::One(build.object(ObjectKind::Semaphore(0)));
            // Requests of a row are alike, as those for the parts of a list are, so that a governor
            // which looks for a repeating interval finds one.
            let of = |ns: u64| Op::Run(Amount::Normal { mean: ns, deviation: ns / 10 });
            let work_ns = self.work_us * 1000;
            let client = build.program(format!("client:{pair}"), |code| {
                code.forever(|turn| {
                    turn.op(Op::Sleep(Amount::Exponential { mean: self.period_us * 1000 }));
                    turn.repeat(self.requests, |each| {
                        each.op(of(work_ns / 4)).op(Op::Up(request)).op(Op::Down(reply));
                    });
                });
            });
            let server = build.program(format!("binder:{pair}"), |code| {
                code.forever(|turn| {
                    turn.op(Op::Down(request)).op(of(work_ns)).op(Op::Up(reply));
                });
            });
            let birth_cpu = pair % cpus.max(1);
            build.spawn(server, birth_cpu, 0);
            build.spawn(client, birth_cpu, 0);
        }
        for at_ns in arrivals(self.interrupts_per_s, duration_ns) {
            build.interrupt(Interrupt { cpu: 0, at_ns, length_ns: INTERRUPT_NS, raises: None });
        }
    }
}

/// Times of independent arrivals, ns: the same in every run, as the file of a recording would be.
fn arrivals(per_s: u64, duration_ns: u64) -> Vec<u64> {
    let mut times = Vec::new();
    if per_s == 0 {
        return times;
    }
    let (mut state, mut now_ns) = (0x853C_49E6_748F_EA9B_u64, 0.0);
    loop {
        // Steele and others' SplitMix64.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = state;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let unit = (((x ^ (x >> 31)) >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
        now_ns += -unit.ln() * 1e9 / per_s as f64;
        if now_ns >= duration_ns as f64 {
            return times;
        }
        times.push(now_ns as u64);
    }
}

/// The threads that draw frames, and how they are asked to.
#[derive(Clone, Copy, Debug)]
pub struct Frames {
    /// Asks for a frame.
    pub draw: Which,
    /// The thread that draws; its tasks are yet to be spawned.
    render: ProgramId,
    compose: ProgramId,
    gpu: ProgramId,
}

/// What a frame takes.
#[derive(Clone, Copy, Debug)]
pub struct FrameCosts {
    /// Computation of `RenderThread`, us.
    pub render_us: u64,
    /// The GPU's time, us.
    pub gpu_us: u64,
    /// Computation of `surfaceflinger`, us.
    pub compose_us: u64,
}

impl FrameCosts {
    /// Refuses what cannot be.
    pub fn check(&self, name: &str) -> Result<(), WorkloadError> {
        in_range(name, "render_us", self.render_us, (1, 1_000_000))?;
        in_range(name, "gpu_us", self.gpu_us, (1, 1_000_000))?;
        in_range(name, "compose_us", self.compose_us, (1, 1_000_000))
    }
}

/// A computation that differs by a quarter from time to time, us given.
pub fn about(us: u64) -> Op {
    Op::Run(Amount::Normal { mean: us * 1000, deviation: us * 250 })
}

impl Frames {
    /// The threads. `drawn` is written where a frame has been drawn, before `surfaceflinger` takes
    /// it.
    pub fn of(build: &mut Builder, costs: FrameCosts, drawn: impl FnOnce(&mut Code)) -> Frames {
        let sem = |build: &mut Builder| Which::One(build.object(ObjectKind::Semaphore(0)));
        let (draw, submit, buffer) = (sem(build), sem(build), sem(build));
        let render = build.program("RenderThread", |code| {
            code.forever(|frame| {
                frame.op(Op::Down(draw)).op(about(costs.render_us)).op(Op::Up(submit));
            });
        });
        let gpu = build.program("mali-event", |code| {
            code.forever(|frame| {
                frame.op(Op::Down(submit));
                frame.op(Op::Sleep(Amount::Normal {
                    mean: costs.gpu_us * 1000,
                    deviation: costs.gpu_us * 250,
                }));
                frame.system(GPU_THREAD_NS);
                drawn(frame);
                frame.op(Op::Up(buffer));
            });
        });
        let compose = build.program("surfaceflinger", |code| {
            let refresh = code.slot();
            code.forever(|frame| {
                frame.op(Op::Down(buffer));
                // After a pause the display is refreshed anew.
                frame.op(Op::RestartingTimer { slot: refresh, period_ns: REFRESH_NS });
                frame.op(about(costs.compose_us));
            });
        });
        Frames { draw, render, compose, gpu }
    }

    /// Creates the threads' tasks.
    pub fn spawn(&self, build: &mut Builder) {
        for program in [self.render, self.gpu, self.compose] {
            build.spawn(program, 0, 0);
        }
    }
}

/// A semaphore that is empty at first.
pub fn signal(build: &mut Builder) -> Which {
    Which::One(build.object(ObjectKind::Semaphore(0)))
}

/// A counter.
pub fn counter(build: &mut Builder) -> ObjectId {
    build.object(ObjectKind::Counter)
}
