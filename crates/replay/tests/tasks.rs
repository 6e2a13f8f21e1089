//! Tasks taken out of made-up traces: nothing gets lost on the way.

use proptest::prelude::*;
use schedlab_machine::{CpuId, Machine};
use schedlab_replay::tasks::{ExtractError, Extraction, Request, extract};
use schedlab_trace::{
    Event, EventKind, EventSource, Pid, StrId, Strings, Summary, Task, TaskState, TraceError,
};
use schedlab_workload::recorded::{Recording, Start, Step};

/// Events that were made up.
#[derive(Clone)]
struct Made {
    events: Vec<Event>,
    summary: Summary,
    strings: Strings,
}

impl EventSource for Made {
    fn read_batch(&mut self, batch: &mut Vec<Event>) -> Result<bool, TraceError> {
        batch.append(&mut self.events);
        Ok(false)
    }
    fn summary(&self) -> &Summary {
        &self.summary
    }
    fn strings(&self) -> &Strings {
        &self.strings
    }
    fn progress_bytes(&self) -> (u64, u64) {
        (0, 0)
    }
    fn finish(self: Box<Self>) -> (Summary, Strings) {
        (self.summary, self.strings)
    }
}

/// A time of the made-up clock, which no trace begins with.
const BEGIN_NS: u64 = 5_000_000_000;

fn task(pid: i32) -> Task {
    Task { pid: Pid(pid), comm: StrId::EMPTY }
}

fn switch(prev: i32, prev_state: TaskState, next: i32) -> EventKind {
    EventKind::Switch {
        prev: task(prev),
        prev_prio: 120,
        prev_state,
        next: task(next),
        next_prio: 120,
    }
}

/// One run of a task on a CPU: how long the CPU idled before, how long the task ran, and whether
/// another one of the CPU follows without a break.
type Turn = (u64, u64, bool);

/// Each CPU wakes two tasks of its own in turn, from the idle task or, where one follows another
/// without a break, from the one before.
fn events(cpus: &[Vec<Turn>]) -> Vec<Event> {
    let mut events = Vec::new();
    for (index, turns) in cpus.iter().enumerate() {
        let cpu = CpuId(index as u32);
        let mut now_ns = BEGIN_NS + index as u64;
        let mut running = 0;
        for (turn, &(idle_ns, run_ns, follows)) in turns.iter().enumerate() {
            let next = 100 + 2 * index as i32 + (turn % 2) as i32;
            let mut add = |ns: u64, pid: i32, kind: EventKind| {
                now_ns += ns;
                events.push(Event { timestamp_ns: now_ns, cpu, pid: Pid(pid), kind });
            };
            let (woken, prio) = (task(next), 120);
            if running == 0 {
                add(idle_ns, 0, EventKind::Waking { task: woken, prio, target_cpu: cpu });
            } else {
                add(100, running, EventKind::Waking { task: woken, prio, target_cpu: cpu });
            }
            add(1_000, running, EventKind::Wakeup { task: woken, prio, target_cpu: cpu });
            let state = if running == 0 { TaskState::Running } else { TaskState::Sleeping };
            add(2_000, running, switch(running, state, next));
            now_ns += run_ns;
            running = next;
            if !follows {
                events.push(Event {
                    timestamp_ns: now_ns,
                    cpu,
                    pid: Pid(next),
                    kind: switch(next, TaskState::Sleeping, 0),
                });
                running = 0;
            }
        }
    }
    events.sort_by_key(|event| (event.timestamp_ns, event.cpu));
    events
}

fn extracted(events: Vec<Event>) -> Result<Extraction, ExtractError> {
    extracted_on("qemu4", events)
}

fn extracted_on(machine: &str, events: Vec<Event>) -> Result<Extraction, ExtractError> {
    named_on(machine, Strings::default(), events)
}

fn named_on(
    machine: &str,
    strings: Strings,
    events: Vec<Event>,
) -> Result<Extraction, ExtractError> {
    let made = Made { events, summary: Summary::default(), strings };
    let machine = Machine::preset(machine).expect("a preset");
    let request = Request { machine: &machine, tick_ns: 4_000_000, given: &[] };
    extract(&mut || Ok(Box::new(made.clone())), &request, &mut |_, _| true)
}

/// Time computed, waits, and wake-ups of others.
fn totals(steps: &[Step]) -> (u64, u64, u64) {
    let mut totals = (0, 0, 0);
    for step in steps {
        match step {
            Step::Run(ns) => totals.0 += ns,
            Step::Await | Step::Until { .. } | Step::Sleep { .. } => totals.1 += 1,
            Step::Wake(_) => totals.2 += 1,
            _ => {}
        }
    }
    totals
}

fn turns() -> impl Strategy<Value = Vec<Vec<Turn>>> {
    let turn = (10_000..3_000_000_u64, 500..2_000_000_u64, any::<bool>());
    prop::collection::vec(prop::collection::vec(turn, 1..40), 1..4)
}

proptest! {
    #[test]
    fn time_and_wakeups_are_conserved(cpus in turns()) {
        let events = events(&cpus);
        let wakeups = events.iter().filter(|e| matches!(e.kind, EventKind::Wakeup { .. })).count();
        let found = extracted(events).expect("tasks");
        let (mut waits, mut wakes, mut by_tasks) = (0, 0, 0);
        for (task, facts) in found.recording.tasks.iter().zip(&found.facts) {
            let (run_ns, own_waits, own_wakes) = totals(&task.steps);
            prop_assert_eq!(run_ns + facts.charged_ns, facts.run_ns + facts.excess_ns);
            prop_assert_eq!(task.start, Start::Asleep);
            // The last one only keeps the task from ending.
            waits += own_waits - 1;
            wakes += own_wakes;
            by_tasks += facts.wakeups;
        }
        let from_outside = found.recording.interrupts.iter().filter(|i| i.wakes.is_some()).count();
        prop_assert_eq!(waits as usize, wakeups);
        prop_assert_eq!(by_tasks as usize, wakeups);
        let causes = found.causes;
        prop_assert_eq!(causes.outside as usize, from_outside);
        prop_assert_eq!(causes.task, wakes);
        prop_assert_eq!(causes.timer + causes.task + causes.outside, waits);
        let workload = found.recording.workload("made up").expect("a workload");
        prop_assert!(workload.validate().is_ok());
    }

    #[test]
    fn a_file_says_what_was_extracted(cpus in turns()) {
        let found = extracted(events(&cpus)).expect("tasks");
        let text = found.recording.to_toml("made up", "A comment.");
        let path = std::path::Path::new("made-up.toml");
        let read = schedlab_workload::program::Workload::from_toml(&text, path, 4);
        prop_assert_eq!(read.expect(&text), found.recording.workload("made up").expect("one"));
    }

    #[test]
    fn events_in_any_order_are_no_harm(cpus in turns(), keep in prop::collection::vec(any::<bool>(), 64)) {
        // What is left of a damaged trace.
        let events = events(&cpus).into_iter().enumerate();
        let left: Vec<Event> =
            events.filter(|(at, _)| keep[at % keep.len()]).map(|(_, event)| event).collect();
        match extracted(left) {
            Ok(found) => {
                let workload = found.recording.workload("damaged").expect("a workload");
                prop_assert!(workload.validate().is_ok());
            }
            Err(error) => prop_assert!(matches!(error, ExtractError::NoTask)),
        }
    }
}

/// On CPU 1, task 200 wakes task 201, but CPU 0 has the instruction stream for 8 ms, and for another
/// 8 ms after a tick of CPU 1, until CPU 1 gets to the switch.
fn held_up() -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |at_us: u64, cpu: u32, pid: i32, kind: EventKind| {
        let timestamp_ns = BEGIN_NS + at_us * 1_000;
        events.push(Event { timestamp_ns, cpu: CpuId(cpu), pid: Pid(pid), kind });
    };
    let busy = EventKind::SoftirqEntry { vec: 9 };
    let timer = |expires_us: u64| {
        let (expires_ns, function) = ((BEGIN_NS + expires_us * 1_000) as i64, StrId::EMPTY);
        EventKind::HrtimerStart { timer: 7, function, expires_ns, soft_expires_ns: expires_ns }
    };
    let (woken, prio, target_cpu) = (task(201), 120, CpuId(1));
    add(0, 0, 0, switch(0, TaskState::Running, 100));
    add(10, 1, 0, switch(0, TaskState::Running, 201));
    add(500, 1, 201, switch(201, TaskState::Sleeping, 200));
    add(1_000, 1, 200, EventKind::Waking { task: woken, prio, target_cpu });
    add(1_004, 1, 200, EventKind::Wakeup { task: woken, prio, target_cpu });
    add(1_006, 1, 200, timer(4_000));
    (2..9).for_each(|ms| add(ms * 1_000, 0, 100, busy));
    let (function, now_ns) = (StrId::EMPTY, 0);
    add(9_000, 1, 200, EventKind::HrtimerExpireEntry { timer: 7, function, now_ns });
    add(9_006, 1, 200, timer(12_000));
    (10..17).for_each(|ms| add(ms * 1_000, 0, 100, busy));
    add(16_995, 0, 100, busy);
    add(17_000, 1, 200, switch(200, TaskState::Running, 201));
    add(17_500, 1, 201, switch(201, TaskState::Sleeping, 200));
    events
}

#[test]
fn a_wakeup_is_held_up_while_other_virtual_cpus_have_the_stream() {
    let found = extracted(held_up()).expect("tasks");
    assert!((5..10).contains(&found.turns), "{} turns", found.turns);
    assert_eq!(found.late, 1);
    assert!((15_900_000..16_000_000).contains(&found.late_ns), "{} ns", found.late_ns);
    let late = found.recording.tasks.iter().flat_map(|task| &task.steps);
    let late: Vec<u64> = late.filter_map(late_ns).collect();
    assert_eq!(late, [found.late_ns]);
}

/// On CPU 0, task 200 computes for 5 ms and wakes task 201, to which it yields at once. Then a
/// device's interrupt wakes task 201, late by so many us in the middle of the interrupt, if the trace
/// shows interrupts at all.
fn woken_after_silence(shows_interrupts: bool, late_us: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |at_us: u64, pid: i32, kind: EventKind| {
        let timestamp_ns = BEGIN_NS + at_us * 1_000;
        events.push(Event { timestamp_ns, cpu: CpuId(0), pid: Pid(pid), kind });
    };
    let (woken, prio, target_cpu) = (task(201), 120, CpuId(0));
    add(0, 0, switch(0, TaskState::Running, 201));
    add(100, 201, switch(201, TaskState::Sleeping, 200));
    add(5_100, 200, EventKind::Waking { task: woken, prio, target_cpu });
    add(5_102, 200, EventKind::Wakeup { task: woken, prio, target_cpu });
    add(5_105, 200, switch(200, TaskState::Running, 201));
    add(5_500, 201, switch(201, TaskState::Sleeping, 200));
    let mut at_us = 9_000;
    if shows_interrupts {
        let name = StrId::EMPTY;
        let (function, now_ns) = (StrId::EMPTY, 0);
        add(8_000, 200, EventKind::HrtimerExpireEntry { timer: 7, function, now_ns });
        add(8_001, 200, EventKind::HrtimerExpireExit { timer: 7 });
        add(at_us, 200, EventKind::IrqEntry { irq: 3, name });
        at_us += late_us;
    }
    add(at_us + 1, 200, EventKind::Waking { task: woken, prio, target_cpu });
    add(at_us + 3, 200, EventKind::Wakeup { task: woken, prio, target_cpu });
    if shows_interrupts {
        add(at_us + 4, 200, EventKind::IrqExit { irq: 3 });
    }
    add(at_us + 6, 200, switch(200, TaskState::Running, 201));
    add(at_us + 500, 201, switch(201, TaskState::Sleeping, 200));
    events
}

#[test]
fn silence_holds_up_where_the_stream_is_shared_or_an_interrupt_was_under_way() {
    let late = |machine, shows_interrupts, late_us| {
        let found = extracted_on(machine, woken_after_silence(shows_interrupts, late_us));
        let found = found.expect("tasks");
        (found.late, found.late_ns / 1_000_000)
    };
    assert_eq!(late("generic", false, 0), (0, 0));
    assert_eq!(late("generic", true, 0), (0, 0));
    assert_eq!(late("generic", true, 3_000), (1, 3));
    // On a machine whose CPUs share their stream, nobody else computed in that silence.
    assert_ne!(late("qemu4", false, 0), (0, 0));
}

/// CPU 1 sleeps in an idle state, is told of a task that it is to run, and comes so much later.
fn told_while_asleep(later_us: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |at_us: u64, cpu: u32, pid: i32, kind: EventKind| {
        let timestamp_ns = BEGIN_NS + at_us * 1_000;
        events.push(Event { timestamp_ns, cpu: CpuId(cpu), pid: Pid(pid), kind });
    };
    let (woken, prio, target_cpu) = (task(201), 120, CpuId(1));
    let (function, now_ns, name) = (StrId::EMPTY, 0, StrId::EMPTY);
    let state = Machine::preset("snb-laptop").expect("one").idle_states(CpuId(1)).len() as u32 - 1;
    add(0, 0, 0, switch(0, TaskState::Running, 200));
    add(1, 0, 200, EventKind::HrtimerExpireEntry { timer: 7, function, now_ns });
    add(2, 0, 200, EventKind::VectorEntry { name });
    add(3, 0, 200, EventKind::VectorExit { name });
    add(10, 1, 0, switch(0, TaskState::Running, 201));
    add(500, 1, 201, switch(201, TaskState::Sleeping, 0));
    add(501, 1, 0, EventKind::IdleEnter { cpu: CpuId(1), state });
    add(5_000, 0, 200, EventKind::Waking { task: woken, prio, target_cpu });
    add(5_002, 0, 200, EventKind::Wakeup { task: woken, prio, target_cpu });
    add(5_000 + later_us, 1, 0, EventKind::IdleExit { cpu: CpuId(1) });
    add(5_002 + later_us, 1, 0, switch(0, TaskState::Running, 201));
    add(6_000 + later_us, 1, 201, switch(201, TaskState::Sleeping, 0));
    events
}

#[test]
fn an_idle_cpu_may_take_its_exit_latency() {
    let machine = Machine::preset("snb-laptop").expect("a preset");
    let deepest = machine.idle_states(CpuId(1)).last().expect("idle states");
    let exit_us = (deepest.entry_latency_ns + deepest.exit_latency_ns) / 1_000;
    assert!(exit_us > 25, "{exit_us} us would be no test");
    let late =
        |later_us| extracted_on("snb-laptop", told_while_asleep(later_us)).expect("one").late;
    assert_eq!(late(exit_us + 10), 0);
    assert_eq!(late(exit_us + 2_000), 1);
}

/// An idle CPU's interrupt wakes a task and leaves its softirqs to their thread, if not so much later
/// that the task computes by then.
fn softirqs_left(strings: &mut Strings, later_us: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |at_us: u64, pid: i32, kind: EventKind| {
        let (timestamp_ns, cpu) = (BEGIN_NS + at_us * 1_000, CpuId(0));
        events.push(Event { timestamp_ns, cpu, pid: Pid(pid), kind });
    };
    let (woken, prio, target_cpu) = (task(200), 120, CpuId(0));
    let thread = Task { pid: Pid(17), comm: strings.intern(b"ksoftirqd/0") };
    let named = |task: Task| if task.pid == thread.pid { thread } else { task };
    let passes = |prev, prev_state, next| match switch(prev, prev_state, next) {
        EventKind::Switch { prev, prev_prio, prev_state, next, next_prio } => EventKind::Switch {
            prev: named(prev),
            prev_prio,
            prev_state,
            next: named(next),
            next_prio,
        },
        other => other,
    };
    add(0, 0, switch(0, TaskState::Running, 200));
    add(500, 200, switch(200, TaskState::Sleeping, 0));
    add(10_000, 0, EventKind::Waking { task: woken, prio, target_cpu });
    add(10_015, 0, EventKind::Wakeup { task: woken, prio, target_cpu });
    if later_us > 0 {
        add(10_030, 0, switch(0, TaskState::Running, 200));
    }
    let runs = if later_us > 0 { 200 } else { 0 };
    let at_us = 10_030 + later_us;
    add(at_us, runs, EventKind::SoftirqEntry { vec: 7 });
    add(at_us + 8, runs, EventKind::SoftirqExit { vec: 7 });
    add(at_us + 9, runs, EventKind::Waking { task: thread, prio, target_cpu });
    add(at_us + 24, runs, EventKind::Wakeup { task: thread, prio, target_cpu });
    add(at_us + 38, runs, passes(runs, TaskState::Running, 17));
    add(at_us + 68, 17, passes(17, TaskState::Sleeping, 200));
    add(at_us + 900, 200, switch(200, TaskState::Sleeping, 0));
    events
}

#[test]
fn the_thread_of_softirqs_comes_with_whom_an_interrupt_kept_waiting() {
    let found = |later_us| {
        let mut strings = Strings::default();
        let events = softirqs_left(&mut strings, later_us);
        named_on("qemu4", strings, events).expect("tasks").recording
    };
    let together = found(0);
    let thread = together.tasks.iter().position(|task| task.comm == "ksoftirqd/0").expect("it");
    let other = 1 - thread;
    let steps = &together.tasks[other].steps;
    let at = steps.iter().position(|step| *step == Step::Brings(thread as u32)).expect("brought");
    // The CPU had not got on with the task's wake-up until then.
    assert!(late_ns(&steps[at - 1]).is_some_and(|ns| ns > 5_000), "{steps:?}");
    let by_itself = |recording: &Recording, thread: usize| {
        recording.interrupts.iter().filter(|at| at.wakes == Some(thread as u32)).count()
    };
    assert_eq!(by_itself(&together, thread), 0);
    assert_eq!(together.tasks[thread].steps[0], Step::Await);
    // A file says so, and a loop leaves out what was the recorded machine's doing.
    let path = std::path::Path::new("made-up.toml");
    let text = together.to_toml("made up", "");
    let read = schedlab_workload::program::Workload::from_toml(&text, path, 4).expect(&text);
    assert_eq!(read, together.workload("made up").expect("one"));
    let folded = together.folded(100);
    assert_eq!(by_itself(&folded, thread), 1);
    assert!(folded.tasks[other].steps.iter().all(|step| !matches!(step, Step::Brings(_))));
    // A running task is not asked when softirqs are left to their thread.
    let apart = found(1_000);
    assert!(apart.tasks.iter().all(|task| {
        task.steps.iter().all(|step| !matches!(step, Step::Brings(_) | Step::Wake(_)))
    }));
    let thread = apart.tasks.iter().position(|task| task.comm == "ksoftirqd/0").expect("it");
    assert_eq!(by_itself(&apart, thread), 1);
}

#[test]
fn a_task_is_born_with_its_creators_policy() {
    let born = |prio: i32| {
        let mut events = Vec::new();
        let mut add = |at_us: u64, cpu: u32, pid: i32, kind: EventKind| {
            let timestamp_ns = BEGIN_NS + at_us * 1_000;
            events.push(Event { timestamp_ns, cpu: CpuId(cpu), pid: Pid(pid), kind });
        };
        add(0, 0, 0, switch(0, TaskState::Running, 200));
        add(50, 0, 200, EventKind::Fork { parent: task(200), child: task(201) });
        add(60, 0, 200, EventKind::WakeupNew { task: task(201), prio, target_cpu: CpuId(1) });
        add(70, 1, 0, switch(0, TaskState::Running, 201));
        let urgent = EventKind::Switch {
            prev: task(201),
            prev_prio: 79,
            prev_state: TaskState::Sleeping,
            next: task(0),
            next_prio: 120,
        };
        add(900, 1, 201, urgent);
        add(1_000, 0, 200, switch(200, TaskState::Sleeping, 0));
        let found = extracted(events).expect("tasks").recording;
        let child = found.tasks.iter().find(|task| task.start == Start::Forked).expect("forked");
        assert_eq!(child.attributes.policy.priority(), Some(20));
        child.attributes.born_fair
    };
    assert!(born(120));
    assert!(!born(79));
}

fn late_ns(step: &Step) -> Option<u64> {
    match step {
        Step::Late(ns) => Some(*ns),
        _ => None,
    }
}

#[test]
fn a_trace_of_a_bigger_machine_is_refused() {
    let kind = switch(0, TaskState::Running, 7);
    let event = Event { timestamp_ns: BEGIN_NS, cpu: CpuId(9), pid: Pid(0), kind };
    let error = extracted(vec![event]).expect_err("9 is no CPU of it").to_string();
    assert_eq!(
        error,
        "the trace has CPU 9, but machine qemu4 has 4 CPUs; choose the machine that was traced \
         with --machine"
    );
}

#[test]
fn a_trace_without_tasks_is_refused() {
    assert!(matches!(extracted(Vec::new()), Err(ExtractError::NoTask)));
}
