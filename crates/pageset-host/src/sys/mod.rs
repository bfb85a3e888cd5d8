//! The unsafe code of this crate: system calls on memory, the thread pointer, slices over mapped memory.
//!
//! The modules above call it safely. Unsafe code outside this folder is limited to the slices of handles, the trait of
//! allocator-api2, and raw frees.

pub(crate) mod barrier;
pub(crate) mod checkers;
pub(crate) mod cpu;
pub(crate) mod fork_detector;
pub(crate) mod mapped_allocator;
pub(crate) mod mapping;
pub(crate) mod numa;
pub(crate) mod rseq;
pub(crate) mod shared;

use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;

/// Whether the caller is this thread. Unlike `thread::current`, this allocates nothing in threads that Rust did not start: leak
/// checkers would report that.
pub(crate) fn is_current(thread: &JoinHandle<()>) -> bool {
    // SAFETY: the call reads the caller's own thread pointer.
    let caller = unsafe { libc::pthread_self() };
    // The handle keeps the number from being used again.
    thread.as_pthread_t() == caller
}
