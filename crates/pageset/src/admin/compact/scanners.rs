//! The two scanners of a run.
//!
//! The migrate scanner walks from the zone's start upwards and isolates blocks in use that can move. It reads tags without
//! the zone lock. Only the owner's isolation, and a second read of the tag after it, decide. The free scanner walks from the
//! zone's end downwards and takes free blocks as move targets. Specification: `linux-page-allocator.md` 7.4, 7.5.

use super::CompactMode;
use super::run::{CLUSTER, Run};
use crate::admin::owner::Owner;
use crate::frame::{End, MigrateType, Order, PAGEBLOCK, PageState, start_of};
use crate::machine::{Line, LockPath, Machine};
use crate::store::Scope;
use crate::zone::ZoneGuard;

/// The migrate scanner. Specification 7.4.
impl<M: Machine, O: Owner> Run<'_, '_, M, O> {
    /// Isolates blocks of the next pageblock that has movable blocks: at most one cluster.
    ///
    /// The specification isolates the rest of a pageblock at once. This function returns to the pageblock cluster by
    /// cluster, so that the candidates have a fixed size. The result is the same, since the main loop always finishes a
    /// pageblock.
    pub(super) fn isolate_candidates(&mut self) {
        let mut page = self.migrate;
        loop {
            let start = start_of(page, Order::PAGEBLOCK);
            let end = start + PAGEBLOCK;
            if end > self.free {
                break;
            }
            if !self.is_source(page, start) {
                page = end;
                continue;
            }
            self.settle(start);
            page = self.scan_source(page, end);
            break;
        }
        self.migrate = page;
    }

    /// Whether the scanner isolates blocks of the pageblock that starts at `start`.
    fn is_source(&self, page: u32, start: u32) -> bool {
        let frames = &self.zone.frames();
        let pageblock = frames.pageblock(start);
        let (migratetype, wanted) = (pageblock.migratetype(), self.plan.migratetype);
        let whole = start >= frames.first && start + PAGEBLOCK <= frames.end;
        if !whole || !pageblock.is_online() || migratetype == MigrateType::Isolate {
            return false;
        }
        if page == start && pageblock.skips() && !self.plan.whole_zone {
            return false;
        }
        let cma = migratetype == MigrateType::Cma && wanted == MigrateType::Movable;
        let suits = !self.is_direct_async() || migratetype == wanted || cma;
        if !suits {
            self.zone.shared.compaction.advance_migrate(start + PAGEBLOCK, self.plan.mode.slot());
        }
        suits
    }

    /// An async run for a request needs one whole block and nothing else.
    fn is_direct_async(&self) -> bool {
        self.plan.direct && self.plan.mode == CompactMode::Async
    }

    /// Scans a pageblock from `from` to `end`. Returns where the scan stopped.
    fn scan_source(&mut self, from: u32, end: u32) -> u32 {
        let sub_block = self.plan.order.filter(|_| self.is_direct_async());
        let end_of = |page, order: Order| start_of(page, order) + order.pages() as u32;
        let mut page = self.enter(from, end);
        let mut sub_end = sub_block.map_or(end, |order| end_of(page, order));
        while page < end && !self.candidates.is_full() {
            if let Some(order) = sub_block
                && page >= sub_end
            {
                // The whole previous sub-block is isolated. Once it has moved, it is the wanted block.
                if !self.candidates.is_empty() {
                    break;
                }
                sub_end = end_of(page, order);
            }
            let (pages, obstacle) = self.look(page);
            page += pages;
            if obstacle && sub_block.is_some() {
                // The sub-block cannot become free, so moving its isolated blocks gains nothing.
                self.put_back_all();
                page = page.max(sub_end);
            }
        }
        let page = page.min(end);
        if page == end && (self.candidates.is_empty() || self.finish_block) {
            self.zone.shared.set_skip(self.allocator.env(), end - 1);
            self.zone.shared.compaction.advance_migrate(end, self.plan.mode.slot());
        }
        page
    }

    /// The first page at or after `page` where a block begins: a block of the largest order may reach in from the
    /// previous pageblock.
    fn enter(&mut self, page: u32, end: u32) -> u32 {
        match self.zone.shared.block_around(page) {
            Some((head, order, _)) if head < page => {
                self.report.migrate_scanned += 1;
                end.min(head + order.pages() as u32)
            }
            _ => page,
        }
    }

    /// Reads the tag of a page and isolates the block that begins there, if it can move. Returns the pages to advance,
    /// and whether the block prevents a free block here.
    fn look(&mut self, page: u32) -> (u32, bool) {
        self.report.migrate_scanned += 1;
        self.allocator.env().touch(Line::Page(self.zone.frames().pfn(page)));
        let tag = self.zone.frames().tag(page);
        let pages = tag.order().pages() as u32;
        match tag.state() {
            PageState::Free => (pages, false),
            PageState::Allocated if !self.is_too_large(tag.order()) => match self.isolate(page) {
                Some(order) => {
                    self.candidates.push(page, order);
                    self.report.isolated += order.pages();
                    (order.pages() as u32, false)
                }
                None => (pages, true),
            },
            PageState::Allocated | PageState::Cached => (pages, true),
            PageState::Inside => (1, true),
        }
    }

    /// Puts the pages in the bitmap of a pageblock on free lists: both scanners take a page in a bitmap for one in use.
    pub(super) fn settle(&self, start: u32) {
        self.zone.settle_all(self.allocator.env(), Scope::Pageblock(start));
    }

    /// Whether a block is too large for a move to gain anything.
    fn is_too_large(&self, order: Order) -> bool {
        order >= Order::PAGEBLOCK || self.plan.order.is_some_and(|wanted| order >= wanted)
    }

    /// Lets the owner isolate the block at a page. The owner may have freed the block since the scan, and allocated it
    /// again.
    fn isolate(&self, page: u32) -> Option<Order> {
        let pfn = self.zone.frames().pfn(page);
        let order = self.owner.isolate(pfn)?;
        if self.zone.frames().tag(page).is(PageState::Allocated, order) && !self.is_too_large(order) {
            return Some(order);
        }
        self.owner.put_back(pfn, order);
        None
    }

    fn put_back_all(&mut self) {
        while let Some((page, order)) = self.candidates.first() {
            self.candidates.remove_first();
            self.owner.put_back(self.zone.frames().pfn(page), order);
            self.report.failed += order.pages();
        }
    }
}

/// The free scanner. Specification 7.5.
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
        self.settle(start);
        // A free block of at least the wanted order stays whole.
        let large = self.plan.order.unwrap_or(Order::PAGEBLOCK);
        if let Some((_, order, PageState::Free)) = self.zone.shared.block_around(start)
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
                guard = Some(self.lock(self.free));
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

    /// Takes the lock of a page's region. In async mode a contended lock sets `contended`, which ends the run soon; this call then
    /// waits.
    fn lock(&mut self, page: u32) -> ZoneGuard<'r, 'a, M> {
        let (env, zone) = (self.allocator.env(), &self.zone.shared);
        if self.plan.mode == CompactMode::Async && !self.contended {
            if let Some(guard) = zone.lock_at(env, LockPath::Map, page, false) {
                return guard;
            }
            self.contended = true;
        }
        zone.lock(env, LockPath::Map, page)
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Takes a free block off its list without allocating it; its tag then reads as the inside of a block. Returns
    /// false and changes nothing if the zone would fall to its min mark. A block of half a pageblock or more turns its
    /// pageblock MOVABLE. Specification 1.5, "Taking a free block without allocating it".
    fn take_unallocated(&self, page: u32, order: Order) -> bool {
        if self.zone.list_of(page) != MigrateType::Isolate && !self.zone.has_above_min(order) {
            return false;
        }
        self.remove(page, order);
        if order.get() + 1 >= Order::PAGEBLOCK.get() {
            let first = start_of(page, Order::PAGEBLOCK);
            for start in (first..page + order.pages() as u32).step_by(PAGEBLOCK as usize) {
                if self.zone.frames.block_type(start).is_ordinary() {
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
            world.zone(0).expect("a zone").set_watermarks(Default::default(), reserve);
            world.set_pageblock_type(Pfn(0), MigrateType::Unmovable).expect("in the zone");
            let guard = world.zones[0].shared.lock(world.env(), LockPath::Map, 0);
            // The pageblock is one free block: split it to have a block of the order at its start.
            guard.remove(0, Order::PAGEBLOCK);
            guard.split(0, Order::PAGEBLOCK, order, MigrateType::Unmovable);
            guard.put(0, order, MigrateType::Unmovable, End::Head);
            assert!(guard.take_unallocated(0, order));
            assert_eq!(guard.zone.frames.block_type(0), expected, "order {order}");
            drop(guard);
            let min = 4 * u64::from(PAGEBLOCK);
            world
                .zone(0)
                .expect("a zone")
                .set_watermarks(Watermarks { min, low: min, high: min }, [0; ZoneKind::COUNT]);
            let zone = world.zones[0].shared.lock(world.env(), LockPath::Map, 0);
            assert!(!zone.take_unallocated(PAGEBLOCK, Order::PAGEBLOCK), "below the min mark");
        }
    }
}
