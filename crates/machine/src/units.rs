//! Identifiers that every room shares.

use std::fmt;

/// The widest machine that schedlab handles, in logical CPUs.
pub const CPUS_MAX: usize = 2048;

/// A logical CPU by its kernel number, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

impl CpuId {
    /// The number as an index into per-CPU arrays.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
