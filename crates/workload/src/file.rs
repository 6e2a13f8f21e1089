//! Workload files: TOML that names a model and its options, and rt-app JSON. Some come built in.

use crate::error::WorkloadError;
use crate::models::parameters::CARDS;
use crate::models::{
    Model, busy_loops, bzip2, ebizzy, ffmpeg, fio, geekbench, hackbench, jankbench, kbuild, pcmark,
    perf_bench, periodic, pgbench, schbench, specjbb, speedometer, sysbench,
};
use crate::program::Workload;
use crate::recorded;
use crate::rt_app;
use schedlab_machine::Machine;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Every built-in workload: its name and its file.
const PRESETS: &[(&str, &str)] = &[
    ("sysbench-cpu", include_str!("../../../workloads/sysbench-cpu.toml")),
    ("sysbench-memory", include_str!("../../../workloads/sysbench-memory.toml")),
    ("sysbench-threads", include_str!("../../../workloads/sysbench-threads.toml")),
    ("sysbench-mutex", include_str!("../../../workloads/sysbench-mutex.toml")),
    ("hackbench", include_str!("../../../workloads/hackbench.toml")),
    ("hackbench-pipe", include_str!("../../../workloads/hackbench-pipe.toml")),
    ("schbench", include_str!("../../../workloads/schbench.toml")),
    ("schbench-old", include_str!("../../../workloads/schbench-old.toml")),
    ("schbench-2eef447", include_str!("../../../workloads/schbench-2eef447.toml")),
    ("ebizzy", include_str!("../../../workloads/ebizzy.toml")),
    ("fio", include_str!("../../../workloads/fio.toml")),
    ("ffmpeg", include_str!("../../../workloads/ffmpeg.toml")),
    ("perf-futex-wake", include_str!("../../../workloads/perf-futex-wake.toml")),
    ("perf-sched-pipe", include_str!("../../../workloads/perf-sched-pipe.toml")),
    ("perf-sched-messaging", include_str!("../../../workloads/perf-sched-messaging.toml")),
    ("periodic", include_str!("../../../workloads/periodic.toml")),
    ("busy-loops", include_str!("../../../workloads/busy-loops.toml")),
    ("kbuild", include_str!("../../../workloads/kbuild.toml")),
    ("pgbench", include_str!("../../../workloads/pgbench.toml")),
    ("bunzip2", include_str!("../../../workloads/bunzip2.toml")),
    ("specjbb", include_str!("../../../workloads/specjbb.toml")),
    ("geekbench5", include_str!("../../../workloads/geekbench5.toml")),
    ("pcmark-web", include_str!("../../../workloads/pcmark-web.toml")),
    ("jankbench", include_str!("../../../workloads/jankbench.toml")),
    ("speedometer", include_str!("../../../workloads/speedometer.toml")),
];

/// CPUs of the machine that [`describe`] assumes where it is given none.
pub const CPUS_DEFAULT: u32 = 8;

/// A longer file describes no workload.
const BYTES_MAX: u64 = 16 << 20;

/// The names of the built-in workloads.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The TOML text of a built-in workload, to copy and edit.
pub fn preset_text(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A built-in workload by its name, or else a file by its path: TOML, or rt-app JSON if its name
/// ends in `.json`. Defaults that follow the machine use `cpus`, its number of CPUs.
///
/// # Errors
/// Says what there is if the name is unknown, and else where and how the file is wrong.
pub fn load(name_or_path: &str, cpus: u32) -> Result<Workload, WorkloadError> {
    let path = Path::new(name_or_path);
    if let Some(text) = preset_text(name_or_path) {
        return Workload::from_toml(text, path, cpus);
    }
    if !path.exists() {
        let known = known(name_or_path, preset_names());
        return Err(WorkloadError::Unknown { name: name_or_path.to_owned(), known });
    }
    let text = read(path).map_err(|source| WorkloadError::Io { path: path.to_owned(), source })?;
    if path.extension().is_some_and(|extension| extension == "json") {
        rt_app::parse(&text, path)
    } else {
        Workload::from_toml(&text, path, cpus)
    }
}

/// A workload in words, as one JSON object: what [`Workload::outline`] tells, and the model with
/// its parameters (name, unit, default, value, source) where the file names one. Without a machine,
/// defaults follow one of [`CPUS_DEFAULT`] CPUs, and whether any could run it is not asked.
///
/// # Errors
/// As [`load`] and [`Workload::validate_on`].
pub fn describe(name_or_path: &str, machine: Option<&Machine>) -> Result<Value, WorkloadError> {
    let cpus = machine.map_or(CPUS_DEFAULT, |machine| machine.cpu_count() as u32);
    let workload = load(name_or_path, cpus)?;
    if let Some(machine) = machine {
        workload.validate_on(machine)?;
    }
    let mut outline = workload.outline();
    outline["cpus"] = cpus.into();
    let path = Path::new(name_or_path);
    let text = match preset_text(name_or_path) {
        Some(text) => text.to_owned(),
        None => read(path).map_err(|source| WorkloadError::Io { path: path.to_owned(), source })?,
    };
    let header = toml::from_str::<Header>(&text).ok();
    let card = header.as_ref().and_then(|header| {
        let model = header.model.get_ref();
        CARDS.iter().find(|card| card.model == model)
    });
    if let (Some(header), Some(card)) = (&header, card) {
        outline["model"] = card.model.into();
        outline["follows"] = card.follows.into();
        outline["parameters"] = card.parameters(&header.options);
    } else {
        outline["model"] = "rt-app".into();
        outline["follows"] = "rt-app".into();
        outline["parameters"] = Value::Array(Vec::new());
    }
    Ok(outline)
}

/// The names there are, the one that may be meant first.
fn known<'a>(asked: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let near = names.iter().map(|name| (strsim::jaro_winkler(asked, name), name));
    let near = near.filter(|(likeness, _)| *likeness > 0.8).max_by(|a, b| a.0.total_cmp(&b.0));
    let all = names.join(", ");
    match near {
        Some((_, name)) => format!("{all}; did you mean {name}?"),
        None => all,
    }
}

/// A file's text, unless it is too long, be it a device without end.
fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        let what = format!("longer than {BYTES_MAX} bytes, so no description of a workload");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, what));
    }
    Ok(text)
}

/// A workload file, with any options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    name: Option<String>,
    model: toml::Spanned<String>,
    #[serde(default)]
    options: toml::Table,
}

/// A workload file, with the options of its model.
#[derive(Deserialize)]
struct Contents<O: Default> {
    #[serde(default)]
    options: O,
}

impl Workload {
    /// A workload from the text of a TOML file. `path` serves messages, and names a workload that
    /// does not name itself.
    ///
    /// ```
    /// use schedlab_workload::program::Workload;
    /// use std::path::Path;
    ///
    /// let text = "model = 'hackbench'\n[options]\ngroups = 1\nfdz = 4\n";
    /// let error = Workload::from_toml(text, Path::new("w.toml"), 8).unwrap_err().to_string();
    /// assert!(error.starts_with("w.toml:4: unknown field `fdz`, expected one of `groups`, `fds`"));
    /// ```
    ///
    /// # Errors
    /// Names the line of what is unknown or of the wrong type, or the option that cannot be.
    pub fn from_toml(text: &str, path: &Path, cpus: u32) -> Result<Workload, WorkloadError> {
        let header: Header = parse(text, path)?;
        let name = match &header.name {
            Some(name) => name.clone(),
            None => path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into()),
        };
        let file = TomlFile { text, path, name: &name, cpus };
        match header.model.get_ref().as_str() {
            "sysbench" => file.model::<sysbench::Options>(),
            "hackbench" => file.model::<hackbench::Options>(),
            "schbench" => file.model::<schbench::Options>(),
            "ebizzy" => file.model::<ebizzy::Options>(),
            "fio" => file.model::<fio::Options>(),
            "ffmpeg" => file.model::<ffmpeg::Options>(),
            "perf-futex-wake" => file.model::<perf_bench::FutexWake>(),
            "perf-sched-pipe" => file.model::<perf_bench::SchedPipe>(),
            "perf-sched-messaging" => file.model::<perf_bench::SchedMessaging>(),
            "periodic" => file.model::<periodic::Options>(),
            "busy-loops" => file.model::<busy_loops::Options>(),
            "kbuild" => file.model::<kbuild::Options>(),
            "pgbench" => file.model::<pgbench::Options>(),
            "bzip2" => file.model::<bzip2::Options>(),
            "specjbb" => file.model::<specjbb::Options>(),
            "geekbench" => file.model::<geekbench::Options>(),
            "pcmark" => file.model::<pcmark::Options>(),
            "jankbench" => file.model::<jankbench::Options>(),
            "speedometer" => file.model::<speedometer::Options>(),
            "recorded" => file.model::<recorded::Options>(),
            other => {
                let models = known(other, CARDS.iter().map(|card| card.model));
                let what = format!("unknown model {other}; there are {models}");
                Err(WorkloadError::line(path, line_at(text, header.model.span().start), what))
            }
        }
    }
}

struct TomlFile<'a> {
    text: &'a str,
    path: &'a Path,
    name: &'a str,
    cpus: u32,
}

impl TomlFile<'_> {
    fn model<O: Model + Default + DeserializeOwned>(&self) -> Result<Workload, WorkloadError> {
        let contents: Contents<O> = parse(self.text, self.path)?;
        contents.options.workload(self.name, self.cpus).map_err(|error| self.locate(error))
    }

    /// An error about an option names the line where it stands, or the model's if it has its
    /// default.
    fn locate(&self, error: WorkloadError) -> WorkloadError {
        let WorkloadError::Whole { what, .. } = error else { return error };
        let stands = |key: &str| {
            self.text.lines().position(|line| {
                line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
            })
        };
        let option = what.split(' ').next().unwrap_or_default();
        let line = stands(option).or_else(|| stands("model")).unwrap_or(0);
        WorkloadError::line(self.path, line + 1, what)
    }
}

fn parse<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T, WorkloadError> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        WorkloadError::line(path, line, error.message().trim_end())
    })
}

/// The line, from 1, of a byte of a text.
fn line_at(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}
