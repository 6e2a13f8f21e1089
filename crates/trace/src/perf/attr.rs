//! `struct perf_event_attr`: what an event of the file is and how its records are laid out.
//! Offsets and bits from `include/uapi/linux/perf_event.h`, 6.12.

use crate::format::Abi;

/// `PERF_TYPE_TRACEPOINT`.
const TYPE_TRACEPOINT: u32 = 2;

/// Bits of `sample_type`.
pub(super) mod sample_type {
    pub(crate) const IP: u64 = 1 << 0;
    pub(crate) const TID: u64 = 1 << 1;
    pub(crate) const TIME: u64 = 1 << 2;
    pub(crate) const ADDR: u64 = 1 << 3;
    pub(crate) const READ: u64 = 1 << 4;
    pub(crate) const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const ID: u64 = 1 << 6;
    pub(crate) const CPU: u64 = 1 << 7;
    pub(crate) const PERIOD: u64 = 1 << 8;
    pub(crate) const STREAM_ID: u64 = 1 << 9;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of the flag word, counted as a little-endian machine does.
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;

/// What is used of a `perf_event_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attr {
    pub(super) is_tracepoint: bool,
    /// A tracepoint's number, else the event's own.
    pub(super) config: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    /// Records other than samples end in the fields that identify a sample.
    pub(super) sample_id_all: bool,
    /// The clock that was asked for; `None` is perf's own (`sched_clock`).
    pub(super) clock_id: Option<i32>,
}

impl Attr {
    /// The shortest that any perf has written (`PERF_ATTR_SIZE_VER0`).
    pub(super) const BYTES_MIN: usize = 64;

    /// Reads the attr at the start of `bytes`.
    pub(super) fn read(bytes: &[u8], abi: Abi) -> Option<Attr> {
        let flags = abi.u64_at(bytes, 40)?;
        // C bit fields start at the other end on a big-endian machine.
        let flags = if abi.big_endian { flags.reverse_bits() } else { flags };
        let clock_id = abi.u32_at(bytes, 92).filter(|_| flags & USE_CLOCKID != 0);
        Some(Attr {
            is_tracepoint: abi.u32_at(bytes, 0)? == TYPE_TRACEPOINT,
            config: abi.u64_at(bytes, 8)?,
            sample_type: abi.u64_at(bytes, 24)?,
            read_format: abi.u64_at(bytes, 32)?,
            sample_id_all: flags & SAMPLE_ID_ALL != 0,
            clock_id: clock_id.map(|id| id as i32),
        })
    }

    pub(super) fn has(&self, bits: u64) -> bool {
        self.sample_type & bits != 0
    }

    /// The trace clock as ftrace would name it.
    pub(super) fn clock_name(&self) -> &'static str {
        match self.clock_id {
            None => "perf",
            Some(0) => "real",
            Some(1) => "mono",
            Some(4) => "mono_raw",
            Some(7) => "boot",
            Some(11) => "tai",
            Some(_) => "",
        }
    }

    /// How many 64-bit words before a sample's id, if samples of this event have one.
    pub(super) fn sample_id_position(&self) -> Option<usize> {
        use sample_type::{ADDR, ID, IDENTIFIER, IP, TID, TIME};
        if self.has(IDENTIFIER) {
            return Some(0);
        }
        self.has(ID).then(|| (self.sample_type & (IP | TID | TIME | ADDR)).count_ones() as usize)
    }

    /// How many 64-bit words from the end of any other record its id stands.
    pub(super) fn record_id_position(&self) -> Option<usize> {
        use sample_type::{CPU, ID, IDENTIFIER, STREAM_ID};
        if !self.sample_id_all {
            return None;
        }
        if self.has(IDENTIFIER) {
            return Some(1);
        }
        self.has(ID).then(|| 1 + (self.sample_type & (CPU | STREAM_ID)).count_ones() as usize)
    }
}
