//! How a process knows that it is the child of a fork: one page that the system wipes in children.
//!
//! On that page is also how the process runs sequences, so that one look says both that it may and that it is not a child.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

use super::mapping::{Backing, Mapping};
use super::sequence::Sequences;

/// What is on the page; all zero in children.
#[derive(Debug)]
struct Words {
    /// [`Sequences::word`] in the process that made it.
    sequences: AtomicIsize,
    /// True in the process that made it.
    is_home: AtomicBool,
}

/// A page that is wiped in children.
#[derive(Debug)]
pub(crate) struct Sentinel {
    map: Mapping,
}

impl Sentinel {
    /// `sequences`: how the process runs them, if it does.
    pub(crate) fn new(sequences: Option<Sequences>) -> io::Result<Sentinel> {
        let page = rustix::param::page_size();
        let map = Mapping::reserve(page, page, Backing::Lazy)?;
        map.wipe_in_forks()?;
        let sentinel = Sentinel { map };
        // Relaxed: written once, before the sentinel is shared by whatever shares it.
        sentinel.words().sequences.store(Sequences::word(sequences), Relaxed);
        sentinel.words().is_home.store(true, Relaxed);
        Ok(sentinel)
    }

    #[inline(always)]
    fn words(&self) -> &Words {
        // SAFETY: (1) the mapping is at least a page long, aligned to one, and lives as long as `self`; (2) it is
        // mapped memory, so always initialised, and zeros are a value; (3) it is shared and atomic, and nothing but this
        // function refers to it.
        unsafe { self.map.at(self.map.start()).cast().as_ref() }
    }

    /// How the process runs sequences: nothing in a child of it.
    #[inline(always)]
    pub(crate) fn sequences(&self) -> Option<Sequences> {
        // Relaxed: see new.
        Sequences::from_word(self.words().sequences.load(Relaxed))
    }

    /// Whether this process is a child of the one that made the sentinel.
    #[inline(always)]
    pub(crate) fn is_in_child(&self) -> bool {
        // Relaxed: see new.
        !self.words().is_home.load(Relaxed)
    }
}
