//! From a governor's file to a program, by the system's C compiler.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

const KERNEL_H: &str = include_str!("../shim/kernel.h");
const BRIDGE_H: &str = include_str!("../shim/bridge.h");
const GOVERNOR_C: &str = include_str!("../shim/governor.c");
const TRANSPORT_C: &str = include_str!("../shim/transport.c");

/// The kernel's headers that a governor may include; all lead to `kernel.h`.
const HEADERS: [&str; 52] = [
    "asm/io.h",
    "linux/array_size.h",
    "linux/bitops.h",
    "linux/bits.h",
    "linux/bug.h",
    "linux/build_bug.h",
    "linux/cache.h",
    "linux/compiler.h",
    "linux/container_of.h",
    "linux/cpu.h",
    "linux/cpufeature.h",
    "linux/cpuidle.h",
    "linux/cpumask.h",
    "linux/errno.h",
    "linux/export.h",
    "linux/hrtimer.h",
    "linux/init.h",
    "linux/jiffies.h",
    "linux/kernel.h",
    "linux/kernel_stat.h",
    "linux/ktime.h",
    "linux/kvm_para.h",
    "linux/limits.h",
    "linux/list.h",
    "linux/log2.h",
    "linux/math.h",
    "linux/math64.h",
    "linux/minmax.h",
    "linux/module.h",
    "linux/moduleparam.h",
    "linux/percpu.h",
    "linux/pm_qos.h",
    "linux/printk.h",
    "linux/sched.h",
    "linux/sched/clock.h",
    "linux/sched/cpufreq.h",
    "linux/sched/idle.h",
    "linux/sched/loadavg.h",
    "linux/sched/stat.h",
    "linux/sched/topology.h",
    "linux/smp.h",
    "linux/stddef.h",
    "linux/string.h",
    "linux/tick.h",
    "linux/time.h",
    "linux/time64.h",
    "linux/timekeeping.h",
    "linux/topology.h",
    "linux/types.h",
    "linux/uaccess.h",
    "linux/units.h",
    "trace/events/power.h",
];

/// The kernel's own choices of dialect (`Makefile` of 6.12), and what it reports as errors.
const KERNEL_FLAGS: [&str; 17] = [
    // Whatever the file is called, it is not for the linker.
    "-xc",
    "-std=gnu11",
    "-O2",
    "-g",
    "-fno-pie",
    "-ffreestanding",
    "-fno-strict-aliasing",
    "-fno-common",
    "-fno-delete-null-pointer-checks",
    "-fwrapv",
    "-funsigned-char",
    "-nostdinc",
    "-fdiagnostics-color=never",
    "-Werror=implicit-function-declaration",
    "-Werror=implicit-int",
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
];

/// Why a file does not become a governor.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// It.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// There is no compiler.
    #[error(
        "{}: `{compiler}` cannot be run ({source}); install a C compiler (Debian and Ubuntu: apt \
         install gcc libc6-dev), or name one in the environment variable CC", path.display()
    )]
    NoCompiler {
        /// The file that was to be compiled.
        path: PathBuf,
        /// What was called.
        compiler: String,
        /// The system's word.
        source: io::Error,
    },
    /// The compiler refuses the file.
    #[error("{} does not compile here:\n{}", path.display(), diagnostics.trim_end())]
    Refused {
        /// It.
        path: PathBuf,
        /// What the compiler wrote.
        diagnostics: String,
    },
    /// The file compiles, but not what goes with it.
    #[error(
        "{}: the program around it cannot be built; the C library's headers may be missing \
         (Debian and Ubuntu: apt install libc6-dev):\n{}", path.display(), diagnostics.trim_end()
    )]
    NoProgram {
        /// It.
        path: PathBuf,
        /// What the compiler wrote.
        diagnostics: String,
    },
    /// The compiler's files cannot be written.
    #[error("{}: nowhere to compile to: {source}", path.display())]
    NoRoom {
        /// The file that was to be compiled.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
}

/// A folder with the headers, in which one governor's file is compiled.
#[derive(Debug)]
pub(crate) struct Workshop {
    path: PathBuf,
    compiler: OsString,
    folder: TempDir,
}

impl Workshop {
    /// Lays out the headers for the governor at `path`.
    pub fn new(path: &Path) -> Result<Self, SourceError> {
        let unreadable = |source| SourceError::Unreadable { path: path.to_owned(), source };
        let path = fs::canonicalize(path).map_err(unreadable)?;
        fs::File::open(&path)
            .and_then(|file| file.metadata())
            .and_then(|about| match about.is_dir() {
                true => Err(io::Error::from(io::ErrorKind::IsADirectory)),
                false => Ok(()),
            })
            .map_err(unreadable)?;
        let no_room = |source| SourceError::NoRoom { path: path.clone(), source };
        let folder = tempfile::Builder::new().prefix("schedlab-").tempdir().map_err(no_room)?;
        lay_out(folder.path()).map_err(no_room)?;
        let compiler = std::env::var_os("CC").filter(|name| !name.is_empty());
        Ok(Self { path, compiler: compiler.unwrap_or_else(|| "cc".into()), folder })
    }

    /// A digest of all that the user's governor is made of: its file, and the files beside it that
    /// it includes, wherever they lie.
    pub fn digest(&self) -> Result<String, SourceError> {
        let output = self.run(self.for_governor().arg("-MM").arg(&self.path))?;
        let rule = self.accepted(output)?.stdout;
        let mut digest = Sha256::new();
        for file in prerequisites(&String::from_utf8_lossy(&rule)) {
            let unreadable = |source| SourceError::Unreadable { path: (&file).into(), source };
            let text = fs::read(&file).map_err(unreadable)?;
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        }
        Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The program for a tick of `tick_ns`, ns, which the kernel also knows when it is compiled.
    pub fn build(&self, tick_ns: u64) -> Result<PathBuf, SourceError> {
        let file = |name: &str| self.folder.path().join(format!("{name}-{tick_ns}"));
        let tick = format!("-DSCHEDLAB_TICK_NSEC={tick_ns}L");
        let (object, kernel, transport) = (file("user.o"), file("kernel.o"), file("transport.o"));
        let mut compile = self.for_governor();
        compile.args(["-Wall", "-Wno-maybe-uninitialized", &tick, "-c", "-o"]);
        let output = self.run(compile.arg(&object).arg(&self.path))?;
        self.accepted(output)?;

        let shim = self.folder.path().join("schedlab");
        let mut compile = self.for_governor();
        compile.args([&tick, "-c", "-o"]).arg(&kernel).arg(shim.join("governor.c"));
        self.built(&mut compile)?;
        let mut compile = Command::new(&self.compiler);
        compile.args(["-std=gnu11", "-O2", "-g", "-fno-pie", "-c", "-o"]);
        self.built(compile.arg(&transport).arg(shim.join("transport.c")))?;
        let program = file("governor");
        let mut link = Command::new(&self.compiler);
        link.args(["-no-pie", "-o"]).arg(&program).args([&object, &kernel, &transport]);
        self.built(&mut link)?;
        Ok(program)
    }

    fn for_governor(&self) -> Command {
        let mut command = Command::new(&self.compiler);
        command.args(KERNEL_FLAGS).arg("-isystem").arg(self.folder.path());
        if let Some(folder) = self.path.parent() {
            // So that __FILE__ and the lines of a crash are the same wherever the tree lies.
            let mut map = OsString::from("-ffile-prefix-map=");
            map.push(folder);
            map.push("/=");
            command.arg(map);
        }
        command
    }

    fn run(&self, command: &mut Command) -> Result<Output, SourceError> {
        // Diagnostics are for people, but tests read them.
        command.env("LC_ALL", "C").output().map_err(|source| SourceError::NoCompiler {
            path: self.path.clone(),
            compiler: self.compiler.to_string_lossy().into_owned(),
            source,
        })
    }

    fn accepted(&self, output: Output) -> Result<Output, SourceError> {
        if output.status.success() {
            return Ok(output);
        }
        let diagnostics = readable(&output.stderr);
        Err(SourceError::Refused { path: self.path.clone(), diagnostics })
    }

    fn built(&self, command: &mut Command) -> Result<(), SourceError> {
        let output = self.run(command)?;
        if output.status.success() {
            return Ok(());
        }
        let diagnostics = readable(&output.stderr);
        Err(SourceError::NoProgram { path: self.path.clone(), diagnostics })
    }

    /// The file, by its whole path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// So many lines of the compiler's are told.
const DIAGNOSTICS_LINES: usize = 60;

/// What the compiler wrote, which quotes files that need not be text.
fn readable(diagnostics: &[u8]) -> String {
    let text = String::from_utf8_lossy(diagnostics);
    let lines = text.lines().take(DIAGNOSTICS_LINES);
    let shown = |line: &str| {
        let kept = |letter: char| letter == '\t' || !letter.is_control();
        let letters = line.chars();
        letters
            .map(|letter| if kept(letter) { letter } else { char::REPLACEMENT_CHARACTER })
            .collect()
    };
    lines.map(shown).collect::<Vec<String>>().join("\n")
}

/// The files that a rule for make names after its colon.
fn prerequisites(rule: &str) -> Vec<String> {
    let (_, files) = rule.split_once(": ").unwrap_or_default();
    let mut found = vec![String::new()];
    let mut letters = files.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            // A line that goes on, or a space within a name.
            ('\\', Some('\n')) => continue,
            ('\\', Some(' ' | '#')) | ('$', Some('$')) => {
                found.last_mut().map(|file| letters.next().map(|escaped| file.push(escaped)));
            }
            (' ' | '\n', _) => found.push(String::new()),
            (letter, _) => found.last_mut().map_or((), |file| file.push(letter)),
        }
    }
    found.retain(|file| !file.is_empty());
    found
}

fn lay_out(folder: &Path) -> io::Result<()> {
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().unwrap_or(folder))?;
        fs::write(file, text)
    };
    write("schedlab/kernel.h", KERNEL_H)?;
    write("schedlab/bridge.h", BRIDGE_H)?;
    write("schedlab/governor.c", GOVERNOR_C)?;
    write("schedlab/transport.c", TRANSPORT_C)?;
    for header in HEADERS {
        write(header, "#include <schedlab/kernel.h>\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{DIAGNOSTICS_LINES, prerequisites, readable};

    #[test]
    fn what_is_no_text_is_told_as_text() {
        let told = readable(b"a.c:1: stray \x1b[31m\x07\xff\n\tint\n");
        assert_eq!(told, "a.c:1: stray \u{fffd}[31m\u{fffd}\u{fffd}\n\tint");
        assert_eq!(readable("x\n".repeat(1000).as_bytes()).lines().count(), DIAGNOSTICS_LINES);
    }

    #[test]
    fn a_rules_files_are_told_apart() {
        let rule = "teo.o: /a\\ b/teo.c \\\n /a\\ b/gov.h\n";
        assert_eq!(prerequisites(rule), ["/a b/teo.c", "/a b/gov.h"]);
    }
}
