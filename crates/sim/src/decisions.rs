//! Explained decisions, as many as are kept.

use schedlab_kernel::hardware::Decision;
use schedlab_machine::CpuId;

/// When, on which CPU, what.
pub type Explained = (u64, CpuId, Decision);

/// Decisions that a run keeps; each takes half a kibibyte and more, so these take 50 to 200 MiB.
pub const DECISIONS_MAX: usize = 100_000;

/// The first decisions of a run, and how many followed them.
#[derive(Debug, Default)]
pub struct Decisions {
    /// In the order in which they were made.
    pub kept: Vec<Explained>,
    /// Decisions after those.
    pub left_out: u64,
}

impl Decisions {
    /// Keeps a decision if there is room for it, else counts it.
    pub fn push(&mut self, explained: Explained) {
        if self.kept.len() < DECISIONS_MAX {
            self.kept.push(explained);
        } else {
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_kernel::fair::TaskId;
    use schedlab_kernel::hardware::Occasion;

    #[test]
    fn the_first_ones_are_kept_and_the_others_counted() {
        let mut decisions = Decisions::default();
        for time_ns in 0..DECISIONS_MAX as u64 + 3 {
            let (task, occasion, cpu) = (TaskId(0), Occasion::Fork, CpuId(0));
            let choices = Vec::new();
            let decision = Decision::Slow { task, occasion, from_cpu: cpu, choices, cpu };
            decisions.push((time_ns, cpu, decision));
        }
        assert_eq!((decisions.kept.len(), decisions.left_out), (DECISIONS_MAX, 3));
        assert_eq!(decisions.kept.last().map(|last| last.0), Some(DECISIONS_MAX as u64 - 1));
    }
}
