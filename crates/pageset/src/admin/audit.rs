//! The consistency check: every page is counted once, lists agree with tags, counters agree with lists.

use core::fmt;

use crate::admin::views::ZoneView;
use crate::alloc::Allocator;
use crate::frame::{CpuId, MigrateType, Order, PageState, Pfn, ZoneKind};
use crate::machine::Machine;
use crate::pcp::CachedZone;
use crate::policy::lists::{LISTS, order_of};
use crate::store::{self, Store};
use crate::sync::LockedWord;
use crate::zone::Mismatch;
use crate::zone::watermark::{Mark, MarkTest};

/// Where a zone's pages are. `free + cached + in_use = managed`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Books {
    /// Pages on free lists, ISOLATE included.
    pub free: u64,
    /// Pages in pagesets, on the lists of owners, and in depots.
    pub cached: u64,
    /// Allocated pages.
    pub in_use: u64,
}

/// The first inconsistency that the audit found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inconsistency {
    /// The zone's number.
    pub zone: usize,
    /// The page, if the inconsistency concerns one.
    pub pfn: Option<Pfn>,
    /// The property that does not hold.
    pub what: &'static str,
    /// The expected value.
    pub expected: u64,
    /// The value found.
    pub found: u64,
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone {}: {}: expected {}, found {}", self.zone, self.what, self.expected, self.found)?;
        self.pfn.map_or(Ok(()), |pfn| write!(f, ", at page {pfn}"))
    }
}

impl core::error::Error for Inconsistency {}

/// Why an audit failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuditError {
    /// The metadata contradict each other.
    Inconsistent(Inconsistency),
    /// Other calls changed the zone during each pass, so nothing is known about it.
    Busy {
        /// The zone's number.
        zone: usize,
    },
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inconsistent(inconsistency) => inconsistency.fmt(f),
            Self::Busy { zone } => write!(
                f,
                "cannot audit zone {zone}: other calls changed it during each of {PASSES} passes; try while fewer calls run"
            ),
        }
    }
}

impl core::error::Error for AuditError {}

/// Passes over a zone before it counts as busy. A guess: an inconsistency needs two, and calls in progress end during the first.
const PASSES: u32 = 8;

impl<M: Machine> Allocator<'_, M> {
    /// Numbers that tell whether a zone has changed. Takes each lock once, one after the other.
    ///
    /// A pass reads without a lock most of what others write with one. If it reads a word of a hold that began after this call, that
    /// hold ends before the next call takes the same lock, and the numbers differ.
    fn version(&self, zone: &CachedZone<'_, M>) -> Version {
        let mut version = Version { holds: zone.shared.holds(self.env()), pagesets: [0; 6] };
        for cpu in self.possible_cpus() {
            let pageset = zone.lock_pageset(self.env(), cpu);
            version.pagesets.iter_mut().zip(pageset.version()).for_each(|(sum, number)| *sum += number);
        }
        version
    }
}

/// The numbers of a zone at a moment. Sums suffice: all numbers but the pages that pagesets hold only grow, and while none grows those
/// only fall.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    /// Holds of the regions' locks.
    holds: u64,
    /// Sums of [`crate::pcp::Pageset::version`].
    pagesets: [u64; 6],
}

/// A set of blocks: its pages, and the sum of a random number for each block. The sums of two different sets are equal once in 2^64 times.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Blocks {
    pages: u64,
    sum: u64,
}

impl Blocks {
    fn add(&mut self, page: u32, order: Order) {
        self.pages += order.pages();
        // The finalizer of SplitMix64.
        let mut word = (u64::from(page) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.sum = self.sum.wrapping_add(word ^ word >> 31);
    }
}

type Found<T = ()> = Result<T, Inconsistency>;

/// What is called with each block of a walk.
type Visit<'v> = dyn FnMut(u32, Order) -> Found + 'v;

/// One pass. Each block is on its one list, once:
///
/// - *Free blocks.* A block's tag names its list, so no block can be on two. Each block on a list is linked back to the block before it, so
///   none comes twice: the first that did would have two blocks before it. So the lists hold different blocks that are tagged free,
///   and if these have as many pages as all that are tagged free, they are all of them.
/// - *Cached blocks.* Each block in a pageset or depot is tagged cached, with the order of its list. The sums of random numbers over
///   these and over all blocks that are tagged cached are equal only if each is there once ([`Blocks`]).
///
/// The words that a pass reads without a lock may be of different moments. Every number of a block is checked before it is an index,
/// and every walk ends after as many steps as there can be.
struct Audit<'z, 'a, M: Machine> {
    allocator: &'z Allocator<'a, M>,
    zone: &'z CachedZone<'a, M>,
}

impl<M: Machine> Audit<'_, '_, M> {
    fn error<T>(&self, page: Option<u32>, what: &'static str, expected: u64, found: u64) -> Found<T> {
        let pfn = page.map(|page| self.zone.frames().pfn(page));
        Err(Inconsistency { zone: self.zone.shared.index, pfn, what, expected, found })
    }

    fn equal(&self, what: &'static str, expected: u64, found: u64) -> Found {
        if expected == found { Ok(()) } else { self.error(None, what, expected, found) }
    }

    fn run(&self) -> Found<Books> {
        self.limits()?;
        let free = self.checked(store::ALL.audit_free(&self.zone.shared))?;
        let cached = self.cached()?;
        let (mut books, tagged) = self.blocks()?;
        // Pages in no block: their store has checked that.
        books.free += free.unlisted;
        if self.zone.shared.deferred.is_empty() {
            self.equal("pages whose free is deferred", 0, self.zone.shared.deferred_pages())?;
        }
        self.equal("pages on free lists against pages tagged free", books.free, free.all())?;
        if cached != tagged {
            self.miscounted()?;
        }
        self.equal("pages in pagesets against pages tagged cached", books.cached, cached.pages)?;
        self.plenty()?;
        self.types()?;
        self.equal(
            "free + cached + in use = managed",
            self.zone.shared.managed.get(),
            free.all() + cached.pages + books.in_use,
        )?;
        Ok(books)
    }

    /// Checks what each pageset may keep.
    fn limits(&self) -> Found {
        for (cpu, pageset) in self.allocator.possible_cpus().zip(self.zone.pagesets) {
            let (high, may) = (pageset.state().high_max, self.allocator.keeps_pages(self.zone, cpu));
            let kept = pageset.count().max(high);
            if !may && kept > 0 {
                let what = "pages or a high above 0 in a pageset that is disabled or of an offline CPU";
                return self.error(None, what, 0, kept.into());
            }
            let loan = pageset.loan.get();
            let most = if loan > 0 { self.zone.shares.with_loan(loan) } else { pageset.capacity.get() };
            if may && high > most {
                let what = "high_max within the capacity of a pageset, or its share of the zone";
                return self.error(None, what, most.into(), high.into());
            }
        }
        let [lent, left] = self.zone.shares.lent_and_left();
        let loans = self.zone.pagesets.iter().map(|pageset| i64::from(pageset.loan.get())).sum::<i64>();
        self.equal("what pagesets borrow and may borrow", lent as u64, (loans + left) as u64)
    }

    /// Checks the counters of HIGHATOMIC and CMA pageblocks.
    fn types(&self) -> Found {
        let pages = |migratetype| {
            let starts = (0..self.zone.frames().len()).step_by(Order::PAGEBLOCK.pages() as usize);
            let blocks = starts.filter(|&start| self.zone.frames().block_type(start) == migratetype).count();
            blocks as u64 * Order::PAGEBLOCK.pages()
        };
        let reserved = self.zone.shared.reserved_highatomic.get();
        self.equal("the pages of HIGHATOMIC pageblocks", reserved, pages(MigrateType::HighAtomic))?;
        self.equal("the pages of CMA pageblocks", self.zone.shared.cma_pages.get(), pages(MigrateType::Cma))
    }

    /// What a layer below has checked.
    fn checked<T>(&self, found: Result<T, Mismatch>) -> Found<T> {
        found.or_else(|(page, what, expected, found)| self.error(page, what, expected, found))
    }

    /// Checks that a zone marked as having plenty of an order passes the high mark for every kind of request.
    fn plenty(&self) -> Found {
        for order in Order::all().filter(|order| self.zone.shared.has_plenty(*order)) {
            let request = MarkTest { order, ..MarkTest::SINGLE };
            for highest in ZoneKind::ALL {
                if !self.zone.shared.passes_mark(Mark::High, &MarkTest { highest, ..request }) {
                    return self.error(
                        None,
                        "a zone marked as having plenty fails a request of order",
                        0,
                        order.get().into(),
                    );
                }
            }
        }
        Ok(())
    }

    /// Walks all pagesets and depots; returns the blocks in them.
    fn cached(&self) -> Found<Blocks> {
        let mut all = Blocks::default();
        let mut before = 0;
        let mut pages_of = |walk: &mut dyn FnMut(&mut Visit<'_>) -> Found| {
            walk(&mut |page, order| {
                self.checked(store::check_tag(self.zone.frames(), page, order, PageState::Cached))?;
                all.add(page, order);
                Ok(())
            })?;
            let pages = all.pages - before;
            before = all.pages;
            Ok(pages)
        };
        for (cpu, pageset) in self.allocator.possible_cpus().zip(self.zone.pagesets) {
            let pages = pages_of(&mut |visit| self.each_in_pageset(cpu, visit))?;
            self.equal("the count of a pageset", pageset.count().into(), pages)?;
        }
        pages_of(&mut |visit| self.each_in_stores(visit))?;
        Ok(all)
    }

    /// Visits the blocks of a pageset, at most 62 under a hold of its lock. Ends early if the pageset has changed: then the version of
    /// the zone differs, too.
    fn each_in_pageset(&self, cpu: CpuId, visit: &mut Visit<'_>) -> Found {
        let lock = || self.zone.lock_pageset(self.allocator.env(), cpu);
        let version = lock().version();
        for list in 0..LISTS {
            let mut chunk = None;
            loop {
                let pageset = lock();
                if pageset.version() != version {
                    return Ok(());
                }
                let Some((here, blocks)) = pageset.list(list).chunk_after(self.zone.arrays, chunk) else { break };
                blocks.iter().try_for_each(|block| visit(block.get(), order_of(list)))?;
                chunk = Some(here);
            }
        }
        Ok(())
    }

    /// Visits the blocks of stores that are tagged cached, and those that CPUs left for pagesets of others.
    fn each_in_stores(&self, visit: &mut Visit<'_>) -> Found {
        let mut visit = |page, order| {
            // If it concerns a page, that is the visited one.
            visit(page, order).map_err(|wrong| (wrong.pfn.map(|_| page), wrong.what, wrong.expected, wrong.found))
        };
        self.checked(store::HIDDEN.audit_cached(&self.zone.shared, &mut visit))?;
        self.checked(self.zone.audit_waiting(&mut visit))
    }

    /// Finds the first block that is tagged cached, and is in no pageset or depot, or more than once: halves the zone until one page
    /// is left.
    fn miscounted(&self) -> Found {
        let frames = self.zone.frames();
        let listed = |from, end| {
            let mut blocks = Blocks::default();
            let mut visit = |page, order| {
                if (from..end).contains(&page) {
                    blocks.add(page, order);
                }
                Ok(())
            };
            self.allocator.possible_cpus().try_for_each(|cpu| self.each_in_pageset(cpu, &mut visit))?;
            self.each_in_stores(&mut visit)?;
            Ok(blocks)
        };
        let tagged = |from, end| {
            let mut blocks = Blocks::default();
            for page in (from..end).filter(|&page| frames.tag(page).state() == PageState::Cached) {
                blocks.add(page, frames.tag(page).order());
            }
            blocks
        };
        let (mut from, mut end) = (0, frames.len());
        while end - from > 1 {
            let middle = from + (end - from) / 2;
            if listed(from, middle)? == tagged(from, middle) {
                from = middle;
            } else {
                end = middle;
            }
        }
        let times = listed(from, end)?.pages / frames.tag(from).order().pages();
        self.error(Some(from), "how often a cached block is in a pageset or depot", 1, times)
    }

    /// Walks the zone block by block. Checks that no block lies inside another, and that free buddies which should be merged are. Returns
    /// the blocks that are tagged cached.
    fn blocks(&self) -> Found<(Books, Blocks)> {
        let (mut books, mut cached) = (Books::default(), Blocks::default());
        let mut free_from = 0;
        for page in 0..self.zone.frames().len() {
            let tag = self.zone.frames().tag(page);
            if tag.state() == PageState::Inside {
                continue;
            }
            if page < free_from {
                return self.error(Some(page), "a block begins inside another", u64::from(free_from), u64::from(page));
            }
            let order = tag.order();
            free_from = page + order.pages() as u32;
            match tag.state() {
                PageState::Free => {
                    books.free += order.pages();
                    self.is_merged(page, order)?;
                }
                PageState::Cached => cached.add(page, order),
                _ => books.in_use += order.pages(),
            }
        }
        books.cached = cached.pages;
        Ok((books, cached))
    }

    fn is_merged(&self, page: u32, order: Order) -> Found {
        let buddy = page ^ order.pages() as u32;
        if order == Order::MAX || !self.zone.shared.is_free(buddy, order) {
            return Ok(());
        }
        let differ = self.zone.shared.list_of(page) != self.zone.shared.list_of(buddy)
            || self.zone.frames().block_type(page) != self.zone.frames().block_type(buddy);
        // A claim retypes one of two pageblocks; its free half then waits for the next free to merge. Before 6.10 a
        // block may be on another list than its pageblock's.
        let skipped = order == Order::ZERO && self.zone.shared.has_skipped();
        let may_wait = skipped || order >= Order::PAGEBLOCK && (differ || !self.allocator.tuning.merge_by_type);
        if may_wait { Ok(()) } else { self.error(Some(page), "free buddies are unmerged", 0, order.get().into()) }
    }
}

impl<'a, M: Machine> ZoneView<'_, 'a, M> {
    /// Checks the zone from end to end, after its deferred frees. The time is proportional to the zone. Takes the lock of one pageset or
    /// region at a time, for a few words or at most 62 blocks, so other calls go on meanwhile.
    ///
    /// A pass that another call disturbed proves nothing, and the audit makes another pass, up to eight. It reports an inconsistency
    /// if two passes in a row find it, and nothing has changed during both.
    ///
    /// A call that is suspended elsewhere may have claimed a block and not yet freed it. Only an allocator that is otherwise idle is
    /// certain to pass.
    ///
    /// # Errors
    /// The first inconsistency; or the zone is busy.
    pub fn audit(self) -> Result<Books, AuditError> {
        let (zone, allocator) = (self.zone, self.allocator);
        let mut seen = None;
        for _ in 0..PASSES {
            zone.shared.complete_deferred(allocator.env());
            let before = allocator.version(zone);
            let result = Audit { allocator, zone }.run();
            if allocator.version(zone) == before {
                match result {
                    Ok(books) => return Ok(books),
                    Err(error) if seen == Some((before, error)) => return Err(AuditError::Inconsistent(error)),
                    Err(error) => seen = Some((before, error)),
                }
            }
            allocator.machine.relax();
        }
        Err(AuditError::Busy { zone: zone.shared.index })
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
