//! Every governor behind one type.

use std::borrow::Cow;
use std::fmt;

use super::{
    Checkpoint, Choice, Governor, GovernorKind, Haltpoll, HaltpollParameters, IdleHardware,
    Idleutil, Ladder, Menu, MenuRelease, OwnGovernor, State, Teo6_1, Teo6_12, Utilization,
};

/// What a governor has to know of its machine before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The length of a tick (`TICK_NSEC`), ns.
    pub tick_ns: u64,
    /// The CPU's capacity (`arch_scale_cpu_capacity()`), 1024 for the biggest.
    pub capacity: u64,
    /// A CPU is utilized above `capacity >> utilization_shift` (`UTIL_THRESHOLD_SHIFT`).
    pub utilization_shift: u32,
    /// The parameters of `haltpoll`; `reset_below_start` is set by the release.
    pub haltpoll: HaltpollParameters,
}

impl Config {
    /// The kernel's defaults for a tick and a capacity.
    pub fn new(tick_ns: u64, capacity: u64) -> Self {
        let haltpoll = HaltpollParameters::default();
        Self { tick_ns, capacity, utilization_shift: 6, haltpoll }
    }
}

/// What of a governor's parameters a kernel file sets; machine and tick give the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GovernorParameters {
    /// See [`Config::utilization_shift`].
    pub utilization_shift: u32,
    /// See [`Config::haltpoll`].
    pub haltpoll: HaltpollParameters,
}

impl Default for GovernorParameters {
    /// The kernel's.
    fn default() -> Self {
        let Config { utilization_shift, haltpoll, .. } = Config::new(0, 0);
        Self { utilization_shift, haltpoll }
    }
}

impl GovernorParameters {
    /// All that a governor has to know on a CPU of `capacity` out of 1024, under a tick of
    /// `tick_ns`.
    pub fn config(&self, tick_ns: u64, capacity: u64) -> Config {
        let Self { utilization_shift, haltpoll } = *self;
        Config { tick_ns, capacity, utilization_shift, haltpoll }
    }
}

/// One value of a governor's internal state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// The kernel's name for it, or its author's.
    pub name: Cow<'static, str>,
    /// Its place, if it is one of several.
    pub index: Option<usize>,
    /// Its value; the unit ends the name.
    pub value: i64,
}

impl Detail {
    pub(super) fn new(name: &'static str, value: i64) -> Self {
        Self { name: Cow::Borrowed(name), index: None, value }
    }

    pub(super) fn at(name: &'static str, index: usize, value: i64) -> Self {
        Self { name: Cow::Borrowed(name), index: Some(index), value }
    }

    pub(super) fn array(name: &'static str, values: &[u32]) -> impl Iterator<Item = Self> {
        values.iter().enumerate().map(move |(index, value)| Self::at(name, index, (*value).into()))
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(formatter, "{}[{index}] {}", self.name, self.value),
            None => write!(formatter, "{} {}", self.name, self.value),
        }
    }
}

/// A governor of any kind, with its memory of one CPU.
#[derive(Debug)]
pub enum AnyGovernor {
    /// `menu` of either release.
    Menu(Menu),
    /// `teo` of 6.1, and `teo_util`.
    Teo6_1(Teo6_1),
    /// `teo` of 6.12.
    Teo6_12(Teo6_12),
    /// `ladder`.
    Ladder(Ladder),
    /// `haltpoll` of either release.
    Haltpoll(Haltpoll),
    /// `idleutil`.
    Idleutil(Idleutil),
    /// A user's own.
    Own(Box<dyn OwnGovernor>),
}

impl AnyGovernor {
    /// A governor that has seen nothing yet, under a tick of `tick_ns`, of a CPU of `capacity` out
    /// of 1024.
    pub fn new(kind: GovernorKind, tick_ns: u64, capacity: u64) -> Self {
        Self::with_config(kind, &Config::new(tick_ns, capacity))
    }

    /// As [`AnyGovernor::new`], with every parameter.
    pub fn with_config(kind: GovernorKind, config: &Config) -> Self {
        let tick_ns = config.tick_ns;
        let threshold = config.capacity.checked_shr(config.utilization_shift).unwrap_or(0);
        let haltpoll = |reset_below_start| {
            let parameters = HaltpollParameters { reset_below_start, ..config.haltpoll };
            Self::Haltpoll(Haltpoll::new(parameters))
        };
        let teo = |utilization| Self::Teo6_1(Teo6_1::new(tick_ns, utilization));
        match kind {
            GovernorKind::Menu6_1 => Self::Menu(Menu::new(MenuRelease::V6_1, tick_ns)),
            GovernorKind::Menu6_12 => Self::Menu(Menu::new(MenuRelease::V6_12, tick_ns)),
            GovernorKind::Teo6_1 => teo(Utilization::Ignored),
            GovernorKind::Teo6_12 => Self::Teo6_12(Teo6_12::new(tick_ns)),
            GovernorKind::Ladder6_1 | GovernorKind::Ladder6_12 => Self::Ladder(Ladder::new()),
            GovernorKind::Haltpoll6_1 => haltpoll(false),
            GovernorKind::Haltpoll6_12 => haltpoll(true),
            GovernorKind::TeoUtilV2 => teo(Utilization::V2 { threshold }),
            GovernorKind::TeoUtilV6 => teo(Utilization::V6 { threshold }),
            GovernorKind::Idleutil => Self::Idleutil(Idleutil::new(tick_ns, threshold)),
        }
    }

    /// The internal state as the kernel names it, to explain a decision; arrays by state go as far
    /// as `states`.
    pub fn explain(&self, states: usize) -> Vec<Detail> {
        match self {
            Self::Menu(governor) => governor.explain(),
            Self::Teo6_1(governor) => governor.explain(states),
            Self::Teo6_12(governor) => governor.explain(states),
            Self::Ladder(governor) => governor.explain(states),
            Self::Haltpoll(governor) => governor.explain(),
            Self::Idleutil(governor) => governor.explain(),
            Self::Own(governor) => governor.explain(),
        }
    }

    #[inline]
    fn as_dyn(&mut self) -> &mut dyn Governor {
        match self {
            Self::Menu(governor) => governor,
            Self::Teo6_1(governor) => governor,
            Self::Teo6_12(governor) => governor,
            Self::Ladder(governor) => governor,
            Self::Haltpoll(governor) => governor,
            Self::Idleutil(governor) => governor,
            Self::Own(governor) => governor.as_mut(),
        }
    }

    /// A second one with the same memory; none of a user's own.
    pub fn copy(&self) -> Option<Self> {
        Some(match self {
            Self::Menu(governor) => Self::Menu(*governor),
            Self::Teo6_1(governor) => Self::Teo6_1(*governor),
            Self::Teo6_12(governor) => Self::Teo6_12(*governor),
            Self::Ladder(governor) => Self::Ladder(*governor),
            Self::Haltpoll(governor) => Self::Haltpoll(*governor),
            Self::Idleutil(governor) => Self::Idleutil(*governor),
            Self::Own(_) => return None,
        })
    }

    /// Its memory as it stands, to come back to by [`AnyGovernor::return_to`]; only the last one
    /// taken is good.
    pub fn checkpoint(&mut self) -> Checkpoint {
        if let Self::Own(governor) = self {
            governor.save();
        }
        Checkpoint(self.copy())
    }

    /// Forgets what happened since the checkpoint.
    pub fn return_to(&mut self, checkpoint: Checkpoint) {
        match checkpoint.0 {
            Some(before) => *self = before,
            None => {
                if let Self::Own(governor) = self {
                    governor.restore();
                }
            }
        }
    }

    /// How long a poll may last (`dev->poll_limit_ns`), ns; 0 where the governor leaves that to
    /// the idle states.
    pub fn poll_limit_ns(&self) -> u64 {
        match self {
            Self::Haltpoll(governor) => governor.poll_limit_ns(),
            Self::Own(governor) => governor.poll_limit_ns(),
            _ => 0,
        }
    }
}

impl Governor for AnyGovernor {
    #[inline]
    fn select(&mut self, states: &[State], hardware: &mut dyn IdleHardware) -> Choice {
        self.as_dyn().select(states, hardware)
    }

    #[inline]
    fn reflect(
        &mut self,
        states: &[State],
        index: usize,
        last_residency_ns: i64,
        hardware: &mut dyn IdleHardware,
    ) {
        self.as_dyn().reflect(states, index, last_residency_ns, hardware);
    }

    #[inline]
    fn reject(&mut self) {
        self.as_dyn().reject();
    }
}
