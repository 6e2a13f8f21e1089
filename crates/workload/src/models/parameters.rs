//! What people are told of each model: what it follows, and where each option's default is from.

use super::{
    Model, busy_loops, bzip2, ebizzy, ffmpeg, fio, geekbench, hackbench, jankbench, kbuild, pcmark,
    perf_bench, periodic, pgbench, schbench, specjbb, speedometer, sysbench,
};
use crate::recorded;
use serde::Serialize;
use serde_json::{Value, json};

/// One option of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in files.
    pub name: &'static str,
    /// Its unit; empty for choices.
    pub unit: &'static str,
    /// The tool's own option, or where the default is from.
    pub source: &'static str,
}

const fn of(name: &'static str, unit: &'static str, source: &'static str) -> Parameter {
    Parameter { name, unit, source }
}

/// sysbench's options.
pub const SYSBENCH: &[Parameter] = &[
    of("test", "", "the tool's first word"),
    of("threads", "threads", "--threads"),
    of("time", "s", "--time"),
    of("cpu_max_prime", "", "--cpu-max-prime"),
    of("thread_yields", "rounds", "--thread-yields"),
    of("thread_locks", "mutexes", "--thread-locks"),
    of("mutex_num", "mutexes", "--mutex-num"),
    of("mutex_locks", "rounds", "--mutex-locks"),
    of("mutex_loops", "loops", "--mutex-loops"),
    of("memory_block_size", "B", "--memory-block-size"),
    of("memory_total_size", "B", "--memory-total-size"),
    of("memory_scope", "", "--memory-scope"),
    of("memory_oper", "", "--memory-oper"),
    of("memory_access_mode", "", "--memory-access-mode"),
    of("rand_type", "", "--rand-type"),
    of("memory_access_ps", "ps", "one cycle; rnd: estimate"),
    of("memory_event_ns", "ns", "estimate: 2 clock reads"),
    of("cpu_event_ns", "ns", "published: 107655 ev/s"),
    of("mutex_loop_ps", "ps", "one cycle at 2.6 GHz"),
];

/// hackbench's options.
pub const HACKBENCH: &[Parameter] = &[
    of("groups", "groups", "-g"),
    of("fds", "senders", "-f"),
    of("loops", "rounds", "-l"),
    of("datasize", "B", "-s"),
    of("threads", "", "-T"),
    of("pipe", "", "-p"),
    of("write_ns", "ns", "estimate: 1 to 3 us per call"),
    of("read_ns", "ns", "estimate: 1 to 3 us per call"),
];

/// schbench's options.
pub const SCHBENCH: &[Parameter] = &[
    of("version", "", "the tool's commit"),
    of("message_threads", "threads", "-m; none: 1 (old: 2)"),
    of("threads", "threads", "-t; none: CPUs/-m (old: 16)"),
    of("runtime", "s", "-r"),
    of("cache_footprint", "KiB", "-F; none: 256 (old: 1536)"),
    of("operations", "products", "-n; none: 5 (old: 10)"),
    of("multiply_add_ps", "ps", "measured on x86-64 at -O2"),
    of("cputime_us", "us", "-c (2eef447)"),
    of("sleeptime_us", "us", "-s (old versions)"),
];

/// ebizzy's options.
pub const EBIZZY: &[Parameter] = &[
    of("threads", "threads", "-t; none: 2 per CPU"),
    of("seconds", "s", "-S"),
    of("record_ns", "ns", "estimate: middle of 25 to 50 us"),
    of("daemons", "tasks", "an idle server's: estimate; 0: none"),
    of("daemon_period_ms", "ms", "estimate"),
    of("daemon_work_us", "us", "estimate"),
];

/// Options of busy loops.
pub const BUSY_LOOPS: &[Parameter] = &[
    of("loops", "tasks", "none: one per CPU"),
    of("seconds", "s", "a choice"),
    of("shell_us", "us", "estimate"),
    of("daemons", "tasks", "an idle server's: estimate; 0: none"),
    of("daemon_period_ms", "ms", "estimate"),
    of("daemon_work_us", "us", "estimate"),
];

/// Options of a kernel build.
pub const KBUILD: &[Parameter] = &[
    of("jobs", "compilers", "-j"),
    of("files", "files", "estimate: a defconfig of 2013"),
    of("compile_ms", "ms", "estimate"),
    of("wait_us", "us", "estimate: warm caches"),
    of("make_us", "us", "estimate"),
    of("link_ms", "ms", "estimate"),
    of("daemons", "tasks", "an idle server's: estimate; 0: none"),
    of("daemon_period_ms", "ms", "estimate"),
    of("daemon_work_us", "us", "estimate"),
];

/// pgbench's options.
pub const PGBENCH: &[Parameter] = &[
    of("clients", "clients", "-c and -j"),
    of("seconds", "s", "-T"),
    of("query_us", "us", "estimate"),
    of("client_us", "us", "estimate"),
    of("shared_lines", "lines", "estimate"),
    of("shared_accesses", "accesses", "estimate"),
];

/// ffmpeg's options.
pub const FFMPEG: &[Parameter] = &[
    of("instances", "processes", "none: as many as there is room for"),
    of("cores", "cores", "published: 4 to a process"),
    of("threads_per_core", "CPUs", "the machine"),
    of("workers", "threads", "x264: 1.5 per CPU"),
    of("slice_us", "us", "estimate: 100 us to 5 ms"),
    of("slice_deviation_us", "us", "estimate: a third"),
    of("system_us", "us", "a choice: nothing"),
    of("main_us", "us", "estimate"),
    of("priority", "", "chrt -f; published: 99"),
    of("stagger_us", "us", "a choice: no two start at once"),
];

/// fio's options.
pub const FIO: &[Parameter] = &[
    of("numjobs", "jobs", "--numjobs"),
    of("bs", "B", "--bs"),
    of("thinktime", "us", "--thinktime"),
    of("thinktime_spin", "us", "--thinktime_spin"),
    of("request_ns", "ns", "estimate: 2 to 3 us per read"),
    of("device_us", "us", "estimate: a flash page, 60 to 100 us"),
    of("device_deviation_us", "us", "estimate: an eighth"),
    of("device_at_once", "requests", "estimate: dies of a drive"),
];

/// Options of `perf bench futex wake`.
pub const FUTEX_WAKE: &[Parameter] =
    &[of("threads", "threads", "-t; none: one per CPU"), of("nwakes", "threads", "-w")];

/// Options of `perf bench sched pipe`.
pub const SCHED_PIPE: &[Parameter] = &[of("loops", "rounds", "-l"), of("threaded", "", "-T")];

/// Options of `perf bench sched messaging`.
pub const SCHED_MESSAGING: &[Parameter] = &[
    of("group", "groups", "-g"),
    of("nr_loops", "rounds", "-l"),
    of("thread", "", "-t"),
    of("pipe", "", "-p"),
];

/// Options of the periodic tasks.
pub const PERIODIC: &[Parameter] = &[
    of("tasks", "tasks", "comparison of simulators"),
    of("run_us", "us", "comparison of simulators"),
    of("period_us", "us", "comparison of simulators"),
    of("policy", "", "sched(7)"),
    of("priority", "", "sched(7); fifo and rr"),
    of("dl_runtime_us", "us", "sched(7); none: run_us"),
    of("dl_deadline_us", "us", "sched(7); none: period_us"),
    of("dl_period_us", "us", "sched(7); none: period_us"),
    of("nice", "", "sched(7)"),
    of("uclamp_min", "of 1024", "sched_setattr(2); 0: none"),
    of("uclamp_max", "of 1024", "sched_setattr(2); 1024: none"),
    of("migrate_disable", "", "migrate_disable(), v5.11; false: tasks may go"),
    of("stagger_ns", "ns", "a choice: no two start at once"),
];

/// bzip2's options.
pub const BZIP2: &[Parameter] = &[
    of("blocks", "blocks", "archive of 360 MB in 900 kB each"),
    of("user_ms", "ms", "published: 57.44user"),
    of("system_ms", "ms", "published: 12.36system"),
    of("wait_ms", "ms", "published: elapsed less both"),
    of("watchdog_ms", "ms", "Linux 2.6.32: 1000; 0: none"),
];

/// SPECjbb's options.
pub const SPECJBB: &[Parameter] = &[
    of("warehouses", "threads", "input.warehouses; none: CPUs"),
    of("seconds", "s", "the benchmark: 30 or 240"),
    of("transaction_us", "us", "estimate"),
    of("collection_period_ms", "ms", "estimate: 1 to 5 s"),
    of("collection_ms", "ms", "estimate: 5 to 50 ms"),
];

/// Geekbench's options.
pub const GEEKBENCH: &[Parameter] = &[
    of("section", "", "the tool's two halves"),
    of("workloads", "computations", "the tool: 21"),
    of("gap_ms", "ms", "the tool's default: 2 s"),
    of("single_ms", "ms", "estimate: about a second"),
    of("multi_ms", "ms", "estimate: about a second on 8"),
    of("phases", "parts", "estimate: 0.2 to 1 s each"),
    of("chunk_us", "us", "estimate: 1 to 5 ms"),
    of("serial_us", "us", "estimate"),
    of("points_ms", "points ms", "a scale, to be calibrated"),
    of("background_pairs", "pairs", "estimate"),
    of("background_period_us", "us", "estimate"),
    of("background_requests", "requests", "estimate"),
    of("background_work_us", "us", "estimate"),
    of("interrupts_per_s", "1/s", "estimate"),
    of("housekeeping_ms", "ms", "estimate"),
];

/// PCMark's options.
pub const PCMARK: &[Parameter] = &[
    of("seconds", "s", "a choice"),
    of("pause_ms", "ms", "estimate"),
    of("bursts", "bursts", "estimate"),
    of("burst_us", "us", "estimate: 5 to 50 ms"),
    of("helper_us", "us", "estimate"),
    of("frames", "frames", "estimate: a third of a second"),
    of("script_us", "us", "estimate"),
    of("render_us", "us", "estimate: 1 to 4 ms"),
    of("gpu_us", "us", "estimate"),
    of("compose_us", "us", "estimate: about 1 ms"),
    of("background_pairs", "pairs", "estimate"),
    of("background_period_us", "us", "estimate"),
    of("background_requests", "requests", "estimate"),
    of("background_work_us", "us", "estimate"),
    of("interrupts_per_s", "1/s", "estimate"),
    of("housekeeping_ms", "ms", "estimate"),
];

/// Jankbench's options.
pub const JANKBENCH: &[Parameter] = &[
    of("seconds", "s", "a choice"),
    of("frames", "frames", "estimate: 2 s"),
    of("pause_ms", "ms", "estimate"),
    of("app_us", "us", "estimate"),
    of("render_us", "us", "estimate: 1 to 4 ms"),
    of("gpu_us", "us", "estimate"),
    of("compose_us", "us", "estimate: about 1 ms"),
    of("background_pairs", "pairs", "estimate"),
    of("background_period_us", "us", "estimate"),
    of("background_requests", "requests", "estimate"),
    of("background_work_us", "us", "estimate"),
    of("interrupts_per_s", "1/s", "estimate"),
    of("housekeeping_ms", "ms", "estimate"),
];

/// Speedometer's options.
pub const SPEEDOMETER: &[Parameter] = &[
    of("seconds", "s", "a choice"),
    of("steps", "steps", "estimate"),
    of("step_us", "us", "estimate"),
    of("helper_us", "us", "estimate"),
    of("steps_per_frame", "steps", "estimate"),
    of("render_us", "us", "estimate: 1 to 4 ms"),
    of("gpu_us", "us", "estimate"),
    of("compose_us", "us", "estimate: about 1 ms"),
    of("points_ms", "points ms", "a scale, to be calibrated"),
    of("background_pairs", "pairs", "estimate"),
    of("background_period_us", "us", "estimate"),
    of("background_requests", "requests", "estimate"),
    of("background_work_us", "us", "estimate"),
    of("interrupts_per_s", "1/s", "estimate"),
    of("housekeeping_ms", "ms", "estimate"),
];

/// Recorded tasks.
pub const RECORDED: &[Parameter] =
    &[of("tasks", "tasks", "the recording"), of("interrupts", "interrupts", "the recording")];

/// A model by its name in files: what it follows, and its options with their defaults.
pub struct Card {
    /// The name.
    pub model: &'static str,
    /// The program and release that it follows.
    pub follows: &'static str,
    parameters: &'static [Parameter],
    defaults: fn() -> Value,
}

fn defaults<O: Model + Default + Serialize>() -> Value {
    json!(O::default())
}

/// Every model.
pub const CARDS: &[Card] = &[
    Card {
        model: "sysbench",
        follows: "sysbench 1.0.20",
        parameters: SYSBENCH,
        defaults: defaults::<sysbench::Options>,
    },
    Card {
        model: "hackbench",
        follows: "hackbench of rt-tests 2.4",
        parameters: HACKBENCH,
        defaults: defaults::<hackbench::Options>,
    },
    Card {
        model: "schbench",
        follows: "schbench 48aed1d, 91ea787 or 2eef447",
        parameters: SCHBENCH,
        defaults: defaults::<schbench::Options>,
    },
    Card {
        model: "ebizzy",
        follows: "ebizzy 0.3",
        parameters: EBIZZY,
        defaults: defaults::<ebizzy::Options>,
    },
    Card {
        model: "ffmpeg",
        follows: "ffmpeg with slice threads",
        parameters: FFMPEG,
        defaults: defaults::<ffmpeg::Options>,
    },
    Card {
        model: "fio",
        follows: "fio 3 with ioengine=psync, direct=1",
        parameters: FIO,
        defaults: defaults::<fio::Options>,
    },
    Card {
        model: "perf-futex-wake",
        follows: "perf bench futex wake of Linux 6.12",
        parameters: FUTEX_WAKE,
        defaults: defaults::<perf_bench::FutexWake>,
    },
    Card {
        model: "perf-sched-pipe",
        follows: "perf bench sched pipe of Linux 6.12",
        parameters: SCHED_PIPE,
        defaults: defaults::<perf_bench::SchedPipe>,
    },
    Card {
        model: "perf-sched-messaging",
        follows: "perf bench sched messaging of Linux 6.12",
        parameters: SCHED_MESSAGING,
        defaults: defaults::<perf_bench::SchedMessaging>,
    },
    Card {
        model: "periodic",
        follows: "no program: tasks that compute in every period",
        parameters: PERIODIC,
        defaults: defaults::<periodic::Options>,
    },
    Card {
        model: "busy-loops",
        follows: "while true; do :; done",
        parameters: BUSY_LOOPS,
        defaults: defaults::<busy_loops::Options>,
    },
    Card {
        model: "kbuild",
        follows: "make -j of a kernel",
        parameters: KBUILD,
        defaults: defaults::<kbuild::Options>,
    },
    Card {
        model: "pgbench",
        follows: "pgbench -S",
        parameters: PGBENCH,
        defaults: defaults::<pgbench::Options>,
    },
    Card {
        model: "bzip2",
        follows: "bzip2 1.0",
        parameters: BZIP2,
        defaults: defaults::<bzip2::Options>,
    },
    Card {
        model: "specjbb",
        follows: "SPECjbb2005",
        parameters: SPECJBB,
        defaults: defaults::<specjbb::Options>,
    },
    Card {
        model: "geekbench",
        follows: "Geekbench 5 for Android",
        parameters: GEEKBENCH,
        defaults: defaults::<geekbench::Options>,
    },
    Card {
        model: "pcmark",
        follows: "PCMark Work 2.0, web browsing",
        parameters: PCMARK,
        defaults: defaults::<pcmark::Options>,
    },
    Card {
        model: "jankbench",
        follows: "Jankbench at 60 Hz",
        parameters: JANKBENCH,
        defaults: defaults::<jankbench::Options>,
    },
    Card {
        model: "speedometer",
        follows: "Speedometer 2",
        parameters: SPEEDOMETER,
        defaults: defaults::<speedometer::Options>,
    },
    Card {
        model: "recorded",
        follows: "a recording: tasks step by step",
        parameters: RECORDED,
        defaults: defaults::<recorded::Options>,
    },
];

impl Card {
    /// The model's options as one JSON array, with the values that a file gives them.
    pub fn parameters(&self, given: &toml::Table) -> Value {
        let defaults = (self.defaults)();
        let row = |parameter: &Parameter| {
            let given =
                given.get(parameter.name).and_then(|value| serde_json::to_value(value).ok());
            let default = || defaults[parameter.name].clone();
            json!({
                "name": parameter.name,
                "unit": parameter.unit,
                "default": number(default()),
                "value": number(given.unwrap_or_else(default)),
                "source": parameter.source,
            })
        };
        self.parameters.iter().map(row).collect()
    }
}

/// A list is told of by its length.
fn number(value: Value) -> Value {
    match value {
        Value::Array(list) => list.len().into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_told_of() {
        for card in CARDS {
            let defaults = (card.defaults)();
            let mut options: Vec<&str> =
                defaults.as_object().expect("options").keys().map(String::as_str).collect();
            let mut told: Vec<&str> = card.parameters.iter().map(|p| p.name).collect();
            options.sort_unstable();
            told.sort_unstable();
            assert_eq!(told, options, "{}", card.model);
        }
    }
}
