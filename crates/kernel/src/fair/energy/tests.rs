//! Cases small enough to be worked out on paper, with the arithmetic beside each.
//!
//! CPUs 0 and 1 are little (capacity 512), 2 and 3 big (1024). Operating points:
//!
//! | | kHz | mW | performance | cost in 6.1 | cost in 6.12 |
//! | --- | --- | --- | --- | --- | --- |
//! | little | 500,000 | 50 | 256 | 1e6 * 50,000 / 500,000 = 100,000 | 50,000 * 10 / 256 = 1,953 |
//! | | 1,000,000 | 200 | 512 | 200,000 | 3,906 |
//! | big | 1,000,000 | 300 | 512 | 2e6 * 300,000 / 1e6 = 600,000 | 3,000,000 / 512 = 5,859 |
//! | | 2,000,000 | 1,600 | 1024 | 1,600,000 | 15,625 |

use super::*;
use crate::fair::build::{DomainRules, build_domains};
use crate::fair::topology::Domains;
use crate::fair::uclamp::QueueClamps;
use std::path::Path;

const MACHINE: &str = r#"
name = "two-and-two"
[cpu_groups]
llcs = ["0-3"]
packages = ["0-3"]
[[cpu_type]]
name = "little"
cpus = "0-1"
capacity = 512
opps = [{ khz = 500_000, power_mw = 50 }, { khz = 1_000_000, power_mw = 200 }]
idle_states = [{ name = "WFI", exit_latency_us = 1, target_residency_us = 1, power_mw = 1 }]
[[cpu_type]]
name = "big"
cpus = "2-3"
capacity = 1024
opps = [{ khz = 1_000_000, power_mw = 300 }, { khz = 2_000_000, power_mw = 1_600 }]
idle_states = [{ name = "WFI", exit_latency_us = 1, target_residency_us = 1, power_mw = 1 }]
"#;

const BOTH: [EnergyRelease; 2] = [EnergyRelease::V6_1, EnergyRelease::V6_12];

struct Board {
    model: EnergyModel,
    domains: Domains,
    cpus: Vec<CpuState>,
    allowed: CpuSet,
}

impl Board {
    fn new(release: EnergyRelease) -> Board {
        let machine = Machine::parse(MACHINE, Path::new("two-and-two.toml")).expect("a machine");
        let state = |cpu| CpuState::idle(cpu, u64::from(machine.capacity(cpu)));
        Board {
            model: EnergyModel::new(&machine, release),
            domains: build_domains(&machine, DomainRules::CURRENT),
            cpus: machine.cpu_ids().map(state).collect(),
            allowed: CpuSet::first_n(4),
        }
    }

    /// CPUs that are busy with so much, and for which their frequency is thus chosen.
    fn busy(mut self, utils: [u64; 4]) -> Board {
        for (state, util) in self.cpus.iter_mut().zip(utils) {
            (state.util, state.runnable) = (util, util);
            (state.curr_is_idle, state.nr_running) = (util == 0, u32::from(util > 0));
            state.h_nr_queued = state.nr_running;
            state.clamps = QueueClamps::of(0, 1024, util == 0);
        }
        self
    }
}

/// Where a task of `util` goes that last ran on `cpu`, whose queue still holds its utilisation, and
/// what was weighed: CPU, energy of its domain without the task, and what the task adds.
fn place(
    board: &mut Board,
    util: u64,
    cpu: u32,
    clamps: Option<(u64, u64)>,
) -> (u32, Vec<(u32, u64, u64)>) {
    board.cpus[cpu as usize].util += util;
    board.cpus[cpu as usize].runnable += util;
    let clamps = clamps.map(|(min, max)| Clamps { used: true, min, max });
    let task = TaskView {
        cpu: CpuId(cpu),
        allowed: &board.allowed,
        contributes: true,
        on_rq: false,
        is_current: false,
        util,
        load: util,
        runnable: util,
        util_est: 0,
        clamps: clamps.unwrap_or_default(),
        numa_preferred_node: None,
    };
    let path = EnergyPath { model: &board.model, domains: &board.domains, cpus: &board.cpus };
    let mut log = Vec::new();
    let choice = path.find(&task, CpuId(cpu), Some(&mut log)).expect("CPUs differ");
    let weighed = log.iter().map(|one| (one.cpu.0, one.base_energy, one.delta)).collect();
    (choice.cpu.0, weighed)
}

#[test]
fn tables_are_the_kernels() {
    let costs = |release| {
        let model = Board::new(release).model;
        let costs = |domain: &PerfDomain| -> Vec<u64> {
            domain.states().iter().map(|state| state.cost).collect()
        };
        model.domains().iter().map(costs).collect::<Vec<_>>()
    };
    // The domain of the highest CPU comes first.
    assert_eq!(costs(EnergyRelease::V6_1), [[600_000, 1_600_000], [100_000, 200_000]]);
    assert_eq!(costs(EnergyRelease::V6_12), [[5_859, 15_625], [1_953, 3_906]]);
}

/// A point that costs as much as a faster one is passed over: 300 mW at 1 GHz cost, per cycle, what
/// 600 mW do at 2 GHz.
#[test]
fn inefficient_points_are_passed_over() {
    for release in BOTH {
        let points = [(1_000_000, 300_000), (2_000_000, 600_000)];
        let domain = PerfDomain::new(release, CpuSet::first_n(1), 1024, points);
        assert_eq!(
            domain.states().iter().map(|s| s.inefficient).collect::<Vec<_>>(),
            [true, false]
        );
        let cost = domain.states()[1].cost;
        let energy = cost * 10 / if release == EnergyRelease::V6_1 { 1024 } else { 1 };
        assert_eq!(domain.energy(10, 10, 1024), energy);
    }
}

/// 100 on an idle machine, which needs 125 with the kernel's quarter, so the slow points.
/// 6.12: big 5,859 * 100 = 585,900, little 1,953 * 100 = 195,300.
/// 6.1: big 600,000 * 100 / 1024 = 58,593, little 100,000 * 100 / 512 = 19,531.
#[test]
fn a_small_task_goes_to_a_little_cpu() {
    let expected = [[58_593, 19_531], [585_900, 195_300]];
    for (release, [big, little]) in BOTH.into_iter().zip(expected) {
        let (cpu, weighed) = place(&mut Board::new(release), 100, 2, None);
        assert_eq!((cpu, weighed), (0, vec![(2, 0, big), (0, 0, little)]), "{release:?}");
    }
}

/// Both little CPUs are busy with 200, so that 1.25 * 200 = 250 still runs at 256. With 100 more,
/// 1.25 * 300 = 375 needs the fast point, for all of the domain.
/// 6.12: 3,906 * 500 - 1,953 * 400 = 1,171,800, more than 585,900 on a big CPU.
/// 6.1: 200,000 * 500 / 512 - 100,000 * 400 / 512 = 195,312 - 78,125 = 117,187 against 58,593.
#[test]
fn a_domain_that_would_have_to_run_faster_costs_more() {
    let expected = [(78_125, 117_187, 58_593), (781_200, 1_171_800, 585_900)];
    for (release, (base, little, big)) in BOTH.into_iter().zip(expected) {
        let mut board = Board::new(release).busy([200, 200, 0, 0]);
        let (cpu, weighed) = place(&mut board, 100, 2, None);
        assert_eq!((cpu, weighed), (2, vec![(2, 0, big), (0, base, little)]), "{release:?}");
    }
}

/// Up to v5.13 costs are of mW: little 1e6 * 50 / 500,000 = 100 and 200, big 600 and 1,600, and the
/// domains without the task count in the margin.
///
/// 100 that were on big CPU 2: there they cost 600 * 100 / 1024 = 58, on a little CPU 100 * 100 / 512
/// = 19. 58 - 19 = 39 is more than (58 + 0) / 16 = 3, so the task moves.
#[test]
fn more_than_a_sixteenth_of_the_energy_moves_a_task_of_5_7() {
    let (cpu, weighed) = place(&mut Board::new(EnergyRelease::V5_7), 100, 2, None);
    assert_eq!((cpu, weighed), (0, vec![(2, 0, 58), (0, 0, 19)]));
}

/// Big CPU 3 is busy with 500, which needs 625 and so the fast point: 1,600 * 500 / 1024 = 781. The
/// little ones run at the slow point: 100 * 20 / 512 = 3.
/// A task of 20 on CPU 2: 1,600 * 520 / 1024 = 812, 31 more. On little CPU 1: 100 * 40 / 512 = 7, 4
/// more. It would save 27, but a sixteenth of 31 + 784 = 815 is 50. With 60: 1,600 * 560 / 1024 = 875,
/// 94 more, against 100 * 80 / 512 = 15, 12 more; 82 is more than (94 + 784) / 16 = 54.
#[test]
fn less_than_a_sixteenth_of_the_energy_leaves_it_in_5_7() {
    for (util, expected, big, little) in [(20, 2, 31, 4), (60, 1, 94, 12)] {
        let mut board = Board::new(EnergyRelease::V5_7).busy([20, 0, 0, 500]);
        let (cpu, weighed) = place(&mut board, util, 2, None);
        assert_eq!((cpu, weighed), (expected, vec![(2, 781, big), (1, 3, little)]), "{util}");
        // From v6.0 on the least saving moves it.
        let mut board = Board::new(EnergyRelease::V6_1).busy([20, 0, 0, 500]);
        assert_eq!(place(&mut board, util, 2, None).0, 1, "{util}");
    }
}

/// The previous CPU, which is little, cannot take 450 any more, so any other may.
#[test]
fn a_task_of_5_7_that_cannot_stay_moves_without_a_margin() {
    let (cpu, weighed) = place(&mut Board::new(EnergyRelease::V5_7), 450, 0, None);
    assert_eq!((cpu, weighed.len(), weighed[0].0), (2, 1, 2));
}

/// A task of 100 that asks for 600 fits no little CPU, and on a big one it needs the fast point:
/// 1,600 * 100 / 1024 = 156.
#[test]
fn a_requested_minimum_counts_for_frequency_and_fit_in_5_7() {
    let mut board = Board::new(EnergyRelease::V5_7).busy([0; 4]);
    let (cpu, weighed) = place(&mut board, 100, 2, Some((600, 1024)));
    assert_eq!((cpu, weighed), (2, vec![(2, 0, 156)]));
}

/// 450 * 1.25 exceeds 512, so that a little CPU would be over-utilised.
#[test]
fn a_cpu_that_would_be_over_utilised_is_no_candidate() {
    for release in BOTH {
        let (cpu, weighed) = place(&mut Board::new(release), 450, 0, None);
        assert_eq!((cpu, weighed.len(), weighed[0].0), (2, 1, 2), "{release:?}");
    }
}

/// The domain's other CPU is looked at only where it has more room than the previous one; and the
/// roomiest represents its domain.
#[test]
fn the_roomiest_cpu_of_each_domain_is_weighed() {
    for release in BOTH {
        let mut board = Board::new(release).busy([90, 30, 60, 0]);
        let (cpu, weighed) = place(&mut board, 40, 2, None);
        let cpus: Vec<u32> = weighed.iter().map(|one| one.0).collect();
        assert_eq!((cpu, cpus), (1, vec![2, 3, 1]), "{release:?}");
    }
}

/// Tasks that wait on CPU 0 make it ask for 1.25 * (100 + 300) = 500 from 6.5 on, and so for the
/// fast point, with the task or without: 3,906 * 200 - 3,906 * 100. In 6.1 they do not count:
/// 100,000 * 200 / 512 - 100,000 * 100 / 512 = 39,062 - 19,531.
#[test]
fn waiting_tasks_count_in_6_12() {
    for (release, base, delta) in
        [(EnergyRelease::V6_1, 19_531, 19_531), (EnergyRelease::V6_12, 390_600, 390_600)]
    {
        let mut board = Board::new(release).busy([100, 0, 0, 0]);
        board.cpus[0].runnable = 400;
        board.allowed = CpuSet::first_n(1);
        let (cpu, weighed) = place(&mut board, 100, 0, None);
        assert_eq!((cpu, weighed), (0, vec![(0, base, delta)]), "{release:?}");
    }
}

/// A task of 50 that asks for 600 fits a little CPU but for that, and a big one entirely, which
/// comes before all energy.
#[test]
fn a_requested_minimum_needs_a_cpu_that_can_give_it() {
    for release in BOTH {
        let mut board = Board::new(release);
        let (cpu, weighed) = place(&mut board, 50, 0, Some((600, 1024)));
        assert_eq!((cpu, weighed[0].0), (2, 2), "{release:?}");
        // Asked for 600, the domain runs at its fast point: 1.25 * 600 in 6.1, 600 in 6.12.
        let newer = release == EnergyRelease::V6_12;
        let dear = if newer { 15_625 * 50 } else { 1_600_000 * 50 / 1024 };
        assert_eq!(weighed[0].2, dear, "{release:?}");
    }
}

/// A task of 900 that must not be taken for more than 400 fits a little CPU by decree, and is
/// cheaper there, where it would run for longer. 6.12: performance 400 on either side, 3,906 * 900
/// = 3,515,400 against 5,859 * 900 = 5,273,100. 6.1: 1.25 * 400 = 500; 200,000 * 900 / 512 = 351,562
/// against 600,000 * 900 / 1024 = 527,343.
#[test]
fn a_requested_maximum_lets_a_big_task_be_little() {
    let expected = [[527_343, 351_562], [5_273_100, 3_515_400]];
    for (release, [big, little]) in BOTH.into_iter().zip(expected) {
        let (cpu, weighed) = place(&mut Board::new(release), 900, 2, Some((0, 400)));
        assert_eq!((cpu, weighed), (0, vec![(2, 0, big), (0, 0, little)]), "{release:?}");
    }
}

/// Heat leaves a big CPU 300 of 1024. Then 1.25 * 400 is no more than 300 for the model, so the slow
/// point, and a task of 400 is no longer thought to fit: 400 * 1.25 > 300.
#[test]
fn what_heat_takes_is_not_there() {
    for release in BOTH {
        let mut board = Board::new(release);
        for state in &mut board.cpus[2..] {
            (state.hw_pressure, state.capacity) = (724, 300);
        }
        let (cpu, weighed) = place(&mut board, 400, 2, None);
        // 400 * 1.25 = 500 fits a little CPU.
        assert_eq!((cpu, weighed.len(), weighed[0].0), (0, 1, 0), "{release:?}");
    }
}

/// Interrupts that take half of CPU 2 halve the time that the task has there: 100 * (1024 - 512) /
/// 1024 = 50 of busy time, wherever it goes, and the CPU asks for 512 + 50 = 562.
#[test]
fn interrupts_take_their_part() {
    let mut board = Board::new(EnergyRelease::V6_12);
    board.cpus[2].util_irq = 512;
    let (cpu, weighed) = place(&mut board, 100, 2, None);
    // Without the task the domain asks for 640, with it for 702: the fast point both times.
    let base = 15_625 * 512;
    assert_eq!(weighed[0], (2, base, 15_625 * 562 - base));
    assert_eq!((cpu, weighed[1]), (0, (0, 0, 1_953 * 50)));
}

#[test]
fn a_task_without_utilisation_stays() {
    for release in BOTH {
        let (cpu, weighed) = place(&mut Board::new(release), 0, 3, None);
        assert_eq!((cpu, weighed), (3, vec![]), "{release:?}");
    }
}
