//! How a process knows that it is the child of a fork: one page that the system wipes in children.
//!
//! On that page is also how the process runs sequences, so that one look says both that it may and that it is not a child.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

use super::mapping::{Backing, Mapping};
use super::rseq::Rseq;

/// What is on the page; all zero in children.
#[derive(Debug)]
struct Words {
    /// [`Rseq::word`] in the process that made it.
    sequences: AtomicIsize,
    /// True in the process that made it.
    in_creator: AtomicBool,
}

/// A page that is wiped in children.
#[derive(Debug)]
pub(crate) struct ForkDetector {
    map: Mapping,
}

impl ForkDetector {
    /// `sequences`: how the process runs them, if it does.
    pub(crate) fn new(sequences: Option<Rseq>) -> io::Result<ForkDetector> {
        let page = rustix::param::page_size();
        let map = Mapping::reserve(page, page, Backing::Lazy)?;
        map.wipe_in_forks()?;
        let fork_detector = ForkDetector { map };
        // Relaxed: written once, before the fork_detector is shared by whatever shares it.
        fork_detector.words().sequences.store(Rseq::word(sequences), Relaxed);
        fork_detector.words().in_creator.store(true, Relaxed);
        Ok(fork_detector)
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
    pub(crate) fn sequences(&self) -> Option<Rseq> {
        // Relaxed: see new.
        Rseq::from_word(self.words().sequences.load(Relaxed))
    }

    /// Whether this process is a child of the one that made the fork_detector.
    #[inline(always)]
    pub(crate) fn is_in_child(&self) -> bool {
        // Relaxed: see new.
        !self.words().in_creator.load(Relaxed)
    }
}
