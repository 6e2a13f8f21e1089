//! A ring buffer in the file: the top one, or that of an instance.

/// Where a buffer's pages are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffer {
    /// The instance's name; empty for the top buffer.
    pub(super) name: String,
    /// Where its section begins.
    pub(super) offset: u64,
    /// Size of its pages, where that differs from the file's.
    pub(super) page_bytes: Option<u32>,
    /// Where each CPU's pages are.
    pub(super) cpus: Vec<CpuData>,
}

/// One CPU's part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuData {
    pub(super) cpu: u32,
    pub(super) offset: u64,
    /// Bytes in the file: of pages, or of chunks of compressed pages.
    pub(super) length: u64,
}
