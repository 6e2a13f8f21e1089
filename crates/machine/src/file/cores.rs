//! Kinds of cores: operating points, idle states, and which CPUs change frequency together.

use toml::Spanned;

use super::check::{fault, scaled};
use super::raw;
use crate::error::Fault;
use crate::import::{estimate, intel_idle};
use crate::{CpuSet, CpuType, IdleState, Opp, Topology};

/// A `[[cpu_type]]` table, checked.
pub fn cpu_type(raw: &Spanned<raw::CpuType>, packages: usize) -> Result<CpuType, Fault> {
    let place = raw;
    let raw = raw.get_ref();
    let capacity = match &raw.capacity {
        None => 1024,
        Some(capacity) if (1..=1024).contains(capacity.get_ref()) => *capacity.get_ref(),
        Some(capacity) => {
            return fault(
                capacity,
                "a capacity is 1 to 1024, 1024 being the machine's fastest CPU",
            );
        }
    };
    let transition_latency_ns = match &raw.frequency_transition_us {
        Some(us) => scaled(us, 1e3, "frequency_transition_us")?,
        None => 0,
    };
    let opps = opps(&raw.opps)?;
    let thermal_limit_khz = match &raw.thermal_limit_khz {
        Some(limit) if *limit.get_ref() < opps[0].khz => {
            return fault(limit, "the thermal limit is below the slowest operating point");
        }
        limit => limit.as_ref().map(|limit| *limit.get_ref()),
    };
    let idle_states = match (&raw.idle_states, &raw.idle_table) {
        (Some(rows), None) => {
            if let Some(state) = raw.idle_power_mw.keys().next() {
                return fault(state, "idle_power_mw goes with an idle_table; write power_mw");
            }
            let states = idle_states(rows)?;
            deeper_draws_less(rows, &opps, &states)?;
            states
        }
        (None, Some(table)) => states_of_table(table, &raw.idle_power_mw, &opps, packages)?,
        (Some(_), Some(table)) => {
            return fault(table, "both idle_states and an idle_table; keep one");
        }
        (None, None) => {
            let what = format!(
                "cpu_type {} has no idle states; write idle_states, or idle_table = \"skx\" for a \
                 table of intel_idle",
                raw.name
            );
            return fault(place, &what);
        }
    };
    Ok(CpuType {
        name: raw.name.clone(),
        capacity,
        opps,
        idle_states,
        transition_latency_ns,
        thermal_limit_khz,
    })
}

/// Whatever the operating point, no state draws more than a shallower one, or than a busy core.
fn deeper_draws_less(
    rows: &Spanned<Vec<Spanned<raw::IdleState>>>,
    opps: &[Opp],
    states: &[IdleState],
) -> Result<(), Fault> {
    for opp in opps.iter().filter(|_| states.iter().any(|s| s.power_of_busy_permille.is_some())) {
        for (pair, place) in states.windows(2).zip(rows.get_ref().iter().skip(1)) {
            let [shallow, deep] = pair else { continue };
            if deep.power_at_uw(opp.power_uw) > shallow.power_at_uw(opp.power_uw) {
                let what = format!(
                    "{} draws more than {} at {} kHz; correct power_mw or power_of_busy",
                    deep.name, shallow.name, opp.khz
                );
                return fault(place, &what);
            }
        }
    }
    Ok(())
}

fn opps(raw: &Spanned<Vec<Spanned<raw::Opp>>>) -> Result<Vec<Opp>, Fault> {
    let mut opps: Vec<Opp> = Vec::with_capacity(raw.get_ref().len());
    for spanned in raw.get_ref() {
        let opp = spanned.get_ref();
        let uv = match &opp.mv {
            Some(mv) => {
                let uv = scaled(mv, 1e3, "mv")?;
                Some(u32::try_from(uv).or_else(|_| fault(mv, "this voltage is too high"))?)
            }
            None => None,
        };
        let opp =
            Opp { khz: *opp.khz.get_ref(), uv, power_uw: scaled(&opp.power_mw, 1e3, "power_mw")? };
        if opp.khz == 0 {
            return fault(
                spanned,
                "an operating point of 0 kHz; an idle CPU has an idle state instead",
            );
        }
        if let Some(last) = opps.last() {
            if opp.khz <= last.khz {
                let what = format!(
                    "{} kHz follows {} kHz; list operating points slow first",
                    opp.khz, last.khz
                );
                return fault(spanned, &what);
            }
            if opp.power_uw < last.power_uw {
                let what = format!(
                    "{} kHz draws less than {} kHz; correct one power_mw",
                    opp.khz, last.khz
                );
                return fault(spanned, &what);
            }
        }
        opps.push(opp);
    }
    if opps.is_empty() {
        return fault(raw, "no operating point; a CPU of fixed speed has one");
    }
    Ok(opps)
}

/// The states of an intel_idle table, on a machine of so many packages. The table tells no power:
/// what the file does not tell either is estimated, as an import does.
fn states_of_table(
    table: &Spanned<String>,
    powers: &raw::Costs,
    opps: &[Opp],
    packages: usize,
) -> Result<Vec<IdleState>, Fault> {
    let processor = intel_idle::by_name(table.get_ref()).or_else(|what| fault(table, &what))?;
    let busy_uw = opps.last().map_or(0, |opp| opp.power_uw);
    let mut states = estimate::idle_states(&processor.states(packages), busy_uw);
    for (name, power) in powers {
        let Some(state) = states.iter_mut().find(|state| state.name == *name.get_ref()) else {
            let known: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
            let what = format!(
                "idle_table {} has no state {}; it has {}",
                table.get_ref(),
                name.get_ref(),
                known.join(", ")
            );
            return fault(name, &what);
        };
        state.power_uw = scaled(power, 1e3, "idle_power_mw")?;
    }
    let rises = states.windows(2).find(|pair| pair[1].power_uw > pair[0].power_uw);
    if let Some([shallow, deep]) = rises {
        let what = format!(
            "{} draws {} mW and {}, which is shallower, {} mW; correct idle_power_mw, and name \
             both states there",
            deep.name,
            deep.power_uw as f64 / 1e3,
            shallow.name,
            shallow.power_uw as f64 / 1e3
        );
        return fault(table, &what);
    }
    Ok(states)
}

fn idle_states(raw: &Spanned<Vec<Spanned<raw::IdleState>>>) -> Result<Vec<IdleState>, Fault> {
    let mut states: Vec<IdleState> = Vec::with_capacity(raw.get_ref().len());
    for spanned in raw.get_ref() {
        let raw = spanned.get_ref();
        let state = idle_state(raw)?;
        let IdleState { name, governor_exit_latency_ns: latency_ns, target_residency_ns, .. } =
            &state;
        if target_residency_ns < latency_ns && !raw.residency_below_latency {
            let what = format!(
                "{name}: the target residency of {} us is below the exit latency of {} us; correct \
                 one, or write residency_below_latency = true where the driver's table is so",
                us(*target_residency_ns),
                us(*latency_ns)
            );
            return fault(&raw.target_residency_us, &what);
        }
        if let Some(last) = states.last() {
            let above = &last.name;
            let complaint = if states.iter().any(|other| other.name == *name) {
                format!("a second idle state {name}; names are unique")
            } else if *target_residency_ns < last.target_residency_ns {
                format!(
                    "{name} has a shorter target residency than {above}; list states shallow first"
                )
            } else if *latency_ns < last.governor_exit_latency_ns {
                format!("{name} has a shorter exit latency than {above}; list states shallow first")
            } else if state.power_uw > last.power_uw {
                format!("{name} draws more than {above}, which is shallower; correct one power_mw")
            } else if state.polling {
                format!("{name} polls; only the first state may")
            } else {
                String::new()
            };
            if !complaint.is_empty() {
                return fault(spanned, &complaint);
            }
        }
        states.push(state);
    }
    if states.is_empty() {
        return fault(raw, "no idle state; an idle CPU needs one, be it a polling one");
    }
    Ok(states)
}

fn idle_state(raw: &raw::IdleState) -> Result<IdleState, Fault> {
    let optional = |value: &Option<Spanned<f64>>, name| match value {
        Some(value) => scaled(value, 1e3, name),
        None => Ok(0),
    };
    let entry_latency_ns = optional(&raw.entry_latency_us, "entry_latency_us")?;
    let exit_latency_ns = scaled(&raw.exit_latency_us, 1e3, "exit_latency_us")?;
    let governor_exit_latency_ns = match &raw.governor_exit_latency_us {
        Some(us) => scaled(us, 1e3, "governor_exit_latency_us")?,
        None => entry_latency_ns + exit_latency_ns,
    };
    Ok(IdleState {
        name: raw.name.clone(),
        entry_latency_ns,
        exit_latency_ns,
        governor_exit_latency_ns,
        target_residency_ns: scaled(&raw.target_residency_us, 1e3, "target_residency_us")?,
        power_uw: scaled(&raw.power_mw, 1e3, "power_mw")?,
        power_of_busy_permille: match &raw.power_of_busy {
            Some(share) if !(0.0..=1.0).contains(share.get_ref()) => {
                return fault(share, "power_of_busy is a share of a busy core's power, 0 to 1");
            }
            Some(share) => Some(scaled(share, 1e3, "power_of_busy")? as u32),
            None => None,
        },
        transition_energy_nj: optional(&raw.transition_energy_uj, "transition_energy_uj")?,
        polling: raw.polling,
        local_timer_stop: raw.local_timer_stop,
        disabled: raw.disabled,
        rejects_pending: raw.rejects_pending,
    })
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// The CPUs of `own` split by which change frequency together.
pub fn frequency_domains(
    raw: &raw::CpuType,
    own: &CpuSet,
    topology: &Topology,
) -> Result<Vec<CpuSet>, Fault> {
    let Some(domains) = &raw.frequency_domains else { return Ok(vec![*own]) };
    let parts = match domains.get_ref() {
        raw::Domains::Lists(lists) => lists,
        raw::Domains::Level(level) => {
            return domains_by_level(level, own, topology).ok_or_else(|| {
                let what = if level == "cluster" {
                    "the machine has no clusters".to_owned()
                } else {
                    let levels = DOMAIN_LEVELS.join(", ");
                    format!(
                        "frequency domains by `{level}`: write {levels} or an array of CPU lists"
                    )
                };
                Fault::new(domains.span().start, what)
            });
        }
    };
    let mut sets = Vec::with_capacity(parts.len());
    let mut seen = CpuSet::EMPTY;
    for list in parts {
        let set: CpuSet = list.parse().or_else(|error| fault(domains, &format!("{error}")))?;
        if let Some(cpu) = (set & seen).first() {
            return fault(
                domains,
                &format!("CPU {cpu} is in two frequency domains; take it out of one"),
            );
        }
        if let Some(cpu) = (set - *own).first() {
            return fault(domains, &format!("CPU {cpu} is not of type {}; see its cpus", raw.name));
        }
        if !set.is_empty() {
            sets.push(set);
        }
        seen |= set;
    }
    match (*own - seen).first() {
        Some(cpu) => fault(domains, &format!("CPU {cpu} is in no frequency domain; add it to one")),
        None => Ok(sets),
    }
}

/// The levels by which a file may say which CPUs change frequency together.
pub const DOMAIN_LEVELS: [&str; 7] = ["type", "package", "node", "llc", "cluster", "core", "cpu"];

/// The CPUs of `own` split by a level; `None` when the machine has no such level.
pub fn domains_by_level(level: &str, own: &CpuSet, topology: &Topology) -> Option<Vec<CpuSet>> {
    let groups = match level {
        "type" => return Some(vec![*own]),
        "cpu" => return Some(own.iter().map(CpuSet::of).collect()),
        "package" => topology.packages(),
        "node" => topology.nodes(),
        "llc" => topology.llcs(),
        "cluster" => topology.clusters()?,
        "core" => topology.cores(),
        _ => return None,
    };
    let parts = groups.groups().iter().map(|group| *group & *own);
    Some(parts.filter(|part| !part.is_empty()).collect())
}
