//! Order-0 clusters: runs of pages on a free list that refills take and drains free as a whole, without touching each
//! page; and their moves between the zone and a pageset.
//!
//! `zone::research::clusters` has their memory. Specification: `linux-page-allocator.md` 6.2, 6.3.

use crate::buddy::Wanted;
use crate::frame::{End, List, MigrateType, Order, PageState, Tag};
use crate::machine::{Line, LockPath, Machine};
use crate::pcp::{CachedZone, PcpGuard};
use crate::policy::{BulkFree, ClusterRule};
use crate::store::{Cache, Lists, Refill, Store, remembered_type};
use crate::sync;
use crate::sync::LockedWord;
use crate::zone::research::clusters::{Cluster, Touch};
use crate::zone::{Env, Mismatch, Zone, ZoneGuard};

/// The list of single movable pages, the only list that drains as clusters.
const MOVABLE: usize = MigrateType::Movable.index();

impl<M: Machine> Zone<'_, M> {
    /// Whether pages on a list form clusters: only single pages of the types that refills request do.
    pub(super) fn has_clusters(&self, order: Order, list: MigrateType) -> bool {
        order == Order::ZERO && self.research.clusters.exist() && list.is_ordinary()
    }

    /// Checks each cluster against its run of pages. The lists themselves have been checked. The error holds the page,
    /// the violated property, the expected value, and the found value.
    pub(super) fn check_clusters(&self) -> Result<(), Mismatch> {
        let (clusters, links) = (&self.research.clusters, self.frames.links);
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
        if in_use != runs {
            return Err((None, "clusters in use against those on lists", in_use, runs));
        }
        match self.research.in_flight.refills() {
            0 => Ok(()),
            refills => Err((None, "refills in flight", 0, refills.into())),
        }
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Notes a block that enters a list, for the owner of its pageblock. Returns whether it entered a cluster of its list.
    #[inline]
    pub(crate) fn note_put(&self, page: u32, order: Order, list: MigrateType, end: End) -> bool {
        if self.zone.research.owners.are_kept() {
            self.note_owned(page, order);
        }
        self.put_in_cluster(page, order, list, end)
    }

    /// Inserts a page into its list and a cluster. Returns false if the list has no clusters.
    #[inline]
    fn put_in_cluster(&self, page: u32, order: Order, list: MigrateType, end: End) -> bool {
        let has_clusters = self.zone.has_clusters(order, list);
        if has_clusters {
            self.zone.research.clusters.push(
                self.zone.frames.links,
                self.region.list(order, list),
                page,
                end,
                self.touch_cluster(),
            );
        }
        has_clusters
    }

    /// Removes a page from its list and its cluster. Returns false if the list has no clusters.
    pub(crate) fn remove_from_cluster(&self, page: u32, order: Order, list: MigrateType) -> bool {
        let has_clusters = self.zone.has_clusters(order, list);
        if has_clusters {
            self.zone.research.clusters.remove(
                self.zone.frames.links,
                self.region.list(order, list),
                page,
                self.touch_cluster(),
            );
        }
        has_clusters
    }

    /// Reports the memory that clusters touch.
    fn touch_cluster(&self) -> impl Fn(Touch) {
        move |touch| match touch {
            Touch::Page(page) => self.touch_page(page),
            Touch::Cluster(Cluster(number)) => self.env.touch(Line::Cluster { zone: self.zone.index, number }),
        }
    }

    /// Cuts clusters for a refill of about `want` pages into a pageset with room for `room`. Returns an empty list if
    /// clusters do not serve this refill.
    fn cut_clusters(&self, wanted: Wanted, want: u32, room: u32) -> List {
        // A pageset that requests one page must keep nothing, and a cluster would bring more.
        let suits = self.env.tuning.backing.has_clusters() && self.zone.research.clusters.exist() && want > 1;
        if !suits || !self.skips_merge(wanted.order) || wanted.cma && self.prefers_cma() {
            return List::default();
        }
        self.touch_head(wanted.migratetype);
        let list = self.region.list(Order::ZERO, wanted.migratetype);
        let cut = self.zone.research.clusters.cut(self.zone.frames.links, list, want, room, self.touch_cluster());
        sync::sub(&self.region.free_pages, cut.len().into());
        cut
    }

    /// Inserts a list of free movable pages at the head of their list, as one cluster.
    fn splice(&self, cluster: Cluster, batch: &List) {
        let Some(tail) = batch.last() else { return self.zone.research.clusters.close(cluster) };
        let pages = batch.len();
        self.touch_cluster()(Touch::Cluster(cluster));
        self.zone.research.clusters.set(cluster, tail, pages);
        self.touch_head(MigrateType::Movable);
        let list = self.region.list(Order::ZERO, MigrateType::Movable);
        list.prepend(self.zone.frames.links, batch, |slot| self.touch_page(slot));
        sync::add(&self.region.free_pages, pages.into());
        sync::add(&self.zone.research.clusters.given, pages.into());
        self.count_skips(pages.into());
    }

    fn touch_head(&self, list: MigrateType) {
        self.env.touch(Line::FreeList {
            zone: self.zone.index,
            region: self.number,
            order: Order::ZERO.get(),
            migratetype: list as u8,
        });
    }
}

/// Refills with whole clusters. Specification 6.2 "Refill".
impl<'a, M: Machine> Zone<'a, M> {
    /// Refills an empty list under one hold of the zone lock; or two, if whole clusters did not supply all pages. Returns the number of
    /// blocks, `None` if the rules have no clusters.
    #[inline]
    pub(crate) fn refill_from_clusters(&self, refill: &Refill<'_, M>, cache: &impl Cache, blocks: u32) -> Option<u32> {
        refill.env.tuning.backing.has_clusters().then(|| self.refill_with_clusters(refill, cache, blocks))
    }

    #[cold]
    fn refill_with_clusters(&self, refill: &Refill<'_, M>, cache: &impl Cache, blocks: u32) -> u32 {
        let &Refill { env, list, wanted, .. } = refill;
        let lock = || self.lock_for(env, LockPath::Refill, wanted);
        // No interrupt may come: one that frees a page could wait for this CPU's refill in flight.
        env.machine.without_interrupts(|| {
            let Some(guard) = lock() else { return 0 };
            let (guard, taken) = self.take_clusters(guard, cache, list, wanted, blocks);
            let guard = if taken < blocks { guard.or_else(lock) } else { None };
            let rest = |guard| Lists.take(&Refill { held: Some(guard), ..*refill }, cache, blocks - taken);
            taken + guard.as_ref().map_or(0, rest)
        })
    }

    /// Fills an empty list with whole clusters, if they serve this refill. Returns the number of pages. The zone lock
    /// is held only while the clusters are cut off their list; if none was cut, the lock is returned still held.
    fn take_clusters<'z>(
        &'z self,
        guard: ZoneGuard<'z, 'a, M>,
        cache: &impl Cache,
        list: usize,
        wanted: Wanted,
        blocks: u32,
    ) -> (Option<ZoneGuard<'z, 'a, M>>, u32) {
        let cut = guard.cut_clusters(wanted, blocks, cache.room());
        if cut.first().is_none() {
            return (Some(guard), 0);
        }
        let env = guard.env;
        self.research.in_flight.begin();
        drop(guard);
        let mut next = cut.first();
        let taken = cache.fill(list, cut.len(), || {
            let page = next?;
            env.touch(Line::Page(self.frames.pfn(page)));
            next = cut.after(self.frames.links, page);
            let kind = remembered_type(self, env.tuning, page, wanted.migratetype);
            self.frames.set_tag(page, Tag::new(PageState::Cached, Order::ZERO, kind));
            Some(page)
        });
        debug_assert_eq!(taken, cut.len(), "the cut fits the pageset");
        self.research.in_flight.end();
        (None, taken)
    }
}

/// Drains of whole clusters. Specification 6.3.
impl<M: Machine> CachedZone<'_, M> {
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
        let comes_first = || match env.tuning.backing.bulk_free() {
            // These drains take from all lists, so all others must be empty.
            Some(BulkFree::PickLocked | BulkFree::TwoPass) => are_empty(0..MOVABLE) && are_empty(MOVABLE + 1..all),
            // These drains take whole lists, beginning with the freed page's list.
            _ if start <= MOVABLE => are_empty(start..MOVABLE),
            _ => are_empty(start..all) && are_empty(0..MOVABLE),
        };
        env.tuning.backing.clusters() == ClusterRule::RefillsAndDrains
            && self.shared.research.clusters.exist()
            && wanted > 1
            && wanted == pcp.batch.get()
            && comes_first()
            && pcp.len(MOVABLE) >= wanted
    }

    /// Drains the `wanted` oldest single movable pages, as one cluster if frees skip merging and a descriptor is free.
    /// The list has that many pages.
    pub(super) fn drain_cluster<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>, wanted: u32) -> u32 {
        let links = self.shared.frames.links;
        let batch = List::default();
        // The pages belong to this drain and are on no list of the zone. So their links can be written, and their cache
        // lines fetched, before the zone lock is taken. The oldest page comes last.
        for _ in 0..wanted {
            let Some(page) = pcp.pop_oldest(MOVABLE) else { break };
            env.touch(Line::Page(self.shared.frames.pfn(page)));
            batch.push(links, page, End::Head, |_| ());
        }
        let guard = self.shared.lock(env, LockPath::Drain, 0);
        let cluster = if guard.skips_merge(Order::ZERO) { guard.zone.research.clusters.open() } else { None };
        let mut next = batch.last();
        while let Some(page) = next {
            next = batch.before(links, page);
            // The type is read under the lock, since the pageblock's type may have changed since the free. A page of a
            // CMA, HIGHATOMIC or ISOLATE pageblock goes to that list.
            let migratetype = guard.drained_type(page);
            match cluster {
                Some(_) if migratetype == MigrateType::Movable => {
                    guard.touch_page(page);
                    guard.zone.frames.set_free(page, Order::ZERO, migratetype);
                    guard.zone.research.clusters.set_of(page, cluster);
                }
                // A merge would find pages of the batch, which already look free.
                Some(_) => {
                    batch.remove(links, page, |_| ());
                    guard.put(page, Order::ZERO, migratetype, End::Head);
                    guard.count_skips(1);
                }
                None => {
                    batch.remove(links, page, |_| ());
                    guard.free_or_capture(page, Order::ZERO, migratetype, None);
                }
            }
        }
        if let Some(cluster) = cluster {
            guard.splice(cluster, &batch);
        }
        wanted
    }
}
