//! Counters by CPU and zone, and the zoneinfo view.

use core::fmt;
use core::ops::AddAssign;

use crate::admin::views::{PagesetView, ZoneView};
use crate::alloc::Allocator;
use crate::frame::{MigrateType, NodeId, Order, ZoneKind};
use crate::machine::{LockPath, Machine};
use crate::policy::Watermarks;
use crate::store::{self, Store};
use crate::sync::LockedWord;

/// Counters of one pageset. Names of `/proc/vmstat` where it has the counter. Unit: pages, except `refills` and
/// `drains`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PagesetStats {
    /// Pages allocated.
    pub pgalloc: u64,
    /// Pages freed.
    pub pgfree: u64,
    /// Refills from the zone.
    pub refills: u64,
    /// Pages that refills took.
    pub refill_pages: u64,
    /// Drains to the zone.
    pub drains: u64,
    /// Pages that drains returned.
    pub drain_pages: u64,
    /// Pages held now.
    pub count: u64,
}

impl AddAssign for PagesetStats {
    fn add_assign(&mut self, other: Self) {
        self.pgalloc += other.pgalloc;
        self.pgfree += other.pgfree;
        self.refills += other.refills;
        self.refill_pages += other.refill_pages;
        self.drains += other.drains;
        self.drain_pages += other.drain_pages;
        self.count += other.count;
    }
}

/// One zone's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneStats {
    /// Its node.
    pub node: NodeId,
    /// Its kind.
    pub kind: ZoneKind,
    /// Pages managed by the buddy.
    pub managed: u64,
    /// Pages on its free lists and in bitmaps of pageblocks (`nr_free_pages`).
    pub nr_free_pages: u64,
    /// Free pages in CMA pageblocks (`nr_free_cma`).
    pub nr_free_cma: u64,
    /// Free pages on HIGHATOMIC lists (`nr_free_highatomic`).
    pub nr_free_highatomic: u64,
    /// Pages of its HIGHATOMIC pageblocks, free or not, holes included (`nr_reserved_highatomic`).
    pub nr_reserved_highatomic: u64,
    /// Pages of its CMA pageblocks, free or not, holes included.
    pub cma: u64,
    /// The effective marks, boost included.
    pub watermarks: Watermarks,
    /// The part of each mark that is boost. Unit: pages.
    pub watermark_boost: u64,
    /// The sum over all pagesets of the zone.
    pub pagesets: PagesetStats,
    /// Pages in the depots of its regions.
    pub depot: u64,
    /// Pages that drains left in depots. They count as drained, too.
    pub depot_in_pages: u64,
    /// Pages that refills took from depots. They count as refilled, too.
    pub depot_out_pages: u64,
    /// Free pages in bitmaps of pageblocks: [`crate::policy::Holds::Short`]. They count as free pages, too.
    pub bitmap: u64,
    /// Pages that drains left in bitmaps, and that refills took from there, without a lock. They count as drained and refilled, too.
    pub bitmap_pages: u64,
    /// Pageblocks that refills claimed: [`crate::policy::ClaimRule::Claim`].
    pub claimed_blocks: u64,
    /// Pages that refills took back from parts of their CPU's own pageblocks: [`crate::OwnerRule`].
    pub own_parts: u64,
    /// Pages that other CPUs left for the owners of their pageblocks, who have not taken them yet: [`crate::OwnerRule::List`].
    pub waiting: u64,
    /// Pages that other CPUs freed into the pagesets of their pageblocks' owners.
    pub owner_pages: u64,
    /// Merges of two blocks in a pageset: [`crate::policy::ClaimRule::Merge`].
    pub pageset_merges: u64,
    /// Pages whose free is deferred. They are neither on a free list nor in a pageset. [`Self::pgfree`] counts them.
    /// Three calls defer frees: [`crate::FreeTo::Deferred`], a split or merge in a full pageset, and an owner that cannot keep a page.
    pub deferred: u64,
    /// Pages allocated without a pageset.
    pub direct_alloc_pages: u64,
    /// Pages freed without a pageset.
    pub direct_free_pages: u64,
    /// Holds of the zone lock for refills.
    pub lock_refill: u64,
    /// Holds of the zone lock for drains.
    pub lock_drain: u64,
    /// Holds of the zone lock for blocks allocated without a pageset.
    pub lock_direct_alloc: u64,
    /// Holds of the zone lock for blocks freed without a pageset.
    pub lock_direct_free: u64,
    /// Holds of the zone lock for changes of the memory map and of pageblock types, and for compaction.
    pub lock_map: u64,
    /// Whether an allocation found the zone below its high mark, so that pagesets shrink.
    pub below_high: bool,
    /// Whether reclaim works on the zone.
    pub reclaim_active: bool,
    /// Pageblocks claimed from another migratetype.
    pub claims: u64,
    /// Blocks stolen from another migratetype's pageblock.
    pub steals: u64,
    /// Looks of compaction's migrate scanner.
    pub compact_migrate_scanned: u64,
    /// Looks of compaction's free scanner.
    pub compact_free_scanned: u64,
    /// Pages that either scanner isolated.
    pub compact_isolated: u64,
    /// Direct compactions of the zone.
    pub compact_stall: u64,
    /// Direct compactions that made a block.
    pub compact_success: u64,
    /// Direct compactions that made no block.
    pub compact_fail: u64,
    /// Pages that compaction moved within the zone.
    pub pgmigrate_success: u64,
    /// Pages that were isolated and did not move.
    pub pgmigrate_fail: u64,
    /// Pages freed without merging.
    pub merge_skips: u64,
    /// Pages that refills took in whole clusters.
    pub cluster_alloc_pages: u64,
    /// Pages that drains freed as whole clusters.
    pub cluster_free_pages: u64,
    /// Times that a new cluster found no free descriptor.
    pub cluster_shortages: u64,
}

impl ZoneStats {
    /// All pages allocated (`pgalloc_*`).
    #[must_use]
    pub const fn pgalloc(&self) -> u64 {
        self.pagesets.pgalloc + self.direct_alloc_pages
    }

    /// All pages freed (`pgfree`), also those whose free is deferred or that wait for an owner. A page whose free completes while
    /// the counters are read may count twice in them.
    #[must_use]
    pub const fn pgfree(&self) -> u64 {
        self.pagesets.pgfree + self.pending() + self.direct_free_pages
    }

    /// Pages that nobody uses and that are on no free list: pages in pagesets and depots, pages that wait for an owner, and deferred
    /// frees. Unit: pages. Free pages of ISOLATE pageblocks count neither here nor in [`Self::nr_free_pages`].
    #[must_use]
    pub const fn cached_pages(&self) -> u64 {
        self.pagesets.count + self.depot + self.pending()
    }

    /// Pages that wait for an owner, and deferred frees.
    const fn pending(&self) -> u64 {
        self.waiting + self.deferred
    }

    /// All holds of the zone lock.
    #[must_use]
    pub const fn lock_acquisitions(&self) -> u64 {
        self.lock_refill + self.lock_drain + self.lock_direct_alloc + self.lock_direct_free + self.lock_map
    }
}

impl<M: Machine> Allocator<'_, M> {
    /// The zones and their pagesets in the form of `/proc/zoneinfo`, for the tools that read it.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// assert!(allocator.zoneinfo().to_string().starts_with("Node 0, zone   Normal"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn zoneinfo(&self) -> Zoneinfo<'_, '_, M> {
        Zoneinfo(self)
    }
}

/// Prints as `/proc/zoneinfo` does.
#[derive(Debug)]
pub struct Zoneinfo<'z, 'a, M: Machine>(&'z Allocator<'a, M>);

impl<M: Machine> fmt::Display for Zoneinfo<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for view in self.0.zones() {
            let (zone, stats) = (view.zone, view.stats());
            let marks = stats.watermarks;
            // Marks that were set by hand, or read while they change, may be in any order.
            let promo = marks.high + marks.high.saturating_sub(marks.low);
            writeln!(f, "Node {}, zone {:>8}", zone.shared.node.0, zone.shared.kind)?;
            writeln!(f, "  pages free     {}", stats.nr_free_pages)?;
            let spanned = zone.frames().spanned();
            for (name, value) in [
                ("boost", stats.watermark_boost),
                ("min", marks.min),
                ("low", marks.low),
                ("high", marks.high),
                ("promo", promo),
                ("spanned", spanned),
                ("present", zone.shared.present.get()),
                ("managed", stats.managed),
                ("cma", stats.cma),
            ] {
                writeln!(f, "        {name:<8} {value}")?;
            }
            f.write_str("        protection: (")?;
            for (i, pages) in zone.shared.reserve.iter().enumerate() {
                write!(f, "{}{}", if i == 0 { "" } else { ", " }, pages.get())?;
            }
            writeln!(f, ")")?;
            writeln!(f, "      nr_free_pages {}", stats.nr_free_pages)?;
            writeln!(f, "      nr_free_cma  {}", stats.nr_free_cma)?;
            writeln!(f, "  pagesets")?;
            for pageset in view.pagesets().filter(|pageset| self.0.is_cpu_online(pageset.cpu())) {
                let s = pageset.state();
                writeln!(f, "    cpu: {}", pageset.cpu().0)?;
                for (name, value) in [
                    ("count:", s.count),
                    ("high:", s.high),
                    ("batch:", s.batch),
                    ("high_min:", s.high_min),
                    ("high_max:", s.high_max),
                ] {
                    writeln!(f, "              {name:<8} {value}")?;
                }
            }
            writeln!(f, "  node_unreclaimable:  0")?;
            writeln!(f, "  start_pfn:           {}", zone.frames().pfn(zone.frames().first).0)?;
        }
        Ok(())
    }
}

impl<'a, M: Machine> ZoneView<'_, 'a, M> {
    /// The counters of the zone at a recent moment. Takes no lock.
    #[must_use]
    pub fn stats(self) -> ZoneStats {
        let zone = self.zone;
        // Read before what they turn into, so that a page that moves meanwhile counts twice rather than not at all.
        let (waiting, [owner_pages, pageset_merges], counters) = zone.research_counts();
        let [claimed_blocks, own_parts, merge_skips, cluster_alloc_pages, cluster_free_pages, cluster_shortages] =
            counters;
        let deferred = zone.shared.deferred_pages();
        let mut pagesets = PagesetStats::default();
        for pageset in self.pagesets() {
            pagesets += pageset.stats();
        }
        let store::Counts { depot, depot_in_pages, depot_out_pages, bitmap } = store::counts(&zone.shared);
        let free = zone.shared.free_pages();
        let holds = |path| zone.shared.sum(|region| &region.holds[path as usize]);
        ZoneStats {
            node: zone.shared.node,
            kind: zone.shared.kind,
            managed: zone.shared.managed.get(),
            nr_free_pages: free.all,
            nr_free_cma: free.cma,
            nr_free_highatomic: free.highatomic,
            nr_reserved_highatomic: zone.shared.reserved_highatomic.get(),
            cma: zone.shared.cma_pages.get(),
            watermarks: zone.shared.watermarks(),
            watermark_boost: zone.shared.boost(),
            pagesets,
            depot,
            depot_in_pages,
            depot_out_pages,
            bitmap,
            bitmap_pages: zone.pagesets.iter().map(|pageset| pageset.unlocked_pages.get()).sum(),
            claimed_blocks,
            own_parts,
            waiting,
            owner_pages,
            pageset_merges,
            deferred,
            direct_alloc_pages: zone.shared.sum(|region| &region.direct_alloc_pages),
            direct_free_pages: zone.shared.sum(|region| &region.direct_free_pages),
            lock_refill: holds(LockPath::Refill),
            lock_drain: holds(LockPath::Drain),
            lock_direct_alloc: holds(LockPath::DirectAlloc),
            lock_direct_free: holds(LockPath::DirectFree),
            lock_map: holds(LockPath::Map),
            below_high: zone.shared.pressure().below_high,
            reclaim_active: zone.shared.pressure().reclaim_active,
            claims: zone.shared.claims.get(),
            steals: zone.shared.steals.get(),
            compact_migrate_scanned: zone.shared.compaction.migrate_scanned.get(),
            compact_free_scanned: zone.shared.compaction.free_scanned.get(),
            compact_isolated: zone.shared.compaction.isolated.get(),
            compact_stall: zone.shared.compaction.stalls.get(),
            compact_success: zone.shared.compaction.successes.get(),
            compact_fail: zone.shared.compaction.failures.get(),
            pgmigrate_success: zone.shared.compaction.moved.get(),
            pgmigrate_fail: zone.shared.compaction.failed.get(),
            merge_skips,
            cluster_alloc_pages,
            cluster_free_pages,
            cluster_shortages,
        }
    }

    /// The pages that nobody uses, at a recent moment: free ones and [`ZoneStats::cached_pages`]. Takes no lock, and needs less code than
    /// [`Self::stats`].
    #[must_use]
    pub fn unused_pages(self) -> u64 {
        // A page that is drained meanwhile counts twice, and one that comes in a refill not at all.
        self.zone.cached_pages() + self.zone.shared.free()
    }

    /// The number of free blocks of an order and a migratetype, as `/proc/pagetypeinfo` counts them. Parts of a pageblock in a bitmap count as the
    /// largest aligned blocks.
    #[must_use]
    pub fn free_blocks(self, order: Order, migratetype: MigrateType) -> u32 {
        let mut blocks = self.zone.shared.blocks(order, migratetype);
        let mut count = |found, list| blocks += u32::from((found, list) == (order, migratetype));
        store::HIDDEN.each_block(&self.zone.shared, &mut count);
        blocks
    }
}

impl<'a, M: Machine> PagesetView<'_, 'a, M> {
    /// The counters of the pageset at a recent moment. Takes no lock.
    #[must_use]
    pub fn stats(self) -> PagesetStats {
        let pageset = self.pageset;
        PagesetStats {
            pgalloc: pageset.alloc_pages(),
            pgfree: pageset.free_pages.get(),
            refills: pageset.refills.get(),
            refill_pages: pageset.refill_pages.get(),
            drains: pageset.drains.get(),
            drain_pages: pageset.drain_pages.get(),
            count: u64::from(pageset.count()),
        }
    }
}
