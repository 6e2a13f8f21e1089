//! Ticks, kicks and interrupts of idle balancing, against what one counts by hand.

use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::preset::Kernel;
use schedlab_machine::{CpuId, CpuSet, Machine};
use schedlab_sim::{CpuTimes, Engine, Settings, run_watched};
use schedlab_workload::build::Builder;
use schedlab_workload::program::Workload;
use std::path::Path;

const MS: u64 = 1_000_000;

/// v6.12 at 1000 Hz with another generation of idle balancing.
fn kernel(nohz: &str) -> Kernel {
    let text = Kernel::preset_text("v6.12").expect("a preset").replace("hz = 250", "hz = 1000");
    let text = text.replace("variant = \"modern\"", nohz);
    Kernel::from_toml("test", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// Tasks that never end, each bound to one of `cpus`.
fn busy(cpus: &[u32]) -> Workload {
    let mut build = Builder::new("busy");
    for &cpu in cpus {
        let program = build.program("busy", |code| {
            code.run(1_000_000 * MS);
        });
        build.attributes(program).affinity = Some(CpuSet::of(CpuId(cpu)));
        build.spawn(program, cpu, 0);
    }
    build.finish().unwrap_or_else(|error| panic!("{error}"))
}

/// The CPUs' counts after `ms` milliseconds, everything checked on the way.
fn counts(machine: &Machine, kernel: &Kernel, workload: &Workload, ms: u64) -> Vec<CpuTimes> {
    let settings = Settings::new(kernel, machine, ms * MS, 1);
    let domains = build_domains(machine, kernel.domains);
    let engine = Engine::new(machine, domains, workload, &settings, Vec::new());
    let outcome = run_watched(machine, engine, ms * MS, 1);
    outcome.unwrap_or_else(|what| panic!("{what}")).cpus
}

fn netbook() -> Machine {
    Machine::preset("atom-netbook-ht").expect("a preset")
}

/// One package of four cores without threads.
fn quad() -> Machine {
    let text = Machine::preset_text("generic").expect("a preset");
    let begin = text.find("[topology]").expect("a topology");
    let end = text.find("# The whole core's").expect("a comment after it");
    let topology = "[topology]\ncores_per_llc = 4\nthreads_per_core = 1\n\n";
    let text = format!("{}{topology}{}", &text[..begin], &text[end..]);
    let text = text.replace("throughput = [1.0, 1.25]", "throughput = [1.0]");
    let text = text.replace("power = [1.0, 1.15]", "power = [1.0]");
    Machine::parse(&text, Path::new("quad")).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn pull_keeps_the_idle_thread_of_a_busy_core_ticking() {
    let cpus = counts(&netbook(), &kernel("variant = \"pull\""), &busy(&[0]), 1000);
    // CPU 0 runs from 0 ms on and ticks at 1, 2 ... 999 ms; the run ends before its tick at 1000.
    assert_eq!((cpus[0].ticks, cpus[0].idle_ticks), (999, 0));
    // Its first tick finds no owner and sends CPU 1 round its idle loop, which then ticks at 2, 3
    // ... 999 ms.
    assert_eq!((cpus[1].ticks, cpus[1].idle_ticks), (998, 998));
    // That one interrupt aside, there is nothing to tell. No kicks in this generation.
    assert_eq!(cpus[1].ipis_reschedule, 1);
    assert_eq!(cpus.iter().map(|cpu| cpu.balance.kicks_sent).sum::<u64>(), 0);
}

#[test]
fn the_boot_cpu_passes_the_broadcast_timer_on() {
    let cpus = counts(&netbook(), &kernel("variant = \"pull\""), &busy(&[0]), 1000);
    // CPU 1 sleeps for nearly a millisecond at a time in states that stop its timer, so each of its
    // 998 ticks is an interrupt of the HPET on CPU 0 and an interrupt from there. One more woke
    // CPU 0 itself in the beginning.
    assert_eq!((cpus[0].broadcasts, cpus[1].broadcasts), (998 + 1, 0));
    assert_eq!((cpus[0].ipis_timer, cpus[1].ipis_timer), (0, 998));
    // Where the interrupt follows the sleeper, it wakes it directly.
    let text = Machine::preset_text("atom-netbook-ht").expect("a preset");
    let text = text.replace("\"boot-cpu\"", "\"next-event\"");
    let machine = Machine::parse(&text, Path::new("moved")).unwrap_or_else(|e| panic!("{e}"));
    let moved = counts(&machine, &kernel("variant = \"pull\""), &busy(&[0]), 1000);
    assert_eq!((moved[0].broadcasts, moved[1].ipis_timer, moved[1].idle_ticks), (0, 0, 998));
    // What it costs the busy CPU: the interrupts it takes and those it sends.
    let costs = machine.path_costs();
    let expected_ns = 999 * costs.irq_ns + 998 * costs.ipi_send_ns;
    assert_eq!(cpus[0].irq_ns - moved[0].irq_ns, expected_ns);
}

#[test]
fn a_cpu_can_sleep_without_any_timer_of_its_own() {
    // CPU 1 wakes now and then by the broadcast timer of CPU 0, which sleeps as deeply.
    let mut build = Builder::new("sleeper");
    let program = build.program("sleeper", |code| {
        code.repeat(100, |code| {
            code.run(100_000);
            code.sleep(7 * MS);
        });
    });
    build.attributes(program).affinity = Some(CpuSet::of(CpuId(1)));
    build.spawn(program, 1, 3 * MS);
    let workload = build.finish().unwrap_or_else(|error| panic!("{error}"));
    for nohz in ["variant = \"push\"\nstale_kick = false", "variant = \"modern\""] {
        let cpus = counts(&netbook(), &kernel(nohz), &workload, 500);
        // 3 ms, then every 7.1 ms and what timers and the kernel take: 70 times at most.
        assert!((60..=70).contains(&cpus[1].ipis_timer), "{nohz}: {cpus:?}");
        assert_eq!(cpus[0].broadcasts, cpus[1].ipis_timer, "{nohz}");
    }
}

#[test]
fn push_lets_the_idle_thread_sleep() {
    for stale_kick in [false, true] {
        let nohz = format!("variant = \"push\"\nstale_kick = {stale_kick}");
        let cpus = counts(&netbook(), &kernel(&nohz), &busy(&[0]), 1000);
        assert_eq!((cpus[0].ticks, cpus[1].ticks), (999, 0));
        // One running task needs nobody's help.
        assert_eq!((cpus[0].balance.kicks_sent, cpus[1].ipis), (0, 0));
        // The broadcast timer woke CPU 0 in the beginning.
        assert_eq!(cpus[0].broadcasts, 1);
    }
}

#[test]
fn push_the_second_busy_cpu_kicks_whenever_balancing_is_due() {
    let kernel = kernel("variant = \"push\"\nstale_kick = false");
    let cpus = counts(&quad(), &kernel, &busy(&[0, 1]), 1000);
    // CPU 0 ticks first and becomes the first pick, which kicks only with two tasks. CPU 1 is the
    // second and kicks with its one, unless its own balancing is due, which comes first.
    assert_eq!(cpus[0].balance.kicks_sent, 0);
    // The one kicked is the owner, CPU 2: in the beginning CPUs 0 to 3 idled, and CPU 0 owned
    // balancing and lost it when its task came. Without an owner, it is the first idle CPU.
    let kicked = cpus[2].balance.kicks_answered;
    assert_eq!(cpus[1].balance.kicks_sent, kicked);
    assert_eq!((cpus[2].ipis_kick, cpus[3].ipis_kick), (kicked, 0));
    // The domain of 4 CPUs balances every 4 ms in the beginning and, as there is nothing to move,
    // every 8 ms from then on: kicks at 1 (the machine has idled for long), 9, 17 ... 993 ms. When
    // balancing of CPU 1 itself is due just then, the kick comes a tick later, and all that follow
    // do, too; busy CPUs balance every 16 * 8 - 1 ms.
    assert!((120..=126).contains(&kicked), "{kicked}");
    assert_eq!(cpus.iter().map(|cpu| cpu.idle_ticks).sum::<u64>(), 0);
}

#[test]
fn push_in_2_6_36_a_cpu_that_idles_since_its_last_tick_refuses_and_is_left_alone() {
    // CPU 2 runs for 1.5 ms: its only tick finds it busy. It idles from then on, as CPU 3 always
    // did, and owns balancing, as nobody did before.
    let mut build = Builder::new("stale");
    for (cpu, run_ns) in [(0, 1_000_000 * MS), (1, 1_000_000 * MS), (2, 3 * MS / 2)] {
        let program = build.program("busy", |code| {
            code.run(run_ns);
        });
        build.attributes(program).affinity = Some(CpuSet::of(CpuId(cpu)));
        build.spawn(program, cpu, 0);
    }
    let workload = build.finish().unwrap_or_else(|error| panic!("{error}"));
    let kicks = |stale_kick: bool| {
        let nohz = format!("variant = \"push\"\nstale_kick = {stale_kick}");
        let cpus = counts(&quad(), &kernel(&nohz), &workload, 500);
        let sum = |of: fn(&CpuTimes) -> u64| cpus.iter().map(of).sum::<u64>();
        (sum(|cpu| cpu.balance.kicks_answered), sum(|cpu| cpu.balance.kicks_refused))
    };
    let (answered, refused) = kicks(true);
    // CPU 3 may be kicked while CPU 2 runs; once CPU 2 owns balancing, it refuses once, and its
    // flag keeps everybody else from being kicked.
    assert!(answered <= 1, "{answered}");
    assert_eq!(refused, 1);
    let (answered, refused) = kicks(false);
    assert!(answered > 50, "{answered}");
    assert_eq!(refused, 0);
}

#[test]
fn on_an_idle_machine_nobody_ticks() {
    let mut build = Builder::new("late");
    let program = build.program("late", |code| {
        code.run(MS / 10);
    });
    build.spawn(program, 0, 400 * MS);
    build.spawn(program, 2, 500 * MS);
    let workload = build.finish().unwrap_or_else(|error| panic!("{error}"));
    for nohz in ["pull\"", "push\"\nstale_kick = true", "modern\""] {
        let cpus = counts(&quad(), &kernel(&format!("variant = \"{nohz}")), &workload, 600);
        // The tasks run for less than a tick, and nobody stays behind to tick.
        assert_eq!(cpus.iter().map(|cpu| cpu.ticks).sum::<u64>(), 0, "{nohz}");
    }
}

/// What was shown above for 6.12 with another generation of idle balancing holds for the kernels
/// that had them.
#[test]
fn v2_6_32_ticks_beside_a_busy_thread_and_v2_6_36_does_not() {
    let preset = |name| Kernel::preset(name).expect("a preset");
    let pull = counts(&netbook(), &preset("v2.6.32"), &busy(&[0]), 1000);
    assert_eq!((pull[0].ticks, pull[1].ticks, pull[1].idle_ticks), (999, 998, 998));
    assert_eq!((pull[0].broadcasts, pull[1].ipis_timer), (999, 998));
    // Idle, it balances the domain of its threads every 1 ms and, as nothing is to be moved, every 2
    // ms from then on: at each second of its ticks. The busy thread makes it count as busy for the
    // cache's domain then, which is due every 64 times 1, 2 and then 4 ms, be it in between.
    assert!((498..=506).contains(&pull[1].balance.softirqs), "{:?}", pull[1].balance);
    // Busy, CPU 0 balances its thread's domain after 64 ms and then every 128 ms, 8 times, and that of
    // the cache after 64, 128 and then every 256 ms, 5 times.
    assert!((8..=14).contains(&pull[0].balance.softirqs), "{:?}", pull[0].balance);
    let push = counts(&netbook(), &preset("v2.6.36"), &busy(&[0]), 1000);
    assert_eq!((push[0].ticks, push[1].ticks), (999, 0));
    assert_eq!((push[0].balance.kicks_sent, push[1].balance.softirqs), (0, 0));
    // The busy CPU gets the sleeper's interrupts, and half the core while it is awake.
    assert!(pull[0].irq_ns > push[0].irq_ns + 998 * 600);
    assert!(pull[1].busy_ns > 998 * 1_500 && push[1].busy_ns == 0);
}

/// The tick rate alone decides how often, and a machine without threads has nobody to disturb.
#[test]
fn the_owner_ticks_at_the_kernel_s_rate() {
    let mut kernel = Kernel::preset("v2.6.32").expect("a preset");
    kernel.hz = 100;
    let cpus = counts(&netbook(), &kernel, &busy(&[0]), 1000);
    // Ticks at 10, 20 ... 990 ms, the owner's from 20 ms on.
    assert_eq!((cpus[0].ticks, cpus[1].idle_ticks), (99, 98));
    let cpus = counts(&quad(), &kernel, &busy(&[2]), 1000);
    assert_eq!(cpus.iter().map(|cpu| cpu.idle_ticks).collect::<Vec<_>>(), [98, 0, 0, 0]);
}

#[test]
fn v2_6_36_kicks_every_four_jiffies() {
    let mut kernel = Kernel::preset("v2.6.36").expect("a preset");
    let cpus = counts(&quad(), &kernel, &busy(&[0, 1]), 1000);
    let kicked = cpus[2].balance.kicks_answered;
    assert_eq!((cpus[0].balance.kicks_sent, cpus[1].balance.kicks_sent), (0, kicked));
    // The cache's domain balances every 1, 2 and from then on 4 ms: kicks at 1, 2, 4, 8, 12 ... 996
    // ms, 252 of them. At every 256 ms, CPU 1 balances itself, and the kick comes a tick later, as
    // all that follow do.
    assert!((248..=252).contains(&kicked), "{kicked}");
    // CPU 2, which is kicked, balances for CPU 3, whom nobody disturbs.
    assert_eq!((cpus[2].ipis_kick, cpus[3].ipis), (kicked, 0));
    assert_eq!(cpus[2].balance.softirqs, kicked);
    kernel.hz = 100;
    let kicked = counts(&quad(), &kernel, &busy(&[0, 1]), 1000)[2].balance.kicks_answered;
    // No interval is shorter than a jiffy of 10 ms: at 10, 20 ... 990 ms, but for those at which CPU
    // 1 balances itself.
    assert!((90..=99).contains(&kicked), "{kicked}");
}

/// Two tasks on the threads of one core, beside idle cores: active balancing parts them.
#[test]
fn classic_balancing_uses_an_idle_core() {
    for name in ["v2.6.32", "v2.6.36"] {
        let kernel = Kernel::preset(name).expect("a preset");
        let machine = Machine::preset("nehalem-ep-2s").expect("a preset");
        let core: Vec<u32> =
            machine.topology().cores().siblings(CpuId(0)).iter().map(|cpu| cpu.0).collect();
        let mut build = Builder::new("two");
        let program = build.program("two", |code| {
            code.run(1_000_000 * MS);
        });
        for &cpu in &core {
            build.spawn(program, cpu, 0);
        }
        let workload = build.finish().unwrap_or_else(|error| panic!("{error}"));
        let cpus = counts(&machine, &kernel, &workload, 1000);
        let busy: Vec<usize> =
            (0..cpus.len()).filter(|&cpu| cpus[cpu].busy_ns > 700 * MS).collect();
        assert_eq!(busy.len(), 2, "{name}: {busy:?}");
        let cores = machine.topology().cores();
        let core_of = |cpu: usize| cores.siblings(CpuId(cpu as u32)).first();
        assert_ne!(core_of(busy[0]), core_of(busy[1]), "{name}");
    }
}

/// A thread that wakes for a moment takes its part of the core for that moment, and no more.
#[test]
fn a_ticking_sibling_slows_a_thread_down_and_never_speeds_it_up() {
    let machine = netbook();
    let amount_ms = 2_000;
    let elapsed_ms = |name: &str, idle_tick_ns: u64| {
        let text = Machine::preset_text("atom-netbook-ht").expect("a preset");
        let text = format!("{text}\n[kernel_paths]\nidle_tick_ns = {idle_tick_ns}\n");
        let machine = Machine::parse(&text, Path::new("ticks")).unwrap_or_else(|e| panic!("{e}"));
        let kernel = Kernel::preset(name).expect("a preset");
        let mut build = Builder::new("one");
        let program = build.program("one", |code| {
            code.run(amount_ms * MS);
        });
        build.attributes(program).affinity = Some(CpuSet::of(CpuId(0)));
        build.spawn(program, 0, 0);
        let workload = build.finish().unwrap_or_else(|error| panic!("{error}"));
        let settings = Settings::new(&kernel, &machine, 10_000 * MS, 1);
        let domains = build_domains(&machine, kernel.domains);
        let engine = Engine::new(&machine, domains, &workload, &settings, Vec::new());
        let outcome = run_watched(&machine, engine, 10_000 * MS, 1);
        let outcome = outcome.unwrap_or_else(|what| panic!("{what}"));
        (outcome.end_ns as f64 / MS as f64, outcome.cpus[1].busy_ns as f64 / MS as f64)
    };
    let (alone, _) = elapsed_ms("v2.6.36", 0);
    // Ticks of the busy CPU take 1.5 us of each ms.
    assert!((alone / f64::from(amount_ms as u32) - 1.0).abs() < 0.003, "{alone}");
    let share = 1.0 - f64::from(machine.smt().throughput_permille(2)) / 2000.0;
    for idle_tick_ns in [0, 100_000, 400_000] {
        let (elapsed, sibling) = elapsed_ms("v2.6.32", idle_tick_ns);
        // While the sibling is awake, 0.305 of the speed is lost; the interrupts that the busy CPU
        // passes on take it another 0.65 us a tick.
        let expected = alone + share * sibling + elapsed * 0.00065;
        let wrong = (elapsed - expected).abs() / (elapsed - alone);
        assert!(wrong < 0.02, "{idle_tick_ns} ns: {elapsed} ms, expected {expected} ms");
    }
}
