use super::*;
use schedlab_machine::Machine;

const MS: u64 = 1_000_000;

/// The phone: domains are 0 (little), 1 (mid) and 2 (big).
fn phone(release: Release) -> (Schedutil, Vec<CpuState>) {
    let machine = Machine::preset("pixel6-gs101").expect("a preset");
    let domains = machine.frequency_domains().len();
    let policies = (0..domains).map(|domain| Policy::new(&machine, domain)).collect();
    let state = |cpu| CpuState::idle(cpu, u64::from(machine.capacity(cpu)));
    let governor = Schedutil::new(release, policies, machine.cpu_count(), 4 * MS, None);
    (governor, machine.cpu_ids().map(state).collect())
}

fn asked(governor: &mut Schedutil) -> Option<u32> {
    governor.take_request().map(|request| request.khz)
}

#[test]
fn the_busiest_cpu_decides_with_a_quarter_to_spare() {
    for release in [Release::V6_1, Release::V6_12] {
        let (mut governor, mut cpus) = phone(release);
        (cpus[6].util, cpus[7].util) = (100, 400);
        governor.update(CpuId(6), MS, false, &cpus);
        // 1.25 * 400 / 1024 of 2802 MHz is 1368 MHz, above which 1426 is the next.
        assert_eq!(asked(&mut governor), Some(1_426_000));
        assert_eq!(asked(&mut governor), None);
        // The other domains are asked for nothing.
        governor.update(CpuId(4), MS, false, &cpus);
        assert_eq!(asked(&mut governor), Some(400_000));
    }
}

#[test]
fn estimates_count_and_waiting_tasks_from_6_5_on() {
    let (mut governor, mut cpus) = phone(Release::V6_1);
    (cpus[7].util, cpus[7].util_est, cpus[7].runnable) = (100, 400, 900);
    governor.update(CpuId(7), MS, false, &cpus);
    assert_eq!(asked(&mut governor), Some(1_426_000));
    let (mut governor, _) = phone(Release::V6_12);
    governor.update(CpuId(7), MS, false, &cpus);
    assert_eq!(asked(&mut governor), Some(2_802_000));
}

#[test]
fn nothing_changes_within_the_rate_limit() {
    let (mut governor, mut cpus) = phone(Release::V6_1);
    governor.update(CpuId(7), MS, false, &cpus);
    assert_eq!(asked(&mut governor), Some(500_000));
    cpus[7].util = 1024;
    governor.update(CpuId(7), 11 * MS - 1, false, &cpus);
    assert_eq!(asked(&mut governor), None);
    governor.update(CpuId(7), 11 * MS, false, &cpus);
    assert_eq!(asked(&mut governor), Some(2_802_000));
    // A look that changes nothing does not start the time anew.
    governor.update(CpuId(7), 21 * MS, false, &cpus);
    cpus[7].util = 0;
    governor.update(CpuId(7), 21 * MS + 1, false, &cpus);
    assert_eq!(asked(&mut governor), Some(500_000));
}

#[test]
fn a_real_time_task_gets_all() {
    for release in [Release::V6_1, Release::V6_12] {
        let (mut governor, mut cpus) = phone(release);
        cpus[0].nr_running = 1;
        governor.update(CpuId(0), MS, false, &cpus);
        assert_eq!(asked(&mut governor), Some(1_803_000));
    }
}

#[test]
fn interrupts_take_their_part_first() {
    let (mut governor, mut cpus) = phone(Release::V6_1);
    (cpus[7].util, cpus[7].util_irq) = (400, 512);
    governor.update(CpuId(7), MS, false, &cpus);
    // 512 + 400 / 2 = 712, times 1.25 is 890 of 1024 of 2802 MHz: 2435 MHz.
    assert_eq!(asked(&mut governor), Some(2_507_000));
}

#[test]
fn io_boosts_double_while_asked_for_and_halve_after() {
    let mut cpu = SugovCpu::default();
    let tick_ns = 4 * MS;
    let mut boosts = Vec::new();
    for step in 0..5 {
        cpu.iowait_boost(step, tick_ns, true);
        cpu.iowait_boost(step, tick_ns, true);
        cpu.last_update_ns = step;
        boosts.push(cpu.iowait_apply(step, tick_ns, 1024));
    }
    assert_eq!(boosts, [128, 256, 512, 1024, 1024]);
    let fading: Vec<u64> = (5..10).map(|now| cpu.iowait_apply(now, tick_ns, 512)).collect();
    assert_eq!(fading, [256, 128, 64, 0, 0]);
    // A tick after the last request it starts over.
    cpu.iowait_boost(9, tick_ns, true);
    cpu.last_update_ns = 9;
    assert_eq!(cpu.iowait_apply(10 + tick_ns, tick_ns, 1024), 0);
}

#[test]
fn a_lone_cpu_keeps_its_speed_until_it_idles() {
    let machine_cpu = CpuId(0);
    let mut policy = phone(Release::V6_1).0.policies[2].policy.clone();
    policy.cpus = schedlab_machine::CpuSet::of(machine_cpu);
    let mut governor = Schedutil::new(Release::V6_1, vec![policy], 1, 4 * MS, Some(0));
    let mut cpus = vec![CpuState::idle(machine_cpu, 1024)];
    cpus[0].util = 800;
    governor.count_idle_call(machine_cpu);
    governor.update(machine_cpu, MS, false, &cpus);
    assert_eq!(asked(&mut governor), Some(2_802_000));
    cpus[0].util = 100;
    governor.update(machine_cpu, 2 * MS, false, &cpus);
    assert_eq!(asked(&mut governor), None, "it has not idled");
    governor.count_idle_call(machine_cpu);
    governor.update(machine_cpu, 3 * MS, false, &cpus);
    assert_eq!(asked(&mut governor), Some(500_000));
}
