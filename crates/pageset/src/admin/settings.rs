//! The administrator's settings: fractions, marks, bounds, pageblock types, the pagesets' states.
//!
//! Specification: `linux-page-allocator.md` 1.2, 2.2.

use core::sync::atomic::Ordering::Relaxed;

use crate::alloc::Allocator;
use crate::alloc::config::{MapError, check_fraction};
use crate::alloc::error::{FreeError, WrongFree};
use crate::frame::MigrateType;
use crate::frame::ZoneKind;
use crate::frame::{CpuId, Order, Pfn, start_of};
use crate::machine::{Guard, LockPath, Machine};
use crate::pcp::CachedZone;
use crate::policy::lists::LISTS;
use crate::policy::sizes::{Share, ZoneSize};
use crate::policy::{Bounds, HighRule, PcpState, Tuning, Watermarks};
use crate::sync::LockedWord;

/// Kernel default of `lowmem_reserve_ratio`: a zone keeps one page per this many managed pages of the higher zones,
/// against requests that those zones could serve. Index: [`ZoneKind`]; 0 keeps none. Specification 1.2.
const LOWMEM_RATIOS: [u64; ZoneKind::COUNT] = [256, 256, 32, 0];

/// A drain doubles only while it is smaller than the largest high, 2^28 pages. Unit: power of two.
const MAX_FREE_FACTOR: u8 = crate::policy::sizes::MAX_HIGH.ilog2() as u8;

impl<'a, M: Machine> Allocator<'a, M> {
    /// Sets the fraction of each zone that all its pagesets may hold: 8 or more; 0 returns to the rules. With a
    /// fraction high no longer tunes itself. While CPUs are offline, each remaining CPU may hold more, up to the
    /// capacity of its pagesets. Specification 2.2.
    ///
    /// # Errors
    /// A fraction of 1 to 7, or one that exceeds the pagesets' capacity with all CPUs online. The old fraction stays.
    pub fn set_high_fraction(&self, fraction: u32) -> Result<(), MapError> {
        check_fraction(fraction)?;
        let changes = self.change();
        for zone in self.zones {
            let asked = self.tuning.bounds(self.zone_size(zone, |_| true), fraction).high_max;
            let capacity = zone.pagesets.first().map_or(0, |p| p.capacity());
            if fraction > 0 && asked > capacity {
                return Err(MapError::Capacity { asked, capacity });
            }
        }
        self.rules.fraction.store(fraction, Relaxed);
        self.recompute_bounds(changes);
        Ok(())
    }

    /// Sets the type of a page's pageblock and moves its free blocks to the lists of that type. Splits a free block
    /// that reaches beyond the pageblock. Holds the zone lock.
    ///
    /// # Errors
    /// The page is in no zone.
    pub fn set_pageblock_type(&self, pfn: Pfn, migratetype: MigrateType) -> Result<(), FreeError> {
        let Some((zone, page)) = self.locate(pfn) else {
            return Err(FreeError { pfn, order: Order::PAGEBLOCK, reason: WrongFree::NotOurs });
        };
        let guard = zone.shared.lock(self.env(), LockPath::Map, page);
        guard.change_type(start_of(page, Order::PAGEBLOCK), migratetype);
        Ok(())
    }

    /// The type of a page's pageblock; `None` if the page is in no zone.
    #[must_use]
    pub fn pageblock_type(&self, pfn: Pfn) -> Option<MigrateType> {
        self.locate(pfn).map(|(zone, page)| zone.frames().block_type(page))
    }

    /// The inputs of the sizing formulas for a zone, with the CPUs that `counts` selects. If none of them is on the
    /// zone's node, all share the zone. Specification 2.2.
    fn zone_size(&self, zone: &CachedZone<'a, M>, counts: impl Fn(CpuId) -> bool) -> ZoneSize {
        let (mut local, mut all) = (0, 0);
        for cpu in self.possible_cpus().filter(|cpu| counts(*cpu)) {
            local += u32::from(self.rules.node_of(cpu) == zone.shared.node);
            all += 1;
        }
        let cpus = if local == 0 { all } else { local };
        ZoneSize { managed: zone.shared.buddy.managed.get(), low: zone.shared.watermarks().low, cpus }
    }

    /// Computes watermarks, reserves and bounds from the managed pages. Specification 1.2.
    pub fn recompute(&self) {
        let changes = self.change();
        let is_lowmem = |zone: &&CachedZone<'a, M>| zone.shared.kind != ZoneKind::Movable;
        let lowmem = self.zones.iter().filter(is_lowmem).map(|zone| zone.shared.buddy.managed.get()).sum();
        let populated = self.zones.iter().filter(is_lowmem).filter(|zone| zone.shared.buddy.managed.get() > 0).count();
        let rule = &self.rules.watermarks;
        let reserve = rule.reserve_kib(lowmem, populated as u64);
        for zone in self.zones {
            let movable = zone.shared.kind == ZoneKind::Movable;
            let guard = zone.shared.lock(self.env(), LockPath::Map, 0);
            guard.set_watermarks(rule.marks(reserve, zone.shared.buddy.managed.get(), lowmem, movable));
            guard.set_reserve(ZoneKind::ALL.map(|highest| self.lowmem_reserve(zone, highest)));
        }
        self.recompute_mixing();
        self.recompute_bounds(changes);
    }

    /// Sets which zones first keep migratetypes apart: NORMAL zones with a DMA32 zone below them. A map without DMA32
    /// zones models a kernel without them; on a one-node machine an empty DMA32 zone counts. Specification 1.6,
    /// "No-fragment flag".
    fn recompute_mixing(&self) {
        let one_node = self.zones.iter().all(|zone| zone.shared.node == self.zones[0].shared.node);
        for zone in self.zones {
            let below = |z: &CachedZone<'a, M>| {
                z.shared.kind == ZoneKind::Dma32
                    && (one_node || z.shared.node == zone.shared.node && z.shared.buddy.managed.get() > 0)
            };
            let apart = self.tuning.no_fragment && zone.shared.kind == ZoneKind::Normal && self.zones.iter().any(below);
            zone.shared.keeps_apart.set(apart);
        }
    }

    /// Pages of a zone that requests with this highest zone may not use. Specification 1.2.
    fn lowmem_reserve(&self, zone: &CachedZone<'a, M>, highest: ZoneKind) -> u64 {
        let ratio = LOWMEM_RATIOS[zone.shared.kind.index()];
        let above = self.zones.iter().filter(|z| {
            z.shared.node == zone.shared.node && z.shared.kind > zone.shared.kind && z.shared.kind <= highest
        });
        above.map(|z| z.shared.buddy.managed.get()).sum::<u64>().checked_div(ratio).unwrap_or(0)
    }

    /// Computes the bounds of all pagesets and applies them. Releases the lock of changes.
    pub(crate) fn recompute_bounds(&self, changes: Guard<'_, M::Lock>) {
        self.zones.iter().for_each(|zone| self.compute_bounds(zone, &changes));
        drop(changes);
        self.zones.iter().for_each(|zone| self.apply_bounds(zone));
    }

    /// As [`Self::recompute_bounds`], for one zone.
    pub(crate) fn recompute_bounds_of(&self, zone: &CachedZone<'a, M>, changes: Guard<'_, M::Lock>) {
        self.compute_bounds(zone, &changes);
        drop(changes);
        self.apply_bounds(zone);
    }

    fn compute_bounds(&self, zone: &CachedZone<'a, M>, changes: &Guard<'_, M::Lock>) {
        // Relaxed: see the field.
        let fraction = self.rules.fraction.load(Relaxed);
        let size = self.zone_size(zone, |cpu| self.rules.online.contains(cpu));
        let bounds = self.tuning.bounds(size, fraction);
        let share = self.tuning.share(size.managed, self.rules.online.count(), fraction);
        self.decide_bounds(zone, bounds, share, changes);
    }

    /// Decides the bounds of a zone's pagesets, for [`Self::apply_bounds`].
    fn decide_bounds(
        &self,
        zone: &CachedZone<'a, M>,
        bounds: Bounds,
        share: Option<Share>,
        _changes: &Guard<'_, M::Lock>,
    ) {
        zone.shares.decide(share.unwrap_or_default(), bounds);
        let bounds = share.map_or(bounds, |share| bounds.within(share.each));
        zone.bounds.set(bounds);
        zone.shared.buddy.research.set_batch(bounds.batch);
    }

    /// Gives each pageset of a zone its bounds. Pagesets of a disabled zone and those of offline CPUs keep nothing.
    ///
    /// The lock of changes is not held while this waits for a pageset: its holder may mask interrupts, and a pageset's
    /// lock may need an interrupt of that CPU. Every caller applies what was decided last, so the last decision holds.
    /// Lock order: pageset, then changes.
    fn apply_bounds(&self, zone: &CachedZone<'a, M>) {
        for cpu in self.possible_cpus() {
            let pageset = zone.lock_pageset(self.env(), cpu);
            zone.end_loan(&pageset);
            let (decided, keeps) = {
                let _changes = self.change();
                (zone.bounds.get(), self.keeps_pages(zone, cpu))
            };
            let bounds = if keeps { pageset.within_capacity(decided) } else { Bounds::DISABLED };
            let large_cache = self.tuning.large_cache(self.rules.cache_slice_pages, decided.batch);
            pageset.set_bounds(bounds, &self.tuning, large_cache);
        }
    }

    /// Whether a pageset may keep pages at all.
    pub(crate) fn keeps_pages(&self, zone: &CachedZone<'a, M>, cpu: CpuId) -> bool {
        zone.disabled.get() == 0 && self.rules.online.contains(cpu)
    }

    /// Sets a zone's marks and reserves by hand, until they are next computed. Ends a boost of the marks. Marks that no
    /// request can pass are allowed. Holds the zone lock.
    ///
    /// # Panics
    /// There is no zone of that number.
    pub fn set_watermarks(&self, zone: usize, marks: Watermarks, reserve: [u64; ZoneKind::COUNT]) {
        let _changes = self.change();
        let zone = &self.zones[zone];
        let guard = zone.shared.lock(self.env(), LockPath::Map, 0);
        guard.set_watermarks(marks);
        guard.set_reserve(reserve);
    }

    /// Sets batch and the bounds of high for a zone's pagesets by hand, until they are next computed. Equal bounds
    /// switch the auto-tuning of high off.
    ///
    /// # Errors
    /// An upper bound below the lower one, a batch of 0, a value above the pagesets' capacity, or disabled pagesets.
    ///
    /// # Panics
    /// There is no zone of that number.
    pub fn set_bounds(&self, zone: usize, bounds: Bounds) -> Result<(), MapError> {
        let zone = &self.zones[zone];
        let capacity = zone.pagesets.first().map_or(0, |p| p.capacity());
        let asked = bounds.high_max.max(bounds.batch);
        if asked > capacity {
            return Err(MapError::Capacity { asked, capacity });
        }
        let by_hand = Tuning {
            batch: crate::policy::BatchRule::Fixed(bounds.batch),
            high: HighRule::Fixed { min: bounds.high_min, max: bounds.high_max },
            ..*self.tuning
        };
        by_hand.check().map_err(MapError::Tuning)?;
        let changes = self.change();
        if zone.disabled.get() > 0 {
            return Err(MapError::PagesetsDisabled { zone: zone.shared.index });
        }
        self.decide_bounds(zone, bounds, None, &changes);
        drop(changes);
        self.apply_bounds(zone);
        Ok(())
    }

    /// The state of one pageset.
    ///
    /// # Panics
    /// There is no zone or no CPU of that number.
    #[must_use]
    pub fn pageset_state(&self, zone: usize, cpu: CpuId) -> PcpState {
        self.zones[zone].pagesets[cpu.0 as usize].state()
    }

    /// Restores a pageset's saved state. Its pages, its batch and its bounds do not change. A value above the largest
    /// reachable one is reduced to it.
    ///
    /// # Panics
    /// There is no zone or no CPU of that number.
    pub fn restore_pageset(&self, zone: usize, cpu: CpuId, state: &PcpState) {
        let pageset = self.zones[zone].lock_pageset(self.env(), cpu);
        // A change from here on waits for the pageset, and then gives it bounds.
        let keeps = {
            let _changes = self.change();
            self.keeps_pages(&self.zones[zone], cpu)
        };
        let scale = self.tuning.batch_scale_max;
        let most = self.tuning.free_count_cap(pageset.batch());
        pageset.set_state(&PcpState {
            count: pageset.count(),
            high: if keeps { state.high.min(pageset.capacity()) } else { 0 },
            free_count: state.free_count.min(most + Order::PAGEBLOCK.pages() as u32 - 1),
            alloc_factor: state.alloc_factor.min(scale),
            block_factor: state.block_factor.min(scale),
            free_factor: state.free_factor.min(if self.tuning.scale_cap { scale } else { MAX_FREE_FACTOR }),
            ..*state
        });
    }

    /// Blocks on each list of a pageset. Waits for the pageset's lock.
    ///
    /// # Panics
    /// There is no zone or no CPU of that number.
    #[must_use]
    pub fn pageset_lists(&self, zone: usize, cpu: CpuId) -> [u32; LISTS] {
        let pageset = self.zones[zone].lock_pageset(self.env(), cpu);
        core::array::from_fn(|list| pageset.len(list))
    }

    /// Sets whether reclaim works on a zone. Specification 4.11.
    ///
    /// # Panics
    /// There is no zone of that number.
    pub fn set_reclaim_active(&self, zone: usize, on: bool) {
        self.zones[zone].shared.set_reclaim_active(on);
    }

    /// Sets whether an allocation found a zone below its high mark. Specification 4.8.
    ///
    /// # Panics
    /// There is no zone of that number.
    pub fn set_below_high(&self, zone: usize, on: bool) {
        self.zones[zone].shared.set_below_high(on);
    }
}
