//! A standard output that was closed before the program began.
//!
//! Rust opens `/dev/null` in its place, so that a result would be lost without an error. This module is faster: before
//! `main`, it puts `/dev/full` there, so that the first write fails.

use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_getfd};
use rustix::stdio::{dup2_stdout, stdout};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed when the program began.
pub(crate) fn stdout_was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed) // set before any thread runs
}

#[used]
// SAFETY: the loader calls each address in this section as a function of this form, before `main` and on one thread. The
// function uses no part of the standard library that `main` prepares: it makes system calls and stores a flag.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = replace_closed_stdout;

extern "C" fn replace_closed_stdout() {
    if fcntl_getfd(stdout()) != Err(Errno::BADF) {
        return;
    }
    CLOSED.store(true, Ordering::Relaxed);
    if let Ok(full) = open("/dev/full", OFlags::WRONLY, Mode::empty()) {
        // The file stays open if it took the free place itself.
        let full = ManuallyDrop::new(full);
        if full.as_raw_fd() != stdout().as_raw_fd() && dup2_stdout(&*full).is_ok() {
            drop(ManuallyDrop::into_inner(full));
        }
    }
}
