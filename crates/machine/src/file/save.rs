//! Writing machine files: compact, in the order and with the words of the hand-written ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::cores::{DOMAIN_LEVELS, domains_by_level};
use super::draft::{Draft, Kind};
use super::layout::Regular;
use crate::{
    BroadcastIrq, CacheCosts, CpuSet, GroupState, IdleState, Machine, MemoryLimits, Opp, PathCosts,
    Rail, Topology, UsualCpufreq,
};

/// Comments of a file by the table or key that they stand above; `""` is the head of the file.
pub(crate) type Notes = BTreeMap<&'static str, String>;

const WIDTH: usize = 100;

impl Machine {
    /// The machine as a file that loads to an equal machine. Comments of a file that it may have
    /// come from are lost.
    pub fn to_toml(&self) -> String {
        write_toml(&Draft::from(self), &Notes::new())
    }
}

/// The text of a machine file.
pub(crate) fn write_toml(draft: &Draft, notes: &Notes) -> String {
    let mut page = Page { text: String::new(), notes };
    page.note("");
    page.line(&format!("name = {}", quoted(&draft.name)));
    if !draft.description.is_empty() {
        page.line(&format!("description = {}", quoted(&draft.description)));
    }
    page.note("hz");
    page.line(&format!("hz = {}", draft.hz));
    if draft.broadcast_irq != BroadcastIrq::default() {
        page.line(&format!("broadcast_irq = {}", quoted(draft.broadcast_irq.name())));
    }
    if draft.usual_cpufreq != UsualCpufreq::default() {
        page.line(&format!("cpufreq = {}", quoted(draft.usual_cpufreq.name())));
    }
    if draft.cache_costs.kernel_lines {
        page.line("kernel_lines = true");
    }
    if draft.shared_instruction_stream {
        page.line("shared_instruction_stream = true");
    }
    topology(&mut page, &draft.topology);
    distances(&mut page, draft);
    if draft.smt.threads() > 1 {
        page.table("smt");
        let threads = 1..=draft.smt.threads();
        let throughput =
            threads.clone().map(|busy| milli(draft.smt.throughput_permille(busy).into()));
        page.line(&format!("throughput = [{}]", throughput.collect::<Vec<_>>().join(", ")));
        let power = threads.map(|busy| milli(draft.smt.power_permille(busy).into()));
        page.line(&format!("power = [{}]", power.collect::<Vec<_>>().join(", ")));
    }
    power(&mut page, draft);
    cache(&mut page, &draft.cache_costs);
    memory(&mut page, &draft.memory_limits);
    kernel_paths(&mut page, &draft.path_costs);
    for Rail { name, cpus } in &draft.rails {
        page.line("");
        page.line("[[rail]]");
        page.line(&format!("name = {}", quoted(name)));
        page.line(&format!("cpus = \"{cpus}\""));
    }
    for state in &draft.group_states {
        group_state(&mut page, state);
    }
    for kind in &draft.kinds {
        cpu_type(&mut page, kind, draft);
    }
    page.text
}

struct Page<'a> {
    text: String,
    notes: &'a Notes,
}

impl Page<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn table(&mut self, name: &'static str) {
        self.line("");
        self.note(name);
        self.line(&format!("[{name}]"));
    }

    /// The comment that belongs above `place`, broken into lines.
    fn note(&mut self, place: &'static str) {
        for paragraph in self.notes.get(place).map_or("", String::as_str).lines() {
            let mut line = String::from("#");
            for word in paragraph.split_whitespace() {
                if line.len() + 1 + word.len() > WIDTH {
                    self.line(&line);
                    line = String::from("#");
                }
                line.push(' ');
                line.push_str(word);
            }
            self.line(&line);
        }
    }

    /// An array of quoted lists, as many to a line as fit.
    fn lists(&mut self, key: &str, sets: &[CpuSet]) {
        let quoted: Vec<String> = sets.iter().map(|set| format!("\"{set}\"")).collect();
        let flat = format!("{key} = [{}]", quoted.join(", "));
        if flat.len() <= WIDTH {
            return self.line(&flat);
        }
        self.line(&format!("{key} = ["));
        let mut line = String::from("   ");
        for item in quoted {
            if line.len() + item.len() + 2 > WIDTH {
                self.line(&line);
                line = String::from("   ");
            }
            let _ = write!(line, " {item},");
        }
        self.line(&line);
        self.line("]");
    }
}

fn topology(page: &mut Page<'_>, topology: &Topology) {
    let Some(regular) = Regular::recognise(topology) else {
        page.table("cpu_groups");
        if topology.cores().len() < topology.cpu_count() {
            page.lists("cores", topology.cores().groups());
        }
        if let Some(clusters) = topology.clusters() {
            page.lists("clusters", clusters.groups());
        }
        page.lists("llcs", topology.llcs().groups());
        page.lists("nodes", topology.nodes().groups());
        return page.lists("packages", topology.packages().groups());
    };
    page.table("topology");
    let mut count = |key: &str, count: u32| {
        if count > 1 {
            page.line(&format!("{key} = {count}"));
        }
    };
    count("packages", regular.packages);
    count("nodes_per_package", regular.nodes_per_package);
    count("llcs_per_node", regular.llcs_per_node);
    match regular.clusters_per_llc {
        Some(clusters) => {
            page.line(&format!("clusters_per_llc = {clusters}"));
            page.line(&format!("cores_per_cluster = {}", regular.cores_per_group));
        }
        None => page.line(&format!("cores_per_llc = {}", regular.cores_per_group)),
    }
    if regular.threads_per_core > 1 {
        page.line(&format!("threads_per_core = {}", regular.threads_per_core));
    }
    if regular.threads_per_core > 1 || regular.numbering != super::Numbering::ThreadsAdjacent {
        page.line(&format!("numbering = \"{}\"", regular.numbering.name()));
    }
}

fn distances(page: &mut Page<'_>, draft: &Draft) {
    let nodes = draft.topology.nodes().len();
    if nodes == 1 {
        return;
    }
    page.table("numa");
    let at = |from: usize, to: usize| draft.distances[from * nodes + to];
    if (0..nodes).any(|from| (0..from).any(|to| at(from, to) != at(to, from))) {
        page.line("asymmetric_distances = true");
    }
    page.line("distances = [");
    for row in draft.distances.chunks(nodes) {
        let row: Vec<String> = row.iter().map(u32::to_string).collect();
        page.line(&format!("    [{}],", row.join(", ")));
    }
    page.line("]");
}

fn power(page: &mut Page<'_>, draft: &Draft) {
    let power = &draft.uncore_power;
    if *power == Default::default() {
        return;
    }
    page.table("power");
    page.line(&format!("machine_mw = {}", milli(power.machine_uw)));
    page.line(&format!("package_active_mw = {}", milli(power.package_active_uw)));
    if !power.package_idle_uw.is_empty() {
        page.line("package_idle = [");
        for (state, uw) in &power.package_idle_uw {
            page.line(&format!("    {{ state = {}, mw = {} }},", quoted(state), milli(*uw)));
        }
        page.line("]");
    }
}

fn cache(page: &mut Page<'_>, costs: &CacheCosts) {
    page.table("cache");
    page.line(&format!("line_bytes = {}", costs.line_bytes));
    for (name, field) in CacheCosts::FIELDS {
        page.line(&format!("{name} = {}", milli(*field(&mut costs.clone()))));
    }
}

fn memory(page: &mut Page<'_>, limits: &MemoryLimits) {
    let known = limits.known();
    if !known.is_empty() {
        page.table("memory");
    }
    for (name, value) in known {
        page.line(&format!("{name} = {value}"));
    }
}

fn kernel_paths(page: &mut Page<'_>, costs: &PathCosts) {
    page.table("kernel_paths");
    let mut defaults = PathCosts::default();
    for (name, field) in PathCosts::FIELDS {
        let value = *field(&mut costs.clone());
        // What usually does not exist is told of only where it does.
        if value > 0 || *field(&mut defaults) > 0 {
            page.line(&format!("{name} = {}", grouped(value)));
        }
    }
}

fn group_state(page: &mut Page<'_>, state: &GroupState) {
    page.line("");
    page.line("[[group_state]]");
    page.line(&format!("name = {}", quoted(&state.name)));
    page.line(&format!("level = {}", quoted(&state.level)));
    page.line(&format!("promise = {}", quoted(&state.promise)));
    page.line(&format!("exit_latency_us = {}", milli(state.exit_latency_ns)));
    for (key, value) in [
        ("active_mw", state.active_uw),
        ("asleep_mw", state.asleep_uw),
        ("transition_energy_uj", state.transition_energy_nj),
    ] {
        if value > 0 {
            page.line(&format!("{key} = {}", milli(value)));
        }
    }
}

fn cpu_type(page: &mut Page<'_>, kind: &Kind, draft: &Draft) {
    let Kind { cpu_type, cpus, frequency_domains } = kind;
    page.line("");
    page.note("cpu_type");
    page.line("[[cpu_type]]");
    page.line(&format!("name = {}", quoted(&cpu_type.name)));
    if draft.kinds.len() > 1 {
        page.line(&format!("cpus = \"{cpus}\""));
    }
    page.note("capacity");
    page.line(&format!("capacity = {}", cpu_type.capacity));
    let by_level = DOMAIN_LEVELS.iter().find(|level| {
        domains_by_level(level, cpus, &draft.topology).as_ref() == Some(frequency_domains)
    });
    match by_level {
        Some(level) => page.line(&format!("frequency_domains = \"{level}\"")),
        None => page.lists("frequency_domains", frequency_domains),
    }
    if cpu_type.transition_latency_ns > 0 {
        page.line(&format!("frequency_transition_us = {}", milli(cpu_type.transition_latency_ns)));
    }
    if let Some(khz) = cpu_type.thermal_limit_khz {
        page.line(&format!("thermal_limit_khz = {}", grouped(khz.into())));
    }
    page.note("opps");
    page.line("opps = [");
    for Opp { khz, uv, power_uw } in &cpu_type.opps {
        let mv = uv.map_or(String::new(), |uv| format!("mv = {}, ", milli(uv.into())));
        let khz = grouped((*khz).into());
        page.line(&format!("    {{ khz = {khz}, {mv}power_mw = {} }},", milli(*power_uw)));
    }
    page.line("]");
    page.note("idle_states");
    page.line("idle_states = [");
    for state in &cpu_type.idle_states {
        page.line(&format!("    {{ {} }},", idle_state(state)));
    }
    page.line("]");
}

fn idle_state(state: &IdleState) -> String {
    let mut parts = vec![format!("name = {}", quoted(&state.name))];
    let mut put = |key: &str, value: u64| parts.push(format!("{key} = {}", milli(value)));
    if state.entry_latency_ns > 0 {
        put("entry_latency_us", state.entry_latency_ns);
    }
    put("exit_latency_us", state.exit_latency_ns);
    if state.governor_exit_latency_ns != state.entry_latency_ns + state.exit_latency_ns {
        put("governor_exit_latency_us", state.governor_exit_latency_ns);
    }
    put("target_residency_us", state.target_residency_ns);
    put("power_mw", state.power_uw);
    if let Some(permille) = state.power_of_busy_permille {
        put("power_of_busy", permille.into());
    }
    if state.transition_energy_nj > 0 {
        put("transition_energy_uj", state.transition_energy_nj);
    }
    let flags = [
        ("polling", state.polling),
        ("local_timer_stop", state.local_timer_stop),
        ("disabled", state.disabled),
        ("rejects_pending", state.rejects_pending),
        ("residency_below_latency", state.target_residency_ns < state.governor_exit_latency_ns),
    ];
    parts.extend(flags.iter().filter(|(_, on)| *on).map(|(flag, _)| format!("{flag} = true")));
    parts.join(", ")
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Digits in groups of three.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

/// Thousandths as a decimal number: 2500 is `2.5`.
fn milli(value: u64) -> String {
    let fraction = format!("{:03}", value % 1000);
    match fraction.trim_end_matches('0') {
        "" => grouped(value / 1000),
        fraction => format!("{}.{fraction}", grouped(value / 1000)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn presets_survive_saving() {
        for name in Machine::preset_names() {
            let machine = Machine::preset(name).unwrap();
            let text = machine.to_toml();
            let again = Machine::parse(&text, Path::new(name)).unwrap_or_else(|error| {
                panic!("{error}\n{text}");
            });
            assert_eq!(again, machine, "{text}");
            assert!(text.lines().count() < 140, "{name} is not compact:\n{text}");
        }
    }

    #[test]
    fn what_groups_switch_off_survives_saving() {
        let text = Machine::preset_text("pixel6-gs101").unwrap();
        let own = "\n[[group_state]]\nname = \"logic\"\nlevel = \"llc\"\npromise = \"c2\"\n\
                   exit_latency_us = 300\nactive_mw = 20\n";
        let parse = |text: &str| Machine::parse(text, Path::new("phone"));
        let machine = parse(&format!("{text}{own}")).unwrap();
        assert_eq!(machine.group_states()[0].exit_latency_ns, 300_000);
        assert_eq!(parse(&machine.to_toml()).unwrap(), machine);
        for (good, bad, words) in [
            ("llc", "socket", "no level socket"),
            ("promise = \"c2\"", "promise = \"c7\"", "no idle state c7"),
            ("active_mw = 20", "asleep_mw = 1", "more asleep than awake"),
        ] {
            let error = parse(&format!("{text}{}", own.replace(good, bad))).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(words) || error.contains("an idle state c7"), "{error}");
        }
    }

    #[test]
    fn numbers_are_readable_and_exact() {
        assert_eq!(milli(2_600_000_000), "2_600_000");
        assert_eq!(milli(537_500), "537.5");
        assert_eq!(milli(1), "0.001");
        assert_eq!(grouped(1_000), "1_000");
        assert_eq!(grouped(999), "999");
    }
}
