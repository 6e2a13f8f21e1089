//! Damaged input is an error and nothing worse; what loads survives saving.

use std::path::Path;

use proptest::prelude::*;
use schedlab_machine::import::{ImportOptions, import_bytes};
use schedlab_machine::{CpuId, Machine, Numbering, Proximity, Regular};

const SAMPLES: &[&str] = &[
    include_str!("../../../../tests/data/machines/hwloc1-synthetic.xml"),
    include_str!("../../../../tests/data/machines/hwloc2-vm-no-io.xml"),
    include_str!("../../../../tests/data/machines/lisa-juno.yml"),
    include_str!("../../../../tests/data/machines/lisa-juno-r0.yml"),
    include_str!("../../../../tests/data/machines/lscpu-vm.json"),
];

/// Numbers that break arithmetic, and fragments of syntax.
const POISON: &[&str] = &[
    "0",
    "-1",
    "18446744073709551615",
    "4294967296",
    "1e309",
    "nan",
    "0-4095",
    "\"",
    "[",
    "{",
    "]",
    "\n",
    "= ",
    "<",
    ":",
    "\u{fffd}",
    "99999999999999999999",
];

/// A text with a stretch cut out and something else put in its place, thrice.
fn damage(text: &str, wounds: &[(prop::sample::Index, usize, usize)]) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    for (place, length, poison) in wounds {
        let start = place.index(letters.len().max(1)).min(letters.len());
        let end = (start + length).min(letters.len());
        letters.splice(start..end, POISON[poison % POISON.len()].chars());
    }
    letters.into_iter().collect()
}

fn wounds() -> impl Strategy<Value = Vec<(prop::sample::Index, usize, usize)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 0..12_usize, any::<usize>()), 1..4)
}

fn numberings() -> impl Strategy<Value = Numbering> {
    prop::sample::select(Numbering::ALL.map(|(numbering, _)| numbering).to_vec())
}

fn survives_saving(machine: &Machine) -> Result<(), TestCaseError> {
    let text = machine.to_toml();
    let again = Machine::parse(&text, Path::new("again"));
    match again {
        Ok(again) => prop_assert_eq!(&again, machine),
        Err(error) => prop_assert!(false, "{error}\n{text}"),
    }
    Ok(())
}

proptest! {
    #[test]
    fn damaged_machines_load_or_are_refused(preset in any::<prop::sample::Index>(), wounds in wounds()) {
        let names: Vec<&str> = Machine::preset_names().collect();
        let text = Machine::preset_text(names[preset.index(names.len())]).unwrap();
        match Machine::parse(&damage(text, &wounds), Path::new("x")) {
            Ok(machine) => survives_saving(&machine)?,
            Err(error) => prop_assert!(error.to_string().starts_with("x:")),
        }
    }

    #[test]
    fn damaged_descriptions_import_or_are_refused(sample in 0..SAMPLES.len(), wounds in wounds()) {
        let text = damage(SAMPLES[sample], &wounds);
        match import_bytes(text.as_bytes(), Path::new("x"), &ImportOptions::default()) {
            Ok(imported) => survives_saving(&imported.machine)?,
            Err(error) => prop_assert!(error.to_string().starts_with('x')),
        }
    }

    #[test]
    fn any_text_is_refused_or_a_machine(text in "\\PC{0,200}") {
        let _ = Machine::parse(&text, Path::new("x"));
        let _ = import_bytes(text.as_bytes(), Path::new("x"), &ImportOptions::default());
    }

    #[test]
    fn regular_trees_are_recognised(
        packages in 1..5_u32, nodes in 1..4_u32, llcs in 1..3_u32,
        clusters in prop::option::of(1..4_u32), cores in 1..5_u32, threads in 1..5_u32,
        numbering in numberings(),
    ) {
        let regular = Regular {
            packages, nodes_per_package: nodes, llcs_per_node: llcs, clusters_per_llc: clusters,
            cores_per_group: cores, threads_per_core: threads, numbering,
        };
        let topology = regular.build().unwrap();
        prop_assert_eq!(Some(topology.cpu_count()), regular.cpu_count());
        // Two numberings may give one tree, so it is the tree that must come back.
        let recognised = Regular::recognise(&topology).unwrap();
        let rebuilt = recognised.build().unwrap();
        prop_assert_eq!(&rebuilt, &topology);
        for cpu in topology.cpus() {
            prop_assert_eq!(topology.proximity(cpu, cpu), Proximity::Cpu);
            let core = topology.cores().siblings(cpu);
            prop_assert_eq!(core.weight(), threads as usize);
            prop_assert_eq!(core.iter().nth(topology.thread_of(cpu)), Some(cpu));
            let first = CpuId(0);
            prop_assert_eq!(topology.proximity(cpu, first), topology.proximity(first, cpu));
            let same = topology.packages().of(cpu) == topology.packages().of(first);
            prop_assert_eq!(topology.proximity(cpu, first) == Proximity::Machine, !same);
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    let deep = [
        format!("x = {}", "[".repeat(100_000)),
        format!("{{\"lscpu\": {}", "[".repeat(100_000)),
        format!("<topology>{}", "<object type=\"Machine\">".repeat(100_000)),
        format!("platform-info: {}", "[".repeat(100_000)),
    ];
    for text in deep {
        assert!(Machine::parse(&text, Path::new("x")).is_err());
        assert!(import_bytes(text.as_bytes(), Path::new("x"), &ImportOptions::default()).is_err());
    }
}
