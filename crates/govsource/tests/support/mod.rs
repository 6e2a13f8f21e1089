//! Two governors that must decide alike: one in C, one in Rust, asked the same side by side.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use schedlab_govsource::GovernorSource;
use schedlab_kernel::cpuidle::{
    AnyGovernor, Candidate, Checkpoint, Choice, Governor, IdleHardware, OwnGovernor, OwnKind,
    Recorder, Served, State,
};
use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_replay::idle::{IdleRequest, ReplayError, replay_idle};
use schedlab_sim::{Engine, Nothing, Settings, check};
use schedlab_trace::{EventSource, TraceError};
use schedlab_workload::preset_text;
use schedlab_workload::program::Workload;

/// Makes the governor in Rust for a CPU.
pub type Ours = Box<dyn Fn(&[Served<'_>]) -> Vec<AnyGovernor> + Sync>;

/// What came of a comparison.
#[derive(Debug, Default)]
pub struct Count {
    pub decisions: AtomicU64,
    pub mismatches: AtomicU64,
    /// Time that the answers from C took, ns.
    pub answered_ns: AtomicU64,
    first: OnceLock<String>,
}

impl Count {
    /// Decisions and mismatches so far.
    pub fn get(&self) -> (u64, u64) {
        (self.decisions.load(Ordering::Relaxed), self.mismatches.load(Ordering::Relaxed))
    }

    /// The first decision that differed.
    pub fn first(&self) -> &str {
        self.first.get().map_or("none", String::as_str)
    }
}

/// Both governors as one kind.
pub struct Twins {
    pub theirs: GovernorSource,
    pub ours: Ours,
    pub count: Arc<Count>,
}

impl std::fmt::Debug for Twins {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.theirs.fmt(formatter)
    }
}

impl Twins {
    pub fn new(theirs: GovernorSource, ours: Ours) -> Self {
        Self { theirs, ours, count: Arc::default() }
    }
}

impl OwnKind for Twins {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn source(&self) -> &str {
        self.theirs.source()
    }

    fn make(&self, cpus: &[Served<'_>]) -> Result<Vec<Box<dyn OwnGovernor>>, String> {
        let pairs = self.theirs.make(cpus)?.into_iter().zip((self.ours)(cpus));
        let twin = |(theirs, ours)| {
            Box::new(Twin { theirs, ours, before: None, count: Arc::clone(&self.count) })
                as Box<dyn OwnGovernor>
        };
        Ok(pairs.map(twin).collect())
    }

    fn failure(&self) -> Option<String> {
        self.theirs.failure()
    }
}

/// Both governors of one CPU. What they are asked to choose is what the one in Rust does.
#[derive(Debug)]
struct Twin {
    theirs: Box<dyn OwnGovernor>,
    ours: AnyGovernor,
    before: Option<Checkpoint>,
    count: Arc<Count>,
}

impl Governor for Twin {
    fn select(&mut self, states: &[State], hardware: &mut dyn IdleHardware) -> Choice {
        let mut recorder = Recorder::new(hardware);
        let ours = self.ours.select(states, &mut recorder);
        let inputs = recorder.inputs();
        let asked = Instant::now();
        let theirs = self.theirs.select(states, hardware);
        let answered_ns = asked.elapsed().as_nanos() as u64;
        self.count.answered_ns.fetch_add(answered_ns, Ordering::Relaxed);
        self.count.decisions.fetch_add(1, Ordering::Relaxed);
        if ours != theirs {
            self.count.mismatches.fetch_add(1, Ordering::Relaxed);
            self.count.first.get_or_init(|| {
                format!("{inputs:?}: C chose {theirs:?}, Rust {ours:?}, which knew {:?}", self.ours)
            });
        }
        ours
    }

    fn reflect(
        &mut self,
        states: &[State],
        index: usize,
        ns: i64,
        hardware: &mut dyn IdleHardware,
    ) {
        self.ours.reflect(states, index, ns, hardware);
        self.theirs.reflect(states, index, ns, hardware);
    }

    fn reject(&mut self) {
        self.ours.reject();
        self.theirs.reject();
    }
}

impl OwnGovernor for Twin {
    fn save(&mut self) {
        self.before = Some(self.ours.checkpoint());
        self.theirs.save();
    }

    fn restore(&mut self) {
        if let Some(before) = self.before.take() {
            self.ours.return_to(before);
        }
        self.theirs.restore();
    }

    fn poll_limit_ns(&self) -> u64 {
        let (ours, theirs) = (self.ours.poll_limit_ns(), self.theirs.poll_limit_ns());
        if ours != theirs {
            self.count.mismatches.fetch_add(1, Ordering::Relaxed);
            self.count.first.get_or_init(|| format!("polls of {theirs} ns in C, {ours} in Rust"));
        }
        ours
    }
}

/// Both through a trace's idle periods.
pub fn replay(
    open: &mut dyn FnMut() -> Result<Box<dyn EventSource>, TraceError>,
    machine: &Machine,
    kind: &dyn OwnKind,
) -> Result<(), ReplayError> {
    let governors = [Candidate::Own(kind)];
    let request = IdleRequest { machine, governors: &governors, tick_ns: None };
    replay_idle(open, &request, None, &mut |_, _| true).map(|_| ())
}

/// Both through a simulated run of a built-in workload; its digest.
pub fn simulate(machine: &str, kernel: &str, workload: &str, ns: u64, kind: &dyn OwnKind) -> u64 {
    let machine = Machine::preset(machine).expect("a built-in machine");
    let kernel = Kernel::preset(kernel).expect("a built-in kernel");
    let text = preset_text(workload).expect("a built-in workload");
    let cpus = machine.cpu_count() as u32;
    let workload = Workload::from_toml(text, workload.as_ref(), cpus).expect("a workload");
    let settings = Settings::new(&kernel, &machine, ns, 1);
    check(&machine, &workload, &settings).expect("a run");
    let domains = build_domains(&machine, kernel.domains);
    let mut engine = Engine::new(&machine, domains, &workload, &settings, Nothing);
    engine.take_governor(kind).expect("governors");
    engine.run(ns).digest
}
