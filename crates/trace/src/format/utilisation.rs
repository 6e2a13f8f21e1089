//! Utilisation events. The kernel's own PELT tracepoints (`pelt_cfs_tp`, ...) have no format of
//! their own: modules and probes give them one, each with its own names. They are told apart by
//! the subject in the name and by the fields that are there.

use super::access::{BytesField, IntField, until_nul};
use super::decoder::Fields;
use crate::event::{EventKind, PeltClass, Pid};
use schedlab_machine::CpuId;

/// `UTIL_AVG_UNCHANGED` (5.13 on): a flag in the top bit of a task's `util_est`.
const UTIL_AVG_UNCHANGED: u32 = 0x8000_0000;

/// A compiled utilisation event.
#[derive(Clone, Debug)]
pub(super) enum Utilisation {
    PeltCpu { class: PeltClass, cpu: IntField, path: Option<BytesField>, averages: Averages },
    PeltTask { pid: IntField, cpu: Option<IntField>, group: Option<IntField>, averages: Averages },
    UtilEstCpu { cpu: IntField, path: Option<BytesField>, util: IntField, util_est: IntField },
    UtilEstTask { pid: IntField, util: IntField, util_est: IntField },
    NrRunning { cpu: IntField, nr_running: IntField },
}

/// The fields of a `struct sched_avg`, as far as the event has them.
#[derive(Clone, Debug)]
pub(super) struct Averages {
    load: Option<IntField>,
    runnable: Option<IntField>,
    util: IntField,
    last_update_time: Option<IntField>,
}

impl Utilisation {
    pub(super) fn compile(fields: &Fields<'_>) -> Option<Utilisation> {
        let name = &*fields.format.name;
        let name = name.strip_prefix("lisa__").unwrap_or(name);
        let cpu = fields.int(&["cpu"]);
        let pid = fields.int(&["pid"]);
        let path = fields.bytes(&["path"]);
        let pelt_cpu = |class| {
            let averages = Averages::compile(fields)?;
            Some(Utilisation::PeltCpu { class, cpu: cpu?, path, averages })
        };
        match name.strip_prefix("sched_").unwrap_or(name) {
            "pelt_cfs" | "load_cfs_rq" | "load_avg_cpu" => pelt_cpu(PeltClass::Fair),
            "pelt_rt" => pelt_cpu(PeltClass::Rt),
            "pelt_dl" => pelt_cpu(PeltClass::Deadline),
            "pelt_irq" => pelt_cpu(PeltClass::Irq),
            "pelt_hw" | "pelt_thermal" => pelt_cpu(PeltClass::Hardware),
            "pelt_se" | "load_se" | "load_avg_task" => Some(Utilisation::PeltTask {
                pid: pid?,
                cpu,
                group: fields.int(&["myq", "my_q"]),
                averages: Averages::compile(fields)?,
            }),
            "util_est_cfs" | "util_est_cpu" => Some(Utilisation::UtilEstCpu {
                cpu: cpu?,
                path,
                util: util(fields)?,
                util_est: util_est(fields)?,
            }),
            "util_est_se" | "util_est_task" => Some(Utilisation::UtilEstTask {
                pid: pid?,
                util: util(fields)?,
                util_est: util_est(fields)?,
            }),
            "nr" | "update_nr_running" => Some(Utilisation::NrRunning {
                cpu: cpu?,
                nr_running: fields.int(&["nr", "nr_running"])?,
            }),
            _ => None,
        }
    }

    pub(super) fn decode(&self, record: &[u8], recorder: CpuId) -> Option<EventKind> {
        match self {
            Utilisation::PeltCpu { class, cpu, path, averages } => {
                is_root(*path, record)?;
                let [load, runnable, util] = averages.get(record)?;
                Some(EventKind::PeltCpu {
                    class: *class,
                    cpu: cpu.get_cpu(record)?,
                    load,
                    runnable,
                    util,
                    last_update_time_ns: averages.last_update_time_ns(record),
                })
            }
            Utilisation::PeltTask { pid, cpu, group, averages } => {
                let pid = pid.get_i32(record)?;
                // A group's entity owns a queue (`my_q`) and has no pid; modules print -1.
                let is_group = group.is_some_and(|group| group.get(record) != Some(0));
                if is_group || pid <= 0 {
                    return None;
                }
                let [load, runnable, util] = averages.get(record)?;
                let cpu = match cpu {
                    Some(cpu) => cpu.get_cpu(record)?,
                    None => recorder,
                };
                Some(EventKind::PeltTask {
                    pid: Pid(pid),
                    cpu,
                    load,
                    runnable,
                    util,
                    last_update_time_ns: averages.last_update_time_ns(record),
                })
            }
            Utilisation::UtilEstCpu { cpu, path, util, util_est } => {
                is_root(*path, record)?;
                Some(EventKind::UtilEstCpu {
                    cpu: cpu.get_cpu(record)?,
                    util: util.get_u32(record)?,
                    util_est: util_est.get_u32(record)? & !UTIL_AVG_UNCHANGED,
                })
            }
            Utilisation::UtilEstTask { pid, util, util_est } => {
                let pid = pid.get_i32(record)?;
                (pid > 0).then_some(())?;
                Some(EventKind::UtilEstTask {
                    pid: Pid(pid),
                    util: util.get_u32(record)?,
                    util_est: util_est.get_u32(record)? & !UTIL_AVG_UNCHANGED,
                })
            }
            Utilisation::NrRunning { cpu, nr_running } => Some(EventKind::NrRunning {
                cpu: cpu.get_cpu(record)?,
                nr_running: nr_running.get_u32(record)?,
            }),
        }
    }
}

impl Averages {
    fn compile(fields: &Fields<'_>) -> Option<Averages> {
        Some(Averages {
            load: fields.int(&["load", "load_avg"]),
            runnable: fields.int(&["runnable", "runn", "runnable_avg", "RBL_load", "rbl_load"]),
            util: util(fields)?,
            last_update_time: fields.int(&["last_update_time", "update_time", "lut"]),
        })
    }

    fn get(&self, record: &[u8]) -> Option<[u32; 3]> {
        let optional = |field: Option<IntField>| match field {
            Some(field) => field.get_u32(record),
            None => Some(0),
        };
        Some([optional(self.load)?, optional(self.runnable)?, self.util.get_u32(record)?])
    }

    fn last_update_time_ns(&self, record: &[u8]) -> u64 {
        self.last_update_time.and_then(|field| field.get(record)).unwrap_or(0)
    }
}

fn util(fields: &Fields<'_>) -> Option<IntField> {
    fields.int(&["util", "util_avg"])
}

fn util_est(fields: &Fields<'_>) -> Option<IntField> {
    fields.int(&["est", "util_est", "enqueued", "util_est_enqueued"])
}

/// Some unless the event says that it is of a task group's queue.
fn is_root(path: Option<BytesField>, record: &[u8]) -> Option<()> {
    let Some(path) = path else { return Some(()) };
    matches!(until_nul(path.get(record)?), b"/" | b"" | b"(null)").then_some(())
}
