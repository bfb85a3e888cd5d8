//! Drains to the bitmaps of pageblocks, and refills from there, without a lock: the rule
//! [`Holds::Short`](crate::policy::Holds::Short).

use core::sync::atomic::AtomicU32;

use super::lists::{HOLD_BLOCKS, Held, count, drain_in_order, free_to_regions, ones};
use super::{Audited, Cache, Drain, Given, Refill, Scope, Store, remembered_type};
use crate::buddy::Wanted;
use crate::frame::{MigrateType, Order, PAGEBLOCK, PageState, Tag, largest_blocks, start_of};
use crate::machine::{Line, LockPath, Machine};
use crate::policy::SMALL;
use crate::sync::LockedWord;
use crate::zone::{Env, Mismatch, Zone, ZoneGuard};

/// Pageblocks in a row without a block that is large enough, after which a refill goes to the free lists. A guess.
const SEARCHED: u32 = 8;
/// Pageblocks of other types, after which it goes there: a refill may hold a lock, and reads a byte for each. A guess.
const SKIPPED: usize = HOLD_BLOCKS;
/// Blocks that a refill takes at a time.
const TAKEN: usize = 64;
/// Pageblocks whose bitmaps are emptied at a time, by a tick or before a request is tried again. A guess: at most 16,384 frees of one
/// page each, some milliseconds, as a tick may be in an interrupt.
const EMPTIED: u32 = 64;

/// The bitmaps of pageblocks: free parts of them.
pub(crate) struct Parts;

impl Parts {
    /// Whether pages move between pagesets and bitmaps: a free page may be on no list, and in no block. In a small build it is known:
    /// [`SMALL`].
    #[inline(always)]
    pub(crate) fn are_kept<M: Machine>(&self, zone: &Zone<'_, M>) -> bool {
        SMALL || zone.bitmaps.are_kept()
    }
}

impl Store for Parts {
    /// Needs no lock.
    #[inline(always)]
    fn take<M: Machine>(&self, refill: &Refill<'_, M>, cache: &impl Cache, most: u32) -> u32 {
        let taken = refill_from_bitmaps(refill, cache, most);
        if refill.held.is_none() {
            cache.count_unlocked(u64::from(taken) << refill.wanted.order.get());
        }
        taken
    }

    #[inline(always)]
    fn give<M: Machine>(&self, drain: &Drain<'_, M>, cache: &impl Cache) -> Given {
        if !self.are_kept(drain.zone) {
            return Given::default();
        }
        let pages = drain_in_order(drain, cache, |blocks, order, held| {
            if order < Order::PAGEBLOCK {
                // Whole pageblocks take a region's lock.
                *held = Held::default();
                let left = free_to_bitmaps(drain.zone, drain.env, blocks, order, cache.region().get() as usize);
                cache.count_unlocked(u64::from(left) << order.get());
            } else {
                free_to_regions(drain.zone, drain.env, (blocks, ones(blocks.len())), order, None, held);
            }
        });
        Given { pages, ends: false }
    }

    fn find<M: Machine>(&self, zone: &Zone<'_, M>, env: Env<'_, M>, wanted: Wanted, region: usize) -> Option<u32> {
        take_from_bitmaps(zone, env, wanted, region)
    }

    /// [`EMPTIED`] pageblocks at a time, each in a hold, after other stores.
    fn settle<M: Machine>(&self, zone: &Zone<'_, M>, env: Env<'_, M>, scope: Scope) -> Option<Scope> {
        match scope {
            _ if !self.are_kept(zone) => None,
            Scope::Request(order) if order == Order::ZERO => None,
            Scope::Zone | Scope::Request(_) | Scope::Unmerged => Some(Scope::Parts(0)),
            Scope::Parts(from) => {
                empty_bitmaps(zone, env, (from, zone.frames.len().div_ceil(PAGEBLOCK))).map(Scope::Parts)
            }
            Scope::Pageblock(page) => {
                if zone.has_parts(page) {
                    zone.lock(env, LockPath::Map, page).settle(page, Order::PAGEBLOCK);
                }
                None
            }
        }
    }

    /// If no refill took any page of the region since the last call: [`EMPTIED`] pageblocks at most.
    #[inline(always)]
    fn tick<M: Machine>(&self, zone: &Zone<'_, M>, env: Env<'_, M>, region: usize) {
        if self.may_serve(zone, region, 1) {
            let words = &zone.regions[region].bitmaps;
            let (refills, seen) = (words.refills.get() as u32, &words.refills_seen);
            // Two ticks at a time may both free, or neither.
            if seen.get() == refills {
                empty_bitmaps(zone, env, zone.pageblocks_of(region));
            }
            seen.set(refills);
        }
    }

    #[inline]
    fn may_serve<M: Machine>(&self, zone: &Zone<'_, M>, region: usize, _pages: u64) -> bool {
        let (first, end) = zone.pageblocks_of(region);
        self.are_kept(zone) && zone.bitmaps.next(first, end).is_some()
    }

    fn pages<M: Machine>(&self, zone: &Zone<'_, M>) -> u64 {
        zone.bitmap_pages()
    }

    fn each_block<M: Machine>(&self, zone: &Zone<'_, M>, visit: &mut dyn FnMut(Order, MigrateType)) {
        zone.bitmaps.each_noted(|pageblock| {
            let list = zone.frames.block_type(pageblock * PAGEBLOCK);
            zone.bitmaps.runs(pageblock, |from, end| {
                largest_blocks(from, end).for_each(|(_, order)| visit(order, list));
            });
        });
    }

    fn audit_free<M: Machine>(&self, zone: &Zone<'_, M>) -> Result<Audited, Mismatch> {
        let (frames, bitmaps) = (&zone.frames, &zone.bitmaps);
        let (mut all, mut block_end) = (0, 0);
        for page in 0..frames.len() {
            let tag = frames.tag(page);
            if tag.state() != PageState::Inside {
                block_end = block_end.max(page + tag.order().pages() as u32);
            }
            if !bitmaps.has(page) {
                continue;
            }
            if tag == Tag::INSIDE && page < block_end {
                return Err((Some(page), "a page of a block is in a bitmap", block_end.into(), page.into()));
            }
            if frames.tag(page) != Tag::INSIDE {
                return Err((Some(page), "the tag of a page in a bitmap", 0, frames.tag(page).0.into()));
            }
            if !bitmaps.is_noted(page / PAGEBLOCK) {
                return Err((Some(page), "a pageblock with pages in its bitmap is noted", 1, 0));
            }
            all += 1;
        }
        let counted = zone.bitmap_pages();
        if counted == all {
            Ok(Audited { listed: 0, unlisted: all })
        } else {
            Err((None, "the pages in bitmaps", counted, all))
        }
    }
}

/// Marks at most 64 blocks of a pageset, smaller than pageblocks, as free in the bitmaps of their pageblocks. Pageblocks that are
/// free as a whole go to the lists, and so do blocks of pageblocks whose type no request asks for. Returns the number of blocks
/// that did not go to the lists by themselves.
///
/// `region` is the one that the pageset prefers.
fn free_to_bitmaps<M: Machine>(
    zone: &Zone<'_, M>,
    env: Env<'_, M>,
    blocks: &[AtomicU32],
    order: Order,
    region: usize,
) -> u32 {
    let frames = &zone.frames;
    let pages = &zone.regions[region].bitmaps.pages;
    // Sets of blocks. `runs`: the first block of each run. `whole`: its pageblock may be whole. `others`: blocks for the lists.
    let (mut runs, mut whole, mut others) = (0_u64, 0_u64, 0_u64);
    // The pages are counted before their bits are set. A refill never subtracts a page that is not counted.
    pages.add((blocks.len() as u64) << order.get());
    let mut at = 0;
    while let Some(run) = zone.bitmaps.first_run(&blocks[at..], order) {
        let page = blocks[at].get();
        if frames.block_type(page).is_ordinary() {
            for block in &blocks[at..at + run.blocks] {
                env.touch(Line::Page(frames.pfn(block.get())));
                frames.set_tag(block.get(), Tag::INSIDE);
            }
            env.touch(bitmap_line(zone, page));
            // A block that completes its pageblock needs no bits.
            let completes = zone.bitmaps.is_rest(page, order) && free_locked(zone, env, page, Some(order), true);
            if !completes {
                runs |= 1 << at;
                whole |= u64::from(zone.bitmaps.free_run(run)) << at;
            }
        } else {
            others |= ones(run.blocks) << at;
        }
        at += run.blocks;
    }
    if runs != 0 {
        zone.bitmaps.fence();
    }
    each(runs, |at| zone.bitmaps.note(blocks[at].get()));
    each(whole, |at| free_whole(zone, env, blocks[at].get(), None, true));
    if others != 0 {
        pages.sub(u64::from(count(others)) << order.get());
        free_to_regions(zone, env, (blocks, others), order, None, &mut Held::default());
    }
    blocks.len() as u32 - count(others)
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Frees the pageblock around a page if its bitmap has all pages, but for those of a block of the order `own` that begins there and
    /// that the caller owns. Such a block is counted as one in a bitmap. Returns whether it did; if not, the caller still owns its block.
    pub(super) fn free_whole(&self, page: u32, own: Option<Order>) -> bool {
        // With the lock held: the holder of the lock finds each page in the bitmap or on a list.
        let is_taken = match own {
            Some(order) => self.zone.bitmaps.take_around(page, order),
            None => self.zone.bitmaps.take_whole(page / PAGEBLOCK),
        };
        if is_taken {
            self.free_block(start_of(page, Order::PAGEBLOCK), Order::PAGEBLOCK);
            self.region.bitmaps.pages.sub(PAGEBLOCK.into());
        }
        is_taken
    }
}

/// Frees the pageblock around a page if its bitmap has all pages. `held` is its region, if the caller holds its lock. If not, and the
/// caller does not wait, a lock that is held leaves the pages in the bitmap.
fn free_whole<M: Machine>(
    zone: &Zone<'_, M>,
    env: Env<'_, M>,
    page: u32,
    held: Option<&ZoneGuard<'_, '_, M>>,
    waits: bool,
) {
    if !zone.bitmaps.is_whole(page / PAGEBLOCK) {
        return;
    }
    match held {
        Some(guard) => guard.free_whole(page, None),
        None => free_locked(zone, env, page, None, waits),
    };
}

/// As [`ZoneGuard::free_whole`], with the lock of the page's region, unless it is held and the caller does not wait.
// Not inlined: once for each pageblock that is free as a whole, and the small build has room for one.
#[inline(never)]
fn free_locked<M: Machine>(zone: &Zone<'_, M>, env: Env<'_, M>, page: u32, own: Option<Order>, waits: bool) -> bool {
    let guard = zone.lock_at(env, LockPath::Drain, page, waits);
    guard.is_some_and(|guard| guard.free_whole(page, own))
}

/// Fills a list with up to `most` blocks of the bitmaps of a region. Returns their number.
fn refill_from_bitmaps<M: Machine>(refill: &Refill<'_, M>, cache: &impl Cache, most: u32) -> u32 {
    let &Refill { zone, wanted, .. } = refill;
    // The pages first: a search in vain reads the notes of all pageblocks of the region.
    if zone.bitmap_pages() == 0 || wanted.order >= Order::PAGEBLOCK {
        return 0;
    }
    let (first, end) = zone.pageblocks_of(refill.region);
    let words = &zone.regions[refill.region].bitmaps;
    let from = &words.from[wanted.order.index()];
    let began = from.get().clamp(first, end);
    let (mut taken, mut searched, mut skipped) = (0, 0, 0);
    // The next search goes on where this one ends: it does not read the same pageblocks in vain.
    let mut ends = began;
    'search: for (start, stop) in [(began, end), (first, began)] {
        let mut at = start;
        while taken < most
            && let Some(pageblock) = zone.bitmaps.next(at, stop)
        {
            ends = pageblock;
            if searched == SEARCHED || skipped == SKIPPED {
                break 'search;
            }
            at = pageblock + 1;
            if zone.frames.block_type(pageblock * PAGEBLOCK) != wanted.migratetype {
                skipped += 1;
                continue;
            }
            let came = refill_from_bitmap(refill, cache, pageblock, most - taken);
            searched = if came == 0 { searched + 1 } else { 0 };
            taken += came;
        }
        if taken == most {
            break;
        }
        ends = first;
    }
    // Other CPUs write this line, too.
    if ends != from.get() {
        from.set(ends);
    }
    if taken > 0 {
        words.refills.add(1);
    }
    taken
}

/// As [`refill_from_bitmaps`], with the blocks of one pageblock.
fn refill_from_bitmap<M: Machine>(refill: &Refill<'_, M>, cache: &impl Cache, pageblock: u32, most: u32) -> u32 {
    let &Refill { zone, env, list, wanted, held, .. } = refill;
    let order = wanted.order;
    env.touch(bitmap_line(zone, pageblock * PAGEBLOCK));
    let mut filled = 0;
    while filled < most {
        let (mut blocks, mut len) = ([0; TAKEN], 0);
        let want = (most - filled).min(TAKEN as u32);
        let taken = zone.bitmaps.take(pageblock, order, want, |page| {
            blocks[len] = page;
            len += 1;
        });
        let (came, mut whole) = (taken.blocks, taken.whole);
        let tag = Tag::new(
            PageState::Cached,
            order,
            remembered_type(zone, env.tuning, pageblock * PAGEBLOCK, wanted.migratetype),
        );
        let mut next = blocks[..len].iter();
        let placed = cache.fill(list, came, || {
            let &page = next.next()?;
            env.touch(Line::Page(zone.frames.pfn(page)));
            zone.frames.set_tag(page, tag);
            Some(page)
        });
        zone.regions[cache.region().get() as usize].bitmaps.pages.sub(u64::from(placed) << order.get());
        filled += placed;
        // The pageset has no more room for these.
        for &page in next {
            whole |= zone.bitmaps.put_back(page, order);
        }
        if whole {
            free_whole(zone, env, pageblock * PAGEBLOCK, held, wanted.waits);
        }
        if placed < want {
            break;
        }
    }
    filled
}

/// Takes a block for a request that the free lists cannot serve, and tags it. Waits for no lock if the request does not.
fn take_from_bitmaps<M: Machine>(zone: &Zone<'_, M>, env: Env<'_, M>, wanted: Wanted, region: usize) -> Option<u32> {
    if !zone.bitmaps.are_kept() || wanted.order >= Order::PAGEBLOCK {
        return None;
    }
    let take = |region, own| {
        let (mut at, end) = zone.pageblocks_of(region);
        // The search needs no lock. If another CPU takes the block before this one locks the region, the search goes on with the next
        // pageblock.
        loop {
            let suits = |list: MigrateType| list.is_ordinary() && (list == wanted.migratetype) == own;
            let pageblock = zone.bitmap_with(wanted.order, (at, end), usize::MAX, suits)?;
            at = pageblock + 1;
            // The lock is for the region's counters.
            let guard = zone.lock_or_try(env, LockPath::DirectAlloc, region, wanted.waits)?;
            env.touch(bitmap_line(zone, pageblock * PAGEBLOCK));
            if !suits(zone.frames.block_type(pageblock * PAGEBLOCK)) {
                // It changed meanwhile. What a drain has just left there belongs on the lists of the new type.
                guard.settle(pageblock * PAGEBLOCK, Order::PAGEBLOCK);
                continue;
            }
            let mut found = None;
            let taken = zone.bitmaps.take(pageblock, wanted.order, 1, |page| found = Some(page));
            if taken.whole {
                guard.free_whole(pageblock * PAGEBLOCK, None);
            }
            if let Some(page) = found {
                zone.frames.set_tag(page, Tag::new(PageState::Allocated, wanted.order, wanted.migratetype));
                guard.region.bitmaps.pages.sub(wanted.order.pages());
                guard.count_direct_alloc(wanted.order.pages());
                return Some(page);
            }
        }
    };
    for own in [true, false] {
        if own || !wanted.no_fragment {
            let found = zone.regions_from(region).find_map(|region| take(region, own));
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

/// Frees the pages of the next [`EMPTIED`] bitmaps of some pageblocks. Returns where to go on, `None` at their end.
fn empty_bitmaps<M: Machine>(zone: &Zone<'_, M>, env: Env<'_, M>, (mut at, end): (u32, u32)) -> Option<u32> {
    for _ in 0..EMPTIED {
        let pageblock = zone.bitmaps.next(at, end)?;
        let page = pageblock * PAGEBLOCK;
        zone.lock_page(env, LockPath::Drain, page).settle(page, Order::PAGEBLOCK);
        at = pageblock + 1;
    }
    Some(at)
}

/// The words of a pageblock's bitmap, as the line of its first page.
fn bitmap_line<M: Machine>(zone: &Zone<'_, M>, page: u32) -> Line {
    Line::Page(zone.frames.pfn(page / PAGEBLOCK * PAGEBLOCK))
}

/// Visits the numbers in a set, in ascending order.
#[inline(always)]
fn each(mut set: u64, mut visit: impl FnMut(usize)) {
    while set != 0 {
        visit(set.trailing_zeros() as usize);
        set &= set - 1;
    }
}
