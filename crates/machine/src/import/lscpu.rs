//! `lscpu -J`, the summary, and `lscpu -J -e`, the table of CPUs.

use std::collections::BTreeMap;

use serde_json::Value;

use super::estimate;
use super::survey::{Architecture, Survey};
use crate::{CPUS_MAX, CpuId, CpuSet, Numbering, Regular, Topology};

/// Reads either form.
pub fn survey(text: &str) -> Result<Survey, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| format!("{error}"))?;
    if let Some(rows) = document.get("cpus").and_then(Value::as_array) {
        return table(rows);
    }
    let mut fields = BTreeMap::new();
    match document.get("lscpu") {
        Some(list) => collect(list, &mut fields, 0),
        None => {
            return Err("neither `lscpu` nor `cpus` in this JSON; write it with lscpu -J".into());
        }
    }
    summary(&fields)
}

/// Flattens the fields; newer versions nest them.
fn collect(list: &Value, fields: &mut BTreeMap<String, String>, depth: usize) {
    for entry in list.as_array().into_iter().flatten().filter(|_| depth < 16) {
        let text = |key| entry.get(key).and_then(Value::as_str).map(str::trim);
        if let (Some(field), Some(data)) = (text("field"), text("data")) {
            fields.insert(field.trim_end_matches(':').to_owned(), data.to_owned());
        }
        if let Some(children) = entry.get("children") {
            collect(children, fields, depth + 1);
        }
    }
}

fn summary(fields: &BTreeMap<String, String>) -> Result<Survey, String> {
    let text = |key: &str| fields.get(key).map(String::as_str);
    let number = |key: &str| text(key).and_then(|text| text.parse::<u32>().ok());
    let mut survey = Survey {
        source: "lscpu -J",
        model_name: text("Model name").map(str::to_owned),
        architecture: Architecture::by_name(text("Architecture").unwrap_or_default()),
        ..Survey::default()
    };
    if text("Vendor ID") == Some("GenuineIntel") {
        survey.intel_model = number("CPU family").zip(number("Model"));
    }
    survey.cpus = match (text("On-line CPU(s) list"), number("CPU(s)")) {
        (Some(list), _) => list.parse().map_err(|error| format!("On-line CPU(s) list: {error}"))?,
        (None, Some(count)) if count as usize <= CPUS_MAX => CpuSet::first_n(count as usize),
        (None, Some(count)) => {
            return Err(format!("{count} CPUs; schedlab handles up to {CPUS_MAX}"));
        }
        (None, None) => return Err("it has neither CPU(s) nor an on-line CPU list".into()),
    };
    for node in 0..CPUS_MAX {
        let Some(list) = text(&format!("NUMA node{node} CPU(s)")) else {
            if node as u32 >= number("NUMA node(s)").unwrap_or(0) {
                break;
            }
            continue;
        };
        survey
            .nodes
            .push(list.parse().map_err(|error| format!("NUMA node{node} CPU(s): {error}"))?);
    }
    place(&mut survey, fields);
    let mhz = |key: &str| text(key).and_then(|mhz| mhz.parse::<f64>().ok()).and_then(khz);
    // Without cpufreq the processor's name often ends in its speed.
    let named = || {
        survey.model_name.as_deref()?.rsplit_once("@ ")?.1.strip_suffix("GHz")?.parse::<f64>().ok()
    };
    let max_khz = mhz("CPU max MHz").or_else(|| named().and_then(|ghz| khz(ghz * 1000.0)));
    if let Some(max_khz) = max_khz {
        let min_khz = mhz("CPU min MHz").unwrap_or(max_khz).min(max_khz);
        let opps = estimate::frequencies(min_khz, max_khz);
        for cpu in survey.cpus {
            survey.facts(cpu).opps.clone_from(&opps);
        }
    }
    Ok(survey)
}

fn khz(mhz: f64) -> Option<u32> {
    let khz = (mhz * 1000.0).round();
    (1.0..=100e6).contains(&khz).then_some(khz as u32)
}

/// Cores and packages, which the summary counts without saying which CPUs they hold.
fn place(survey: &mut Survey, fields: &BTreeMap<String, String>) {
    let number =
        |key: &str| fields.get(key).and_then(|text| text.parse::<u32>().ok()).filter(|n| *n > 0);
    let threads_per_core = number("Thread(s) per core").unwrap_or(1);
    let packages = number("Socket(s)").or_else(|| number("Cluster(s)")).unwrap_or(1);
    // Firmware without NUMA makes one node of several packages; the tree is then the packages'.
    let nodes = (survey.nodes.len() as u32).max(packages);
    let told = survey.nodes.len() as u32 == nodes;
    let cpus = survey.cpus.weight() as u32;
    let llcs = instances(fields).filter(|llcs| llcs % nodes == 0).unwrap_or(nodes);
    let regular = |numbering| Regular {
        packages,
        nodes_per_package: nodes / packages,
        llcs_per_node: llcs / nodes,
        clusters_per_llc: None,
        cores_per_group: cpus / threads_per_core / llcs.max(1),
        threads_per_core,
        numbering,
    };
    let fits = |topology: &Topology| {
        *topology.cpus() == survey.cpus && (!told || topology.nodes().groups() == survey.nodes)
    };
    // x86 firmware lists the first threads of all cores first.
    let mut order =
        [Numbering::ThreadsLast, Numbering::PackagesInterleaved, Numbering::ThreadsAdjacent];
    if survey.architecture != Architecture::X86 {
        order.reverse();
    }
    let found = order.into_iter().find_map(|numbering| regular(numbering).build().filter(&fits));
    let note = match found {
        Some(topology) => {
            survey.cores = topology.cores().groups().to_vec();
            survey.llcs = topology.llcs().groups().to_vec();
            survey.packages = topology.packages().groups().to_vec();
            "ESTIMATE: the summary counts threads, cores and caches; which CPUs they hold is assumed."
        }
        None => {
            survey.llcs.clone_from(&survey.nodes);
            "ESTIMATE: one package, a cache for each node, no SMT, for the summary's counts do not multiply."
        }
    };
    for place in ["topology", "cpu_groups"] {
        survey.note(place, note);
    }
}

/// How many caches of the last level there are: `32 MiB (2 instances)`.
fn instances(fields: &BTreeMap<String, String>) -> Option<u32> {
    let text = fields.get("L3 cache").or_else(|| fields.get("L3"))?;
    let (_, count) = text.split_once('(')?;
    count.split_whitespace().next()?.parse().ok().filter(|count| *count > 0)
}

/// One row per CPU.
fn table(rows: &[Value]) -> Result<Survey, String> {
    let mut survey = Survey { source: "lscpu -J -e", ..Survey::default() };
    let mut groups: [BTreeMap<Vec<u64>, CpuSet>; 4] = Default::default();
    for row in rows {
        let number = |key: &str| match row.get(key) {
            Some(Value::Number(number)) => number.as_u64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            _ => None,
        };
        let Some(cpu) = number("cpu") else { return Err("a row without its cpu".into()) };
        let cpu = u32::try_from(cpu).ok().map(CpuId).filter(|cpu| cpu.index() < CPUS_MAX);
        let Some(cpu) = cpu else { return Err(format!("a CPU beyond {CPUS_MAX}")) };
        let online = match row.get("online") {
            Some(Value::Bool(online)) => *online,
            Some(Value::String(word)) => word != "no",
            _ => true,
        };
        if !online {
            continue;
        }
        survey.cpus.insert(cpu);
        let package = number("socket").unwrap_or(0);
        let node = number("node").unwrap_or(0);
        // `L1d:L1i:L2:L3` numbers the caches from the first level to the last.
        let caches = row.as_object().into_iter().flatten();
        let caches = caches.filter(|(key, _)| key.to_ascii_lowercase().starts_with("l1"));
        let last =
            caches.filter_map(|(_, ids)| ids.as_str()?.rsplit(':').next()?.parse().ok()).next();
        let keys = [
            vec![package, number("core").unwrap_or(cpu.0.into())],
            vec![package, last.unwrap_or(node)],
            vec![node],
            vec![package],
        ];
        for (level, key) in groups.iter_mut().zip(keys) {
            level.entry(key).or_default().insert(cpu);
        }
        let mhz = |key: &str| {
            row.get(key).and_then(|value| match value {
                Value::Number(number) => number.as_f64(),
                other => other.as_str()?.parse().ok(),
            })
        };
        if let Some(max_khz) = mhz("maxmhz").and_then(khz) {
            let min_khz = mhz("minmhz").and_then(khz).unwrap_or(max_khz).min(max_khz);
            survey.facts(cpu).opps = estimate::frequencies(min_khz, max_khz);
        }
    }
    let [cores, llcs, nodes, packages] = groups.map(|level| level.into_values().collect());
    Ok(Survey { cores, llcs, nodes, packages, ..survey })
}
