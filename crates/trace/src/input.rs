//! The bytes of a trace, from a file or from memory, read at any place.

use crate::error::TraceError;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A trace's bytes. A file is read by position rather than mapped: what was read does not stay
/// resident, and a file that shrinks meanwhile is a short read instead of a signal.
#[derive(Clone, Debug)]
pub struct Input {
    path: PathBuf,
    storage: Storage,
    length: u64,
}

#[derive(Clone, Debug)]
enum Storage {
    File(Arc<File>),
    Memory(Arc<[u8]>),
}

impl Input {
    /// Opens a regular file.
    ///
    /// # Errors
    /// [`TraceError::Io`], also for a directory or a pipe.
    pub fn open(path: &Path) -> Result<Input, TraceError> {
        let failed = |source| TraceError::Io { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::Error::new(
                io::ErrorKind::IsADirectory,
                "is a directory; name a trace file in it",
            )));
        }
        if !metadata.is_file() {
            return Err(failed(io::Error::new(
                io::ErrorKind::Unsupported,
                "is not a regular file; copy the trace into one first",
            )));
        }
        let length = metadata.len();
        Ok(Input { path: path.to_path_buf(), storage: Storage::File(Arc::new(file)), length })
    }

    /// Takes bytes from memory; messages name them `name`.
    pub fn from_bytes(name: impl Into<PathBuf>, bytes: impl Into<Arc<[u8]>>) -> Input {
        let bytes = bytes.into();
        let length = bytes.len() as u64;
        Input { path: name.into(), storage: Storage::Memory(bytes), length }
    }

    /// The file's name, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes in all.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Fills `buffer` from `offset` as far as the bytes reach, and says how far that is.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.storage {
            Storage::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let source = &bytes[start..];
                let length = source.len().min(buffer.len());
                buffer[..length].copy_from_slice(&source[..length]);
                Ok(length)
            }
            Storage::File(file) => {
                let mut filled = 0;
                while filled < buffer.len() {
                    match file.read_at(&mut buffer[filled..], offset.saturating_add(filled as u64))
                    {
                        Ok(0) => break,
                        Ok(length) => filled += length,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(filled)
            }
        }
    }

    /// Up to `length` bytes from `offset`, fewer at the end.
    ///
    /// # Errors
    /// [`TraceError::Io`].
    pub fn bytes_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, TraceError> {
        let available = self.length.saturating_sub(offset);
        let length = length.min(usize::try_from(available).unwrap_or(usize::MAX));
        let mut bytes = vec![0; length];
        let filled = self.read_at(offset, &mut bytes).map_err(|source| self.io_error(source))?;
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// An error of the operating system, with this file's name.
    pub fn io_error(&self, source: io::Error) -> TraceError {
        TraceError::Io { path: self.path.clone(), source }
    }

    /// Damage at `offset` without which nothing can be read.
    pub fn malformed(&self, offset: u64, what: impl Into<String>) -> TraceError {
        TraceError::Malformed { path: self.path.clone(), offset, what: what.into() }
    }

    /// A reader from the start.
    pub fn reader(&self) -> InputReader {
        InputReader { input: self.clone(), position: 0 }
    }
}

/// [`Input`] as a stream.
#[derive(Debug)]
pub struct InputReader {
    input: Input,
    position: u64,
}

impl InputReader {
    /// Where the next byte comes from.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes on from `position`, which may lie behind the end.
    pub(crate) fn set_position(&mut self, position: u64) {
        self.position = position;
    }
}

impl Read for InputReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read_at(self.position, buffer)?;
        self.position += length as u64;
        Ok(length)
    }
}

impl Seek for InputReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(offset) => self.input.length.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_reads_stop_at_the_end() {
        let input = Input::from_bytes("x", vec![1, 2, 3]);
        assert_eq!(input.bytes_at(1, 10).unwrap(), [2, 3]);
        assert!(input.bytes_at(u64::MAX, 10).unwrap().is_empty());
        let mut reader = input.reader();
        reader.seek(SeekFrom::End(-1)).unwrap();
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, [3]);
        assert!(reader.seek(SeekFrom::Current(-4)).is_err());
    }

    #[test]
    fn a_directory_is_refused() {
        let error = Input::open(Path::new("/")).unwrap_err();
        assert!(error.to_string().contains("directory"), "{error}");
    }
}
