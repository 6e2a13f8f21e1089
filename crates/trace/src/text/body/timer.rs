//! Timers and the tick (`include/trace/events/timer.h`).

use super::super::fields::{Broken, Fields, narrow, number, pointer};
use super::{Context, Decoded};
use crate::event::EventKind;
use crate::strings::StrId;

pub(super) fn hrtimer_start(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = Fields(body);
    let expires_ns = fields.number(b"expires=")?;
    let soft_expires_ns = fields.find(b"softexpires=").map_or(Ok(expires_ns), number)?;
    Ok(Some(EventKind::HrtimerStart {
        timer: hrtimer(fields)?,
        function: function(context, fields)?,
        expires_ns: expires_ns as i64,
        soft_expires_ns: soft_expires_ns as i64,
    }))
}

pub(super) fn hrtimer_expire_entry(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = Fields(body);
    Ok(Some(EventKind::HrtimerExpireEntry {
        timer: hrtimer(fields)?,
        function: function(context, fields)?,
        now_ns: fields.number(b"now=")? as i64,
    }))
}

pub(super) fn hrtimer_expire_exit(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    Ok(Some(EventKind::HrtimerExpireExit { timer: hrtimer(Fields(body))? }))
}

pub(super) fn hrtimer_cancel(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    Ok(Some(EventKind::HrtimerCancel { timer: hrtimer(Fields(body))? }))
}

fn hrtimer(fields: Fields<'_>) -> Result<u64, Broken> {
    pointer(fields.get(b"hrtimer=")?)
}

/// The callback's name; releases before 2.6.37 do not print it in every timer event.
fn function(context: &mut Context<'_>, fields: Fields<'_>) -> Result<StrId, Broken> {
    Ok(fields.find(b"function=").map_or(StrId::EMPTY, |word| context.function(word)))
}

/// `TIMER_DEFERRABLE` of Linux 4.8 and later, in raw prints; the kernel prints a letter.
const DEFERRABLE: u64 = 0x0008_0000;

/// `TIMER_DEFERRABLE` of Linux 4.2 to 4.7, which print the flags in hexadecimal.
const DEFERRABLE_UNNAMED: u64 = 0x0010_0000;

pub(super) fn timer_start(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = Fields(body);
    let expires_jiffies = fields.number(b"expires=")?;
    // The kernel prints the distance, from which the moment of the record follows.
    let timeout = fields.find(b"[timeout=").and_then(|word| word.strip_suffix(b"]"));
    let now_jiffies = match timeout {
        Some(timeout) => expires_jiffies.wrapping_sub(number(timeout)?),
        None => fields.find(b"now=").map_or(Ok(0), number)?,
    };
    let deferrable = match fields.find(b"flags=") {
        Some([b'0', b'x', digits @ ..]) => pointer(digits)? & DEFERRABLE_UNNAMED != 0,
        Some(flags) => number(flags).map_or(flags.contains(&b'D'), |flags| flags & DEFERRABLE != 0),
        None => false,
    };
    Ok(Some(EventKind::TimerStart {
        timer: timer(fields)?,
        function: function(context, fields)?,
        expires_jiffies,
        now_jiffies,
        deferrable,
    }))
}

pub(super) fn timer_expire_entry(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = Fields(body);
    Ok(Some(EventKind::TimerExpireEntry {
        timer: timer(fields)?,
        function: function(context, fields)?,
        now_jiffies: fields.number(b"now=")?,
    }))
}

pub(super) fn timer_cancel(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    Ok(Some(EventKind::TimerCancel { timer: timer(Fields(body))? }))
}

fn timer(fields: Fields<'_>) -> Result<u64, Broken> {
    pointer(fields.get(b"timer=")?)
}

pub(super) fn tick_stop(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = Fields(body);
    let success = match fields.get(b"success=")? {
        b"yes" => true,
        b"no" => false,
        word => number(word)? != 0,
    };
    // Before 4.3 there was a sentence (`msg=`) instead of the mask.
    let dependency = match fields.find(b"dependency=") {
        Some(word) => tick_dependency(word)?,
        None => 0,
    };
    Ok(Some(EventKind::TickStop { success, dependency }))
}

/// The bits of `TICK_DEP_MASK_*`, include/linux/tick.h, from their printed names.
fn tick_dependency(word: &[u8]) -> Result<u32, Broken> {
    Ok(match word {
        b"NONE" => 0,
        b"POSIX_TIMER" => 1,
        b"PERF_EVENTS" => 1 << 1,
        b"SCHED" => 1 << 2,
        b"CLOCK_UNSTABLE" => 1 << 3,
        b"RCU" => 1 << 4,
        b"RCU_EXP" => 1 << 5,
        _ => narrow(number(word)?)?,
    })
}
