//! The general path and the slow path: which zones a request tries, under which marks, with or without the pageset.
//!
//! [`Allocator::take_first`] serves most of the requests that the fast path did not serve. [`Allocator::walk`] serves
//! the others: it tries the zones at their low marks. A request that no zone can serve there takes the slow path
//! ([`Allocator::slow`]), which wakes reclaim, then tries the min marks with the request's rights. A caller that may wait
//! for memory and has an owner goes on in [`Allocator::alloc_with`].
//!
//! An [`Attempt`] is one pass over the zones: the mark, the rights, and whether types may mix. Specification:
//! `linux-page-allocator.md` 1.6, 1.7.

use core::iter;

use super::error::AllocError;
use super::request::{Request, Wait};
use super::zonelist::Zonelist;
use super::{Allocator, shortage};
use crate::buddy::Wanted;
use crate::frame::{CpuId, Order, Pfn};
use crate::machine::{LockPath, Machine};
use crate::pcp::{CachedZone, FromCache};
use crate::policy::{ListRule, SMALL};
use crate::store::{self, Scope};
use crate::sync::LockedWord;
use crate::zone::watermark::{Mark, MarkTest, Rights};
use crate::zone::{BOOSTED, Zone};

/// Whether a request may take a part of another type's pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mixing {
    /// As the zone decides, which is the preferred zone of the request.
    ZoneDefault,
    /// The request takes only whole pageblocks.
    Avoided,
    /// The request takes any block.
    Allowed,
}

/// One pass over the zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attempt {
    mark: Mark,
    rights: Rights,
    mixing: Mixing,
}

impl Attempt {
    /// The first attempt, in the preferred zone.
    pub(crate) const FIRST: Attempt = Attempt { mark: Mark::Low, rights: Rights::NONE, mixing: Mixing::ZoneDefault };

    /// The attempt of the slow path.
    const fn slow(request: &Request) -> Attempt {
        Attempt { mark: Mark::Min, rights: request.rights(), mixing: Mixing::Allowed }
    }

    /// Whether a block of this attempt may reserve its pageblock for more such requests.
    pub(crate) const fn reserves(self) -> bool {
        self.rights.highatomic
    }

    const fn with_mixing(self, mixing: Mixing) -> Attempt {
        Attempt { mixing, ..self }
    }

    /// The attempt's request to a zone's free lists.
    pub(crate) fn wanted<M: Machine>(self, zone: &Zone<'_, M>, request: &Request) -> Wanted {
        let no_fragment = match self.mixing {
            Mixing::ZoneDefault => zone.keeps_apart.get(),
            Mixing::Avoided => true,
            Mixing::Allowed => false,
        };
        let &Request { order, migratetype, cma, .. } = request;
        Wanted { order, migratetype, cma, no_fragment, wakes: request.wakes(), waits: request.wait != Wait::Nothing }
    }
}

/// The general path.
impl<'a, M: Machine> Allocator<'a, M> {
    /// Takes a block from the first zone of the zonelist, if that zone has plenty. The result is that of the walk,
    /// without the walk's tests.
    #[inline]
    pub(crate) fn take_first(&self, request: &Request, cpu: CpuId) -> Option<Pfn> {
        if request.node.is_some() || request.zone.is_some() || !request.migratetype.is_ordinary() {
            return None;
        }
        let zone = self.first_zone(cpu.0, request.highest)?;
        if !zone.shared.has_plenty(request.order)
            || request.this_node_only && zone.shared.node != self.rules.node_of(cpu)
        {
            return None;
        }
        self.take(zone, cpu, request, Attempt::FIRST).map(|page| zone.frames().pfn(page))
    }

    /// Walks the zonelist at the low marks, then takes the slow path. `take` allocates from a zone whose marks allow
    /// it. Specification 1.7.
    pub(crate) fn walk<T>(
        &self,
        request: &Request,
        cpu: CpuId,
        mut take: impl FnMut(&CachedZone<'a, M>, Attempt) -> Option<T>,
    ) -> Result<T, AllocError> {
        let list = self.zonelist(request, cpu)?;
        let taken = self.walk_before_drains(&list, &mut take).or_else(|| self.after_drains(&list, &mut take));
        taken.ok_or_else(|| AllocError::OutOfMemory(shortage::of(&list)))
    }

    /// The part of [`Self::walk`] that drains no other CPU's pageset.
    #[inline]
    pub(crate) fn walk_before_drains<T>(
        &self,
        list: &Zonelist<'_, 'a, M>,
        take: &mut impl FnMut(&CachedZone<'a, M>, Attempt) -> Option<T>,
    ) -> Option<T> {
        self.first_attempt(list, take).or_else(|| self.after_settling(list, take)).or_else(|| self.slow(list, take))
    }

    /// The zonelist of a request from a CPU.
    pub(crate) fn zonelist<'z>(&self, request: &'z Request, cpu: CpuId) -> Result<Zonelist<'z, 'a, M>, AllocError> {
        if !request.migratetype.is_ordinary() {
            return Err(AllocError::Migratetype(request.migratetype));
        }
        let node = request.node.unwrap_or_else(|| self.rules.node_of(cpu));
        let zones = self.zones.len();
        // Checked: a request may name any node, and on a 32-bit machine the product of some does not fit.
        let start = (node.0 as usize).checked_mul(zones);
        let row = start.and_then(|start| self.zonelists.get(start..)?.get(..zones));
        let list = Zonelist { request, row: row.ok_or(AllocError::Node(node))?, all: self.zones, node };
        if list.zones().next().is_none() { Err(AllocError::Node(node)) } else { Ok(list) }
    }

    /// The attempt at the low marks. Types stay apart while the preferred node has another zone that can serve the
    /// request; then they may mix. Specification 1.6, "No-fragment flag".
    fn first_attempt<T>(
        &self,
        list: &Zonelist<'_, 'a, M>,
        take: &mut impl FnMut(&CachedZone<'a, M>, Attempt) -> Option<T>,
    ) -> Option<T> {
        // The kernel's zonelists contain no zones without memory, so an empty zone cannot be the preferred one.
        let preferred = list.zones().find(|zone| zone.shared.managed.get() > 0);
        if let Some(node) = preferred.filter(|zone| zone.shared.keeps_apart.get()).map(|zone| zone.shared.node) {
            let local = list.zones().filter(|zone| zone.shared.node == node);
            if let Some(taken) = self.attempt(local, list.request, Attempt::FIRST.with_mixing(Mixing::Avoided), take) {
                return Some(taken);
            }
        }
        self.attempt(list.zones(), list.request, Attempt::FIRST.with_mixing(Mixing::Allowed), take)
    }

    /// Tries zones in turn.
    fn attempt<T>(
        &self,
        mut zones: impl Iterator<Item = &'a CachedZone<'a, M>>,
        request: &Request,
        attempt: Attempt,
        take: &mut impl FnMut(&CachedZone<'a, M>, Attempt) -> Option<T>,
    ) -> Option<T> {
        zones.find_map(|zone| if self.may_take(zone, request, attempt) { take(zone, attempt) } else { None })
    }

    /// Whether a zone's marks allow a request. Specification 1.7, 4.8.
    pub(crate) fn may_take(&self, zone: &CachedZone<'a, M>, request: &Request, attempt: Attempt) -> bool {
        // A small build has no `take_first`, and each list that has emptied a chunk comes here.
        if SMALL && zone.shared.has_plenty(request.order) {
            return true;
        }
        let test = request.mark_test(attempt.rights);
        if self.tuning.below_high && !zone.shared.pressure().below_high {
            if zone.shared.passes_mark(Mark::High, &test) {
                return true;
            }
            let pages = MarkTest { order: Order::ZERO, ..test };
            if !self.tuning.below_high_by_pages || !zone.shared.passes_mark(Mark::High, &pages) {
                zone.shared.set_below_high(true);
            }
        }
        !request.watermarks || zone.shared.passes_mark(attempt.mark, &test)
    }

    /// The pageset list that serves a request; `None` if the request bypasses the pageset.
    #[inline]
    pub(crate) fn cached_list(&self, request: &Request) -> Option<usize> {
        if self.tuning.cma_skip && request.skips_for_cma() {
            return None;
        }
        self.tuning.lists.list(request.order, request.migratetype)
    }

    /// Takes a block from a zone, through the pageset or directly. For an urgent request, reserves the block's
    /// pageblock for more such requests. Specification 2.3.
    #[inline]
    pub(crate) fn take(
        &self,
        zone: &CachedZone<'a, M>,
        cpu: CpuId,
        request: &Request,
        attempt: Attempt,
    ) -> Option<u32> {
        let from = match self.cached_list(request) {
            Some(list) => zone.alloc_cached(self.env(), cpu, list, attempt.wanted(&zone.shared, request)),
            None => FromCache::Busy,
        };
        let page = match from {
            FromCache::Page(page) => page,
            FromCache::Refilled(page) => {
                self.report_boost(zone, request);
                page
            }
            // Before 5.14 the zone fails if the refill fails. Specification 2.3.
            FromCache::Empty if self.tuning.lists == ListRule::OrderZero => return None,
            FromCache::Empty | FromCache::Busy => self.take_direct(zone, cpu, request, attempt)?,
        };
        if attempt.reserves() && zone.shared.may_reserve_highatomic() {
            let guard = zone.shared.lock(self.env(), LockPath::Map, page);
            guard.reserve_highatomic(page, request.order, || zone.shared.may_reserve_highatomic());
        }
        Some(page)
    }

    /// Takes a block from the buddy, without the pageset. Specification 2.3, step 5.
    #[cold]
    pub(crate) fn take_direct(
        &self,
        zone: &CachedZone<'a, M>,
        cpu: CpuId,
        request: &Request,
        attempt: Attempt,
    ) -> Option<u32> {
        let mut found = None;
        self.take_each_direct(zone, cpu, request, attempt, |page| {
            found = Some(page);
            false
        });
        found
    }

    /// As [`Self::take_direct`], blocks under one hold of a region's lock: gives each to `give`, until that returns false or the region has
    /// no more.
    pub(crate) fn take_each_direct(
        &self,
        zone: &CachedZone<'a, M>,
        cpu: CpuId,
        request: &Request,
        attempt: Attempt,
        give: impl FnMut(u32) -> bool,
    ) {
        let Some(pageset) = zone.pagesets.get(cpu.0 as usize) else { return };
        let (wanted, rights) = (attempt.wanted(&zone.shared, request), attempt.rights);
        let direct = store::Direct { wanted, rights, preferred: &pageset.region };
        if store::take_direct(&zone.shared, self.env(), &direct, give) {
            self.report_boost(zone, request);
        }
    }

    /// Wakes reclaim once after the marks were boosted. The marks are boosted only under the zone lock, so a block from
    /// the pageset alone needs no check. Specification 1.6, "Watermark boost".
    #[cold]
    pub(crate) fn report_boost(&self, zone: &CachedZone<'a, M>, request: &Request) {
        if request.wakes() && zone.shared.flags.take(BOOSTED) {
            self.machine.wake_reclaim(zone.shared.index, Order::ZERO, zone.shared.kind);
        }
    }
}

/// The slow path.
impl<'a, M: Machine> Allocator<'a, M> {
    /// Moves pages of one zone after the other to the free lists, a step at a time, and tries again at the low marks after each. `None` also if
    /// there were none, or if the request may not wait for a lock.
    #[cold]
    pub(crate) fn after_settling<T>(
        &self,
        list: &Zonelist<'_, 'a, M>,
        take: &mut impl FnMut(&CachedZone<'a, M>, Attempt) -> Option<T>,
    ) -> Option<T> {
        if list.request.wait == Wait::Nothing {
            return None;
        }
        let order = list.request.order;
        list.zones().filter(|zone| store::may_settle_for(&zone.shared, order)).find_map(|zone| {
            let mut left = Some(Scope::Request(order));
            while let Some(scope) = left {
                left = zone.settle(self.env(), scope);
                let taken = self.first_attempt(list, take);
                if taken.is_some() {
                    return taken;
                }
            }
            None
        })
    }

    /// The part of [`Self::walk`] after the low marks, before it drains other CPUs' pagesets.
    #[cold]
    fn slow<T>(
        &self,
        list: &Zonelist<'_, 'a, M>,
        take: &mut impl FnMut(&CachedZone<'a, M>, Attempt) -> Option<T>,
    ) -> Option<T> {
        self.wake_reclaim(list);
        if list.request.wait != Wait::Nothing {
            // The marks do not count these blocks, so the request may not have taken the lock that completes the frees.
            list.zones().for_each(|zone| zone.shared.complete_deferred(self.env()));
        }
        self.at_min_marks(list, take)
    }

    /// Drains the pagesets that may have what a request lacks, one CPU at a time, until the request is served, under the rule
    /// [`Tuning::drain_for_requests`](crate::Tuning::drain_for_requests). A request that may wait only for a zone's lock leaves out the
    /// pagesets whose locks are held: an interrupt may have stopped the holder.
    #[cold]
    pub(crate) fn after_drains<T>(
        &self,
        list: &Zonelist<'_, 'a, M>,
        take: &mut impl FnMut(&CachedZone<'a, M>, Attempt) -> Option<T>,
    ) -> Option<T> {
        let request = list.request;
        if !self.tuning.drain_for_requests || request.wait == Wait::Nothing {
            return None;
        }
        list.zones().find_map(|zone| {
            let mut may_serve = self.possible_cpus().filter(|&cpu| zone.may_serve(cpu, request.order));
            may_serve.find_map(|cpu| {
                if request.wait == Wait::Memory {
                    zone.drain_cpu(self.env(), cpu);
                } else {
                    zone.try_drain_cpu(self.env(), cpu, None);
                }
                self.attempt(iter::once(zone), request, Attempt::slow(request), take)
            })
        })
    }

    /// Tries the zones at the min marks with the request's rights. Tries them once more if pages were merged for the
    /// request.
    pub(crate) fn at_min_marks<T>(
        &self,
        list: &Zonelist<'_, 'a, M>,
        take: &mut impl FnMut(&CachedZone<'a, M>, Attempt) -> Option<T>,
    ) -> Option<T> {
        let attempt = Attempt::slow(list.request);
        let taken = self.attempt(list.zones(), list.request, attempt, take);
        if taken.is_none() && self.merge_for(list) {
            return self.attempt(list.zones(), list.request, attempt, take);
        }
        taken
    }

    /// Merges the pages that were freed without merging, for a request above order 0 that may wait for memory: the
    /// merge reads every page. Returns whether any page merged. Specification 6.1.
    fn merge_for(&self, list: &Zonelist<'_, 'a, M>) -> bool {
        let merge = |zone: &CachedZone<'a, M>| zone.shared.merge_skipped(self.env());
        let may = list.request.order > Order::ZERO && list.request.wait == Wait::Memory;
        may && list.zones().map(merge).sum::<u64>() > 0
    }

    /// Calls `wake_reclaim` for each zone that is below its low mark for this request.
    fn wake_reclaim(&self, list: &Zonelist<'_, 'a, M>) {
        let request = list.request;
        let test = request.mark_test(Rights::NONE);
        if request.wakes() {
            for zone in list.zones().filter(|zone| !zone.shared.passes_mark(Mark::Low, &test)) {
                self.machine.wake_reclaim(zone.shared.index, request.order, request.highest);
            }
        }
    }
}
