//! Parity with the real kernel: drivers that carry out recorded commands, and the comparison of
//! what they print with what the kernel's own code printed.
//!
//! A set is an input file, an output file and a driver. A new set is one line in [`SETS`].

pub mod balance;
pub mod cfs;
pub mod check;
pub mod cpudl;
pub mod cpupri;
pub mod eevdf;
pub mod energy;
pub mod fair_state;
pub mod governors;
pub mod pelt;
pub mod placement;

use schedlab_kernel::cpuidle::GovernorKind;
use schedlab_kernel::fair::energy::EnergyRelease;
use schedlab_kernel::fair::slow_path::{IdlestTie, NumaAllowance, SlowPathRules};
use schedlab_machine::CpuSet;

/// Carries out one command; the line that it prints, if it prints one.
pub type Command = Box<dyn FnMut(&str) -> Option<String>>;

/// A set of vectors.
pub struct Set {
    /// The commands, by name without a compression's suffix.
    pub input: &'static str,
    /// What the kernel's code printed, likewise.
    pub output: &'static str,
    /// A driver before the first command.
    pub driver: fn() -> Command,
}

/// What a search for CPUs found, as its recorder printed it.
pub fn found(cpus: &CpuSet) -> String {
    if cpus.is_empty() {
        "0 -".to_owned()
    } else {
        format!("1 {}", cpus.to_mask().replace(',', ""))
    }
}

const fn set(output: &'static str, input: &'static str, driver: fn() -> Command) -> Set {
    Set { input, output, driver }
}

macro_rules! governor {
    ($kind:ident, $verbose:literal) => {
        || governors::driver(GovernorKind::$kind, $verbose)
    };
}

macro_rules! driver {
    ($driver:expr) => {
        || {
            let mut driver = $driver;
            Box::new(move |line| driver.command(line))
        }
    };
}

macro_rules! placement {
    ($idlest_tie:ident, $numa_allowance:ident) => {
        driver!(placement::Driver::new(SlowPathRules {
            idlest_tie: IdlestTie::$idlest_tie,
            numa_allowance: NumaAllowance::$numa_allowance,
        }))
    };
}

/// Every set that can be checked.
pub const SETS: &[Set] = &[
    set("menu-6.1.out", "gov.in", governor!(Menu6_1, false)),
    set("menu-6.1.vout", "gov.in", governor!(Menu6_1, true)),
    set("menu-6.12.out", "gov.in", governor!(Menu6_12, false)),
    set("menu-6.12.vout", "gov.in", governor!(Menu6_12, true)),
    set("teo-6.1.out", "gov.in", governor!(Teo6_1, false)),
    set("teo-6.1.vout", "gov.in", governor!(Teo6_1, true)),
    set("teo-6.12.out", "gov.in", governor!(Teo6_12, false)),
    set("teo-6.12.vout", "gov.in", governor!(Teo6_12, true)),
    set("ladder-6.1.out", "gov.in", governor!(Ladder6_1, false)),
    set("ladder-6.12.out", "gov.in", governor!(Ladder6_12, false)),
    set("haltpoll-6.1.out", "haltpoll.in", governor!(Haltpoll6_1, false)),
    set("haltpoll-6.12.out", "haltpoll.in", governor!(Haltpoll6_12, false)),
    set("teo_util-v2.vout", "teo_util.in", governor!(TeoUtilV2, true)),
    set("teo_util-v6.vout", "teo_util.in", governor!(TeoUtilV6, true)),
    set("pelt.out", "pelt.in", driver!(pelt::Driver::default())),
    set("eevdf.out", "eevdf.in", driver!(eevdf::Driver::new())),
    set("cfs.out", "cfs.in", driver!(cfs::Driver::new())),
    set("placement-6.12.out", "placement.in", placement!(GroupUtil, ImbNumaNr)),
    set("placement-6.1.out", "placement.in", placement!(GroupUtil, ImbNumaNr)),
    set("placement-old.out", "placement.in", placement!(First, ImbNumaNr)),
    set("placement-old57.out", "placement.in", placement!(First, LocalIdle)),
    set("balance.out", "balance.in", driver!(balance::Driver::new())),
    set("nohz.out", "nohz.in", driver!(balance::Driver::new())),
    set("wake.out", "wake.in", placement!(GroupUtil, ImbNumaNr)),
    set("energy-6.1.out", "energy.in", driver!(energy::Driver::new(EnergyRelease::V6_1))),
    set("energy-6.12.out", "energy.in", driver!(energy::Driver::new(EnergyRelease::V6_12))),
    set("cpupri.out", "cpupri.in", driver!(cpupri::plain())),
    set("cpupri.out", "cpupri.in", driver!(cpupri::global())),
    set("cpupri.out", "cpupri.in", driver!(cpupri::per_node())),
    set("cpudl.out", "cpudl.in", driver!(cpudl::Driver::new())),
];
