//! Refills and drains of a zone with several regions: which region serves a request, and how a drain visits the regions of its
//! blocks. See [`RegionRule`](crate::policy::RegionRule).

use core::sync::atomic::AtomicU32;

use super::whole_blocks::first_block;
use super::{CachedZone, Pageset, PcpGuard};
use crate::buddy::{Capture, Env, Locked, Wanted};
use crate::frame::Order;
use crate::machine::{LockPath, Machine};
use crate::policy::BulkFree;
use crate::policy::lists::order_of;
use crate::sync::{self, LockedWord};
use crate::zone::ZoneGuard;

/// Where a drain puts blocks.
#[derive(Clone, Copy)]
pub(super) enum To<'c> {
    /// On free lists, unless it is the block that a compaction waits for.
    Lists(Option<&'c Capture>),
    /// Into the bitmaps of pageblocks, and those of whole pageblocks on free lists.
    Bitmaps,
}

/// What a pass over the regions accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Locks that are free, and blocks of the wanted type or whole pageblocks.
    Easy,
    /// Everything that the request allows.
    All,
}

impl<'a, M: Machine> CachedZone<'a, M> {
    /// Takes something from a region: from the pageset's region if that has something, else from the next one. The first pass
    /// waits for no lock and mixes no types. The region that serves becomes the pageset's, unless its own was only busy.
    pub(crate) fn take_from_regions<'z, T>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        pageset: &Pageset<M::Lock>,
        wanted: Wanted,
        mut take: impl FnMut(&ZoneGuard<'_, '_, M>, Wanted) -> Option<T>,
    ) -> Option<T> {
        let (zone, buddy) = (&self.shared, &self.shared.buddy);
        if let [_] = buddy.regions {
            return take(&zone.lock_for(env, path, wanted, 0)?, wanted);
        }
        if wanted.waits {
            zone.complete_some_deferred(env);
        }
        let own = pageset.region();
        let mut busy = false;
        for pass in [Pass::Easy, Pass::All] {
            for number in buddy.regions_from(own) {
                let is_empty = buddy.regions[number].free_pages.get() < wanted.order.pages();
                if is_empty && !self.has_depot_pages(number) && !self.has_bitmap_pages(number) {
                    continue;
                }
                let guard = if pass == Pass::All && wanted.waits {
                    Some(zone.lock_region(env, path, number))
                } else {
                    zone.try_lock_region(env, path, number)
                };
                let Some(guard) = guard else {
                    busy |= number == own;
                    continue;
                };
                let wanted = Wanted { no_fragment: wanted.no_fragment || pass == Pass::Easy, ..wanted };
                if let Some(taken) = take(&guard, wanted) {
                    if number != own && !busy {
                        pageset.prefer_region(number);
                    }
                    return Some(taken);
                }
            }
        }
        None
    }

    /// Takes something from one region, as the first pass of [`Self::take_from_regions`].
    pub(crate) fn take_from_region<'z, T>(
        &'z self,
        env: Env<'z, M>,
        path: LockPath,
        number: usize,
        wanted: Wanted,
        mut take: impl FnMut(&ZoneGuard<'_, '_, M>, Wanted) -> Option<T>,
    ) -> Option<T> {
        debug_assert!(number < self.shared.buddy.regions.len(), "region {number}");
        let guard = self.shared.try_lock_region(env, path, number.min(self.shared.buddy.regions.len() - 1))?;
        take(&guard, Wanted { no_fragment: true, ..wanted })
    }

    /// Moves whole lists, from `start` on, until `wanted` pages or 512 blocks have moved, to the regions of their blocks. Returns
    /// the number of pages.
    pub(super) fn drain_to_regions<G>(
        &self,
        env: Env<'_, M>,
        pcp: &PcpGuard<'_, M::Lock, G>,
        wanted: u32,
        start: usize,
        to: To<'_>,
    ) -> u32 {
        let lists = env.tuning.lists.count();
        let (mut drained, mut moved) = (0, 0);
        let mut held = Held::default();
        self.shared.complete_some_deferred(env);
        for list in (start..lists).chain(0..start) {
            let pages = order_of(list).pages() as u32;
            while drained < wanted && moved < HOLD_BLOCKS {
                let oldest = pcp.oldest(list);
                let most = ((wanted - drained).div_ceil(pages) as usize).min(HOLD_BLOCKS - moved);
                let blocks = &oldest[..oldest.len().min(most)];
                if blocks.is_empty() {
                    break;
                }
                match to {
                    To::Bitmaps if order_of(list) < Order::PAGEBLOCK => {
                        // Whole pageblocks take a region's lock.
                        held = Held::default();
                        let left = self.free_to_bitmaps(env, blocks, order_of(list), pcp.region());
                        sync::add(&pcp.bitmap_pages, u64::from(left * pages));
                    }
                    To::Bitmaps => self.free_to_regions(env, blocks, order_of(list), None, &mut held),
                    To::Lists(capture) => self.free_to_regions(env, blocks, order_of(list), capture, &mut held),
                }
                pcp.drop_oldest(list, blocks.len() as u32);
                drained += blocks.len() as u32 * pages;
                moved += blocks.len();
            }
            if drained >= wanted || moved >= HOLD_BLOCKS {
                break;
            }
        }
        drained
    }

    /// Frees at most 64 blocks of a pageset, those of one region under one hold of its lock. The last hold goes on in `held`.
    pub(super) fn free_to_regions<'z>(
        &'z self,
        env: Env<'z, M>,
        blocks: &[AtomicU32],
        order: Order,
        capture: Option<&Capture>,
        held: &mut Held<'z, 'a, M>,
    ) {
        self.free_some_to_regions(env, blocks, ones(blocks.len()), order, capture, held);
    }

    /// As [`Self::free_to_regions`], the blocks whose bits are set in `left`.
    pub(super) fn free_some_to_regions<'z>(
        &'z self,
        env: Env<'z, M>,
        blocks: &[AtomicU32],
        mut left: u64,
        order: Order,
        capture: Option<&Capture>,
        held: &mut Held<'z, 'a, M>,
    ) {
        // First the regions whose locks are free, then the others.
        let (mut later, mut waits) = (0, self.shared.buddy.regions.len() == 1);
        while left | later != 0 {
            if left == 0 {
                (left, later, waits) = (later, 0, true);
            }
            let number = self.shared.buddy.region_of(blocks[left.trailing_zeros() as usize].get());
            let Some(zone) = held.lock(self, env, number, waits, left.count_ones() as usize) else {
                let busy = self.in_region(blocks, left, number);
                (left, later) = (left & !busy, later | busy);
                continue;
            };
            let before = left.count_ones();
            left = match order {
                // The compiler makes one that has no shifts.
                Order::ZERO => zone.free_own(blocks, left, Order::ZERO, capture),
                order => zone.free_own(blocks, left, order, capture),
            };
            held.add((before - left.count_ones()) as usize);
        }
    }

    /// Those of the blocks in the set `of` that are in a region.
    #[cold]
    fn in_region(&self, blocks: &[AtomicU32], of: u64, number: usize) -> u64 {
        let mut set = 0;
        for (at, block) in blocks.iter().enumerate() {
            set |= u64::from(self.shared.buddy.region_of(block.get()) == number) << at;
        }
        set & of
    }
}

/// The most blocks that a drain moves under one hold of the locks of region and pageset: as many as a refill.
pub(super) const HOLD_BLOCKS: usize = BulkFree::REFILL_BLOCKS as usize;

/// The hold of a region's lock by a drain, which goes on with it while the next blocks are of the same region.
pub(super) struct Held<'z, 'a, M: Machine> {
    guard: Option<ZoneGuard<'z, 'a, M>>,
    /// Blocks moved under this hold.
    blocks: usize,
}

impl<M: Machine> Default for Held<'_, '_, M> {
    fn default() -> Self {
        Held { guard: None, blocks: 0 }
    }
}

impl<'z, 'a, M: Machine> Held<'z, 'a, M> {
    /// The lock of a region of a zone, to move `blocks` blocks: the one that is held, if that is it and they are not too many for one
    /// hold. `None` if another CPU holds it and the caller does not wait.
    pub(super) fn lock(
        &mut self,
        zone: &'z CachedZone<'a, M>,
        env: Env<'z, M>,
        number: usize,
        waits: bool,
        blocks: usize,
    ) -> Option<&ZoneGuard<'z, 'a, M>> {
        // One lock at a time: the old one is dropped here.
        let goes_on = |guard: &ZoneGuard<'z, 'a, M>| guard.number() == number && self.blocks + blocks <= HOLD_BLOCKS;
        let kept = self.guard.take().filter(goes_on);
        if kept.is_none() {
            self.blocks = 0;
        }
        let guard = match kept {
            None if !waits => zone.shared.try_lock_region(env, LockPath::Drain, number)?,
            None => zone.shared.lock_region(env, LockPath::Drain, number),
            Some(kept) => kept,
        };
        Some(self.guard.insert(guard))
    }

    /// Counts blocks that were moved.
    pub(super) fn add(&mut self, blocks: usize) {
        self.blocks += blocks;
    }
}

/// A word whose lowest bits, `count` of them, are set.
pub(super) fn ones(count: usize) -> u64 {
    u64::MAX.checked_shr(u64::BITS - count as u32).unwrap_or(0)
}

impl<M: Machine> Locked<'_, '_, M> {
    /// Frees those of some blocks that are in the region: of those in the set `left`, bit by bit. Returns the set of the others.
    #[inline(always)]
    pub(super) fn free_own(&self, blocks: &[AtomicU32], mut left: u64, order: Order, capture: Option<&Capture>) -> u64 {
        let together = capture.is_none() && self.drains_whole_blocks();
        let mut rest = left;
        while rest != 0 {
            let at = rest.trailing_zeros() as usize;
            let page = blocks[at].get();
            if self.region_of(page) != self.number() {
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
}
