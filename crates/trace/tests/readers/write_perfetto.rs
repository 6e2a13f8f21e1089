//! A trace that is written as Perfetto and read again is the same trace.

use crate::support::compare::assert_same_events;
use crate::support::{Contents, read, read_bytes, sample};
use proptest::prelude::*;
use schedlab_machine::CpuId;
use schedlab_trace::write::{self, EventWriter, Format, PerfettoWriter};
use schedlab_trace::{Event, EventKind, PeltClass, Pid, StrId, Strings, Summary, Task, TaskState};

fn open(name: &str) -> Contents {
    read(schedlab_trace::open(&sample(name)).unwrap()).unwrap()
}

fn written(contents: &Contents) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Box::new(PerfettoWriter::new(&mut out, &contents.summary).unwrap());
    for events in contents.events.chunks(1000) {
        writer.write(events, &contents.strings).unwrap();
    }
    writer.finish(&contents.summary, &contents.strings).unwrap();
    out
}

#[test]
fn real_traces_survive_the_way_there_and_back() {
    for name in [
        "qemu_idle_menu.dat",
        "qemu_pelt_ptask.dat",
        "lisa_sched_load.dat",
        "trappy_arm32.dat",
        "qemu_psched_hackbench.data",
        "qemu_trace_cmd_report_ns.txt",
    ] {
        let original = open(name);
        assert!(original.events.len() > 200, "{name}");
        let copy = read_bytes(&written(&original)).unwrap();
        assert_same_events(&copy, &original);
        assert_eq!(copy.findings(), [], "{name}");
        assert_eq!(copy.summary.kernel_release, original.summary.kernel_release, "{name}");
        assert_eq!(copy.summary.cpus, original.summary.cpus, "{name}");
    }
}

#[test]
fn a_conversion_says_what_it_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.pftrace");
    let mut source = schedlab_trace::open(&sample("qemu_pelt_ptask.dat")).unwrap();
    let mut progress = Vec::new();
    let written = write::convert(&mut *source, &path, Format::Perfetto, |done, total| {
        progress.push((done, total));
        true
    });
    let written = written.unwrap().expect("nobody stopped it");
    let copy = read(schedlab_trace::open(&path).unwrap()).unwrap();
    let original = open("qemu_pelt_ptask.dat");
    let counted: u64 = original.summary.event_counts.values().sum();
    assert_eq!(written.events, original.events.len() as u64);
    assert_eq!(written.dropped, counted - written.events);
    assert!(written.dropped > 0);
    assert_eq!(copy.summary.event_counts.values().sum::<u64>(), written.events);
    assert!(progress.is_sorted());
    assert!(progress.last().is_some_and(|&(done, total)| done == total && total > 0));
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "nothing but the trace is left behind");
}

#[test]
fn what_cannot_be_written_is_not_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no/such/folder/trace.csv");
    let mut source = schedlab_trace::open(&sample("lisa_sched_load.dat")).unwrap();
    let error = write::convert(&mut *source, &path, Format::Csv, |_, _| true).unwrap_err();
    assert!(error.to_string().contains("trace.csv"), "{error}");
}

#[test]
fn gaps_stay_where_they_were_and_their_sum_stays() {
    let idle = |timestamp_ns, cpu, state| Event {
        timestamp_ns,
        cpu: CpuId(cpu),
        pid: Pid::IDLE,
        kind: EventKind::IdleEnter { cpu: CpuId(cpu), state },
    };
    let lost = |timestamp_ns, cpu, count| Event {
        timestamp_ns,
        cpu: CpuId(cpu),
        pid: Pid::UNKNOWN,
        kind: EventKind::Lost { count },
    };
    let original = Contents {
        events: vec![idle(1, 0, 0), idle(2, 1, 0), lost(3, 1, 40), idle(5, 0, 1), idle(6, 1, 1)],
        summary: Summary::default(),
        strings: Strings::default(),
    };
    let copy = read_bytes(&written(&original)).unwrap();
    let expected = [idle(1, 0, 0), idle(2, 1, 0), idle(5, 0, 1), lost(6, 1, 0), idle(6, 1, 1)];
    assert_eq!(copy.events, expected);
    assert_eq!(copy.summary.lost_events, 40);
}

/// The pools that random events draw from.
const COMMS: [&str; 5] = ["", "kworker/2:1", "a b", "swapper/0", "naïve"];
const FUNCTIONS: [&str; 4] = ["", "tick_nohz_handler", "0xffffffff81234567", "0x12"];
const VECTORS: [&str; 5] =
    ["local_timer", "reschedule", "call_function_single", "Rescheduling interrupts", "ipi"];

fn strings() -> Strings {
    let mut strings = Strings::default();
    for text in COMMS.iter().chain(&FUNCTIONS).chain(&VECTORS) {
        strings.intern(text.as_bytes());
    }
    strings
}

fn text(pool: &'static [&'static str]) -> impl Strategy<Value = StrId> {
    prop::sample::select(pool).prop_map(|text| strings().intern(text.as_bytes()))
}

fn task() -> impl Strategy<Value = Task> {
    (0..i32::MAX, text(&COMMS)).prop_map(|(pid, comm)| Task { pid: Pid(pid), comm })
}

fn cpu() -> impl Strategy<Value = CpuId> {
    (0..2048u32).prop_map(CpuId)
}

fn state() -> impl Strategy<Value = TaskState> {
    prop::sample::select(
        &[
            TaskState::Running,
            TaskState::Preempted,
            TaskState::Sleeping,
            TaskState::DiskSleep,
            TaskState::Stopped,
            TaskState::Traced,
            TaskState::Dead,
            TaskState::Zombie,
            TaskState::Parked,
            TaskState::Idle,
            TaskState::Other,
        ][..],
    )
}

fn sched_kind() -> impl Strategy<Value = EventKind> {
    let prio = any::<i32>;
    prop_oneof![
        (task(), prio(), state(), task(), prio()).prop_map(
            |(prev, prev_prio, prev_state, next, next_prio)| EventKind::Switch {
                prev,
                prev_prio,
                prev_state,
                next,
                next_prio
            }
        ),
        (task(), prio(), cpu()).prop_map(|(task, prio, target_cpu)| EventKind::Waking {
            task,
            prio,
            target_cpu
        }),
        (task(), prio(), cpu()).prop_map(|(task, prio, target_cpu)| EventKind::Wakeup {
            task,
            prio,
            target_cpu
        }),
        (task(), prio(), cpu()).prop_map(|(task, prio, target_cpu)| EventKind::WakeupNew {
            task,
            prio,
            target_cpu
        }),
        (task(), prio(), cpu(), cpu()).prop_map(|(task, prio, from_cpu, to_cpu)| {
            EventKind::Migrate { task, prio, from_cpu, to_cpu }
        }),
        (task(), task()).prop_map(|(parent, child)| EventKind::Fork { parent, child }),
        (any::<i32>(), any::<i32>(), text(&COMMS)).prop_map(|(pid, old_pid, filename)| {
            EventKind::Exec { pid: Pid(pid), old_pid: Pid(old_pid), filename }
        }),
        task().prop_map(|task| EventKind::Exit { task }),
        (task(), any::<u64>())
            .prop_map(|(task, runtime_ns)| EventKind::StatRuntime { task, runtime_ns }),
        (cpu(), 0..u32::MAX).prop_map(|(cpu, state)| EventKind::IdleEnter { cpu, state }),
        cpu().prop_map(|cpu| EventKind::IdleExit { cpu }),
        (cpu(), any::<u32>(), any::<bool>()).prop_map(|(cpu, state, below)| EventKind::IdleMiss {
            cpu,
            state,
            below
        }),
        (cpu(), any::<u32>())
            .prop_map(|(cpu, frequency_khz)| EventKind::Frequency { cpu, frequency_khz }),
    ]
}

fn interrupt_kind() -> impl Strategy<Value = EventKind> {
    let timer = any::<u64>;
    let function = || text(&FUNCTIONS);
    prop_oneof![
        (any::<i32>(), text(&COMMS)).prop_map(|(irq, name)| EventKind::IrqEntry { irq, name }),
        any::<i32>().prop_map(|irq| EventKind::IrqExit { irq }),
        text(&VECTORS).prop_map(|name| EventKind::VectorEntry { name }),
        text(&VECTORS).prop_map(|name| EventKind::VectorExit { name }),
        any::<u32>().prop_map(|vec| EventKind::SoftirqRaise { vec }),
        any::<u32>().prop_map(|vec| EventKind::SoftirqEntry { vec }),
        any::<u32>().prop_map(|vec| EventKind::SoftirqExit { vec }),
        (timer(), function(), any::<i64>(), any::<i64>()).prop_map(
            |(timer, function, expires_ns, soft_expires_ns)| EventKind::HrtimerStart {
                timer,
                function,
                expires_ns,
                soft_expires_ns
            }
        ),
        (timer(), function(), any::<i64>()).prop_map(|(timer, function, now_ns)| {
            EventKind::HrtimerExpireEntry { timer, function, now_ns }
        }),
        timer().prop_map(|timer| EventKind::HrtimerExpireExit { timer }),
        timer().prop_map(|timer| EventKind::HrtimerCancel { timer }),
        (timer(), function(), any::<u64>(), any::<u64>(), any::<bool>()).prop_map(
            |(timer, function, expires_jiffies, now_jiffies, deferrable)| EventKind::TimerStart {
                timer,
                function,
                expires_jiffies,
                now_jiffies,
                deferrable
            }
        ),
        (timer(), function(), any::<u64>()).prop_map(|(timer, function, now_jiffies)| {
            EventKind::TimerExpireEntry { timer, function, now_jiffies }
        }),
        timer().prop_map(|timer| EventKind::TimerCancel { timer }),
        (any::<bool>(), any::<u32>())
            .prop_map(|(success, dependency)| EventKind::TickStop { success, dependency }),
        (prop::option::of(cpu()), function())
            .prop_map(|(target_cpu, callback)| EventKind::IpiSend { target_cpu, callback }),
        cpu().prop_map(|target_cpu| EventKind::WakeIdleWithoutIpi { target_cpu }),
    ]
}

fn utilisation_kind() -> impl Strategy<Value = EventKind> {
    let averages = || (any::<u32>(), any::<u32>(), any::<u32>(), any::<u64>());
    let class = prop::sample::select(
        &[PeltClass::Fair, PeltClass::Rt, PeltClass::Deadline, PeltClass::Irq, PeltClass::Hardware]
            [..],
    );
    // The top bit of an estimate is the kernel's flag, which readers take off.
    let estimate = || 0..0x8000_0000u32;
    prop_oneof![
        (class, cpu(), averages()).prop_map(
            |(class, cpu, (load, runnable, util, last_update_time_ns))| EventKind::PeltCpu {
                class,
                cpu,
                load,
                runnable,
                util,
                last_update_time_ns
            }
        ),
        (1..i32::MAX, cpu(), averages()).prop_map(
            |(pid, cpu, (load, runnable, util, last_update_time_ns))| EventKind::PeltTask {
                pid: Pid(pid),
                cpu,
                load,
                runnable,
                util,
                last_update_time_ns
            }
        ),
        (cpu(), any::<u32>(), estimate()).prop_map(|(cpu, util, util_est)| EventKind::UtilEstCpu {
            cpu,
            util,
            util_est
        }),
        (1..i32::MAX, any::<u32>(), estimate()).prop_map(|(pid, util, util_est)| {
            EventKind::UtilEstTask { pid: Pid(pid), util, util_est }
        }),
        (cpu(), any::<u32>())
            .prop_map(|(cpu, nr_running)| EventKind::NrRunning { cpu, nr_running }),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let kind = prop_oneof![sched_kind(), interrupt_kind(), utilisation_kind()];
    let event = (0..1_000_000u64, 0..16u32, -1..100_000i32, kind).prop_map(
        |(timestamp_ns, cpu, pid, kind)| Event {
            timestamp_ns,
            cpu: CpuId(cpu),
            pid: Pid(pid),
            kind,
        },
    );
    prop::collection::vec(event, 1..200).prop_map(|mut events| {
        events.sort_by_key(|event| (event.timestamp_ns, event.cpu));
        events
    })
}

proptest! {
    #[test]
    fn every_kind_of_event_survives(events in events()) {
        let (summary, strings) = (Summary::default(), strings());
        let original = Contents { events, summary, strings };
        let copy = read_bytes(&written(&original)).unwrap();
        assert_same_events(&copy, &original);
        prop_assert_eq!(copy.findings(), []);
    }
}
