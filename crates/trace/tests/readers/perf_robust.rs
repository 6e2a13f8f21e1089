//! Damaged `perf.data` files: an error or a finding, never a panic.

use crate::support::damage::{flipped, flips};
use crate::support::perf_file::PerfFile;
use crate::support::records::Records;
use crate::support::{Contents, read, read_bytes, sample};
use proptest::prelude::*;
use schedlab_trace::TraceError;
use std::fs::File;
use std::io::Write;

fn whole() -> Vec<u8> {
    std::fs::read(sample("qemu_psched_hackbench.data")).unwrap()
}

/// What was read, or that the reader refused with a message of at most two lines.
fn tolerated(result: Result<Contents, TraceError>) -> Option<Contents> {
    match result {
        Ok(contents) => {
            assert!(contents.events.is_sorted_by_key(|event| (event.timestamp_ns, event.cpu)));
            Some(contents)
        }
        Err(error) => {
            assert!(error.to_string().lines().count() <= 2, "{error}");
            None
        }
    }
}

fn small(compressed: bool) -> PerfFile {
    let mut file = PerfFile { compressed, ..PerfFile::new(false) };
    for step in 0..50 {
        file.sample(72, 100 * step, step % 3, &Records(file.abi).idle(step % 3, step as u32));
    }
    file.finished_round();
    file
}

#[test]
fn truncated_at_every_page() {
    let whole = whole();
    let all: u64 = read_bytes(&whole).unwrap().summary.event_counts.values().sum();
    for length in (8..whole.len()).step_by(4096).chain([8, 15, 16, 103, 104, whole.len() - 1]) {
        let Some(contents) = tolerated(read_bytes(&whole[..length])) else {
            assert!(length < 4096, "cut to {length} bytes nothing is read");
            continue;
        };
        let counted: u64 = contents.summary.event_counts.values().sum();
        assert!(counted <= all);
        // The task names' end may be cut off without loss to any figure.
        let told = !contents.findings().is_empty();
        assert!(told || counted == all, "cut to {length} bytes");
    }
}

#[test]
fn ten_sparse_gigabytes() {
    let folder = tempfile::tempdir().unwrap();
    for (keep, unfinished) in [(104, false), (4096, false), (4096, true), (120_000, true)] {
        let path = folder.path().join("sparse.data");
        let mut head = whole()[..keep].to_vec();
        if unfinished {
            head[48..56].fill(0);
        }
        let mut file = File::create(&path).unwrap();
        file.write_all(&head).unwrap();
        file.set_len(10 << 30).unwrap();
        let contents = tolerated(read(schedlab_trace::open(&path).unwrap())).unwrap();
        assert!(contents.findings().iter().any(|finding| finding.0 == "damaged_records"));
    }
}

#[test]
fn declared_sizes_are_not_believed() {
    let whole = whole();
    // Attrs, ids, data and features that claim all there could be.
    for word in [2, 4, 6, 19] {
        let mut damaged = whole.clone();
        damaged[8 * word..8 * word + 8].copy_from_slice(&(u64::MAX / 2).to_le_bytes());
        let _ = tolerated(read_bytes(&damaged));
    }
}

#[test]
fn a_compressed_record_that_unfolds_without_end_is_read_in_pieces() {
    let mut file = PerfFile::new(false);
    // A gigabyte of records that mean nothing, in a few kilobytes.
    let nothing = file.record(79, &[0; 1016]);
    let packed = {
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        (0..1 << 20).for_each(|_| encoder.write_all(&nothing).unwrap());
        encoder.finish().unwrap()
    };
    file.records = packed.chunks(60_000).map(|piece| file.record(81, piece)).collect();
    let contents = read_bytes(&file.bytes()).unwrap();
    assert_eq!(contents.findings(), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_bytes_behind_the_magic(big_endian: bool, bytes: Vec<u8>) {
        let magic = if big_endian { b"2ELIFREP" } else { b"PERFILE2" };
        let _ = tolerated(read_bytes(&[&magic[..], &bytes].concat()));
        let stream_size = if big_endian { 16u64.to_be_bytes() } else { 16u64.to_le_bytes() };
        let _ = tolerated(read_bytes(&[&magic[..], &stream_size, &bytes].concat()));
    }

    #[test]
    fn flipped_bytes(flips in flips()) {
        let _ = tolerated(read_bytes(&flipped(whole(), flips)));
    }

    #[test]
    fn flipped_words_of_small_files(
        compressed: bool,
        stream: bool,
        place in any::<prop::sample::Index>(),
        value in any::<[u8; 4]>(),
    ) {
        let file = small(compressed);
        let mut damaged = if stream { file.stream() } else { file.bytes() };
        let place = place.index(damaged.len() - 4);
        damaged[place..place + 4].copy_from_slice(&value);
        let _ = tolerated(read_bytes(&damaged));
    }
}
