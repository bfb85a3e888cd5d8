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
