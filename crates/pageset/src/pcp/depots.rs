//! Batches of blocks that pass from drains to refills by way of the regions' depots: the rule
//! [`Tuning::depot`](crate::Tuning::depot).

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::regions::{HOLD_BLOCKS, Held, ones};
use super::{CachedZone, PcpGuard};
use crate::buddy::depot::Depot;
use crate::buddy::{Env, Locked};
use crate::frame::Order;
use crate::machine::{Line, LockPath, Machine};
use crate::policy::Pressure;
use crate::policy::lists::order_of;
use crate::sync::{self, LockedWord};

/// The share of a region that its depot may hold: a 32nd. A guess: with one region per CPU as much as the smallest pagesets may hold.
const SHARE: u32 = 5;
/// The largest drains that a depot may hold: one that a refill takes, and one that has come meanwhile. More saves no hold, since
/// each drain and each refill has one, and keeps pages from everyone else.
const DRAINS: u32 = 2;

impl<'a, M: Machine> CachedZone<'a, M> {
    /// Whether a drain of this pageset may leave blocks in depots and bitmaps: while the zone has memory, and the pageset may keep pages.
    pub(super) fn may_leave<G>(&self, env: Env<'_, M>, pcp: &PcpGuard<'_, M::Lock, G>) -> bool {
        (env.tuning.depot || env.tuning.bitmaps) && pcp.may_keep() && self.shared.pressure() == Pressure::default()
    }

    /// Moves whole lists, from `start` on, to the depots of the regions of their blocks, until `wanted` pages have moved or a depot
    /// has no room, or 512 blocks have moved. Returns the number of pages. Leaves out pageblocks and larger
    /// blocks: those hardly merge or split on their way, and nobody else could use their pages. Moves nothing if `start` has such.
    pub(super) fn drain_to_depots<'z, G>(
        &'z self,
        env: Env<'z, M>,
        pcp: &PcpGuard<'_, M::Lock, G>,
        wanted: u32,
        start: usize,
    ) -> u32 {
        let lists = env.tuning.lists.count();
        let buddy = &self.shared.buddy;
        let share = env.tuning.depot_share(buddy.managed.get(), buddy.regions.len());
        let limit = self.depot_limit(pcp.batch() << env.tuning.batch_scale_max).min(share);
        let mut held = Held::default();
        let (mut drained, mut moved) = (0, 0);
        let is_small = |&list: &usize| order_of(list) < Order::PAGEBLOCK;
        if !is_small(&start) {
            return 0;
        }
        for list in (start..lists).chain(0..start).filter(is_small) {
            loop {
                let oldest = pcp.oldest(list);
                let most =
                    oldest.len().min(((wanted - drained) >> order_of(list).get()) as usize).min(HOLD_BLOCKS - moved);
                let Some(first) = oldest[..most].first() else { break };
                let number = self.shared.buddy.region_of(first.get());
                let (depot, words) = (&self.shared.buddy.regions[number].depot, self.depot_words(number));
                // Without the lock, so that a full depot costs no hold.
                if depot.room(words, list, limit) == 0 {
                    return drained;
                }
                let Some(zone) = held.lock(self, env, number, true, most) else { return drained };
                let blocks = &oldest[..most.min(depot.room(words, list, limit))];
                if blocks.is_empty() {
                    return drained;
                }
                zone.region.depot.put(words, list, blocks, || env.touch(self.depot_line(number)));
                pcp.drop_oldest(list, blocks.len() as u32);
                held.add(blocks.len());
                let pages = (blocks.len() as u32) << order_of(list).get();
                sync::add(&depot.pages_in, pages.into());
                drained += pages;
                moved += blocks.len();
                if drained == wanted || moved >= HOLD_BLOCKS {
                    return drained;
                }
            }
        }
        drained
    }

    /// Fills a list with up to `most` blocks of the depot of a region whose lock is held. Returns their number.
    pub(super) fn refill_from_depot<G>(
        &self,
        zone: &Locked<'_, '_, M>,
        pcp: &PcpGuard<'_, M::Lock, G>,
        list: usize,
        most: u32,
    ) -> u32 {
        let words = self.depot_words(zone.number());
        let mut taken = 0;
        while taken < most {
            let touch = || zone.env().touch(self.depot_line(zone.number()));
            let blocks = zone.region.depot.take(words, list, (most - taken) as usize, touch);
            let mut newest_first = blocks.iter().rev().map(LockedWord::get);
            let filled = pcp.fill(list, blocks.len() as u32, || newest_first.next());
            taken += filled;
            if (filled as usize) < blocks.len() {
                // The pageset has no more room: the rest goes back to the places where it was.
                zone.region.depot.put(words, list, &blocks[..blocks.len() - filled as usize], || ());
                break;
            }
            if blocks.is_empty() {
                break;
            }
        }
        sync::add(&zone.region.depot.pages_out, u64::from(taken) << order_of(list).get());
        taken
    }

    /// Whether the depot of a region has pages, at a recent moment.
    #[inline]
    pub(super) fn has_depot_pages(&self, number: usize) -> bool {
        self.shared.buddy.regions[number].depot.pages() > 0
    }

    /// Frees all pages of the depots. Pages that other CPUs leave there meanwhile may stay.
    pub(super) fn empty_depots(&self, env: Env<'_, M>) {
        for number in 0..self.shared.buddy.regions.len() {
            self.drain_depot(env, number, u32::MAX);
        }
    }

    /// Frees the pages of depots, and the bitmaps, that no refill needed for a round. A round is `cpus` ticks, of any CPUs. Each tick looks after the next
    /// regions in turn, so no depot depends on one CPU. Returns whether any of them has pages.
    pub(crate) fn tick_depots(&self, env: Env<'_, M>, cpus: u32) -> bool {
        let regions = self.shared.buddy.regions.len() as u32;
        if !(env.tuning.depot || env.tuning.bitmaps) || cpus == 0 {
            return false;
        }
        // Relaxed: which tick looks after which region does not matter. The sum wraps, and a turn may then come early.
        let turn = u64::from(self.depot_turn.fetch_add(regions, Relaxed));
        let (first, end) = (turn / u64::from(cpus), (turn + u64::from(regions)) / u64::from(cpus));
        for number in (first..end).map(|turn| (turn % u64::from(regions)) as usize) {
            self.tick_bitmaps(env, number);
            if self.shared.buddy.regions[number].depot.is_idle() {
                continue;
            }
            let idle = self.shared.lock_region(env, LockPath::Drain, number).region.depot.idle_pages();
            self.drain_depot(env, number, idle);
        }
        (0..regions as usize).any(|number| self.has_depot_pages(number) || self.has_bitmap_pages(number))
    }

    /// Frees at least `pages` pages of a depot, or all if it has fewer.
    fn drain_depot(&self, env: Env<'_, M>, number: usize, pages: u32) {
        let batch = [const { AtomicU32::new(0) }; Depot::BATCH];
        // What others leave there meanwhile may stay: they may be as fast as this loop.
        let mut left = pages.min(self.shared.buddy.regions[number].depot.pages());
        while left > 0 {
            let owner = self.shared.lock_region(env, LockPath::Drain, number);
            let depot = &owner.region.depot;
            let Some(list) = depot.some_list() else { return };
            let touch = || env.touch(self.depot_line(number));
            let blocks = depot.take(self.depot_words(number), list, Depot::BATCH, touch);
            batch.iter().zip(blocks).for_each(|(copy, block)| copy.set(block.get()));
            let order: Order = order_of(list);
            // Nearly all blocks are of this region, and leave the depot and enter the free lists under one hold.
            let foreign = owner.free_own(&batch[..blocks.len()], ones(blocks.len()), order, None);
            // A drain holds one lock at a time, so the others are in neither for a moment.
            drop(owner);
            self.free_some_to_regions(env, &batch[..blocks.len()], foreign, order, None, &mut Held::default());
            left = left.saturating_sub((blocks.len() as u32) << order.get());
        }
    }

    fn depot_line(&self, region: usize) -> Line {
        Line::Depot { zone: self.shared.index, region }
    }

    /// The most pages that a depot may hold, where a drain moves at most `drain` pages.
    fn depot_limit(&self, drain: u32) -> u32 {
        let region = 1_u64.checked_shl(self.shared.buddy.region_order).unwrap_or(u64::MAX);
        ((region.min(u64::from(self.frames().len())) >> SHARE) as u32).min(DRAINS * drain)
    }

    /// The words of a region's depot. Empty without the rule.
    pub(crate) fn depot_words(&self, number: usize) -> &[AtomicU32] {
        self.depots.get(number * Depot::WORDS..(number + 1) * Depot::WORDS).unwrap_or_default()
    }
}
