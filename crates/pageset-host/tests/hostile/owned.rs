//! Runs with their owner's stamp.

use std::ops::DerefMut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pageset_host::PAGE_BYTES;

use crate::fail;

/// The next stamp. Each is used once, and 0 never.
static STAMPS: AtomicU64 = AtomicU64::new(1);

/// The memory of a run, in any kind of handle.
pub(crate) type Handle<'p> = Box<dyn DerefMut<Target = [u8]> + Send + 'p>;

/// A run with the stamp of its owner at both ends of each page.
pub(crate) struct Owned<'p> {
    run: Handle<'p>,
    stamp: u64,
}

impl<'p> Owned<'p> {
    /// Stamps a run that was just allocated.
    pub(crate) fn new(run: impl DerefMut<Target = [u8]> + Send + 'p) -> Owned<'p> {
        let mut run: Handle<'p> = Box::new(run);
        let stamp = stamp(&mut run);
        Owned { run, stamp }
    }

    /// Checks the stamps.
    pub(crate) fn check(&self) {
        check(&self.run, self.stamp);
    }

    /// Overwrites the stamps, and checks the new ones: for the copy that a forked child has.
    pub(crate) fn stamp_again(&mut self) {
        self.stamp = stamp(&mut self.run);
        self.check();
    }

    /// Checks the stamps, then frees the run.
    pub(crate) fn free(self) {
        self.check();
        drop(self.run);
    }
}

/// Writes a new stamp to both ends of each page.
pub(crate) fn stamp(run: &mut [u8]) -> u64 {
    let stamp = STAMPS.fetch_add(1, Relaxed);
    for page in run.chunks_exact_mut(PAGE_BYTES) {
        page[..8].copy_from_slice(&stamp.to_ne_bytes());
        page[PAGE_BYTES - 8..].copy_from_slice(&stamp.to_ne_bytes());
    }
    stamp
}

/// Whether all pages of a run have a stamp.
pub(crate) fn has_stamp(run: &[u8], stamp: u64) -> bool {
    let stamp = stamp.to_ne_bytes();
    run.chunks_exact(PAGE_BYTES).all(|page| page[..8] == stamp && page[PAGE_BYTES - 8..] == stamp)
}

/// Ends the program if a run has not the stamp of its owner.
pub(crate) fn check(run: &[u8], stamp: u64) {
    if !has_stamp(run, stamp) {
        fail(&format!("the run of {} bytes at {:?} has two owners", run.len(), run.as_ptr()));
    }
}
