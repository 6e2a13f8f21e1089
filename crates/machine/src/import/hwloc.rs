//! hwloc XML, versions 1 and 2, with or without I/O objects.

use roxmltree::{Document, Node, ParsingOptions};

use super::estimate;
use super::survey::{Architecture, Survey};
use crate::{CPUS_MAX, CpuId, CpuSet};

/// Reads an exported topology.
pub fn survey(text: &str) -> Result<Survey, String> {
    // The file names its DTD, which is not read.
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document =
        Document::parse_with_options(text, options).map_err(|error| format!("{error}"))?;
    let root = document.root_element();
    if root.tag_name().name() != "topology" {
        return Err(format!("<{}> is not hwloc's <topology>", root.tag_name().name()));
    }
    let mut survey = Survey { source: "hwloc XML", ..Survey::default() };
    let objects = || root.descendants().filter(|node| node.has_tag_name("object"));
    let mut pus = CpuSet::EMPTY;
    for pu in of_type(objects(), &["PU"]) {
        let number = pu.attribute("os_index").and_then(|number| number.parse::<u32>().ok());
        match number {
            Some(cpu) if (cpu as usize) < CPUS_MAX => pus.insert(CpuId(cpu)),
            _ => {
                return Err(format!(
                    "line {}: a PU whose os_index is no CPU below {CPUS_MAX}",
                    line(&pu)
                ));
            }
        };
    }
    survey.cpus = pus;
    let sets = |types: &[&str]| -> Result<Vec<CpuSet>, String> {
        let sets = of_type(objects(), types).map(|object| cpuset(&object));
        sets.collect()
    };
    survey.packages = sets(&["Package", "Socket"])?;
    survey.cores = sets(&["Core"])?;
    let mut nodes: Vec<(u32, CpuSet)> = Vec::new();
    for node in of_type(objects(), &["NUMANode"]) {
        let cpus = cpuset(&node)?;
        let number = node.attribute("os_index").and_then(|number| number.parse().ok());
        // Nodes of memory alone (CXL, high-bandwidth memory) have no CPUs of their own.
        if !cpus.is_empty() && !nodes.iter().any(|(_, known)| known.intersects(&cpus)) {
            nodes.push((number.unwrap_or(nodes.len() as u32), cpus));
        }
    }
    nodes.sort_by_key(|(number, _)| *number);
    survey.nodes = nodes.iter().map(|(_, cpus)| *cpus).collect();
    caches(&mut survey, &objects().collect::<Vec<_>>())?;
    survey.distances = distances(&root, &nodes);
    infos(&mut survey, &objects().collect::<Vec<_>>());
    cpu_kinds(&mut survey, &root)?;
    Ok(survey)
}

fn line(node: &Node<'_, '_>) -> u32 {
    node.document().text_pos_at(node.range().start).row
}

fn of_type<'a, 'd: 'a>(
    objects: impl Iterator<Item = Node<'a, 'd>>,
    types: &[&str],
) -> impl Iterator<Item = Node<'a, 'd>> {
    objects.filter(move |object| object.attribute("type").is_some_and(|kind| types.contains(&kind)))
}

/// `cpuset`: 32-bit words in hexadecimal, the highest first; an empty word is zero.
fn cpuset(node: &Node<'_, '_>) -> Result<CpuSet, String> {
    let Some(text) = node.attribute("cpuset") else { return Ok(CpuSet::EMPTY) };
    let words = text.split(',').map(|word| {
        let digits = word.trim().trim_start_matches("0x");
        if digits.is_empty() { "0".repeat(8) } else { format!("{digits:0>8}") }
    });
    CpuSet::parse_mask(&words.collect::<String>())
        .map_err(|error| format!("line {}: cpuset {text}: {error}", line(node)))
}

/// The last level is the deepest that a CPU has; a second level that cores share is a cluster.
fn caches(survey: &mut Survey, objects: &[Node<'_, '_>]) -> Result<(), String> {
    let mut found: Vec<(u32, CpuSet)> = Vec::new();
    for object in objects {
        let kind = object.attribute("type").unwrap_or_default();
        let depth = match kind.strip_prefix('L').and_then(|rest| rest.strip_suffix("Cache")) {
            Some(depth) => depth.parse().ok(),
            // hwloc 1, where cache_type 2 holds instructions.
            None if kind == "Cache" && object.attribute("cache_type") != Some("2") => {
                object.attribute("depth").and_then(|depth| depth.parse().ok())
            }
            None => None,
        };
        if let Some(depth) = depth {
            found.push((depth, cpuset(object)?));
            if let Some(bytes) =
                object.attribute("cache_linesize").and_then(|bytes| bytes.parse().ok())
            {
                survey.line_bytes = Some(bytes)
                    .filter(|bytes: &u32| bytes.is_power_of_two() && (8..=1024).contains(bytes));
            }
        }
        if kind == "Group" && object.attribute("subtype") == Some("Cluster") {
            survey.clusters.push(cpuset(object)?);
        }
    }
    // A fourth level is memory-side and serves the package.
    found.retain(|(depth, cpus)| *depth <= 3 && !cpus.is_empty());
    found.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
    for (_, cpus) in &found {
        if !survey.llcs.iter().any(|llc| llc.intersects(cpus)) {
            survey.llcs.push(*cpus);
        }
    }
    if survey.clusters.is_empty() {
        survey.clusters =
            found.iter().filter(|(depth, _)| *depth == 2).map(|(_, cpus)| *cpus).collect();
    }
    Ok(())
}

/// Distances as firmware gives them: hwloc 2 has them whole, hwloc 1 divided by a base.
fn distances(root: &Node<'_, '_>, nodes: &[(u32, CpuSet)]) -> Option<Vec<u32>> {
    let numbers = |parent: &Node<'_, '_>, tag: &str| -> Option<Vec<u32>> {
        let texts = parent
            .children()
            .filter(|child| child.has_tag_name(tag))
            .filter_map(|child| child.text());
        texts.flat_map(str::split_whitespace).map(|number| number.parse().ok()).collect()
    };
    let table = root.descendants().find(|node| {
        node.has_tag_name("distances2")
            && node.attribute("type") == Some("NUMANode")
            && node.attribute("name").is_none_or(|name| name == "NUMALatency")
    });
    if let Some(table) = table {
        let indexes = numbers(&table, "indexes")?;
        let values = numbers(&table, "u64values")?;
        let place = |number: u32| indexes.iter().position(|index| *index == number);
        let places: Vec<usize> =
            nodes.iter().map(|(number, _)| place(*number)).collect::<Option<_>>()?;
        let pairs = places.iter().flat_map(|from| places.iter().map(move |to| (*from, *to)));
        return pairs.map(|(from, to)| values.get(from * indexes.len() + to).copied()).collect();
    }
    let table = root
        .descendants()
        .find(|node| node.has_tag_name("distances") && node.attribute("latency_base").is_some())?;
    let base: f64 = table.attribute("latency_base")?.parse().ok()?;
    let values = table.children().filter(|child| child.has_tag_name("latency"));
    let values: Vec<u32> = values
        .map(|child| Some((child.attribute("value")?.parse::<f64>().ok()? * base).round() as u32))
        .collect::<Option<_>>()?;
    (values.len() == nodes.len() * nodes.len()).then_some(values)
}

fn infos(survey: &mut Survey, objects: &[Node<'_, '_>]) {
    let info = |name: &str| {
        let infos = objects.iter().flat_map(|object| object.children());
        let mut infos = infos.filter(|node| node.has_tag_name("info"));
        let found = infos.find(|info| info.attribute("name") == Some(name))?;
        found.attribute("value").map(|value| value.trim().to_owned())
    };
    survey.model_name = info("CPUModel");
    survey.name = info("HostName");
    survey.architecture = Architecture::by_name(info("Architecture").unwrap_or_default().as_str());
    let vendor = info("CPUVendor");
    let number = |name: &str| info(name).and_then(|text| text.parse().ok());
    if vendor.as_deref() == Some("GenuineIntel") {
        survey.architecture = Architecture::X86;
        survey.intel_model = number("CPUFamilyNumber").zip(number("CPUModelNumber"));
    }
}

/// `<cpukind>` of hwloc 2.4 and later: capacities and frequencies of hybrid machines.
fn cpu_kinds(survey: &mut Survey, root: &Node<'_, '_>) -> Result<(), String> {
    for kind in root.descendants().filter(|node| node.has_tag_name("cpukind")) {
        let number = |name: &str| {
            let mut infos = kind.children().filter(|child| child.has_tag_name("info"));
            let found = infos.find(|info| info.attribute("name") == Some(name))?;
            found.attribute("value")?.trim().parse::<u32>().ok().filter(|number| *number > 0)
        };
        let max_khz = number("FrequencyMaxMHz").and_then(|mhz| mhz.checked_mul(1000));
        let capacity = number("LinuxCapacity");
        for cpu in cpuset(&kind)? & survey.cpus {
            let facts = survey.facts(cpu);
            facts.capacity = capacity.or(facts.capacity);
            if let Some(khz) = max_khz {
                facts.opps = estimate::frequencies(khz, khz);
            }
        }
    }
    Ok(())
}
