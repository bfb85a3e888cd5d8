//! The free scanner: walks from the zone's end downwards and takes free blocks as move targets.
//!
//! Specification: `linux-page-allocator.md` 7.5.

use super::CompactMode;
use super::blocks::CLUSTER;
use super::run::Run;
use crate::admin::owner::Owner;
use crate::buddy::list::End;
use crate::frame::{MigrateType, Order, PAGEBLOCK, PageState, start_of};
use crate::machine::{Line, LockPath, Machine};
use crate::zone::ZoneGuard;

impl<'r, 'a, M: Machine, O: Owner> Run<'r, 'a, M, O> {
    /// A free block of `order` as move target.
    pub(super) fn target(&mut self, order: Order) -> Option<u32> {
        let (env, frames) = (self.allocator.env(), self.zone.frames());
        self.targets.take(env, frames, order).or_else(|| {
            self.take_free_blocks();
            self.targets.take(env, frames, order)
        })
    }

    /// Takes free blocks until they hold as many pages as the candidates.
    fn take_free_blocks(&mut self) {
        // All candidates lie below the migrate position, which may be the end of their pageblock.
        let low = start_of(self.migrate - 1, Order::PAGEBLOCK) + PAGEBLOCK;
        let mut stride = if self.plan.mode == CompactMode::Async { CLUSTER } else { 1 };
        let mut start = start_of(self.free, Order::PAGEBLOCK);
        while start >= low {
            let end = self.zone.frames().end.min(start + PAGEBLOCK);
            if self.is_destination(start) {
                let before = self.targets.pages;
                let every_page = stride == 1;
                self.scan_destination(end, &mut stride);
                let scanned = self.free >= end;
                let preceding = start.saturating_sub(PAGEBLOCK);
                // A pageblock scanned in strides may still have free pages: if every other page is free, a stride of 32
                // finds none. It gets no skip bit, so that the next, slower attempt scans it again.
                if scanned && every_page {
                    self.zone.shared.set_skip(self.allocator.env(), start);
                    self.zone.shared.compaction.lower_free(preceding);
                }
                if self.targets.pages >= self.candidates.pages {
                    if scanned {
                        self.free = preceding;
                    }
                    return;
                }
                if !scanned {
                    return;
                }
                if self.targets.pages == before {
                    stride = CLUSTER.min(2 * stride);
                }
            }
            start -= PAGEBLOCK;
            self.free = start;
        }
    }

    /// Whether pages may move to the pageblock that starts at `start`.
    fn is_destination(&self, start: u32) -> bool {
        let frames = &self.zone.frames();
        let pageblock = frames.pageblock(start);
        let migratetype = pageblock.migratetype();
        if !pageblock.is_online() || migratetype == MigrateType::Isolate {
            return false;
        }
        if pageblock.skips() && !self.plan.whole_zone {
            return false;
        }
        // A free block of at least the wanted order stays whole.
        let large = self.plan.order.unwrap_or(Order::PAGEBLOCK);
        if let Some((_, order, PageState::Free)) = self.zone.shared.buddy.block_around(start)
            && order >= large
        {
            return false;
        }
        self.plan.any_type || matches!(migratetype, MigrateType::Movable | MigrateType::Cma)
    }

    /// Takes free blocks from the free position to the end of its pageblock. The position stays where the scan stopped:
    /// before the end if the targets suffice, or if the zone would fall to its min mark.
    fn scan_destination(&mut self, end: u32, stride: &mut u32) {
        let (env, frames) = (self.allocator.env(), self.zone.frames());
        let mut guard: Option<ZoneGuard<'r, 'a, M>> = None;
        let mut looks = 0;
        while self.free < end {
            // Release the lock now and then, so that other CPUs make progress.
            if looks == CLUSTER {
                (guard, looks) = (None, 0);
            }
            looks += 1;
            self.report.free_scanned += 1;
            env.touch(Line::Page(frames.pfn(self.free)));
            let mut tag = frames.tag(self.free);
            if tag.state() == PageState::Free && guard.is_none() {
                guard = Some(self.lock());
                // Another CPU may have taken the block before the lock was held.
                tag = frames.tag(self.free);
            }
            let order = tag.order();
            match (tag.state(), &guard) {
                (PageState::Free, Some(zone)) => {
                    if !zone.take_unallocated(self.free, order) {
                        return;
                    }
                    self.targets.put(env, frames, self.free, order);
                    self.report.free_isolated += order.pages();
                    *stride = 1;
                    self.free += order.pages() as u32;
                    if self.targets.pages >= self.candidates.pages {
                        break;
                    }
                }
                (PageState::Inside, _) => self.free += *stride,
                _ => self.free += (order.pages() as u32).max(*stride),
            }
        }
        self.free = self.free.min(end);
    }

    /// Takes the zone lock. In async mode a contended lock sets `contended`, which ends the run soon; this call then
    /// waits.
    fn lock(&mut self) -> ZoneGuard<'r, 'a, M> {
        let (env, zone) = (self.allocator.env(), &self.zone.shared);
        if self.plan.mode == CompactMode::Async && !self.contended {
            if let Some(guard) = zone.try_lock(env, LockPath::Map) {
                return guard;
            }
            self.contended = true;
        }
        zone.lock(env, LockPath::Map)
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Takes a free block off its list without allocating it; its tag then reads as the inside of a block. Returns
    /// false and changes nothing if the zone would fall to its min mark. A block of half a pageblock or more turns its
    /// pageblock MOVABLE. Specification 1.5, "Taking a free block without allocating it".
    fn take_unallocated(&self, page: u32, order: Order) -> bool {
        if self.list_of(page) != MigrateType::Isolate && !self.zone().has_above_min(order) {
            return false;
        }
        self.remove(page, order);
        if order.get() + 1 >= Order::PAGEBLOCK.get() {
            let first = start_of(page, Order::PAGEBLOCK);
            for start in (first..page + order.pages() as u32).step_by(PAGEBLOCK as usize) {
                if self.frames.block_type(start).is_ordinary() {
                    self.move_free_blocks(start, MigrateType::Movable, End::Tail);
                    self.set_block_type(start, MigrateType::Movable);
                }
            }
        }
        true
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    extern crate std;

    use super::*;
    use crate::alloc::config::{Config, ZoneSpec};
    use crate::alloc::owned::OwnedMetadata;
    use crate::frame::{CpuId, NodeId, PageRange, Pfn, ZoneKind};
    use crate::machine::SpinLock;
    use crate::policy::Watermarks;
    use crate::{Allocator, Tuning};

    struct OneCpu;

    impl Machine for OneCpu {
        type Lock = SpinLock;

        fn cpu(&self) -> CpuId {
            CpuId(0)
        }
    }

    /// Half a pageblock that is taken makes its pageblock MOVABLE; a smaller block leaves the type. No lowmem reserve holds the
    /// take back, but the min mark does. Specification 1.5.
    #[test]
    fn half_a_pageblock_makes_its_pageblock_movable() {
        for (order, expected) in [(7, MigrateType::Unmovable), (8, MigrateType::Movable), (9, MigrateType::Movable)] {
            let order = Order::new(order).expect("an order");
            let range = PageRange::new(Pfn(0), 4 * u64::from(PAGEBLOCK));
            let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] }];
            let config = Config { tuning: Tuning::default(), ..Config::new(&zones, &[NodeId(0)]) };
            let metadata = OwnedMetadata::new(&config).expect("memory");
            let mut zones = metadata.zones();
            let world = Allocator::new(OneCpu, &config, metadata.lend(&mut zones)).expect("a good map");
            let reserve = ZoneKind::ALL.map(|highest| if highest == ZoneKind::Dma { 0 } else { 1 << 20 });
            world.set_watermarks(0, Default::default(), reserve);
            world.set_pageblock_type(Pfn(0), MigrateType::Unmovable).expect("in the zone");
            let zone = world.zones[0].shared.lock(world.env(), LockPath::Map);
            // The pageblock is one free block: split it to have a block of the order at its start.
            zone.remove(0, Order::PAGEBLOCK);
            zone.split(0, Order::PAGEBLOCK, order, MigrateType::Unmovable);
            zone.put(0, order, MigrateType::Unmovable, End::Head);
            assert!(zone.take_unallocated(0, order));
            assert_eq!(zone.frames.block_type(0), expected, "order {order}");
            drop(zone);
            let min = 4 * u64::from(PAGEBLOCK);
            world.set_watermarks(0, Watermarks { min, low: min, high: min }, [0; ZoneKind::COUNT]);
            let zone = world.zones[0].shared.lock(world.env(), LockPath::Map);
            assert!(!zone.take_unallocated(PAGEBLOCK, Order::PAGEBLOCK), "below the min mark");
        }
    }
}
