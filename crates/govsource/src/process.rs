//! A governor's process: one life on all CPUs of a machine.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, OnceLock};

use crate::wire::{self, ANSWER_BYTES, Answer, Request, TEXT_BYTES};

/// What need not be answered is gathered to this many bytes before it is sent.
const GATHERED_BYTES: usize = 1 << 15;

/// The first failure of any process of a governor, in words for the user.
pub(crate) type Failure = Arc<OnceLock<String>>;

/// The child, its pipes, and what has gone wrong with it.
#[derive(Debug)]
pub(crate) struct Process {
    /// What messages call the governor's file.
    file: String,
    program: PathBuf,
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    gathered: Vec<u8>,
    now_ns: u64,
    failure: Failure,
    broken: bool,
}

impl Process {
    /// Starts `program`, whose governor messages call `file`.
    pub fn start(program: &Path, file: &str, failure: Failure) -> io::Result<Self> {
        let mut child =
            Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            file: file.to_owned(),
            program: program.to_owned(),
            child,
            input,
            output,
            gathered: Vec::with_capacity(2 * GATHERED_BYTES),
            now_ns: 0,
            failure,
            broken: false,
        })
    }

    /// Sends a request that has no answer, together with the next one that has.
    pub fn tell(&mut self, request: &Request) {
        request.write(&mut self.gathered);
        self.now_ns = request.now_ns;
        if self.gathered.len() >= GATHERED_BYTES && !self.broken {
            self.flush();
        }
    }

    /// Sends what follows a request.
    pub fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.gathered);
    }

    /// Sends a request and waits for its answer; none once anything has failed.
    pub fn ask(&mut self, request: &Request) -> Option<Answer> {
        if self.broken {
            return None;
        }
        self.now_ns = request.now_ns;
        request.write(&mut self.gathered);
        self.flush();
        let mut bytes = [0; ANSWER_BYTES];
        if self.output.read_exact(&mut bytes).is_err() {
            let end = match self.child.wait() {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
            self.fail(format!("{}: its process ended early: {end}", self.file));
            return None;
        }
        let answer = Answer::read(&bytes);
        if answer.kind == wire::END {
            let text = self.text();
            self.fail(self.why(&answer, &text));
            return None;
        }
        Some(answer)
    }

    /// The text that follows an answer.
    pub fn text(&mut self) -> String {
        let mut bytes = [0; TEXT_BYTES];
        if self.output.read_exact(&mut bytes).is_err() {
            return String::new();
        }
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(TEXT_BYTES);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// Notes a failure; the first one of all is what the user is told.
    pub fn fail(&mut self, message: String) {
        self.broken = true;
        self.failure.get_or_init(|| message);
    }

    /// What messages call the governor's file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Writes all that was gathered. A process that reads no more has ended, and its last answer
    /// says why.
    fn flush(&mut self) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(&self.gathered);
        }
        self.gathered.clear();
    }

    /// Why the process ended, in words for the user.
    fn why(&self, answer: &Answer, text: &str) -> String {
        let call = match answer.call {
            wire::SELECT => "select()",
            wire::REFLECT => "reflect()",
            wire::START => "its start",
            _ => "the program",
        };
        let file = &self.file;
        let seconds = self.now_ns as f64 / 1e9;
        let at = if answer.call == wire::START {
            call.to_owned()
        } else {
            format!("{call} on CPU {}, about {seconds:.6} s,", answer.cpu)
        };
        let detail = answer.stop_tick as i32;
        let place = || self.place(answer.poll_limit_ns).unwrap_or_default();
        match answer.index {
            wire::END_SIGNAL => format!("{file}: {at} crashed: {}{}", signal(detail), place()),
            wire::END_BUG => format!("{file}: {at} hit BUG() at {text}"),
            wire::END_TOO_LONG => {
                format!("{file}: {at} does not end: it has run for more than a second{}", place())
            }
            wire::END_NO_GOVERNOR => format!(
                "{file}: it registers no governor; an initcall has to call \
                 cpuidle_register_governor()"
            ),
            wire::END_INIT_FAILED => format!("{file}: its initcall returned {detail}"),
            wire::END_ENABLE_FAILED => {
                format!("{file}: its enable() returned {detail} for CPU {}", answer.cpu)
            }
            reason => format!("{file}: {at} failed ({reason}, {detail}) {text}"),
        }
    }

    /// The line of a crash, where the binary utilities are installed, as they are with a compiler.
    fn place(&self, address: u64) -> Option<String> {
        let mut command = Command::new("addr2line");
        command.args(["-f", "-s", "-e"]).arg(&self.program).arg(format!("{address:#x}"));
        let output = command.output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let mut lines = text.lines();
        let (function, line) = (lines.next()?, lines.next()?);
        // A discriminator tells the parts of a line apart, which helps nobody here.
        let line = line.split(" (").next().unwrap_or(line);
        (!line.starts_with('?')).then(|| format!(", at {line}, in {function}()"))
    }
}

impl Drop for Process {
    /// The process ends when its input does.
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

/// What a signal means.
fn signal(number: i32) -> String {
    let meaning = match number {
        4 => "illegal instruction (SIGILL)",
        5 => "trap (SIGTRAP)",
        6 => "abort (SIGABRT)",
        7 | 10 => "bus error (SIGBUS)",
        8 => "arithmetic error, such as a division by 0 (SIGFPE)",
        11 => "segmentation fault (SIGSEGV)",
        _ => return format!("signal {number}"),
    };
    meaning.to_owned()
}
