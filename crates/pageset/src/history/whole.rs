//! Whole clusters between the zone and a pageset: taken by refills, given by drains.
//!
//! Specification: `linux-page-allocator.md` 6.2, "Refill", and 6.3.

use crate::buddy::fallback::Wanted;
use crate::buddy::list::{End, List};
use crate::frame::MigrateType;
use crate::frame::{Order, PageState, Tag};
use crate::history::cluster::{Cluster, Touch};
use crate::machine::{Line, LockPath, Machine};
use crate::pcp::Pageset;
use crate::pcp::stack::Stack;
use crate::policy::{BulkFree, Tuning};
use crate::sync;
use crate::zone::Zone;

/// The list of single movable pages: the only one whose batches are given as clusters.
const MOVABLE: usize = MigrateType::Movable.index();

impl<M: Machine> Zone<'_, M> {
    /// Tells the machine what the clusters of this zone touch.
    pub(crate) fn touch_cluster(&self, machine: &M) -> impl Fn(Touch) {
        move |touch| match touch {
            Touch::Page(page) => machine.touch(Line::Page(self.frames.pfn(page))),
            Touch::Cluster(Cluster(number)) => machine.touch(Line::Cluster { zone: self.index, number }),
        }
    }

    /// Cuts clusters for a refill of about `want` pages into a pageset with room for `room`; the zone lock is held.
    /// None where clusters do not serve this refill.
    pub(crate) fn cut_clusters(&self, machine: &M, tuning: &Tuning, wanted: Wanted, want: u32, room: u32) -> List {
        // A pageset that asks for one page is to keep nothing, and a cluster would bring more.
        let suits = tuning.clusters && self.clusters.exist() && want > 1;
        if !suits || !self.can_skip(tuning, wanted.order) || wanted.cma && self.prefers_cma() {
            return List::default();
        }
        machine.touch(Line::FreeList {
            zone: self.index,
            order: Order::ZERO.get(),
            migratetype: wanted.migratetype as u8,
        });
        let list = &self.areas[Order::ZERO.index()][wanted.migratetype.index()];
        let cut = self.clusters.cut(self.frames.links, list, want, room, self.touch_cluster(machine));
        sync::sub(&self.free_pages, cut.len().into());
        cut
    }

    /// Puts cut pages into a pageset's empty list, in their order, without the zone lock; returns how many. They are in
    /// flight, and there is room for them.
    pub(crate) fn take_in(
        &self,
        machine: &M,
        tuning: &Tuning,
        pcp: &Pageset<M::Lock>,
        list: usize,
        cut: &List,
        wanted: Wanted,
    ) -> u32 {
        let mut next = cut.first();
        let taken = pcp.lists[list].fill(self.arrays, &pcp.pool, cut.len(), || {
            let page = next?;
            machine.touch(Line::Page(self.frames.pfn(page)));
            next = cut.after(self.frames.links, page);
            let kind = self.remembered_type(tuning, page, wanted.migratetype);
            self.frames.set_tag(page, Tag::new(PageState::Cached, Order::ZERO, kind));
            Some(page)
        });
        debug_assert_eq!(taken, cut.len(), "the cut was made to fit");
        taken
    }

    /// Whether a drain of `wanted` pages is to be tried as one cluster: a full batch, all of it single movable pages.
    pub(crate) fn drains_cluster(&self, tuning: &Tuning, pcp: &Pageset<M::Lock>, wanted: u32, start: usize) -> bool {
        let others_are_empty = |mut lists: core::ops::Range<usize>| lists.all(|list| pcp.lists[list].is_empty());
        let all = tuning.lists.count();
        let comes_first = match tuning.bulk_free {
            // All lists take part, so there must be no other.
            BulkFree::PickLocked | BulkFree::TwoPass => {
                others_are_empty(0..MOVABLE) && others_are_empty(MOVABLE + 1..all)
            }
            // Whole lists go, from the one of the freed page on.
            BulkFree::SinglePass | BulkFree::Chunked if start <= MOVABLE => others_are_empty(start..MOVABLE),
            BulkFree::SinglePass | BulkFree::Chunked => others_are_empty(start..all) && others_are_empty(0..MOVABLE),
        };
        tuning.cluster_free
            && self.clusters.exist()
            && wanted > 1
            && wanted == pcp.batch()
            && comes_first
            && pcp.len(self.arrays, MOVABLE) >= wanted
    }

    /// Drains the `wanted` oldest single movable pages, which there are, as one cluster if one can be had.
    pub(crate) fn drain_cluster(&self, machine: &M, tuning: &Tuning, pcp: &Pageset<M::Lock>, wanted: u32) -> u32 {
        let batch = List::default();
        self.link(machine, &pcp.lists[MOVABLE], pcp, &batch, wanted);
        // Lock order: pageset, then zone.
        let _zone = self.lock(machine, LockPath::Drain);
        let cluster = if self.can_skip(tuning, Order::ZERO) { self.clusters.open() } else { None };
        let mut next = batch.last();
        while let Some(page) = next {
            next = batch.before(self.frames.links, page);
            // Read under the lock: the pageblock may have become another since the free. A page whose pageblock is
            // CMA, HIGHATOMIC or ISOLATE belongs on that list.
            let migratetype = self.drained_type(tuning, page);
            match cluster {
                Some(_) if migratetype == MigrateType::Movable => {
                    machine.touch(Line::Page(self.frames.pfn(page)));
                    self.frames.set_free(page, Order::ZERO, migratetype);
                    self.clusters.set_of(page, cluster);
                }
                // Whether merging is put off may change meanwhile; a merge would find pages of the batch, which look free.
                Some(_) => {
                    batch.remove(self.frames.links, page, |_| ());
                    self.add(machine, page, Order::ZERO, migratetype, End::Head);
                    self.count_skips(1);
                }
                None => {
                    batch.remove(self.frames.links, page, |_| ());
                    self.free_block(machine, tuning, page, Order::ZERO, migratetype);
                }
            }
        }
        if let Some(cluster) = cluster {
            self.splice(machine, cluster, &batch);
        }
        wanted
    }

    /// Links the oldest pages of a pageset's list, oldest last. They are ours and on no list of the zone, so their links
    /// may be written, and their lines fetched, before the zone lock is taken.
    fn link(&self, machine: &M, from: &Stack, pcp: &Pageset<M::Lock>, batch: &List, wanted: u32) {
        for _ in 0..wanted {
            let Some(page) = from.pop_oldest(self.arrays, &pcp.pool) else { break };
            machine.touch(Line::Page(self.frames.pfn(page)));
            batch.push(self.frames.links, page, End::Head, |_| ());
        }
    }

    /// Puts a list of free movable pages before all others, as one cluster.
    fn splice(&self, machine: &M, cluster: Cluster, batch: &List) {
        let Some(tail) = batch.last() else { return self.clusters.close(cluster) };
        let pages = batch.len();
        self.touch_cluster(machine)(Touch::Cluster(cluster));
        self.clusters.set(cluster, tail, pages);
        machine.touch(Line::FreeList { zone: self.index, order: Order::ZERO.get(), migratetype: MOVABLE as u8 });
        let list = &self.areas[Order::ZERO.index()][MOVABLE];
        list.prepend(self.frames.links, batch, |slot| machine.touch(Line::Page(self.frames.pfn(slot))));
        sync::add(&self.free_pages, pages.into());
        sync::add(&self.clusters.given, pages.into());
        self.count_skips(pages.into());
    }
}
