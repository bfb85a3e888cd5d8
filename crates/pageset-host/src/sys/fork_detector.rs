//! Detection of forked children: a page that the system wipes in children (`MADV_WIPEONFORK`).
//!
//! The page also stores how the process runs restartable sequences. One load thus tells the fast path both that it can
//! run them and that the process is not a forked child.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

use super::mapping::{Backing, Mapping};
use super::rseq::Rseq;

/// The contents of the page. All are zero in children.
#[derive(Debug)]
struct Words {
    /// [`Rseq::to_word`] in the process that created the page.
    rseq: AtomicIsize,
    /// True in the process that created the page.
    in_creator: AtomicBool,
}

/// A page that the system wipes in forked children.
#[derive(Debug)]
pub(crate) struct ForkDetector {
    map: Mapping,
}

impl ForkDetector {
    /// Maps the page for this process. `rseq` is how the process runs restartable sequences, if it does.
    pub(crate) fn new(rseq: Option<Rseq>) -> io::Result<ForkDetector> {
        let page = rustix::param::page_size();
        let map = Mapping::reserve(page, page, Backing::Lazy)?;
        map.wipe_in_forks()?;
        let detector = ForkDetector { map };
        // Relaxed: written only here. What shares the detector with other threads also publishes the words.
        detector.words().rseq.store(Rseq::to_word(rseq), Relaxed);
        detector.words().in_creator.store(true, Relaxed);
        Ok(detector)
    }

    #[inline(always)]
    fn words(&self) -> &Words {
        // SAFETY: (1) the mapping is at least one page long, aligned to a page, and lives as long as `self`; (2) mapped
        // memory is always initialised, and zeros are a valid value; (3) the words are shared atomics, and only this
        // function refers to them.
        unsafe { self.map.pointer_to(self.map.start()).cast().as_ref() }
    }

    /// How the process runs restartable sequences, or `None` if it does not or is a forked child.
    #[inline(always)]
    pub(crate) fn rseq(&self) -> Option<Rseq> {
        // Relaxed: pairs with the store in new.
        Rseq::from_word(self.words().rseq.load(Relaxed))
    }

    /// Whether this process is a forked child of the process that created the detector.
    #[inline(always)]
    pub(crate) fn is_in_child(&self) -> bool {
        // Relaxed: pairs with the store in new.
        !self.words().in_creator.load(Relaxed)
    }
}
