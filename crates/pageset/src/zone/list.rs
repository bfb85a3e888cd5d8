//! Free lists, linked through the pages' links: push at either end, remove.
//!
//! A *slot* is the number of a pair of links: the block's first page; for pageblocks and larger blocks a dense number
//! of its own (see [`crate::frame::Frames::slot`]). All calls are made with the zone lock held.

use core::sync::atomic::AtomicU32;

use crate::frame::Links;
use crate::sync::LockedWord;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// One free list: its ends and its length in blocks.
#[derive(Debug)]
pub(crate) struct List {
    pub(super) head: AtomicU32,
    pub(super) tail: AtomicU32,
    pub(super) len: AtomicU32,
}

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The end where blocks are taken.
    Head,
    /// The end for blocks that are likely to merge soon.
    Tail,
}

impl Default for List {
    fn default() -> Self {
        List::new()
    }
}

impl List {
    #[inline]
    pub(crate) const fn new() -> Self {
        List { head: AtomicU32::new(NONE), tail: AtomicU32::new(NONE), len: AtomicU32::new(0) }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len.get()
    }

    /// The slot at the head.
    pub(crate) fn first(&self) -> Option<u32> {
        some(self.head.get())
    }

    /// The slot at the tail.
    pub(crate) fn last(&self) -> Option<u32> {
        some(self.tail.get())
    }

    /// The slot after `slot`.
    pub(crate) fn after(&self, links: Links<'_>, slot: u32) -> Option<u32> {
        some(links.next(slot).get())
    }

    /// The slot before `slot`.
    pub(crate) fn before(&self, links: Links<'_>, slot: u32) -> Option<u32> {
        some(links.prev(slot).get())
    }

    /// Inserts a slot at one end. Calls `touch` with the neighbour, whose links also change.
    pub(crate) fn push(&self, links: Links<'_>, slot: u32, end: End, touch: impl Fn(u32)) {
        let (outer, inner, this_end, other_end) = match end {
            End::Head => (links.prev(slot), links.next(slot), &self.head, &self.tail),
            End::Tail => (links.next(slot), links.prev(slot), &self.tail, &self.head),
        };
        let old = this_end.get();
        outer.set(NONE);
        inner.set(old);
        this_end.set(slot);
        match some(old) {
            None => other_end.set(slot),
            Some(old) => {
                touch(old);
                match end {
                    End::Head => links.prev(old).set(slot),
                    End::Tail => links.next(old).set(slot),
                }
            }
        }
        self.len.set(self.len.get() + 1);
    }

    /// Removes a slot. Calls `touch` with its neighbours, whose links also change.
    pub(crate) fn remove(&self, links: Links<'_>, slot: u32, touch: impl Fn(u32)) {
        let (next, prev) = (links.next(slot).get(), links.prev(slot).get());
        match some(prev) {
            Some(prev) => {
                touch(prev);
                links.next(prev).set(next);
            }
            None => self.head.set(next),
        }
        match some(next) {
            Some(next) => {
                touch(next);
                links.prev(next).set(prev);
            }
            None => self.tail.set(prev),
        }
        self.len.set(self.len.get() - 1);
    }
}

pub(super) fn some(slot: u32) -> Option<u32> {
    (slot != NONE).then_some(slot)
}
