//! A `/sys` tree, this machine's or a copy of another's.

use std::path::{Path, PathBuf};

use super::estimate;
use super::survey::{Architecture, FoundOpp, FoundState, Survey};
use crate::error::read_bounded;
use crate::{CPUS_MAX, CpuId, CpuSet};

/// No file of interest is longer; /proc/cpuinfo of the widest machine has a few megabytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A latency in microseconds or a power in milliwatts beyond this is a driver's "unknown".
const QUANTITY_MAX: u64 = 10_000_000;

/// Directories listed at most, so that a tree of rubbish ends.
const ENTRIES_MAX: usize = 1 << 16;

/// Reads the tree below `root`, which holds `sys/` or is a copy of `/sys` itself.
pub fn survey(root: &Path) -> Result<Survey, String> {
    let sys = [root.join("sys"), root.to_owned()]
        .into_iter()
        .find(|sys| sys.join("devices/system/cpu").is_dir());
    let Some(sys) = sys else {
        return Err("no sys/devices/system/cpu below it; copy /sys/devices/system".into());
    };
    let mut survey = Survey { source: "sysfs", ..Survey::default() };
    let cpu_directory = sys.join("devices/system/cpu");
    let cpus = numbered(&cpu_directory, "cpu");
    if let Some((last, _)) = cpus.last().filter(|(last, _)| *last as usize >= CPUS_MAX) {
        return Err(format!("CPU {last} is beyond the {CPUS_MAX} CPUs that schedlab handles"));
    }
    for (number, directory) in &cpus {
        one_cpu(&mut survey, CpuId(*number), directory)?;
    }
    if survey.cpus.is_empty() {
        return Err(format!("{}: no cpu*/topology there", cpu_directory.display()));
    }
    for level in [&mut survey.cores, &mut survey.clusters, &mut survey.llcs, &mut survey.packages] {
        level.sort_by_key(CpuSet::first);
        level.dedup();
    }
    nodes(&mut survey, &sys.join("devices/system/node"))?;
    frequencies(&mut survey, &cpu_directory)?;
    energy_model(&mut survey, &sys.join("kernel/debug/energy_model"));
    processor(&mut survey, root);
    Ok(survey)
}

fn one_cpu(survey: &mut Survey, cpu: CpuId, directory: &Path) -> Result<(), String> {
    let topology = directory.join("topology");
    if !topology.is_dir() {
        return Ok(());
    }
    survey.cpus.insert(cpu);
    let siblings = |names: [&str; 2]| -> Result<CpuSet, String> {
        let file = names.into_iter().map(|name| topology.join(name)).find(|file| file.exists());
        let Some(file) = file else { return Ok(CpuSet::of(cpu)) };
        let set = list(&file)?;
        match set.contains(cpu) {
            true => Ok(set),
            false => Err(format!("{}: CPU {cpu} is not in its own list", file.display())),
        }
    };
    let core = siblings(["core_cpus_list", "thread_siblings_list"])?;
    let package = siblings(["package_cpus_list", "core_siblings_list"])?;
    survey.cores.push(core);
    survey.packages.push(package);
    survey.clusters.push(siblings(["cluster_cpus_list", "core_cpus_list"])?);
    let mut last: Option<(u32, CpuSet)> = None;
    for (_, cache) in numbered(&directory.join("cache"), "index") {
        let level = number::<u32>(&cache.join("level")).unwrap_or(0);
        let data = text(&cache.join("type")).is_none_or(|kind| kind != "Instruction");
        // A fourth level is memory-side and serves the package.
        if data && level <= 3 && last.is_none_or(|(deepest, _)| level > deepest) {
            last = Some((level, list(&cache.join("shared_cpu_list"))?));
            survey.line_bytes = number(&cache.join("coherency_line_size")).or(survey.line_bytes);
        }
    }
    survey.llcs.push(last.map_or(package, |(_, shared)| shared));
    let capacity = number(&directory.join("cpu_capacity"));
    let mut states = Vec::new();
    for (_, state) in numbered(&directory.join("cpuidle"), "state") {
        let us = |name: &str| {
            number::<u64>(&state.join(name)).filter(|us| *us <= QUANTITY_MAX).map(|us| us * 1000)
        };
        let Some(name) = text(&state.join("name")) else { continue };
        let status = text(&state.join("default_status"));
        // Drivers that do not know the power write 0, or all ones.
        let mw = number::<u64>(&state.join("power")).filter(|mw| (1..QUANTITY_MAX).contains(mw));
        states.push(FoundState {
            polling: name == "POLL" || name == "snooze",
            exit_ns: us("latency").unwrap_or(0),
            residency_ns: us("residency").unwrap_or(0),
            power_uw: mw.map(|mw| mw * 1000),
            disabled: number::<u64>(&state.join("disable")) == Some(1)
                || status.as_deref() == Some("disabled"),
            name,
            ..FoundState::default()
        });
    }
    let facts = survey.facts(cpu);
    facts.capacity = capacity;
    facts.idle_states = states;
    Ok(())
}

fn nodes(survey: &mut Survey, directory: &Path) -> Result<(), String> {
    let mut rows = Vec::new();
    let all = numbered(directory, "node");
    for (place, (_, node)) in all.iter().enumerate() {
        let cpus = list(&node.join("cpulist"))? & survey.cpus;
        // Nodes of memory alone have no CPUs of their own.
        if !cpus.is_empty() {
            survey.nodes.push(cpus);
            rows.push((place, text(&node.join("distance")).unwrap_or_default()));
        }
    }
    let distance = |row: &str, place: usize| row.split_whitespace().nth(place)?.parse().ok();
    let pairs = rows.iter().flat_map(|(_, row)| rows.iter().map(move |(place, _)| (row, *place)));
    survey.distances = pairs.map(|(row, place)| distance(row, place)).collect();
    Ok(())
}

fn frequencies(survey: &mut Survey, cpu_directory: &Path) -> Result<(), String> {
    for (_, policy) in numbered(&cpu_directory.join("cpufreq"), "policy") {
        let khz = |name: &str| number::<u32>(&policy.join(name)).filter(|khz| *khz > 0);
        let related = text(&policy.join("related_cpus")).unwrap_or_default();
        let cpus: CpuSet = related
            .replace(' ', ",")
            .parse()
            .map_err(|error| format!("{}/related_cpus: {error}", policy.display()))?;
        let available = text(&policy.join("scaling_available_frequencies")).unwrap_or_default();
        let boost = text(&policy.join("scaling_boost_frequencies")).unwrap_or_default();
        let mut listed: Vec<u32> = available
            .split_whitespace()
            .chain(boost.split_whitespace())
            .filter_map(|khz| khz.parse().ok())
            .collect();
        listed.sort_unstable();
        listed.dedup();
        let opps = match (khz("cpuinfo_min_freq"), khz("cpuinfo_max_freq")) {
            _ if !listed.is_empty() => listed
                .into_iter()
                .filter(|khz| *khz > 0)
                .map(|khz| FoundOpp { khz, uv: None, power_uw: None })
                .collect(),
            (Some(min), Some(max)) => {
                survey.notes.insert(
                    "opps",
                    vec!["Steps between the slowest and the fastest frequency are assumed.".into()],
                );
                estimate::frequencies(min.min(max), max)
            }
            _ => Vec::new(),
        };
        // All ones (CPUFREQ_ETERNAL) says that the driver does not know.
        let transition_ns = number::<u64>(&policy.join("cpuinfo_transition_latency"));
        let transition_ns = transition_ns.filter(|ns| *ns < u64::from(u32::MAX));
        survey.frequency_transition_ns = survey.frequency_transition_ns.max(transition_ns);
        survey.frequency_domains.push(cpus & survey.cpus);
        for cpu in cpus & survey.cpus {
            survey.facts(cpu).opps.clone_from(&opps);
        }
    }
    Ok(())
}

/// The kernel's energy model, where debugfs is in the tree: `ps:KHZ/power`, in microwatts since
/// v6.0 (`em_debug_create_ps()`).
fn energy_model(survey: &mut Survey, directory: &Path) {
    for domain in directories(directory) {
        let Ok(cpus) = list(&domain.join("cpus")) else { continue };
        let mut opps = Vec::new();
        for state in directories(&domain) {
            let name = state.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !name.starts_with("ps:") {
                continue;
            }
            let power_uw = number(&state.join("power")).filter(|uw| *uw <= QUANTITY_MAX * 1000);
            if let (Some(khz), Some(_)) = (number(&state.join("frequency")), power_uw) {
                opps.push(FoundOpp { khz, uv: None, power_uw });
            }
        }
        opps.sort_by_key(|opp| opp.khz);
        for cpu in cpus & survey.cpus {
            if !opps.is_empty() {
                survey.facts(cpu).opps.clone_from(&opps);
            }
        }
    }
}

/// Processor and tick rate from what may stand beside `sys/`: `proc/cpuinfo` and `boot/config-*`.
fn processor(survey: &mut Survey, root: &Path) {
    let cpuinfo = text(&root.join("proc/cpuinfo")).unwrap_or_default();
    let field = |name: &str| {
        let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
    };
    survey.model_name = field("model name").or_else(|| field("cpu"));
    survey.name = text(&root.join("proc/sys/kernel/hostname"));
    survey.architecture = if field("vendor_id").is_some() {
        Architecture::X86
    } else if field("CPU implementer").is_some() {
        Architecture::Arm
    } else if field("cpu").is_some_and(|cpu| cpu.starts_with("POWER")) {
        Architecture::Power
    } else {
        Architecture::Other
    };
    if field("vendor_id").as_deref() == Some("GenuineIntel") {
        let number = |name: &str| field(name).and_then(|text| text.parse().ok());
        survey.intel_model = number("cpu family").zip(number("model"));
    }
    let mhz = field("cpu MHz").and_then(|mhz| mhz.parse::<f64>().ok());
    if let Some(khz) = mhz.map(|mhz| mhz * 1000.0).filter(|khz| (1.0..1e8).contains(khz)) {
        let mut used = false;
        for cpu in survey.cpus {
            let facts = survey.facts(cpu);
            if facts.opps.is_empty() {
                used = true;
                facts.opps = estimate::frequencies(khz as u32, khz as u32);
            }
        }
        if used {
            survey.note(
                "opps",
                "No cpufreq: the frequency at the moment of the import (proc/cpuinfo).",
            );
        }
    }
    if let Some(release) = text(&root.join("proc/sys/kernel/osrelease")) {
        let config = text(&root.join(format!("boot/config-{release}"))).unwrap_or_default();
        survey.hz = config.lines().find_map(|line| line.strip_prefix("CONFIG_HZ=")?.parse().ok());
    }
}

/// A file's text without its last newline; none for an absent or unreadable file.
fn text(file: &Path) -> Option<String> {
    let bytes = read_bounded(file, FILE_BYTES_MAX).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn number<T: std::str::FromStr>(file: &Path) -> Option<T> {
    text(file)?.parse().ok()
}

/// A CPU list; an absent file is an empty one.
fn list(file: &Path) -> Result<CpuSet, String> {
    let text = text(file).unwrap_or_default();
    text.parse().map_err(|error| format!("{}: {error}", file.display()))
}

fn directories(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .take(ENTRIES_MAX)
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    paths.sort();
    paths
}

/// Subdirectories called `prefix` and a number, by number.
fn numbered(parent: &Path, prefix: &str) -> Vec<(u32, PathBuf)> {
    let number = |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok();
    let mut found: Vec<(u32, PathBuf)> =
        directories(parent).into_iter().filter_map(|path| Some((number(&path)?, path))).collect();
    found.sort();
    found
}
