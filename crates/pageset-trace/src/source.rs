//! The file of a recording, which several passes read at once, each from its own position.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::error::TraceError;

/// A file, open for repeated reading. It stays the same file if another file takes its name.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    file: Arc<File>,
    bytes: u64,
}

impl Source {
    /// Opens `path`; `-` is standard input. An input that cannot be read twice (a pipe, a terminal) is first copied
    /// into an unnamed temporary file.
    pub(crate) fn open(path: &Path) -> Result<Source, TraceError> {
        let opened = if path.as_os_str() == "-" { spool(io::stdin().lock()) } else { Self::open_file(path) };
        opened.map_err(|e| TraceError::io("cannot be opened", e).in_file(path))
    }

    /// These bytes, in an unnamed temporary file.
    pub(crate) fn of_bytes(bytes: &[u8]) -> io::Result<Source> {
        spool(bytes)
    }

    fn open_file(path: &Path) -> io::Result<Source> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() {
            return spool(file);
        }
        Ok(Source { file: Arc::new(file), bytes: metadata.len() })
    }

    /// The file's length in bytes when it was opened.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A cursor at `position`, in bytes.
    pub(crate) fn at(&self, position: u64) -> Cursor {
        Cursor { file: Arc::clone(&self.file), position }
    }

    /// The first bytes of the file, at most `max`.
    pub(crate) fn start(&self, max: usize) -> io::Result<Vec<u8>> {
        let mut start = Vec::new();
        self.at(0).take(max as u64).read_to_end(&mut start)?;
        Ok(start)
    }
}

/// Copies `input` into a file that is deleted when closed.
fn spool(mut input: impl Read) -> io::Result<Source> {
    let mut file = tempfile::tempfile()?;
    let bytes = io::copy(&mut input, &mut file)?;
    Ok(Source { file: Arc::new(file), bytes })
}

/// One pass over a [`Source`].
#[derive(Debug)]
pub(crate) struct Cursor {
    file: Arc<File>,
    position: u64,
}

impl Read for Cursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read_at(buffer, self.position)?;
        self.position += bytes as u64;
        Ok(bytes)
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(step) => self.position.checked_add_signed(step),
            SeekFrom::End(step) => self.file.metadata()?.len().checked_add_signed(step),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
