//! Invalid study files, and results that cannot be stored.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// An invalid study file: file, line and fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}{}: {what}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct FileError {
    file: String,
    line: Option<usize>,
    what: String,
    is_unreadable: bool,
}

impl FileError {
    pub(crate) fn new(file: &str, what: String) -> Self {
        FileError { file: file.to_owned(), line: None, what, is_unreadable: false }
    }

    /// A study file that cannot be read.
    pub(crate) fn unreadable(file: &str, error: &io::Error) -> Self {
        FileError { is_unreadable: true, ..Self::new(file, error.to_string()) }
    }

    /// Whether the file cannot be read, so that nothing is known of its content.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// A fault of the value at these bytes of `text`.
    pub(crate) fn at(file: &str, text: &str, bytes: Option<Range<usize>>, what: &str) -> Self {
        let before = bytes.and_then(|bytes| text.get(..bytes.start.min(text.len())));
        let line = before.map(|before| before.matches('\n').count() + 1);
        FileError { line, ..Self::new(file, what.lines().collect::<Vec<_>>().join(" ")) }
    }
}

/// A file of results that cannot be read or written, or is damaged.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An error of the operating system.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// What failed, such as `write`.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// This host starts no thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The file is not what was written.
    #[error("{}: {what}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
}

impl StoreError {
    /// Whether no other cell can be stored either: the folder is full or cannot be written.
    pub fn concerns_all(&self) -> bool {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let all = [PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull];
        matches!(self, StoreError::Io { what, source, .. } if *what != "read" && all.contains(&source.kind()))
    }

    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| StoreError::Io { what, path, source }
    }

    pub(crate) fn damaged(path: &Path, what: impl ToString) -> Self {
        StoreError::Damaged { path: path.to_owned(), what: what.to_string() }
    }
}
