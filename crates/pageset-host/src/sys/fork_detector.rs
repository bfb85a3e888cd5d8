//! Detection of forked children: a page that the system wipes in children (`MADV_WIPEONFORK`).
//!
//! The page also stores how the fast paths run restartable sequences. One load thus tells a fast path both that it can run them
//! and that the process is not a forked child. The word that tells frees of callers that wait is on the same cache line.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

use super::mapping::{Backing, Mapping};
use super::rseq::Rseq;

/// The contents of the page. All are zero in children.
#[derive(Debug)]
struct Words {
    /// [`Rseq::to_word`] of the fast path of allocations, in the process that created the page.
    rseq_of_allocs: AtomicIsize,
    /// [`Rseq::to_word`] of the fast path of frees, in the process that created the page.
    rseq_of_frees: AtomicIsize,
    /// True in the process that created the page.
    in_creator: AtomicBool,
    /// Whether a caller waits for memory.
    is_awaited: AtomicBool,
}

/// A page that the system wipes in forked children.
#[derive(Debug)]
pub(crate) struct ForkDetector {
    map: Mapping,
}

impl ForkDetector {
    /// Maps the page for this process. The arguments say how the fast paths of allocations and of frees run restartable
    /// sequences, if there are such fast paths.
    pub(crate) fn new(rseq_of_allocs: Option<Rseq>, rseq_of_frees: Option<Rseq>) -> io::Result<ForkDetector> {
        let page = rustix::param::page_size();
        let map = Mapping::reserve(page, page, Backing::Lazy)?;
        map.wipe_in_forks()?;
        let detector = ForkDetector { map };
        // Relaxed: written only here. What shares the detector with other threads also publishes the words.
        detector.words().rseq_of_allocs.store(Rseq::to_word(rseq_of_allocs), Relaxed);
        detector.words().rseq_of_frees.store(Rseq::to_word(rseq_of_frees), Relaxed);
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

    /// How the fast path of allocations runs restartable sequences. `None` if there is none, and in a forked child.
    #[inline(always)]
    pub(crate) fn rseq_of_allocs(&self) -> Option<Rseq> {
        // Relaxed: pairs with the store in new.
        Rseq::from_word(self.words().rseq_of_allocs.load(Relaxed))
    }

    /// How the fast path of frees runs restartable sequences. `None` if there is none, and in a forked child.
    #[inline(always)]
    pub(crate) fn rseq_of_frees(&self) -> Option<Rseq> {
        // Relaxed: pairs with the store in new.
        Rseq::from_word(self.words().rseq_of_frees.load(Relaxed))
    }

    /// Whether a caller waits for memory. False in a forked child.
    #[inline(always)]
    pub(crate) fn is_awaited(&self) -> bool {
        // Relaxed: `wait.rs` says what orders it.
        self.words().is_awaited.load(Relaxed)
    }

    /// Sets what [`Self::is_awaited`] returns in this process.
    pub(crate) fn set_awaited(&self, on: bool) {
        // Relaxed: `wait.rs` says what orders it.
        self.words().is_awaited.store(on, Relaxed);
    }

    /// Whether this process is a forked child of the process that created the detector.
    #[inline(always)]
    pub(crate) fn is_in_child(&self) -> bool {
        // Relaxed: pairs with the store in new.
        !self.words().in_creator.load(Relaxed)
    }
}
