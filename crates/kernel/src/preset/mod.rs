//! Named kernels: one variant for every mechanism, in TOML that people read and copy.
//!
//! ```
//! use schedlab_kernel::preset::Kernel;
//! let kernel = Kernel::preset("v6.12").expect("a built-in kernel");
//! let config = kernel.config(8);
//! // 8 CPUs: 1 + log2(8) = 4 times the base slice of 700 us.
//! let fair = format!("{:?}", config.fair);
//! assert!(fair.contains("base_slice_ns: 2800000"), "{fair}");
//! ```

mod settings;

use crate::cpufreq::{CpufreqGovernor, CpufreqRules, Release};
use crate::cpuidle::{GovernorKind, GovernorParameters, LATENCY_UNLIMITED_NS};
use crate::fair::balance::BalanceRules;
use crate::fair::build::DomainRules;
use crate::fair::classic::ClassicRules;
use crate::fair::classic::domains::ClassicDomains;
use crate::fair::energy::EnergyRelease;
use crate::fair::nohz::NohzRules;
use crate::fair::queue::FairRules;
use crate::fair::slow_path::SlowPathRules;
use crate::fair::wake::{IdleSearch, RecentUsed, WakeRules};
use crate::fair::{cfs, eevdf};
use crate::rt::RtRules;
use crate::sched::{SchedConfig, TtwuQueue};
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Every built-in kernel, oldest first: its name and its file.
const PRESETS: &[(&str, &str)] = &[
    ("v2.6.32", include_str!("../../../../kernels/v2.6.32.toml")),
    ("v2.6.36", include_str!("../../../../kernels/v2.6.36.toml")),
    ("v3.9", include_str!("../../../../kernels/v3.9.toml")),
    ("v3.9-power", include_str!("../../../../kernels/v3.9-power.toml")),
    ("v5.7", include_str!("../../../../kernels/v5.7.toml")),
    ("v5.9", include_str!("../../../../kernels/v5.9.toml")),
    ("v6.1", include_str!("../../../../kernels/v6.1.toml")),
    ("v6.12", include_str!("../../../../kernels/v6.12.toml")),
];

/// What kernel files may ask for in vain, and why it is refused rather than ignored.
const NOT_MODELLED: &[(&str, &str)] = &[
    (
        "task_groups",
        "task groups (CONFIG_FAIR_GROUP_SCHED) are not modelled: every task is in the root group",
    ),
    ("autogroup", "autogroups are not modelled: every task is in the root group"),
    ("cfs_bandwidth", "bandwidth limits (CONFIG_CFS_BANDWIDTH) are not modelled"),
    (
        "deadline",
        "deadline tasks are as in 6.12 under every kernel: policy = \"deadline\" in workloads",
    ),
    ("uclamp", "utilisation clamps belong to tasks: uclamp_min and uclamp_max in workloads"),
    ("numa_balancing", "automatic NUMA balancing (CONFIG_NUMA_BALANCING) is not modelled"),
    ("eas", "energy-aware placement is chosen by energy = \"v6.12\" under [wake]"),
    ("energy_aware", "energy-aware placement is chosen by energy = \"v6.12\" under [wake]"),
    ("core_sched", "core scheduling (CONFIG_SCHED_CORE) is not modelled"),
    ("sched_ext", "sched_ext is not modelled"),
    ("hrtick", "preemption by high-resolution timer (HRTICK) is not modelled"),
    ("asym_packing", "ASYM_PACKING between cores of different turbo frequency is not modelled"),
    ("power_aware", "the policies of that series are chosen under [classic.power]"),
    ("psi", "pressure stall information is not modelled"),
];

/// Why a kernel cannot be loaded; one line that names file, line and mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// No built-in kernel has this name.
    #[error("{name}: neither a file nor a built-in kernel; built in are {presets}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are.
        presets: String,
    },
    /// The content contradicts itself or the format.
    #[error("{name}:{line}: {what}")]
    Invalid {
        /// The file, or the preset's name.
        name: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong there and what would mend it.
        what: String,
    },
}

/// A kernel: the variant of every mechanism and its constants before scaling to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its name, such as `v6.12`.
    pub name: String,
    /// One line on what it is.
    pub description: String,
    /// Ticks a second (`CONFIG_HZ`).
    pub hz: u32,
    /// The fair pick, its times as for one CPU.
    pub fair: FairRules,
    /// Fork and exec placement.
    pub placement: SlowPathRules,
    /// Wake-up placement.
    pub wake: WakeRules,
    /// Which wake-ups are left to the CPU that the task wakes on.
    pub ttwu_queue: TtwuQueue,
    /// Load balancing.
    pub balance: BalanceRules,
    /// Placement and load balancing by load weights; if a kernel has them, none of the above counts,
    /// and files leave it out.
    pub classic: Option<ClassicRules>,
    /// Real-time tasks.
    pub rt: RtRules,
    /// Who balances for CPUs without a tick.
    pub nohz: NohzRules,
    /// How domains are built.
    pub domains: DomainRules,
    /// The idle governor, unless a scenario chooses another.
    pub governor: GovernorKind,
    /// What its file sets of that governor's parameters.
    pub governor_parameters: GovernorParameters,
    /// The longest exit latency that idle states may have, as `/dev/cpu_dma_latency` asks for it, ns;
    /// [`LATENCY_UNLIMITED_NS`] where nobody asks.
    pub cpu_latency_ns: i64,
    /// CPU frequencies.
    pub cpufreq: CpufreqRules,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default)]
    description: String,
    tick: Tick,
    fair: Spanned<Fair>,
    placement: Option<SlowPathRules>,
    wake: Option<Wake>,
    balance: Option<BalanceRules>,
    classic: Option<Spanned<ClassicRules>>,
    rt: RtRules,
    #[serde(default)]
    nohz: NohzRules,
    domains: Option<Spanned<DomainRules>>,
    cpuidle: Spanned<Cpuidle>,
    #[serde(default)]
    cpufreq: Option<Spanned<Cpufreq>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tick {
    hz: Spanned<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Fair {
    Cfs(cfs::Tunables),
    Eevdf(Eevdf),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Eevdf {
    base_slice_ns: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wake {
    search: IdleSearch,
    clusters: bool,
    idle_prev_is_target: bool,
    recent_used: RecentUsed,
    ttwu_queue: TtwuQueue,
    energy: Option<Energy>,
}

/// Whose energy-aware placement; to say `none` is the same as to leave it out.
#[derive(Clone, Copy, Deserialize)]
enum Energy {
    #[serde(rename = "v5.7")]
    V5_7,
    #[serde(rename = "v6.1")]
    V6_1,
    #[serde(rename = "v6.12")]
    V6_12,
    #[serde(rename = "none")]
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cpuidle {
    governor: Spanned<String>,
    utilization_shift: Option<u32>,
    halt_poll_ns: Option<u32>,
    halt_poll_grow_start_ns: Option<u32>,
    cpu_latency_us: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cpufreq {
    governor: Option<Spanned<String>>,
    schedutil: Option<Release>,
    rate_limit_us: Option<u64>,
}

/// What is wrong, and where in the text.
type Fault = (Range<usize>, String);

impl Kernel {
    /// The names of the built-in kernels, oldest first.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// The TOML text of a built-in kernel, to copy and edit.
    pub fn preset_text(name: &str) -> Option<&'static str> {
        PRESETS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// A built-in kernel.
    pub fn preset(name: &str) -> Option<Kernel> {
        Self::from_toml(name, Self::preset_text(name)?).ok()
    }

    /// The error for a name that is neither a preset nor, as the caller found, a file.
    pub fn unknown(name: &str) -> KernelError {
        let presets = Self::preset_names().collect::<Vec<_>>().join(", ");
        KernelError::Unknown { name: name.to_owned(), presets }
    }

    /// Reads a kernel from TOML text; `name` is what errors call it.
    ///
    /// ```
    /// use schedlab_kernel::preset::Kernel;
    /// let text = Kernel::preset_text("v6.1").expect("a built-in kernel");
    /// let edited = text.replace("hz = 250", "hz = 250\ntask_groups = true");
    /// let error = Kernel::from_toml("mine.toml", &edited).unwrap_err().to_string();
    /// assert!(error.starts_with("mine.toml:7: task_groups: task groups"), "{error}");
    /// ```
    pub fn from_toml(name: &str, text: &str) -> Result<Kernel, KernelError> {
        read(text).map_err(|(span, what)| {
            let before = text.as_bytes().get(..span.start).unwrap_or(text.as_bytes());
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            KernelError::Invalid { name: name.to_owned(), line, what }
        })
    }

    /// What the scheduler of this kernel is on a machine with `cpus` CPUs.
    pub fn config(&self, cpus: usize) -> SchedConfig {
        let mut config = SchedConfig {
            fair: self.fair,
            slow_path: self.placement,
            wake: self.wake,
            balance: self.balance,
            classic: self.classic,
            rt: self.rt,
            nohz: self.nohz,
            hz: self.hz,
            ttwu_queue: self.ttwu_queue,
        };
        config.fair = self.fair.scaled(scale(cpus), config.tick_ns());
        config
    }
}

/// `get_update_sysctl_factor()` with the default SCHED_TUNABLESCALING_LOG.
fn scale(cpus: usize) -> u64 {
    1 + u64::from(cpus.clamp(1, 8).ilog2())
}

impl FairRules {
    /// The constants times `factor`, as the kernel scales them at boot, and the tick.
    fn scaled(self, factor: u64, tick_ns: u64) -> FairRules {
        match self {
            FairRules::Cfs(cfs) => FairRules::Cfs(cfs::Tunables {
                latency_ns: cfs.latency_ns * factor,
                min_granularity_ns: cfs.min_granularity_ns * factor,
                wakeup_granularity_ns: cfs.wakeup_granularity_ns * factor,
                ..cfs
            }),
            FairRules::Eevdf(eevdf) => FairRules::Eevdf(eevdf::Tunables {
                base_slice_ns: eevdf.base_slice_ns * factor,
                tick_ns,
            }),
        }
    }
}

fn read(text: &str) -> Result<Kernel, Fault> {
    let refuse = |error: toml::de::Error| {
        (error.span().unwrap_or(0..0), error.message().replace('\n', "; "))
    };
    let document = DeTable::parse(text).map_err(refuse)?;
    refuse_unmodelled(document.get_ref())?;
    let file: File = toml::from_str(text).map_err(refuse)?;
    check(file)
}

fn refuse_unmodelled(table: &DeTable<'_>) -> Result<(), Fault> {
    for (key, value) in table {
        if let Some((name, why)) = NOT_MODELLED.iter().find(|(name, _)| *name == key.get_ref()) {
            return Err((key.span(), format!("{name}: {why}; remove it")));
        }
        if let DeValue::Table(inner) = value.get_ref() {
            refuse_unmodelled(inner)?;
        }
    }
    Ok(())
}

fn check(file: File) -> Result<Kernel, Fault> {
    let hz = *file.tick.hz.get_ref();
    if !(24..=1200).contains(&hz) {
        let what =
            format!("hz is {hz}; kernels tick at 100, 250, 300 or 1000, and 24 to 1200 work");
        return Err((file.tick.hz.span(), what));
    }
    let by_tracking = match &file.classic {
        None => ByTracking::of(&file)?,
        Some(classic) => classic_domains(&file, classic)?,
    };
    let fair_span = file.fair.span();
    let fair = fair(file.fair.into_inner()).map_err(|what| (fair_span, what))?;
    let (governor, governor_parameters) = cpuidle(&file.cpuidle)?;
    let cpu_latency_ns = match &file.cpuidle.get_ref().cpu_latency_us {
        Some(us) if i64::from(*us.get_ref()) * 1_000 >= LATENCY_UNLIMITED_NS => {
            let what = "cpu_latency_us is no limit; leave it out";
            return Err((us.span(), what.to_owned()));
        }
        Some(us) => i64::from(*us.get_ref()) * 1_000,
        None => LATENCY_UNLIMITED_NS,
    };
    if matches!(file.nohz, NohzRules::PushByDomain { rcu_ticks } if rcu_ticks > 1_000) {
        let what = "rcu_ticks must be 1000 at most; a grace period takes about 3";
        return Err((0..0, what.to_owned()));
    }
    let cpufreq = file.cpufreq.as_ref().map(cpufreq).transpose()?.unwrap_or_default();
    let ByTracking { placement, wake, ttwu_queue, balance, domains } = by_tracking;
    Ok(Kernel {
        name: file.name,
        description: file.description,
        hz,
        fair,
        placement,
        wake,
        ttwu_queue,
        balance,
        classic: file.classic.map(Spanned::into_inner),
        rt: file.rt,
        nohz: file.nohz,
        domains,
        governor,
        governor_parameters,
        cpu_latency_ns,
        cpufreq,
    })
}

/// The idle governor, and those of its parameters that the file sets: one that it does not have is
/// refused.
fn cpuidle(table: &Spanned<Cpuidle>) -> Result<(GovernorKind, GovernorParameters), Fault> {
    let file = table.get_ref();
    let kind = file.governor.get_ref().parse::<GovernorKind>();
    let kind = kind.map_err(|error| (file.governor.span(), error.to_string()))?;
    let mut parameters = GovernorParameters::default();
    let by_utilisation =
        matches!(kind, GovernorKind::TeoUtilV2 | GovernorKind::TeoUtilV6 | GovernorKind::Idleutil);
    let polls = matches!(kind, GovernorKind::Haltpoll6_1 | GovernorKind::Haltpoll6_12);
    let refuse = |what: &str| Err((table.span(), format!("{what} is nothing that {kind} has")));
    match file.utilization_shift {
        Some(_) if !by_utilisation => return refuse("utilization_shift"),
        Some(shift) if shift > 20 => {
            let what = "utilization_shift is 0 to 20: a CPU is utilized above capacity >> shift";
            return Err((table.span(), what.to_owned()));
        }
        Some(shift) => parameters.utilization_shift = shift,
        None => {}
    }
    if !polls && (file.halt_poll_ns.is_some() || file.halt_poll_grow_start_ns.is_some()) {
        return refuse("halt_poll_ns or halt_poll_grow_start_ns");
    }
    let haltpoll = &mut parameters.haltpoll;
    haltpoll.halt_poll_ns = file.halt_poll_ns.unwrap_or(haltpoll.halt_poll_ns);
    haltpoll.grow_start_ns = file.halt_poll_grow_start_ns.unwrap_or(haltpoll.grow_start_ns);
    Ok((kind, parameters))
}

fn cpufreq(table: &Spanned<Cpufreq>) -> Result<CpufreqRules, Fault> {
    let file = table.get_ref();
    let governor = match &file.governor {
        None => None,
        Some(name) => {
            let governor = name.get_ref().parse::<CpufreqGovernor>();
            Some(governor.map_err(|error| (name.span(), error.to_string()))?)
        }
    };
    let refuse = |what: &str| Err((table.span(), what.to_owned()));
    if file.schedutil.is_none() && governor == Some(CpufreqGovernor::Schedutil) {
        return refuse("governor is schedutil, but nothing says whose; add schedutil = \"v6.12\"");
    }
    if file.schedutil.is_none() && file.rate_limit_us.is_some() {
        return refuse("rate_limit_us is schedutil's; add schedutil = \"v6.12\", or remove it");
    }
    if file.rate_limit_us.is_some_and(|us| us > TIME_MAX_NS / 1_000) {
        return refuse("rate_limit_us must be 10 s at most");
    }
    let rate_limit_ns = file.rate_limit_us.map(|us| us * 1_000);
    Ok(CpufreqRules { governor, schedutil: file.schedutil, rate_limit_ns })
}

/// What kernels have that track the load of each task, and how they build domains.
struct ByTracking {
    placement: SlowPathRules,
    wake: WakeRules,
    ttwu_queue: TtwuQueue,
    balance: BalanceRules,
    domains: DomainRules,
}

impl ByTracking {
    fn of(file: &File) -> Result<ByTracking, Fault> {
        let missing = |table: &str| {
            let what = format!("missing field `{table}`; copy the table from a built-in kernel");
            (0..0, what)
        };
        let wake = file.wake.as_ref().ok_or_else(|| missing("wake"))?;
        let domains = file.domains.as_ref().ok_or_else(|| missing("domains"))?;
        let rules = *domains.get_ref();
        if !(100..=200).contains(&rules.imbalance_pct) || !(1..=1024).contains(&rules.busy_factor) {
            let what = "imbalance_pct must be 100 to 200, and busy_factor 1 to 1024";
            return Err((domains.span(), what.to_owned()));
        }
        let &Wake { search, clusters, idle_prev_is_target, recent_used, ttwu_queue, energy } = wake;
        let energy = match energy {
            Some(Energy::V5_7) => Some(EnergyRelease::V5_7),
            Some(Energy::V6_1) => Some(EnergyRelease::V6_1),
            Some(Energy::V6_12) => Some(EnergyRelease::V6_12),
            Some(Energy::None) | None => None,
        };
        Ok(ByTracking {
            placement: file.placement.ok_or_else(|| missing("placement"))?,
            wake: WakeRules { search, clusters, idle_prev_is_target, recent_used, energy },
            ttwu_queue,
            balance: file.balance.ok_or_else(|| missing("balance"))?,
            domains: rules,
        })
    }
}

/// A classic kernel has no room for the tables of others, and its domains are as they are.
fn classic_domains(file: &File, classic: &Spanned<ClassicRules>) -> Result<ByTracking, Fault> {
    let given = [
        ("placement", file.placement.is_some()),
        ("wake", file.wake.is_some()),
        ("balance", file.balance.is_some()),
        ("domains", file.domains.is_some()),
    ];
    if let Some((table, _)) = given.iter().find(|(_, given)| *given) {
        let what = format!("[classic] stands in place of [{table}]; remove one of them");
        return Err((classic.span(), what));
    }
    let rules = *classic.get_ref();
    let savings = [rules.mc_power_savings, rules.smt_power_savings];
    if savings.iter().any(|&level| level > 2) {
        let what = "mc_power_savings and smt_power_savings are 0, 1 or 2";
        return Err((classic.span(), what.to_owned()));
    }
    let refuse = |what: &str| Err((classic.span(), what.to_owned()));
    match rules.v3_9 {
        None if rules.power.is_some() => {
            return refuse("[classic.power] builds on [classic.v3_9]; add that table");
        }
        Some(_) if rules.saves_power() => {
            return refuse("v3.9 has no mc_power_savings and smt_power_savings; remove them");
        }
        Some(v3_9) if !(1..=65_536).contains(&v3_9.smt_gain) => {
            return refuse("smt_gain must be 1 to 65536; it is 1178 in all releases");
        }
        _ => {}
    }
    if rules.power.is_some_and(|power| power.burst_threshold_ns > TIME_MAX_NS) {
        return refuse("burst_threshold_ns must be 10 s at most");
    }
    let domains = ClassicDomains {
        mc_power_savings: rules.mc_power_savings > 0,
        smt_power_savings: rules.smt_power_savings > 0,
        v3_9: rules.v3_9,
    };
    Ok(ByTracking {
        placement: SlowPathRules::V6_12,
        wake: WakeRules::V6_12,
        ttwu_queue: rules.v3_9.map_or(TtwuQueue::Never, |v3_9| v3_9.ttwu_queue),
        balance: BalanceRules::V6_12,
        domains: DomainRules::classic(domains),
    })
}

/// The longest time that a file may set, ns.
const TIME_MAX_NS: u64 = 10_000_000_000;

fn fair(fair: Fair) -> Result<FairRules, String> {
    let bounded = |name: &str, time_ns: u64| {
        let good = (1..=TIME_MAX_NS).contains(&time_ns);
        good.then_some(()).ok_or(format!("{name} is {time_ns}; it must be 1 ns to 10 s"))
    };
    match fair {
        Fair::Cfs(cfs) => {
            bounded("latency_ns", cfs.latency_ns)?;
            bounded("min_granularity_ns", cfs.min_granularity_ns)?;
            bounded("wakeup_granularity_ns", cfs.wakeup_granularity_ns)?;
            bounded("idle_min_granularity_ns", cfs.idle_min_granularity_ns)?;
            if cfs.min_granularity_ns > cfs.latency_ns {
                return Err("min_granularity_ns must not exceed latency_ns".to_owned());
            }
            Ok(FairRules::Cfs(cfs))
        }
        Fair::Eevdf(Eevdf { base_slice_ns }) => {
            bounded("base_slice_ns", base_slice_ns)?;
            Ok(FairRules::Eevdf(eevdf::Tunables { base_slice_ns, tick_ns: 0 }))
        }
    }
}
