//! How a run begins.

use crate::broadcast::Broadcast;
use crate::coherence::{Coherence, KernelLines};
use crate::cpu::{Cpu, Doing};
use crate::decisions::Decisions;
use crate::devices::{Arrivals, Requests};
use crate::energy::{EnergyMeter, deepest};
use crate::engine::Engine;
use crate::figures::Figures;
use crate::frequency::Frequencies;
use crate::idle::poll_limit_ns;
use crate::idle_counts::Sleeps;
use crate::interrupts::InterruptNames;
use crate::lines::Lines;
use crate::objects::Object;
use crate::observe::{Digest, Observer};
use crate::outcome::Settings;
use crate::platform::Platform;
use crate::queue::{EventQueue, NEVER};
use crate::random::Pcg;
use crate::share::CoreShare;
use crate::streams::Streams;
use crate::timer_queue::{Timer, TimerQueue};
use schedlab_kernel::cpuidle::{AnyGovernor, State};
use schedlab_kernel::fair::topology::Domains;
use schedlab_kernel::rt::cpupri::Groups;
use schedlab_kernel::sched::Scheduler;
use schedlab_machine::{CpuId, CpuType, Machine};
use schedlab_trace::{Pid, Strings};
use schedlab_workload::program::Workload;
use std::sync::Arc;

/// The stream of random numbers of kernel code; tasks have those of their own numbers.
const KERNEL_STREAM: u64 = u64::MAX >> 1;

impl<'a, O: Observer> Engine<'a, O> {
    /// A run at time 0: every CPU idle, every first task created.
    pub fn new(
        machine: &'a Machine,
        domains: Domains,
        workload: &'a Workload,
        settings: &Settings,
        observer: O,
    ) -> Engine<'a, O> {
        let capacities: Vec<u64> =
            machine.cpu_ids().map(|cpu| u64::from(machine.capacity(cpu))).collect();
        let tick_ns = settings.sched.tick_ns();
        let cpu_count = machine.cpu_count();
        let mut strings = Strings::default();
        let program_names =
            workload.programs.iter().map(|program| strings.intern(program.comm.as_bytes()));
        let program_names = program_names.collect();
        let (frequencies, schedutil) = Frequencies::new(machine, settings);
        let events = cpu_count + frequencies.events();
        let mut engine = Engine {
            sched: Scheduler::new(settings.sched, domains, &capacities, 0),
            platform: Platform {
                machine,
                clock_ns: 0,
                horizon_ns: 0,
                cpus: {
                    let states: Vec<_> = machine.cpu_types().iter().map(states_of).collect();
                    let idle_cpu =
                        |cpu| idle_cpu(machine, settings, cpu, &states[machine.type_of(cpu)]);
                    machine.cpu_ids().map(idle_cpu).collect()
                },
                queue: EventQueue::new(events, settings.shuffle_ties.then_some(settings.seed)),
                broadcast: Broadcast::new(machine),
                energy: EnergyMeter::new(machine),
                frequencies,
                lines: Lines::new(workload.objects.len()),
                streams: Streams::new(machine, &workload.objects),
                observer,
                digest: Digest::default(),
                events: 0,
                remarks: 0,
                comms: Vec::new(),
                prios: Vec::new(),
                touched: Vec::new(),
                tick_ns,
                random: Pcg::new(settings.seed, KERNEL_STREAM),
                kernel_timers: 0,
                interrupt_names: settings.interrupts.then(|| InterruptNames::new(&mut strings)),
                decisions: settings.explain.then(Decisions::default),
                coherence: None,
            },
            workload,
            objects: workload.objects.iter().map(|&kind| Object::new(kind)).collect(),
            progress: Vec::new(),
            figures: Figures::new(&workload.metrics),
            instances: vec![0; workload.programs.len()],
            program_names,
            seed: settings.seed,
            live: 0,
            timers_armed: 0,
            stopped: false,
            holds_up: workload.holds_up(),
            takes_turns: workload.holds_up() && machine.shared_instruction_stream(),
            turn_until_ns: 0,
            idle_cpus: cpu_count,
            operations: 0,
            end_ns: u64::MAX,
            expiries: 0,
            strings,
        };
        engine.start_frequencies(schedutil);
        if settings.kernel_lines != KernelLines::Off {
            let groups = Groups::of(machine.topology());
            let plan = engine.sched.lines_plan(&groups);
            let recorded = settings.kernel_lines == KernelLines::Recorded;
            engine.platform.coherence = Some(Box::new(Coherence::new(plan, recorded)));
            engine.sched.model_lines(groups);
        }
        for cpu in machine.cpu_ids() {
            engine.sched.start_tickless(cpu);
            engine.platform.tell_tick_stopped(cpu);
            engine.note_idle_state(cpu, deepest(machine, cpu));
        }
        for cpu in machine.cpu_ids().filter(|_| !workload.interrupts.is_empty()) {
            let arrivals = Arrivals::of(&workload.interrupts, cpu);
            let state = &mut engine.platform.cpus[cpu.index()];
            (state.device_ns, state.arrivals) = (arrivals.next_ns(), arrivals);
            engine.platform.requeue(cpu.index());
        }
        engine.timers_armed += workload.interrupts.len() as u64;
        for spawn in &workload.spawns {
            let birth_cpu = CpuId(spawn.birth_cpu % cpu_count as u32);
            let task = engine.create(spawn.program, None, birth_cpu);
            if spawn.asleep {
                engine.lay_asleep(task, spawn);
                engine.platform.requeue(birth_cpu.index());
                continue;
            }
            let timer = Timer { hard_ns: spawn.start_ns, soft_ns: spawn.start_ns, task: task.0 };
            engine.platform.cpus[birth_cpu.index()].timers.push(timer);
            engine.timers_armed += 1;
            engine.platform.requeue(birth_cpu.index());
        }
        for cpu in machine.cpu_ids() {
            engine.platform.enter_broadcast(cpu, deepest(machine, cpu) as usize);
        }
        for cpu in 0..cpu_count {
            engine.platform.requeue(cpu);
        }
        // Programming the timers belongs to the time before the run.
        engine.platform.clock_ns = 0;
        engine
    }
}

/// The idle states of a kind of CPU, as governors see them.
fn states_of(kind: &CpuType) -> Arc<[State]> {
    let states = kind.idle_states.iter().map(|state| State {
        exit_latency_ns: state.governor_exit_latency_ns,
        target_residency_ns: state.target_residency_ns,
        polling: state.polling,
        disabled: state.disabled,
    });
    states.collect()
}

/// A CPU that idled for long before the run.
fn idle_cpu(machine: &Machine, settings: &Settings, cpu: CpuId, states: &Arc<[State]>) -> Cpu {
    let tick_ns = settings.sched.tick_ns();
    let capacity = u64::from(machine.capacity(cpu));
    Cpu {
        // The machine idled for long before the run.
        doing: Doing::Idle { since_ns: 0, state: deepest(machine, cpu) },
        busy_until_ns: 0,
        done_ns: NEVER,
        ahead: false,
        tick_ns: NEVER,
        ipi_ns: NEVER,
        ipi_kinds: 0,
        broadcast_ns: NEVER,
        timer_stopped: false,
        device_ns: NEVER,
        held_until_ns: 0,
        held_since_ns: 0,
        held_urgent_until_ns: 0,
        arrivals: Arrivals::default(),
        requests: Requests::default(),
        brought: Requests::default(),
        timers: TimerQueue::new(),
        siblings: {
            let core = machine.topology().cores().siblings(cpu);
            core.iter().filter(|&thread| thread != cpu).collect()
        },
        governor: AnyGovernor::with_config(
            settings.governor,
            &settings.governor_parameters.config(tick_ns, capacity),
        ),
        last_state: 0,
        woke_ns: 0,
        sleeps: vec![Sleeps::default(); states.len().max(1)],
        latency_req_ns: settings.cpu_latency_ns,
        poll_limit_ns: poll_limit_ns(states, tick_ns),
        states: Arc::clone(states),
        share: CoreShare::new(machine, cpu),
        pace: u64::MAX,
        computed_ns: 0,
        steps_without_time: 0,
        busy_ns: 0,
        iowait_ns: 0,
        irq_ns: 0,
        busy_since_ns: None,
        softirq_ns: 0,
        ticks: 0,
        idle_ticks: 0,
        ipis: 0,
        ipis_for: [0; 3],
        broadcasts: 0,
        running: Pid::IDLE,
        got_tick: false,
    }
}
