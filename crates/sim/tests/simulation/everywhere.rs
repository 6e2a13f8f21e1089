//! Every built-in workload runs on every built-in machine.

use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_sim::{Ending, Nothing, Settings, simulate};

#[test]
fn every_built_in_workload_runs_on_every_built_in_machine() {
    let kernel = Kernel::preset("v6.12").expect("a preset");
    for name in Machine::preset_names() {
        let machine = Machine::preset(name).expect("a preset");
        for workload in schedlab_workload::preset_names() {
            let case = format!("{workload} on {name}");
            let workload = schedlab_workload::load(workload, machine.cpu_count() as u32)
                .unwrap_or_else(|error| panic!("{case}: {error}"));
            let settings = Settings::new(&kernel, &machine, 3_000_000, 1);
            let outcome = simulate(&machine, kernel.domains, &workload, &settings, Nothing)
                .unwrap_or_else(|error| panic!("{case}: {error}"));
            assert!(matches!(outcome.ending, Ending::TimeUp | Ending::Finished), "{case}");
            assert!(outcome.events > 0, "{case}");
        }
    }
}
