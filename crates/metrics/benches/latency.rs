//! The wakeup latencies of a million events that are in memory; the budget is 30 ms.

use criterion::{Criterion, criterion_group, criterion_main};
use schedlab_machine::CpuId;
use schedlab_metrics::Collector;
use schedlab_metrics::latency::{From, WakeupLatency, by_task};
use schedlab_trace::{Event, EventKind, Pid, StrId, Task, TaskState};
use std::hint::black_box;

/// Eight CPUs that pass 500 tasks around: wake, switch in, switch out, with the timer events that a
/// real trace has between them.
fn events(count: usize) -> Vec<Event> {
    let task = |pid: i32| Task { pid: Pid(pid), comm: StrId(pid as u32 % 40) };
    let mut events = Vec::with_capacity(count);
    let mut random = 1_u64;
    for round in 0_u64.. {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (cpu, pid) = (CpuId((random >> 40) as u32 % 8), (random >> 33) as i32 % 500 + 1);
        let (idle, woken, prio) = (Task::default(), task(pid), 120);
        let switch = |prev, next| EventKind::Switch {
            prev,
            prev_prio: prio,
            prev_state: TaskState::Sleeping,
            next,
            next_prio: prio,
        };
        let kinds = [
            EventKind::HrtimerExpireEntry { timer: random, function: StrId(1), now_ns: 0 },
            EventKind::Waking { task: woken, prio, target_cpu: cpu },
            EventKind::Wakeup { task: woken, prio, target_cpu: cpu },
            switch(idle, woken),
            switch(woken, idle),
        ];
        for (step, kind) in kinds.into_iter().enumerate() {
            if events.len() == count {
                return events;
            }
            let timestamp_ns = round * 20_000 + step as u64 * (random >> 50);
            let pid = if step == 4 { woken.pid } else { Pid::IDLE };
            events.push(Event { timestamp_ns, cpu, pid, kind });
        }
    }
    events
}

fn wakeup_latency(criterion: &mut Criterion) {
    let events = events(1_000_000);
    criterion.bench_function("wakeup latency of 1,000,000 events", |bencher| {
        bencher.iter(|| {
            let mut collector = WakeupLatency::new(From::Waking);
            for event in &events {
                collector.push(black_box(event));
            }
            by_task(&mut collector.finish())
        });
    });
}

criterion_group!(benches, wakeup_latency);
criterion_main!(benches);
