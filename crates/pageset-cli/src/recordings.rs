//! Recordings that the commands open: files, standard input, and the one that is built in.

use std::path::Path;

use pageset_trace::{OpenOptions, Trace, TraceError};

/// The name of the built-in recording. A file of this name goes first.
pub(crate) const DEMO: &str = "demo";

/// An AF_UNIX stream of 1.5 seconds on a Linux 6.18 machine with 4 CPUs. It is one of `traces/lab`.
pub(crate) const DEMO_BYTES: &[u8] = include_bytes!("../demo.pstrace");

/// Whether a name means the built-in recording.
pub(crate) fn is_demo(path: &Path) -> bool {
    path.as_os_str() == DEMO && !path.exists()
}

pub(crate) fn open(path: &Path) -> Result<Trace, TraceError> {
    open_with(path, &OpenOptions::default())
}

/// Opens a recording with other files than [`open`] would find.
pub(crate) fn open_with(path: &Path, options: &OpenOptions) -> Result<Trace, TraceError> {
    if is_demo(path) { Trace::of_bytes(DEMO, DEMO_BYTES) } else { Trace::open_with(path, options) }
}
