//! The clusters of a zone's single pages, and their memory. All calls of [`Clusters`] are made with the zone lock held.
//!
//! A cluster is a section of one order-0 list with at most a batch of pages. Its *descriptor* holds its tail (the page
//! nearest the list's end) and its length. Each page refers to the descriptor. A refill finds the cluster of the list's
//! first page, and thus the place to cut. Specification: `linux-page-allocator.md` 6.2, 6.3.

use core::sync::atomic::AtomicU32;

use crate::frame::frames::{NONE, some};
use crate::frame::{End, Links, List};
use crate::sync::{self, AtomicU64, LockedWord};

/// The memory of a zone's order-0 clusters.
#[derive(Debug)]
pub(crate) struct Clusters<'a> {
    /// A page's descriptor plus one, 0 for none.
    refs: &'a [AtomicU32],
    descriptors: &'a [AtomicU32],
    /// The first returned descriptor plus one, and the first that was never used.
    free: AtomicU32,
    fresh: AtomicU32,
    /// The largest cluster, in pages.
    limit: AtomicU32,
    /// Pages without a cluster for lack of a descriptor.
    pub(crate) shortages: AtomicU64,
    /// Pages allocated and freed as whole clusters.
    pub(crate) taken: AtomicU64,
    pub(crate) given: AtomicU64,
}

impl Clusters<'_> {
    /// No clusters.
    pub(crate) const fn none() -> Self {
        Clusters {
            refs: &[],
            descriptors: &[],
            free: AtomicU32::new(0),
            fresh: AtomicU32::new(0),
            limit: AtomicU32::new(0),
            shortages: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            given: AtomicU64::new(0),
        }
    }
}

/// A cluster, as the number of its descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cluster(pub(crate) u32);

/// Memory that is about to be touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touch {
    Page(u32),
    Cluster(Cluster),
}

/// Words of a descriptor.
const DESCRIPTOR: usize = 2;

/// The number of descriptors of a zone with `pages` pages: enough if all clusters are full. Specification 6.2.
const fn descriptors(pages: u64, batch: u32) -> u64 {
    if batch > 1 { pages.div_ceil(batch as u64) } else { 0 }
}

impl<'a> Clusters<'a> {
    /// The words for a zone of `span` pages, numbered up to `pages`: one per page, and two per descriptor.
    pub(crate) const fn words(span: u64, pages: u64, batch: u32) -> u64 {
        let descriptors = descriptors(span, batch);
        if descriptors > 0 { pages + descriptors * DESCRIPTOR as u64 } else { 0 }
    }

    /// Clusters of at most `limit` pages in zeroed memory of [`Self::words`] words, of a zone whose pages are numbered up to
    /// `pages`.
    pub(crate) fn new(words: &'a [AtomicU32], pages: usize, limit: u32) -> Self {
        let (refs, descriptors) = words.split_at(pages.min(words.len()));
        Clusters { refs, descriptors, limit: AtomicU32::new(limit), ..Clusters::none() }
    }

    /// Whether the zone has clusters.
    pub(crate) fn exist(&self) -> bool {
        !self.descriptors.is_empty()
    }

    /// Sets the largest cluster. Existing larger clusters do not change.
    pub(crate) fn set_limit(&self, pages: u32) {
        self.limit.set(pages);
    }

    /// The cluster of a page on a list with clusters. The audit checks that the descriptor exists.
    pub(crate) fn of(&self, page: u32) -> Option<Cluster> {
        self.refs.get(page as usize)?.get().checked_sub(1).map(Cluster)
    }

    /// The cluster's page nearest the list's end.
    pub(crate) fn tail(&self, Cluster(number): Cluster) -> u32 {
        self.descriptors[DESCRIPTOR * number as usize].get()
    }

    /// Pages in a cluster.
    pub(crate) fn len(&self, Cluster(number): Cluster) -> u32 {
        self.descriptors[DESCRIPTOR * number as usize + 1].get()
    }

    /// Whether the descriptor was ever used.
    pub(crate) fn is_known(&self, Cluster(number): Cluster) -> bool {
        number < self.fresh.get()
    }

    /// The number of clusters.
    pub(crate) fn in_use(&self) -> u32 {
        let mut given_back = 0;
        let mut at = self.free.get();
        // A corrupt chain may be circular.
        while given_back < self.fresh.get()
            && let Some(number) = at.checked_sub(1)
        {
            given_back += 1;
            at = self.tail(Cluster(number));
        }
        self.fresh.get() - given_back
    }

    pub(crate) fn set(&self, Cluster(number): Cluster, tail: u32, len: u32) {
        self.descriptors[DESCRIPTOR * number as usize].set(tail);
        self.descriptors[DESCRIPTOR * number as usize + 1].set(len);
    }

    pub(crate) fn set_of(&self, page: u32, cluster: Option<Cluster>) {
        self.refs[page as usize].set(cluster.map_or(0, |Cluster(number)| number + 1));
    }

    /// Takes an unused descriptor, for a cluster that the caller sets.
    pub(crate) fn open(&self) -> Option<Cluster> {
        if self.limit.get() < 2 {
            return None;
        }
        if let Some(number) = self.free.get().checked_sub(1) {
            self.free.set(self.tail(Cluster(number)));
            return Some(Cluster(number));
        }
        let fresh = self.fresh.get();
        if fresh as usize >= self.descriptors.len() / DESCRIPTOR {
            sync::add(&self.shortages, 1);
            return None;
        }
        self.fresh.set(fresh + 1);
        Some(Cluster(fresh))
    }

    /// Returns a descriptor.
    pub(crate) fn close(&self, cluster: Cluster) {
        self.set(cluster, self.free.get(), 0);
        self.free.set(cluster.0 + 1);
    }

    /// Inserts a page at an end of a list. It joins the cluster there if that has room. Otherwise it begins a new
    /// cluster, or has none if no descriptor is free.
    pub(crate) fn push(&self, links: Links<'_>, list: &List, page: u32, end: End, touch: impl Fn(Touch)) {
        let neighbour = list.at(end);
        let joined = neighbour.and_then(|neighbour| {
            touch(Touch::Page(neighbour));
            let cluster = self.of(neighbour)?;
            touch(Touch::Cluster(cluster));
            (self.len(cluster) < self.limit.get()).then_some(cluster)
        });
        let cluster = joined.or_else(|| self.open().inspect(|new| touch(Touch::Cluster(*new))));
        if let Some(cluster) = cluster {
            let len = if joined.is_some() { self.len(cluster) } else { 0 };
            let tail = if len == 0 || end == End::Tail { page } else { self.tail(cluster) };
            self.set(cluster, tail, len + 1);
        }
        self.set_of(page, cluster);
        // The neighbour is already reported.
        list.push(links, page, end, |_| ());
    }

    /// Removes one page from its list and its cluster.
    pub(crate) fn remove(&self, links: Links<'_>, list: &List, page: u32, touch: impl Fn(Touch)) {
        if let Some(cluster) = self.of(page) {
            touch(Touch::Cluster(cluster));
            let len = self.len(cluster) - 1;
            let tail = self.tail(cluster);
            match list.before(links, page) {
                _ if len == 0 => self.close(cluster),
                Some(before) if page == tail => self.set(cluster, before, len),
                _ => self.set(cluster, tail, len),
            }
        }
        list.remove(links, page, |slot| touch(Touch::Page(slot)));
    }

    /// Cuts whole clusters off the head of a list, until they have `want` pages: the last cluster may add up to its
    /// length less one page. Does not exceed `room` pages. Ends early at a page without a cluster. Touches two pages
    /// per cluster.
    pub(crate) fn cut(&self, links: Links<'_>, list: &List, want: u32, room: u32, touch: impl Fn(Touch)) -> List {
        let (mut head, mut tail, mut got) = (list.first(), None, 0);
        while got < want
            && let Some(first) = head
        {
            touch(Touch::Page(first));
            let Some(cluster) = self.of(first) else { break };
            touch(Touch::Cluster(cluster));
            let len = self.len(cluster);
            if len > room - got {
                break;
            }
            let last = self.tail(cluster);
            touch(Touch::Page(last));
            head = list.after(links, last);
            got += len;
            tail = Some(last);
            self.close(cluster);
        }
        sync::add(&self.taken, got.into());
        tail.map_or_else(List::default, |tail| list.cut(links, tail, got))
    }
}

/// What clusters need of a free list.
impl List {
    /// The slot at an end.
    fn at(&self, end: End) -> Option<u32> {
        match end {
            End::Head => self.first(),
            End::Tail => self.last(),
        }
    }

    /// Cuts off the first `len` slots. `tail` is the last of them.
    fn cut(&self, links: Links<'_>, tail: u32, len: u32) -> List {
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

    /// Inserts all slots of `front`, which is not empty, at the head. Calls `touch` with the former first slot, whose
    /// links change.
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

#[cfg(test)]
mod tests;
