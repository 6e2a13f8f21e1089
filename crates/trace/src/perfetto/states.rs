//! What the number in `prev_state` means. Perfetto stores it raw, and the kernel renumbered it in
//! 4.14 (commits 3054426dc68e and efb40f588b43), so the trace's kernel release decides.

use crate::event::TaskState;

/// How one kernel release numbers `prev_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrevStates {
    /// State bits, lowest first; the lowest that is set names the state.
    bits: &'static [(i64, TaskState)],
    /// Set with nothing else for a task that is preempted while runnable.
    preempted: i64,
}

/// `TASK_REPORT` and `TASK_REPORT_IDLE` of `include/linux/sched.h`, 4.14 to 6.12.
const REPORT: &[(i64, TaskState)] = &[
    (0x01, TaskState::Sleeping),
    (0x02, TaskState::DiskSleep),
    (0x04, TaskState::Stopped),
    (0x08, TaskState::Traced),
    (0x10, TaskState::Dead),
    (0x20, TaskState::Zombie),
    (0x40, TaskState::Parked),
    (0x80, TaskState::Idle),
    (0x200, TaskState::Other),
];

/// `p->state` itself, as the print format of `sched_switch` names its bits in 3.9 to 4.13.
const RAW: &[(i64, TaskState)] = &[
    (0x01, TaskState::Sleeping),
    (0x02, TaskState::DiskSleep),
    (0x04, TaskState::Stopped),
    (0x08, TaskState::Traced),
    (0x10, TaskState::Zombie),
    (0x20, TaskState::Dead),
    (0x40, TaskState::Dead),
    (0x80, TaskState::Other),
    (0x100, TaskState::Other),
    (0x200, TaskState::Parked),
];

impl PrevStates {
    /// The numbers of `release`, such as `5.10.149-android13`; of today's kernels where it is
    /// empty or illegible.
    pub(crate) fn of_release(release: &str) -> PrevStates {
        let mut numbers = release
            .split(|letter: char| !letter.is_ascii_digit())
            .map(|digits| digits.parse::<u32>().ok());
        let preempted = match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(major), Some(minor)) if (major, minor) < (4, 2) => 0x400,
            (Some(major), Some(minor)) if (major, minor) < (4, 8) => 0x800,
            (Some(major), Some(minor)) if (major, minor) < (4, 14) => 0x1000,
            _ => return PrevStates { bits: REPORT, preempted: 0x100 },
        };
        PrevStates { bits: RAW, preempted }
    }

    #[inline]
    pub(crate) fn decode(self, raw: i64) -> TaskState {
        if raw == 0 {
            return TaskState::Running;
        }
        match self.bits.iter().find(|(bit, _)| raw & bit != 0) {
            Some(&(_, state)) => state,
            None if raw & self.preempted != 0 => TaskState::Preempted,
            None => TaskState::Other,
        }
    }

    /// The number that [`PrevStates::decode`] turns back into `state`. Kernels before 4.14 have
    /// none for an idle kernel thread: it is an uninterruptible sleep there.
    pub(crate) fn encode(self, state: TaskState) -> i64 {
        match state {
            TaskState::Running => 0,
            TaskState::Preempted => self.preempted,
            other => match self.bits.iter().find(|(_, known)| *known == other) {
                Some(&(bit, _)) => bit,
                None => 0x02,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [TaskState; 11] = [
        TaskState::Running,
        TaskState::Preempted,
        TaskState::Sleeping,
        TaskState::DiskSleep,
        TaskState::Stopped,
        TaskState::Traced,
        TaskState::Dead,
        TaskState::Zombie,
        TaskState::Parked,
        TaskState::Other,
        TaskState::Idle,
    ];

    #[test]
    fn every_state_survives_the_way_there_and_back() {
        for release in ["", "6.12.117", "4.14.0", "4.13.16-generic", "4.4.7", "3.18.0"] {
            let states = PrevStates::of_release(release);
            for state in &ALL[..10] {
                assert_eq!(states.decode(states.encode(*state)), *state, "{release}");
            }
        }
        assert_eq!(PrevStates::of_release("6.1").decode(0x80), TaskState::Idle);
    }

    #[test]
    fn releases_differ_as_their_headers_do() {
        let (old, new) = (PrevStates::of_release("4.9.1"), PrevStates::of_release("5.10.0-8"));
        assert_eq!(new.decode(0x100), TaskState::Preempted);
        assert_eq!(old.decode(0x1000), TaskState::Preempted);
        assert_eq!((new.decode(0x10), old.decode(0x10)), (TaskState::Dead, TaskState::Zombie));
        assert_eq!(
            (new.decode(0x82), old.decode(0x82)),
            (TaskState::DiskSleep, TaskState::DiskSleep)
        );
        assert_eq!(PrevStates::of_release("rolling"), PrevStates::of_release(""));
    }
}
