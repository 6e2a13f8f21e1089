//! How long wake-ups were held up, as the host of a virtual machine ran another virtual CPU.

use super::context::Late;
use super::costs::PATH_MAX_NS;
use super::follow::Follower;
use super::track::{Did, Kind, State};
use schedlab_machine::CpuId;
use schedlab_trace::{Event, Pid};
use schedlab_workload::recorded::RecordedInterrupt;

/// A CPU that had the stream at a time for longer than so many wake-ups take did more than handle an
/// interrupt, which may serve several timers, the tick and softirqs.
const QUIET_PATHS: u64 = 4;

impl Follower<'_> {
    /// A woken task waited for a CPU that recorded nothing meanwhile.
    pub fn late(&mut self, late: Late) {
        let Some(&place) = self.places.get(&late.task) else { return };
        let track = &mut self.tracks[place as usize];
        if track.state != State::Runnable {
            return;
        }
        match track.did.last_mut() {
            Some(Did::Late(time_ns)) => *time_ns += late.time_ns,
            Some(Did::Timer(_) | Did::Device(_) | Did::Await) | None => {
                track.did.push(Did::Late(late.time_ns));
            }
            // It was woken before, and lost its CPU to another task since.
            Some(_) => return,
        }
        self.late += 1;
        self.late_ns += late.time_ns;
    }

    /// The wake-up of a task was held up for so long in all.
    fn late_by(&mut self, task: Pid, time_ns: u64) {
        let Some(&place) = self.places.get(&task) else { return };
        let did = &mut self.tracks[place as usize].did;
        match did.last_mut() {
            Some(Did::Late(known_ns)) => {
                self.late_ns += time_ns.saturating_sub(*known_ns);
                *known_ns = time_ns.max(*known_ns);
            }
            Some(Did::Timer(_) | Did::Device(_) | Did::Await) | None => {
                did.push(Did::Late(time_ns));
                self.late += 1;
                self.late_ns += time_ns;
            }
            Some(_) => {}
        }
    }

    /// The task at `place` runs: while another virtual CPU had the stream, it was not held up for
    /// longer than it waited.
    pub fn waited(&mut self, place: usize, now_ns: u64) {
        if self.stream.is_none() {
            return;
        }
        let track = &mut self.tracks[place];
        let Some(woken_ns) = track.waking_ns.take() else { return };
        let paths_ns =
            self.costs.wakeup_ns + self.costs.idle_resched_ns + self.costs.context_switch_ns;
        let most_ns = now_ns.saturating_sub(woken_ns.saturating_add(paths_ns));
        if let Some(Did::Late(time_ns)) = track.did.last_mut() {
            self.late_ns -= time_ns.saturating_sub(most_ns);
            *time_ns = most_ns.min(*time_ns);
        }
    }

    /// Who has waited for the CPU whose interrupt wakes the task at `place`, if that is the thread
    /// which does softirqs later: an interrupt leaves the rest of them to it as soon as the CPU is to
    /// run another task (`__do_softirq()` in kernel/softirq.c, Linux 6.12), so that it comes with the
    /// other's wait.
    pub fn kept_waiting(&self, event: &Event, place: usize, target_cpu: CpuId) -> Option<u32> {
        let thread = &self.tracks[place];
        let sleeps = matches!(thread.state, State::Unseen | State::Asleep);
        if thread.kind != Kind::Softirqd || !sleeps || target_cpu != event.cpu {
            return None;
        }
        let waits = |other: &&u32| {
            let track = &self.tracks[**other as usize];
            track.state == State::Runnable
                && track.kind != Kind::Softirqd
                && track.woken.is_some_and(|(_, cpu)| cpu == event.cpu)
                && track.brings.is_none()
        };
        self.waiting.get(event.cpu.index())?.iter().rev().find(waits).copied()
    }

    /// What the task at `place` waited for on `cpu` woke another one, too.
    pub fn brings(&mut self, place: usize, cpu: CpuId) {
        let track = &mut self.tracks[place];
        let Some((other, at_ns)) = track.brings.take() else { return };
        track.did.push(Did::Brought(other));
        let wakes = Some(other);
        self.brought.push(RecordedInterrupt { cpu: cpu.0, at_ns, length_ns: 0, wakes });
    }

    /// The task at `place` was woken to run on `cpu`.
    pub fn waits(&mut self, place: usize, since_ns: u64, cpu: CpuId) {
        if self.stream.is_some()
            && let Some(waiting) = self.waiting.get_mut(cpu.index())
        {
            waiting.push(place as u32);
            self.tracks[place].woken = Some((since_ns, cpu));
        }
    }

    /// A task that was woken goes to another CPU before it runs.
    pub fn goes(&mut self, task: Pid, to_cpu: CpuId) {
        let Some(&place) = self.places.get(&task) else { return };
        if let Some((since_ns, on)) = self.tracks[place as usize].woken
            && on != to_cpu
        {
            self.waits(place as usize, since_ns, to_cpu);
        }
    }

    /// `cpu` switches to `next`: until then, those that were woken there were held up for as long as
    /// other virtual CPUs had the stream.
    pub fn held_up(&mut self, cpu: CpuId, now_ns: u64, next: Pid) {
        let Some(stream) = &self.stream else { return };
        let paths_ns =
            self.costs.wakeup_ns + self.costs.idle_resched_ns + self.costs.context_switch_ns;
        let idles = self.contexts.idles(cpu);
        let mut apart = Vec::new();
        let mut late = std::mem::take(&mut self.lates);
        for place in self.waiting[cpu.index()].drain(..) {
            let track = &mut self.tracks[place as usize];
            let Some((since_ns, _)) = track.woken.filter(|(_, on)| *on == cpu) else { continue };
            track.woken = None;
            let waited_ns = now_ns.saturating_sub(since_ns);
            let (had_ns, most_ns) = stream.had_ns(cpu, since_ns);
            if most_ns > QUIET_PATHS * paths_ns {
                // It waited for more than an interrupt.
                apart.extend(track.brings.take());
                continue;
            }
            if waited_ns <= PATH_MAX_NS {
                continue;
            }
            let brings_ns = if track.brings.is_some() { self.costs.wakeup_ns } else { 0 };
            // All that an idle CPU did was an interrupt's, whoever runs then.
            let time_ns = match track.pid == next || idles {
                true => waited_ns.saturating_sub(paths_ns + brings_ns),
                false => waited_ns.saturating_sub(had_ns),
            };
            if time_ns > paths_ns / 2 || (brings_ns > 0 && time_ns > 0) {
                late.push(Late { task: track.pid, time_ns });
            }
        }
        for Late { task, time_ns } in late.drain(..) {
            self.late_by(task, time_ns);
        }
        self.lates = late;
        for (place, at_ns) in apart {
            self.arrives(cpu, at_ns, 0, Some(place));
        }
    }
}
