//! The calling thread's cycles, where `perf_event_open()` is permitted and the machine counts them:
//! virtual machines often do not.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;

/// `struct perf_event_attr` as its first version had it, which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// `PERF_TYPE_HARDWARE`; `PERF_COUNT_HW_CPU_CYCLES` is its event 0.
const HARDWARE: u32 = 0;

/// `exclude_kernel` and `exclude_hv`.
const USER_ONLY: u64 = 1 << 5 | 1 << 6;

/// A running counter.
pub struct Counter(File);

impl Counter {
    /// Counts the calling thread's cycles in user space from now on; none if that is not to be had.
    pub fn open() -> Option<Counter> {
        let attributes = Attributes {
            kind: HARDWARE,
            size: size_of::<Attributes>() as u32,
            flags: USER_ONLY,
            ..Attributes::default()
        };
        // SAFETY: the structure is as long as it says, and lives during the call; the other arguments
        // ask for the calling thread on any CPU, in no group and without flags.
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, -1, 0_u64)
        };
        let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0)?;
        // SAFETY: the descriptor was just opened, and nobody else knows of it.
        Some(Counter(unsafe { File::from_raw_fd(fd) }))
    }

    /// Cycles so far.
    pub fn read(&mut self) -> Option<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact(&mut bytes).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }
}
