//! Refills, and requests that bypass the pagesets: which regions' stores they ask, and under which holds of their locks. See
//! [`RegionRule`](crate::policy::RegionRule).

use core::sync::atomic::AtomicU32;

use super::{ALL, Batches, Cache, HIDDEN, Lists, Parts, Refill, Store, is_one_hold};
use crate::buddy::{Stage, Wanted};
use crate::frame::{MigrateType, PageState, Tag};
use crate::machine::{LockPath, Machine};
use crate::policy::SMALL;
use crate::sync::{self, LockedWord};
use crate::zone::watermark::Rights;
use crate::zone::{Env, Zone, ZoneGuard};

/// How often a refill tries to lock its own region while that region's depot has blocks. Between two tries it pauses, and the holder keeps
/// the lock's cache line. A guess: about a microsecond, in which a drain to a depot copies its blocks.
const TRIES: u32 = 16;

/// Fills an empty list of a pageset with up to `blocks` blocks. Returns their number.
#[inline]
pub(crate) fn refill<M: Machine>(refill: &Refill<'_, M>, cache: &impl Cache, blocks: u32) -> u32 {
    // None unless a rule of `research` is on.
    if let Some(taken) = refill.zone.refill_from_clusters(refill, cache, blocks) {
        return taken;
    }
    if !is_one_hold(refill.zone, refill.env) {
        return refill_in_holds(refill, cache, blocks);
    }
    let guard = refill.zone.lock_for(refill.env, LockPath::Refill, refill.wanted);
    guard.map_or(0, |guard| Lists.take(&Refill { held: Some(&guard), ..*refill }, cache, blocks))
}

/// As [`refill`], in bounded holds of regions' locks. With several regions the own region's depot comes first, in a hold of its own. A
/// further hold that finds nothing ends it.
#[inline(always)]
fn refill_in_holds<M: Machine>(unlocked: &Refill<'_, M>, cache: &impl Cache, mut blocks: u32) -> u32 {
    let &Refill { zone, env, wanted, batch, .. } = unlocked;
    let in_hold = env.tuning.backing.refill_blocks();
    let mut taken = ALL.take(unlocked, cache, blocks);
    if taken == 0 && Batches.is_worth_a_lock(unlocked) && zone.regions.len() > 1 {
        // A batch, or [`Tuning::batch_blocks`] if that is more, is enough: more are on their way, and others may never have been
        // touched.
        let batch = (batch >> wanted.order.get()).max(env.tuning.batch_blocks.into());
        let enough = batch.max(1).min(blocks);
        taken = refill_from_own(unlocked, cache, blocks.min(in_hold));
        blocks = taken.max(enough);
    }
    while taken < blocks {
        let take = |guard: &ZoneGuard<'_, '_, M>, wanted| {
            let refill = Refill { wanted, region: guard.number, held: Some(guard), ..*unlocked };
            let taken = ALL.take(&refill, cache, in_hold.min(blocks - taken));
            (taken > 0).then_some(taken)
        };
        // After the first hold nothing is worth a search in other regions, or a part of another type's pageblock.
        let more = if taken == 0 {
            take_from_regions(zone, env, LockPath::Refill, cache.region(), wanted, take)
        } else {
            let guard = zone.lock_or_try(env, LockPath::Refill, cache.region().get() as usize, false);
            guard.and_then(|guard| take(&guard, Wanted { no_fragment: true, ..wanted }))
        };
        match more {
            Some(more) => taken += more,
            None => break,
        }
    }
    taken
}

/// Fills a list with up to `most` blocks of the depot of the pageset's region, which drains have left lately, or, if its lock stays
/// held, of its bitmaps, which need none. Returns their number.
///
/// Where one CPU frees what another one allocates, each block that comes from elsewhere is one more in use between them from then on.
/// So the blocks are worth a short wait for the region's lock.
fn refill_from_own<M: Machine>(refill: &Refill<'_, M>, cache: &impl Cache, most: u32) -> u32 {
    let &Refill { zone, env, wanted, region, .. } = refill;
    if wanted.waits {
        zone.complete_some_deferred(env);
    }
    let mut tries = 0..if wanted.waits { TRIES } else { 1 };
    let guard = tries.find_map(|tried| {
        if tried > 0 {
            sync::hint::spin_loop();
        }
        zone.lock_or_try(env, LockPath::Refill, region, false)
    });
    match guard {
        Some(guard) => Batches.take(&Refill { held: Some(&guard), ..*refill }, cache, most),
        None => Parts.take(refill, cache, most),
    }
}

/// A request that bypasses the pagesets.
pub(crate) struct Direct<'d> {
    pub(crate) wanted: Wanted,
    pub(crate) rights: Rights,
    /// The region that the caller's pageset prefers.
    pub(crate) preferred: &'d AtomicU32,
}

/// Takes blocks for a request that bypasses the pagesets, and tags them: those of one region's free lists under one hold of its lock, until
/// `give` returns false or there are no more; if there are none, one block of another store. Returns whether there was a block.
pub(crate) fn take_direct<M: Machine>(
    zone: &Zone<'_, M>,
    env: Env<'_, M>,
    &Direct { wanted, rights, preferred }: &Direct<'_>,
    mut give: impl FnMut(u32) -> bool,
) -> bool {
    let take = |guard: &ZoneGuard<'_, '_, M>, wanted: Wanted| {
        let reserved =
            |right: bool| if right { guard.take_smallest(wanted.order, MigrateType::HighAtomic) } else { None };
        let next = || {
            let page = reserved(rights.highatomic)
                .or_else(|| guard.take(wanted, &mut Stage::Own))
                .or_else(|| reserved(rights.oom_victim || rights.non_blocking))?;
            guard.zone.frames.set_tag(page, Tag::new(PageState::Allocated, wanted.order, wanted.migratetype));
            guard.count_direct_alloc(wanted.order.pages());
            Some(page)
        };
        let first = next()?;
        if give(first) {
            while next().is_some_and(&mut give) {}
        }
        Some(first)
    };
    if take_from_regions(zone, env, LockPath::DirectAlloc, preferred, wanted, take).is_some() {
        return true;
    }
    let hidden = HIDDEN.find(zone, env, wanted, preferred.get() as usize);
    if let Some(page) = hidden {
        give(page);
    }
    hidden.is_some()
}

/// Takes something from a region: from the one that a pageset prefers if that has something, else from the next one. The first pass
/// waits for no lock and mixes no types. The region that serves is preferred from then on, unless the other was only busy.
#[inline]
fn take_from_regions<'z, 'a, M: Machine>(
    zone: &'z Zone<'a, M>,
    env: Env<'z, M>,
    path: LockPath,
    preferred: &AtomicU32,
    wanted: Wanted,
    mut take: impl FnMut(&ZoneGuard<'_, '_, M>, Wanted) -> Option<u32>,
) -> Option<u32> {
    if SMALL {
        let take: &mut TakeFrom<'_, M> = &mut take;
        return from_regions(zone, env, path, preferred, wanted, take);
    }
    from_regions(zone, env, path, preferred, wanted, take)
}

/// What takes from a region. A small build has one copy of [`from_regions`] for all.
type TakeFrom<'t, M> = dyn FnMut(&ZoneGuard<'_, '_, M>, Wanted) -> Option<u32> + 't;

#[cfg_attr(not(feature = "rules"), inline(never))]
fn from_regions<'z, 'a, M: Machine>(
    zone: &'z Zone<'a, M>,
    env: Env<'z, M>,
    path: LockPath,
    preferred: &AtomicU32,
    wanted: Wanted,
    mut take: impl FnMut(&ZoneGuard<'_, '_, M>, Wanted) -> Option<u32>,
) -> Option<u32> {
    if wanted.waits {
        zone.complete_some_deferred(env);
    }
    if let [_] = zone.regions {
        return take(&zone.lock_or_try(env, path, 0, wanted.waits)?, wanted);
    }
    let own = preferred.get() as usize;
    let mut busy = false;
    for is_first in [true, false] {
        for number in zone.regions_from(own) {
            if !ALL.may_serve(zone, number, wanted.order.pages()) {
                continue;
            }
            let Some(guard) = zone.lock_or_try(env, path, number, wanted.waits && !is_first) else {
                busy |= number == own;
                continue;
            };
            let wanted = Wanted { no_fragment: wanted.no_fragment || is_first, ..wanted };
            if let Some(taken) = take(&guard, wanted) {
                if number != own && !busy {
                    preferred.set(number as u32);
                }
                return Some(taken);
            }
        }
    }
    None
}
