//! The consistency check: every page is counted once, lists agree with tags, counters agree with lists.

use core::fmt;
use core::iter::successors;

use crate::alloc::Allocator;
use crate::buddy::list::List;
use crate::buddy::region::FreePages;
use crate::frame::MigrateType;
use crate::frame::ZoneKind;
use crate::frame::{Order, PAGEBLOCK, PageState, Pfn, Tag};
use crate::machine::Machine;
use crate::pcp::{CachedZone, claims};
use crate::policy::lists::{LISTS, order_of};
use crate::sync::LockedWord;
use crate::zone::watermark::{Mark, MarkTest};

/// Where a zone's pages are. `free + cached + in_use = managed`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Books {
    /// Pages on free lists, ISOLATE included.
    pub free: u64,
    /// Pages in pagesets and depots.
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

impl<M: Machine> Allocator<'_, M> {
    /// Checks a zone from end to end, after its deferred frees. The time is proportional to the zone. The call holds the
    /// locks of all pagesets and regions of the zone: other calls wait, or fail where they wait for nothing.
    ///
    /// A call that is in progress elsewhere may have claimed a block and not yet freed it. Only an allocator that is
    /// otherwise idle is certain to pass.
    ///
    /// # Errors
    /// The first inconsistency.
    ///
    /// # Panics
    /// There is no zone of that number.
    pub fn audit(&self, index: usize) -> Result<Books, Inconsistency> {
        let zone = &self.zones[index];
        zone.absorb_all(self.env());
        let _pagesets = zone.lock_pagesets(self.env());
        zone.shared.complete_deferred(self.env());
        // The check marks the tags of the blocks on lists while it runs, so nobody may take one.
        let _zone = zone.shared.pause(self.env());
        for (cpu, pageset) in self.possible_cpus().zip(zone.pagesets) {
            let (kept, may) = (pageset.count().max(pageset.state().high_max), self.keeps_pages(zone, cpu));
            if !may && kept > 0 {
                let what = "pages or a high above 0 in a pageset that is disabled or of an offline CPU";
                return Err(Inconsistency { zone: index, pfn: None, what, expected: 0, found: kept.into() });
            }
            if may && pageset.state().high_max > pageset.capacity() {
                let (expected, found) = (pageset.capacity().into(), pageset.state().high_max.into());
                return Err(Inconsistency {
                    zone: index,
                    pfn: None,
                    what: "high_max within the capacity of a pageset",
                    expected,
                    found,
                });
            }
        }
        Audit { zone, merge_by_type: self.tuning.merge_by_type }.run()
    }
}

struct Audit<'z, 'a, M: Machine> {
    zone: &'z CachedZone<'a, M>,
    merge_by_type: bool,
}

/// The state that marks a page as seen: no block begins at a page in this state.
const SEEN: PageState = PageState::Inside;

impl<M: Machine> Audit<'_, '_, M> {
    fn error<T>(&self, page: Option<u32>, what: &'static str, expected: u64, found: u64) -> Result<T, Inconsistency> {
        let pfn = page.map(|page| self.zone.frames().pfn(page));
        Err(Inconsistency { zone: self.zone.shared.index, pfn, what, expected, found })
    }

    fn equal(&self, what: &'static str, expected: u64, found: u64) -> Result<(), Inconsistency> {
        if expected == found { Ok(()) } else { self.error(None, what, expected, found) }
    }

    fn run(&self) -> Result<Books, Inconsistency> {
        let walked = self.free_lists().and_then(|free| Ok((free, self.pagesets()?)));
        self.unmark();
        let (free, cached) = walked?;
        let books = self.blocks()?;
        self.zone
            .shared
            .buddy
            .check_clusters()
            .or_else(|(page, what, expected, found)| self.error(page, what, expected, found))?;
        self.equal("refills in flight", 0, self.zone.shared.buddy.in_flight.refills().into())?;
        self.equal("pages on free lists against pages tagged free", books.free, free)?;
        self.equal("pages in pagesets against pages tagged cached", books.cached, cached)?;
        self.owners()?;
        self.plenty()?;
        self.types()?;
        self.boost()?;
        self.equal(
            "free + cached + in use = managed",
            self.zone.shared.buddy.managed.get(),
            free + cached + books.in_use,
        )?;
        Ok(books)
    }

    /// Marks a block as seen. Fails if the block was seen before.
    fn see(&self, page: u32, order: Order, state: PageState) -> Result<(), Inconsistency> {
        if page >= self.zone.frames().len() {
            return self.error(None, "a free list or pageset has a page outside the zone", 0, u64::from(page));
        }
        let tag = self.zone.frames().tag(page);
        if !tag.is(state, order) {
            let expected = Tag::new(state, order, MigrateType::Unmovable).byte() & 0x3f;
            return self.error(Some(page), "the tag of a listed block", expected.into(), tag.byte().into());
        }
        self.zone.frames().set_tag(page, Tag::from_byte(tag.byte() | 0xf).with_state(SEEN));
        Ok(())
    }

    /// Checks the counters of HIGHATOMIC and CMA pageblocks.
    fn types(&self) -> Result<(), Inconsistency> {
        let pages = |migratetype| {
            let starts = (0..self.zone.frames().len()).step_by(Order::PAGEBLOCK.pages() as usize);
            let blocks = starts.filter(|&start| self.zone.frames().block_type(start) == migratetype).count();
            blocks as u64 * Order::PAGEBLOCK.pages()
        };
        let reserved = self.zone.shared.buddy.reserved_highatomic.get();
        self.equal("the pages of HIGHATOMIC pageblocks", reserved, pages(MigrateType::HighAtomic))?;
        self.equal("the pages of CMA pageblocks", self.zone.shared.buddy.cma_pages.get(), pages(MigrateType::Cma))
    }

    /// Checks that no free pageblock has an owner, and that each owned pageblock with free blocks is on its owner's list.
    fn owners(&self) -> Result<(), Inconsistency> {
        let (frames, owners) = (self.zone.frames(), &self.zone.shared.buddy.owners);
        let pages = Order::PAGEBLOCK.pages() as u32;
        for start in (0..owners.pageblocks()).map(|slot| slot * pages) {
            let Some(owner) = owners.of(start) else { continue };
            let is_free = |order: Order| frames.tag(start & !(order.pages() as u32 - 1)).is(PageState::Free, order);
            if Order::all().skip(Order::PAGEBLOCK.index()).any(is_free) {
                return self.error(Some(start), "the owner of a free pageblock", 0, u64::from(owner.0) + 1);
            }
            let has_free = (start..start + pages).any(|page| frames.tag(page).state() == PageState::Free);
            let is_listed = successors(owners.after(owner, None), |&slot| owners.after(owner, Some(slot)))
                .any(|slot| slot * pages == start);
            let of_others = successors(owners.after(owner, None), |&slot| owners.after(owner, Some(slot)))
                .find(|&slot| owners.of(slot * pages) != Some(owner));
            if let Some(slot) = of_others {
                return self.error(Some(slot * pages), "a pageblock on the list of a CPU that does not own it", 0, 1);
            }
            if has_free && !is_listed {
                return self.error(Some(start), "an owned pageblock with free blocks is on its owner's list", 1, 0);
            }
        }
        Ok(())
    }

    /// Checks that all three marks include the boost.
    fn boost(&self) -> Result<(), Inconsistency> {
        let (boost, marks) = (self.zone.shared.boost.get(), self.zone.shared.watermarks());
        for mark in [marks.min, marks.low, marks.high] {
            if mark < boost {
                return self.error(None, "a mark below its boost", boost, mark);
            }
        }
        Ok(())
    }

    /// Checks that a zone marked as having plenty passes the high mark for every order and kind.
    fn plenty(&self) -> Result<(), Inconsistency> {
        for order in Order::all().filter(|_| self.zone.shared.has_plenty()) {
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

    /// Walks all free lists; returns the pages on them.
    fn free_lists(&self) -> Result<u64, Inconsistency> {
        let (mut all, mut sums) = (0, FreePages { all: 0, cma: 0, highatomic: 0 });
        for (number, region) in self.zone.shared.buddy.regions.iter().enumerate() {
            let (mut free, mut isolated) = (FreePages { all: 0, cma: 0, highatomic: 0 }, 0);
            for order in Order::all() {
                for migratetype in MigrateType::ALL {
                    let pages = self.free_list(number, region.list(order, migratetype), order, migratetype)?;
                    match migratetype {
                        MigrateType::Isolate => isolated += pages,
                        MigrateType::Cma => free.cma += pages,
                        MigrateType::HighAtomic => free.highatomic += pages,
                        _ => {}
                    }
                    free.all += pages;
                }
            }
            all += free.all;
            free.all -= isolated;
            let counted = region.free();
            self.equal("the free pages of a region", counted.all, free.all)?;
            self.equal("the free CMA pages of a region", counted.cma, free.cma)?;
            self.equal("the free HIGHATOMIC pages of a region", counted.highatomic, free.highatomic)?;
            sums.all += free.all;
            sums.cma += free.cma;
            sums.highatomic += free.highatomic;
        }
        let in_bitmaps = self.bitmaps()?;
        all += in_bitmaps;
        sums.all += in_bitmaps;
        let counted = self.zone.shared.buddy.free_pages();
        self.equal("the free pages of the zone", counted.all, sums.all)?;
        self.equal("the free CMA pages of the zone", counted.cma, sums.cma)?;
        self.equal("the free HIGHATOMIC pages of the zone", counted.highatomic, sums.highatomic)?;
        Ok(all)
    }

    /// Walks all bitmaps; returns the pages in them.
    fn bitmaps(&self) -> Result<u64, Inconsistency> {
        let (frames, bitmaps) = (self.zone.frames(), &self.zone.shared.buddy.bitmaps);
        let mut all = 0;
        for page in (0..frames.len()).filter(|&page| bitmaps.has(page)) {
            if frames.tag(page) != Tag::INSIDE {
                return self.error(Some(page), "the tag of a page in a bitmap", 0, frames.tag(page).byte().into());
            }
            if !bitmaps.is_noted(page / PAGEBLOCK) {
                return self.error(Some(page), "a pageblock with pages in its bitmap is noted", 1, 0);
            }
            all += 1;
        }
        self.equal("the pages in bitmaps", self.zone.shared.buddy.bitmap_pages.get(), all)?;
        Ok(all)
    }

    /// Walks one free list of a region; returns the pages on it.
    fn free_list(
        &self,
        region: usize,
        list: &List,
        order: Order,
        migratetype: MigrateType,
    ) -> Result<u64, Inconsistency> {
        let buddy = &self.zone.shared.buddy;
        let mut slot = list.first();
        let mut len = 0;
        while let Some(at) = slot {
            let page = self.zone.frames().page_of_slot(at, order);
            if page < self.zone.frames().len() && buddy.list_of(page) != migratetype {
                let found = buddy.list_of(page) as u64;
                return self.error(Some(page), "the list of a block", migratetype as u64, found);
            }
            self.see(page, order, PageState::Free)?;
            if buddy.region_of(page) != region {
                let found = buddy.region_of(page) as u64;
                return self.error(Some(page), "the region of a block on a list", region as u64, found);
            }
            len += 1;
            slot = list.after(self.zone.frames().links, at);
        }
        self.equal("the length of a free list", list.len().into(), len)?;
        Ok(len * order.pages())
    }

    /// Walks all pagesets; returns the pages in them.
    fn pagesets(&self) -> Result<u64, Inconsistency> {
        let mut all = 0;
        for pageset in self.zone.pagesets {
            let mut pages = 0;
            for list in 0..LISTS {
                let order = order_of(list);
                for page in pageset.blocks(self.zone.arrays, list) {
                    self.see(page, order, PageState::Cached)?;
                    pages += order.pages();
                }
            }
            self.equal("the count of a pageset", pageset.count().into(), pages)?;
            let left = pageset.left_by_others(|page| claims::link(&self.zone.shared, page).get());
            let waiting = left.map(|page| self.zone.frames().tag(page).order().pages()).sum();
            self.equal("the pages that wait for an owner", pageset.waiting.get().into(), waiting)?;
            all += pages + waiting;
        }
        Ok(all + self.depots()?)
    }

    /// Walks all depots; returns the pages in them.
    fn depots(&self) -> Result<u64, Inconsistency> {
        let mut all = 0;
        for (number, region) in self.zone.shared.buddy.regions.iter().enumerate() {
            let mut pages = 0;
            for list in 0..LISTS {
                for page in region.depot.batches(self.zone.depot_words(number), list).flatten() {
                    self.see(page.get(), order_of(list), PageState::Cached)?;
                    pages += order_of(list).pages();
                }
            }
            self.equal("the pages of a depot", region.depot.pages().into(), pages)?;
            all += pages;
        }
        Ok(all)
    }

    /// Removes the marks. A marked tag keeps its kind; state and order come from the lists.
    fn unmark(&self) {
        let restore = |page: u32, order, state| {
            if page < self.zone.frames().len() && self.zone.frames().tag(page).byte() & 0x3f == 0xf {
                let kind = self.zone.frames().tag(page).kind().unwrap_or(MigrateType::Isolate);
                let in_tags = state != PageState::Free || order != Order::MAX;
                self.zone.frames().set_tag(page, if in_tags { Tag::new(state, order, kind) } else { Tag::INSIDE });
            }
        };
        for (region, order) in self.zone.shared.buddy.regions.iter().flat_map(|r| Order::all().map(move |o| (r, o))) {
            for list in MigrateType::ALL.map(|list| region.list(order, list)) {
                let mut slot = list.first();
                // A corrupt list may be circular.
                for _ in 0..list.len() {
                    let Some(at) = slot else { break };
                    restore(self.zone.frames().page_of_slot(at, order), order, PageState::Free);
                    slot = list.after(self.zone.frames().links, at);
                }
            }
        }
        for pageset in self.zone.pagesets {
            for list in 0..LISTS {
                let all = self.zone.frames().len() as usize;
                for page in pageset.blocks(self.zone.arrays, list).take(all) {
                    restore(page, order_of(list), PageState::Cached);
                }
            }
        }
        for (number, region) in self.zone.shared.buddy.regions.iter().enumerate() {
            for list in 0..LISTS {
                for page in region.depot.batches(self.zone.depot_words(number), list).flatten() {
                    restore(page.get(), order_of(list), PageState::Cached);
                }
            }
        }
    }

    /// Walks the zone by its blocks. No block may lie inside another, and no free buddies may be unmerged that should
    /// be merged.
    fn blocks(&self) -> Result<Books, Inconsistency> {
        let mut books = Books::default();
        let mut free_from = 0;
        for page in 0..self.zone.frames().len() {
            let tag = self.zone.frames().tag(page);
            if tag.state() == PageState::Inside {
                if self.zone.shared.buddy.bitmaps.has(page) {
                    if page < free_from {
                        return self.error(
                            Some(page),
                            "a page of a block is in a bitmap",
                            u64::from(free_from),
                            page.into(),
                        );
                    }
                    books.free += 1;
                }
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
                PageState::Cached => books.cached += order.pages(),
                _ => books.in_use += order.pages(),
            }
        }
        Ok(books)
    }

    fn is_merged(&self, page: u32, order: Order) -> Result<(), Inconsistency> {
        let buddy = page ^ order.pages() as u32;
        if order == Order::MAX || !self.zone.shared.buddy.is_free(buddy, order) {
            return Ok(());
        }
        let differ = self.zone.shared.buddy.list_of(page) != self.zone.shared.buddy.list_of(buddy)
            || self.zone.frames().block_type(page) != self.zone.frames().block_type(buddy);
        // A claim retypes one of two pageblocks; its free half then waits for the next free to merge. Before 6.10 a
        // block may be on another list than its pageblock's.
        let skipped = order == Order::ZERO && self.zone.shared.buddy.has_skipped();
        let may_wait = skipped || order >= Order::PAGEBLOCK && (differ || !self.merge_by_type);
        if may_wait { Ok(()) } else { self.error(Some(page), "free buddies are unmerged", 0, order.get().into()) }
    }
}
