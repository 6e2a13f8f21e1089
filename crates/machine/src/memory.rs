//! Cache sizes and memory bandwidth: what bounds tasks that stream through memory.

/// A limit by its name in files, with how many units of the model one unit of the file is.
type Field = (&'static str, f64, fn(&mut MemoryLimits) -> &mut Option<u64>);

/// Cache sizes and bandwidths; each is absent where nobody knows it, and a workload that needs it
/// is then refused by name. Bandwidths are in bytes per microsecond, which is MB/s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Size of the caches that a core has to itself, bytes.
    pub l2_bytes: Option<u64>,
    /// Size of one last-level cache, bytes.
    pub llc_bytes: Option<u64>,
    /// What one core moves from and to its last-level cache, MB/s.
    pub llc_core_mb_per_s: Option<u64>,
    /// What one core moves from and to memory of its own node, MB/s.
    pub core_mb_per_s: Option<u64>,
    /// What the memory controllers of one node move, MB/s.
    pub node_mb_per_s: Option<u64>,
    /// What the link between two packages moves, MB/s.
    pub package_link_mb_per_s: Option<u64>,
    /// Thousandths of the number of stores by which one hand-over of a contended line is shared:
    /// while a CPU waits for a line, its store buffer collects further stores to it.
    pub stores_per_transfer_permille: Option<u64>,
}

impl MemoryLimits {
    /// Every limit by its name in files.
    pub(crate) const FIELDS: &[Field] = &[
        ("l2_kib", 1024.0, |limits| &mut limits.l2_bytes),
        ("llc_kib", 1024.0, |limits| &mut limits.llc_bytes),
        ("llc_core_gb_per_s", 1e3, |limits| &mut limits.llc_core_mb_per_s),
        ("core_gb_per_s", 1e3, |limits| &mut limits.core_mb_per_s),
        ("node_gb_per_s", 1e3, |limits| &mut limits.node_mb_per_s),
        ("package_link_gb_per_s", 1e3, |limits| &mut limits.package_link_mb_per_s),
        ("stores_per_transfer", 1e3, |limits| &mut limits.stores_per_transfer_permille),
    ];

    /// Each limit that is known: its name in files and its value there.
    pub fn known(&self) -> Vec<(&'static str, f64)> {
        let mut limits = self.clone();
        let fields = Self::FIELDS.iter();
        fields
            .filter_map(|(name, scale, field)| {
                field(&mut limits).map(|v| (*name, v as f64 / scale))
            })
            .collect()
    }
}
