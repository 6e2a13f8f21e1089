//! The RT priority map for Python: its layouts on their own, under all CPUs of a simulated machine
//! and under real threads; and tables of `perf c2c`.

use crate::kernels::KernelError;
use crate::machine::Machine;
use crate::table::{Columns, Table};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use schedlab_kernel::rt::cpupri::memory::{Access, Traced};
use schedlab_kernel::rt::cpupri::{Groups, Layout, Level, Plan, RootDomain};
use schedlab_live::{Costs, Measurement, measure_cpupri};
use schedlab_machine::{CpuId, CpuSet};
use schedlab_sim::{C2cReport, ContentionOptions, OperationTimes, contend};
use std::time::Duration;

fn layout(name: &str) -> PyResult<Layout> {
    Layout::by_name(name).ok_or_else(|| {
        let known: Vec<&str> = Layout::ALL.iter().map(|layout| layout.name()).collect();
        KernelError::new_err(format!(
            "no layout of the priority map is called {name}; there are {}",
            known.join(", ")
        ))
    })
}

/// The names of all layouts.
#[pyfunction]
fn cpupri_layouts() -> Vec<&'static str> {
    Layout::ALL.iter().map(|layout| layout.name()).collect()
}

/// A priority map that tells of each access.
#[pyclass(module = "schedlab._schedlab", unsendable)]
struct CpuPri {
    map: RootDomain<Traced>,
    active: CpuSet,
}

impl CpuPri {
    fn cpu(&self, cpu: u32) -> PyResult<CpuId> {
        let cpus = self.map.plan().cpus();
        if (cpu as usize) < cpus {
            return Ok(CpuId(cpu));
        }
        Err(PyValueError::new_err(format!("no CPU {cpu}: the map has CPUs 0 to {}", cpus - 1)))
    }

    fn allowed(&self, allowed: Option<&str>) -> PyResult<CpuSet> {
        let Some(text) = allowed else { return Ok(self.active) };
        text.parse::<CpuSet>().map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

fn level(prio: u8) -> PyResult<Level> {
    Level::of_prio(prio).ok_or_else(|| {
        PyValueError::new_err(format!("{prio} is no priority; give 0, the most urgent, to 100"))
    })
}

#[pymethods]
impl CpuPri {
    #[new]
    fn new(layout_name: &str, machine: &Machine) -> PyResult<CpuPri> {
        let groups = Groups::of(machine.inner.topology());
        let plan = Plan::new(layout(layout_name)?, &groups);
        let memory = Traced::new(&plan);
        let map = RootDomain::new(plan, memory);
        map.memory().drain(|_| {});
        Ok(CpuPri { map, active: CpuSet::first_n(groups.cpus) })
    }

    fn set(&self, cpu: u32, prio: Option<u8>) -> PyResult<()> {
        self.map.set(self.cpu(cpu)?, prio.map(level).transpose()?);
        Ok(())
    }

    #[pyo3(signature = (prio, allowed, this_cpu))]
    fn find(&self, prio: u8, allowed: Option<&str>, this_cpu: u32) -> PyResult<Vec<u32>> {
        let (level, allowed) = (level(prio)?, self.allowed(allowed)?);
        let found = self.map.find(self.cpu(this_cpu)?, level, &allowed, &self.active);
        Ok(found.iter().map(|cpu| cpu.0).collect())
    }

    fn touched(&self) -> PyResult<Table> {
        let mut rows = Vec::new();
        self.map.memory().drain(|touches| rows = touches.to_vec());
        let objects: Vec<(String, u32)> = rows
            .iter()
            .map(|touch| {
                let (object, offset) = self.map.plan().object(touch.at);
                (object.to_string(), offset)
            })
            .collect();
        let access = |access| match access {
            Access::Load => "load",
            Access::Store => "store",
            Access::Rmw => "atomic",
            Access::Lock => "lock",
            Access::Unlock => "unlock",
        };
        Columns::default()
            .u32("line", rows.iter().map(|touch| touch.line()))
            .text("object", objects.iter().map(|(object, _)| object.as_str()))
            .u32("offset", objects.iter().map(|(_, offset)| *offset))
            .text("access", rows.iter().map(|touch| access(touch.access)))
            .u32("loads", rows.iter().map(|touch| u32::from(touch.loads)))
            .text("symbol", rows.iter().map(|touch| touch.symbol.name()))
            .table()
    }

    #[getter]
    fn lines(&self) -> usize {
        self.map.plan().lines()
    }

    #[getter]
    fn domain_lines(&self) -> usize {
        self.map.plan().domain_lines()
    }
}

/// A row per line, offset and function.
pub(crate) fn c2c_table(report: &C2cReport) -> PyResult<Table> {
    let rows = || {
        let lines = report.lines.iter().zip(0_u32..);
        lines.flat_map(|(line, index)| line.places.iter().map(move |place| (index, line, place)))
    };
    Columns::default()
        .u32("number", rows().map(|(index, ..)| index))
        .text("line", rows().map(|(_, line, _)| line.name.as_str()))
        .u64("line_remote_hitm", rows().map(|(_, line, _)| line.remote_hitm))
        .u64("line_local_hitm", rows().map(|(_, line, _)| line.local_hitm))
        .u64("line_stores", rows().map(|(_, line, _)| line.stores))
        .u64("line_records", rows().map(|(_, line, _)| line.records))
        .u32("offset", rows().map(|(.., place)| u32::from(place.offset)))
        .text("symbol", rows().map(|(.., place)| place.symbol))
        .u64("remote_hitm", rows().map(|(.., place)| place.remote_hitm))
        .u64("local_hitm", rows().map(|(.., place)| place.local_hitm))
        .u64("stores_l1_hit", rows().map(|(.., place)| place.stores_l1_hit))
        .u64("stores_l1_miss", rows().map(|(.., place)| place.stores_l1_miss))
        .u64("loads", rows().map(|(.., place)| place.loads))
        .u64("load_cycles_mean", rows().map(|(.., place)| place.load_cycles_mean))
        .u64("load_cycles_p50", rows().map(|(.., place)| place.load_cycles_p50))
        .u64("load_cycles_p99", rows().map(|(.., place)| place.load_cycles_p99))
        .u64("records", rows().map(|(.., place)| place.records))
        .u32("cpus", rows().map(|(.., place)| place.cpus))
        .table()
}

/// The map alone under all CPUs of a simulated machine.
#[pyfunction]
#[pyo3(signature = (machine, layout_name, *, group, think_ns, rounds, seed, record))]
#[expect(clippy::too_many_arguments, reason = "each is one part of what determines a run")]
fn cpupri_contention<'py>(
    py: Python<'py>,
    machine: &Machine,
    layout_name: &str,
    group: usize,
    think_ns: u64,
    rounds: u32,
    seed: u64,
    record: bool,
) -> PyResult<(Bound<'py, PyDict>, Option<Table>)> {
    let layout = layout(layout_name)?;
    let options = ContentionOptions { layout, group, think_ns, rounds, seed, record };
    let machine = &machine.inner;
    let result = py.detach(|| contend(machine, &options));
    let dict = PyDict::new(py);
    let add = |name: &str, times: &OperationTimes| -> PyResult<()> {
        dict.set_item(format!("{name}s"), times.count)?;
        dict.set_item(format!("{name}_mean_ns"), times.mean_ns)?;
        dict.set_item(format!("{name}_p50_ns"), times.p50_ns)?;
        dict.set_item(format!("{name}_p99_ns"), times.p99_ns)?;
        dict.set_item(format!("{name}_lines"), times.lines)
    };
    add("find", &result.find)?;
    add("set", &result.set)?;
    Ok((dict, result.c2c.as_ref().map(c2c_table).transpose()?))
}

/// A layout under real threads: each on a CPU of this machine, standing for a CPU of the map.
#[pyfunction]
fn cpupri_measure<'py>(
    py: Python<'py>,
    machine: &Machine,
    layout_name: &str,
    threads: Vec<(u32, u32)>,
    duration_ms: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let layout = layout(layout_name)?;
    let groups = Groups::of(machine.inner.topology());
    let threads: Vec<(u32, CpuId)> =
        threads.into_iter().map(|(here, cpu)| (here, CpuId(cpu))).collect();
    if let Some((_, cpu)) = threads.iter().find(|(_, cpu)| cpu.index() >= groups.cpus) {
        return Err(PyValueError::new_err(format!("the map has no CPU {}", cpu.0)));
    }
    let duration = Duration::from_millis(duration_ms);
    let measured = py.detach(|| measure_cpupri(layout, &groups, &threads, duration));
    let Measurement { find, set } =
        measured.map_err(|error| PyOSError::new_err(error.to_string()))?;
    let dict = PyDict::new(py);
    let add = |name: &str, costs: &Costs| -> PyResult<()> {
        dict.set_item(format!("{name}s"), costs.operations)?;
        dict.set_item(format!("{name}_mean_ns"), costs.mean_ns)?;
        dict.set_item(format!("{name}_p50_ns"), costs.p50_ns)?;
        dict.set_item(format!("{name}_p99_ns"), costs.p99_ns)?;
        dict.set_item(format!("{name}_cycles"), costs.cycles)
    };
    add("find", &find)?;
    add("set", &set)?;
    Ok(dict)
}

/// A table of `perf c2c`: rows by line and place, and lines that could not be read.
#[pyfunction]
fn parse_c2c(text: &str) -> PyResult<(Table, Vec<(usize, String)>)> {
    let table = schedlab_trace::c2c::parse(text);
    let rows = || {
        let lines = table.lines.iter().zip(0_u32..);
        lines.flat_map(|(line, index)| line.places.iter().map(move |place| (index, line, place)))
    };
    let addresses: Vec<String> =
        rows().map(|(_, line, _)| format!("{:#x}", line.address)).collect();
    let parsed = Columns::default()
        .u32("number", rows().map(|(index, ..)| index))
        .text("line", addresses.iter().map(String::as_str))
        .u64("line_remote_hitm", rows().map(|(_, line, _)| line.remote_hitm))
        .u64("line_local_hitm", rows().map(|(_, line, _)| line.local_hitm))
        .u64("line_stores_l1_hit", rows().map(|(_, line, _)| line.stores_l1_hit))
        .u64("line_stores_l1_miss", rows().map(|(_, line, _)| line.stores_l1_miss))
        .u64("offset", rows().map(|(.., place)| place.offset))
        .text("symbol", rows().map(|(.., place)| place.symbol.as_str()))
        .text("object", rows().map(|(.., place)| place.object.as_deref()))
        .f64("remote_hitm_pct", rows().map(|(.., place)| place.remote_hitm_pct))
        .f64("local_hitm_pct", rows().map(|(.., place)| place.local_hitm_pct))
        .f64("stores_l1_hit_pct", rows().map(|(.., place)| place.stores_l1_hit_pct))
        .f64("stores_l1_miss_pct", rows().map(|(.., place)| place.stores_l1_miss_pct))
        .u64("remote_hitm_cycles", rows().map(|(.., place)| place.remote_hitm_cycles))
        .u64("local_hitm_cycles", rows().map(|(.., place)| place.local_hitm_cycles))
        .u64("load_cycles", rows().map(|(.., place)| place.load_cycles))
        .u64("records", rows().map(|(.., place)| place.records))
        .u64("cpus", rows().map(|(.., place)| place.cpus))
        .table()?;
    Ok((parsed, table.unread))
}

/// Adds this module's functions.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CpuPri>()?;
    module.add_function(wrap_pyfunction!(cpupri_layouts, module)?)?;
    module.add_function(wrap_pyfunction!(cpupri_contention, module)?)?;
    module.add_function(wrap_pyfunction!(cpupri_measure, module)?)?;
    module.add_function(wrap_pyfunction!(parse_c2c, module)?)
}
