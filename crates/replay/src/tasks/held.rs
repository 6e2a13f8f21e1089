//! How long wake-ups were held up, as the host of a virtual machine ran another virtual CPU.

use super::context::Late;
use super::costs::PATH_MAX_NS;
use super::follow::Follower;
use super::track::{Did, State};
use schedlab_machine::CpuId;
use schedlab_trace::Pid;

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

    /// The task at `place` was woken to run on `cpu`.
    pub fn waits(&mut self, place: usize, since_ns: u64, cpu: CpuId) {
        if self.stream.is_some()
            && let Some(waiting) = self.waiting.get_mut(cpu.index())
        {
            waiting.push(place as u32);
            self.tracks[place].woken = Some((since_ns, cpu));
        }
    }

    /// `cpu` switches to `next`: until then, those that were woken there were held up for as long as
    /// other virtual CPUs had the stream.
    pub fn held_up(&mut self, cpu: CpuId, now_ns: u64, next: Pid) {
        let Some(stream) = &self.stream else { return };
        let paths_ns =
            self.costs.wakeup_ns + self.costs.idle_resched_ns + self.costs.context_switch_ns;
        let mut late = std::mem::take(&mut self.lates);
        for place in self.waiting[cpu.index()].drain(..) {
            let track = &mut self.tracks[place as usize];
            let Some((since_ns, on)) = track.woken.take() else { continue };
            let waited_ns = now_ns.saturating_sub(since_ns);
            if on != cpu || waited_ns <= PATH_MAX_NS {
                continue;
            }
            let (had_ns, most_ns) = stream.had_ns(cpu, since_ns);
            if most_ns > QUIET_PATHS * paths_ns {
                continue;
            }
            let time_ns = match track.pid == next {
                true => waited_ns.saturating_sub(paths_ns),
                false => waited_ns.saturating_sub(had_ns),
            };
            if time_ns > paths_ns / 2 {
                late.push(Late { task: track.pid, time_ns });
            }
        }
        for Late { task, time_ns } in late.drain(..) {
            self.late_by(task, time_ns);
        }
        self.lates = late;
    }
}
