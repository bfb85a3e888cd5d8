//! Blocks whose free was deferred: a list that any context may push on without a lock, and that the zone's holder empties.

use super::Zone;
use crate::machine::Machine;
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{LockedWord, const_new};

/// A list of blocks, the newest first. Each block's own link names the block before it.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    /// The newest block plus one; 0 for none.
    newest: AtomicU32,
}

impl Deferred {
    const_new! {
        #[inline]
        pub(crate) fn new() -> Self {
            Deferred { newest: AtomicU32::new(0) }
        }
    }

    /// Whether the list is empty, at a recent moment.
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: a hint.
        self.newest.load(Relaxed) == 0
    }

    /// Puts a block on the list. Waits for nothing. `link` stores the word that [`Self::take`] reads.
    pub(crate) fn push(&self, block: u32, link: impl Fn(u32)) {
        // Relaxed: the exchange below publishes the link.
        let mut newest = self.newest.load(Relaxed);
        loop {
            link(newest);
            // Release: pairs with the acquires in take, which read the link.
            match self.newest.compare_exchange_weak(newest, block + 1, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => newest = now,
            }
        }
    }

    /// The blocks, the newest first. Nobody takes one meanwhile.
    #[cfg(feature = "research")]
    pub(crate) fn blocks(&self, link: impl Fn(u32) -> u32) -> impl Iterator<Item = u32> {
        // Acquire: as in take.
        core::iter::successors(self.newest.load(Acquire).checked_sub(1), move |&block| link(block).checked_sub(1))
    }

    /// Takes the newest block. `link` reads the word of a block. The lock of the list's owner, a zone or a pageset, is held, so nobody else takes one: the block
    /// that is the newest here stays on the list, with its link, until this call takes it.
    pub(crate) fn take(&self, link: impl Fn(u32) -> u32) -> Option<u32> {
        // Acquire, here and below: pairs with the release in push.
        let mut newest = self.newest.load(Acquire);
        loop {
            let block = newest.checked_sub(1)?;
            match self.newest.compare_exchange_weak(newest, link(block), Acquire, Acquire) {
                Ok(_) => return Some(block),
                Err(now) => newest = now,
            }
        }
    }
}

/// The deferred frees of a zone.
impl<M: Machine> Zone<'_, M> {
    /// The link of a block, which is unused while the block is in use: the list of deferred frees has it.
    pub(crate) fn deferred_link(&self, page: u32) -> &core::sync::atomic::AtomicU32 {
        let frames = &self.frames;
        frames.links.next(frames.slot(page, frames.tag(page).order()))
    }

    /// Puts a claimed block on the list of deferred frees. Takes no lock and waits for nothing.
    pub(crate) fn defer(&self, page: u32) {
        let link = self.deferred_link(page);
        // Relaxed: only the sum counts. Added first, so that the holder that completes the free does not subtract more than there is.
        self.deferred_pages.fetch_add(self.frames.tag(page).order().pages() as u32, Relaxed);
        self.deferred.push(page, |before| link.set(before));
    }

    /// Subtracts pages whose free is complete.
    pub(crate) fn sub_deferred(&self, pages: u32) {
        // Release: pairs with the acquire in deferred_pages.
        self.deferred_pages.fetch_sub(pages, Release);
    }

    /// Pages whose free is deferred, at a recent moment.
    pub(crate) fn deferred_pages(&self) -> u64 {
        // Acquire: pairs with the release in `sub_deferred`. A reader that sees a free complete also sees the counters that it added to.
        self.deferred_pages.load(Acquire).into()
    }

    /// Counts a page as deferred that is not.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn plant_deferred_page(&self) {
        self.deferred_pages.fetch_add(1, Relaxed);
    }
}
