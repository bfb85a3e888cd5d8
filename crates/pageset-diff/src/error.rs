//! Inputs that cannot be read or compared.

use std::io;
use std::path::PathBuf;

use pageset_study::error::StoreError;
use pageset_trace::TraceError;

/// The reason why inputs cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The content of a file is damaged, or of a kind that is not compared.
    #[error("{}: {what}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// A folder has no file that can be compared.
    #[error("cannot compare {}: the folder has no recording and no result", .path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// A recording cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A table of a study cannot be read.
    #[error(transparent)]
    Table(#[from] StoreError),
    /// The sides have no kind of input in common.
    #[error("cannot compare inputs of different kinds: in A, {a}; in B, {b}")]
    OtherKinds {
        /// For each kind of A, its first file and what that is.
        a: String,
        /// For each kind of B, its first file and what that is.
        b: String,
    },
    /// The sides have no case in common.
    #[error("cannot compare: A and B have nothing in common; A has {a}; B has {b}")]
    NothingInCommon {
        /// The first case of A, and how many more there are.
        a: String,
        /// The first case of B, and how many more there are.
        b: String,
    },
}

impl DiffError {
    /// The remedy, if one is known.
    #[must_use]
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::Damaged { .. } | Self::Empty { .. } => {
                Some("use recordings, tables of `pageset study`, or the JSON of replay, run, sweep or bench")
            }
            Self::OtherKinds { .. } => Some(
                "compare recordings with recordings, results of replay with results of replay, results of run, sweep and \
                 study with each other, or results of bench with results of bench",
            ),
            Self::NothingInCommon { .. } => Some("compare results of the same command on the same load"),
            _ => None,
        }
    }
}
