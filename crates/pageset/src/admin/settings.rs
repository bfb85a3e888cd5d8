//! The administrator's settings: fractions, marks, bounds, pageblock types, the pagesets' states.
//!
//! Specification: `linux-page-allocator.md` 1.2, 2.2.

use core::sync::atomic::Ordering::Relaxed;

use crate::admin::views::{PagesetView, ZoneView};
use crate::alloc::Allocator;
use crate::alloc::config::{MapError, check_fraction};
use crate::alloc::error::{FreeError, WrongFree};
use crate::frame::{CpuId, MigrateType, Order, Pfn, ZoneKind, start_of};
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
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// assert!(allocator.set_high_fraction(5).is_err(), "8 is the least");
    /// allocator.set_high_fraction(0)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A fraction of 1 to 7, or one that exceeds the pagesets' capacity with all CPUs online. The old fraction stays.
    pub fn set_high_fraction(&self, fraction: u32) -> Result<(), MapError> {
        check_fraction(fraction)?;
        let changes = self.change();
        for zone in self.zones {
            let asked = self.tuning.bounds(self.zone_size(zone, |_| true), fraction).high_max;
            let capacity = zone.pagesets.first().map_or(0, |p| p.capacity.get());
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
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// allocator.set_pageblock_type(ZONE.start, MigrateType::Unmovable)?;
    /// assert_eq!(allocator.pageblock_type(ZONE.start), Some(MigrateType::Unmovable));
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// assert_eq!(allocator.pageblock_type(ZONE.start), Some(MigrateType::Movable));
    /// assert_eq!(allocator.pageblock_type(Pfn(0)), None);
    /// # Ok(())
    /// # }
    /// ```
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
        ZoneSize { managed: zone.shared.managed.get(), low: zone.shared.watermarks().low, cpus }
    }

    /// Computes watermarks, reserves and bounds from the managed pages. Specification 1.2.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/allocator.rs"));
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let allocator = allocator();
    /// allocator.recompute();
    /// assert!(allocator.zones().all(|zone| zone.stats().watermarks.high > 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn recompute(&self) {
        let changes = self.change();
        let is_lowmem = |zone: &&CachedZone<'a, M>| zone.shared.kind != ZoneKind::Movable;
        let lowmem = self.zones.iter().filter(is_lowmem).map(|zone| zone.shared.managed.get()).sum();
        let populated = self.zones.iter().filter(is_lowmem).filter(|zone| zone.shared.managed.get() > 0).count();
        let rule = &self.rules.watermarks;
        let reserve = rule.reserve_kib(lowmem, populated as u64);
        for zone in self.zones {
            let movable = zone.shared.kind == ZoneKind::Movable;
            let guard = zone.shared.lock(self.env(), LockPath::Map, 0);
            guard.set_watermarks(rule.marks(reserve, zone.shared.managed.get(), lowmem, movable));
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
                    && (one_node || z.shared.node == zone.shared.node && z.shared.managed.get() > 0)
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
        above.map(|z| z.shared.managed.get()).sum::<u64>().checked_div(ratio).unwrap_or(0)
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
        zone.shared.research.set_batch(bounds.batch);
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
}

impl<'a, M: Machine> ZoneView<'_, 'a, M> {
    /// Sets the zone's marks and reserves by hand, until they are next computed. Ends a boost of the marks. Marks that no
    /// request can pass are allowed. Holds the zone lock.
    pub fn set_watermarks(self, marks: Watermarks, reserve: [u64; ZoneKind::COUNT]) {
        let _changes = self.allocator.change();
        let guard = self.zone.shared.lock(self.allocator.env(), LockPath::Map, 0);
        guard.set_watermarks(marks);
        guard.set_reserve(reserve);
    }

    /// Sets batch and the bounds of high for the zone's pagesets by hand, until they are next computed. Equal bounds
    /// switch the auto-tuning of high off.
    ///
    /// # Errors
    /// An upper bound below the lower one, a batch of 0, a value above the pagesets' capacity, or disabled pagesets.
    pub fn set_bounds(self, bounds: Bounds) -> Result<(), MapError> {
        let (zone, allocator) = (self.zone, self.allocator);
        let capacity = zone.pagesets.first().map_or(0, |p| p.capacity.get());
        let asked = bounds.high_max.max(bounds.batch);
        if asked > capacity {
            return Err(MapError::Capacity { asked, capacity });
        }
        let by_hand = Tuning {
            batch: crate::policy::BatchRule::Fixed(bounds.batch),
            high: HighRule::Fixed { min: bounds.high_min, max: bounds.high_max },
            ..*allocator.tuning
        };
        by_hand.check().map_err(MapError::Tuning)?;
        let changes = allocator.change();
        if zone.disabled.get() > 0 {
            return Err(MapError::PagesetsDisabled { zone: zone.shared.index });
        }
        allocator.decide_bounds(zone, bounds, None, &changes);
        drop(changes);
        allocator.apply_bounds(zone);
        Ok(())
    }

    /// Sets whether reclaim works on the zone. Specification 4.11.
    pub fn set_reclaim_active(self, on: bool) {
        self.zone.shared.set_reclaim_active(on);
    }

    /// Sets whether an allocation found the zone below its high mark. Specification 4.8.
    pub fn set_below_high(self, on: bool) {
        self.zone.shared.set_below_high(on);
    }
}

impl<'a, M: Machine> PagesetView<'_, 'a, M> {
    /// The state of the pageset.
    #[must_use]
    pub fn state(self) -> PcpState {
        self.pageset.state()
    }

    /// Restores the pageset's saved state. Its pages, its batch and its bounds do not change. A value above the largest
    /// reachable one is reduced to it.
    pub fn restore(self, state: &PcpState) {
        let (zone, allocator, cpu) = (self.zone, self.allocator, self.cpu());
        let pageset = zone.lock_pageset(allocator.env(), cpu);
        // A change from here on waits for the pageset, and then gives it bounds.
        let keeps = {
            let _changes = allocator.change();
            allocator.keeps_pages(zone, cpu)
        };
        let scale = allocator.tuning.batch_scale_max;
        let most = allocator.tuning.free_count_cap(pageset.batch.get());
        pageset.set_state(&PcpState {
            count: pageset.count(),
            high: if keeps { state.high.min(pageset.capacity.get()) } else { 0 },
            free_count: state.free_count.min(most + Order::PAGEBLOCK.pages() as u32 - 1),
            alloc_factor: state.alloc_factor.min(scale),
            block_factor: state.block_factor.min(scale),
            free_factor: state.free_factor.min(if allocator.tuning.scale_cap { scale } else { MAX_FREE_FACTOR }),
            ..*state
        });
    }

    /// The number of blocks on each list of the pageset. Waits for the pageset's lock.
    #[must_use]
    pub fn lists(self) -> [u32; LISTS] {
        let pageset = self.zone.lock_pageset(self.allocator.env(), self.cpu());
        core::array::from_fn(|list| pageset.len(list))
    }
}
