//! Whether a workload ends by itself.

use crate::program::{Op, Workload};

impl Workload {
    /// True if its tasks end some time, or one ends all of them; false if some go on for ever.
    ///
    /// ```
    /// let ends = |name| schedlab_workload::load(name, 8).map(|workload| workload.ends());
    /// assert!(ends("sysbench-cpu")?);
    /// assert!(!ends("periodic")?);
    /// # Ok::<(), schedlab_workload::WorkloadError>(())
    /// ```
    pub fn ends(&self) -> bool {
        let ops = || self.programs.iter().flat_map(|program| program.ops.iter().enumerate());
        let goes_on = |(at, op): (usize, &Op)| matches!(*op, Op::Jump { to } if to as usize <= at);
        ops().any(|(_, op)| matches!(op, Op::ExitGroup)) || !ops().any(goes_on)
    }
}
