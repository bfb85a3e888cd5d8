//! Order-0 clusters: runs of pages on a free list that refills take and drains free as a whole, without touching each
//! page; and their moves between the zone and a pageset.
//!
//! A cluster is a section of one order-0 list with at most a batch of pages. Its *descriptor* holds its tail (the page
//! nearest the list's end) and its length. Each page refers to the descriptor. A refill finds the cluster of the list's
//! first page, and thus the place to cut. Specification: `linux-page-allocator.md` 6.2, 6.3.
//!
//! All calls of [`Clusters`] are made with the zone lock held.

use core::sync::atomic::AtomicU32;

use crate::buddy::list::{End, List};
use crate::buddy::{Buddy, Clusters, Env, Locked, Mismatch, Wanted};
use crate::frame::{Links, MigrateType, Order, PageState, Tag};
use crate::machine::{Line, LockPath, Machine};
use crate::pcp::{CachedZone, PcpGuard};
use crate::policy::BulkFree;
use crate::store::{Cache, remembered_type};
use crate::sync::{self, LockedWord};
use crate::zone::ZoneGuard;

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

/// The list of single movable pages, the only list that drains as clusters.
const MOVABLE: usize = MigrateType::Movable.index();

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

impl<L> Buddy<'_, L> {
    /// Whether pages on a list form clusters: only single pages of the types that refills request do.
    pub(super) fn has_clusters(&self, order: Order, list: MigrateType) -> bool {
        order == Order::ZERO && self.clusters.exist() && list.is_ordinary()
    }

    /// Checks each cluster against its run of pages. The lists themselves have been checked. The error holds the page,
    /// the violated property, the expected value, and the found value.
    pub(crate) fn check_clusters(&self) -> Result<(), Mismatch> {
        let (clusters, links) = (&self.clusters, self.frames.links);
        // A zone with clusters has one region.
        let [region] = self.regions else { return Ok(()) };
        let mut runs = 0;
        for list in MigrateType::ALL.into_iter().filter(|&list| self.has_clusters(Order::ZERO, list)) {
            let list = region.list(Order::ZERO, list);
            let mut at = list.first();
            while let Some(first) = at {
                let (mut last, mut len) = (first, 1);
                at = list.after(links, first);
                let Some(cluster) = clusters.of(first) else { continue };
                while let Some(next) = at.filter(|next| clusters.of(*next) == Some(cluster)) {
                    (last, len) = (next, len + 1);
                    at = list.after(links, next);
                }
                let wrong = |what, expected: u32, found: u32| Err((Some(first), what, expected.into(), found.into()));
                if !clusters.is_known(cluster) {
                    return wrong("the cluster of a page was never made", 0, cluster.0);
                }
                if clusters.len(cluster) != len {
                    return wrong("the length of a cluster", clusters.len(cluster), len);
                }
                if clusters.tail(cluster) != last {
                    return wrong("the tail of a cluster", clusters.tail(cluster), last);
                }
                runs += 1;
            }
        }
        let in_use = clusters.in_use().into();
        if in_use == runs { Ok(()) } else { Err((None, "clusters in use against those on lists", in_use, runs)) }
    }
}

impl<M: Machine> Locked<'_, '_, M> {
    /// Inserts a page into its list and a cluster. Returns false if the list has no clusters.
    #[inline]
    pub(crate) fn put_in_cluster(&self, page: u32, order: Order, list: MigrateType, end: End) -> bool {
        let has_clusters = self.has_clusters(order, list);
        if has_clusters {
            self.clusters.push(self.frames.links, self.list(order, list), page, end, self.touch_cluster());
        }
        has_clusters
    }

    /// Removes a page from its list and its cluster. Returns false if the list has no clusters.
    pub(crate) fn remove_from_cluster(&self, page: u32, order: Order, list: MigrateType) -> bool {
        let has_clusters = self.has_clusters(order, list);
        if has_clusters {
            self.clusters.remove(self.frames.links, self.list(order, list), page, self.touch_cluster());
        }
        has_clusters
    }

    /// Reports the memory that clusters touch.
    fn touch_cluster(&self) -> impl Fn(Touch) {
        move |touch| match touch {
            Touch::Page(page) => self.touch_page(page),
            Touch::Cluster(Cluster(number)) => self.env().touch(Line::Cluster { zone: self.zone, number }),
        }
    }

    /// Cuts clusters for a refill of about `want` pages into a pageset with room for `room`. Returns an empty list if
    /// clusters do not serve this refill.
    fn cut_clusters(&self, wanted: Wanted, want: u32, room: u32) -> List {
        // A pageset that requests one page must keep nothing, and a cluster would bring more.
        let suits = self.tuning().clusters && self.clusters.exist() && want > 1;
        if !suits || !self.skips_merge(wanted.order) || wanted.cma && self.prefers_cma() {
            return List::default();
        }
        self.touch_head(wanted.migratetype);
        let list = self.list(Order::ZERO, wanted.migratetype);
        let cut = self.clusters.cut(self.frames.links, list, want, room, self.touch_cluster());
        sync::sub(&self.region.free_pages, cut.len().into());
        cut
    }

    /// Inserts a list of free movable pages at the head of their list, as one cluster.
    fn splice(&self, cluster: Cluster, batch: &List) {
        let Some(tail) = batch.last() else { return self.clusters.close(cluster) };
        let pages = batch.len();
        self.touch_cluster()(Touch::Cluster(cluster));
        self.clusters.set(cluster, tail, pages);
        self.touch_head(MigrateType::Movable);
        let list = self.list(Order::ZERO, MigrateType::Movable);
        list.prepend(self.frames.links, batch, |slot| self.touch_page(slot));
        sync::add(&self.region.free_pages, pages.into());
        sync::add(&self.clusters.given, pages.into());
        self.count_skips(pages.into());
    }

    fn touch_head(&self, list: MigrateType) {
        self.env().touch(Line::FreeList {
            zone: self.zone,
            region: self.number(),
            order: Order::ZERO.get(),
            migratetype: list as u8,
        });
    }
}

/// Moves of whole clusters: refills take them, drains free them. Specification 6.2 "Refill", 6.3.
impl<'a, M: Machine> CachedZone<'a, M> {
    /// Refills an empty list with whole clusters, if they serve this refill. Returns the number of pages. The zone lock
    /// is held only while the clusters are cut off their list; if none was cut, the lock is returned still held.
    pub(crate) fn refill_from_clusters<'z, G>(
        &'z self,
        zone: ZoneGuard<'z, 'a, M>,
        pcp: &PcpGuard<'_, M::Lock, G>,
        list: usize,
        wanted: Wanted,
        blocks: u32,
    ) -> (Option<ZoneGuard<'z, 'a, M>>, u32) {
        let cut = zone.cut_clusters(wanted, blocks, pcp.room());
        if cut.first().is_none() {
            return (Some(zone), 0);
        }
        let (env, buddy) = (zone.env(), &self.shared.buddy);
        buddy.in_flight.begin();
        drop(zone);
        let mut next = cut.first();
        let taken = pcp.fill(list, cut.len(), || {
            let page = next?;
            env.touch(Line::Page(buddy.frames.pfn(page)));
            next = cut.after(buddy.frames.links, page);
            let kind = remembered_type(buddy, env.tuning, page, wanted.migratetype);
            buddy.frames.set_tag(page, Tag::new(PageState::Cached, Order::ZERO, kind));
            Some(page)
        });
        debug_assert_eq!(taken, cut.len(), "the cut fits the pageset");
        buddy.in_flight.end();
        (None, taken)
    }

    /// Whether to try a drain of `wanted` pages as one cluster: a full batch, all of it single movable pages.
    pub(super) fn drains_cluster<G>(
        &self,
        env: Env<'_, M>,
        pcp: &PcpGuard<'_, M::Lock, G>,
        wanted: u32,
        start: usize,
    ) -> bool {
        let are_empty = |mut lists: core::ops::Range<usize>| lists.all(|list| pcp.list(list).is_empty());
        let all = env.tuning.lists.count();
        let comes_first = || match env.tuning.bulk_free {
            // These drains take from all lists, so all others must be empty.
            BulkFree::PickLocked | BulkFree::TwoPass => are_empty(0..MOVABLE) && are_empty(MOVABLE + 1..all),
            // These drains take whole lists, beginning with the freed page's list.
            BulkFree::SinglePass | BulkFree::Chunked | BulkFree::ShortHolds if start <= MOVABLE => {
                are_empty(start..MOVABLE)
            }
            BulkFree::SinglePass | BulkFree::Chunked | BulkFree::ShortHolds => {
                are_empty(start..all) && are_empty(0..MOVABLE)
            }
        };
        env.tuning.cluster_free
            && self.shared.buddy.clusters.exist()
            && wanted > 1
            && wanted == pcp.batch()
            && comes_first()
            && pcp.len(MOVABLE) >= wanted
    }

    /// Drains the `wanted` oldest single movable pages, as one cluster if frees skip merging and a descriptor is free.
    /// The list has that many pages.
    pub(super) fn drain_cluster<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>, wanted: u32) -> u32 {
        let links = self.shared.buddy.frames.links;
        let batch = List::default();
        // The pages belong to this drain and are on no list of the zone. So their links can be written, and their cache
        // lines fetched, before the zone lock is taken. The oldest page comes last.
        for _ in 0..wanted {
            let Some(page) = pcp.pop_oldest(MOVABLE) else { break };
            env.touch(Line::Page(self.shared.buddy.frames.pfn(page)));
            batch.push(links, page, End::Head, |_| ());
        }
        let zone = self.shared.lock(env, LockPath::Drain, 0);
        let cluster = if zone.skips_merge(Order::ZERO) { zone.clusters.open() } else { None };
        let mut next = batch.last();
        while let Some(page) = next {
            next = batch.before(links, page);
            // The type is read under the lock, since the pageblock's type may have changed since the free. A page of a
            // CMA, HIGHATOMIC or ISOLATE pageblock goes to that list.
            let migratetype = zone.drained_type(page);
            match cluster {
                Some(_) if migratetype == MigrateType::Movable => {
                    zone.touch_page(page);
                    zone.frames.set_free(page, Order::ZERO, migratetype);
                    zone.clusters.set_of(page, cluster);
                }
                // A merge would find pages of the batch, which already look free.
                Some(_) => {
                    batch.remove(links, page, |_| ());
                    zone.put(page, Order::ZERO, migratetype, End::Head);
                    zone.count_skips(1);
                }
                None => {
                    batch.remove(links, page, |_| ());
                    zone.free_block(page, Order::ZERO, migratetype);
                }
            }
        }
        if let Some(cluster) = cluster {
            zone.splice(cluster, &batch);
        }
        wanted
    }
}

#[cfg(test)]
mod tests;
