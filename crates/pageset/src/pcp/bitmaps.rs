//! Drains to the bitmaps of pageblocks, and refills from there, without a lock: the rule
//! [`Tuning::bitmaps`](crate::Tuning::bitmaps).

use core::sync::atomic::AtomicU32;

use super::alloc_free::remembered_type;
use super::regions::Held;
use super::{CachedZone, Pageset, PcpGuard};
use crate::buddy::{Env, Wanted};
use crate::frame::{Order, PAGEBLOCK, PageState, Tag};
use crate::machine::{Line, LockPath, Machine};
use crate::sync::LockedWord;

/// Pageblocks without a block that is large enough, after which a refill goes to the free lists. A guess.
const SEARCHED: u32 = 8;
/// Blocks that a refill takes at a time.
const TAKEN: usize = 64;

impl<M: Machine> CachedZone<'_, M> {
    /// Marks at most 64 blocks of a pageset, smaller than pageblocks, as free in the bitmaps of their pageblocks. Pageblocks that are
    /// free as a whole go to the lists, and so do blocks of pageblocks whose type no request asks for.
    pub(super) fn free_to_bitmaps(&self, env: Env<'_, M>, blocks: &[AtomicU32], order: Order) {
        let (buddy, frames) = (&self.shared.buddy, self.frames());
        let (mut whole, mut others) = (0_u64, 0_u64);
        // Before the bits: no refill subtracts a page that is not counted yet.
        buddy.bitmap_pages.add((blocks.len() as u64) << order.get());
        for (at, block) in blocks.iter().enumerate() {
            let page = block.get();
            if !frames.block_type(page).is_ordinary() {
                others |= 1 << at;
                continue;
            }
            env.touch(self.bitmap_line(page));
            frames.set_tag(page, Tag::INSIDE);
            whole |= u64::from(buddy.bitmaps.free(page, order)) << at;
        }
        buddy.bitmaps.settle();
        for (at, block) in blocks.iter().enumerate() {
            if others & 1 << at == 0 {
                buddy.bitmaps.note(block.get());
            }
        }
        while whole != 0 {
            self.free_whole(env, blocks[whole.trailing_zeros() as usize].get());
            whole &= whole - 1;
        }
        if others != 0 {
            buddy.bitmap_pages.sub(u64::from(others.count_ones()) << order.get());
            self.free_some_to_regions(env, blocks, others, order, None, &mut Held::default());
        }
    }

    /// Frees the pageblock around a page if its bitmap has all pages.
    fn free_whole(&self, env: Env<'_, M>, page: u32) {
        let buddy = &self.shared.buddy;
        let pageblock = page / PAGEBLOCK;
        if !buddy.bitmaps.is_whole(pageblock) {
            return;
        }
        // Before the bits are taken: the holder of the lock finds each page in the bitmap or on a list.
        let zone = self.shared.lock_region(env, LockPath::Drain, buddy.region_of(page));
        if buddy.bitmaps.take_whole(pageblock) {
            zone.free_block(pageblock * PAGEBLOCK, Order::PAGEBLOCK, zone.frames.block_type(page));
            buddy.bitmap_pages.sub(PAGEBLOCK.into());
        }
    }

    /// Fills a list with up to `most` blocks of the bitmaps of a region. Returns their number.
    pub(super) fn refill_from_bitmaps<G>(
        &self,
        env: Env<'_, M>,
        pcp: &PcpGuard<'_, M::Lock, G>,
        list: usize,
        wanted: Wanted,
        region: usize,
        most: u32,
    ) -> u32 {
        let buddy = &self.shared.buddy;
        if !buddy.bitmaps.are_kept() || wanted.order >= Order::PAGEBLOCK || buddy.bitmap_pages.get() == 0 {
            return 0;
        }
        let (mut at, end) = buddy.pageblocks_of(region);
        let (mut taken, mut searched) = (0, 0);
        while taken < most
            && searched < SEARCHED
            && let Some(pageblock) = buddy.bitmaps.next(at, end)
        {
            at = pageblock + 1;
            if buddy.frames.block_type(pageblock * PAGEBLOCK) != wanted.migratetype {
                continue;
            }
            let came = self.refill_from_bitmap(env, pcp, list, wanted, pageblock, most - taken);
            searched = if came == 0 { searched + 1 } else { 0 };
            taken += came;
        }
        taken
    }

    /// As [`Self::refill_from_bitmaps`], with the blocks of one pageblock.
    fn refill_from_bitmap<G>(
        &self,
        env: Env<'_, M>,
        pcp: &PcpGuard<'_, M::Lock, G>,
        list: usize,
        wanted: Wanted,
        pageblock: u32,
        most: u32,
    ) -> u32 {
        let (buddy, order) = (&self.shared.buddy, wanted.order);
        env.touch(self.bitmap_line(pageblock * PAGEBLOCK));
        let mut filled = 0;
        while filled < most {
            let (mut blocks, mut len) = ([0; TAKEN], 0);
            let want = (most - filled).min(TAKEN as u32);
            let came = buddy.bitmaps.take(pageblock, order, want, |page| {
                blocks[len] = page;
                len += 1;
            });
            let tag = Tag::new(
                PageState::Cached,
                order,
                remembered_type(buddy, env.tuning, pageblock * PAGEBLOCK, wanted.migratetype),
            );
            let mut next = blocks[..len].iter();
            let placed = pcp.fill(list, came, || {
                let &page = next.next()?;
                buddy.frames.set_tag(page, tag);
                Some(page)
            });
            buddy.bitmap_pages.sub(u64::from(placed) << order.get());
            filled += placed;
            if placed > 0 {
                self.shared.buddy.bitmap_refills.add(1);
            }
            if placed < came {
                // The pageset has no more room.
                for &page in next {
                    buddy.bitmaps.free(page, order);
                }
                buddy.bitmaps.settle();
                buddy.bitmaps.note(pageblock * PAGEBLOCK);
                break;
            }
            if came < want {
                break;
            }
        }
        filled
    }

    /// Takes a block for a request that the free lists cannot serve, and tags it. Waits for no lock if the request does not.
    pub(crate) fn take_from_bitmaps(&self, env: Env<'_, M>, pageset: &Pageset<M::Lock>, wanted: Wanted) -> Option<u32> {
        let (zone, buddy) = (&self.shared, &self.shared.buddy);
        if !buddy.bitmaps.are_kept() || wanted.order >= Order::PAGEBLOCK || buddy.bitmap_pages.get() == 0 {
            return None;
        }
        buddy.regions_from(pageset.region()).filter(|&region| self.has_bitmap_pages(region)).find_map(|region| {
            // The lock is for the region's counters.
            let guard = if wanted.waits {
                zone.lock_region(env, LockPath::DirectAlloc, region)
            } else {
                zone.try_lock_region(env, LockPath::DirectAlloc, region)?
            };
            let (mut at, end) = buddy.pageblocks_of(region);
            let mut found = None;
            while found.is_none()
                && let Some(pageblock) = buddy.bitmaps.next(at, end)
            {
                at = pageblock + 1;
                if !wanted.no_fragment || buddy.frames.block_type(pageblock * PAGEBLOCK) == wanted.migratetype {
                    buddy.bitmaps.take(pageblock, wanted.order, 1, |page| found = Some(page));
                }
            }
            let page = found?;
            buddy.frames.set_tag(page, Tag::new(PageState::Allocated, wanted.order, wanted.migratetype));
            buddy.bitmap_pages.sub(wanted.order.pages());
            guard.count_direct_alloc(wanted.order.pages());
            Some(page)
        })
    }

    /// Whether the bitmaps of a region may have pages, at a recent moment.
    #[inline]
    pub(super) fn has_bitmap_pages(&self, region: usize) -> bool {
        let buddy = &self.shared.buddy;
        let (first, end) = buddy.pageblocks_of(region);
        buddy.bitmaps.are_kept() && buddy.bitmap_pages.get() > 0 && buddy.bitmaps.next(first, end).is_some()
    }

    /// Frees all pages of the bitmaps, a pageblock's in a hold. Pages that other CPUs free there meanwhile may stay.
    pub(crate) fn empty_bitmaps(&self, env: Env<'_, M>) {
        let buddy = &self.shared.buddy;
        if !buddy.bitmaps.are_kept() || buddy.bitmap_pages.get() == 0 {
            return;
        }
        (0..buddy.regions.len()).for_each(|region| self.empty_bitmaps_of(env, region));
    }

    fn empty_bitmaps_of(&self, env: Env<'_, M>, region: usize) {
        let bitmaps = &self.shared.buddy.bitmaps;
        let (mut at, end) = self.shared.buddy.pageblocks_of(region);
        while let Some(pageblock) = bitmaps.next(at, end) {
            at = pageblock + 1;
            self.shared.lock_region(env, LockPath::Drain, region).empty_bitmap(pageblock * PAGEBLOCK);
        }
    }

    /// Frees the pages of a region's bitmaps if no refill took any since the last call.
    pub(super) fn tick_bitmaps(&self, env: Env<'_, M>, region: usize) {
        if self.has_bitmap_pages(region) {
            let refills = self.shared.buddy.bitmap_refills.get() as u32;
            let seen = &self.shared.buddy.regions[region].bitmap_refills;
            // Two ticks at a time may both free, or neither.
            if seen.get() == refills {
                self.empty_bitmaps_of(env, region);
            }
            seen.set(refills);
        }
    }

    /// The words of a pageblock's bitmap.
    fn bitmap_line(&self, page: u32) -> Line {
        Line::Page(self.frames().pfn(page / PAGEBLOCK * PAGEBLOCK))
    }
}
