//! Idle states, frequencies and interrupts (`include/trace/events/{power,irq,ipi}.h`).

use super::super::fields::{Broken, Fields, cpu, narrow, number, signed};
use super::super::header::trim_end;
use super::{Context, Decoded};
use crate::event::EventKind;
use crate::strings::StrId;
use schedlab_machine::{CPUS_MAX, CpuId};

pub(super) fn cpu_idle(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = Fields(body);
    let cpu = cpu(fields.get(b"cpu_id=")?)?;
    let state = fields.number(b"state=")?;
    // PWR_EVENT_EXIT is -1, printed as an unsigned number of 32 or 64 bits.
    if state == u64::from(u32::MAX) || state == u64::MAX {
        return Ok(Some(EventKind::IdleExit { cpu }));
    }
    Ok(Some(EventKind::IdleEnter { cpu, state: narrow(state)? }))
}

pub(super) fn cpu_idle_miss(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = Fields(body);
    let below = match fields.find(b"type=") {
        Some(b"below") => true,
        Some(b"above") => false,
        Some(_) => return Err(Broken),
        None => fields.number(b"below=")? != 0,
    };
    Ok(Some(EventKind::IdleMiss {
        cpu: cpu(fields.get(b"cpu_id=")?)?,
        state: narrow(fields.number(b"state=")?)?,
        below,
    }))
}

pub(super) fn cpu_frequency(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = Fields(body);
    Ok(Some(EventKind::Frequency {
        cpu: cpu(fields.get(b"cpu_id=")?)?,
        frequency_khz: narrow(fields.number(b"state=")?)?,
    }))
}

pub(super) fn irq_entry(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    let irq = signed(Fields(body).get(b"irq=")?)?;
    // A driver's name for its interrupt may hold blanks and ends the line.
    let at = memchr::memmem::find(body, b" name=").ok_or(Broken)?;
    let name = context.intern(trim_end(&body[at + b" name=".len()..]));
    Ok(Some(EventKind::IrqEntry { irq, name }))
}

pub(super) fn irq_exit(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    Ok(Some(EventKind::IrqExit { irq: signed(Fields(body).get(b"irq=")?)? }))
}

pub(super) fn softirq_raise(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    Ok(Some(EventKind::SoftirqRaise { vec: softirq(body)? }))
}

pub(super) fn softirq_entry(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    Ok(Some(EventKind::SoftirqEntry { vec: softirq(body)? }))
}

pub(super) fn softirq_exit(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    Ok(Some(EventKind::SoftirqExit { vec: softirq(body)? }))
}

fn softirq(body: &[u8]) -> Result<u32, Broken> {
    narrow(Fields(body).number(b"vec=")?)
}

pub(super) fn vector_entry(context: &mut Context<'_>, vector: &str, body: &[u8]) -> Decoded {
    Fields(body).number(b"vector=")?;
    Ok(Some(EventKind::VectorEntry { name: context.intern(vector.as_bytes()) }))
}

pub(super) fn vector_exit(context: &mut Context<'_>, vector: &str, body: &[u8]) -> Decoded {
    Fields(body).number(b"vector=")?;
    Ok(Some(EventKind::VectorExit { name: context.intern(vector.as_bytes()) }))
}

pub(super) fn ipi_entry(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    Ok(Some(EventKind::VectorEntry { name: context.intern(reason(body)?) }))
}

pub(super) fn ipi_exit(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    Ok(Some(EventKind::VectorExit { name: context.intern(reason(body)?) }))
}

pub(super) fn ipi_raise(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    let mask = Fields(body).get(b"target_mask=")?;
    let open = body.iter().position(|&byte| byte == b'(').ok_or(Broken)?;
    let callback = context.intern(reason(&body[open..])?);
    Ok(Some(EventKind::IpiSend { target_cpu: only_cpu(mask)?, callback }))
}

/// `(Rescheduling interrupts)`
fn reason(text: &[u8]) -> Result<&[u8], Broken> {
    trim_end(text).strip_prefix(b"(").and_then(|text| text.strip_suffix(b")")).ok_or(Broken)
}

pub(super) fn ipi_send_cpu(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = Fields(body);
    let target_cpu = Some(cpu(fields.get(b"cpu=")?)?);
    Ok(Some(EventKind::IpiSend { target_cpu, callback: callback(context, fields)? }))
}

pub(super) fn ipi_send_cpumask(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = Fields(body);
    let target_cpu = only_cpu(fields.get(b"cpumask=")?)?;
    Ok(Some(EventKind::IpiSend { target_cpu, callback: callback(context, fields)? }))
}

fn callback(context: &mut Context<'_>, fields: Fields<'_>) -> Result<StrId, Broken> {
    Ok(context.function(fields.get(b"callback=")?))
}

/// The CPU of a mask with one member. The kernel prints masks as groups of eight hexadecimal
/// digits (`00000000,00000004`), libtraceevent as a list (`0,2-3`).
fn only_cpu(mask: &[u8]) -> Result<Option<CpuId>, Broken> {
    let mut groups = mask.split(|&byte| byte == b',');
    if groups.clone().all(|group| group.len() == 8) {
        let mut only = None;
        for (index, group) in groups.rev().enumerate() {
            let text = std::str::from_utf8(group).or(Err(Broken))?;
            let bits = u32::from_str_radix(text, 16).or(Err(Broken))?;
            match (bits.count_ones(), only) {
                (0, _) => {}
                (1, None) => only = Some(index * 32 + bits.trailing_zeros() as usize),
                _ => return Ok(None),
            }
        }
        return match only {
            Some(cpu) if cpu >= CPUS_MAX => Err(Broken),
            only => Ok(only.map(|cpu| CpuId(cpu as u32))),
        };
    }
    match (groups.next(), groups.next()) {
        (Some(single), None) if !single.contains(&b'-') => match number(single)? {
            // Raw prints show where in the record the mask was, which tells no CPU.
            place if place >= 1 << 16 => Ok(None),
            _ => cpu(single).map(Some),
        },
        _ => Ok(None),
    }
}
