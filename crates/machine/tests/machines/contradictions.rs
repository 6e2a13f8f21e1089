//! What contradicts itself is refused, with line and mend.

use std::path::Path;

use schedlab_machine::{CpuId, IdleState, Machine};

const PLAIN: &str = r#"name = "plain"
hz = 250

[cpu_groups]
cores = ["0,4", "1,5", "2,6", "3,7"]
clusters = ["0-1,4-5", "2-3,6-7"]
llcs = ["0-7"]
nodes = ["0-1,4-5", "2-3,6-7"]
packages = ["0-7"]

[numa]
distances = [
    [10, 20],
    [20, 10],
]

[smt]
throughput = [1.0, 1.25]
power = [1.0, 1.1]

[power]
package_active_mw = 10
package_idle = [{ state = "C6", mw = 5 }]

[cache]
core_ns = 8
cluster_ns = 20
llc_ns = 35

[kernel_paths]
tick_ns = 1000

[[cpu_type]]
name = "big"
cpus = "0-1,4-5"
capacity = 1024
opps = [
    { khz = 1_000_000, power_mw = 100 },
    { khz = 2_000_000, mv = 900, power_mw = 300 },
]
idle_states = [
    { name = "C1", exit_latency_us = 2, target_residency_us = 2, power_mw = 50 },
    { name = "C6", exit_latency_us = 100, target_residency_us = 300, power_mw = 5 },
]

[[cpu_type]]
name = "little"
cpus = "2-3,6-7"
capacity = 512
frequency_domains = "core"
opps = [{ khz = 1_000_000, power_mw = 50 }]
idle_states = [
    { name = "C1", exit_latency_us = 2, target_residency_us = 2, power_mw = 5 },
]
"#;

/// The error for `PLAIN` with the first `from` replaced, without its place, and the line that the
/// place names.
fn refused(from: &str, to: &str) -> (String, String) {
    assert!(PLAIN.contains(from), "{from}");
    let text = PLAIN.replacen(from, to, 1);
    let error = match Machine::parse(&text, Path::new("plain.toml")) {
        Ok(_) => panic!("accepted with {to:?}"),
        Err(error) => error.to_string(),
    };
    let rest = error.strip_prefix("plain.toml:").unwrap_or_else(|| panic!("no file in {error}"));
    let (line, what) = rest.split_once(": ").unwrap();
    let line = line.parse::<usize>().unwrap();
    assert!(error.lines().count() <= 2, "{error}");
    (text.lines().nth(line - 1).unwrap_or_default().to_owned(), what.to_owned())
}

#[track_caller]
fn check(from: &str, to: &str, place: &str, what: &str) {
    let (line, message) = refused(from, to);
    assert!(message.contains(what), "{message}");
    assert!(line.contains(place), "{message}: at {line:?}");
}

#[test]
fn the_plain_machine_is_accepted() {
    let machine = Machine::parse(PLAIN, Path::new("plain.toml")).unwrap();
    assert_eq!(machine.cpu_count(), 8);
    assert_eq!(machine.capacity(CpuId(6)), 512);
    assert_eq!(machine.topology().cores().siblings(CpuId(6)).to_string(), "2,6");
    assert_eq!(machine.frequency_domains().len(), 3);
    assert_eq!(machine.frequency_domain_of(CpuId(7)), 2);
    assert_eq!(machine.busy_power_uw(CpuId(0), 1_500_000), 200_000);
    assert_eq!(machine.package_idle_power_uw(CpuId(0), 0), 10_000);
    assert_eq!(machine.package_idle_power_uw(CpuId(0), 1), 5_000);
}

const LITTLE_STATES: &str = r#"idle_states = [
    { name = "C1", exit_latency_us = 2, target_residency_us = 2, power_mw = 5 },
]
"#;

#[test]
fn an_intel_idle_table_is_named_in_place_of_states() {
    let named = "idle_table = \"skx\"\nidle_power_mw = { C1 = 3.5, C1E = 2, C6 = 0.5 }\n";
    let text = PLAIN.replace(LITTLE_STATES, named);
    let machine = Machine::parse(&text, Path::new("plain.toml")).unwrap();
    let row = |state: &IdleState| {
        (state.name.clone(), state.exit_latency_ns, state.target_residency_ns, state.power_uw)
    };
    let rows: Vec<_> = machine.idle_states(CpuId(2)).iter().map(row).collect();
    // A polling core draws 60 % of a busy one's 50 mW where the file does not say.
    let skx = [
        ("POLL", 0, 0, 30_000),
        ("C1", 2_000, 2_000, 3_500),
        ("C1E", 10_000, 20_000, 2_000),
        ("C6", 133_000, 600_000, 500),
    ];
    assert_eq!(
        rows,
        skx.map(|(name, exit, residency, power)| (name.to_owned(), exit, residency, power))
    );
    let written = machine.to_toml();
    assert_eq!(Machine::parse(&written, Path::new("written.toml")).unwrap(), machine);
    // By processor it is the same table.
    let text = text.replace("\"skx\"", "\"SKYLAKE_X\"");
    assert_eq!(Machine::parse(&text, Path::new("plain.toml")).unwrap(), machine);
}

#[test]
fn an_idle_table_is_known_and_alone() {
    let unknown = "idle_table = \"pentium\"\n";
    check(LITTLE_STATES, unknown, "idle_table", "pentium is not in intel_idle's list; write");
    check(LITTLE_STATES, unknown, "idle_table", "ivt, ivt_4s, ivt_8s, hsw, bdw, skl, skx, icx");
    check(LITTLE_STATES, "", "[[cpu_type]]", "cpu_type little has no idle states; write");
    let both = format!("idle_table = \"skx\"\n{LITTLE_STATES}");
    check(LITTLE_STATES, &both, "idle_table", "both idle_states and an idle_table; keep one");
    let powers = format!("idle_power_mw = {{ C1 = 1 }}\n{LITTLE_STATES}");
    check(LITTLE_STATES, &powers, "idle_power_mw", "goes with an idle_table; write power_mw");
    let table = |powers: &str| format!("idle_table = \"skx\"\nidle_power_mw = {powers}\n");
    let what = "idle_table skx has no state C7; it has POLL, C1, C1E, C6";
    check(LITTLE_STATES, &table("{ C7 = 1 }"), "idle_power_mw", what);
    let what = "C6 draws 9 mW and C1E, which is shallower, 2.4 mW";
    check(LITTLE_STATES, &table("{ C6 = 9 }"), "idle_table", what);
}

#[test]
fn cpus_have_one_place() {
    check(
        r#""2-3,6-7"]
packages"#,
        r#""1-3,6-7"]
packages"#,
        "nodes =",
        "CPU 1 is in nodes[0] and in nodes[1]; take it out of one",
    );
    check(r#"cores = ["0,4", "#, r#"cores = ["0,4", "4", "#, "cores", "CPU 4 is in cores[0]");
    check(r#""3,7"]"#, r#""3"]"#, "cores", "CPU 7 is in none of the cores");
    check(r#"llcs = ["0-7"]"#, r#"llcs = ["0-8"]"#, "llcs", "CPU 8, which is in no package");
    check(
        r#"packages = ["0-7"]"#,
        r#"packages = ["0-7,9"]"#,
        "[cpu_groups]",
        "CPU 8 is in no package",
    );
    check(r#"packages = ["0-7"]"#, "packages = []", "[cpu_groups]", "no CPU");
    check(r#"packages = ["0-7"]"#, r#"packages = ["0-9999"]"#, "packages", "beyond the 2048 CPUs");
    check(r#"llcs = ["0-7"]"#, r#"llcs = ["0-7", ""]"#, "llcs", "empty list");
    check(r#"llcs = ["0-7"]"#, r#"llcs = ["0;7"]"#, "llcs", "no CPU list");
}

#[test]
fn levels_nest() {
    check(
        r#"["0-1,4-5", "2-3,6-7"]
llcs"#,
        r#"["0-2,4-5", "3,6-7"]
llcs"#,
        "cores",
        "cores[2] is cut by the borders of clusters",
    );
    check(
        r#"llcs = ["0-7"]"#,
        r#"llcs = ["0,4", "1-3,5-7"]"#,
        "clusters",
        "is cut by the borders of llcs",
    );
}

#[test]
fn regular_machines_have_counts_that_multiply() {
    let groups = &PLAIN[PLAIN.find("[cpu_groups]").unwrap()..PLAIN.find("[numa]").unwrap()];
    let topology =
        |body: &str, what: &str| check(groups, &format!("[topology]\n{body}\n"), "", what);
    topology("packages = 0\ncores_per_llc = 4", "no CPU or to more than 2048");
    topology("packages = 65536\ncores_per_llc = 65536", "no CPU or to more than 2048");
    topology("packages = 2049\ncores_per_llc = 1", "no CPU or to more than 2048");
    topology("packages = 2", "lacks cores_per_llc");
    topology("clusters_per_llc = 2\ncores_per_llc = 2", "cores_per_cluster");
    topology("cores_per_llc = 8\nnumbering = \"odd\"", "write threads-adjacent");
    check(groups, "", "name", "write a [topology] or a [cpu_groups] table");
    check(
        "[cpu_groups]",
        "[topology]\ncores_per_llc = 8\n[cpu_groups]",
        "[cpu_groups]",
        "keep one",
    );
}

#[test]
fn distances_are_a_metric_of_sorts() {
    check("[20, 10]", "[21, 10]", "[21, 10]", "write asymmetric_distances = true");
    check("[20, 10]", "[20, 11]", "[20, 11]", "node 1 is 11 from itself");
    check("[10, 20]", "[10, 9]", "[10, 9]", "write 10 to 254");
    check("[20, 10]", "[20]", "[20]", "node 1 has 1 distances; write 2");
    check("    [20, 10],\n", "", "distances", "1 rows of distances for 2 NUMA nodes");
    let text = PLAIN.replacen("[20, 10]", "[21, 10]", 1).replacen(
        "[numa]",
        "[numa]\nasymmetric_distances = true",
        1,
    );
    let machine = Machine::parse(&text, Path::new("plain.toml")).unwrap();
    assert_eq!([machine.node_distance(0, 1), machine.node_distance(1, 0)], [20, 21]);
    let numa = &PLAIN[PLAIN.find("[numa]").unwrap()..PLAIN.find("[smt]").unwrap()];
    check(numa, "", "name", "write numa.distances, 2 rows of 2");
}

#[test]
fn idle_states_deepen() {
    check(
        "target_residency_us = 300",
        "target_residency_us = 99",
        "C6",
        "below the exit latency of 100 us",
    );
    check(
        "exit_latency_us = 2, target_residency_us = 2, power_mw = 50",
        "exit_latency_us = 2, target_residency_us = 301, power_mw = 50",
        "C6",
        "C6 has a shorter target residency than C1",
    );
    check(
        "exit_latency_us = 2, target_residency_us = 2, power_mw = 50",
        "exit_latency_us = 101, target_residency_us = 200, power_mw = 50",
        "C6",
        "C6 has a shorter exit latency than C1",
    );
    check(
        "target_residency_us = 300, power_mw = 5",
        "target_residency_us = 300, power_mw = 51",
        "C6",
        "C6 draws more than C1",
    );
    check(
        "target_residency_us = 300, ",
        "target_residency_us = 300, polling = true, ",
        "C6",
        "only the first state may",
    );
    check(r#"{ name = "C6""#, r#"{ name = "C1""#, "C1", "names are unique");
    check("exit_latency_us = 100", "exit_latency_us = -1", "-1", "negative or beyond belief");
    check("exit_latency_us = 100", "exit_latency_us = nan", "nan", "negative or beyond belief");
    check("exit_latency_us = 100", "exit_latency_us = 1e300", "1e300", "negative or beyond belief");
    let told = PLAIN.replacen(
        "target_residency_us = 300",
        "residency_below_latency = true, target_residency_us = 99",
        1,
    );
    assert!(Machine::parse(&told, Path::new("plain.toml")).is_ok());
}

#[test]
fn operating_points_ascend() {
    check("khz = 2_000_000", "khz = 1_000_000", "mv = 900", "list operating points slow first");
    check("power_mw = 300", "power_mw = 99", "mv = 900", "draws less than");
    check(
        "khz = 1_000_000, power_mw = 100",
        "khz = 0, power_mw = 100",
        "khz = 0",
        "an operating point of 0 kHz",
    );
    check(
        "opps = [{ khz = 1_000_000, power_mw = 50 }]",
        "opps = []",
        "opps = []",
        "no operating point",
    );
    check("mv = 900", "mv = 1e7", "mv = 1e7", "voltage is too high");
}

#[test]
fn types_cover_the_cpus_once() {
    check(r#"cpus = "2-3,6-7""#, r#"cpus = "1-3,6-7""#, "cpus", "CPU 1 is of two types");
    check(r#"cpus = "2-3,6-7""#, r#"cpus = "2-3,6""#, "[[cpu_type]]", "CPU 7 is of no type");
    check(r#"cpus = "2-3,6-7""#, r#"cpus = "2-3,6-8""#, "cpus", "the machine has 0 to 7");
    check(r#"cpus = "2-3,6-7""#, r#"cpus = """#, "cpus", "has no CPU");
    check("cpus = \"2-3,6-7\"\n", "", "[[cpu_type]]", "cpu_type little lacks cpus");
    check("capacity = 512", "capacity = 1025", "capacity", "1 to 1024");
    check("capacity = 1024", "capacity = 1000", "[[cpu_type]]", "no type has capacity 1024");
    check(r#"name = "little""#, r#"name = "big""#, "[[cpu_type]]", "names are unique");
    let mixed = PLAIN.replacen(r#"cpus = "0-1,4-5""#, r#"cpus = "0-1,4""#, 1).replacen(
        r#"cpus = "2-3,6-7""#,
        r#"cpus = "2-3,5-7""#,
        1,
    );
    let error = Machine::parse(&mixed, Path::new("plain.toml")).unwrap_err().to_string();
    assert!(error.contains("the core of CPUs 1,5 has threads of two types"), "{error}");
}

#[test]
fn frequency_domains_cover_their_type_once() {
    let domains = |value: &str, what: &str| {
        check(
            "frequency_domains = \"core\"",
            &format!("frequency_domains = {value}"),
            "frequency_domains",
            what,
        )
    };
    domains("\"socket\"", "write type, package, node, llc, cluster, core, cpu");
    domains("[\"2,6\"]", "CPU 3 is in no frequency domain");
    domains("[\"2,6\", \"3,6-7\"]", "CPU 6 is in two frequency domains");
    domains("[\"0,2,6\", \"3,7\"]", "CPU 0 is not of type little");
    domains("3", "a level of the CPU tree or an array of CPU lists");
}

#[test]
fn smt_curves_rise() {
    check(
        "throughput = [1.0, 1.25]",
        "throughput = [1.0, 0.9]",
        "throughput",
        "falls as threads are added",
    );
    check("throughput = [1.0, 1.25]", "throughput = [1.25, 1.25]", "throughput", "starts with 1.0");
    check("throughput = [1.0, 1.25]", "throughput = [1.0]", "throughput", "cores have 2 threads");
    check("throughput = [1.0, 1.25]", "throughput = [1.0, 2.1]", "throughput", "rises above");
    check("power = [1.0, 1.1]", "power = [1.0, 0.5]", "power", "falls");
    let smt = &PLAIN[PLAIN.find("[smt]").unwrap()..PLAIN.find("[power]").unwrap()];
    check(smt, "", "name", "write smt.throughput");
}

#[test]
fn an_instruction_stream_is_shared_by_virtual_cpus_alone() {
    let shared = "hz = 250\nshared_instruction_stream = true\n";
    check("hz = 250\n", shared, "shared_instruction_stream", "smt.throughput is 1.0, 2.0");
    let big_little = PLAIN.replace("[1.0, 1.25]", "[1.0, 2.0]").replace("hz = 250\n", shared);
    let error = Machine::parse(&big_little, Path::new("plain.toml")).unwrap_err().to_string();
    assert!(error.contains("of one type with one frequency"), "{error}");
    let alone =
        Machine::preset_text("qemu4").unwrap().replace("cores_per_llc = 4", "cores_per_llc = 1");
    let error = Machine::parse(&alone, Path::new("alone.toml")).unwrap_err().to_string();
    assert!(error.contains("with nobody"), "{error}");
    let machine = Machine::preset("qemu8").unwrap();
    assert!(machine.shared_instruction_stream());
    assert_eq!(Machine::parse(&machine.to_toml(), Path::new("written.toml")).unwrap(), machine);
}

#[test]
fn costs_and_powers_are_known_and_ordered() {
    check("llc_ns = 35", "l3_ns = 35", "l3_ns", "no cost is called `l3_ns`; there are core_ns");
    check("tick_ns = 1000", "tack_ns = 1000", "tack_ns", "no cost is called `tack_ns`");
    check("llc_ns = 35", "llc_ns = 5", "llc_ns", "although it is farther");
    check("core_ns = 8\n", "line_bytes = 48\n", "line_bytes", "a power of two");
    check(
        r#"state = "C6", mw = 5"#,
        r#"state = "C9", mw = 5"#,
        "C9",
        "no CPU has an idle state C9",
    );
    check(r#"state = "C6", mw = 5"#, r#"state = "C6", mw = 11"#, "mw = 11", "draws more");
    check(
        r#"[{ state = "C6", mw = 5 }]"#,
        r#"[{ state = "C6", mw = 5 }, { state = "C1", mw = 5 }]"#,
        "C1",
        "out of order",
    );
    check("hz = 250", "hz = 0", "hz", "100, 250, 300 or 1000");
}

#[test]
fn the_format_itself_is_checked() {
    check("hz = 250", "hz = 250\nturbo = true", "turbo", "unknown field `turbo`");
    check("capacity = 512", "capacity = \"512\"", "capacity", "invalid type");
    check("capacity = 512", "capacity = ", "capacity", "");
    check("hz = 250", "hz = 250\nhz = 250", "hz", "duplicate key");
}
