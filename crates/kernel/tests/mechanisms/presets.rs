//! Kernel files: what the built-in ones say, and how wrong ones are refused.

use schedlab_kernel::fair::queue::FairRules;
use schedlab_kernel::preset::Kernel;

fn refusal(text: &str) -> String {
    match Kernel::from_toml("k.toml", text) {
        Ok(kernel) => panic!("{} loads", kernel.name),
        Err(error) => error.to_string(),
    }
}

fn text(name: &str) -> &'static str {
    Kernel::preset_text(name).expect("a built-in kernel")
}

#[test]
fn every_preset_loads_and_bears_its_name() {
    for name in Kernel::preset_names() {
        match Kernel::from_toml(name, text(name)) {
            Ok(kernel) => assert_eq!(kernel.name, name),
            Err(error) => panic!("{error}"),
        }
    }
}

/// `/sys/kernel/debug/sched/base_slice_ns` of the recorded machines with 4 and 8 CPUs.
#[test]
fn slices_scale_with_the_number_of_cpus_as_in_a_real_kernel() {
    let slice = |cpus| match Kernel::preset("v6.12").expect("a preset").config(cpus).fair {
        FairRules::Eevdf(tunables) => tunables.base_slice_ns,
        FairRules::Cfs(_) => 0,
    };
    assert_eq!(
        [slice(1), slice(4), slice(8), slice(480)],
        [700_000, 2_100_000, 2_800_000, 2_800_000]
    );
    let FairRules::Cfs(cfs) = Kernel::preset("v6.1").expect("a preset").config(16).fair else {
        panic!("v6.1 picks by CFS");
    };
    let scaled = [cfs.latency_ns, cfs.min_granularity_ns, cfs.wakeup_granularity_ns];
    assert_eq!(scaled, [24_000_000, 3_000_000, 4_000_000]);
    assert_eq!(cfs.idle_min_granularity_ns, 750_000);
}

#[test]
fn v5_9_differs_from_v5_7_in_the_tie_break_alone() {
    let settings = |name| Kernel::preset(name).expect("a preset").settings(None);
    let pairs = settings("v5.7").into_iter().zip(settings("v5.9"));
    let different: Vec<_> = pairs.filter(|(old, new)| old != new).collect();
    assert_eq!(different.len(), 1);
    assert_eq!(different[0].0, ("placement.idlest_tie", "first".to_owned()));
    assert_eq!(different[0].1, ("placement.idlest_tie", "group-util".to_owned()));
}

/// A setting that `show` does not print is one that nobody can compare.
#[test]
fn settings_name_every_key_of_the_file() {
    for name in Kernel::preset_names() {
        let settings = Kernel::preset(name).expect("a preset").settings(None);
        let mut table = String::new();
        for line in text(name).lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if let Some(inner) = line.strip_prefix('[') {
                table = inner.trim_end_matches(']').to_owned() + ".";
            } else if let Some((key, value)) = line.split_once('=').filter(|_| !table.is_empty()) {
                let key = format!("{table}{}", key.trim());
                let shown = settings.iter().find(|(shown, _)| *shown == key);
                let value = value.trim().trim_matches('"').replace('_', "");
                let shown = shown.unwrap_or_else(|| panic!("{name}: {key} is not shown"));
                assert_eq!(shown.1.replace('_', ""), value, "{name}: {key}");
            }
        }
    }
}

#[test]
fn what_is_not_modelled_is_refused_by_name() {
    for (key, noun) in [
        ("task_groups", "task groups"),
        ("uclamp", "utilisation clamps"),
        ("numa_balancing", "automatic NUMA balancing"),
        ("eas", "energy-aware placement"),
        ("deadline", "deadline tasks"),
        ("sched_ext", "sched_ext"),
    ] {
        let message = refusal(&format!("{key} = false\n{}", text("v6.12")));
        assert!(message.starts_with("k.toml:1: "), "{message}");
        assert!(message.contains(noun) && message.ends_with("remove it"), "{message}");
    }
    let nested = text("v6.12").replace("[wake]", "[wake]\neas = true");
    assert!(refusal(&nested).contains("energy-aware placement"));
}

#[test]
fn a_wrong_value_is_told_with_its_line_and_the_mend() {
    let edit = |from, to| {
        let edited = text("v6.12").replace(from, to);
        assert_ne!(edited, text("v6.12"), "{from}");
        refusal(&edited)
    };
    let line = |part: &str| {
        let place = text("v6.12").lines().position(|line| line.starts_with(part));
        format!("k.toml:{}: ", place.expect("a line") + 1)
    };
    let message = edit("\"group-util\"", "\"groop-util\"");
    assert!(message.starts_with(&line("idlest_tie")), "{message}");
    assert!(message.contains("`first` or `group-util`"), "{message}");
    let message = edit("hz = 250", "hz = 0");
    assert!(message.starts_with(&line("hz")), "{message}");
    let message = edit("search = ", "sarch = ");
    assert!(message.starts_with(&line("search")) && message.contains("sarch"), "{message}");
    let message = edit("\"menu-6.12\"", "\"menu-7\"");
    assert!(message.contains("no idle governor is called `menu-7`"), "{message}");
    let message = edit("base_slice_ns = 700_000", "base_slice_ns = 0");
    assert!(message.contains("base_slice_ns is 0; it must be 1 ns to 10 s"), "{message}");
    assert!(edit("imbalance_pct = 117", "imbalance_pct = 90").contains("100 to 200"));
    assert!(edit("[fair.eevdf]", "[fair.lottery]").contains("expected `cfs` or `eevdf`"));
    assert!(refusal("").contains("missing field `name`"));
    assert!(refusal("name = ").starts_with("k.toml:1: "));
}
