//! Texts of `/proc`, read from open files into preallocated memory. A read that allocates kernel pages would change the
//! recording.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::error::RecordError;

/// An open file of `/proc`.
#[derive(Debug)]
pub(super) struct ProcText {
    path: &'static str,
    file: File,
}

impl ProcText {
    pub(super) fn open(path: &'static str) -> Result<Self, RecordError> {
        let file = File::open(path).map_err(RecordError::on("read", Path::new(path)))?;
        Ok(ProcText { path, file })
    }

    /// Reads the current text into the beginning of `room` and returns its length in bytes.
    pub(super) fn read(&self, room: &mut [u8]) -> Result<usize, RecordError> {
        self.try_read(room).map_err(RecordError::on("read", Path::new(self.path)))
    }

    fn try_read(&self, room: &mut [u8]) -> io::Result<usize> {
        let mut length = 0;
        loop {
            match self.file.read_at(&mut room[length..], length as u64) {
                Ok(0) if length < room.len() => return Ok(length),
                Ok(0) => return Err(io::Error::other("it is longer than it was")),
                Ok(more) => length += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The current length of the text in bytes.
    pub(super) fn length(&self) -> Result<usize, RecordError> {
        let mut room = room(1 << 16);
        loop {
            match self.try_read(&mut room) {
                Ok(length) => return Ok(length),
                // The largest text, with 1024 CPUs and 8 nodes, is smaller than this limit.
                Err(_) if room.len() < 16 << 20 => room = self::room(2 * room.len()),
                Err(error) => return Err(RecordError::on("read", Path::new(self.path))(error)),
            }
        }
    }
}

/// A buffer of `bytes` bytes. It is filled with ones, because the kernel allocates zero pages only when they are
/// written.
pub(super) fn room(bytes: usize) -> Vec<u8> {
    vec![1; bytes]
}

/// The names and paths of the texts that are read before and after the recording.
pub(super) const OUTER_TEXTS: [(&str, &str); 3] =
    [("buddyinfo", "/proc/buddyinfo"), ("pagetypeinfo", "/proc/pagetypeinfo"), ("vmstat", "/proc/vmstat")];

/// Reads [`OUTER_TEXTS`] without allocating memory.
#[derive(Debug)]
pub(super) struct OuterTexts(Vec<(ProcText, Vec<u8>)>);

impl OuterTexts {
    /// Opens the texts and allocates their buffers.
    pub(super) fn prepare() -> Result<Self, RecordError> {
        let prepare = |&(_, path): &(&str, &'static str)| {
            let text = ProcText::open(path)?;
            // Numbers may have more digits later.
            let room = room(2 * text.length()? + 4096);
            Ok((text, room))
        };
        OUTER_TEXTS.iter().map(prepare).collect::<Result<_, _>>().map(OuterTexts)
    }

    /// Reads the current texts. Bytes that are not UTF-8, which the kernel does not write, are replaced.
    pub(super) fn take(mut self) -> Result<Vec<String>, RecordError> {
        for (text, room) in &mut self.0 {
            let length = text.read(room)?;
            room.truncate(length);
        }
        let into_string = |(_, room): (ProcText, Vec<u8>)| match String::from_utf8(room) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        Ok(self.0.into_iter().map(into_string).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_and_its_length() {
        let text = ProcText::open("/proc/version").unwrap();
        let expected = std::fs::read("/proc/version").unwrap();
        assert_eq!(text.length().unwrap(), expected.len());
        let mut room = room(expected.len() + 1);
        for _ in 0..2 {
            assert_eq!(text.read(&mut room).unwrap(), expected.len());
            assert_eq!(room[..expected.len()], expected);
        }
        let error = text.read(&mut room[..expected.len()]).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /proc/version: it is longer than it was");
        assert!(ProcText::open("/proc/nonexistent").is_err());
    }
}
