//! Utilisation and load, as modules and probes print them: `pelt_*`, `util_est_*` and `nr` probes,
//! LISA's `sched_load_*`, `sched_pelt_*` and `sched_util_est_*`, Android's `sched_load_avg_*`.

use super::super::fields::{Broken, Fields, cpu, narrow, number, pid};
use super::{Context, Decoded, fields};
use crate::event::{EventKind, PeltClass};

/// Set in a task's `util_est` while it does not follow `util_avg` (kernel/sched/pelt.h).
const UTIL_AVG_UNCHANGED: u64 = 0x8000_0000;

pub(super) fn cfs(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = fields(body);
    if !is_root(fields) {
        return Ok(None);
    }
    cpu_load(PeltClass::Fair, fields)
}

/// Only the root group stands for the CPU.
fn is_root(fields: Fields<'_>) -> bool {
    matches!(fields.find(b"path="), None | Some(b"/" | b"" | b"(null)"))
}

pub(super) fn rt(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    cpu_load(PeltClass::Rt, fields(body))
}

pub(super) fn deadline(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    cpu_load(PeltClass::Deadline, fields(body))
}

pub(super) fn irq(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    cpu_load(PeltClass::Irq, fields(body))
}

pub(super) fn hardware(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    cpu_load(PeltClass::Hardware, fields(body))
}

fn cpu_load(class: PeltClass, fields: Fields<'_>) -> Decoded {
    let Averages { load, runnable, util, last_update_time_ns } = averages(fields)?;
    let cpu = cpu(fields.get(b"cpu=")?)?;
    Ok(Some(EventKind::PeltCpu { class, cpu, load, runnable, util, last_update_time_ns }))
}

pub(super) fn task(context: &mut Context<'_>, body: &[u8]) -> Decoded {
    let all = fields(body);
    // The name comes before the numbers and may look like them.
    let fields = all.comm(b"comm=", b" pid=").map_or(all, |(_, fields)| fields);
    let pid = pid(fields.get(b"pid=")?)?;
    // A group's entity has a queue of its own and no thread id; modules print -1 for it.
    let queue = all.find(b"myq=").or_else(|| all.find(b"my_q="));
    if pid.0 <= 0 || queue.is_some_and(|queue| number(queue) != Ok(0)) {
        return Ok(None);
    }
    let Averages { load, runnable, util, last_update_time_ns } = averages(fields)?;
    // Modules print the CPU before or behind the name; else it is the recording one.
    let own = fields.find(b"cpu=").or_else(|| all.find(b"cpu="));
    let cpu = own.map_or(Ok(context.cpu), cpu)?;
    Ok(Some(EventKind::PeltTask { pid, cpu, load, runnable, util, last_update_time_ns }))
}

struct Averages {
    load: u32,
    runnable: u32,
    util: u32,
    last_update_time_ns: u64,
}

const UTIL_KEYS: &[&[u8]] = &[b"util=", b"util_avg=", b"utilization="];

const RUNNABLE_KEYS: &[&[u8]] =
    &[b"runnable=", b"runn=", b"runnable_avg=", b"RBL_load=", b"rbl_load="];

fn first_of<'a>(fields: Fields<'a>, keys: &[&[u8]]) -> Option<&'a [u8]> {
    keys.iter().find_map(|key| fields.find(key))
}

fn averages(fields: Fields<'_>) -> Result<Averages, Broken> {
    let optional = |keys: &[&[u8]]| first_of(fields, keys).map_or(Ok(0), number);
    let util = first_of(fields, UTIL_KEYS).ok_or(Broken)?;
    Ok(Averages {
        load: narrow(optional(&[b"load=", b"load_avg="])?)?,
        runnable: narrow(optional(RUNNABLE_KEYS)?)?,
        util: narrow(number(util)?)?,
        last_update_time_ns: optional(&[b"last_update_time=", b"update_time=", b"lut="])?,
    })
}

pub(super) fn util_est_cpu(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = fields(body);
    if !is_root(fields) {
        return Ok(None);
    }
    let (util, util_est) = estimates(fields)?;
    Ok(Some(EventKind::UtilEstCpu { cpu: cpu(fields.get(b"cpu=")?)?, util, util_est }))
}

pub(super) fn util_est_task(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = fields(body);
    let fields = fields.comm(b"comm=", b" pid=").map_or(fields, |(_, fields)| fields);
    let pid = pid(fields.get(b"pid=")?)?;
    if pid.0 <= 0 {
        return Ok(None);
    }
    let (util, util_est) = estimates(fields)?;
    Ok(Some(EventKind::UtilEstTask { pid, util, util_est }))
}

fn estimates(fields: Fields<'_>) -> Result<(u32, u32), Broken> {
    let keys: [&[u8]; 4] = [b"est=", b"util_est=", b"enqueued=", b"util_est_enqueued="];
    let estimate = number(first_of(fields, &keys).ok_or(Broken)?)?;
    let util = number(first_of(fields, UTIL_KEYS).ok_or(Broken)?)?;
    Ok((narrow(util)?, narrow(estimate & !UTIL_AVG_UNCHANGED)?))
}

pub(super) fn nr_running(_: &mut Context<'_>, body: &[u8]) -> Decoded {
    let fields = fields(body);
    let nr_running = first_of(fields, &[b"nr=", b"nr_running="]).ok_or(Broken)?;
    Ok(Some(EventKind::NrRunning {
        cpu: cpu(fields.get(b"cpu=")?)?,
        nr_running: narrow(number(nr_running)?)?,
    }))
}
