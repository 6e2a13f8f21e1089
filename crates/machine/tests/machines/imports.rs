//! What other tools tell of machines, read back from the file that the import writes.

use std::fs;
use std::path::{Path, PathBuf};

use schedlab_machine::import::{ImportOptions, import_bytes, import_file, import_sysfs};
use schedlab_machine::{CpuId, Machine};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/machines").join(name)
}

fn imported(name: &str) -> Machine {
    import_file(&sample(name), &ImportOptions::default()).unwrap().machine
}

fn from_text(text: &str) -> Result<Machine, String> {
    import_bytes(text.as_bytes(), Path::new("text"), &ImportOptions::default())
        .map(|imported| imported.machine)
        .map_err(|error| error.to_string())
}

fn groups(level: &schedlab_machine::Level) -> Vec<String> {
    level.groups().iter().map(ToString::to_string).collect()
}

#[test]
fn hwloc_1_and_2() {
    let old = imported("hwloc1-synthetic.xml");
    let topology = old.topology();
    assert_eq!(groups(topology.packages()), ["0-3,8-11", "4-7,12-15"]);
    assert_eq!(topology.cores().siblings(CpuId(13)).to_string(), "5,13");
    assert!(topology.clusters().is_none());
    let new = imported("hwloc2-synthetic.xml");
    assert_eq!(groups(new.topology().clusters().unwrap()), ["0-3", "4-7", "8-11", "12-15"]);
    assert_eq!(groups(new.topology().nodes()), ["0-7", "8-15"]);
    let bare = imported("hwloc2-vm-no-io.xml");
    assert_eq!((bare.name(), bare.cpu_count()), ("vm", 2));
}

#[test]
fn hwloc_distances_of_both_versions() {
    let nodes = r#"
        <object type="Package" os_index="0" cpuset="0x1"><object type="NUMANode" os_index="0" cpuset="0x1"/>
          <object type="PU" os_index="0" cpuset="0x1"/></object>
        <object type="Package" os_index="1" cpuset="0x2"><object type="NUMANode" os_index="2" cpuset="0x2"/>
          <object type="PU" os_index="1" cpuset="0x2"/></object>
        <object type="NUMANode" os_index="1" cpuset="0x0"/>"#;
    let two = r#"<distances2 type="NUMANode" nbobjs="3" kind="5" indexing="os">
        <indexes length="5">0 1 2</indexes><u64values length="20">10 17 21 17 10 28 21 28 10</u64values></distances2>"#;
    let machine = from_text(&format!(
        "<topology version=\"2.0\"><object type=\"Machine\">{nodes}</object>{two}</topology>"
    ))
    .unwrap();
    assert_eq!([machine.node_distance(0, 1), machine.node_distance(1, 0)], [21, 21]);
    let one = r#"<distances nbobjs="2" relative_depth="1" latency_base="10.000000">
        <latency value="1.0"/><latency value="2.1"/><latency value="2.1"/><latency value="1.0"/></distances>"#;
    let machine =
        from_text(&format!("<topology><object type=\"Machine\">{one}{nodes}</object></topology>"))
            .unwrap();
    assert_eq!(machine.node_distance(0, 1), 21);
}

#[test]
fn hwloc_hybrid_kinds() {
    let machine = from_text(
        r#"<topology><object type="Machine"><object type="Package" cpuset="0x7">
        <object type="PU" os_index="0"/><object type="PU" os_index="1"/><object type="PU" os_index="2"/></object></object>
        <cpukind cpuset="0x00000003"><info name="LinuxCapacity" value="446"/><info name="FrequencyMaxMHz" value="850"/></cpukind>
        <cpukind cpuset="0x00000004"><info name="LinuxCapacity" value="1024"/></cpukind></topology>"#,
    )
    .unwrap();
    assert_eq!(machine.cpu_types().len(), 2);
    assert_eq!((machine.capacity(CpuId(1)), machine.max_khz(CpuId(1))), (446, 850_000));
    assert_eq!(machine.capacity(CpuId(2)), 1024);
}

#[test]
fn hwloc_contradictions() {
    let error = from_text(
        r#"<topology><object type="Machine"><object type="PU" os_index="0"/><object type="PU" os_index="1"/>
        <object type="Package" cpuset="0x3"/><object type="Package" cpuset="0x2"/></object></topology>"#,
    )
    .unwrap_err();
    assert_eq!(error, "text: CPU 1 is in two packages; correct the source");
    assert!(
        from_text("<topology><object type=\"PU\" os_index=\"9999\"/></topology>")
            .unwrap_err()
            .contains("line 1")
    );
    assert!(from_text("<topology></topology>").unwrap_err().contains("no CPU"));
    assert!(from_text("<html></html>").unwrap_err().contains("not hwloc's"));
    assert!(from_text("<topology>").is_err());
}

#[test]
fn lisa_old_and_new() {
    let old = imported("lisa-juno.yml");
    let capacities: Vec<u32> = old.cpu_ids().map(|cpu| old.capacity(cpu)).collect();
    assert_eq!(capacities, [446, 1024, 1024, 446, 446, 446]);
    assert_eq!(old.busy_power_uw(CpuId(0), 850_000), 119_000);
    assert_eq!(old.busy_power_uw(CpuId(1), 1_100_000), 583_000);
    assert_eq!(old.opps(CpuId(1)).len(), 5);
    let names: Vec<&str> =
        old.idle_states(CpuId(0)).iter().map(|state| state.name.as_str()).collect();
    assert_eq!(names, ["WFI", "cpu-sleep-0", "cluster-sleep-0"]);
    let new = imported("lisa-juno-r0.yml");
    assert_eq!((new.name(), new.hz()), ("juno-r0", 250));
    assert_eq!(new.max_khz(CpuId(0)), 850_000);
    assert_eq!(new.frequency_domains().len(), 2);
    assert_eq!(new.frequency_domains()[0].cpus.to_string(), "0,3-5");
}

#[test]
fn lscpu_summary_chooses_the_numbering_that_fits_the_nodes() {
    let lscpu = |threads: u32, nodes: &[&str]| {
        let mut fields = vec![
            ("Architecture:", "x86_64".to_owned()),
            ("CPU(s):", "16".to_owned()),
            ("On-line CPU(s) list:", "0-15".to_owned()),
            ("Vendor ID:", "GenuineIntel".to_owned()),
            ("Model name:", "Intel(R) Xeon(R) CPU X5570 @ 2.93GHz".to_owned()),
            ("CPU family:", "6".to_owned()),
            ("Model:", "26".to_owned()),
            ("Thread(s) per core:", threads.to_string()),
            ("Socket(s):", "2".to_owned()),
            ("NUMA node(s):", nodes.len().to_string()),
        ];
        let names: Vec<String> =
            (0..nodes.len()).map(|node| format!("NUMA node{node} CPU(s):")).collect();
        fields.extend(
            names.iter().map(String::as_str).zip(nodes.iter().map(|list| (*list).to_owned())),
        );
        let rows: Vec<String> = fields
            .iter()
            .map(|(field, data)| format!("{{\"field\": \"{field}\", \"data\": \"{data}\"}}"))
            .collect();
        from_text(&format!("{{\"lscpu\": [{}]}}", rows.join(","))).unwrap()
    };
    let last = lscpu(2, &["0-3,8-11", "4-7,12-15"]);
    assert_eq!(last.topology().cores().siblings(CpuId(0)).to_string(), "0,8");
    assert_eq!(groups(last.topology().packages()), ["0-3,8-11", "4-7,12-15"]);
    let interleaved = lscpu(2, &["0,2,4,6,8,10,12,14", "1,3,5,7,9,11,13,15"]);
    assert_eq!(interleaved.topology().cores().siblings(CpuId(1)).to_string(), "1,9");
    let adjacent = lscpu(2, &["0-7", "8-15"]);
    assert_eq!(adjacent.topology().cores().siblings(CpuId(1)).to_string(), "0-1");
    let one_node = lscpu(2, &["0-15"]);
    assert_eq!(one_node.topology().packages().len(), 2);
    assert_eq!(one_node.topology().nodes().len(), 1);
    let odd = lscpu(2, &["0-2", "3-15"]);
    assert_eq!(groups(odd.topology().nodes()), ["0-2", "3-15"]);
    // 6/26 is Nehalem-EP, whose table comes with it.
    assert_eq!(last.idle_states(CpuId(0))[4].target_residency_ns, 800_000);
    assert_eq!(last.max_khz(CpuId(0)), 2_930_000);
}

#[test]
fn lscpu_table_and_its_offline_cpus() {
    let machine = from_text(
        r#"{"cpus": [
        {"cpu": 0, "node": 0, "socket": 0, "core": 0, "l1d:l1i:l2:l3": "0:0:0:0", "online": "yes", "maxmhz": "4000.0", "minmhz": "800.0"},
        {"cpu": 1, "node": 0, "socket": 0, "core": 0, "l1d:l1i:l2:l3": "0:0:0:0", "online": true},
        {"cpu": 2, "node": null, "socket": null, "core": null, "online": "no"},
        {"cpu": 3, "node": 0, "socket": 0, "core": 1, "l1d:l1i:l2:l3": "1:1:1:1", "online": "yes"}]}"#,
    )
    .unwrap();
    assert_eq!(machine.cpu_count(), 4);
    assert_eq!(groups(machine.topology().cores()), ["0-1", "2", "3"]);
    assert_eq!(machine.topology().llcs().of(CpuId(2)), 0, "taken for a neighbour of CPU 1");
    assert_eq!(machine.max_khz(CpuId(0)), 4_000_000);
}

/// A tree of files below a temporary directory.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn put(&self, path: &str, text: &str) -> &Self {
        let file = self.0.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{text}\n")).unwrap();
        self
    }
}

/// Two packages of two cores with two threads; CPU 7 is offline.
fn sysfs() -> Tree {
    let tree = Tree::new();
    for cpu in 0..7_u32 {
        let put = |name: &str, text: &str| {
            tree.put(&format!("sys/devices/system/cpu/cpu{cpu}/{name}"), text);
        };
        let package = cpu % 2;
        let core = match cpu {
            3 => "3".to_owned(),
            _ => format!("{},{}", cpu % 4, cpu % 4 + 4),
        };
        put("topology/core_cpus_list", &core);
        put("topology/package_cpus_list", if package == 0 { "0,2,4,6" } else { "1,3,5" });
        put("cache/index0/level", "1");
        put("cache/index0/type", "Data");
        put("cache/index0/shared_cpu_list", &core);
        put("cache/index3/level", "3");
        put("cache/index3/type", "Unified");
        put("cache/index3/coherency_line_size", "128");
        put("cache/index3/shared_cpu_list", if package == 0 { "0,2,4,6" } else { "1,3,5" });
        for (index, (name, latency, residency, power)) in
            [("POLL", 0, 0, 0), ("C1", 3, 6, 4_294_967_295_u32), ("C6", 200, 800, 0)]
                .into_iter()
                .enumerate()
        {
            put(&format!("cpuidle/state{index}/name"), name);
            put(&format!("cpuidle/state{index}/latency"), &latency.to_string());
            put(&format!("cpuidle/state{index}/residency"), &residency.to_string());
            put(&format!("cpuidle/state{index}/power"), &power.to_string());
            put(&format!("cpuidle/state{index}/disable"), if name == "C6" { "1" } else { "0" });
        }
    }
    tree.put("sys/devices/system/cpu/cpufreq/policy0/related_cpus", "0 2 4 6")
        .put("sys/devices/system/cpu/cpufreq/policy0/scaling_available_frequencies", "2000000 1000000")
        .put("sys/devices/system/cpu/cpufreq/policy0/cpuinfo_transition_latency", "10000")
        .put("sys/devices/system/cpu/cpufreq/policy1/related_cpus", "1 3 5")
        .put("sys/devices/system/cpu/cpufreq/policy1/cpuinfo_min_freq", "800000")
        .put("sys/devices/system/cpu/cpufreq/policy1/cpuinfo_max_freq", "2000000")
        .put("sys/devices/system/node/node0/cpulist", "0,2,4,6")
        .put("sys/devices/system/node/node0/distance", "10 17 21")
        .put("sys/devices/system/node/node1/cpulist", "")
        .put("sys/devices/system/node/node1/distance", "17 10 28")
        .put("sys/devices/system/node/node2/cpulist", "1,3,5")
        .put("sys/devices/system/node/node2/distance", "21 28 10")
        .put("proc/sys/kernel/hostname", "twin")
        .put("proc/sys/kernel/osrelease", "6.12.0")
        .put("boot/config-6.12.0", "CONFIG_HZ_1000=y\nCONFIG_HZ=1000")
        .put("proc/cpuinfo", "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\nmodel name : A Xeon");
    tree
}

#[test]
fn a_copied_sys_tree() {
    let tree = sysfs();
    let imported = import_sysfs(tree.0.path(), &ImportOptions::default()).unwrap();
    let machine = &imported.machine;
    assert_eq!((machine.name(), machine.description(), machine.hz()), ("twin", "A Xeon", 1000));
    assert_eq!(machine.cpu_count(), 7, "CPU 7 was offline and is the last");
    assert_eq!(groups(machine.topology().packages()), ["0,2,4,6", "1,3,5"]);
    assert_eq!(machine.topology().cores().siblings(CpuId(6)).to_string(), "2,6");
    assert_eq!(machine.node_distance(0, 1), 21, "the node of memory alone is left out");
    assert_eq!(machine.cache_costs().line_bytes, 128);
    let states = machine.idle_states(CpuId(0));
    assert_eq!(states.len(), 3);
    assert!(states[0].polling && states[2].disabled && !states[1].disabled);
    assert_eq!(states[2].governor_exit_latency_ns, 200_000);
    assert_eq!(machine.opps(CpuId(0)).len(), 2);
    assert_eq!(machine.opps(CpuId(1)).len(), 5);
    assert_eq!(machine.cpu_type(CpuId(0)).transition_latency_ns, 10_000);
    assert!(imported.toml.contains("ESTIMATE"));
}

#[test]
fn sysfs_states_outrank_a_named_processor_and_its_table_fills_a_gap() {
    let tree = sysfs();
    let options = ImportOptions { cpu_model: Some("skl".into()), ..ImportOptions::default() };
    let own = import_sysfs(tree.0.path(), &options).unwrap();
    assert_eq!(own.machine.idle_states(CpuId(0)).len(), 3);
    assert!(own.toml.contains("preferred to those of --cpu-model"));
    for cpu in 0..7 {
        fs::remove_dir_all(tree.0.path().join(format!("sys/devices/system/cpu/cpu{cpu}/cpuidle")))
            .unwrap();
    }
    let filled = import_sysfs(tree.0.path(), &options).unwrap();
    assert_eq!(filled.machine.idle_states(CpuId(0)).len(), 9);
    let by_cpuinfo = import_sysfs(tree.0.path(), &ImportOptions::default()).unwrap();
    assert_eq!(
        by_cpuinfo.machine.idle_states(CpuId(0))[3].target_residency_ns,
        600_000,
        "6/85 is skx"
    );
    let unknown = ImportOptions { cpu_model: Some("z80".into()), ..ImportOptions::default() };
    let error = import_sysfs(tree.0.path(), &unknown).unwrap_err().to_string();
    assert!(error.contains("family/model as 6/85"), "{error}");
}

#[test]
fn an_energy_model_in_debugfs_gives_power() {
    let tree = sysfs();
    let domain = "sys/kernel/debug/energy_model/cpu0";
    tree.put(&format!("{domain}/cpus"), "0,2,4,6")
        .put(&format!("{domain}/ps:1000000/frequency"), "1000000")
        .put(&format!("{domain}/ps:1000000/power"), "250000")
        .put(&format!("{domain}/ps:2000000/frequency"), "2000000")
        .put(&format!("{domain}/ps:2000000/power"), "900000");
    let machine = import_sysfs(tree.0.path(), &ImportOptions::default()).unwrap().machine;
    assert_eq!(machine.busy_power_uw(CpuId(2), 2_000_000), 900_000);
}

#[test]
fn sysfs_contradictions() {
    let tree = sysfs();
    tree.put("sys/devices/system/cpu/cpu0/topology/package_cpus_list", "1,3,5");
    let error = import_sysfs(tree.0.path(), &ImportOptions::default()).unwrap_err().to_string();
    assert!(error.contains("CPU 0 is not in its own list"), "{error}");
    let tree = sysfs();
    tree.put("sys/devices/system/node/node2/cpulist", "0,1,3,5");
    let error = import_sysfs(tree.0.path(), &ImportOptions::default()).unwrap_err().to_string();
    assert!(error.ends_with("CPU 0 is in two nodes; correct the source"), "{error}");
    let empty = Tree::new();
    let error = import_sysfs(empty.0.path(), &ImportOptions::default()).unwrap_err().to_string();
    assert!(error.contains("copy /sys/devices/system"), "{error}");
}

#[test]
fn other_content_is_no_machine() {
    for text in ["", "hello", "{}", "{\"lscpu\": 3}", "[1]", "{\"lscpu\": []}", "{\"cpus\": []}"] {
        let error = from_text(text).unwrap_err();
        assert!(error.starts_with("text: ") && error.lines().count() <= 2, "{error}");
    }
    assert!(import_bytes(b"\xff\xfe", Path::new("x"), &ImportOptions::default()).is_err());
    assert!(import_file(Path::new("/dev/zero"), &ImportOptions::default()).is_err());
    assert!(Machine::load(Path::new("/dev/zero")).is_err());
}
