//! The two passes over a trace, and what comes out.

use schedlab_kernel::cpuidle::{
    AnyGovernor, Candidate, Choice, Config, Detail, FixedHardware, Served, SleepLength, State,
    Teo6_12,
};
use schedlab_machine::{IdleState, Machine};
use schedlab_trace::{EventSource, Strings, TraceError};

use super::follow::Follower;
use super::memory::{self, MemoryFit};
use super::period::{Period, Wake};
use super::states::{governor_states, poll_limit_ns};
use super::survey::{Coverage, Survey, Surveyor};
use super::tally::{Tally, percent};
use super::walk::Walker;
use super::whatif::WhatIf;

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The reader's own word.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace is of a bigger machine.
    #[error(
        "the trace has CPU {cpu}, but machine `{machine}` has {cpus} CPU{}; choose the machine \
         that was traced with --machine", plural(*cpus)
    )]
    TooFewCpus {
        /// The CPU of the trace.
        cpu: u32,
        /// The machine's name.
        machine: String,
        /// How many it has.
        cpus: usize,
    },
    /// The trace is of a machine with other idle states.
    #[error(
        "the trace enters idle state {state} on CPU {cpu}, but machine `{machine}` has {states} \
         state{} there{}", plural(*states), mend(*states)
    )]
    TooFewStates {
        /// The state of the trace.
        state: usize,
        /// The CPU of the trace.
        cpu: u32,
        /// The machine's name.
        machine: String,
        /// How many states the machine's CPU has.
        states: usize,
    },
    /// There is nothing to replay.
    #[error("the trace has no idle period: neither cpu_idle nor sched_switch to the idle task")]
    NoPeriods,
    /// A user's own governor cannot be made, or has failed.
    #[error("{0}")]
    Governor(String),
}

/// What helps where a machine has so few states. One state leaves no choice, and a kernel without a
/// cpuidle driver calls it state 1 (`default_idle_call()`), so that there the machine may be right.
fn mend(states: usize) -> &'static str {
    if states == 1 {
        ", which leaves governors no choice; name with --machine the one that was traced, or, if its \
         kernel had no cpuidle driver, one whose states governors are to choose from"
    } else {
        "; choose the machine that was traced with --machine"
    }
}

/// The end of a noun of which there are so many.
fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// What to replay.
#[derive(Clone, Debug)]
pub struct IdleRequest<'a> {
    /// Whose idle states, powers and capacities.
    pub machine: &'a Machine,
    /// Which governors.
    pub governors: &'a [Candidate<'a>],
    /// The tick's length, or `None` to take it from the trace or else from the machine, ns.
    pub tick_ns: Option<u64>,
}

/// What a governor did with the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct GovernorReport {
    /// Which.
    pub name: String,
    /// The code that it follows.
    pub source: String,
    /// Its own life: periods, misses, states, latency, energy.
    pub tally: Tally,
    /// Traced periods whose state it chose, given the traced past.
    pub agreed: u64,
    /// Traced periods whose state is known.
    pub compared: u64,
    /// Periods whose sleep length it was told rests on an estimate.
    pub estimated: u64,
    /// Of these, periods whose sleep length was inferred from a tick that went on.
    pub inferred: u64,
    /// Periods that it was asked about.
    pub asked: u64,
    /// What it remembered when the trace began was inferred from its choices.
    pub memory_inferred: bool,
}

impl GovernorReport {
    /// Share of periods in which it chooses the traced state, percent.
    pub fn agreement_pct(&self) -> f64 {
        percent(self.agreed, self.compared)
    }

    /// Share of periods that rest on an estimate, percent.
    pub fn estimated_pct(&self) -> f64 {
        percent(self.estimated, self.asked)
    }
}

/// The outcome of a replay.
#[derive(Clone, Debug)]
pub struct IdleReport {
    /// What the traced governor did.
    pub traced: Tally,
    /// Each requested governor, in the order of the request.
    pub governors: Vec<GovernorReport>,
    /// Length of a tick, ns.
    pub tick_ns: u64,
    /// Cost of recording one event, ns.
    pub event_cost_ns: u64,
    /// From the first to the last event, ns.
    pub duration_ns: u64,
    /// What kinds of events there were.
    pub coverage: Coverage,
    /// Periods by what ended them.
    pub wakes: [u64; Wake::ALL.len()],
    /// Misses by the trace's own `cpu_idle_miss`: too deep, too shallow.
    pub traced_miss_events: [u64; 2],
}

/// One period and one governor's decision about it, while following.
#[derive(Debug)]
pub struct PeriodRow<'a> {
    /// The period.
    pub period: &'a Period,
    /// Who decided.
    pub name: &'a str,
    /// What it decided.
    pub choice: Choice,
    /// The sleep length that it could ask for.
    pub sleep: SleepLength,
    /// The sleep length was inferred from a tick that went on.
    pub inferred: bool,
    /// Its internal state when it had decided.
    pub details: &'a [Detail],
    governor: &'a AnyGovernor,
    states: &'a [State],
}

impl PeriodRow<'_> {
    /// Why it decided so, in sentences.
    pub fn why(&self) -> Vec<String> {
        let seen = FixedHardware {
            now_ns: self.period.select_ns,
            sleep_ns: self.sleep.sleep_ns,
            delta_next_ns: self.sleep.delta_next_ns,
            tick_stopped: self.period.tick_was_stopped,
            nr_iowait: self.period.nr_iowait,
            cpu_util: self.period.cpu_util,
            ..FixedHardware::default()
        };
        self.governor.why(self.states, &seen, self.choice)
    }
}

/// Is handed every governor's decision about every period.
pub type Observer<'o> = dyn FnMut(&PeriodRow<'_>) + 'o;

/// What the governors of one CPU need.
struct CpuGovernors {
    states: Vec<State>,
    lives: Vec<(Follower, WhatIf)>,
}

/// Replays the idle periods of a trace, which `open` opens twice. `observe`, if given, is handed
/// every governor's decision about every period. `progress` is told bytes done and bytes in all now
/// and then; where it answers no, reading ends there.
///
/// # Errors
/// What the reader says; a machine that does not fit the trace; a trace without idle periods.
pub fn replay_idle<'o>(
    open: &mut dyn FnMut() -> Result<Box<dyn EventSource>, TraceError>,
    request: &IdleRequest<'_>,
    mut observe: Option<&mut Observer<'o>>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<IdleReport, ReplayError> {
    let mut surveyor = Surveyor::new();
    read(open()?.as_mut(), 0, progress, &mut |event, strings| surveyor.event(event, strings))?;
    let survey = surveyor.finish();

    let tick_ns = request.tick_ns.or(survey.tick_ns).unwrap_or_else(|| request.machine.tick_ns());
    let tick_ns = tick_ns.max(1);
    let starts = if request.governors.iter().any(|governor| memory::concerns(governor.known())) {
        fit_memory(open, request, &survey, tick_ns)?
    } else {
        None
    };
    let mut replay = Replay::new(request, &survey, tick_ns, starts.as_deref())?;
    let mut walker = Walker::new(&survey, request.machine, tick_ns);
    let mut failure = None;
    read(open()?.as_mut(), 1, progress, &mut |event, strings| {
        walker.event(event, strings, &mut |period| {
            if failure.is_none() {
                failure = replay.period(period, observe.as_deref_mut()).err();
            }
        });
    })?;
    match failure {
        Some(error) => Err(error),
        None => replay.finish(),
    }
}

/// The pass in between, for governors whose memory of the time before the trace matters.
fn fit_memory(
    open: &mut dyn FnMut() -> Result<Box<dyn EventSource>, TraceError>,
    request: &IdleRequest<'_>,
    survey: &Survey,
    tick_ns: u64,
) -> Result<Option<Vec<Teo6_12>>, TraceError> {
    let mut fit = MemoryFit::new(request.machine, tick_ns, survey.coverage.tick_stop);
    let mut walker = Walker::new(survey, request.machine, tick_ns);
    read(open()?.as_mut(), 1, &mut |_, _| true, &mut |event, strings| {
        walker.event(event, strings, &mut |period| fit.period(period));
    })?;
    Ok(fit.finish())
}

/// Hands every event of a source on; `pass` is which of the two readings it is.
fn read(
    source: &mut dyn EventSource,
    pass: u64,
    progress: &mut dyn FnMut(u64, u64) -> bool,
    each: &mut dyn FnMut(&schedlab_trace::Event, &Strings),
) -> Result<(), TraceError> {
    let mut batch = Vec::new();
    while source.read_batch(&mut batch)? {
        for event in batch.drain(..) {
            each(&event, source.strings());
        }
        let (done, all) = source.progress_bytes();
        if !progress(pass.saturating_mul(all).saturating_add(done), all.saturating_mul(2)) {
            break;
        }
    }
    Ok(())
}

struct Replay<'a> {
    request: &'a IdleRequest<'a>,
    survey: &'a Survey,
    tick_ns: u64,
    cpus: Vec<CpuGovernors>,
    reports: Vec<GovernorReport>,
    traced: Tally,
    wakes: [u64; Wake::ALL.len()],
    traced_miss_events: [u64; 2],
}

impl<'a> Replay<'a> {
    fn new(
        request: &'a IdleRequest<'a>,
        survey: &'a Survey,
        tick_ns: u64,
        starts: Option<&[Teo6_12]>,
    ) -> Result<Self, ReplayError> {
        let machine = request.machine;
        let states: Vec<Vec<State>> =
            machine.cpu_ids().map(|cpu| governor_states(machine.idle_states(cpu))).collect();
        let served = |(cpu, states)| {
            let capacity = u64::from(machine.capacity(cpu));
            Served { cpu: cpu.0, config: Config::new(tick_ns, capacity), states }
        };
        let served: Vec<Served<'_>> =
            machine.cpu_ids().zip(states.iter().map(Vec::as_slice)).map(served).collect();
        let mut lives: Vec<Vec<(Follower, WhatIf)>> = served.iter().map(|_| Vec::new()).collect();
        let mut reports = Vec::new();
        for candidate in request.governors {
            let remembered = starts.filter(|_| memory::concerns(candidate.known()));
            let make = || match remembered {
                Some(starts) => Ok(starts.iter().copied().map(AnyGovernor::Teo6_12).collect()),
                None => candidate.make(&served).map_err(ReplayError::Governor),
            };
            let (followers, what_ifs): (Vec<_>, Vec<_>) = (make()?, make()?);
            for (((of_cpu, cpu), follower), what_if) in
                lives.iter_mut().zip(machine.cpu_ids()).zip(followers).zip(what_ifs)
            {
                let poll_limit_ns = poll_limit_ns(machine.idle_states(cpu), tick_ns);
                let what_if = WhatIf::new(what_if, tick_ns, poll_limit_ns);
                of_cpu.push((Follower::new(follower), what_if));
            }
            reports.push(GovernorReport {
                name: candidate.name().to_owned(),
                source: candidate.source().to_owned(),
                tally: Tally::default(),
                agreed: 0,
                compared: 0,
                estimated: 0,
                inferred: 0,
                asked: 0,
                memory_inferred: remembered.is_some(),
            });
        }
        let cpus = states.into_iter().zip(lives);
        let cpus = cpus.map(|(states, lives)| CpuGovernors { states, lives }).collect();
        Ok(Self {
            request,
            survey,
            tick_ns,
            cpus,
            reports,
            traced: Tally::default(),
            wakes: [0; Wake::ALL.len()],
            traced_miss_events: [0; 2],
        })
    }

    fn period<'o>(
        &mut self,
        period: &Period,
        mut observe: Option<&mut Observer<'o>>,
    ) -> Result<(), ReplayError> {
        let machine = self.request.machine;
        let Some(cpu) = self.cpus.get_mut(period.cpu.index()) else {
            return Err(ReplayError::TooFewCpus {
                cpu: period.cpu.0,
                machine: machine.name().to_owned(),
                cpus: machine.cpu_count(),
            });
        };
        let costs = machine.idle_states(period.cpu);
        if let Some(state) = period.state.filter(|state| *state >= costs.len()) {
            return Err(ReplayError::TooFewStates {
                state,
                cpu: period.cpu.0,
                machine: machine.name().to_owned(),
                states: costs.len(),
            });
        }
        if !period.aborted {
            count_traced(&mut self.traced, period, costs);
            if let Some(count) = self.wakes.get_mut(period.wake as usize) {
                *count += 1;
            }
            if let Some(below) = period.traced_miss_below {
                self.traced_miss_events[usize::from(below)] += 1;
            }
        }
        for (((follower, what_if), report), candidate) in
            cpu.lives.iter_mut().zip(&mut self.reports).zip(self.request.governors)
        {
            let followed = follower.decide(&cpu.states, period, self.survey.coverage.tick_stop);
            report.asked += 1;
            report.inferred += u64::from(followed.inferred);
            report.estimated += u64::from(period.estimated.any() || followed.inferred);
            if let Some(state) = period.state {
                report.compared += 1;
                report.agreed += u64::from(state == followed.choice.index);
            }
            if let Some(observe) = observe.as_deref_mut() {
                observe(&PeriodRow {
                    period,
                    name: &report.name,
                    choice: followed.choice,
                    sleep: followed.sleep,
                    inferred: followed.inferred,
                    details: &follower.governor().explain(cpu.states.len()),
                    governor: follower.governor(),
                    states: &cpu.states,
                });
            }
            follower.learn(&cpu.states, period, followed.choice);
            what_if.live(&cpu.states, costs, period);
            if let Some(failure) = candidate.failure() {
                return Err(ReplayError::Governor(failure));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<IdleReport, ReplayError> {
        for cpu in &self.cpus {
            for ((_, what_if), report) in cpu.lives.iter().zip(&mut self.reports) {
                report.tally.merge(&what_if.tally);
            }
        }
        if self.wakes.iter().sum::<u64>() == 0 {
            return Err(ReplayError::NoPeriods);
        }
        let (first_ns, last_ns) = self.survey.span_ns;
        Ok(IdleReport {
            traced: self.traced,
            governors: self.reports,
            tick_ns: self.tick_ns,
            event_cost_ns: self.survey.event_cost_ns,
            duration_ns: last_ns.saturating_sub(first_ns),
            coverage: self.survey.coverage,
            wakes: self.wakes,
            traced_miss_events: self.traced_miss_events,
        })
    }
}

/// Adds a period as the traced governor had it; without `cpu_idle` events its state is unknown.
fn count_traced(traced: &mut Tally, period: &Period, costs: &[IdleState]) {
    if let Some(state) = period.state {
        traced.add(costs, state, period.residency_ns, period.last);
    }
}
