//! `prev_state` of `sched_switch`, printed as letters or as a bare number.

use super::fields::{Broken, number};
use crate::event::TaskState;

/// Which release's numbers a file holds. Text carries no print format, so the numbers that only
/// one of the two encodings uses tell.
///
/// Until 4.13 the number was `p->state` (`TASK_DEAD` 64, a preempted task above all states); since
/// 4.14 it is `task_state_index` turned back into a bit (`EXIT_DEAD` 16, `EXIT_ZOMBIE` 32, parked
/// 64, idle 128, preempted 256): include/linux/sched.h, include/trace/events/sched.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Encoding {
    #[default]
    Unknown,
    Until4_13,
    Since4_14,
}

/// Translates states, and learns which encoding the file has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct States {
    encoding: Encoding,
    /// The printing plugin has the later table of letters.
    has_later_letters: bool,
}

impl States {
    /// The state that `word` prints.
    #[inline]
    pub(super) fn parse(&mut self, word: &[u8]) -> Result<TaskState, Broken> {
        match word {
            [] => Err(Broken),
            [b'0'..=b'9', ..] => Ok(self.translate(number(word)?)),
            _ => Ok(TaskState::from_letters(std::str::from_utf8(word).or(Err(Broken))?)),
        }
    }

    /// The state behind the letter of trace-cmd's plugin, which names the bits of the number by a
    /// fixed table whatever the kernel meant by them: `SDTtZXxW` at first, `SDTtXZPI` in later
    /// releases, which the letters that only these have tell.
    #[inline]
    pub(super) fn parse_plugin(&mut self, word: &[u8]) -> Result<TaskState, Broken> {
        let bit = match word {
            b"P" | b"I" => {
                self.has_later_letters = true;
                return self.parse(word);
            }
            b"X" | b"Z" if self.has_later_letters => return self.parse(word),
            b"Z" => 16,
            b"X" => 32,
            b"x" => 64,
            b"W" => 128,
            _ => return self.parse(word),
        };
        Ok(self.translate(bit))
    }

    fn translate(&mut self, value: u64) -> TaskState {
        match value {
            16 | 32 | 128 | 256 => self.encoding = Encoding::Since4_14,
            1024.. => self.encoding = Encoding::Until4_13,
            _ => {}
        }
        if value == 0 {
            return TaskState::Running;
        }
        // The kernel prints the bits from the lowest on, and the first letter decides.
        match value & value.wrapping_neg() {
            1 => TaskState::Sleeping,
            2 => TaskState::DiskSleep,
            4 => TaskState::Stopped,
            8 => TaskState::Traced,
            16 => TaskState::Dead,
            32 => TaskState::Zombie,
            64 if self.encoding == Encoding::Since4_14 => TaskState::Parked,
            64 => TaskState::Dead,
            128 => TaskState::Idle,
            256 => TaskState::Preempted,
            512 => TaskState::Parked,
            1024.. => TaskState::Preempted,
            _ => TaskState::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_numbers_mean_the_same() {
        let mut states = States::default();
        for (word, state) in [
            ("R", TaskState::Running),
            ("R+", TaskState::Preempted),
            ("D|K", TaskState::DiskSleep),
            ("0", TaskState::Running),
            ("1", TaskState::Sleeping),
            ("130", TaskState::DiskSleep),
            ("64", TaskState::Dead),
            ("4096", TaskState::Preempted),
        ] {
            assert_eq!(states.parse(word.as_bytes()), Ok(state), "{word}");
        }
        assert_eq!(states.parse(b""), Err(Broken));
        assert_eq!(states.parse(b"1x"), Err(Broken));
    }

    #[test]
    fn plugin_letters_stand_for_bits() {
        let mut states = States::default();
        assert_eq!(states.parse_plugin(b"x"), Ok(TaskState::Dead));
        assert_eq!(states.parse_plugin(b"W"), Ok(TaskState::Idle));
        assert_eq!(states.parse_plugin(b"x"), Ok(TaskState::Parked));
        assert_eq!(states.parse_plugin(b"S"), Ok(TaskState::Sleeping));
        assert_eq!(states.parse_plugin(b"Z"), Ok(TaskState::Dead));
        assert_eq!(states.parse_plugin(b"X"), Ok(TaskState::Zombie));
        assert_eq!(states.parse_plugin(b"I"), Ok(TaskState::Idle));
        assert_eq!(states.parse_plugin(b"Z"), Ok(TaskState::Zombie));
    }

    #[test]
    fn sixty_four_follows_what_the_file_showed() {
        let mut states = States::default();
        assert_eq!(states.parse(b"32"), Ok(TaskState::Zombie));
        assert_eq!(states.parse(b"64"), Ok(TaskState::Parked));
        assert_eq!(states.parse(b"2048"), Ok(TaskState::Preempted));
        assert_eq!(states.parse(b"64"), Ok(TaskState::Dead));
    }
}
