//! A governor's file as a kind of governor.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use schedlab_kernel::cpuidle::{OwnGovernor, OwnKind, Served};

use crate::compile::{SourceError, Workshop};
use crate::governor::CGovernor;
use crate::process::{Failure, Process};
use crate::wire::{self, Request};

/// The tick that a file is compiled for before a run's is known (HZ=250), ns.
const USUAL_TICK_NS: u64 = 4_000_000;

/// Characters of the digest within a name: enough to tell a file's versions apart.
const NAME_DIGITS: usize = 8;

/// A governor's C source, ready to be run.
#[derive(Debug)]
pub struct GovernorSource {
    compiled: Arc<Compiled>,
    failure: Failure,
}

/// What all runs of a source share.
#[derive(Debug)]
struct Compiled {
    name: String,
    source: String,
    file: String,
    digest: String,
    workshop: Workshop,
    /// The program for each tick that was asked for.
    programs: Mutex<Vec<(u64, PathBuf)>>,
}

impl GovernorSource {
    /// Compiles the file at `path`.
    ///
    /// # Errors
    /// A file that cannot be read or does not compile (with the compiler's own words), and a
    /// missing compiler.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let workshop = Workshop::new(path)?;
        // What the compiler refuses is best told by compiling, as its preprocessor knows less.
        let program = workshop.build(USUAL_TICK_NS)?;
        let digest = workshop.digest()?;
        let file = workshop.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let place = path.display();
        let compiled = Compiled {
            name: format!("{file}@{}", &digest[..NAME_DIGITS.min(digest.len())]),
            source: format!("{place}, SHA-256 {digest}"),
            file: place.to_string(),
            digest,
            workshop,
            programs: Mutex::new(vec![(USUAL_TICK_NS, program)]),
        };
        Ok(Self { compiled: Arc::new(compiled), failure: Failure::default() })
    }

    /// The same for another run, in which nothing has failed yet.
    pub fn again(&self) -> Self {
        Self { compiled: Arc::clone(&self.compiled), failure: Failure::default() }
    }

    /// SHA-256 of the file and of what it includes beside it, in hexadecimal: the same wherever they
    /// lie.
    pub fn digest(&self) -> &str {
        &self.compiled.digest
    }
}

impl Compiled {
    fn program(&self, tick_ns: u64) -> Result<PathBuf, SourceError> {
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, program)) = programs.iter().find(|(known_ns, _)| *known_ns == tick_ns) {
            return Ok(program.clone());
        }
        let program = self.workshop.build(tick_ns)?;
        programs.push((tick_ns, program.clone()));
        Ok(program)
    }
}

impl OwnKind for GovernorSource {
    fn name(&self) -> &str {
        &self.compiled.name
    }

    fn source(&self) -> &str {
        &self.compiled.source
    }

    /// Starts a process that serves these CPUs; their numbers count from 0 without a gap.
    fn make(&self, cpus: &[Served<'_>]) -> Result<Vec<Box<dyn OwnGovernor>>, String> {
        let tick_ns = cpus.first().map_or(USUAL_TICK_NS, |cpu| cpu.config.tick_ns);
        let file = &self.compiled.file;
        let program = self.compiled.program(tick_ns).map_err(|error| error.to_string())?;
        let process = Process::start(&program, file, Arc::clone(&self.failure))
            .map_err(|error| format!("{file}: its program cannot be started: {error}"))?;
        let process = Arc::new(Mutex::new(process));
        let lock = || process.lock().unwrap_or_else(PoisonError::into_inner);
        let count = i32::try_from(cpus.len()).unwrap_or(i32::MAX);
        lock().tell(&Request { index: count, ..Request::new(wire::CPUS, 0) });
        let governors: Vec<Box<dyn OwnGovernor>> = cpus
            .iter()
            .map(|cpu| Box::new(CGovernor::new(cpu, &process)) as Box<dyn OwnGovernor>)
            .collect();
        let answer = lock().ask(&Request::new(wire::START, 0));
        match answer {
            Some(answer) if answer.kind == wire::READY => {
                lock().text();
                Ok(governors)
            }
            _ => Err(self.failure().unwrap_or_else(|| format!("{file}: no answer"))),
        }
    }

    fn failure(&self) -> Option<String> {
        self.failure.get().cloned()
    }
}
