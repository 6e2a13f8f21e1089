//! A user's own governor, written elsewhere: in Python, or in C for a kernel.

use std::fmt;

use super::{AnyGovernor, Config, Detail, Governor, GovernorKind, State};

/// A user's own governor of one CPU.
///
/// It may fail, as foreign code does. [`Governor`] knows no errors, so a governor that has failed
/// answers with state 0 from then on, and whoever drives it asks [`OwnKind::failure`] now and then
/// and gives the run up.
pub trait OwnGovernor: Governor + fmt::Debug + Send + Sync {
    /// Keeps its memory as it stands, to come back to it by [`OwnGovernor::restore`].
    fn save(&mut self);
    /// Comes back to the memory that was kept last.
    fn restore(&mut self);
    /// How long a poll may last (`dev->poll_limit_ns`), ns; 0 leaves that to the idle states.
    fn poll_limit_ns(&self) -> u64 {
        0
    }
    /// Its internal state, as far as it shows it.
    fn explain(&self) -> Vec<Detail> {
        Vec::new()
    }
}

/// The CPU that a governor is made for.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// Its number.
    pub cpu: u32,
    /// Its tick and its capacity.
    pub config: Config,
    /// Its idle states, shallowest first.
    pub states: &'a [State],
}

/// A user's own kind of governor: a class, or a file of source code.
pub trait OwnKind: fmt::Debug + Sync {
    /// What tables call it.
    fn name(&self) -> &str;
    /// Where it comes from, and what tells it from its next version.
    fn source(&self) -> &str;
    /// A governor for each of a machine's CPUs, all of one life: memory that they share is not
    /// shared with those of another call.
    ///
    /// # Errors
    /// Why there is none, in words for the user.
    fn make(&self, cpus: &[Served<'_>]) -> Result<Vec<Box<dyn OwnGovernor>>, String>;
    /// The first failure of any governor that was made, in words for the user.
    fn failure(&self) -> Option<String>;
}

/// A governor to run: one of the kernel's, or a user's own.
#[derive(Clone, Copy, Debug)]
pub enum Candidate<'a> {
    /// One of the kernel's.
    Known(GovernorKind),
    /// A user's own.
    Own(&'a dyn OwnKind),
}

impl<'a> Candidate<'a> {
    /// What tables call it.
    pub fn name(&self) -> &'a str {
        match self {
            Self::Known(kind) => kind.name(),
            Self::Own(own) => own.name(),
        }
    }

    /// The code that it follows.
    pub fn source(&self) -> &'a str {
        match self {
            Self::Known(kind) => kind.source(),
            Self::Own(own) => own.source(),
        }
    }

    /// The kernel's governor that it is, if it is one.
    pub fn known(&self) -> Option<GovernorKind> {
        match self {
            Self::Known(kind) => Some(*kind),
            Self::Own(_) => None,
        }
    }

    /// A fresh governor for each CPU.
    ///
    /// # Errors
    /// Why a user's own cannot be made, in words for the user.
    pub fn make(&self, cpus: &[Served<'_>]) -> Result<Vec<AnyGovernor>, String> {
        match self {
            Self::Known(kind) => {
                Ok(cpus.iter().map(|cpu| AnyGovernor::with_config(*kind, &cpu.config)).collect())
            }
            Self::Own(own) => Ok(own.make(cpus)?.into_iter().map(AnyGovernor::Own).collect()),
        }
    }

    /// The first failure of a user's own, in words for the user.
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Known(_) => None,
            Self::Own(own) => own.failure(),
        }
    }
}

/// A governor's memory at some time; see [`AnyGovernor::checkpoint`]. A user's own governor keeps
/// its memory itself.
#[derive(Debug)]
pub struct Checkpoint(pub(super) Option<AnyGovernor>);
