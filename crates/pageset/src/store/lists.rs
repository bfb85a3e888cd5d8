//! The free lists of the regions: the store that has every page which no other store has. Refills split blocks; drains merge them.

use core::sync::atomic::AtomicU32;

use super::walk::audit_lists;
use super::whole_blocks::{SplitBlock, first_block};
use super::{Audited, Cache, Drain, Given, Refill, Scope, Store, is_one_hold, remembered_type};
use crate::buddy::{Capture, Stage};
use crate::frame::{MigrateType, Order, PageState, Tag};
use crate::machine::{LockPath, Machine};
use crate::policy::lists::order_of;
use crate::policy::{Backing, SMALL};
use crate::sync::LockedWord;
use crate::zone::{Env, Mismatch, Zone, ZoneGuard};

/// The most blocks that a drain moves under one hold of the locks of region and pageset: as many as a refill.
pub(super) const HOLD_BLOCKS: usize = Backing::REFILL_BLOCKS as usize;

/// The free lists of the regions.
pub(crate) struct Lists;

impl Store for Lists {
    /// Needs the lock of the region. The rest of a block that is split may go to its pageblock's bitmap.
    #[inline(always)]
    fn take<M: Machine>(&self, refill: &Refill<'_, M>, cache: &impl Cache, most: u32) -> u32 {
        match refill.held {
            Some(guard) => refill_from_lists(guard, refill, cache, most),
            None => 0,
        }
    }

    /// The pages are on the free lists already. Merges those that were freed without merging.
    fn settle<M: Machine>(&self, zone: &Zone<'_, M>, env: Env<'_, M>, scope: Scope) -> Option<Scope> {
        if scope == Scope::Unmerged {
            zone.merge_skipped(env);
        }
        None
    }

    fn give<M: Machine>(&self, drain: &Drain<'_, M>, cache: &impl Cache) -> Given {
        // Lock order: pageset, then region.
        let pages = if is_one_hold(drain.zone, drain.env) {
            let guard = drain.zone.lock(drain.env, LockPath::Drain, 0);
            drain_lists(&guard, drain, cache)
        } else {
            drain_in_order(drain, cache, |blocks, order, held| {
                free_to_regions(drain.zone, drain.env, (blocks, ones(blocks.len())), order, drain.capture, held);
            })
        };
        Given { pages, ends: false }
    }

    #[inline(always)]
    fn may_serve<M: Machine>(&self, zone: &Zone<'_, M>, region: usize, pages: u64) -> bool {
        zone.regions[region].free_pages.get() >= pages
    }

    fn pages<M: Machine>(&self, zone: &Zone<'_, M>) -> u64 {
        zone.listed()
    }

    /// With the rules of `research` also clusters and owners.
    fn audit_free<M: Machine>(&self, zone: &Zone<'_, M>) -> Result<Audited, Mismatch> {
        let listed = audit_lists(zone)?;
        zone.check_research()?;
        Ok(Audited { listed, unlisted: 0 })
    }
}

fn refill_from_lists<M: Machine>(
    guard: &ZoneGuard<'_, '_, M>,
    refill: &Refill<'_, M>,
    cache: &impl Cache,
    blocks: u32,
) -> u32 {
    let wanted = refill.wanted;
    let (mut stage, mut split) = (Stage::Own, SplitBlock::NONE);
    let taken = cache.fill(refill.list, blocks, || {
        let page =
            split.next(guard).or_else(|| split.begin(guard, wanted)).or_else(|| guard.take(wanted, &mut stage))?;
        let kind = remembered_type(guard.zone, guard.env.tuning, page, wanted.migratetype);
        guard.zone.frames.set_tag(page, Tag::new(PageState::Cached, wanted.order, kind));
        Some(page)
    });
    if refill.leaves && guard.env.tuning.backing.bitmaps() {
        split.end_in_bitmap(guard, wanted.migratetype, wanted.order);
    } else {
        split.end(guard, wanted.migratetype);
    }
    taken
}

/// Moves whole lists, from the first one on, until the wanted pages have moved. Returns the number moved.
fn drain_lists<M: Machine>(guard: &ZoneGuard<'_, '_, M>, drain: &Drain<'_, M>, cache: &impl Cache) -> u32 {
    let lists = guard.env.tuning.lists.count();
    let mut drained = 0;
    for list in (drain.start..lists).chain(0..drain.start) {
        while drained < drain.wanted {
            let left = drain.wanted - drained;
            let together = if drain.capture.is_none() { guard.drain_whole_block(cache, list, left) } else { None };
            let Some(pages) = together.or_else(|| guard.drain_one(cache, list, drain.capture)) else { break };
            drained += pages;
        }
    }
    drained
}

/// Gives the oldest blocks of whole lists to `free`, from the first list on, until the wanted pages or 512 blocks have moved: at most 64
/// blocks at a time. A hold of a region's lock may go on from one call to the next. Returns the number of pages.
#[inline(always)]
pub(super) fn drain_in_order<'d, M: Machine>(
    drain: &Drain<'d, M>,
    cache: &impl Cache,
    mut free: impl FnMut(&[AtomicU32], Order, &mut Held<'d, M>),
) -> u32 {
    if SMALL {
        let free: &mut Free<'_, 'd, M> = &mut free;
        return in_order(drain, cache, free);
    }
    in_order(drain, cache, free)
}

/// What frees blocks of an order. A small build has one copy of [`in_order`] for all.
type Free<'f, 'd, M> = dyn FnMut(&[AtomicU32], Order, &mut Held<'d, M>) + 'f;

#[cfg_attr(feature = "rules", inline(always))]
#[cfg_attr(not(feature = "rules"), inline(never))]
fn in_order<'d, M: Machine>(
    drain: &Drain<'d, M>,
    cache: &impl Cache,
    mut free: impl FnMut(&[AtomicU32], Order, &mut Held<'d, M>),
) -> u32 {
    let lists = drain.env.tuning.lists.count();
    let (mut drained, mut moved) = (0, 0);
    let mut held = Held::default();
    drain.zone.complete_some_deferred(drain.env);
    for list in (drain.start..lists).chain(0..drain.start) {
        let pages = order_of(list).pages() as u32;
        while drained < drain.wanted && moved < HOLD_BLOCKS {
            let oldest = cache.oldest(list);
            let most = ((drain.wanted - drained).div_ceil(pages) as usize).min(HOLD_BLOCKS - moved);
            let blocks = &oldest[..oldest.len().min(most)];
            if blocks.is_empty() {
                break;
            }
            free(blocks, order_of(list), &mut held);
            cache.drop_oldest(list, blocks.len() as u32);
            drained += blocks.len() as u32 * pages;
            moved += blocks.len();
        }
        if drained >= drain.wanted || moved >= HOLD_BLOCKS {
            break;
        }
    }
    drained
}

/// Frees those of at most 64 blocks whose bits are set: those of one region under one hold of its lock. The last hold goes on in `held`.
pub(super) fn free_to_regions<'z, M: Machine>(
    zone: &'z Zone<'z, M>,
    env: Env<'z, M>,
    (blocks, mut left): (&[AtomicU32], u64),
    order: Order,
    capture: Option<&Capture>,
    held: &mut Held<'z, M>,
) {
    if !SMALL && (Order::PAGEBLOCK..Order::MAX).contains(&order) {
        // The tags of such blocks' buddies lie in as many cache lines. Read here, without the lock, they come at the same time.
        for block in blocks {
            zone.frames.plain_tag(block.get() ^ order.pages() as u32);
        }
    }
    // First the regions whose locks are free, then the others.
    let (mut later, mut waits) = (0, zone.regions.len() == 1);
    while left | later != 0 {
        if left == 0 {
            (left, later, waits) = (later, 0, true);
        }
        let number = zone.region_of(blocks[left.trailing_zeros() as usize].get());
        let Some(guard) = held.lock(zone, env, number, waits, count(left) as usize) else {
            let busy = in_region(zone, blocks, left, number);
            (left, later) = (left & !busy, later | busy);
            continue;
        };
        let before = count(left);
        left = match order {
            // The compiler makes one that has no shifts.
            Order::ZERO => guard.free_own(blocks, left, Order::ZERO, capture),
            order => guard.free_own(blocks, left, order, capture),
        };
        held.add((before - count(left)) as usize);
    }
}

/// Those of the blocks in the set `of` that are in a region.
#[cold]
fn in_region<M: Machine>(zone: &Zone<'_, M>, blocks: &[AtomicU32], of: u64, number: usize) -> u64 {
    let mut set = 0;
    for (at, block) in blocks.iter().enumerate() {
        set |= u64::from(zone.region_of(block.get()) == number) << at;
    }
    set & of
}

/// The hold of a region's lock by a drain, which goes on with it while the next blocks are of the same region.
pub(super) struct Held<'z, M: Machine> {
    guard: Option<ZoneGuard<'z, 'z, M>>,
    /// Blocks moved under this hold.
    blocks: usize,
}

impl<M: Machine> Default for Held<'_, M> {
    fn default() -> Self {
        Held { guard: None, blocks: 0 }
    }
}

impl<'z, M: Machine> Held<'z, M> {
    /// The lock of a region of a zone, to move `blocks` blocks: the one that is held, if that is it and they are not too many for one
    /// hold. `None` if another CPU holds it and the caller does not wait.
    pub(super) fn lock(
        &mut self,
        zone: &'z Zone<'z, M>,
        env: Env<'z, M>,
        number: usize,
        waits: bool,
        blocks: usize,
    ) -> Option<&ZoneGuard<'z, 'z, M>> {
        // One lock at a time: the old one is dropped here.
        let goes_on = |guard: &ZoneGuard<'z, 'z, M>| guard.number == number && self.blocks + blocks <= HOLD_BLOCKS;
        let kept = self.guard.take().filter(goes_on);
        if kept.is_none() {
            self.blocks = 0;
        }
        let guard = match kept {
            None => zone.lock_or_try(env, LockPath::Drain, number, waits)?,
            Some(kept) => kept,
        };
        Some(self.guard.insert(guard))
    }

    /// Counts blocks that were moved.
    pub(super) fn add(&mut self, blocks: usize) {
        self.blocks += blocks;
    }
}

/// The members of a set. The small build has one copy: its processors may have no instruction for it.
#[cfg_attr(not(feature = "rules"), inline(never))]
#[cfg_attr(feature = "rules", inline(always))]
pub(super) fn count(set: u64) -> u32 {
    set.count_ones()
}

/// A word whose lowest bits, `count` of them, are set.
pub(super) fn ones(count: usize) -> u64 {
    u64::MAX.checked_shr(u64::BITS - count as u32).unwrap_or(0)
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Frees those of some blocks that are in the region: of those in the set `left`, bit by bit. Returns the set of the others.
    #[cfg_attr(feature = "rules", inline(always))]
    pub(super) fn free_own(&self, blocks: &[AtomicU32], mut left: u64, order: Order, capture: Option<&Capture>) -> u64 {
        let together = capture.is_none() && self.drains_whole_blocks();
        let mut rest = left;
        while rest != 0 {
            let at = rest.trailing_zeros() as usize;
            let page = blocks[at].get();
            if !self.covers(page) {
                rest &= rest - 1;
                continue;
            }
            let mut taken = 1;
            match if together { first_block(&blocks[at..], order) } else { None } {
                Some((head, whole)) => {
                    self.free_together(head, whole, order);
                    taken = (whole.pages() >> order.get()) as usize;
                }
                None => self.free_or_capture(page, order, self.drained_type(page), capture),
            }
            // A block of the largest order is in one region, so all its parts are.
            let freed = !(ones(taken) << at);
            (rest, left) = (rest & freed, left & freed);
        }
        left
    }

    /// Moves the oldest block of a list. Returns its pages.
    pub(crate) fn drain_one(&self, cache: &impl Cache, list: usize, capture: Option<&Capture>) -> Option<u32> {
        let page = cache.pop_oldest(list)?;
        let order = order_of(list);
        self.free_or_capture(page, order, self.drained_type(page), capture);
        Some(order.pages() as u32)
    }

    /// The list that a drained block goes to. Specification 2.6.
    pub(crate) fn drained_type(&self, page: u32) -> MigrateType {
        let block_type = self.zone.frames.block_type(page);
        if self.env.tuning.type_at_drain || block_type == MigrateType::Isolate {
            block_type
        } else {
            self.zone.frames.tag(page).kind().unwrap_or(block_type)
        }
    }

    /// Moves the oldest blocks of a list together, if they form one larger block. Returns its pages.
    fn drain_whole_block(&self, cache: &impl Cache, list: usize, most: u32) -> Option<u32> {
        match order_of(list) {
            _ if !self.drains_whole_blocks() => None,
            // The compiler makes one that has no shifts.
            Order::ZERO => self.drain_as_block(cache, list, Order::ZERO, most),
            order => self.drain_as_block(cache, list, order, most),
        }
    }
}
