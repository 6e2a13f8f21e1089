//! The options of a file, which say how its events were recorded.

use super::buffers::{Buffer, CpuData};
use super::clock::{Clock, GuestShift};
use super::header::check_page_bytes;
use crate::format::Abi;
use crate::quality::{Quality, Severity};
use schedlab_machine::CpuId;

const DATE: u16 = 1;
const CPUSTAT: u16 = 2;
const BUFFER: u16 = 3;
const TRACECLOCK: u16 = 4;
const UNAME: u16 = 5;
const OFFSET: u16 = 7;
const CPUCOUNT: u16 = 8;
const TIME_SHIFT: u16 = 12;
const GUEST: u16 = 13;
const TSC2NSEC: u16 = 14;
const BUFFER_TEXT: u16 = 22;

/// More buffers than anyone records; a limit on memory.
const BUFFERS_MAX: usize = 1024;

/// What the options said.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) clock: Clock,
    /// The trace clock's name.
    pub(super) clock_name: String,
    /// Version 6: the clock's name follows after the buffers' places.
    pub(super) clock_follows: bool,
    pub(super) kernel_release: String,
    pub(super) cpu_count: Option<u32>,
    pub(super) buffers: Vec<Buffer>,
}

impl Options {
    /// Takes one option in. Options of no concern here (hooks, process maps) pass unread, and one
    /// that is cut short becomes a finding.
    pub(super) fn take(
        &mut self,
        id: u16,
        data: &[u8],
        abi: Abi,
        sectioned: bool,
        quality: &mut Quality,
    ) {
        let understood = match id {
            DATE => self.add_offset(data, 1_000),
            OFFSET => self.add_offset(data, 1),
            CPUSTAT => {
                cpu_statistics(&String::from_utf8_lossy(data), quality);
                Some(())
            }
            BUFFER | BUFFER_TEXT if self.buffers.len() >= BUFFERS_MAX => None,
            BUFFER if sectioned => self.buffer(data, abi),
            BUFFER => (|| {
                let offset = abi.u64_at(data, 0)?;
                let name = text_at(data, 8)?.0;
                self.buffers.push(Buffer { name, offset, ..Buffer::default() });
                Some(())
            })(),
            BUFFER_TEXT => {
                let name = text_at(data, 8).map(|(name, _)| name).unwrap_or_default();
                latency_text(&name, quality);
                Some(())
            }
            TRACECLOCK => {
                match current_clock(data) {
                    Some(clock) => self.clock_name = clock,
                    None => self.clock_follows = data.is_empty(),
                }
                Some(())
            }
            UNAME => {
                // "Linux HOST RELEASE MACHINE"
                let text = text_at(data, 0).map(|(text, _)| text).unwrap_or_default();
                self.kernel_release = text.split(' ').nth(2).unwrap_or("").to_owned();
                Some(())
            }
            CPUCOUNT => abi.u32_at(data, 0).map(|count| self.cpu_count = Some(count)),
            TIME_SHIFT => GuestShift::parse(data, abi).map(|shift| {
                self.clock.guest = shift;
                quality.add(
                    Severity::Info,
                    "guest_trace",
                    None,
                    1,
                    "this is a guest's trace; its times were shifted to its host's clock, as \
                     trace-cmd does",
                );
            }),
            GUEST => {
                quality.add(
                    Severity::Info,
                    "host_trace",
                    None,
                    1,
                    "this is a host's trace with guests; the guests' events are in files of their \
                     own and are not read",
                );
                Some(())
            }
            TSC2NSEC => (|| {
                self.clock.tsc = Some((abi.u32_at(data, 0)?, abi.u32_at(data, 4)?));
                Some(())
            })(),
            _ => Some(()),
        };
        if understood.is_none() {
            quality.add(
                Severity::Warning,
                "bad_option",
                None,
                1,
                format!("option {id} is cut short or too much; what it says is not known"),
            );
        }
    }

    /// A signed number as C's `strtoll(text, 0, 0)` reads it, of so many nanoseconds.
    fn add_offset(&mut self, data: &[u8], unit_ns: i64) -> Option<()> {
        let text = text_at(data, 0)?.0;
        let (negative, digits) = match text.trim().strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.trim().trim_start_matches('+')),
        };
        let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hexadecimal) => i64::from_str_radix(hexadecimal, 16),
            None => digits.parse(),
        };
        let offset_ns = number.ok()?.wrapping_mul(unit_ns);
        let offset_ns = if negative { offset_ns.wrapping_neg() } else { offset_ns };
        self.clock.offset_ns = self.clock.offset_ns.wrapping_add(offset_ns);
        Some(())
    }

    /// Version 7: place, name, clock, page size (since trace-cmd 3.1.3), and where each CPU is.
    fn buffer(&mut self, data: &[u8], abi: Abi) -> Option<()> {
        const CPU_BYTES: usize = 4 + 8 + 8;
        let offset = abi.u64_at(data, 0)?;
        let (name, at) = text_at(data, 8)?;
        let (clock, mut at) = text_at(data, at)?;
        let mut page_bytes = None;
        if data.len().checked_sub(at)? % CPU_BYTES == 8 {
            page_bytes = abi.u32_at(data, at).filter(|&bytes| check_page_bytes(bytes).is_ok());
            at += 4;
        }
        let count = abi.u32_at(data, at)? as usize;
        let places = data.get(at + 4..)?;
        let cpus = places.chunks_exact(CPU_BYTES).take(count).filter_map(|place| {
            let cpu = abi.u32_at(place, 0)?;
            Some(CpuData { cpu, offset: abi.u64_at(place, 4)?, length: abi.u64_at(place, 12)? })
        });
        let cpus: Vec<_> = cpus.collect();
        if self.clock_name.is_empty() {
            self.clock_name.clone_from(&clock);
        }
        let complete = cpus.len() == count;
        self.buffers.push(Buffer { name, offset, page_bytes, cpus });
        complete.then_some(())
    }
}

/// Says that a buffer holds a latency tracer's text, which is not read.
pub(super) fn latency_text(name: &str, quality: &mut Quality) {
    let which = if name.is_empty() { "the buffer".to_owned() } else { format!("buffer `{name}`") };
    quality.add(
        Severity::Warning,
        "latency_text",
        None,
        1,
        format!(
            "{which} holds a latency tracer's report as text and no events; `trace-cmd report` \
             prints it as text that can be read instead"
        ),
    );
}

/// Text up to its NUL, and where it ends.
fn text_at(data: &[u8], start: usize) -> Option<(String, usize)> {
    let rest = data.get(start..)?;
    let length = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
    Some((
        String::from_utf8_lossy(&rest[..length]).into_owned(),
        (start + length + 1).min(data.len()),
    ))
}

/// The clock in brackets: `local [mono] boot`.
pub(super) fn current_clock(data: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(data);
    let (_, rest) = text.split_once('[')?;
    Some(rest.split(']').next()?.to_owned())
}

/// Lost events that only the ring buffer's own statistics (`per_cpu/cpuN/stats`) tell of.
fn cpu_statistics(text: &str, quality: &mut Quality) {
    let mut cpu = None;
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let Ok(number) = value.trim().parse::<u64>() else { continue };
        match name.trim() {
            "CPU" => cpu = u32::try_from(number).ok().map(CpuId),
            "overrun" if number > 0 => quality.add(
                Severity::Warning,
                "overwritten_events",
                cpu,
                number,
                "the ring buffer overwrote events before they were saved: this CPU's trace begins \
                 later than recording did, or has gaps, which `lost_events` counts",
            ),
            "dropped events" if number > 0 => quality.add(
                Severity::Warning,
                "dropped_events",
                cpu,
                number,
                "the ring buffer was full and refused events: this CPU's trace ends early or has \
                 gaps, which `lost_events` counts",
            ),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(id: u16, data: &[u8]) -> (Options, Quality) {
        let mut options = Options::default();
        let mut quality = Quality::default();
        options.take(id, data, Abi::LITTLE_64, true, &mut quality);
        (options, quality)
    }

    #[test]
    fn offsets_in_both_units() {
        assert_eq!(taken(OFFSET, b"-120\0").0.clock.offset_ns, -120);
        assert_eq!(taken(DATE, b"0x10\0").0.clock.offset_ns, 16_000);
        assert_eq!(taken(OFFSET, b"soon\0").1.findings()[0].code, "bad_option");
    }

    #[test]
    fn clock_and_release() {
        assert_eq!(taken(TRACECLOCK, b"local [mono] boot\0").0.clock_name, "mono");
        assert!(taken(TRACECLOCK, b"").0.clock_follows);
        let uname = b"Linux (none) 6.12.117+deb12-amd64 x86_64\0";
        assert_eq!(taken(UNAME, uname).0.kernel_release, "6.12.117+deb12-amd64");
    }

    const PLACE: CpuData = CpuData { cpu: 2, offset: 4096, length: 8192 };

    #[test]
    fn buffers_with_and_without_page_size() {
        let mut data = 77_u64.to_le_bytes().to_vec();
        data.extend(b"inst\0mono\0");
        let mut places = 1_u32.to_le_bytes().to_vec();
        places.extend(2_u32.to_le_bytes());
        places.extend(4096_u64.to_le_bytes());
        places.extend(8192_u64.to_le_bytes());
        let old = [&data[..], &places].concat();
        let buffer = &taken(BUFFER, &old).0.buffers[0];
        assert_eq!((buffer.page_bytes, &buffer.cpus[..]), (None, &[PLACE][..]));
        let new = [&data[..], &65536_u32.to_le_bytes(), &places].concat();
        let buffer = &taken(BUFFER, &new).0.buffers[0];
        assert_eq!((buffer.page_bytes, &buffer.cpus[..]), (Some(65536), &[PLACE][..]));
        let (cut, quality) = taken(BUFFER, &new[..new.len() - 20]);
        assert!(cut.buffers[0].cpus.is_empty());
        assert_eq!(quality.findings()[0].code, "bad_option");
    }

    #[test]
    fn overruns_are_findings() {
        let text = b"CPU: 3\nentries: 9\noverrun: 12\ncommit overrun: 0\ndropped events: 1\n\0";
        let (_, quality) = taken(CPUSTAT, text);
        let found: Vec<_> = quality.findings().iter().map(|f| (f.code, f.cpu, f.count)).collect();
        let cpu = Some(CpuId(3));
        assert_eq!(found, [("overwritten_events", cpu, 12), ("dropped_events", cpu, 1)]);
    }
}
