//! CPU frequencies: a domain's change takes the hardware's transition latency, one at a time, and
//! from then on its CPUs compute, and draw power, at the new operating point.

use crate::cpu::Doing;
use crate::engine::Engine;
use crate::observe::Observer;
use crate::outcome::Settings;
use crate::platform::Platform;
use crate::queue::NEVER;
use schedlab_kernel::cpufreq::{CpufreqGovernor, Policy, Request, Schedutil};
use schedlab_machine::{CpuId, CpuSet, Machine};
use schedlab_trace::EventKind;

/// The frequency domains of a machine in a run.
#[derive(Debug)]
pub struct Frequencies {
    domains: Vec<Domain>,
    /// `arch_scale_freq_capacity()` of each CPU, out of 1024.
    scale: Vec<u64>,
    /// Where in the event queue the next change stands, if there are any.
    leaf: Option<usize>,
}

/// One of them.
#[derive(Debug)]
struct Domain {
    cpus: CpuSet,
    max_khz: u32,
    transition_ns: u64,
    khz: u32,
    /// What it is changing to, and when that is done, ns.
    target_khz: u32,
    done_ns: u64,
    /// What was asked for meanwhile.
    wanted_khz: Option<u32>,
    times: FrequencyTimes,
    since_ns: u64,
}

/// How long a frequency domain had each of its operating points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrequencyTimes {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// What it began with, kHz.
    pub first_khz: u32,
    /// Each operating point, slow first, kHz, and for how long it had it, ns.
    pub points: Vec<(u32, u64)>,
    /// How often it changed.
    pub changes: u64,
}

impl Frequencies {
    /// The domains under a governor, and that governor if it has decisions to make.
    pub fn new(machine: &Machine, settings: &Settings) -> (Frequencies, Option<Schedutil>) {
        let governor = settings.cpufreq.governor_on(machine.usual_cpufreq());
        let count = machine.frequency_domains().len();
        let policies: Vec<Policy> = (0..count).map(|domain| Policy::new(machine, domain)).collect();
        let cpus = machine.cpu_count();
        let mut scale = vec![1024; cpus];
        let domain = |(index, policy): (usize, &Policy)| {
            let khz = policy.first_khz(governor);
            let kind = machine.frequency_domains()[index].cpu_type;
            let opps = machine.cpu_types()[kind].opps.iter();
            let max_khz = policy.hardware_max_khz();
            for cpu in &policy.cpus {
                scale[cpu.index()] = frequency_scale(khz, max_khz);
            }
            Domain {
                cpus: policy.cpus,
                max_khz,
                transition_ns: policy.transition_ns,
                khz,
                target_khz: khz,
                done_ns: NEVER,
                wanted_khz: None,
                times: FrequencyTimes {
                    cpus: policy.cpus,
                    first_khz: khz,
                    points: opps.map(|opp| (opp.khz, 0)).collect(),
                    changes: 0,
                },
                since_ns: 0,
            }
        };
        let domains = policies.iter().enumerate().map(domain).collect();
        let decides = governor == CpufreqGovernor::Schedutil
            && policies.iter().any(|policy| policy.min_khz() < policy.max_khz());
        let release = settings.cpufreq.schedutil.filter(|_| decides);
        let schedutil = release.map(|release| {
            let limit_ns = settings.cpufreq.rate_limit_ns;
            Schedutil::new(release, policies, cpus, settings.sched.tick_ns(), limit_ns)
        });
        let leaf = schedutil.is_some().then_some(cpus);
        (Frequencies { domains, scale, leaf }, schedutil)
    }

    /// Entries that the event queue needs beside one per CPU.
    pub fn events(&self) -> usize {
        usize::from(self.leaf.is_some())
    }

    /// `arch_scale_freq_capacity()`, out of 1024.
    #[inline]
    pub fn scale(&self, cpu: CpuId) -> u64 {
        self.scale[cpu.index()]
    }

    /// Each CPU with its frequency, kHz.
    pub fn now(&self) -> impl Iterator<Item = (CpuId, u32)> {
        self.domains.iter().flat_map(|domain| domain.cpus.iter().map(|cpu| (cpu, domain.khz)))
    }

    /// How long each domain had which frequency, up to `end_ns`.
    pub fn finish(&mut self, end_ns: u64) -> Vec<FrequencyTimes> {
        let times = |domain: &mut Domain| {
            domain.count(end_ns);
            domain.times.clone()
        };
        self.domains.iter_mut().map(times).collect()
    }

    fn next_ns(&self) -> u64 {
        self.domains.iter().map(|domain| domain.done_ns).min().unwrap_or(NEVER)
    }
}

/// `topology_set_freq_scale()`.
fn frequency_scale(khz: u32, max_khz: u32) -> u64 {
    1024 * u64::from(khz) / u64::from(max_khz)
}

impl Domain {
    /// Takes the time since the last change down.
    fn count(&mut self, now_ns: u64) {
        let khz = self.khz;
        if let Some((_, time_ns)) = self.times.points.iter_mut().find(|(own, _)| *own == khz) {
            *time_ns += now_ns.saturating_sub(self.since_ns);
        }
        self.since_ns = now_ns;
    }

    /// Begins the change to `khz`, unless it is there or another change has yet to end.
    fn ask(&mut self, khz: u32, now_ns: u64) {
        if self.done_ns != NEVER {
            self.wanted_khz = Some(khz);
        } else if khz != self.khz {
            self.target_khz = khz;
            self.done_ns = now_ns + self.transition_ns;
        }
    }
}

impl<O: Observer> Engine<'_, O> {
    /// The first frequencies, and what heat takes of each CPU.
    pub(crate) fn start_frequencies(&mut self, schedutil: Option<Schedutil>) {
        let machine = self.platform.machine;
        for domain in 0..machine.frequency_domains().len() {
            let policy = Policy::new(machine, domain);
            for cpu in &policy.cpus {
                let pressure = policy.pressure(u64::from(machine.capacity(cpu)));
                self.sched.set_hw_pressure(cpu, pressure);
            }
        }
        let now: Vec<(CpuId, u32)> = self.platform.frequencies.now().collect();
        for (cpu, khz) in now {
            self.platform.set_frequency(cpu, khz);
        }
        if let Some(schedutil) = schedutil {
            self.sched.set_schedutil(schedutil);
            self.sched.weigh_energy(machine);
        }
    }

    /// A change of frequency is done: the event that stands in the queue at [`Frequencies::leaf`].
    pub(crate) fn change_frequencies(&mut self, leaf: usize, time_ns: u64) {
        let platform = &mut self.platform;
        platform.queue.take(leaf);
        platform.clock_ns = time_ns;
        platform.horizon_ns = time_ns;
        if O::ACTIVE {
            platform.observer.horizon(time_ns);
        }
        for index in 0..platform.frequencies.domains.len() {
            let domain = &mut platform.frequencies.domains[index];
            if domain.done_ns > time_ns {
                continue;
            }
            domain.count(time_ns);
            domain.khz = domain.target_khz;
            domain.done_ns = NEVER;
            domain.times.changes += 1;
            if let Some(khz) = domain.wanted_khz.take() {
                domain.ask(khz, time_ns);
            }
            let (cpus, khz, max_khz) = (domain.cpus, domain.khz, domain.max_khz);
            for cpu in &cpus {
                platform.frequencies.scale[cpu.index()] = frequency_scale(khz, max_khz);
                platform.set_frequency(cpu, khz);
                // cpufreq_notify_transition() tells of every CPU of the domain.
                platform.emit(cpu, EventKind::Frequency { cpu, frequency_khz: khz });
            }
        }
        platform.queue.set(leaf, platform.frequencies.next_ns());
    }

    /// Hands what the governor asked for to the hardware.
    #[inline]
    pub(crate) fn ask_for_frequencies(&mut self) {
        while let Some(request) = self.sched.take_frequency_request() {
            self.platform.ask_for_frequency(request);
        }
    }
}

impl<O: Observer> Platform<'_, O> {
    fn ask_for_frequency(&mut self, request: Request) {
        let now_ns = request.time_ns.max(self.horizon_ns);
        self.frequencies.domains[request.domain].ask(request.khz, now_ns);
        if let Some(leaf) = self.frequencies.leaf {
            self.queue.set(leaf, self.frequencies.next_ns());
        }
    }

    /// `cpu` computes and draws power at `khz` from now on. No event of it is before now any more,
    /// so what it did until here is settled.
    fn set_frequency(&mut self, cpu: CpuId, khz: u32) {
        let index = cpu.index();
        self.cpus[index].progress(self.horizon_ns);
        self.cpus[index].share.set_frequency(self.machine, cpu, khz);
        self.energy.set_frequency(self.machine, cpu, khz, self.horizon_ns);
        if matches!(self.cpus[index].doing, Doing::Computing { .. }) {
            self.cpus[index].plan_end();
            self.requeue(index);
        }
    }
}
