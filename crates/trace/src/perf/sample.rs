//! The bodies of records, whose fields come and go with `sample_type`.

use super::attr::{Attr, sample_type};
use crate::format::Abi;

/// `PERF_FORMAT_*` bits of `read_format`.
const READ_TIME_ENABLED: u64 = 1 << 0;
const READ_TIME_RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const READ_GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;

/// What is used of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    pub(super) tid: Option<i32>,
    pub(super) time_ns: Option<u64>,
    pub(super) cpu: Option<u32>,
    /// A tracepoint's record.
    pub(super) raw: Option<&'a [u8]>,
}

/// A walk over a record's words.
struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
    abi: Abi,
}

impl<'a> Words<'a> {
    fn u64(&mut self) -> Option<u64> {
        let value = self.abi.u64_at(self.bytes, self.at)?;
        self.at += 8;
        Some(value)
    }

    /// Two 32-bit numbers that share a word.
    fn u32_pair(&mut self) -> Option<(u32, u32)> {
        let first = self.abi.u32_at(self.bytes, self.at)?;
        let second = self.abi.u32_at(self.bytes, self.at + 4)?;
        self.at += 8;
        Some((first, second))
    }

    fn skip(&mut self, words: u64) -> Option<()> {
        let bytes = usize::try_from(words).ok()?.checked_mul(8)?;
        self.at = self.at.checked_add(bytes).filter(|at| *at <= self.bytes.len())?;
        Some(())
    }

    fn skip_if(&mut self, present: bool) -> Option<()> {
        self.skip(u64::from(present))
    }
}

/// Reads the body of a `PERF_RECORD_SAMPLE` as far as the raw data; `None` if it is cut off.
pub(super) fn read_sample<'a>(body: &'a [u8], attr: &Attr, abi: Abi) -> Option<Sample<'a>> {
    use sample_type::{
        ADDR, CALLCHAIN, CPU, ID, IDENTIFIER, IP, PERIOD, RAW, READ, STREAM_ID, TID, TIME,
    };
    let mut words = Words { bytes: body, at: 0, abi };
    let mut sample = Sample::default();
    words.skip_if(attr.has(IDENTIFIER))?;
    words.skip_if(attr.has(IP))?;
    if attr.has(TID) {
        sample.tid = Some(words.u32_pair()?.1 as i32);
    }
    if attr.has(TIME) {
        sample.time_ns = Some(words.u64()?);
    }
    words.skip_if(attr.has(ADDR))?;
    words.skip_if(attr.has(ID))?;
    words.skip_if(attr.has(STREAM_ID))?;
    if attr.has(CPU) {
        sample.cpu = Some(words.u32_pair()?.0);
    }
    words.skip_if(attr.has(PERIOD))?;
    if attr.has(READ) {
        skip_read(&mut words, attr.read_format)?;
    }
    if attr.has(CALLCHAIN) {
        let entries = words.u64()?;
        words.skip(entries)?;
    }
    if attr.has(RAW) {
        let size = abi.u32_at(body, words.at)? as usize;
        let start = words.at + 4;
        sample.raw = Some(body.get(start..start.checked_add(size)?)?);
    }
    Some(sample)
}

/// Passes over counter values (`PERF_SAMPLE_READ`).
fn skip_read(words: &mut Words<'_>, format: u64) -> Option<()> {
    let times = u64::from((format & (READ_TIME_ENABLED | READ_TIME_RUNNING)).count_ones());
    let extras = u64::from((format & (READ_ID | READ_LOST)).count_ones());
    if format & READ_GROUP == 0 {
        return words.skip(1 + times + extras);
    }
    let members = words.u64()?;
    words.skip(times)?;
    words.skip(members.checked_mul(1 + extras)?)
}

/// Reads the fields at the end of a record that is no sample.
pub(super) fn read_record_end(body: &[u8], attr: &Attr, abi: Abi) -> Sample<'static> {
    use sample_type::{CPU, ID, IDENTIFIER, STREAM_ID, TID, TIME};
    let all = TID | TIME | ID | STREAM_ID | CPU | IDENTIFIER;
    let length = 8 * (attr.sample_type & all).count_ones() as usize;
    let mut sample = Sample::default();
    let Some(start) = body.len().checked_sub(length).filter(|_| attr.sample_id_all) else {
        return sample;
    };
    let mut words = Words { bytes: body, at: start, abi };
    if attr.has(TID) {
        sample.tid = words.u32_pair().map(|(_, tid)| tid as i32);
    }
    if attr.has(TIME) {
        sample.time_ns = words.u64();
    }
    for bit in [ID, STREAM_ID] {
        if attr.has(bit) {
            words.at += 8;
        }
    }
    if attr.has(CPU) {
        sample.cpu = words.u32_pair().map(|(cpu, _)| cpu);
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = sample_type::IP
        | sample_type::TID
        | sample_type::TIME
        | sample_type::ADDR
        | sample_type::READ
        | sample_type::CALLCHAIN
        | sample_type::ID
        | sample_type::CPU
        | sample_type::PERIOD
        | sample_type::STREAM_ID
        | sample_type::RAW
        | sample_type::IDENTIFIER;

    fn words(values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn every_field_is_passed_on_the_way_to_the_raw_data() {
        let attr = Attr {
            sample_type: ALL,
            read_format: READ_GROUP | READ_ID | READ_LOST | READ_TIME_ENABLED,
            sample_id_all: true,
            ..Attr::default()
        };
        let mut body = words(&[
            77,              // identifier
            0xdead,          // ip
            (12 << 32) | 11, // pid, tid
            1_000,           // time
            0xbeef,          // address
            77,              // id
            78,              // stream
            3,               // cpu
            1,               // period
            2,
            50,
            1,
            77,
            0,
            2,
            78,
            0, // two counters
            2,
            0xa,
            0xb, // call chain
        ]);
        body.extend([4, 0, 0, 0, 1, 2, 3, 4]);
        let sample = read_sample(&body, &attr, Abi::LITTLE_64).unwrap();
        let expected =
            Sample { tid: Some(12), time_ns: Some(1_000), cpu: Some(3), raw: Some(&[1, 2, 3, 4]) };
        assert_eq!(sample, expected);
        assert_eq!((attr.sample_id_position(), attr.record_id_position()), (Some(0), Some(1)));
        for length in 0..body.len() {
            assert_eq!(read_sample(&body[..length], &attr, Abi::LITTLE_64), None, "{length}");
        }
    }

    #[test]
    fn other_records_carry_the_fields_at_their_end() {
        let attr = Attr {
            sample_type: ALL & !sample_type::IDENTIFIER,
            sample_id_all: true,
            ..Attr::default()
        };
        let mut body = b"body text".to_vec();
        body.extend(words(&[(12 << 32) | 11, 1_000, 77, 78, 3]));
        let end = read_record_end(&body, &attr, Abi::LITTLE_64);
        assert_eq!((end.tid, end.time_ns, end.cpu), (Some(12), Some(1_000), Some(3)));
        assert_eq!((attr.sample_id_position(), attr.record_id_position()), (Some(4), Some(3)));
        assert_eq!(read_record_end(&body[..20], &attr, Abi::LITTLE_64), Sample::default());
    }

    #[test]
    fn lengths_in_the_record_are_not_believed() {
        let attr = Attr { sample_type: sample_type::CALLCHAIN, ..Attr::default() };
        for entries in [u64::MAX, u64::MAX / 8, 1] {
            assert_eq!(read_sample(&words(&[entries]), &attr, Abi::LITTLE_64), None);
        }
        let attr = Attr { sample_type: sample_type::RAW, ..Attr::default() };
        assert_eq!(read_sample(&[0xff; 16], &attr, Abi::LITTLE_64), None);
    }
}
