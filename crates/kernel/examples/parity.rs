//! Compares every mechanism with what the real kernel's code recorded, in the directory that the
//! environment variable `SCHEDLAB_VECTORS` or the first argument names. Prints one line per set
//! of vectors; fails on any mismatch, or if there is nothing to compare.

#[path = "../tests/support/mod.rs"]
mod support;

use std::env;
use std::panic;
use std::path::PathBuf;
use std::process::ExitCode;

use support::SETS;
use support::check::check;

fn main() -> ExitCode {
    let named = env::args_os().nth(1).or_else(|| env::var_os("SCHEDLAB_VECTORS"));
    let Some(directory) = named.map(PathBuf::from) else {
        eprintln!("parity: name the directory of the vectors in SCHEDLAB_VECTORS");
        return ExitCode::from(2);
    };
    // A driver that gives up is reported as its set's result.
    panic::set_hook(Box::new(|_| {}));
    let (mut present, mut failed) = (0, 0);
    for set in SETS {
        let name = set.output;
        match check(set, &directory) {
            Ok(None) => println!("{name:<22} absent"),
            Ok(Some(report)) => {
                present += 1;
                failed += usize::from(report.mismatches > 0 || report.lines == 0);
                println!(
                    "{name:<22} {:>8} lines {:>8} mismatches",
                    report.lines, report.mismatches
                );
                for difference in report.shown {
                    println!("  {}:{}: {}", set.input, difference.line, difference.command);
                    println!("    expected {}", difference.expected);
                    println!("    got      {}", difference.got);
                }
            }
            Err(error) => {
                present += 1;
                failed += 1;
                println!("{name:<22} cannot be compared: {error}");
            }
        }
    }
    if present == 0 {
        eprintln!("parity: {} holds no vectors", directory.display());
        return ExitCode::from(2);
    }
    if failed > 0 {
        eprintln!("parity: {failed} of {present} sets differ");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
