//! Free lists threaded through the links of pages: push at either end, remove.
//!
//! A *slot* numbers a pair of links: the block's first page, or for pageblocks and larger their own dense numbers
//! (see [`crate::frame::Frames::slot`]). All calls are made with the zone lock held.

use core::sync::atomic::AtomicU32;

use crate::frame::Links;
use crate::sync::LockedWord;

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

impl List {
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

    /// The slot at an end.
    pub(crate) fn at(&self, end: End) -> Option<u32> {
        match end {
            End::Head => self.first(),
            End::Tail => self.last(),
        }
    }

    /// The slot after `slot`.
    pub(crate) fn after(&self, links: Links<'_>, slot: u32) -> Option<u32> {
        some(links.next(slot).get())
    }

    /// The slot before `slot`.
    pub(crate) fn before(&self, links: Links<'_>, slot: u32) -> Option<u32> {
        some(links.prev(slot).get())
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

    /// Cuts off the first `len` slots, the last of which is `tail`.
    pub(crate) fn cut(&self, links: Links<'_>, tail: u32, len: u32) -> List {
        let rest = links.next(tail).get();
        let front =
            List { head: AtomicU32::new(self.head.get()), tail: AtomicU32::new(tail), len: AtomicU32::new(len) };
        links.next(tail).set(NONE);
        self.head.set(rest);
        match some(rest) {
            Some(rest) => links.prev(rest).set(NONE),
            None => self.tail.set(NONE),
        }
        self.len.set(self.len.get() - len);
        front
    }

    /// Puts all slots of `front`, which has some, before the first. `touch` is told that one, whose links change.
    pub(crate) fn prepend(&self, links: Links<'_>, front: &List, touch: impl Fn(u32)) {
        let old = self.head.get();
        links.next(front.tail.get()).set(old);
        match some(old) {
            Some(old) => {
                touch(old);
                links.prev(old).set(front.tail.get());
            }
            None => self.tail.set(front.tail.get()),
        }
        self.head.set(front.head.get());
        self.len.set(self.len.get() + front.len.get());
    }
}

fn some(slot: u32) -> Option<u32> {
    (slot != NONE).then_some(slot)
}
