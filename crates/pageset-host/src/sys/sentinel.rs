//! How a process knows that it is the child of a fork: one page that the system wipes in children.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::mapping::{Backing, Mapping};

/// A word that is 1 in the process that made it and 0 in its children.
#[derive(Debug)]
pub(crate) struct Sentinel {
    map: Mapping,
}

impl Sentinel {
    pub(crate) fn new() -> io::Result<Sentinel> {
        let page = rustix::param::page_size();
        let map = Mapping::reserve(page, page, Backing::Lazy)?;
        map.wipe_in_forks()?;
        let sentinel = Sentinel { map };
        // Relaxed: written once, before the sentinel is shared by whatever shares it.
        sentinel.word().store(1, Relaxed);
        Ok(sentinel)
    }

    #[inline(always)]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: (1) the mapping is at least a page long, aligned to one, and lives as long as `self`; (2) it is
        // mapped memory, so always initialised; (3) nothing but this function refers to it.
        unsafe { AtomicU32::from_ptr(self.map.at(self.map.start()).as_ptr().cast()) }
    }

    /// Whether this process is a child of the one that made the sentinel.
    #[inline(always)]
    pub(crate) fn is_in_child(&self) -> bool {
        // Relaxed: see new.
        self.word().load(Relaxed) == 0
    }
}
