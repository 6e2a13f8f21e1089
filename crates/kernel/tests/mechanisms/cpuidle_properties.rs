//! What holds of every idle governor, whatever it is fed.

use proptest::prelude::*;
use schedlab_kernel::cpuidle::{
    AnyGovernor, FixedHardware, Governor, GovernorKind, STATES_MAX, State,
};

/// What happens after a choice.
#[derive(Clone, Debug)]
enum Outcome {
    Rejected,
    /// Entered: the state that was chosen or, as a driver may decide, another one.
    Slept {
        demoted_to: Option<usize>,
        residency_ns: i64,
    },
}

/// Times of every order of magnitude, and the ends of their type.
fn time_ns() -> impl Strategy<Value = i64> {
    prop_oneof![
        6 => (0..40u32, any::<u64>()).prop_map(|(bits, random)| (random & ((1 << bits) - 1)) as i64),
        1 => prop_oneof![Just(0), Just(-1), Just(i64::MIN), Just(i64::MAX)],
        1 => any::<i64>(),
    ]
}

fn state() -> impl Strategy<Value = State> {
    (time_ns(), time_ns(), any::<bool>(), any::<bool>()).prop_map(
        |(latency, residency, polling, disabled)| State {
            exit_latency_ns: latency as u64,
            target_residency_ns: residency as u64,
            polling,
            disabled,
        },
    )
}

prop_compose! {
    fn hardware()(
        now in time_ns(), sleep_ns in time_ns(), delta_next_ns in time_ns(),
        latency_req_ns in time_ns(), flags in any::<[bool; 3]>(), nr_iowait in any::<u32>(),
        cpu_util in 0..=2048u64,
    ) -> FixedHardware {
        FixedHardware {
            now_ns: now as u64, sleep_ns, delta_next_ns, latency_req_ns,
            tick_stopped: flags[0], got_tick: flags[1], poll_time_limit: flags[2],
            nr_iowait, cpu_util,
        }
    }
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let index = proptest::option::weighted(0.2, 0..14usize);
    prop_oneof![
        1 => Just(Outcome::Rejected),
        9 => (index, time_ns())
            .prop_map(|(demoted_to, residency_ns)| Outcome::Slept { demoted_to, residency_ns }),
    ]
}

fn kind() -> impl Strategy<Value = GovernorKind> {
    proptest::sample::select(GovernorKind::ALL.to_vec())
}

/// These look at which states are enabled; the others may choose a disabled one, as the kernel's do.
fn heeds_disabled(kind: GovernorKind) -> bool {
    use GovernorKind as Kind;
    !matches!(kind, Kind::Ladder6_1 | Kind::Ladder6_12 | Kind::Haltpoll6_1 | Kind::Haltpoll6_12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_input_is_answered_with_a_state_that_exists(
        kind in kind(),
        tick in time_ns(),
        capacity in 0..=1024u64,
        states in prop::collection::vec(state(), 0..13),
        periods in prop::collection::vec((hardware(), outcome()), 1..40),
    ) {
        let mut governor = AnyGovernor::new(kind, tick as u64, capacity);
        for (mut hardware, outcome) in periods {
            let choice = governor.select(&states, &mut hardware);
            prop_assert!(choice.index < states.len().clamp(1, STATES_MAX));
            if heeds_disabled(kind) && choice.index > 0 {
                prop_assert!(!states[choice.index].disabled);
            }
            match outcome {
                Outcome::Rejected => governor.reject(),
                Outcome::Slept { demoted_to, residency_ns } => {
                    let entered = demoted_to.unwrap_or(choice.index);
                    governor.reflect(&states, entered, residency_ns, &mut hardware);
                }
            }
        }
        prop_assert!(!governor.explain(states.len()).is_empty());
    }

    #[test]
    fn a_copy_goes_on_as_the_original_does(
        kind in kind(),
        states in prop::collection::vec(state(), 2..6),
        before in prop::collection::vec(hardware(), 1..20),
        after in prop::collection::vec(hardware(), 1..20),
    ) {
        let mut original = AnyGovernor::new(kind, 4_000_000, 1024);
        let live = |governor: &mut AnyGovernor, inputs: &[FixedHardware]| {
            let mut choices = Vec::new();
            for mut hardware in inputs.iter().copied() {
                let choice = governor.select(&states, &mut hardware);
                governor.reflect(&states, choice.index, hardware.sleep_ns / 2, &mut hardware);
                choices.push(choice);
            }
            choices
        };
        live(&mut original, &before);
        let mut copy = original.copy().expect("one of the kernel's own");
        prop_assert_eq!(live(&mut original, &after), live(&mut copy, &after));
        prop_assert_eq!(original.explain(9), copy.explain(9));
    }

    #[test]
    fn more_utilization_never_makes_a_fresh_governor_choose_deeper(
        kind in proptest::sample::select(vec![
            GovernorKind::TeoUtilV2, GovernorKind::TeoUtilV6, GovernorKind::Idleutil,
        ]),
        // Of two states, v6 takes one that does not poll even if it is the deeper one.
        states in prop::collection::vec(state(), 3..8),
        hardware in hardware(),
    ) {
        // A running tick could make the deeper choice shallower afterwards.
        let choose = |cpu_util| {
            let mut hardware = FixedHardware { cpu_util, tick_stopped: true, ..hardware };
            AnyGovernor::new(kind, 4_000_000, 1024).select(&states, &mut hardware).index
        };
        prop_assert!(choose(17) <= choose(16));
    }
}
