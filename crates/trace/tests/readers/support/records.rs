//! Event formats and records for made-up traces.

use super::ring_buffer::number;
use schedlab_trace::format::Abi;

/// Numbers of the event types.
pub const CPU_IDLE: u64 = 11;
pub const SCHED_SWITCH: u64 = 12;
pub const IPI_RAISE: u64 = 13;
pub const UNDECODED: u64 = 14;

/// System and format text of every event type.
pub fn formats(abi: Abi) -> Vec<(&'static str, String)> {
    let long = usize::from(abi.long_size);
    let signed =
        |name: &str| name.starts_with("int") || name.starts_with("pid_t") || name == "long";
    let text = |name: &str, id: u64, fields: &[(&str, &str, usize)], print: &str| {
        let mut text = format!("name: {name}\nID: {id}\nformat:\n");
        let common = [
            ("unsigned short", "common_type", 2),
            ("unsigned char", "common_flags", 1),
            ("unsigned char", "common_preempt_count", 1),
            ("int", "common_pid", 4),
        ];
        let mut offset = 0;
        for (kind, field, size) in common.iter().chain(fields) {
            text += &format!(
                "\tfield:{kind} {field};\toffset:{offset};\tsize:{size};\tsigned:{};\n",
                u8::from(signed(kind))
            );
            offset += size;
        }
        text + "\nprint fmt: " + print + "\n"
    };
    vec![
        (
            "power",
            text(
                "cpu_idle",
                CPU_IDLE,
                &[("u32", "state", 4), ("u32", "cpu_id", 4)],
                r#""state=%lu cpu_id=%lu", (unsigned long)REC->state, (unsigned long)REC->cpu_id"#,
            ),
        ),
        (
            "sched",
            text(
                "sched_switch",
                SCHED_SWITCH,
                &[
                    ("char", "prev_comm[16]", 16),
                    ("pid_t", "prev_pid", 4),
                    ("int", "prev_prio", 4),
                    ("long", "prev_state", long),
                    ("char", "next_comm[16]", 16),
                    ("pid_t", "next_pid", 4),
                    ("int", "next_prio", 4),
                ],
                r#""prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & 255) ? __print_flags(REC->prev_state & 255, "|", { 1, "S" }, { 2, "D" }, { 16, "X" }, { 32, "Z" }) : "R", REC->prev_state & 256 ? "+" : "", REC->next_comm, REC->next_pid, REC->next_prio"#,
            ),
        ),
        (
            "ipi",
            text(
                "ipi_raise",
                IPI_RAISE,
                &[
                    ("__data_loc unsigned long[]", "target_cpus", 4),
                    ("const char *", "reason", long),
                ],
                r#""target_mask=%s (%s)", __get_bitmask(target_cpus), REC->reason"#,
            ),
        ),
        (
            "other",
            text("undecoded", UNDECODED, &[("u32", "value", 4)], r#""value=%u", REC->value"#),
        ),
    ]
}

/// Puts records together.
#[derive(Clone, Copy)]
pub struct Records(pub Abi);

impl Records {
    fn common(self, kind: u64, pid: u64) -> Vec<u8> {
        [number(self.0, kind, 2), vec![0, 0], number(self.0, pid, 4)].concat()
    }

    pub fn idle(self, cpu: u64, state: u32) -> Vec<u8> {
        let state = number(self.0, u64::from(state), 4);
        [self.common(CPU_IDLE, 0), state, number(self.0, cpu, 4)].concat()
    }

    pub fn switch(self, prev: (&str, u64), prev_state: u64, next: (&str, u64)) -> Vec<u8> {
        let task = |(comm, pid): (&str, u64)| {
            let mut bytes = comm.as_bytes().to_vec();
            bytes.resize(16, 0);
            [bytes, number(self.0, pid, 4), number(self.0, 120, 4)].concat()
        };
        let state = number(self.0, prev_state, self.0.long_size);
        [self.common(SCHED_SWITCH, prev.1), task(prev), state, task(next)].concat()
    }

    /// An IPI to the CPUs of a mask of two longs, low one first.
    pub fn ipi(self, masks: [u64; 2], reason: u64) -> Vec<u8> {
        let long = self.0.long_size;
        let start = 8 + 4 + u64::from(long);
        let place = ((2 * u64::from(long)) << 16) | start;
        let masks = masks.map(|mask| number(self.0, mask, long)).concat();
        [self.common(IPI_RAISE, 7), number(self.0, place, 4), number(self.0, reason, long), masks]
            .concat()
    }

    /// A record of a type outside the schema, `words` long.
    pub fn undecoded(self, words: usize) -> Vec<u8> {
        [self.common(UNDECODED, 7), vec![0xa5; words * 4]].concat()
    }

    /// A record of a type that no format describes.
    pub fn unknown(self) -> Vec<u8> {
        self.common(999, 7)
    }
}
