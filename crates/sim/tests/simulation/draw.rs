//! Random machines and kernels, drawn from a seed.

use schedlab_kernel::cpufreq::{CpufreqGovernor, Release};
use schedlab_kernel::cpuidle::GovernorKind;
use schedlab_kernel::fair::nohz::NohzRules;
use schedlab_kernel::fair::power_aware::{PowerPolicy, PowerRules, Threshold, Utilisation};
use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_sim::Pcg;
use std::panic::AssertUnwindSafe;
use std::path::Path;

/// The generator's stream; tasks of a run use the low numbers.
const STREAM: u64 = 1 << 40;

/// What random cases are drawn with.
pub struct Dice(Pcg);

impl Dice {
    /// The dice of one case.
    pub fn new(seed: u64) -> Dice {
        Dice(Pcg::new(seed, STREAM))
    }

    /// Below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// Both ends included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// So often.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Any machine, now and then with a limit for heat.
pub fn machine(dice: &mut Dice) -> Machine {
    let machine = cool_machine(dice);
    if !dice.chance(30) {
        return machine;
    }
    let kind = &machine.cpu_types()[0];
    let khz = dice.within(kind.opps[0].khz.into(), kind.max_opp().khz.into()) as u32;
    let name = kind.name.clone();
    machine.with_thermal_limit(&name, khz).expect("its slowest operating point or more")
}

fn cool_machine(dice: &mut Dice) -> Machine {
    if dice.chance(15) {
        let preset =
            dice.pick(&["juno-r0", "pixel6-gs101", "generic", "nehalem-ep-2s", "atom-netbook-ht"]);
        return Machine::preset(preset).expect("a preset");
    }
    let preset = Machine::preset_text("generic").expect("a preset");
    let (packages, nodes) = (dice.within(1, 2), dice.within(1, 2));
    let (llcs, cores, threads) = (dice.within(1, 2), dice.within(1, 4), dice.within(1, 2));
    let clusters = if dice.chance(30) { "clusters_per_llc = 2\n" } else { "" };
    let distance = |a: u64, b: u64| match (a == b, a / nodes == b / nodes) {
        (true, _) => 10,
        (false, true) => 12,
        (false, false) => 21,
    };
    let rows: Vec<Vec<u64>> = (0..packages * nodes)
        .map(|a| (0..packages * nodes).map(|b| distance(a, b)).collect())
        .collect();
    let numbering = dice.pick(&["threads-last", "threads-adjacent"]);
    let topology = format!(
        "[topology]\npackages = {packages}\nnodes_per_package = {nodes}\nllcs_per_node = {llcs}\n\
         {clusters}cores_per_{} = {cores}\nthreads_per_core = {threads}\n\
         numbering = \"{numbering}\"\n\n[numa]\ndistances = {rows:?}\n",
        if clusters.is_empty() { "llc" } else { "cluster" },
    );
    let begin = preset.find("[topology]").expect("a topology");
    let end = preset.find("# The whole core's").expect("a comment after it");
    let mut text = format!("{}{topology}\n{}", &preset[..begin], &preset[end..]);
    if !clusters.is_empty() {
        text = text.replace("core_ns = 7.5", "core_ns = 7.5\ncluster_ns = 20");
    }
    if dice.chance(30) {
        // Its timer stops in deep states, and the boot CPU's wakes it.
        text = text.replace("hz = 250", "broadcast_irq = \"boot-cpu\"\nhz = 250");
        for state in ["transition_energy_uj = 30 }", "transition_energy_uj = 90 }"] {
            let stops = state.replace(" }", ", local_timer_stop = true }");
            text = text.replace(state, &stops);
        }
    }
    if dice.chance(30) {
        // As on ARM: entries take time, and a pending interrupt ends or prevents them.
        let rejects = if dice.chance(50) { ", rejects_pending = true" } else { "" };
        for (exit, entry_us) in [("exit_latency_us = 85", 40), ("exit_latency_us = 200", 90)] {
            let both = format!("entry_latency_us = {entry_us}, {exit}{rejects}");
            text = text.replace(exit, &both);
        }
    }
    for (level, promise, exit_us) in [("package", "C6", 150), ("llc", "C3", 20)] {
        if dice.chance(30) {
            text += &format!(
                "\n[[group_state]]\nname = \"{level} off\"\nlevel = \"{level}\"\n\
                 promise = \"{promise}\"\nexit_latency_us = {exit_us}\nactive_mw = 900\n\
                 asleep_mw = 100\ntransition_energy_uj = 30\n"
            );
        }
    }
    if threads == 1 {
        text = text.replace("throughput = [1.0, 1.25]", "throughput = [1.0]");
        text = text.replace("power = [1.0, 1.15]", "power = [1.0]");
    }
    Machine::parse(&text, Path::new("swarm")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Any policy of power-aware scheduling.
fn power(dice: &mut Dice) -> PowerRules {
    let powersaving = dice.chance(80);
    PowerRules {
        policy: if powersaving { PowerPolicy::Powersaving } else { PowerPolicy::Performance },
        threshold: dice.pick(&[
            Threshold::GroupWeight,
            Threshold::GroupCapacity,
            Threshold::GroupPower,
        ]),
        utilisation: dice.pick(&[Utilisation::FairAlone, Utilisation::WithRealTime]),
        burst_threshold_ns: dice.pick(&[0, 100_000, 1_000_000]),
        thread_is_room: dice.chance(50),
        small_tasks: dice.chance(70),
        lazy: dice.chance(70),
    }
}

/// Any kernel.
pub fn kernel(dice: &mut Dice) -> Kernel {
    let names: Vec<_> = Kernel::preset_names().collect();
    let mut text = Kernel::preset_text(dice.pick(&names)).expect("a preset").to_owned();
    let hz = dice.pick(&[100, 250, 300, 1000]);
    text = text.replace("hz = 250", &format!("hz = {hz}"));
    text = text.replace("hz = 1000", &format!("hz = {hz}"));
    if dice.chance(30) {
        let level = dice.within(1, 2);
        let which = dice.pick(&["mc", "smt"]);
        let key = format!("{which}_power_savings = ");
        text = text.replace(&format!("{key}0"), &format!("{key}{level}"));
    }
    if dice.chance(10) {
        text = text.replace("mode = \"full\"", "mode = \"none\"");
    }
    if dice.chance(30) {
        text = text.replace("pull = \"push-ipi\"", "pull = \"plain\"");
    }
    let limits = ["none", "throttling", "throttling-shared", "fair-server"];
    let place = text.find("\nlimit = \"").expect("a limit") + "\nlimit = \"".len();
    let end = place + text[place..].find('"').expect("its end");
    text.replace_range(place..end, dice.pick(&limits));
    if dice.chance(20) {
        text = text.replace("ttwu_queue = \"other-cache\"", "ttwu_queue = \"never\"");
    }
    let mut kernel = Kernel::from_toml("swarm", &text).unwrap_or_else(|error| panic!("{error}"));
    if dice.chance(50) {
        kernel.nohz = dice.pick(&[
            NohzRules::Modern {},
            NohzRules::Pull {},
            NohzRules::Push { stale_kick: false },
            NohzRules::Push { stale_kick: true },
            NohzRules::PushByDomain { rcu_ticks: 0 },
            NohzRules::PushByDomain { rcu_ticks: 3 },
        ]);
    }
    if let Some(classic) = &mut kernel.classic
        && let Some(v3_9) = &mut classic.v3_9
    {
        v3_9.smt_asym_packing = dice.chance(40);
        kernel.domains.classic.iter_mut().for_each(|domains| domains.v3_9 = Some(*v3_9));
        classic.power = classic.power.map(|_| power(dice));
    }
    if dice.chance(50) {
        kernel.governor = dice.pick(&GovernorKind::ALL);
    }
    kernel.governor_parameters.utilization_shift = dice.within(0, 10) as u32;
    if dice.chance(60) {
        let governors = [
            CpufreqGovernor::Performance,
            CpufreqGovernor::Powersave,
            CpufreqGovernor::Userspace { khz: dice.within(1, 3_000_000) as u32 },
            CpufreqGovernor::Schedutil,
        ];
        // Schedutil is what has decisions to make.
        kernel.cpufreq.governor = Some(governors[dice.within(0, 6).min(3) as usize]);
        kernel.cpufreq.schedutil = Some(dice.pick(&[Release::V6_1, Release::V6_12]));
    }
    if dice.chance(50) {
        kernel.cpufreq.rate_limit_ns = Some(dice.pick(&[0, 10_000, 500_000, 10_000_000]));
    }
    kernel
}

/// Tries the cases of as many seeds as `SCHEDLAB_SWARM` says, or `usual`, from
/// `SCHEDLAB_SWARM_SEED` on. Tells how many there were.
///
/// # Panics
/// When some of them fail, with their seeds and what they say.
pub fn try_seeds(usual: u64, mut case: impl FnMut(u64) -> Result<(), String>) -> u64 {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("SCHEDLAB_SWARM_SEED").unwrap_or(1);
    let count = number("SCHEDLAB_SWARM").unwrap_or(usual);
    let mut wrong = Vec::new();
    for seed in first..first + count {
        match std::panic::catch_unwind(AssertUnwindSafe(|| case(seed))) {
            Ok(Ok(())) => {}
            Ok(Err(what)) => wrong.push(format!("{seed}: {what}")),
            Err(_) => wrong.push(format!("{seed}: panics")),
        }
        // One defect shows in many runs; the first few say enough.
        if wrong.len() == 10 {
            break;
        }
    }
    let wrong = wrong.join("\n");
    assert!(wrong.is_empty(), "to repeat: SCHEDLAB_SWARM=1 SCHEDLAB_SWARM_SEED=<number>\n{wrong}");
    count
}
