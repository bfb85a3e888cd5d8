//! Free lists threaded through the links of pages: push at either end, remove.
//!
//! A *slot* numbers a pair of links: the block's first page, or for the largest blocks their own dense numbers
//! (see [`crate::zone::Frames::slot`]). All calls are made with the zone lock held.

use core::sync::atomic::AtomicU32;

use crate::word::Held;

/// No slot.
const NONE: u32 = u32::MAX;

/// One free list: its ends and its length in blocks.
#[derive(Debug)]
pub(crate) struct List {
    head: AtomicU32,
    tail: AtomicU32,
    len: AtomicU32,
}

impl Default for List {
    fn default() -> Self {
        List { head: AtomicU32::new(NONE), tail: AtomicU32::new(NONE), len: AtomicU32::new(0) }
    }
}

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// Where blocks are taken.
    Head,
    /// Where blocks wait that are likely to merge soon.
    Tail,
}

/// The links of one zone: a pair of words a slot, next and previous. Meaningful only while a block is on a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links<'a>(pub(crate) &'a [AtomicU32]);

impl Links<'_> {
    fn next(&self, slot: u32) -> &AtomicU32 {
        &self.0[2 * slot as usize]
    }

    fn prev(&self, slot: u32) -> &AtomicU32 {
        &self.0[2 * slot as usize + 1]
    }
}

impl List {
    pub(crate) fn len(&self) -> u32 {
        self.len.get()
    }

    /// The slot at the head.
    pub(crate) fn first(&self) -> Option<u32> {
        some(self.head.get())
    }

    /// The slot after `slot`.
    pub(crate) fn after(&self, links: Links<'_>, slot: u32) -> Option<u32> {
        some(links.next(slot).get())
    }

    /// Puts a slot at one end. `touch` is told the neighbour, whose links change as well.
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

    /// Takes a slot out. `touch` is told its neighbours, whose links change as well.
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

fn some(slot: u32) -> Option<u32> {
    (slot != NONE).then_some(slot)
}
