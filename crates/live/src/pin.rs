//! Threads that stay on a CPU.

use std::io;
use std::mem;

/// Binds the calling thread to a CPU (`sched_setaffinity()`).
///
/// # Errors
/// The CPU does not exist, or is not the process's to use.
pub fn to(cpu: u32) -> io::Result<()> {
    let named =
        |what: &dyn std::fmt::Display| format!("thread cannot be bound to CPU {cpu}: {what}");
    if cpu >= libc::CPU_SETSIZE as u32 {
        return Err(io::Error::other(named(&"no such CPU")));
    }
    // SAFETY: a CPU set is bits alone, of which none set is a valid one.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the number is within the set, as was just checked.
    unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    // SAFETY: the set is as long as the call is told, and 0 is the calling thread.
    let failed = unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &set) } != 0;
    if failed {
        return Err(io::Error::other(named(&io::Error::last_os_error())));
    }
    Ok(())
}
