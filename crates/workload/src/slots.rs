//! What a program keeps in its slots: each holds times, a choice or a count, and never two of them.

use crate::program::{ObjectKind, Op, SLOTS, Slot, Which, Workload};
use crate::validate::Kind;

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Time,
    Choice,
    Count,
}

impl Use {
    fn noun(self) -> &'static str {
        match self {
            Use::Time => "a time",
            Use::Choice => "a picked object",
            Use::Count => "a loop's count",
        }
    }
}

/// The slots that an operation uses, with what it takes them to hold.
fn uses(op: &Op) -> Vec<(Slot, Use)> {
    let own = match *op {
        Op::Timer { slot, .. }
        | Op::RestartingTimer { slot, .. }
        | Op::AwaitServed { slot, .. }
        | Op::Mark(slot)
        | Op::Measure { since: slot, .. }
        | Op::MeasureBeyond { since: slot, .. } => Some((slot, Use::Time)),
        Op::SleepUntil { slot, .. } => slot.map(|slot| (slot, Use::Time)),
        Op::Pick { slot, .. } => Some((slot, Use::Choice)),
        Op::Repeat { slot, .. } => Some((slot, Use::Count)),
        _ => None,
    };
    let picked = op.objects().into_iter().filter_map(|(which, _)| match which {
        Which::Picked(slot) => Some((slot, Use::Choice)),
        _ => None,
    });
    own.into_iter().chain(picked).collect()
}

impl Workload {
    /// Checks the slots of the operation at `at`.
    pub(crate) fn check_slots(&self, at: usize, ops: &[Op]) -> Result<(), String> {
        for (slot, own) in uses(&ops[at]) {
            if usize::from(slot.0) >= SLOTS {
                return Err(format!("slot {} does not exist; a task has {SLOTS}", slot.0));
            }
            let mut others = ops.iter().flat_map(uses).filter(|(other, _)| *other == slot);
            if let Some((_, other)) = others.find(|(_, other)| *other != own) {
                return Err(format!(
                    "slot {} would hold {} here, and {} elsewhere; use two slots",
                    slot.0,
                    own.noun(),
                    other.noun()
                ));
            }
        }
        let picked = ops[at].objects().into_iter().filter_map(|(which, kind)| match which {
            Which::Picked(slot) => Some((slot, kind)),
            _ => None,
        });
        for (slot, kind) in picked {
            self.check_picked(slot, kind, at, ops)?;
        }
        Ok(())
    }

    /// Whatever was picked into a slot must be of the kind that is wanted of it.
    fn check_picked(
        &self,
        slot: Slot,
        (noun, fits): Kind,
        at: usize,
        ops: &[Op],
    ) -> Result<(), String> {
        if matches!(ops[at], Op::Pick { .. }) {
            return Err("it would pick what was picked; use that slot instead".into());
        }
        let picks = ops.iter().enumerate().filter_map(|(index, op)| match *op {
            Op::Pick { slot: other, which } if other == slot => Some((index, which)),
            _ => None,
        });
        let mut earlier = false;
        for (index, which) in picks {
            earlier |= index < at;
            for id in self.range(which)? {
                let kind: &ObjectKind = &self.objects[id as usize];
                if !fits(kind) {
                    return Err(format!("picked object {id} is {kind:?}; it must be a {noun}"));
                }
            }
        }
        if earlier { Ok(()) } else { Err(format!("nothing was picked into slot {}", slot.0)) }
    }
}
