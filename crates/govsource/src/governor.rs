//! One CPU's governor in a process of its own.

use std::sync::{Arc, Mutex, PoisonError};

use schedlab_kernel::cpuidle::{
    Choice, Governor, IdleHardware, OwnGovernor, STATES_MAX, Served, State,
};

use crate::process::Process;
use crate::wire::{self, Request};

/// The governor of one CPU; all CPUs of a life share a process.
#[derive(Debug)]
pub(crate) struct CGovernor {
    cpu: u32,
    capacity: u64,
    /// What the process knows of the states.
    known: Vec<State>,
    process: Arc<Mutex<Process>>,
    poll_limit_ns: u64,
    save: bool,
}

/// As much of two lists of states as the process is told once.
fn alike(known: &[State], states: &[State]) -> bool {
    let same = |(a, b): (&State, &State)| {
        a.exit_latency_ns == b.exit_latency_ns
            && a.target_residency_ns == b.target_residency_ns
            && a.polling == b.polling
    };
    known.len() == states.len() && known.iter().zip(states).all(same)
}

impl CGovernor {
    /// The governor of a CPU that the process has yet to be told of.
    pub fn new(served: &Served<'_>, process: &Arc<Mutex<Process>>) -> Self {
        let mut governor = Self {
            cpu: served.cpu,
            capacity: served.config.capacity,
            known: Vec::new(),
            process: Arc::clone(process),
            poll_limit_ns: 0,
            save: false,
        };
        governor.introduce(served.states);
        governor
    }

    /// Tells the process of the CPU's states.
    fn introduce(&mut self, states: &[State]) {
        states.clone_into(&mut self.known);
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.tell(&Request::new(wire::STATES, self.cpu));
        process.add(|to| wire::write_states(self.capacity, states, to));
    }

    fn request(&self, kind: u32, states: &[State], hardware: &mut dyn IdleHardware) -> Request {
        let flag = |holds: bool, flag: u32| if holds { flag } else { 0 };
        Request {
            flags: flag(hardware.tick_stopped(), wire::TICK_STOPPED),
            disabled: wire::disabled(states),
            now_ns: hardware.now_ns(),
            latency_req_ns: hardware.latency_req_ns(),
            cpu_util: hardware.cpu_util(),
            nr_iowait: hardware.nr_iowait(),
            ..Request::new(kind, self.cpu)
        }
    }
}

impl Governor for CGovernor {
    fn select(&mut self, states: &[State], hardware: &mut dyn IdleHardware) -> Choice {
        let shallowest = Choice { index: 0, stop_tick: false };
        if states.is_empty() {
            return shallowest;
        }
        if !alike(&self.known, states) {
            self.introduce(states);
        }
        let mut request = self.request(wire::SELECT, states, hardware);
        let length = hardware.sleep_length();
        (request.sleep_ns, request.delta_next_ns) = (length.sleep_ns, length.delta_next_ns);
        if std::mem::take(&mut self.save) {
            request.flags |= wire::SAVE;
        }
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(answer) = process.ask(&request) else { return shallowest };
        let count = states.len().min(STATES_MAX);
        let index = usize::try_from(answer.index).ok().filter(|index| *index < count);
        let Some(index) = index.filter(|_| answer.kind == wire::CHOICE) else {
            let message = format!(
                "{}: select() on CPU {} chose state {}, but there are {count}, numbered from 0",
                process.file(),
                self.cpu,
                answer.index
            );
            process.fail(message);
            return shallowest;
        };
        self.poll_limit_ns = answer.poll_limit_ns;
        Choice { index, stop_tick: answer.stop_tick != 0 }
    }

    fn reflect(
        &mut self,
        states: &[State],
        index: usize,
        last_residency_ns: i64,
        hardware: &mut dyn IdleHardware,
    ) {
        if index >= states.len().min(STATES_MAX) {
            return;
        }
        let mut request = self.request(wire::REFLECT, states, hardware);
        if hardware.got_tick() {
            request.flags |= wire::GOT_TICK;
        }
        if states[index].polling && hardware.poll_time_limit() {
            request.flags |= wire::POLL_TIME_LIMIT;
        }
        request.residency_ns = last_residency_ns as u64;
        request.index = index as i32;
        self.process.lock().unwrap_or_else(PoisonError::into_inner).tell(&request);
    }

    fn reject(&mut self) {
        let request = Request::new(wire::REJECT, self.cpu);
        self.process.lock().unwrap_or_else(PoisonError::into_inner).tell(&request);
    }
}

impl OwnGovernor for CGovernor {
    fn save(&mut self) {
        self.save = true;
    }

    fn restore(&mut self) {
        let request = Request::new(wire::RESTORE, self.cpu);
        self.process.lock().unwrap_or_else(PoisonError::into_inner).tell(&request);
    }

    fn poll_limit_ns(&self) -> u64 {
        self.poll_limit_ns
    }
}
