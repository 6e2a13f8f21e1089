//! Decisions per second of every idle governor: a decision is a choice and what is learnt from it.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use schedlab_kernel::cpuidle::{AnyGovernor, FixedHardware, Governor, GovernorKind, State};

/// Idle periods before they repeat; a power of two.
const PERIODS: usize = 4096;

fn state(exit_latency_us: u64, target_residency_us: u64) -> State {
    State {
        exit_latency_ns: exit_latency_us * 1_000,
        target_residency_ns: target_residency_us * 1_000,
        polling: target_residency_us == 0,
        disabled: false,
    }
}

/// Skylake client, `drivers/idle/intel_idle.c`.
fn states() -> [State; 9] {
    [
        state(0, 0),
        state(2, 2),
        state(10, 20),
        state(70, 100),
        state(85, 200),
        state(124, 800),
        state(200, 800),
        state(480, 5_000),
        state(890, 5_000),
    ]
}

/// Idle periods of every length, most of which end before their timer.
fn periods() -> Vec<(FixedHardware, i64)> {
    let mut seed = 1u64;
    let mut random = move || {
        // Knuth's MMIX generator; its high bits are good enough to spread lengths.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let mut now_ns = 0;
    let mut draw = || {
        let sleep_ns = 1 << (10 + random() % 16);
        let residency_ns = (sleep_ns * (random() % 1_024 + 1) as i64) >> 10;
        let hardware = FixedHardware {
            now_ns,
            sleep_ns,
            delta_next_ns: sleep_ns.min((random() % 4_000_000) as i64),
            cpu_util: random() % 64,
            ..FixedHardware::default()
        };
        now_ns += residency_ns as u64 + 1_000;
        (hardware, residency_ns)
    };
    (0..PERIODS).map(|_| draw()).collect()
}

fn decisions(criterion: &mut Criterion) {
    let (states, periods) = (states(), periods());
    let mut group = criterion.benchmark_group("cpuidle");
    group.throughput(Throughput::Elements(1));
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(1));
    for kind in GovernorKind::ALL {
        let mut governor = AnyGovernor::new(kind, 4_000_000, 1024);
        let mut period = 0;
        group.bench_function(kind.name(), |bencher| {
            bencher.iter(|| {
                let (mut hardware, residency_ns) = periods[period % PERIODS];
                period += 1;
                let choice = governor.select(black_box(&states), &mut hardware);
                governor.reflect(&states, choice.index, residency_ns, &mut hardware);
                choice
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
