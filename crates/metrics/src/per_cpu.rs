//! A value per CPU, grown on demand.

use schedlab_machine::{CPUS_MAX, CpuId};

/// One value for each CPU that has been named so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct PerCpu<T>(Vec<T>);

impl<T: Default> PerCpu<T> {
    /// The value of `cpu`, or `None` for a number beyond any machine, which only damaged input has.
    #[inline]
    pub(crate) fn get_mut(&mut self, cpu: CpuId) -> Option<&mut T> {
        if cpu.index() >= self.0.len() {
            self.grow(cpu);
        }
        self.0.get_mut(cpu.index())
    }

    #[cold]
    fn grow(&mut self, cpu: CpuId) {
        if cpu.index() < CPUS_MAX {
            self.0.resize_with(cpu.index() + 1, T::default);
        }
    }

    /// All values in CPU order, to change.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }

    /// All values in CPU order.
    pub(crate) fn into_iter(self) -> impl Iterator<Item = (CpuId, T)> {
        self.0.into_iter().enumerate().map(|(index, value)| (CpuId(index as u32), value))
    }
}
