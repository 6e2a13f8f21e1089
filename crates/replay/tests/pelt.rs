//! Rebuilt utilisation against the kernel's own values.

mod support;

use schedlab_machine::Machine;
use schedlab_replay::pelt::{Invariance, PeltReport, SignalKind, check_pelt};
use support::open;

fn check(trace: &str, machine: &str) -> PeltReport {
    let machine = Machine::preset(machine).expect("a built-in machine");
    let mut source = open(trace).expect("a trace");
    check_pelt(source.as_mut(), Some(&machine), None, &mut |_| {}, &mut |_, _| true)
        .expect("a check")
}

#[test]
fn a_kernel_of_6_12_is_rebuilt_to_the_unit() {
    let report = check("qemu_pelt_ptask.dat", "qemu8");
    assert_eq!(report.invariance, Invariance::Clock);
    for kind in SignalKind::ALL {
        let errors = report.errors(kind);
        assert!(errors.count() > 1000, "{}: {}", kind.name(), errors.count());
        assert!(errors.quantile(500) <= 1, "{}: median {}", kind.name(), errors.quantile(500));
        assert!(errors.quantile(990) <= 8, "{}: p99 {}", kind.name(), errors.quantile(990));
    }
    assert!(report.errors(SignalKind::Task).max() <= 8);
}

#[test]
fn a_kernel_of_4_19_on_big_and_little_cpus_is_rebuilt_too() {
    let report = check("lisa_sched_load.dat", "juno-r0");
    assert_eq!(report.invariance, Invariance::Contribution);
    let errors = report.errors(SignalKind::Task);
    assert!(errors.count() >= 30);
    assert!(errors.quantile(500) <= 1, "median {}", errors.quantile(500));
    assert!(errors.quantile(990) <= 8, "p99 {}", errors.quantile(990));
}

#[test]
fn a_trace_without_the_kernels_values_compares_nothing() {
    let report = check("qemu_idle_menu.dat", "simidle");
    assert!(SignalKind::ALL.iter().all(|kind| report.errors(*kind).count() == 0));
}
