//! Drives an idle governor by the commands of the `gov` and `haltpoll` vectors.

use std::fmt::Write;

use schedlab_kernel::cpuidle::{
    AnyGovernor, FixedHardware, Governor, GovernorKind, Recorder, State,
};

/// A command's field as a number.
fn number<T: std::str::FromStr>(field: &str) -> T {
    field.parse().unwrap_or_else(|_| panic!("not a number: {field}"))
}

/// A signed time. The recorder read it as C does: beyond the type's range means its end.
fn signed_ns(field: &str) -> i64 {
    let wide: i128 = number(field);
    wide.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

fn state(field: &str) -> State {
    let mut parts = field.split(',');
    let mut next = || parts.next().expect("flags, exit latency and target residency");
    State {
        polling: number::<u32>(next()) & 1 != 0,
        exit_latency_ns: number(next()),
        target_residency_ns: number(next()),
        disabled: false,
    }
}

struct Driver {
    kind: GovernorKind,
    verbose: bool,
    governor: AnyGovernor,
    states: Vec<State>,
    tick_ns: u64,
    clock_ns: u64,
}

/// A driver of a governor of `kind` that prints decisions, and the state after them if `verbose`.
pub fn driver(kind: GovernorKind, verbose: bool) -> super::Command {
    let governor = AnyGovernor::new(kind, 0, 1024);
    let mut driver =
        Driver { kind, verbose, governor, states: Vec::new(), tick_ns: 0, clock_ns: 0 };
    Box::new(move |line| driver.command(line))
}

impl Driver {
    fn command(&mut self, line: &str) -> Option<String> {
        let fields: Vec<&str> = line.split(' ').collect();
        match fields.as_slice() {
            ["H", tick_ns] => self.tick_ns = number(tick_ns),
            ["S", _, states @ ..] => {
                self.states = states.iter().map(|field| state(field)).collect();
                match &mut self.governor {
                    // The others clear their memory when they are enabled.
                    AnyGovernor::Ladder(ladder) => ladder.enable(&self.states),
                    _ => self.governor = AnyGovernor::new(self.kind, self.tick_ns, 1024),
                }
            }
            ["X", index, disabled] => {
                self.states[number::<usize>(index)].disabled = *disabled != "0";
            }
            ["I", period @ ..] => return Some(self.idle_period(period)),
            _ => panic!("unknown command {line}"),
        }
        None
    }

    fn idle_period(&mut self, fields: &[&str]) -> String {
        let [
            sleep,
            delta_next,
            latency,
            stopped,
            iowait,
            reject,
            residency,
            overhead,
            tick,
            poll,
            utilization @ ..,
        ] = fields
        else {
            panic!("an idle period has ten fields, and one more where utilization counts");
        };
        let mut hardware = FixedHardware {
            now_ns: self.clock_ns,
            sleep_ns: signed_ns(sleep),
            delta_next_ns: signed_ns(delta_next),
            latency_req_ns: signed_ns(latency),
            tick_stopped: *stopped != "0",
            got_tick: *tick != "0",
            nr_iowait: number(iowait),
            cpu_util: utilization.first().map_or(0, |field| number(field)),
            poll_time_limit: *poll != "0",
        };
        let mut recorder = Recorder::new(&mut hardware);
        let choice = self.governor.select(&self.states, &mut recorder);
        let queried = recorder.inputs().sleep_length.is_some();

        self.clock_ns = self.clock_ns.wrapping_add(number(overhead));
        if *reject != "0" {
            self.governor.reject();
        } else {
            let residency_ns: u64 = number(residency);
            self.clock_ns = self.clock_ns.wrapping_add(residency_ns);
            hardware.now_ns = self.clock_ns;
            let residency_ns = residency_ns as i64;
            self.governor.reflect(&self.states, choice.index, residency_ns, &mut hardware);
        }
        self.clock_ns = self.clock_ns.wrapping_add(1_000);

        let mut printed =
            format!("{} {} {}", choice.index, u8::from(choice.stop_tick), u8::from(queried));
        if self.verbose {
            printed.push_str(" |");
            self.print_memory(&mut printed);
        }
        printed
    }

    fn print_memory(&self, printed: &mut String) {
        let mut field = |value: &dyn std::fmt::Display| {
            write!(printed, " {value}").expect("writing to memory");
        };
        match &self.governor {
            AnyGovernor::Menu(menu) => {
                field(&menu.next_timer_ns());
                field(&menu.bucket());
                menu.correction_factors().iter().for_each(|factor| field(factor));
                menu.intervals_us().iter().for_each(|interval| field(interval));
                field(&menu.interval_ptr());
            }
            AnyGovernor::Teo6_1(teo) => {
                field(&teo.time_span_ns());
                field(&teo.sleep_length_ns());
                field(&teo.total());
                let bins = teo.bins().iter().zip(teo.recent()).take(self.states.len());
                for (bin, recent) in bins {
                    field(&format_args!("{}/{}/{recent}", bin.intercepts, bin.hits));
                }
            }
            AnyGovernor::Teo6_12(teo) => {
                field(&teo.time_span_ns());
                field(&teo.sleep_length_ns());
                field(&teo.total());
                field(&teo.tick_hits());
                for bin in teo.bins().iter().take(self.states.len()) {
                    field(&format_args!("{}/{}", bin.intercepts, bin.hits));
                }
            }
            other => panic!("no vectors tell the memory of {other:?}"),
        }
    }
}
