//! The compressions that trace-cmd writes.

use flate2::{Decompress, FlushDecompress, Status};

/// The algorithm that a version 7 file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Zlib,
    Zstd,
}

impl Algorithm {
    /// By trace-cmd's name for it; `None` for one that is unknown.
    pub(super) fn from_name(name: &[u8]) -> Option<Algorithm> {
        match name {
            b"zlib" => Some(Algorithm::Zlib),
            b"zstd" => Some(Algorithm::Zstd),
            _ => None,
        }
    }
}

/// Unpacks blocks of one file, one at a time, reusing its working memory.
pub(super) struct Decompressor {
    algorithm: Algorithm,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Decompressor {
    pub(super) fn new(algorithm: Algorithm) -> Decompressor {
        Decompressor { algorithm, zstd: None }
    }

    /// Unpacks one block of `length` bytes into `unpacked`, whose former content goes. A block
    /// that is broken or of another length says why.
    pub(super) fn unpack(
        &mut self,
        packed: &[u8],
        length: usize,
        unpacked: &mut Vec<u8>,
    ) -> Result<(), String> {
        unpacked.clear();
        unpacked.reserve_exact(length);
        match self.algorithm {
            Algorithm::Zstd => {
                let zstd = match &mut self.zstd {
                    Some(zstd) => zstd,
                    none => none.insert(
                        zstd::bulk::Decompressor::new().map_err(|error| error.to_string())?,
                    ),
                };
                zstd.decompress_to_buffer(packed, unpacked).map_err(|error| error.to_string())?;
            }
            Algorithm::Zlib => {
                let status = Decompress::new(true)
                    .decompress_vec(packed, unpacked, FlushDecompress::Finish)
                    .map_err(|error| error.to_string())?;
                if status != Status::StreamEnd {
                    return Err("the zlib stream has no end".to_owned());
                }
            }
        }
        if unpacked.len() == length {
            Ok(())
        } else {
            Err(format!("{} bytes came out, {length} were announced", unpacked.len()))
        }
    }
}
