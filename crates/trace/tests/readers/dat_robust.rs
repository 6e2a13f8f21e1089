//! Damaged `trace.dat` files: an error or a finding, never a panic, and no more events than there
//! were.

use crate::support::damage::{flipped, flips};
use crate::support::dat_file::DatFile;
use crate::support::records::Records;
use crate::support::ring_buffer::Pages;
use crate::support::{Contents, read, read_bytes, sample};
use proptest::prelude::*;
use schedlab_trace::TraceError;
use schedlab_trace::format::Abi;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(sample(name)).unwrap()
}

/// What was read, or that the reader refused with a message of at most two lines.
fn tolerated(result: Result<Contents, TraceError>) -> Option<Contents> {
    match result {
        Ok(contents) => Some(contents),
        Err(error) => {
            assert!(error.to_string().lines().count() <= 2, "{error}");
            None
        }
    }
}

#[test]
fn truncated_at_every_page() {
    for name in ["lisa_sched_load.dat", "trappy_arm32.dat", "trappy_arm32_v7.dat"] {
        let whole = bytes(name);
        let all = read_bytes(&whole).unwrap().events.len();
        let mut before = 0;
        for length in (0..whole.len()).step_by(4096).chain([1, 9, 10, 14, 17, 18, whole.len() - 1])
        {
            let Some(contents) = tolerated(read_bytes(&whole[..length])) else {
                assert!(length < 4096, "{name} cut to {length} bytes is still a trace.dat");
                continue;
            };
            let found = contents.findings();
            let codes = ["truncated_file", "damaged_header", "no_trace_data"];
            let complete = contents.events.len() == all;
            let told = found.iter().any(|finding| codes.contains(&finding.0));
            assert!(told || complete, "{name} cut to {length} bytes");
            assert!(contents.events.len() <= all + 8, "{name} cut to {length} bytes");
            before = before.max(contents.events.len());
        }
        assert!(name.ends_with("v7.dat") || before > all / 2, "{name}: what is there is read");
    }
}

#[test]
fn a_damaged_chunk_costs_only_itself() {
    let mut file = DatFile { compression: "zlib", ..DatFile::new(7, Abi::LITTLE_64) };
    let mut pages = Pages::new(Abi::LITTLE_64, 4096);
    for step in 0..6_000_u64 {
        let state = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        pages.record(step * 100, &Records(Abi::LITTLE_64).idle(0, state as u32));
    }
    file.buffers = vec![("", vec![pages.finish()])];
    let mut whole = file.bytes();
    let all = read_bytes(&whole).unwrap().events.len();
    let data = whole.len() * 3 / 4;
    whole[data] ^= 0xff;
    let contents = read_bytes(&whole).unwrap();
    assert!(contents.events.len() > all / 2 && contents.events.len() < all);
    assert!(contents.findings().contains(&("unreadable_data", Some(0), 1)));
}

#[test]
fn a_damaged_page_costs_only_itself() {
    let whole = bytes("lisa_sched_load.dat");
    let all = read_bytes(&whole).unwrap().events.len();
    let mut damaged = whole.clone();
    // The commit word of CPU 1's second page, the file's last but some.
    let page = whole.len() - 5 * 4096;
    damaged[page + 8..page + 12].copy_from_slice(&0x07ff_ffff_u32.to_le_bytes());
    let contents = read_bytes(&damaged).unwrap();
    assert!(contents.events.len() < all + 2);
    assert!(contents.findings().iter().any(|finding| finding.0 == "damaged_page"));
}

#[test]
fn no_trace_at_all() {
    assert!(matches!(read_bytes(b""), Err(TraceError::UnknownFormat { .. })));
    assert!(matches!(read_bytes(&[0; 5_000]), Err(TraceError::UnknownFormat { .. })));
    let folder = schedlab_trace::open(&sample("")).map(|_| ());
    assert!(folder.unwrap_err().to_string().contains("directory"));
    let missing = schedlab_trace::open(&sample("missing.dat")).map(|_| ());
    assert!(matches!(missing, Err(TraceError::Io { .. })));
    let old = read_bytes(b"\x17\x08Dtracing5\0\0\x08\0\x10\0\0").map(|_| ());
    assert!(old.unwrap_err().to_string().contains("version `5`"));
    let odd = read_bytes(b"\x17\x08Dtracing7\0\0\x08\0\x10\0\0lz4\x001\0").map(|_| ());
    assert!(odd.unwrap_err().to_string().contains("lz4"));
}

#[test]
fn ten_sparse_gigabytes() {
    let folder = tempfile::tempdir().unwrap();
    for keep in [18, 500, 4096, 40_000] {
        let path = folder.path().join(format!("sparse-{keep}.dat"));
        let mut file = File::create(&path).unwrap();
        file.write_all(&bytes("lisa_sched_load.dat")[..keep]).unwrap();
        file.set_len(10 << 30).unwrap();
        let contents = tolerated(read(schedlab_trace::open(&path).unwrap())).unwrap();
        assert!(!contents.findings().is_empty());
    }
    // One CPU whose data is all of it: pages of zeros.
    let path = folder.path().join("zeros.dat");
    let whole = bytes("lisa_sched_load.dat");
    let mut file = File::create(&path).unwrap();
    file.write_all(&whole).unwrap();
    file.set_len(1 << 30).unwrap();
    let table = whole.windows(10).position(|tag| tag == b"flyrecord\0").unwrap() + 10;
    file.seek(SeekFrom::Start(table as u64 + 8)).unwrap();
    file.write_all(&(2_u64 << 30).to_le_bytes()).unwrap();
    let contents = read(schedlab_trace::open(&path).unwrap()).unwrap();
    assert!(contents.findings().iter().any(|finding| finding.0 == "truncated_file"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn flipped_bytes(which in 0_usize..3, flips in flips()) {
        let name = ["lisa_sched_load.dat", "trappy_arm32.dat", "trappy_arm32_v7.dat"][which];
        let _ = tolerated(read_bytes(&flipped(bytes(name), flips)));
    }

    #[test]
    fn flipped_descriptions(
        place in any::<prop::sample::Index>(),
        value in any::<[u8; 4]>(),
        version in 6_u8..8,
        compression in 0_usize..3,
    ) {
        let compression = if version == 6 { "none" } else { ["none", "zlib", "zstd"][compression] };
        let mut pages = Pages::new(Abi::LITTLE_64, 4096);
        for step in 0..40 {
            pages.record(step, &Records(Abi::LITTLE_64).switch(("a", 1), 1, ("b", 2)));
        }
        let mut file = DatFile { compression, ..DatFile::new(version, Abi::LITTLE_64) };
        file.buffers = vec![("", vec![pages.finish()])];
        let mut damaged = file.bytes();
        let place = place.index(damaged.len() - 4);
        damaged[place..place + 4].copy_from_slice(&value);
        let _ = tolerated(read_bytes(&damaged));
    }
}
