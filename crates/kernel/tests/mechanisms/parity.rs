//! Every mechanism decides as the real kernel's code did: on the shipped samples, and on whole
//! vectors in the directory that the environment variable `SCHEDLAB_VECTORS` names.

use std::path::{Path, PathBuf};

use crate::support::check::{Report, check};
use crate::support::{SETS, Set};

/// Output lines that a shipped sample must have to count as a check.
const SAMPLE_LINES_MIN: usize = 2_000;

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn differences(name: &str, report: &Report) -> String {
    let mut text = format!("{name}: {} of {} lines differ", report.mismatches, report.lines);
    for shown in &report.shown {
        text += &format!(
            "\n  line {}: {}\n    expected {}\n    got      {}",
            shown.line, shown.command, shown.expected, shown.got
        );
    }
    text
}

#[test]
fn shipped_samples_agree_to_the_last_bit() {
    for set in SETS {
        let report = check(set, &samples())
            .unwrap_or_else(|error| panic!("{}: {error}", set.output))
            .unwrap_or_else(|| panic!("{}: its sample is not shipped", set.output));
        assert!(report.lines >= SAMPLE_LINES_MIN, "{}: {} lines", set.output, report.lines);
        assert_eq!(report.mismatches, 0, "{}", differences(set.output, &report));
    }
}

#[test]
fn whole_vectors_agree_where_they_are_at_hand() {
    let Some(directory) = std::env::var_os("SCHEDLAB_VECTORS").map(PathBuf::from) else { return };
    for set in SETS {
        match check(set, &directory).unwrap_or_else(|error| panic!("{}: {error}", set.output)) {
            None => println!("{}: absent", set.output),
            Some(report) => {
                assert_eq!(report.mismatches, 0, "{}", differences(set.output, &report));
            }
        }
    }
}

/// On a CPU that is never utilized `teo_util` is the `teo` that it was built on.
#[test]
fn teo_util_without_utilization_is_teo() {
    use crate::support::governors::driver;
    use schedlab_kernel::cpuidle::GovernorKind::{TeoUtilV2, TeoUtilV6};
    let teo = |driver| Set { input: "gov.in", output: "teo-6.1.vout", driver };
    for set in [teo(|| driver(TeoUtilV2, true)), teo(|| driver(TeoUtilV6, true))] {
        let report = check(&set, &samples()).unwrap().unwrap();
        assert_eq!(report.mismatches, 0, "{}", differences("teo_util", &report));
    }
}

/// The comparison itself: a driver that is wrong in one line of three is found out.
#[test]
fn a_difference_is_reported_with_its_place() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("a.in"), "# head\nx 1\n\nquiet\nx 2\nx 3\n").unwrap();
    std::fs::write(directory.path().join("a.out"), "1\n2\n3\n4\n").unwrap();
    let set = Set {
        input: "a.in",
        output: "a.out",
        driver: || {
            Box::new(|line| {
                let number = line.strip_prefix("x ")?;
                Some(number.replace('2', "two"))
            })
        },
    };
    let report = check(&set, directory.path()).unwrap().unwrap();
    assert_eq!((report.lines, report.mismatches), (4, 2));
    let places: Vec<_> = report.shown.iter().map(|shown| (shown.line, &*shown.got)).collect();
    assert_eq!(places, [(5, "two"), (6, "(nothing)")]);
    let absent = Set { output: "b.out", ..set };
    assert!(check(&absent, directory.path()).unwrap().is_none());
}
