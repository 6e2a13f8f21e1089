use super::*;
use crate::event::{PeltClass, Pid};

/// Decodes one body on CPU 5 and hands the strings back for comparison.
fn decoded(name: &str, body: &str) -> (Decoded, Strings) {
    let mut strings = Strings::default();
    let mut context = Context {
        strings: &mut strings,
        states: &mut States::default(),
        cpu: CpuId(5),
        preemption_unmarked: &mut false,
    };
    let decode = decoder(name.as_bytes()).unwrap_or_else(|| panic!("{name} is of the schema"));
    let decoded = decode(&mut context, body.as_bytes());
    (decoded, strings)
}

fn kind(name: &str, body: &str) -> EventKind {
    match decoded(name, body).0 {
        Ok(Some(kind)) => kind,
        other => panic!("{name}: {body}: {other:?}"),
    }
}

fn shown(name: &str, body: &str) -> String {
    let (decoded, strings) = decoded(name, body);
    match decoded {
        Ok(Some(EventKind::Switch { prev, prev_prio, prev_state, next, next_prio })) => format!(
            "{}:{}:{prev_prio} {} {}:{}:{next_prio}",
            strings.get(prev.comm),
            prev.pid.0,
            prev_state.letter(),
            strings.get(next.comm),
            next.pid.0
        ),
        Ok(Some(
            EventKind::Waking { task, prio, target_cpu }
            | EventKind::Wakeup { task, prio, target_cpu }
            | EventKind::WakeupNew { task, prio, target_cpu },
        )) => format!("{}:{}:{prio} {target_cpu}", strings.get(task.comm), task.pid.0),
        other => panic!("{name}: {body}: {other:?}"),
    }
}

#[test]
fn switches_of_every_print() {
    for (body, expected) in [
        (
            "prev_comm=sh prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=a b next_pid=8 next_prio=-1",
            "sh:7:120 R+ a b:8:-1",
        ),
        (
            "prev_comm=sh prev_pid=7 prev_prio=120 prev_state=256 next_comm=b next_pid=8 next_prio=0",
            "sh:7:120 R+ b:8:0",
        ),
        (
            "prev_comm=a prev_pid=1 prev_pid=7 prev_prio=120 prev_state=D|K ==> next_comm==> next_comm=a next_pid=8 next_prio=0",
            "a prev_pid=1:7:120 D => next_comm=a:8:0",
        ),
        ("t2:619 [120] S ==> swapper/0:0 [120]", "t2:619:120 S swapper/0:0:120"),
        ("kworker/2:1:619 [120] R ==> a ==> b:9 [98]", "kworker/2:1:619:120 R a ==> b:9:98"),
        ("x [1] S ==> y:2:3 [120] D ==> z:4 [0]", "x [1] S ==> y:2:3:120 D z:4:0"),
    ] {
        assert_eq!(shown("sched_switch", body), expected, "{body}");
    }
}

#[test]
fn a_plugin_letter_that_may_hide_a_preemption_is_told() {
    for (body, expected) in [
        ("sh:7 [120] R ==> b:8 [120]", true),
        ("swapper/0:0 [120] R ==> b:8 [120]", false),
        ("sh:7 [120] S ==> b:8 [120]", false),
        (
            "prev_comm=a prev_pid=7 prev_prio=1 prev_state=R ==> next_comm=b next_pid=8 next_prio=0",
            false,
        ),
    ] {
        let mut unmarked = false;
        let mut context = Context {
            strings: &mut Strings::default(),
            states: &mut States::default(),
            cpu: CpuId(0),
            preemption_unmarked: &mut unmarked,
        };
        assert!(sched::switch(&mut context, body.as_bytes()).is_ok());
        assert_eq!(unmarked, expected, "{body}");
    }
}

#[test]
fn wakeups_of_every_print() {
    for (body, expected) in [
        ("comm=rs:main Q:Reg pid=18 prio=120 target_cpu=002", "rs:main Q:Reg:18:120 2"),
        ("comm=sh pid=18 prio=120 success=1 target_cpu=2", "sh:18:120 2"),
        ("rcu_preempt:18 [120] CPU:002", "rcu_preempt:18:120 2"),
        ("FastMixer:2688 [96] success=1 CPU:000", "FastMixer:2688:96 0"),
    ] {
        for name in ["sched_waking", "sched_wakeup", "sched_wakeup_new"] {
            assert_eq!(shown(name, body), expected, "{body}");
        }
    }
}

#[test]
fn an_unsuccessful_wakeup_is_none() {
    for body in ["comm=sh pid=18 prio=120 success=0 target_cpu=2", "sh:18 [120] success=0 CPU:002"]
    {
        assert_eq!(decoded("sched_wakeup", body).0, Ok(None), "{body}");
    }
}

#[test]
fn task_events() {
    let (fork, strings) = decoded("sched_process_fork", "comm=sh pid=1 child_comm=a b child_pid=2");
    let Ok(Some(EventKind::Fork { parent, child })) = fork else { panic!("{fork:?}") };
    assert_eq!((parent.pid, child.pid), (Pid(1), Pid(2)));
    assert_eq!((strings.get(parent.comm), strings.get(child.comm)), ("sh", "a b"));

    let raw = "parent_comm=sh parent_pid=1 child_comm=c child_pid=2";
    assert!(
        matches!(kind("sched_process_fork", raw), EventKind::Fork { child, .. } if child.pid == Pid(2))
    );

    let (exec, strings) = decoded("sched_process_exec", "filename=/a pid=1/b pid=3 old_pid=4");
    let Ok(Some(EventKind::Exec { pid, old_pid, filename })) = exec else { panic!("{exec:?}") };
    assert_eq!((pid, old_pid, strings.get(filename)), (Pid(3), Pid(4), "/a pid=1/b"));

    let exit = kind("sched_process_exit", "comm=x pid=9 prio=120 group_dead=true");
    assert!(matches!(exit, EventKind::Exit { task } if task.pid == Pid(9)));
    let runtime = kind("sched_stat_runtime", "comm=x pid=9 runtime=17910 [ns] vruntime=5 [ns]");
    assert!(matches!(runtime, EventKind::StatRuntime { runtime_ns: 17910, .. }));
    let migrate = kind("sched_migrate_task", "comm=x pid=9 prio=120 orig_cpu=2 dest_cpu=3");
    assert!(matches!(
        migrate,
        EventKind::Migrate { from_cpu: CpuId(2), to_cpu: CpuId(3), prio: 120, .. }
    ));
}

#[test]
fn idle_frequency_and_interrupts() {
    let cpu = CpuId(3);
    let exit = EventKind::IdleExit { cpu };
    assert_eq!(kind("cpu_idle", "state=4294967295 cpu_id=3"), exit);
    assert_eq!(kind("cpu_idle", "state=18446744073709551615 cpu_id=3"), exit);
    assert_eq!(kind("cpu_idle", "state=1 cpu_id=3"), EventKind::IdleEnter { cpu, state: 1 });
    let miss = EventKind::IdleMiss { cpu, state: 5, below: false };
    assert_eq!(kind("cpu_idle_miss", "cpu_id=3 state=5 type=above"), miss);
    assert_eq!(kind("cpu_idle_miss", "cpu_id=3 state=5 below=0"), miss);
    let frequency = EventKind::Frequency { cpu, frequency_khz: 850_000 };
    assert_eq!(kind("cpu_frequency", "state=850000 cpu_id=3"), frequency);
    assert_eq!(kind("softirq_raise", "vec=7 [action=SCHED]"), EventKind::SoftirqRaise { vec: 7 });
    assert_eq!(kind("irq_handler_exit", "irq=25 ret=handled"), EventKind::IrqExit { irq: 25 });
    let (entry, strings) = decoded("irq_handler_entry", "irq=25 name=mmc 0 host");
    let Ok(Some(EventKind::IrqEntry { irq: 25, name })) = entry else { panic!("{entry:?}") };
    assert_eq!(strings.get(name), "mmc 0 host");
    let (entry, strings) = decoded("local_timer_entry", "vector=236");
    let Ok(Some(EventKind::VectorEntry { name })) = entry else { panic!("{entry:?}") };
    assert_eq!(strings.get(name), "local_timer");
    let (exit, strings) = decoded("ipi_exit", "(Rescheduling interrupts)");
    let Ok(Some(EventKind::VectorExit { name })) = exit else { panic!("{exit:?}") };
    assert_eq!(strings.get(name), "Rescheduling interrupts");
}

#[test]
fn interprocessor_interrupts_name_a_single_target() {
    let target = |name: &str, body: &str| match kind(name, body) {
        EventKind::IpiSend { target_cpu, .. } => target_cpu.map(|cpu| cpu.0),
        other => panic!("{other:?}"),
    };
    let mask = |mask: &str| {
        target("ipi_send_cpumask", &format!("cpumask={mask} callsite=a+0x1 callback=b+0x0"))
    };
    assert_eq!(mask("0,2-3"), None);
    assert_eq!(mask("2"), Some(2));
    assert_eq!(mask("524320"), None);
    assert_eq!(mask("00000000,00000004"), Some(2));
    assert_eq!(mask("00000001,00000000"), Some(32));
    assert_eq!(mask("00000001,00000001"), None);
    assert_eq!(target("ipi_send_cpu", "cpu=3 callsite=wakeup_preempt+0x37 callback=0x0"), Some(3));
    assert_eq!(
        target("ipi_raise", "target_mask=00000000,00000002 (Function call interrupts)"),
        Some(1)
    );
}

#[test]
fn timers_and_the_tick() {
    let timer = 0xff11_0000_7bca_6418;
    let start =
        "hrtimer=0xff1100007bca6418 function=tick_nohz_handler/0x0 expires=12 softexpires=11";
    let (decoded_start, strings) = decoded("hrtimer_start", start);
    let Ok(Some(EventKind::HrtimerStart { timer: seen, function, expires_ns, soft_expires_ns })) =
        decoded_start
    else {
        panic!("{decoded_start:?}")
    };
    assert_eq!((seen, expires_ns, soft_expires_ns), (timer, 12, 11));
    assert_eq!(strings.get(function), "tick_nohz_handler");
    let cancel = EventKind::HrtimerCancel { timer };
    assert_eq!(kind("hrtimer_cancel", "hrtimer=ff1100007bca6418"), cancel);
    let start = "timer=1f function=f expires=4294967400 [timeout=100] bucket_expiry=5 cpu=0 idx=1 flags=D|P";
    assert!(matches!(
        kind("timer_start", start),
        EventKind::TimerStart { timer: 31, now_jiffies: 4_294_967_300, deferrable: true, .. }
    ));
    let start = "timer=1f function=f expires=90 [timeout=-10] cpu=0 idx=1 flags=";
    assert!(matches!(
        kind("timer_start", start),
        EventKind::TimerStart { now_jiffies: 100, deferrable: false, .. }
    ));
    let expire = "timer=1f function=f now=7 baseclk=7";
    assert!(matches!(
        kind("timer_expire_entry", expire),
        EventKind::TimerExpireEntry { now_jiffies: 7, .. }
    ));
    for (body, success, dependency) in [
        ("success=1 dependency=NONE", true, 0),
        ("success=0 dependency=SCHED", false, 4),
        ("success=0 dependency=16", false, 16),
        ("success=no msg=more than 1 task in runqueue", false, 0),
    ] {
        assert_eq!(kind("tick_stop", body), EventKind::TickStop { success, dependency }, "{body}");
    }
}

#[test]
fn utilisation_of_probes_and_of_the_module() {
    let cpu = CpuId(1);
    let cfs = "(ffffffff811130d4) cpu=1 lut=14075158528 load=1821 runn=780 util=780 load_sum=85300844 util_sum=3 nr=1";
    let expected = EventKind::PeltCpu {
        class: PeltClass::Fair,
        cpu,
        load: 1821,
        runnable: 780,
        util: 780,
        last_update_time_ns: 14_075_158_528,
    };
    assert_eq!(kind("pelt_cfs", cfs), expected);
    assert!(matches!(
        kind("sched_load_cfs_rq", "cpu=2 path=/ load=3 util=4"),
        EventKind::PeltCpu { cpu: CpuId(2), load: 3, util: 4, runnable: 0, .. }
    ));
    assert_eq!(decoded("sched_load_cfs_rq", "cpu=2 path=/user load=3 util=4").0, Ok(None));
    let se = "(ffffffff811131f4) myq=0x0 pid=275 lut=9 load=1022 runn=329 util=328 pc=120 est=0";
    assert!(matches!(
        kind("pelt_se", se),
        EventKind::PeltTask { pid: Pid(275), cpu: CpuId(5), util: 328, last_update_time_ns: 9, .. }
    ));
    let group = "cpu=2 path=/user comm=(null) pid=-1 load=1 util=2";
    assert_eq!(decoded("sched_load_se", group).0, Ok(None));
    let early = "comm=sshd pid=2962 load=1 utilization=2 runnable_avg_sum=0";
    assert!(matches!(kind("sched_load_avg_task", early), EventKind::PeltTask { util: 2, .. }));
    let android = "cpu=5 load_avg=253 util_avg=1007 util_avg_pelt=1007 util_avg_walt=0";
    assert!(matches!(
        kind("sched_load_avg_cpu", android),
        EventKind::PeltCpu { class: PeltClass::Fair, load: 253, util: 1007, .. }
    ));
    assert_eq!(decoded("pelt_se", &se.replace("0x0 ", "0xff11 ")).0, Ok(None));
    let se = "cpu=2 path=(null) comm=util=9 load=9 pid=2923 load=1 util=2";
    assert!(matches!(
        kind("sched_load_se", se),
        EventKind::PeltTask { pid: Pid(2923), cpu: CpuId(2), load: 1, util: 2, .. }
    ));
    let est = "(ffffffff81113134) pid=18 util=1 est=2147483657";
    let expected = EventKind::UtilEstTask { pid: Pid(18), util: 1, util_est: 9 };
    assert_eq!(kind("util_est_se", est), expected);
    let est = "(ffffffff81113174) cpu=1 util=806 est=9";
    assert_eq!(kind("util_est_cfs", est), EventKind::UtilEstCpu { cpu, util: 806, util_est: 9 });
    let nr = EventKind::NrRunning { cpu, nr_running: 1 };
    assert_eq!(kind("nr", "(ffffffff81112df4) cpu=1 change=1 nr=1"), nr);
    assert_eq!(kind("sched_update_nr_running", "cpu=1 change=1 nr_running=1"), nr);
}

#[test]
fn a_body_without_its_fields_is_broken() {
    for name in [
        "sched_switch",
        "sched_wakeup",
        "sched_migrate_task",
        "sched_process_fork",
        "sched_process_exec",
        "sched_process_exit",
        "sched_stat_runtime",
        "cpu_idle",
        "cpu_idle_miss",
        "cpu_frequency",
        "irq_handler_entry",
        "irq_handler_exit",
        "softirq_entry",
        "ipi_raise",
        "ipi_send_cpu",
        "ipi_entry",
        "hrtimer_start",
        "timer_start",
        "tick_stop",
        "pelt_cfs",
        "pelt_se",
        "util_est_cfs",
        "util_est_se",
        "nr",
        "reschedule_exit",
    ] {
        assert_eq!(decoded(name, "").0, Err(Broken), "{name}");
        assert_eq!(decoded(name, "comm=a pid=").0, Err(Broken), "{name}");
    }
    assert!(decoder(b"sched_blocked_reason").is_none());
}
