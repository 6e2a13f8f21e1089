//! Tracepoints of `include/trace/events/sched.h`, in the kernel's own print and in the shorter one
//! of trace-cmd's `sched_switch` plugin (`comm:pid [prio] S ==> comm:pid [prio]`).

use super::super::fields::{Broken, Fields, cpu, pid, signed};
use super::super::header::trim_end;
use super::{Context, Decoded};
use crate::event::{EventKind, Task, TaskState};
use memchr::memmem;
use schedlab_machine::CpuId;

pub(super) fn switch(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = Fields(body);
    if !body.starts_with(b"prev_comm=") {
        return switch_of_plugin(context, body);
    }
    let (prev_comm, fields) = fields.comm(b"prev_comm=", b" prev_pid=")?;
    let prev = context.task(prev_comm, fields.get(b"prev_pid=")?)?;
    let prev_prio = signed(fields.get(b"prev_prio=")?)?;
    let prev_state = context.states.parse(fields.get(b"prev_state=")?)?;
    let (next_comm, fields) = fields.comm(b"next_comm=", b" next_pid=")?;
    let next = context.task(next_comm, fields.get(b"next_pid=")?)?;
    let next_prio = signed(fields.get(b"next_prio=")?)?;
    Ok(Some(EventKind::Switch { prev, prev_prio, prev_state, next, next_prio }))
}

fn switch_of_plugin(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    const ARROW: &[u8] = b" ==> ";
    // A name may hold the arrow, so the split is where both sides are well formed.
    for arrow in memmem::rfind_iter(body, ARROW) {
        let (left, right) = (&body[..arrow], &body[arrow + ARROW.len()..]);
        let Ok(next) = tagged(trim_end(right)) else { continue };
        let Some(blank) = left.iter().rposition(|&byte| byte == b' ') else { continue };
        let Ok(prev) = tagged(&left[..blank]) else { continue };
        let (prev_prio, next_prio) = (signed(prev.prio)?, signed(next.prio)?);
        let prev = context.task(prev.comm, prev.pid)?;
        let next = context.task(next.comm, next.pid)?;
        let prev_state = context.states.parse_plugin(&left[blank + 1..])?;
        if prev_state == TaskState::Running && prev.pid.0 != 0 {
            *context.preemption_unmarked = true;
        }
        return Ok(Some(EventKind::Switch { prev, prev_prio, prev_state, next, next_prio }));
    }
    Err(Broken)
}

pub(super) fn waking(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    woken(context, body, |task, prio, target_cpu| EventKind::Waking { task, prio, target_cpu })
}

pub(super) fn wakeup(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    woken(context, body, |task, prio, target_cpu| EventKind::Wakeup { task, prio, target_cpu })
}

pub(super) fn wakeup_new(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    woken(context, body, |task, prio, target_cpu| EventKind::WakeupNew { task, prio, target_cpu })
}

/// One of the three, or `None` when the event says that there was nothing to wake (`success=0`,
/// which kernels before 4.3 recorded too).
fn woken(
    context: &mut Context<'_>,
    body: &[u8],
    kind: impl FnOnce(Task, i32, CpuId) -> EventKind,
) -> Decoded {
    if body.starts_with(b"comm=")
        && let Ok((comm, fields)) = Fields(body).comm(b"comm=", b" pid=")
    {
        let task = context.task(comm, fields.get(b"pid=")?)?;
        let prio = signed(fields.get(b"prio=")?)?;
        let target_cpu = cpu(fields.get(b"target_cpu=")?)?;
        let failed = fields.find(b"success=") == Some(b"0");
        return Ok((!failed).then(|| kind(task, prio, target_cpu)));
    }
    // `comm:pid [prio] success=1 CPU:001`
    const CPU: &[u8] = b" CPU:";
    let at = memmem::rfind(body, CPU).ok_or(Broken)?;
    let target_cpu = cpu(trim_end(&body[at + CPU.len()..]))?;
    let text = &body[..at];
    let tag = text.iter().rposition(|&byte| byte == b']').ok_or(Broken)?;
    let Tagged { comm, pid, prio } = tagged(&text[..=tag])?;
    let task = context.task(comm, pid)?;
    let failed = Fields(&text[tag + 1..]).find(b"success=") == Some(b"0");
    let prio = signed(prio)?;
    Ok((!failed).then(|| kind(task, prio, target_cpu)))
}

/// A task as trace-cmd's plugins print it.
struct Tagged<'a> {
    comm: &'a [u8],
    pid: &'a [u8],
    prio: &'a [u8],
}

/// Takes `comm:pid [prio]` apart, from its end, since a name may hold anything.
fn tagged(text: &[u8]) -> Result<Tagged<'_>, Broken> {
    let inner = text.strip_suffix(b"]").ok_or(Broken)?;
    let open = inner.iter().rposition(|&byte| byte == b'[').ok_or(Broken)?;
    let prio = &inner[open + 1..];
    let name = inner[..open].strip_suffix(b" ").ok_or(Broken)?;
    let colon = name.iter().rposition(|&byte| byte == b':').ok_or(Broken)?;
    Ok(Tagged { comm: &name[..colon], pid: &name[colon + 1..], prio })
}

pub(super) fn migrate(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    let (comm, fields) = Fields(body).comm(b"comm=", b" pid=")?;
    Ok(Some(EventKind::Migrate {
        task: context.task(comm, fields.get(b"pid=")?)?,
        prio: signed(fields.get(b"prio=")?)?,
        from_cpu: cpu(fields.get(b"orig_cpu=")?)?,
        to_cpu: cpu(fields.get(b"dest_cpu=")?)?,
    }))
}

pub(super) fn fork(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    // Raw prints name the parent's fields in full.
    let (parent_key, parent_pid): (&[u8], &[u8]) = if body.starts_with(b"parent_comm=") {
        (b"parent_comm=", b"parent_pid=")
    } else {
        (b"comm=", b"pid=")
    };
    let mut next = [b' '; 12];
    let next = &mut next[..=parent_pid.len()];
    next[1..].copy_from_slice(parent_pid);
    let (parent_comm, fields) = Fields(body).comm(parent_key, next)?;
    let parent = context.task(parent_comm, fields.get(parent_pid)?)?;
    let (child_comm, fields) = fields.comm(b"child_comm=", b" child_pid=")?;
    let child = context.task(child_comm, fields.get(b"child_pid=")?)?;
    Ok(Some(EventKind::Fork { parent, child }))
}

pub(super) fn exec(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    // A path may hold blanks: the ids are the last two fields.
    let path = body.strip_prefix(b"filename=").ok_or(Broken)?;
    let end = memmem::rfind(path, b" pid=").ok_or(Broken)?;
    let fields = Fields(&path[end + 1..]);
    Ok(Some(EventKind::Exec {
        pid: pid(fields.get(b"pid=")?)?,
        old_pid: pid(fields.get(b"old_pid=")?)?,
        filename: context.intern(&path[..end]),
    }))
}

pub(super) fn exit(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    let (comm, fields) = Fields(body).comm(b"comm=", b" pid=")?;
    Ok(Some(EventKind::Exit { task: context.task(comm, fields.get(b"pid=")?)? }))
}

pub(super) fn stat_runtime(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    let (comm, fields) = Fields(body).comm(b"comm=", b" pid=")?;
    Ok(Some(EventKind::StatRuntime {
        task: context.task(comm, fields.get(b"pid=")?)?,
        runtime_ns: fields.number(b"runtime=")?,
    }))
}

pub(super) fn wake_idle_without_ipi(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    Ok(Some(EventKind::WakeIdleWithoutIpi { target_cpu: cpu(Fields(body).get(b"cpu=")?)? }))
}
