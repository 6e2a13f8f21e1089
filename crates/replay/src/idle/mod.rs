//! A trace's idle periods under other idle governors.
//!
//! # What is reconstructed
//!
//! Each CPU is followed through its idle loop ([`Period`] holds what a governor could ask at each
//! entry). Exact, where the trace has `cpu_idle`, `hrtimer_*` and `tick_stop` events: the state, the
//! time in it (less the cost of recording an event, which lies inside the measured time), whether
//! the tick ran, whether it fired before the governor looked back, and the next high-resolution
//! timer of that CPU, on which CPU a timer fires being taken from where it fires.
//!
//! # What is estimated, and how
//!
//! * *The idle entry time* from which sleep lengths count: the switch to the idle task, or the last
//!   event of the last interrupt, plus the cost of recording it. That cost is the smallest gap
//!   between two neighbouring events of a CPU; 0 if the trace's clock has whole microseconds only.
//! * *The timer wheel while the tick runs.* Nothing tells which timer-wheel timer comes next, so it
//!   is the tick at which the CPU next raises the `TIMER` softirq. Once the tick stops, its
//!   timer's expiry is the exact answer.
//! * *A tick that cannot stop*, so that the sleep length ends at it: if the next tick raises the
//!   `TIMER` or `RCU` softirq; and, for the agreement only, if the governor lets the tick stop and
//!   the trace shows that it went on.
//! * *Timers armed before the trace* are known from where and when they fire.
//! * *Without `hrtimer` events* the next timer is the next time that an interrupt on this CPU wakes
//!   a task from idle. *Without `tick_stop` events* the tick runs when a task leaves the CPU.
//!   *Without `cpu_idle` events* a period lasts from the switch to the idle task to the switch away.
//! * *Tasks waiting for I/O* (menu-6.1) are those in uninterruptible sleep that left this CPU.
//! * *Utilization* (`teo_util`, `idleutil`) is PELT rebuilt from the trace; see [`crate::pelt`].
//! * No latency limit (PM QoS) is in force.
//!
//! A period counts as estimated if its sleep length rests on an estimate: if the tick runs and
//! comes before the next high-resolution timer, or if the trace lacks the events.
//!
//! # Agreement and what-if
//!
//! Each governor runs twice. *Following*, it decides at each traced period and learns what really
//! happened; the share of periods in which it chooses the traced state is the agreement, and the
//! traced governor's is near 100 %. *Living its own life* it yields the figures; how its choices
//! change the periods is told in `whatif.rs`.

mod clock;
mod cpu;
mod follow;
mod memory;
mod period;
mod run;
mod states;
mod survey;
mod tally;
mod timers;
mod walk;
mod whatif;

pub use period::{Estimated, Period, Wake};
pub use run::{
    GovernorReport, IdleReport, IdleRequest, Observer, PeriodRow, ReplayError, replay_idle,
};
pub use survey::Coverage;
pub use tally::{Miss, Tally, classify, percent};
