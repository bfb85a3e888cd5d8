//! Compaction: free blocks made by moving movable pages out of the way.
//!
//! Specification: `linux-page-allocator.md` 7.

#[allow(dead_code, reason = "the scanners that ask it are the next step")]
pub(crate) mod defer;
