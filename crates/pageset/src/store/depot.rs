//! Batches of blocks that pass from drains to refills by way of the regions' depots: the rule
//! [`Holds::Short`](crate::policy::Holds::Short).

use core::sync::atomic::AtomicU32;

use super::lists::{HOLD_BLOCKS, Held, free_to_regions, ones};
use super::{Cache, Drain, Given, Refill, Scope, Store, Visit};
use crate::frame::Order;
use crate::machine::{Line, LockPath, Machine};
use crate::policy::SMALL;
use crate::policy::lists::{LISTS, order_of};
use crate::sync::{self, LockedWord};
use crate::zone::depot::Depot;
use crate::zone::{Env, Mismatch, Zone};

/// The share of a region that its depot may hold: a 32nd. A guess: with one region per CPU as much as the smallest pagesets may hold.
const SHARE: u32 = 5;
/// The largest drains that a depot may hold: one that a refill takes, and one that has come meanwhile. More saves no hold, since
/// each drain and each refill has one, and keeps pages from everyone else.
const DRAINS: u32 = 2;

/// The depots of the regions: whole batches.
pub(crate) struct Batches;

impl Batches {
    /// Whether the zone has depots. In a small build it is known: [`SMALL`].
    #[inline(always)]
    pub(super) fn are_kept<M: Machine>(&self, zone: &Zone<'_, M>) -> bool {
        SMALL || !zone.depots.is_empty()
    }
}

impl Store for Batches {
    /// Needs the lock of the region.
    #[inline(always)]
    fn take<M: Machine>(&self, refill: &Refill<'_, M>, cache: &impl Cache, most: u32) -> u32 {
        if self.are_kept(refill.zone) && refill.held.is_some() { refill_from_depot(refill, cache, most) } else { 0 }
    }

    /// The pages of a batch need not be touched.
    #[inline(always)]
    fn is_worth_a_lock<M: Machine>(&self, refill: &Refill<'_, M>) -> bool {
        refill.zone.regions[refill.region].depot.has(refill.list)
    }

    #[inline(always)]
    fn give<M: Machine>(&self, drain: &Drain<'_, M>, cache: &impl Cache) -> Given {
        let pages = if self.are_kept(drain.zone) { drain_to_depots(drain, cache) } else { 0 };
        Given { pages, ends: drain.wanted - pages < drain.batch }
    }

    /// In one step.
    fn settle<M: Machine>(&self, zone: &Zone<'_, M>, env: Env<'_, M>, scope: Scope) -> Option<Scope> {
        if let Scope::Zone | Scope::Request(_) = scope {
            (0..zone.regions.len()).for_each(|number| drain_depot(zone, env, number, u32::MAX));
        }
        None
    }

    #[inline(always)]
    fn tick<M: Machine>(&self, zone: &Zone<'_, M>, env: Env<'_, M>, region: usize) {
        if !zone.regions[region].depot.is_idle() {
            let idle = zone.lock_region(env, LockPath::Drain, region).region.depot.idle_pages();
            drain_depot(zone, env, region, idle);
        }
    }

    #[inline]
    fn may_serve<M: Machine>(&self, zone: &Zone<'_, M>, region: usize, _pages: u64) -> bool {
        zone.regions[region].depot.pages() > 0
    }

    fn pages<M: Machine>(&self, zone: &Zone<'_, M>) -> u64 {
        zone.regions.iter().map(|region| u64::from(region.depot.pages())).sum()
    }

    /// The pages are tagged Cached.
    fn audit_cached<M: Machine>(&self, zone: &Zone<'_, M>, visit: &mut Visit<'_>) -> Result<(), Mismatch> {
        for (number, region) in zone.regions.iter().enumerate() {
            let mut pages = 0;
            for list in 0..LISTS {
                for block in region.depot.batches(words_of(zone, number), list).flatten() {
                    visit(block.get(), order_of(list))?;
                    pages += order_of(list).pages();
                }
            }
            let counted = region.depot.pages().into();
            if counted != pages {
                return Err((None, "the pages of a depot", counted, pages));
            }
        }
        Ok(())
    }
}

/// Moves whole lists, from the first one on, to the depots of the regions of their blocks, until the wanted pages have moved or a depot
/// has no room, or 512 blocks have moved. Returns the number of pages. Leaves out pageblocks and larger
/// blocks: those hardly merge or split on their way, and nobody else could use their pages. Moves nothing if the first list has such.
fn drain_to_depots<M: Machine>(drain: &Drain<'_, M>, cache: &impl Cache) -> u32 {
    let &Drain { zone, env, wanted, start, .. } = drain;
    let is_small = |&list: &usize| order_of(list) < Order::PAGEBLOCK;
    if !is_small(&start) {
        return 0;
    }
    let lists = env.tuning.lists.count();
    let share = env.tuning.depot_share(zone.managed.get(), zone.regions.len());
    let limit = depot_limit(zone, drain.batch << env.tuning.batch_scale_max).min(share);
    let mut held = Held::default();
    let (mut drained, mut moved) = (0, 0);
    for list in (start..lists).chain(0..start).filter(is_small) {
        loop {
            let oldest = cache.oldest(list);
            let most = oldest.len().min(((wanted - drained) >> order_of(list).get()) as usize).min(HOLD_BLOCKS - moved);
            let Some(first) = oldest[..most].first() else { break };
            let number = zone.region_of(first.get());
            let (depot, words) = (&zone.regions[number].depot, words_of(zone, number));
            // Without the lock, so that a full depot costs no hold.
            if depot.room(words, list, limit) == 0 {
                return drained;
            }
            let Some(guard) = held.lock(zone, env, number, true, most) else { return drained };
            let blocks = &oldest[..most.min(depot.room(words, list, limit))];
            if blocks.is_empty() {
                return drained;
            }
            guard.region.depot.put(words, list, blocks, &|| env.touch(depot_line(zone, number)));
            cache.drop_oldest(list, blocks.len() as u32);
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
fn refill_from_depot<M: Machine>(refill: &Refill<'_, M>, cache: &impl Cache, most: u32) -> u32 {
    let &Refill { zone, env, list, region, .. } = refill;
    let (depot, words) = (&zone.regions[region].depot, words_of(zone, region));
    let mut taken = 0;
    while taken < most {
        let blocks = depot.take(words, list, (most - taken) as usize, &|| env.touch(depot_line(zone, region)));
        let mut newest_first = blocks.iter().rev().map(LockedWord::get);
        let filled = cache.fill(list, blocks.len() as u32, || newest_first.next());
        taken += filled;
        if (filled as usize) < blocks.len() {
            // The pageset has no more room: the rest goes back to the places where it was.
            depot.put(words, list, &blocks[..blocks.len() - filled as usize], &|| ());
            break;
        }
        if blocks.is_empty() {
            break;
        }
    }
    sync::add(&depot.pages_out, u64::from(taken) << order_of(list).get());
    taken
}

/// Frees at least `pages` pages of a depot, or all if it has fewer.
fn drain_depot<M: Machine>(zone: &Zone<'_, M>, env: Env<'_, M>, number: usize, pages: u32) {
    let batch = [const { AtomicU32::new(0) }; Depot::BATCH];
    // What others leave there meanwhile may stay: they may be as fast as this loop.
    let mut left = pages.min(zone.regions[number].depot.pages());
    while left > 0 {
        let guard = zone.lock_region(env, LockPath::Drain, number);
        let depot = &guard.region.depot;
        let Some(list) = depot.some_list() else { return };
        let touch = || env.touch(depot_line(zone, number));
        let blocks = depot.take(words_of(zone, number), list, Depot::BATCH, &touch);
        batch.iter().zip(blocks).for_each(|(copy, block)| copy.set(block.get()));
        let (batch, order) = (&batch[..blocks.len()], order_of(list));
        // Nearly all blocks are of this region, and leave the depot and enter the free lists under one hold.
        let foreign = guard.free_own(batch, ones(batch.len()), order, None);
        // A drain holds one lock at a time, so the others are in neither for a moment.
        drop(guard);
        free_to_regions(zone, env, (batch, foreign), order, None, &mut Held::default());
        left = left.saturating_sub((batch.len() as u32) << order.get());
    }
}

/// The words of a region's depot. Empty without the rule.
pub(crate) fn words_of<'z, M: Machine>(zone: &'z Zone<'_, M>, region: usize) -> &'z [AtomicU32] {
    zone.depots.get(region * Depot::WORDS..(region + 1) * Depot::WORDS).unwrap_or_default()
}

fn depot_line<M: Machine>(zone: &Zone<'_, M>, region: usize) -> Line {
    Line::Depot { zone: zone.index, region }
}

/// The most pages that a depot may hold, where a drain moves at most `drain` pages.
fn depot_limit<M: Machine>(zone: &Zone<'_, M>, drain: u32) -> u32 {
    let region = 1_u64.checked_shl(zone.region_order).unwrap_or(u64::MAX);
    ((region.min(u64::from(zone.frames.len())) >> SHARE) as u32).min(DRAINS * drain)
}
