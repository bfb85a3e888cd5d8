//! Memory of the benchmark, mapped for a measurement.
#![allow(unsafe_code, reason = "mmap, madvise and munmap")]

use std::io;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The size of a huge page on x86-64, and on Arm with pages of 4 KiB.
const HUGE_BYTES: usize = 2 << 20;

/// Zeroed memory without other references.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping owns its memory; shared references give out atomics only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Private memory of at least `bytes`, in huge pages where the system has them.
    pub(super) fn huge(bytes: usize) -> io::Result<Mapping> {
        let map = Mapping::new(bytes.next_multiple_of(HUGE_BYTES), MapFlags::PRIVATE)?;
        // SAFETY: the range is this mapping. Without huge pages the memory has small ones.
        let _ = unsafe { madvise(map.start.as_ptr().cast(), map.bytes, Advice::LinuxHugepage) };
        Ok(map)
    }

    /// Memory in pages of the base size, untouched.
    pub(super) fn small(bytes: usize) -> io::Result<Mapping> {
        let map = Mapping::new(bytes, MapFlags::PRIVATE)?;
        // SAFETY: as in `huge`. A kernel without huge pages refuses this advice and needs none.
        let _ = unsafe { madvise(map.start.as_ptr().cast(), map.bytes, Advice::LinuxNoHugepage) };
        Ok(map)
    }

    /// Memory that this process shares with its children.
    pub(super) fn shared(bytes: usize) -> io::Result<Mapping> {
        Mapping::new(bytes, MapFlags::SHARED)
    }

    fn new(bytes: usize, flags: MapFlags) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address of the system's choice affects no other memory.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        NonNull::new(start.cast())
            .map(|start| Mapping { start, bytes })
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// The memory as words that several threads and processes may use.
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: (1) the mapping is aligned to pages; (2) all bit patterns are valid; (3) exclusive references need an
        // exclusive reference to the mapping; (4) the memory lives as long as the mapping.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / size_of::<AtomicU64>()) }
    }

    /// The memory as bytes.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `words`, and the exclusive reference excludes others.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, and references to its memory borrow the mapping.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
