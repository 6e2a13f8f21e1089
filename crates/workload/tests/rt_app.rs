//! rt-app's own example files load, or are refused for what they ask.

use schedlab_machine::{CpuId, CpuSet};
use schedlab_workload::program::{ObjectKind, Op, Policy, Workload};
use schedlab_workload::{WorkloadError, load, rt_app};
use std::path::Path;

fn example(name: &str) -> Result<Workload, WorkloadError> {
    load(&format!("{}/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR")), 8)
}

/// The message about an example, without the directory.
fn refusal(name: &str) -> String {
    let message = example(name).expect_err("must be refused").to_string();
    message.rsplit('/').next().unwrap_or_default().to_owned()
}

fn parse(text: &str) -> Result<Workload, WorkloadError> {
    rt_app::parse(text, Path::new("x.json"))
}

fn error(text: &str) -> String {
    parse(text).expect_err("must be refused").to_string()
}

#[test]
fn the_examples_load() {
    for (name, programs) in [
        ("mp3-short", 6),
        ("browser-short", 10),
        ("video-short", 18),
        ("spreading-tasks", 3),
        ("template", 2),
        ("example1", 2),
        ("example2", 2),
        ("example3", 2),
        ("example4", 3),
        ("example5", 3),
        ("example7", 3),
        ("example6", 2),
        ("example8", 2),
        ("example9", 4),
        ("dvfs", 2),
        ("calibration", 2),
        ("custom-slice", 3),
    ] {
        match example(name) {
            Ok(workload) => assert_eq!(workload.programs.len(), programs, "{name}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn what_is_not_modelled_is_refused_by_name_and_line() {
    let refused = [
        ("example10", "example10.json:12: taskgroup: task groups are not modelled"),
        ("example11", "example11.json:17: taskgroup: task groups are not modelled"),
        ("merge-thread0", "merge-thread0.json:4: exec: thread0 is a piece to be merged"),
    ];
    for (name, message) in refused {
        assert!(refusal(name).starts_with(message), "{}", refusal(name));
    }
}

#[test]
fn deadline_threads_reserve_what_the_file_says() {
    let policy = |thread: &str| {
        let text = format!(r#"{{"tasks": {{"a": {{"run": 1, {thread}}}}}}}"#);
        parse(&text).map(|workload| workload.programs[1].attributes.policy)
    };
    let reserves = |runtime: u64, deadline: u64, period: u64| Policy::Deadline {
        runtime_ns: runtime * 1000,
        deadline_ns: deadline * 1000,
        period_ns: period * 1000,
    };
    let deadline = r#""policy": "SCHED_DEADLINE", "dl-runtime": 2000"#;
    let both = format!(r#"{deadline}, "dl-period": 10000, "dl-deadline": 8000"#);
    assert_eq!(policy(&both).expect("loads"), reserves(2000, 8000, 10000));
    let period = format!(r#"{deadline}, "dl-period": 10000"#);
    assert_eq!(policy(&period).expect("loads"), reserves(2000, 10000, 10000));
    assert_eq!(policy(deadline).expect("loads"), reserves(2000, 2000, 2000));
    for (thread, mend) in [
        (r#""policy": "SCHED_DEADLINE""#.to_owned(), "needs a dl-runtime"),
        (format!(r#"{deadline}, "dl-period": 1000"#), "go up in this order"),
        (format!(r#"{deadline}, "fork": "b"}}, "b": {{"run": 1"#), "refuses deadline tasks"),
        (r#""dl-runtime": 99"#.to_owned(), "100 to 100000"),
    ] {
        let error = policy(&thread).expect_err("must be refused").to_string();
        assert!(error.contains(mend), "{error}");
    }
}

#[test]
fn a_thread_becomes_loops_of_its_events() {
    let workload = example("example3").expect("loads");
    let ops = &workload.programs[1].ops;
    assert!(matches!(ops[0], Op::Run(_)));
    assert!(matches!(ops[1], Op::RestartingTimer { period_ns: 30_000_000, .. }));
    assert!(matches!(ops[2], Op::Repeat { to: 0, times: 10, .. }));
    assert!(matches!(ops[5], Op::Repeat { to: 3, times: 10, .. }));
    assert_eq!(ops.len(), 6);
    let main = &workload.programs[0].ops;
    assert!(matches!(main[0], Op::Fork { count: 12, thread: true, .. }));
    assert_eq!(main[1], Op::Join);
}

#[test]
fn barriers_count_those_who_name_them() {
    let workload = example("example7").expect("loads");
    let parties = workload.objects.iter().filter_map(|object| match object {
        ObjectKind::Barrier(parties) => Some(*parties),
        _ => None,
    });
    assert_eq!(parties.collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn suspend_without_a_name_is_the_threads_own() {
    let text = r#"{"tasks": {"a": {"suspend", "run": 1}, "b": {"resume": "a", "sleep": 5}}}"#;
    let workload = parse(text).expect("loads");
    let condition = |program: usize| {
        workload.programs[program].ops.iter().find_map(|op| match op {
            Op::CondWait { condition, .. } => Some(*condition),
            Op::CondBroadcast(condition) => Some(*condition),
            _ => None,
        })
    };
    assert!(condition(1).is_some());
    assert_eq!(condition(1), condition(2));
}

#[test]
fn a_timer_of_several_instances_is_shared_unless_unique() {
    let timer = |name: &str| {
        let text = format!(
            r#"{{"tasks": {{"a": {{"instance": 2, "timer": {{"ref": "{name}", "period": 7}}}}}}}}"#
        );
        parse(&text).expect("loads").programs[1].ops[0]
    };
    assert!(matches!(timer("tick"), Op::SharedTimer { period_ns: 7000, restarts: true, .. }));
    assert!(matches!(timer("unique1"), Op::RestartingTimer { .. }));
}

#[test]
fn errors_name_line_and_mend() {
    let cases = [
        (
            "{\n\"tasks\": {\"a\": {\"runn\": 1}}}",
            "x.json:2: unknown key runn in thread a; events are",
        ),
        ("{\n\"tasks\": {\"a\": {\"run\": -1}}}", "x.json:2: run must be a whole number in 0 to"),
        ("{\"tasks\": {\"a\": {\"fork\": \"b\"}}}", "x.json:1: fork: no thread is called b"),
        ("{\"tasks\": {\"a\": {\"run\": 1}}", "x.json:1: a comma or } belongs here"),
        (
            "{\"tasks\": {\n\"a\": {}}}",
            "x.json:2: a: the loop never lets time pass; let it compute",
        ),
        ("{}", "x.json:1: tasks are missing"),
        ("{\n\"global\": {}}", "x.json:2: global without tasks: a piece to be merged"),
        ("{\n\"resources\": {}}", "x.json:2: resources without tasks: a piece to be merged"),
        (
            "{\"tasks\": {\"a\": {\"policy\": \"SCHED_RR\",\n\"priority\": 0, \"run\": 1}}}",
            "x.json:2: priority must be a whole number in 1 to 99 under this policy",
        ),
        (
            "{\"tasks\": {\"a\": {\"iorun\": 1}}, \"global\": {\n\"io_device\": \"/dev/sda\"}}",
            "x.json:2: io_device: how long its writes take is not known; only /dev/null",
        ),
        ("{ /* ", "x.json:1: a comment without end"),
        ("{\"tasks\": {\"a\": {\"instance\": 1000000, \"run\": 1}}}", "x.json:1: 1000000 threads"),
        ("{\"tasks\": {\"a\": {\"cpus\": [], \"run\": 1}}}", "x.json:1: cpus allows no CPU"),
    ];
    for (text, message) in cases {
        assert!(error(text).starts_with(message), "{}", error(text));
    }
    let deep = "[".repeat(100_000);
    assert!(error(&deep).contains("nested deeper"));
}

#[test]
fn real_time_threads_have_a_priority() {
    let policy = |properties: &str| {
        let text = format!(r#"{{"tasks": {{"a": {{{properties}, "run": 1}}}}}}"#);
        let attributes = parse(&text).expect("loads").programs[1].attributes.clone();
        (attributes.policy, attributes.nice)
    };
    assert_eq!(policy(r#""policy": "SCHED_FIFO""#), (Policy::Fifo(10), 0));
    assert_eq!(policy(r#""priority": 99, "policy": "SCHED_RR""#), (Policy::RoundRobin(99), 0));
    assert_eq!(policy(r#""priority": -19"#), (Policy::Normal, -19));
    let dvfs = example("dvfs").expect("loads");
    assert_eq!(dvfs.programs[1].attributes.policy, Policy::Fifo(10));
}

#[test]
fn phases_change_cpus_and_fall_back_to_those_of_the_thread() {
    let workload = example("example8").expect("loads");
    let program = &workload.programs[1];
    let only = |cpu| CpuSet::of(CpuId(cpu));
    assert_eq!(program.attributes.affinity, Some(only(0)));
    assert_eq!(program.attributes.other_affinities, [only(0), only(1), only(2)]);
    let changes = program.ops.iter().filter_map(|op| match op {
        Op::SetAffinity { to } => Some(*to),
        _ => None,
    });
    assert_eq!(changes.collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn writes_to_the_null_device_are_system_calls_of_a_buffer_each() {
    let text = r#"{"tasks": {"a": {"iorun": 2500}}, "global": {"mem_buffer_size": 1000}}"#;
    assert_eq!(parse(text).expect("loads").programs[1].ops[0], Op::SystemCalls(3));
    let example6 = example("example6").expect("loads");
    assert!(example6.programs[1].ops.contains(&Op::SystemCalls(1)));
}

#[test]
fn utilisation_clamps_are_a_threads_own() {
    let thread = |clamps: &str| {
        format!(r#"{{"tasks": {{"a": {{"loop": 3, "run": 100, "sleep": 100{clamps}}}}}}}"#)
    };
    let clamps = |text: &str| {
        let workload = parse(&thread(text)).expect("valid");
        workload.programs.iter().find(|one| one.comm.starts_with('a')).unwrap().attributes.clamps
    };
    assert_eq!(clamps(""), None);
    assert_eq!(clamps(r#", "util_min": 200"#), Some((200, 1024)));
    assert_eq!(clamps(r#", "util_max": 300, "util_min": 100"#), Some((100, 300)));
    assert!(error(&thread(r#", "util_min": 1025"#)).contains("util_min"));
    assert!(error(&thread(r#", "util_min": 600, "util_max": 300"#)).contains("600 to 300"));
}
