//! A governor's C source in whole runs, and what is told of one that does not compile, crashes or
//! does not end. The file comes from the project; the kernel's own are for `make parity`.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use schedlab_govsource::{GovernorSource, SourceError};
use schedlab_kernel::cpuidle::{
    AnyGovernor, Choice, Config, FixedHardware, Governor, IdleHardware, OwnGovernor, OwnKind,
    Served, State,
};
use schedlab_machine::Machine;
use support::{Ours, Twins, replay, simulate};

const STATES: [State; 3] = [
    State { exit_latency_ns: 0, target_residency_ns: 0, polling: true, disabled: false },
    State { exit_latency_ns: 2_000, target_residency_ns: 2_000, polling: false, disabled: false },
    State {
        exit_latency_ns: 90_000,
        target_residency_ns: 500_000,
        polling: false,
        disabled: false,
    },
];

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/governors/steady.c")
}

/// What `steady.c` does, in Rust.
#[derive(Debug)]
struct Steady {
    tick_ns: u64,
    slept_ns: [u64; 4],
    next: usize,
    /// Of all CPUs.
    choices: Arc<Mutex<u32>>,
    before: ([u64; 4], usize, u32),
}

impl Governor for Steady {
    fn select(&mut self, states: &[State], hardware: &mut dyn IdleHardware) -> Choice {
        let mean_ns = self.slept_ns.iter().sum::<u64>() / 4;
        let expected_ns = hardware.sleep_length().sleep_ns.min(mean_ns as i64);
        let fits = |(_, state): &(usize, &State)| {
            state.target_residency_ns as i64 <= expected_ns
                && state.exit_latency_ns as i64 <= hardware.latency_req_ns()
        };
        let enabled = states.iter().enumerate().skip(1).filter(|(_, state)| !state.disabled);
        let mut index = enabled.take_while(fits).last().map_or(0, |(index, _)| index);
        let mut choices = self.choices.lock().expect("no panic");
        *choices += 1;
        if choices.is_multiple_of(16) {
            index = 0;
        }
        Choice { index, stop_tick: expected_ns >= self.tick_ns as i64 }
    }

    fn reflect(&mut self, _: &[State], index: usize, slept_ns: i64, _: &mut dyn IdleHardware) {
        self.slept_ns[self.next] = slept_ns as u64 + index as u64;
        self.next = (self.next + 1) % 4;
    }

    fn reject(&mut self) {}
}

impl OwnGovernor for Steady {
    fn save(&mut self) {
        self.before = (self.slept_ns, self.next, *self.choices.lock().expect("no panic"));
    }

    fn restore(&mut self) {
        let choices;
        (self.slept_ns, self.next, choices) = self.before;
        *self.choices.lock().expect("no panic") = choices;
    }
}

fn twins() -> Twins {
    let ours: Ours = Box::new(|cpus| {
        let choices = Arc::new(Mutex::new(0));
        let steady = |cpu: &Served<'_>| {
            AnyGovernor::Own(Box::new(Steady {
                tick_ns: cpu.config.tick_ns,
                slept_ns: [0; 4],
                next: 0,
                choices: Arc::clone(&choices),
                before: Default::default(),
            }))
        };
        cpus.iter().map(steady).collect()
    });
    Twins::new(GovernorSource::open(&fixture()).expect("it compiles"), ours)
}

#[test]
fn a_file_decides_in_a_simulated_run_as_the_same_code_in_rust() {
    let twins = twins();
    let digest = simulate("simidle", "v6.12", "perf-sched-pipe", 50_000_000, &twins);
    let (decisions, mismatches) = twins.count.get();
    assert!(decisions > 1_000, "{decisions}");
    assert_eq!(mismatches, 0, "{}", twins.count.first());
    // The same run again, without the twin.
    let alone = simulate("simidle", "v6.12", "perf-sched-pipe", 50_000_000, &twins.theirs);
    assert_eq!(digest, alone);
}

#[test]
fn a_file_decides_through_a_trace_as_the_same_code_in_rust() {
    let twins = twins();
    let trace =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/traces/qemu_idle_menu.dat");
    let machine = Machine::preset("simidle").expect("a built-in machine");
    replay(&mut || schedlab_trace::open(&trace), &machine, &twins).expect("a replay");
    let (decisions, mismatches) = twins.count.get();
    assert!(decisions > 8_000, "{decisions}");
    assert_eq!(mismatches, 0, "{}", twins.count.first());
}

#[test]
fn what_is_included_counts_for_the_digest_and_the_place_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixtures = fixture();
    let fixtures = fixtures.parent().expect("a folder");
    let digest_with = |sleeps: &str| {
        let header = fs::read_to_string(fixtures.join("steady.h")).expect("a header");
        let header = header.replace("STEADY_SLEEPS 4", &format!("STEADY_SLEEPS {sleeps}"));
        fs::write(folder.path().join("steady.h"), header).expect("written");
        fs::copy(fixtures.join("steady.c"), folder.path().join("steady.c")).expect("copied");
        let source = GovernorSource::open(&folder.path().join("steady.c")).expect("it compiles");
        source.digest().to_owned()
    };
    let original = GovernorSource::open(&fixture()).expect("it compiles");
    assert_eq!(digest_with("4"), original.digest());
    assert_ne!(digest_with("8"), original.digest());
    assert!(original.name().starts_with("steady.c@"), "{}", original.name());
}

/// What a governor whose `select()` has this body says when it is asked twice, learning in between.
fn failure(select: &str, reflect: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("broken.c");
    let text = format!(
        "#include <linux/cpuidle.h>\n#include <linux/kernel.h>\nstatic volatile int zero;\n\
         static int broken_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, \
         bool *stop_tick)\n{{\n{select}\n}}\n\
         static void broken_reflect(struct cpuidle_device *dev, int index)\n{{\n{reflect}\n}}\n\
         static struct cpuidle_governor broken = {{ .name = \"broken\", .select = broken_select, \
         .reflect = broken_reflect }};\n\
         static int __init broken_init(void) {{ return cpuidle_register_governor(&broken); }}\n\
         postcore_initcall(broken_init);\n"
    );
    fs::write(&file, text).expect("written");
    let source = match GovernorSource::open(&file) {
        Ok(source) => source,
        Err(error) => return error.to_string(),
    };
    let served = Served { cpu: 0, config: Config::new(4_000_000, 1024), states: &STATES };
    let mut governors = source.make(&[served]).expect("a governor");
    let mut hardware = FixedHardware { now_ns: 1_500_000_000, ..FixedHardware::default() };
    for _ in 0..2 {
        let choice = governors[0].select(&STATES, &mut hardware);
        governors[0].reflect(&STATES, choice.index, 20_000, &mut hardware);
    }
    source.failure().expect("a failure")
}

#[test]
fn a_crash_is_told_with_its_line() {
    let message = failure("*(volatile int *)zero = 1;\nreturn 0;", "");
    assert!(
        message.contains("broken.c: select() on CPU 0, about 1.500000 s, crashed"),
        "{message}"
    );
    assert!(message.contains("segmentation fault"), "{message}");
    assert!(message.ends_with("at broken.c:6, in broken_select()"), "{message}");
    let message = failure("return 0;", "dev->last_state_idx = index / zero;");
    assert!(message.contains("reflect() on CPU 0"), "{message}");
    assert!(message.contains("division by 0"), "{message}");
    let message = failure("BUG_ON(!zero);\nreturn 0;", "");
    assert!(message.contains("hit BUG() at broken.c:6, in broken_select()"), "{message}");
}

#[test]
fn a_call_that_does_not_end_is_ended() {
    let message = failure("while (!zero)\n;\nreturn 0;", "");
    assert!(message.contains("select() on CPU 0, about 1.500000 s, does not end"), "{message}");
    assert!(message.contains("broken.c:"), "{message}");
}

#[test]
fn a_state_that_is_not_there_is_told() {
    let message = failure("return drv->state_count;", "");
    assert!(message.contains("chose state 3, but there are 3"), "{message}");
}

#[test]
fn the_compilers_words_reach_the_user() {
    let message = failure("return drv->nonsense;", "");
    assert!(message.contains("broken.c:6:11: error: "), "{message}");
    assert!(message.contains("nonsense"), "{message}");
    let message = failure("return energy_model_of(dev);", "");
    assert!(message.contains("implicit declaration of function"), "{message}");
    let error = GovernorSource::open(Path::new("/nowhere/teo.c")).expect_err("no such file");
    assert!(matches!(error, SourceError::Unreadable { .. }), "{error}");
    // What is no source is no object for the linker either.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace.dat");
    fs::write(&file, b"\x17\x08\x44tracing\x00\x1b[31m").expect("written");
    let error = GovernorSource::open(&file).expect_err("no source");
    assert!(matches!(error, SourceError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("trace.dat:1:"), "{error}");
}

#[test]
fn a_failure_belongs_to_its_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("touchy.c");
    let text = fs::read_to_string(fixture()).expect("a file").replace(
        "int i, chosen = 0;",
        "int i, chosen = 0;\n\tBUG_ON(sched_cpu_util((int)dev->cpu) > 1000);",
    );
    fs::write(&file, text.replace("#include \"steady.h\"", "#define STEADY_SLEEPS 4"))
        .expect("written");
    let source = GovernorSource::open(&file).expect("it compiles");
    let served = Served { cpu: 0, config: Config::new(4_000_000, 1024), states: &STATES };
    let asked = |source: &GovernorSource, cpu_util| {
        let mut governors = source.make(&[served]).expect("a governor");
        let mut hardware = FixedHardware { cpu_util, ..FixedHardware::default() };
        governors[0].select(&STATES, &mut hardware);
        source.failure().is_some()
    };
    assert!(asked(&source, 1024));
    assert!(!asked(&source.again(), 10));
}

#[test]
fn a_file_without_a_governor_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("empty.c");
    fs::write(&file, "#include <linux/kernel.h>\n").expect("written");
    let source = GovernorSource::open(&file).expect("it compiles");
    let served = Served { cpu: 0, config: Config::new(4_000_000, 1024), states: &STATES };
    let refusal = source.make(&[served]).expect_err("no governor");
    assert!(refusal.contains("registers no governor"), "{refusal}");
}
