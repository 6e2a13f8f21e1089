//! Sections in which a task stays on its CPU ([`Op::MigrateDisable`] to [`Op::MigrateEnable`]):
//! every operation is within equally many of them however a task comes to it.

use crate::program::{Op, Workload};

/// How many sections may stand within one another.
const DEPTH_MAX: u16 = 1000;

impl Workload {
    /// True if some task asks to stay on its CPU for a while.
    pub fn disables_migration(&self) -> bool {
        let mut ops = self.programs.iter().flat_map(|program| &program.ops);
        ops.any(|op| matches!(op, Op::MigrateDisable))
    }
}

/// Follows every way through a program. Gives the place of the operation that does not fit, and why.
pub(crate) fn check_sections(ops: &[Op]) -> Result<(), (usize, String)> {
    // Within how many sections each operation stands; running off the end is one more place.
    let mut depths: Vec<Option<u16>> = vec![None; ops.len() + 1];
    let mut ways = vec![(0, 0_u16, 0)];
    while let Some((at, depth, from)) = ways.pop() {
        let fail = |at: usize, what: &str| Err((at, what.to_owned()));
        match depths[at] {
            Some(known) if known == depth => continue,
            Some(_) => {
                return fail(from, "one way leads into a section without migration, another not");
            }
            None => depths[at] = Some(depth),
        }
        let Some(op) = ops.get(at) else {
            if depth > 0 {
                return fail(
                    from,
                    "the task ends in a section without migration; MigrateEnable first",
                );
            }
            continue;
        };
        let after = match *op {
            Op::MigrateDisable if depth == DEPTH_MAX => {
                return fail(at, "too many sections without migration stand within one another");
            }
            Op::MigrateDisable => depth + 1,
            Op::MigrateEnable if depth == 0 => {
                return fail(at, "no section without migration is left here; MigrateDisable first");
            }
            Op::MigrateEnable => depth - 1,
            Op::Exec | Op::Exit | Op::SetAffinity { .. } if depth > 0 => {
                return fail(at, "not in a section without migration; MigrateEnable first");
            }
            _ => depth,
        };
        match *op {
            Op::Exit | Op::ExitGroup => {}
            Op::Jump { to } => ways.push(((to as usize).min(ops.len()), after, at)),
            Op::Repeat { to, .. } => {
                ways.push(((to as usize).min(at), after, at));
                ways.push((at + 1, after, at));
            }
            _ => ways.push((at + 1, after, at)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_sections;
    use crate::program::{Op, Slot};

    #[test]
    fn every_way_leads_through_equally_many_sections() {
        let (on, off) = (Op::MigrateDisable, Op::MigrateEnable);
        let again = |to| Op::Repeat { slot: Slot(0), to, times: 2 };
        let place = |ops: &[Op]| check_sections(ops).err().map(|(at, _)| at);
        assert_eq!(place(&[on, Op::Yield, on, off, again(2), off]), None);
        assert_eq!(place(&[on, off, Op::Jump { to: 0 }]), None);
        // Nothing ends the section, and nothing began it.
        assert_eq!(place(&[Op::Yield, on]), Some(1));
        assert_eq!(place(&[Op::Yield, off]), Some(1));
        // The second round begins within the section of the first.
        assert_eq!(place(&[on, again(0), off]), Some(1));
        assert_eq!(place(&[on, Op::Jump { to: 3 }, on, off]), None);
        assert_eq!(place(&[on, Op::Exec, off]), Some(1));
        assert_eq!(place(&[on, Op::ExitGroup]), None);
    }
}
