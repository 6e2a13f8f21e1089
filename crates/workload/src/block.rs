//! What a block of memory asks of the machine.

use crate::program::{Block, Pattern, SPECIAL_BYTES, WORD_BYTES};
use schedlab_machine::Machine;

/// What bounds the speed of a pass through a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The core alone: it has every word in its own caches.
    Core,
    /// The hand-over of cache lines between the CPUs that store into them.
    Lines,
    /// The bandwidth of the last-level cache or, beyond it, of memory.
    Bandwidth,
}

impl Block {
    /// What bounds a pass, on a machine of whose caches enough is known.
    pub fn bound(&self, machine: &Machine) -> Bound {
        let limits = machine.memory_limits();
        let l2_bytes = limits.l2_bytes.unwrap_or(u64::MAX);
        let shared_bytes = limits.llc_bytes.unwrap_or(l2_bytes).max(l2_bytes);
        if !self.private && self.writes && self.bytes <= shared_bytes {
            Bound::Lines
        } else if self.bytes <= l2_bytes {
            Bound::Core
        } else {
            Bound::Bandwidth
        }
    }

    /// Bytes that a pass moves when the block is in no cache of its core: a store fetches its line
    /// and writes it back later.
    pub fn traffic_bytes(&self) -> u64 {
        if self.writes { 2 * self.bytes } else { self.bytes }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.bytes < WORD_BYTES || !self.bytes.is_multiple_of(WORD_BYTES) {
            let what = "it is no number of words; give it a multiple of";
            return Err(format!("{} bytes: {what} {WORD_BYTES}", self.bytes));
        }
        if self.pattern == Pattern::Special && self.bytes != SPECIAL_BYTES {
            let what =
                "is modelled for blocks of 1024 bytes only; choose that size, or another order";
            return Err(format!("sysbench's special distribution {what}"));
        }
        if self.pass_ps == 0 {
            return Err("a pass takes no time; give it 1 ps or more".into());
        }
        Ok(())
    }

    pub(crate) fn check_on(&self, machine: &Machine) -> Result<(), String> {
        let limits = machine.memory_limits();
        let several = machine.topology().packages().len() > 1;
        let need = |known: Option<u64>, key: &str| match known {
            Some(_) => Ok(()),
            None => Err(format!(
                "passes through a block of {} bytes depend on {key}, which machine {} does not \
                 say; write memory.{key} into its file",
                self.bytes,
                machine.name()
            )),
        };
        need(limits.l2_bytes, "l2_kib")?;
        match self.bound(machine) {
            Bound::Core => {}
            Bound::Lines if self.pattern != Pattern::Sequential => {
                need(limits.stores_per_transfer_permille, "stores_per_transfer")?;
            }
            Bound::Lines => {}
            Bound::Bandwidth if self.pattern != Pattern::Sequential => {
                return Err(format!(
                    "random passes through a block of {} bytes, more than the caches hold, are not \
                     modelled; choose a smaller block or sequential passes",
                    self.bytes
                ));
            }
            Bound::Bandwidth => {
                need(limits.llc_bytes, "llc_kib")?;
                need(limits.llc_core_mb_per_s, "llc_core_gb_per_s")?;
                need(limits.core_mb_per_s, "core_gb_per_s")?;
                need(limits.node_mb_per_s, "node_gb_per_s")?;
                if several {
                    need(limits.package_link_mb_per_s, "package_link_gb_per_s")?;
                }
            }
        }
        Ok(())
    }
}
