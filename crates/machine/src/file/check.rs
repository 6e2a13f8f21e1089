//! From the file's tables to a machine: everything that contradicts itself is refused here.

use std::collections::BTreeMap;

use toml::Spanned;

use super::{cores, layout, raw};
use crate::error::Fault;
use crate::{
    BroadcastIrq, CacheCosts, CpuSet, CpuType, FrequencyDomain, GroupState, Machine, MemoryLimits,
    PathCosts, Rail, SmtCurve, Topology, UncorePower, UsualCpufreq,
};

/// The default tick rate: `CONFIG_HZ_250`, the kernel's own default.
const HZ_DEFAULT: u32 = 250;

/// Beyond this no quantity of a machine is believable: 100 s in ns, 100 kW in uW.
const QUANTITY_MAX: f64 = 1e11;

/// An error at a place of the file.
pub fn fault<T, S>(place: &Spanned<S>, what: &str) -> Result<T, Fault> {
    Err(Fault::new(place.span().start, what))
}

/// A quantity of a file in the model's unit, `scale` times finer.
pub fn scaled(value: &Spanned<f64>, scale: f64, name: &str) -> Result<u64, Fault> {
    let fine = (value.get_ref() * scale).round();
    if (0.0..=QUANTITY_MAX).contains(&fine) {
        Ok(fine as u64)
    } else {
        fault(value, &format!("{name} = {} is negative or beyond belief", value.get_ref()))
    }
}

/// A whole file.
pub fn machine(file: raw::File) -> Result<Machine, Fault> {
    let topology = match (&file.topology, &file.cpu_groups) {
        (Some(regular), None) => layout::regular(regular)?,
        (None, Some(groups)) => layout::groups(groups)?,
        (Some(_), Some(groups)) => {
            return fault(groups, "both [topology] and [cpu_groups]; keep one");
        }
        (None, None) => {
            return Err(Fault::new(0, "no CPUs: write a [topology] or a [cpu_groups] table"));
        }
    };
    let hz = match &file.hz {
        None => HZ_DEFAULT,
        Some(hz) if (24..=10_000).contains(hz.get_ref()) => *hz.get_ref(),
        Some(hz) => return fault(hz, "hz is a kernel's tick rate: 100, 250, 300 or 1000"),
    };
    let broadcast_irq = match &file.broadcast_irq {
        None => BroadcastIrq::default(),
        Some(name) => match BroadcastIrq::NAMES.iter().find(|(known, _)| known == name.get_ref()) {
            Some((_, irq)) => *irq,
            None => {
                let what = "the broadcast timer interrupts \"next-event\" or \"boot-cpu\"";
                return fault(name, what);
            }
        },
    };
    let usual_cpufreq = match &file.cpufreq {
        None => UsualCpufreq::default(),
        Some(name) => match UsualCpufreq::NAMES.iter().find(|(known, _)| known == name.get_ref()) {
            Some((_, usual)) => *usual,
            None => {
                let what = "cpufreq is \"performance\", \"powersave\" or \"schedutil\"";
                return fault(name, what);
            }
        },
    };
    let rails = rails(&file.rail, &topology)?;
    let distances = distances(file.numa.as_ref(), &topology)?;
    let smt = smt(file.smt.as_ref(), topology.threads_per_core_max())?;
    let types = cpu_types(&file.cpu_type, &topology)?;
    let group_states = group_states(&file.group_state, &topology, &types.cpu_types)?;
    let uncore_power = uncore_power(file.power.as_ref(), &types.cpu_types)?;
    let package_idle_uw = types.cpu_types.iter().map(|kind| uncore_power.by_state(kind)).collect();
    let mut cache_costs = CacheCosts::default();
    for (key, value) in &file.cache {
        let field = CacheCosts::FIELDS.iter().find(|(name, _)| name == key.get_ref());
        match (key.get_ref().as_str(), field) {
            ("line_bytes", _) => cache_costs.line_bytes = line_bytes(value)?,
            (_, Some((name, field))) => *field(&mut cache_costs) = scaled(value, 1e3, name)?,
            (_, None) => {
                return unknown_cost(key, CacheCosts::FIELDS.iter().map(|(name, _)| *name));
            }
        }
    }
    cache_costs.kernel_lines = file.kernel_lines;
    further_costs_more(&file.cache, &cache_costs, &topology)?;
    let mut path_costs = PathCosts::default();
    for (key, value) in &file.kernel_paths {
        match PathCosts::FIELDS.iter().find(|(name, _)| name == key.get_ref()) {
            Some((name, field)) => *field(&mut path_costs) = scaled(value, 1.0, name)?,
            None => return unknown_cost(key, PathCosts::FIELDS.iter().map(|(name, _)| *name)),
        }
    }
    let memory_limits = memory_limits(&file.memory)?;
    let shared_instruction_stream = match &file.shared_instruction_stream {
        None => false,
        Some(raw) => shared_instruction_stream(raw, &topology, &smt, &types.cpu_types)?,
    };
    Ok(Machine {
        name: file.name,
        description: file.description,
        hz,
        broadcast_irq,
        usual_cpufreq,
        rails,
        group_states,
        topology,
        distances,
        cpu_types: types.cpu_types,
        type_of: types.type_of,
        frequency_domains: types.frequency_domains,
        frequency_domain_of: types.frequency_domain_of,
        smt,
        uncore_power,
        package_idle_uw,
        cache_costs,
        path_costs,
        memory_limits,
        shared_instruction_stream,
    })
}

/// Whether virtual CPUs share one instruction stream, on a machine that has nothing which that would
/// contradict.
fn shared_instruction_stream(
    raw: &Spanned<bool>,
    topology: &Topology,
    smt: &SmtCurve,
    types: &[CpuType],
) -> Result<bool, Fault> {
    if !raw.get_ref() {
        return Ok(false);
    }
    if topology.cpu_count() < 2 {
        return fault(raw, "one CPU shares its instruction stream with nobody; remove the line");
    }
    if (1..=smt.threads()).any(|busy| smt.throughput_permille(busy) as usize != 1000 * busy) {
        let what = "virtual threads share the instruction stream, not a core: smt.throughput is \
                    1.0, 2.0 and so on";
        return fault(raw, what);
    }
    if types.len() > 1 || types.iter().any(|kind| kind.opps.len() > 1) {
        let what = "virtual CPUs of one instruction stream are of one type with one frequency";
        return fault(raw, what);
    }
    Ok(true)
}

/// What groups of CPUs switch off together, the widest groups first.
fn group_states(
    raw: &[Spanned<raw::GroupState>],
    topology: &Topology,
    types: &[CpuType],
) -> Result<Vec<GroupState>, Fault> {
    let mut states: Vec<GroupState> = Vec::with_capacity(raw.len());
    let optional = |value: &Option<Spanned<f64>>, name| match value {
        Some(value) => scaled(value, 1e3, name),
        None => Ok(0),
    };
    for table in raw {
        let raw = table.get_ref();
        let level = raw.level.get_ref().as_str();
        let Some(groups) = cores::domains_by_level(level, topology.cpus(), topology) else {
            let what = format!("the machine has no level {level}; write package, llc or cluster");
            return fault(&raw.level, &what);
        };
        let promise = raw.promise.get_ref();
        if !types.iter().any(|kind| kind.idle_states.iter().any(|state| state.name == *promise)) {
            return fault(&raw.promise, &format!("no CPU has an idle state {promise}"));
        }
        if states.iter().any(|other| other.name == raw.name) {
            return fault(table, &format!("a second group_state {}; names are unique", raw.name));
        }
        let active_uw = optional(&raw.active_mw, "active_mw")?;
        let asleep_uw = optional(&raw.asleep_mw, "asleep_mw")?;
        if asleep_uw > active_uw {
            return fault(table, &format!("{} draws more asleep than awake", raw.name));
        }
        states.push(GroupState {
            name: raw.name.clone(),
            level: level.to_owned(),
            groups,
            promise: promise.clone(),
            exit_latency_ns: scaled(&raw.exit_latency_us, 1e3, "exit_latency_us")?,
            active_uw,
            asleep_uw,
            transition_energy_nj: optional(&raw.transition_energy_uj, "transition_energy_uj")?,
        });
    }
    states.sort_by_key(|state| state.groups.len());
    Ok(states)
}

/// Supplies, none of which feeds half a core or one that another feeds.
fn rails(raw: &[Spanned<raw::Rail>], topology: &Topology) -> Result<Vec<Rail>, Fault> {
    let mut rails: Vec<Rail> = Vec::with_capacity(raw.len());
    for table in raw {
        let raw::Rail { name, cpus: list } = table.get_ref();
        let cpus = layout::cpu_list(list)?;
        if let Some(cpu) = (cpus - *topology.cpus()).first() {
            return fault(list, &format!("rail {name} feeds CPU {cpu}, which is not there"));
        }
        if cpus.is_empty() {
            return fault(list, &format!("rail {name} feeds no CPU; remove it"));
        }
        if let Some(other) = rails.iter().find(|other| !(other.cpus & cpus).is_empty()) {
            return fault(list, &format!("rails {} and {name} feed the same CPU", other.name));
        }
        if rails.iter().any(|other| other.name == *name) {
            return fault(table, &format!("a second rail {name}; names are unique"));
        }
        let cut = |core: &&CpuSet| !(**core & cpus).is_empty() && !(**core - cpus).is_empty();
        if let Some(core) = topology.cores().groups().iter().find(cut) {
            return fault(list, &format!("rail {name} feeds half the core of CPUs {core}"));
        }
        rails.push(Rail { name: name.clone(), cpus });
    }
    Ok(rails)
}

fn unknown_cost<'a>(
    key: &Spanned<String>,
    known: impl Iterator<Item = &'a str>,
) -> Result<Machine, Fault> {
    let known: Vec<&str> = known.collect();
    fault(key, &format!("no cost is called `{}`; there are {}", key.get_ref(), known.join(", ")))
}

fn line_bytes(value: &Spanned<f64>) -> Result<u32, Fault> {
    let bytes = *value.get_ref();
    if (8.0..=1024.0).contains(&bytes) && bytes.fract() == 0.0 && (bytes as u32).is_power_of_two() {
        Ok(bytes as u32)
    } else {
        fault(value, "a cache line has 8 to 1024 bytes, a power of two")
    }
}

fn memory_limits(written: &raw::Costs) -> Result<MemoryLimits, Fault> {
    let mut limits = MemoryLimits::default();
    for (key, value) in written {
        let found = MemoryLimits::FIELDS.iter().find(|(name, ..)| name == key.get_ref());
        let Some((name, scale, field)) = found else {
            let known: Vec<&str> = MemoryLimits::FIELDS.iter().map(|(name, ..)| *name).collect();
            let what = format!("no limit is called `{}`; there are {}", key.get_ref(), {
                known.join(", ")
            });
            return fault(key, &what);
        };
        let limit = scaled(value, *scale, name)?;
        if limit == 0 {
            return fault(value, &format!("{name} = 0 lets nothing pass; leave it out"));
        }
        *field(&mut limits) = Some(limit);
    }
    if let (Some(l2), Some(llc)) = (limits.l2_bytes, limits.llc_bytes)
        && llc < l2
    {
        let place = written.keys().find(|key| key.get_ref() == "llc_kib");
        let place = place.map_or(0, |key| key.span().start);
        return Err(Fault::new(
            place,
            "llc_kib is below l2_kib; leave out llc_kib if there is none",
        ));
    }
    if limits.stores_per_transfer_permille.is_some_and(|stores| stores < 1000) {
        let place = written.keys().find(|key| key.get_ref() == "stores_per_transfer");
        let place = place.map_or(0, |key| key.span().start);
        return Err(Fault::new(
            place,
            "stores_per_transfer is below 1; a hand-over serves a store",
        ));
    }
    Ok(limits)
}

/// A transfer over a wider distance is no cheaper, among the distances that the machine has.
fn further_costs_more(
    written: &raw::Costs,
    costs: &CacheCosts,
    topology: &Topology,
) -> Result<(), Fault> {
    let has = [
        topology.threads_per_core_max() > 1,
        topology.clusters().is_some(),
        topology.llcs().len() < topology.cores().len(),
        topology.llcs().len() > topology.packages().len(),
        topology.packages().len() > 1,
    ];
    let rungs = [
        ("core_ns", costs.core_ps),
        ("cluster_ns", costs.cluster_ps),
        ("llc_ns", costs.llc_ps),
        ("package_ns", costs.package_ps),
        ("machine_ns", costs.machine_ps),
    ];
    let present: Vec<_> = rungs.into_iter().zip(has).filter(|(_, has)| *has).collect();
    for pair in present.windows(2) {
        let ((near, near_ps), (far, far_ps)) = (pair[0].0, pair[1].0);
        if far_ps < near_ps {
            let written = |name| written.keys().find(|key| key.get_ref() == name);
            let place = written(far).or_else(|| written(near)).map_or(0, |key| key.span().start);
            let what = format!("{far} is below {near}, although it is farther; write both");
            return Err(Fault::new(place, what));
        }
    }
    Ok(())
}

fn distances(numa: Option<&Spanned<raw::Numa>>, topology: &Topology) -> Result<Vec<u32>, Fault> {
    let nodes = topology.nodes().len();
    let Some(numa) = numa else {
        return match nodes {
            1 => Ok(vec![10]),
            _ => Err(Fault::new(
                0,
                format!(
                    "{nodes} NUMA nodes and no distances; write numa.distances, {nodes} rows of {nodes}"
                ),
            )),
        };
    };
    let raw::Numa { distances: rows, asymmetric_distances } = numa.get_ref();
    if rows.get_ref().len() != nodes {
        let what = format!("{} rows of distances for {nodes} NUMA nodes", rows.get_ref().len());
        return fault(rows, &format!("{what}; write {nodes} rows of {nodes}"));
    }
    let mut matrix = Vec::with_capacity(nodes * nodes);
    for (from, row) in rows.get_ref().iter().enumerate() {
        if row.get_ref().len() != nodes {
            return fault(
                row,
                &format!("node {from} has {} distances; write {nodes}", row.get_ref().len()),
            );
        }
        for (to, distance) in row.get_ref().iter().enumerate() {
            match *distance.get_ref() {
                10 => {}
                other if from == to => {
                    return fault(
                        distance,
                        &format!("node {from} is {other} from itself; that is always 10"),
                    );
                }
                other @ (0..10 | 255..) => {
                    let what =
                        format!("distance {other} from node {from} to {to}; write 10 to 254");
                    return fault(distance, &what);
                }
                _ => {}
            }
            matrix.push(*distance.get_ref());
        }
    }
    for (from, row) in rows.get_ref().iter().enumerate() {
        for (to, distance) in row.get_ref().iter().enumerate().take(from) {
            let (there, back) = (matrix[to * nodes + from], matrix[from * nodes + to]);
            if there != back && !asymmetric_distances {
                let what = format!(
                    "node {from} to {to} is {back}, node {to} to {from} is {there}; make them equal, \
                     or write asymmetric_distances = true"
                );
                return fault(distance, &what);
            }
        }
    }
    Ok(matrix)
}

fn smt(raw: Option<&Spanned<raw::Smt>>, threads: usize) -> Result<SmtCurve, Fault> {
    let Some(table) = raw else {
        return match threads {
            1 => Ok(SmtCurve::new(vec![1000], vec![1000])),
            _ => Err(Fault::new(
                0,
                "cores have several threads and nobody says what they yield; write smt.throughput",
            )),
        };
    };
    let curve = |values: &Spanned<Vec<Spanned<f64>>>, name| -> Result<Vec<u32>, Fault> {
        if values.get_ref().len() != threads {
            let what = format!(
                "smt.{name} has {} entries; cores have {threads} threads",
                values.get_ref().len()
            );
            return fault(values, &what);
        }
        let mut curve: Vec<u32> = Vec::with_capacity(threads);
        for value in values.get_ref() {
            let permille = scaled(value, 1e3, name)?.min(1_000_000) as u32;
            match curve.last() {
                None if permille != 1000 => {
                    return fault(value, &format!("smt.{name} starts with 1.0, the lone thread"));
                }
                Some(last) if permille < *last => {
                    let what =
                        format!("smt.{name} falls as threads are added; it is the whole core's");
                    return fault(value, &what);
                }
                _ => {}
            }
            let per_thread = curve.len() as u32 + 1;
            if name == "throughput" && permille > 1000 * per_thread {
                return fault(value, "smt.throughput rises above one lone thread for each thread");
            }
            curve.push(permille);
        }
        Ok(curve)
    };
    let raw::Smt { throughput, power } = table.get_ref();
    let throughput = curve(throughput, "throughput")?;
    let power = match power {
        Some(power) => curve(power, "power")?,
        None => vec![1000; threads],
    };
    Ok(SmtCurve::new(throughput, power))
}

/// Everything that hangs on the kinds of cores.
struct Types {
    cpu_types: Vec<CpuType>,
    type_of: Vec<u32>,
    frequency_domains: Vec<FrequencyDomain>,
    frequency_domain_of: Vec<u32>,
}

fn cpu_types(raw: &[Spanned<raw::CpuType>], topology: &Topology) -> Result<Types, Fault> {
    let cpus = topology.cpu_count();
    let mut types = Types {
        cpu_types: Vec::new(),
        type_of: vec![u32::MAX; cpus],
        frequency_domains: Vec::new(),
        frequency_domain_of: vec![0; cpus],
    };
    for (index, table) in raw.iter().enumerate() {
        let kind = table.get_ref();
        let own = match &kind.cpus {
            Some(list) => layout::cpu_list(list)?,
            None if raw.len() == 1 => *topology.cpus(),
            None => return fault(table, &format!("cpu_type {} lacks cpus", kind.name)),
        };
        let place = kind.cpus.as_ref().map_or(table.span().start, |list| list.span().start);
        if let Some(cpu) = (own - *topology.cpus()).first() {
            let what =
                format!("cpu_type {} has CPU {cpu}; the machine has 0 to {}", kind.name, cpus - 1);
            return Err(Fault::new(place, what));
        }
        if own.is_empty() {
            return Err(Fault::new(place, format!("cpu_type {} has no CPU; remove it", kind.name)));
        }
        for cpu in &own {
            let of = &mut types.type_of[cpu.index()];
            if *of != u32::MAX {
                let what = format!("CPU {cpu} is of two types; take it out of one cpus list");
                return Err(Fault::new(place, what));
            }
            *of = index as u32;
        }
        for domain in cores::frequency_domains(kind, &own, topology)? {
            for cpu in &domain {
                types.frequency_domain_of[cpu.index()] = types.frequency_domains.len() as u32;
            }
            types.frequency_domains.push(FrequencyDomain { cpus: domain, cpu_type: index });
        }
        if types.cpu_types.iter().any(|other: &CpuType| other.name == kind.name) {
            return fault(table, &format!("a second cpu_type {}; names are unique", kind.name));
        }
        types.cpu_types.push(cores::cpu_type(table, topology.packages().len())?);
    }
    if let Some(cpu) = types.type_of.iter().position(|of| *of == u32::MAX) {
        let what = format!("CPU {cpu} is of no type; add it to the cpus of a [[cpu_type]]");
        return Err(Fault::new(raw.first().map_or(0, |table| table.span().start), what));
    }
    let mixed = |core: &&CpuSet| {
        let mut kinds = core.iter().map(|cpu| types.type_of[cpu.index()]);
        let first = kinds.next();
        kinds.any(|kind| Some(kind) != first)
    };
    if let Some(core) = topology.cores().groups().iter().find(mixed) {
        let place = raw.first().map_or(0, |table| table.span().start);
        return Err(Fault::new(place, format!("the core of CPUs {core} has threads of two types")));
    }
    if types.cpu_types.iter().all(|kind| kind.capacity != 1024) {
        let place = raw.first().map_or(0, |table| table.span().start);
        return Err(Fault::new(place, "no type has capacity 1024; the machine's fastest has"));
    }
    Ok(types)
}

fn uncore_power(raw: Option<&raw::Power>, types: &[CpuType]) -> Result<UncorePower, Fault> {
    let Some(raw) = raw else { return Ok(UncorePower::default()) };
    let optional = |value: &Option<Spanned<f64>>, name| match value {
        Some(value) => scaled(value, 1e3, name),
        None => Ok(0),
    };
    let mut power = UncorePower {
        machine_uw: optional(&raw.machine_mw, "machine_mw")?,
        package_active_uw: optional(&raw.package_active_mw, "package_active_mw")?,
        package_idle_uw: Vec::new(),
    };
    let mut depth_of_last = BTreeMap::new();
    for table in &raw.package_idle {
        let raw::PackageIdle { state, mw } = table.get_ref();
        let mut known = false;
        for (index, kind) in types.iter().enumerate() {
            let Some(depth) = kind.idle_states.iter().position(|other| other.name == *state) else {
                continue;
            };
            known = true;
            if depth_of_last.insert(index, depth).is_some_and(|last| depth <= last) {
                return fault(
                    table,
                    &format!("package_idle: {state} is out of order; shallow first"),
                );
            }
        }
        if !known {
            return fault(table, &format!("package_idle: no CPU has an idle state {state}"));
        }
        let uw = scaled(mw, 1e3, "mw")?;
        let above = power.package_idle_uw.last().map_or(power.package_active_uw, |(_, uw)| *uw);
        if uw > above {
            let what = format!(
                "package_idle: {state} draws more than the shallower state or than an active package"
            );
            return fault(mw, &what);
        }
        power.package_idle_uw.push((state.clone(), uw));
    }
    Ok(power)
}
