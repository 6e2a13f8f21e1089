//! The kernel's shared lines in a run: they take time where they are modelled, change nothing where
//! they cost nothing, and are taken down as a profiler would.

use schedlab_kernel::preset::Kernel;
use schedlab_kernel::rt::Pull;
use schedlab_kernel::rt::cpupri::Layout;
use schedlab_machine::Machine;
use schedlab_sim::{
    Contention, ContentionOptions, KernelLines, Nothing, Outcome, Settings, contend, simulate,
};
use schedlab_workload::models::{Model, ffmpeg};
use std::path::Path;

/// Twelve real-time threads on each eight CPUs of the machine, for 20 ms.
fn run(machine: &Machine, kernel: &Kernel, lines: KernelLines) -> Outcome<Nothing> {
    let options = ffmpeg::Options { slice_us: 60, slice_deviation_us: 20, ..Default::default() };
    let workload = options.workload("ffmpeg", machine.cpu_count() as u32).expect("a workload");
    let mut settings = Settings::new(kernel, machine, 20_000_000, 1);
    settings.kernel_lines = lines;
    simulate(machine, kernel.domains, &workload, &settings, Nothing).expect("it runs")
}

/// The preset with other lines in its `[cache]` table.
fn with_cache(name: &str, cache: &str) -> Machine {
    let text = Machine::preset_text(name).expect("a preset");
    let at = text.find("[cache]").expect("a table of costs");
    let end = at + text[at..].find("\n\n").expect("a next table");
    let text = format!("{}[cache]\n{cache}{}", &text[..at], &text[end..]);
    Machine::parse(&text, Path::new(name)).expect("a machine")
}

const FREE: &str = "core_ns = 0\nllc_ns = 0\npackage_ns = 0\nmachine_ns = 0\nowned_rmw_ns = 0\n\
                    l1_hit_ns = 0\nmemory_local_ns = 0\n";

fn v6_12(layout: Layout) -> Kernel {
    let mut kernel = Kernel::preset("v6.12").expect("a preset");
    kernel.rt.priority_map = layout;
    kernel
}

#[test]
fn lines_that_cost_nothing_change_nothing_in_any_layout() {
    let machine = with_cache("nehalem-ep-2s", FREE);
    for pull in [Pull::PushIpi, Pull::Plain] {
        let mut kernel = v6_12(Layout::Global);
        kernel.rt.pull = pull;
        let plain = run(&machine, &kernel, KernelLines::Off).digest;
        for layout in Layout::ALL {
            kernel.rt.priority_map = layout;
            let digest = run(&machine, &kernel, KernelLines::Charged).digest;
            assert_eq!(digest, plain, "{layout:?}, {pull:?}");
        }
    }
}

#[test]
fn layouts_differ_where_lines_are_far_apart() {
    let machine = Machine::preset("gnr-2s-snc3").expect("a preset");
    let kernel = v6_12(Layout::Global);
    let off = run(&machine, &kernel, KernelLines::Off).digest;
    let charged = run(&machine, &kernel, KernelLines::Charged).digest;
    assert_ne!(charged, off);
    // To take accesses down costs the run nothing.
    let recorded = run(&machine, &kernel, KernelLines::Recorded);
    assert_eq!(recorded.digest, charged);
    let report = recorded.c2c.expect("a report");
    // The first count shares its line with what pulls look at, and is the hottest of all.
    let hottest = &report.lines[0];
    assert_eq!(hottest.name, "root_domain+0x80");
    let symbols: Vec<&str> = hottest.places.iter().map(|place| place.symbol).collect();
    for symbol in ["cpupri_set", "cpupri_find_fitness", "dequeue_pushable_task"] {
        assert!(symbols.contains(&symbol), "{symbols:?}");
    }
    assert!(hottest.remote_hitm > hottest.local_hitm);
    let mask = report.lines.iter().find(|line| line.name == "pri_to_cpu[0].mask+0x0");
    let mask_cycles = |places: &[schedlab_sim::C2cPlace]| {
        let sum = places.iter().map(|place| place.load_cycles_mean * place.loads).sum::<u64>();
        sum / places.iter().map(|place| place.loads).sum::<u64>()
    };
    let global = mask_cycles(&mask.expect("the mask of normal CPUs").places);
    let split = run(&machine, &v6_12(Layout::PerNode), KernelLines::Recorded).c2c.expect("one");
    let parts = split.lines.iter().filter(|line| line.name.starts_with("pri_to_cpu[0].masks["));
    let local = parts.map(|line| mask_cycles(&line.places)).max().expect("masks");
    assert!(local < global, "{local} cycles for a node's mask, {global} for the one of all");
}

fn contended(machine: &Machine, layout: Layout) -> Contention {
    let options = ContentionOptions {
        layout,
        group: 8,
        think_ns: 500_000,
        rounds: 12,
        seed: 1,
        record: false,
    };
    contend(machine, &options)
}

/// What a node's masks gain is in the distance: where all transfers take the same, less is left.
#[test]
fn uniform_transfers_shrink_what_split_masks_gain() {
    let costs = |far: u32| {
        format!(
            "core_ns = {0}\nllc_ns = {0}\npackage_ns = {0}\nmachine_ns = {0}\nowned_rmw_ns = 7\n\
             l1_hit_ns = 2\nmemory_local_ns = 130\n",
            far
        )
    };
    // A task's coming, search and going together: who waits less for a mask may wait more for a count.
    let round = |machine: &Machine, layout| {
        let times = contended(machine, layout);
        times.find.mean_ns + 2.0 * times.set.mean_ns
    };
    let gain =
        |machine: &Machine| round(machine, Layout::Global) - round(machine, Layout::ScalableBitmap);
    let machine = Machine::preset("gnr-2s-snc3").expect("a preset");
    let (far, uniform) = (gain(&machine), gain(&with_cache("gnr-2s-snc3", &costs(60))));
    assert!(far > 0.0 && uniform < far / 2.0, "{far} ns by distance, {uniform} ns without");
}

#[test]
fn a_search_touches_what_its_layout_says() {
    let machine = Machine::preset("gnr-2s-snc3").expect("a preset");
    let lines = |layout| contended(&machine, layout).find.lines;
    let (global, contiguous) = (lines(Layout::Global), lines(Layout::Contiguous));
    let padded = lines(Layout::Padded);
    assert!(contiguous < global && global < padded, "{contiguous} {global} {padded}");
    assert!((1.0..=27.0).contains(&global));
}
