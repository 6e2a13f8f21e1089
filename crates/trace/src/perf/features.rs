//! Feature sections (`tools/perf/Documentation/perf.data-file-format.txt`): the machine, the
//! events' names, and the kernel's event formats.

use super::attr::Attr;
use crate::dat::cursor::{Cursor, Damage};
use crate::dat::metadata::Metadata;
use crate::format::Abi;
use crate::input::Input;

/// Feature numbers.
pub(super) const TRACING_DATA: u32 = 1;
pub(super) const OSRELEASE: u32 = 4;
pub(super) const NRCPUS: u32 = 7;
pub(super) const EVENT_DESC: u32 = 12;

/// A feature section other than the tracing data is not longer.
pub(super) const FEATURE_BYTES_MAX: usize = 16 << 20;

/// What tracing data begins with, as a `trace.dat` does; a version follows.
const TRACING_MAGIC: &[u8] = b"\x17\x08Dtracing";

/// An event as `EVENT_DESC` describes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) attr: Attr,
    pub(super) name: String,
    pub(super) ids: Vec<u64>,
}

/// Reads the tracing data at `offset`: formats, symbols and constant texts as tracefs has them.
/// What is legible before any damage is kept.
pub(super) fn read_tracing_data(
    input: &Input,
    offset: u64,
    metadata: &mut Metadata,
) -> Result<(), Damage> {
    let mut cursor = Cursor::new(input, Abi::LITTLE_64, offset);
    if cursor.take(TRACING_MAGIC.len() as u64)? != TRACING_MAGIC {
        return Err(cursor.damage("no tracing data"));
    }
    let version = cursor.text()?;
    let abi = match cursor.take(2)?[..] {
        [big_endian @ 0..=1, long_size @ (4 | 8)] => Abi { big_endian: big_endian == 1, long_size },
        _ => return Err(cursor.damage("neither byte order nor word size is legible")),
    };
    *metadata = Metadata::new(abi);
    // The page size, which matters to files that hold pages.
    let mut cursor = Cursor::new(input, abi, cursor.position() + 4);
    metadata.read_headers(&mut cursor)?;
    metadata.read_ftrace_formats(&mut cursor)?;
    metadata.read_event_formats(&mut cursor)?;
    metadata.read_kallsyms(&mut cursor)?;
    metadata.read_printk(&mut cursor)?;
    if version.as_slice() >= b"0.6".as_slice() {
        metadata.read_task_names(&mut cursor)?;
    }
    Ok(())
}

/// A string after its 32-bit length, padded with NUL; and what follows it.
fn text(bytes: &[u8], abi: Abi) -> Option<(String, &[u8])> {
    let length = abi.u32_at(bytes, 0)? as usize;
    let (text, rest) = bytes.get(4..)?.split_at_checked(length)?;
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    Some((String::from_utf8_lossy(&text[..end]).into_owned(), rest))
}

/// `OSRELEASE`.
pub(super) fn read_text(bytes: &[u8], abi: Abi) -> Option<String> {
    text(bytes, abi).map(|(text, _)| text)
}

/// `NRCPUS`: the CPUs online (the second number; the first counts those present).
pub(super) fn read_cpu_count(bytes: &[u8], abi: Abi) -> Option<u32> {
    abi.u32_at(bytes, 4)
}

/// `EVENT_DESC`: the events with their names, up to the first damage.
pub(super) fn read_event_descriptions(bytes: &[u8], abi: Abi) -> Vec<Described> {
    let mut described = Vec::new();
    let (Some(count), Some(attr_bytes)) = (abi.u32_at(bytes, 0), abi.u32_at(bytes, 4)) else {
        return described;
    };
    let mut rest = bytes.get(8..).unwrap_or_default();
    for _ in 0..count {
        let Some((event, after)) = read_event(rest, attr_bytes as usize, abi) else { break };
        described.push(event);
        rest = after;
    }
    described
}

fn read_event(bytes: &[u8], attr_bytes: usize, abi: Abi) -> Option<(Described, &[u8])> {
    let (attr, rest) = bytes.split_at_checked(attr_bytes)?;
    let attr = Attr::read(attr, abi)?;
    let id_count = abi.u32_at(rest, 0)? as usize;
    let (name, rest) = text(rest.get(4..)?, abi)?;
    let (ids, rest) = rest.split_at_checked(id_count.checked_mul(8)?)?;
    let ids = ids.chunks_exact(8).filter_map(|id| abi.u64_at(id, 0)).collect();
    Some((Described { attr, name, ids }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_descriptions_are_read_up_to_the_damage() {
        let mut bytes = [2u32.to_le_bytes(), 64u32.to_le_bytes()].concat();
        for id in [5u64, 6] {
            bytes.extend([2, 0, 0, 0]);
            bytes.extend([0; 60]);
            bytes.extend(1u32.to_le_bytes());
            bytes.extend(8u32.to_le_bytes());
            bytes.extend(b"sched:x\0");
            bytes.extend(id.to_le_bytes());
        }
        let described = read_event_descriptions(&bytes, Abi::LITTLE_64);
        assert_eq!(described.len(), 2);
        assert_eq!((&*described[1].name, &described[1].ids[..]), ("sched:x", &[6][..]));
        assert!(described[0].attr.is_tracepoint);

        bytes.truncate(bytes.len() - 1);
        assert_eq!(read_event_descriptions(&bytes, Abi::LITTLE_64).len(), 1);
        assert!(read_event_descriptions(&[0xff; 100], Abi::LITTLE_64).is_empty());
    }
}
