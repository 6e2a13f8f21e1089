//! LISA's `plat_info.yml`: capacities, frequencies, frequency domains, energy model.

use super::estimate;
use super::survey::{Architecture, FoundOpp, Survey};
use super::yaml::Yaml;
use crate::{CPUS_MAX, CpuId, CpuSet};

/// Reads a platform description, old (`conf:`, Python object tags) or new (`!call:`).
pub fn survey(text: &str) -> Result<Survey, String> {
    let document = Yaml::parse(text)?;
    let info = document.get("platform-info").ok_or("it has no platform-info")?;
    let info = info.get("conf").unwrap_or(info);
    let mut survey = Survey { source: "LISA's plat_info.yml", ..Survey::default() };
    let name = info.get("name").map(Yaml::text).unwrap_or_default();
    survey.name = Some(name.to_owned()).filter(|name| !name.is_empty());
    survey.architecture = Architecture::by_name(info.get("abi").map_or("", Yaml::text));
    survey.hz = hz(info);
    survey.cpus = cpus(info)?;
    for domain in info.get("freq-domains").map_or(&[][..], Yaml::items) {
        let domain = cpu_numbers(domain.items().iter())?;
        survey.frequency_domains.push(domain);
    }
    let capacities = info.get("cpu-capacities").map(|node| node.get("orig").unwrap_or(node));
    for (cpu, capacity) in capacities.map_or(&[][..], Yaml::pairs) {
        if let Some(cpu) = cpu.number().map(CpuId).filter(|cpu| survey.cpus.contains(*cpu)) {
            survey.facts(cpu).capacity = capacity.number();
        }
    }
    for (cpu, frequencies) in info.get("freqs").map_or(&[][..], Yaml::pairs) {
        if let Some(cpu) = cpu.number().map(CpuId).filter(|cpu| survey.cpus.contains(*cpu)) {
            let khz = frequencies.items().iter().filter_map(Yaml::number::<u32>);
            survey.facts(cpu).opps = points(khz.map(|khz| (khz, None)));
        }
    }
    energy_model(info, &mut survey);
    survey.llcs = survey.frequency_domains.clone();
    for place in ["topology", "cpu_groups"] {
        survey.note(
            place,
            "ESTIMATE: a frequency domain shares a last-level cache, and all CPUs a package.",
        );
    }
    Ok(survey)
}

fn hz(info: &Yaml) -> Option<u32> {
    let config = info.at(&["kernel", "config"])?;
    if let Some(hz) = config.get("CONFIG_HZ") {
        return hz.number();
    }
    let text = config.get("text")?.text();
    text.split_whitespace().find_map(|word| word.strip_prefix("CONFIG_HZ="))?.parse().ok()
}

fn cpus(info: &Yaml) -> Result<CpuSet, String> {
    if let Some(count) = info.get("cpus-count").and_then(Yaml::number::<usize>) {
        return match count {
            1..=CPUS_MAX => Ok(CpuSet::first_n(count)),
            _ => Err(format!("cpus-count is {count}; schedlab handles 1 to {CPUS_MAX}")),
        };
    }
    let keys = ["cpu-capacities", "freqs"].into_iter().filter_map(|key| info.get(key));
    let keys = keys.flat_map(|node| node.get("orig").unwrap_or(node).pairs()).map(|(cpu, _)| cpu);
    let listed = info.get("freq-domains").map_or(&[][..], Yaml::items).iter().flat_map(Yaml::items);
    let cpus = cpu_numbers(keys.chain(listed))?;
    if cpus.is_empty() {
        return Err(
            "it has neither cpus-count nor CPUs in freqs, freq-domains or cpu-capacities".into()
        );
    }
    Ok(cpus)
}

fn cpu_numbers<'a>(numbers: impl Iterator<Item = &'a Yaml>) -> Result<CpuSet, String> {
    let mut cpus = CpuSet::EMPTY;
    for number in numbers {
        match number.number::<u32>() {
            Some(cpu) if (cpu as usize) < CPUS_MAX => cpus.insert(CpuId(cpu)),
            _ => return Err(format!("`{}` is no CPU below {CPUS_MAX}", number.text())),
        };
    }
    Ok(cpus)
}

/// `nrg-model`: per CPU the points' capacity and power, and the names of its idle states.
fn energy_model(info: &Yaml, survey: &mut Survey) {
    let Some(model) = info.get("nrg-model") else { return };
    let mut nodes = Vec::new();
    collect_cpu_nodes(model, &mut nodes);
    let mut named = false;
    for node in nodes {
        let Some(cpu) = node.get("cpu").and_then(Yaml::number).map(CpuId) else { continue };
        if !survey.cpus.contains(cpu) {
            continue;
        }
        let states = node.get("active_states").map(Yaml::ordered_pairs).unwrap_or_default();
        // The model's power has no unit; the boards that have one give milliwatts.
        let power_uw = |mw: f64| (0.0..=1e7).contains(&mw).then_some((mw * 1000.0) as u64);
        let states = states.iter().filter_map(|(khz, state)| {
            let mw = state.items().get(1).or_else(|| state.get("power"));
            Some((khz.number()?, mw.and_then(Yaml::number).and_then(power_uw)))
        });
        let opps = points(states);
        if !opps.is_empty() {
            survey.facts(cpu).opps = opps;
        }
        let idle = node.get("idle_states").map(Yaml::ordered_pairs).unwrap_or_default();
        let names: Vec<String> = idle.iter().map(|(name, _)| name.text().to_owned()).collect();
        if !names.is_empty() {
            named = true;
            survey.facts(cpu).idle_states = estimate::named_states(&names);
        }
    }
    survey.note("opps", "Power of the energy model, taken for milliwatts.");
    if named {
        survey.note(
            "idle_states",
            "Names of the energy model; latencies, residencies and powers are ESTIMATES.",
        );
    }
}

/// Energy-model nodes of single CPUs, wherever the anchors of the dump put their full text.
fn collect_cpu_nodes<'a>(node: &'a Yaml, found: &mut Vec<&'a Yaml>) {
    if node.get("active_states").is_some_and(|states| !states.ordered_pairs().is_empty()) {
        found.push(node);
    }
    for (_, value) in node.pairs() {
        collect_cpu_nodes(value, found);
    }
    for item in node.items() {
        collect_cpu_nodes(item, found);
    }
}

/// Operating points, slow first and each once.
fn points(found: impl Iterator<Item = (u32, Option<u64>)>) -> Vec<FoundOpp> {
    let mut opps: Vec<FoundOpp> = found
        .filter(|(khz, _)| *khz > 0)
        .map(|(khz, power_uw)| FoundOpp { khz, uv: None, power_uw })
        .collect();
    opps.sort_by_key(|opp| opp.khz);
    opps.dedup_by_key(|opp| opp.khz);
    opps
}
