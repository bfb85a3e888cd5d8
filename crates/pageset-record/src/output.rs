//! The destination of a recording: a file gets its name only when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use crate::error::RecordError;

/// The permissions of a recording: only its owner may read it, because page frame numbers help an attacker of this
/// machine.
const MODE: u32 = 0o600;

/// Room that a file reserves on its disk for what comes before the events: the snapshots, compressed. A guess.
/// Unit: bytes.
const RESERVE_BYTES: u64 = 1 << 20;
/// The part of the reserve that is kept for the end of the recording. Unit: bytes.
const RESERVE_END_BYTES: u64 = 64 << 10;

/// The user and the group behind `sudo`, to whom files belong. Only root can give a file away.
fn behind_sudo() -> Option<(u32, u32)> {
    let id = |name| std::env::var(name).ok()?.parse().ok().filter(|&id| id != u32::MAX);
    if rustix::process::geteuid().is_root() { Some((id("SUDO_UID")?, id("SUDO_GID")?)) } else { None }
}

/// The destination of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard output. The command's output then goes to standard error.
    Stdout,
    /// A file. An existing file is replaced once the recording is complete; a device or pipe is written to directly.
    File(PathBuf),
}

/// A destination opened for writing. Dropping it without a commit removes the file.
#[derive(Debug)]
pub(super) struct Output {
    sink: Sink,
    /// The name in messages.
    name: String,
    bytes: u64,
}

#[derive(Debug)]
enum Sink {
    Stdout(io::Stdout),
    Direct(File),
    Replace {
        file: File,
        partial: PathBuf,
        path: PathBuf,
        /// A file without a name that holds room on the disk.
        reserve: Option<File>,
    },
}

impl Output {
    /// Opens the destination. A file gets a temporary name in the same folder.
    pub(super) fn open(destination: &Destination) -> Result<Self, RecordError> {
        let path = match destination {
            Destination::Stdout => {
                return Ok(Output { sink: Sink::Stdout(io::stdout()), name: "standard output".into(), bytes: 0 });
            }
            Destination::File(path) => path,
        };
        let name = path.display().to_string();
        let failed = |source| RecordError::Output { what: format!("write {name}"), source, help: None };
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
            return Ok(Output { sink: Sink::Direct(file), name, bytes: 0 });
        }
        // The target of a link is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let file_name = path.file_name().ok_or_else(|| failed(io::ErrorKind::IsADirectory.into()))?;
        let partial = format!(".{}.{}.part", file_name.to_string_lossy(), std::process::id());
        let partial = path.with_file_name(partial);
        // A killed run may have left a file, with any permissions.
        let _ = fs::remove_file(&partial);
        let file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&partial).map_err(failed)?;
        let mut output = Output { sink: Sink::Replace { file, partial, path, reserve: None }, name, bytes: 0 };
        if let (Sink::Replace { file, .. }, Some((user, group))) = (&output.sink, behind_sudo()) {
            // A file system without owners, such as vfat, refuses this.
            let _ = fchown(file, Some(user), Some(group));
        }
        let room = tempfile::tempfile_in(output.folder()).ok();
        let room = room.filter(|room| fallocate(room, FallocateFlags::empty(), 0, RESERVE_BYTES).is_ok());
        if let Sink::Replace { reserve, .. } = &mut output.sink {
            *reserve = room;
        }
        Ok(output)
    }

    /// The destination's name in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A folder for temporary files: the file's own folder, or the system's temporary folder.
    pub(super) fn folder(&self) -> PathBuf {
        match &self.sink {
            Sink::Replace { partial, .. } => partial.parent().map_or_else(|| ".".into(), |f| or_current(f).to_owned()),
            Sink::Stdout(_) | Sink::Direct(_) => std::env::temp_dir(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Shortens the file to its first `bytes` bytes, after which there is room for the end of the recording. Fails for a
    /// device, a pipe or standard output.
    pub(super) fn shorten(&mut self, bytes: u64) -> io::Result<()> {
        let Sink::Replace { file, reserve, .. } = &mut self.sink else { return Err(io::ErrorKind::NotSeekable.into()) };
        *reserve = None;
        file.set_len(bytes)?;
        file.seek(SeekFrom::Start(bytes))?;
        self.bytes = bytes;
        Ok(())
    }

    /// Frees the room that is reserved, before the end of the recording is written.
    pub(super) fn free_reserve(&mut self) {
        if let Sink::Replace { reserve, .. } = &mut self.sink {
            *reserve = None;
        }
    }

    /// Gives the complete file its name and flushes it to disk.
    pub(super) fn commit(mut self) -> io::Result<()> {
        self.flush()?;
        if let Sink::Replace { file, partial, path, .. } = &self.sink {
            file.sync_all()?;
            fs::rename(partial, path)?;
            // The rename is on disk once its folder is flushed; not every file system supports that.
            if let Some(Ok(folder)) = path.parent().map(|folder| File::open(or_current(folder))) {
                let _ = folder.sync_all();
            }
        }
        Ok(())
    }
}

/// Whether `error` means that there is no more room, on the disk or in the user's quota.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

fn or_current(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.sink {
            Sink::Stdout(stdout) => stdout.write(bytes),
            Sink::Direct(file) => file.write(bytes),
            Sink::Replace { file, reserve, .. } => match (file.write(bytes), reserve) {
                (Err(error), Some(room)) if is_full(&error) => {
                    room.set_len(RESERVE_END_BYTES)?;
                    file.write(bytes)
                }
                (written, _) => written,
            },
        }?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Stdout(stdout) => stdout.flush(),
            Sink::Direct(file) | Sink::Replace { file, .. } => file.flush(),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Sink::Replace { partial, .. } = &self.sink {
            // After a commit the partial file no longer exists.
            let _ = fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_completely_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("pageset-output-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.pstrace");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let destination = Destination::File(path.clone());

        let mut output = Output::open(&destination).unwrap();
        output.write_all(b"half").unwrap();
        drop(output);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");

        let mut output = Output::open(&destination).unwrap();
        output.write_all(b"new").unwrap();
        assert_eq!(output.bytes(), 3);
        output.commit().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600, "readable by others");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "a partial file was left");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_device_stays_a_device() {
        let mut output = Output::open(&Destination::File("/dev/full".into())).unwrap();
        assert_eq!(output.write_all(b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
        drop(output);
        assert!(!fs::metadata("/dev/full").unwrap().is_file());
        assert!(Output::open(&Destination::File("/nonexistent/x".into())).is_err());
    }
}
