//! A world, the test's model of it, and each operation.

use std::cell::{Cell, RefCell};

use pageset::policy::{Bounds, Watermarks};
use pageset::{
    Alloc, AllocError, Block, CompactOutcome, CpuId, Free, FreeTo, MapError, MoveError, NodeId, Order, Owner,
    PageRange, Pfn, Request, Wait, ZoneKind,
};

use super::{CAPACITY, Map, Op, order, range, request};
use crate::support::{Known, World};

#[path = "checks.rs"]
mod checks;
#[path = "mover.rs"]
mod mover;
#[path = "refusals.rs"]
mod refusals;

const PAGEBLOCK: u64 = Order::PAGEBLOCK.pages();

/// An owner that frees some of its blocks at each call.
struct Giving<'w> {
    world: &'w World<'w>,
    blocks: RefCell<Vec<Block>>,
    gives: usize,
    calls: Cell<u32>,
}

impl Owner for Giving<'_> {
    fn isolate(&self, _pfn: Pfn) -> Option<Order> {
        None
    }

    fn move_block(&self, _from: Pfn, _to: Pfn, _order: Order) -> Result<(), MoveError> {
        Err(MoveError::Busy)
    }

    fn put_back(&self, _pfn: Pfn, _order: Order) {}

    fn reclaim(&self, _request: &Request) -> u64 {
        self.calls.set(self.calls.get() + 1);
        let mut blocks = self.blocks.borrow_mut();
        let from = blocks.len().saturating_sub(self.gives);
        let given = blocks.split_off(from);
        given.iter().for_each(|block| self.world.free(block.pfn, block.order).expect("it is in use"));
        given.iter().map(|block| block.order.pages()).sum()
    }
}

/// The world, and the blocks that the test has allocated.
pub struct Model<'w> {
    world: &'w World<'w>,
    map: Map,
    cpu: u32,
    live: Vec<Block>,
    /// Whether each page is in `live`, and pages of each zone that are.
    held: Vec<bool>,
    in_use: Vec<u64>,
    /// The blocks freed last, for double frees.
    freed: Vec<Block>,
    holes: Vec<PageRange>,
    online: Vec<PageRange>,
    /// Which CPUs are offline, and how often the pagesets of each zone are disabled.
    gone: Vec<bool>,
    disabled: Vec<u32>,
}

impl<'w> Model<'w> {
    pub fn new(world: &'w World<'w>, map: Map) -> Self {
        let online = map.zones().into_iter().flat_map(|zone| zone.3).collect();
        Model {
            world,
            map,
            cpu: 0,
            live: Vec::new(),
            held: vec![false; 1 << 21],
            in_use: vec![0; world.zones().len()],
            freed: Vec::new(),
            holes: map.holes(),
            online,
            gone: vec![false; map.cpus().len()],
            disabled: vec![0; world.zones().len()],
        }
    }

    pub fn step(&mut self, op: Op) {
        self.world.machine().run_on(self.cpu);
        match op {
            Op::RunOn(cpu) => self.cpu = u32::from(cpu) % self.map.cpus().len() as u32,
            Op::Alloc { order: of, migratetype, highest, rights, times } => {
                let request = request(of, migratetype, highest, rights);
                for _ in 0..times {
                    self.alloc(&request);
                }
            }
            Op::AllocWith { order: of, migratetype, rights, gives } => {
                self.alloc_with(&request(of, migratetype, ZoneKind::Movable, rights), gives % 9);
            }
            Op::AllocBulk { order: of, migratetype, pages } => {
                let request = Request::new(order(of), migratetype);
                let mut got = vec![Pfn(0); (usize::from(pages) % 600).div_ceil(request.order.pages() as usize)];
                let number = self.world.alloc_bulk(&request, &mut got).unwrap_or(0);
                got[..number].iter().for_each(|&pfn| self.take(pfn, &request));
            }
            Op::Exhaust { order: of, migratetype } => {
                let request = Request { watermarks: false, ..Request::new(order(of), migratetype) };
                while self.alloc(&request) {}
            }
            Op::Free { from, times, undrained } => {
                for _ in 0..times {
                    if let Some(block) = self.drop_block(from) {
                        let Block { pfn, order } = block;
                        let freed = if undrained {
                            self.world.free_with(Free::block(pfn, order).to(FreeTo::PagesetUndrained))
                        } else {
                            self.world.free(pfn, order)
                        };
                        freed.expect("it is in use");
                    }
                }
            }
            Op::FreeDirect { from, times } => {
                for _ in 0..times {
                    if let Some(block) = self.drop_block(from) {
                        self.world
                            .free_with(Free::block(block.pfn, block.order).to(FreeTo::Buddy))
                            .expect("it is in use");
                    }
                }
            }
            Op::FreeCold { from, times } => {
                for _ in 0..times {
                    if let Some(block) = self.drop_block(from) {
                        self.world
                            .free_with(Free::block(block.pfn, block.order).to(FreeTo::BuddyCold))
                            .expect("it is in use");
                    }
                }
            }
            Op::AllocAt { from, order: of } => self.alloc_at(from, order(of)),
            Op::AllocExact { pages, migratetype, highest, rights } => {
                self.alloc_exact(
                    &request(0, migratetype, highest, rights),
                    u64::from(pages) % (Order::MAX.pages() + 80),
                );
            }
            Op::FreeDeferred { from, times } => {
                for _ in 0..times {
                    if let Some(block) = self.drop_block(from) {
                        self.world
                            .free_with(Free::block(block.pfn, block.order).to(FreeTo::Deferred))
                            .expect("it is in use");
                    }
                }
            }
            Op::FreePart { nth, first, pages } => self.free_part(nth, first, pages),
            Op::FreeBulk { from, blocks } => {
                let blocks: Vec<_> = (0..blocks % 600).filter_map(|_| self.drop_block(from)).collect();
                self.world.free_bulk(&blocks).expect("all are in use");
            }
            Op::Wrong(wrong, nth) => {
                self.complete_deferred();
                let before = self.picture();
                self.wrong(wrong, usize::from(nth));
                assert_eq!(self.picture(), before, "{op:?} has changed something");
            }
            Op::Split { nth, to } => {
                if let Some(at) = usize::from(nth).checked_rem(self.live.len()) {
                    let Block { pfn, order: from } = self.live[at];
                    let to = order(to % (from.get() + 1));
                    self.world.split(pfn, from, to).expect("it is in use");
                    self.live.swap_remove(at);
                    self.live.extend(
                        (0..from.pages()).step_by(to.pages() as usize).map(|i| Block { pfn: pfn.offset(i), order: to }),
                    );
                }
            }
            Op::Tick => drop(self.world.tick()),
            Op::Drain => assert!(self.world.drain(), "nobody else holds a pageset"),
            Op::DrainAll => {
                self.world.drain_all();
                (0..self.world.zones().len()).for_each(|zone| self.check_empty(zone));
            }
            Op::DrainZone(zone) => {
                self.world.at(self.zone(zone)).drain_all();
                self.check_empty(self.zone(zone));
            }
            Op::CpuOffline(cpu) => {
                let cpu = usize::from(cpu) % self.gone.len();
                if self.can_go(cpu) {
                    self.world.cpu_offline(CpuId(cpu as u32)).expect("it can go");
                    self.gone[cpu] = true;
                }
            }
            Op::CpuOnline(cpu) => {
                let cpu = usize::from(cpu) % self.gone.len();
                if self.gone[cpu] {
                    self.world.cpu_online(CpuId(cpu as u32)).expect("it has gone");
                    self.gone[cpu] = false;
                }
            }
            Op::DisablePagesets(zone) => {
                let zone = self.zone(zone);
                self.world.at(zone).disable_pagesets();
                self.disabled[zone] += 1;
                self.check_empty(zone);
            }
            Op::EnablePagesets(zone) => {
                let zone = self.zone(zone);
                if self.disabled[zone] > 0 {
                    self.world.at(zone).enable_pagesets().expect("disabled");
                    self.disabled[zone] -= 1;
                }
            }
            Op::HighFraction(fraction) => {
                let fraction = if (1..8).contains(&fraction) { 8 } else { fraction };
                match self.world.set_high_fraction(fraction) {
                    Ok(()) | Err(MapError::Capacity { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            Op::SetBounds { zone, batch, high_min, high_max } => {
                let high_min = high_min % (CAPACITY + 1);
                let bounds = Bounds {
                    batch: 1 + batch % 200,
                    high_min,
                    high_max: high_min + high_max % (CAPACITY + 1 - high_min),
                };
                let zone = self.zone(zone);
                let expected = match self.disabled[zone] {
                    0 => Ok(()),
                    _ => Err(MapError::PagesetsDisabled { zone }),
                };
                assert_eq!(self.world.at(zone).set_bounds(bounds), expected);
            }
            Op::MergeSkipped(zone) => {
                self.complete_deferred();
                self.merge_skipped(self.zone(zone));
            }
            Op::Compact { order: of, migratetype, mode, faults } => {
                let request = Request::new(order(of), migratetype);
                let report = self.compact(faults, |world, mover| world.compact(&request, mode, mover));
                if let Some(pfn) = report.captured {
                    assert_eq!(report.outcome, CompactOutcome::Success);
                    self.take(pfn, &request);
                }
            }
            Op::CompactZone { zone, order: of, mode, faults } => {
                let (zone, of) = (self.zone(zone), Order::new(of));
                let report = self.compact(faults, |world, mover| world.at(zone).compact(of, mode, mover));
                assert_eq!(report.captured, None);
            }
            Op::CompactNode { node, order: of, proactive, faults } => {
                let node = NodeId(u32::from(node) % 3);
                self.compact(faults, |world, mover| match proactive {
                    true => world.node(node).compact_proactively(10 * of, mover),
                    false => world.node(node).compact(order(of), ZoneKind::Movable, mover),
                });
            }
            Op::AllocRange { from, pages, migratetype, faults } => {
                let Some(range) = self.pick_range(from, pages) else { return };
                if self.empty_range(range, false, faults, |world, mover| world.alloc_range(range, migratetype, mover)) {
                    self.take_range(range);
                }
            }
            Op::FreeRange { nth, blocks } => self.free_range(nth, blocks),
            Op::Offline { from, pages, faults } => {
                let Some(range) = self.pick_range(from, pages) else { return };
                // The offline call also begins with this drain. Merges now may give a pageblock its neighbour's type.
                self.world.at(self.world.zone_of(range.start).map(|zone| zone.number()).expect("online")).drain_all();
                if self.empty_range(range, true, faults, |world, mover| world.offline(range, mover)) {
                    self.retire(range);
                }
            }
            Op::BlockType { pageblock, migratetype } => {
                let ranges = self.online.clone();
                let all: u64 = ranges.iter().map(|range| range.pages.div_ceil(PAGEBLOCK)).sum();
                let Some(mut nth) = u64::from(pageblock).checked_rem(all) else { return };
                for range in ranges {
                    let here = range.pages.div_ceil(PAGEBLOCK);
                    if nth < here {
                        self.world
                            .set_pageblock_type(range.start.offset(nth * PAGEBLOCK), migratetype)
                            .expect("the page is in the zone");
                        break;
                    }
                    nth -= here;
                }
            }
            Op::Online(nth) => {
                if let Some(at) = usize::from(nth).checked_rem(self.holes.len()) {
                    let hole = self.holes.swap_remove(at);
                    self.world.online(hole).expect("the range is still a hole");
                    self.online.push(hole);
                }
            }
            Op::ReclaimActive { zone, on } => self.world.at(self.zone(zone)).set_reclaim_active(on),
            Op::BelowHigh { zone, on } => self.world.at(self.zone(zone)).set_below_high(on),
            Op::NodeReclaim { node, highest, on } => {
                self.world.node(NodeId(u32::from(node) % 4)).set_reclaim_active(highest, on);
            }
            Op::Marks { zone, min } => {
                let zone = self.zone(zone);
                let hundredth = self.world.at(zone).stats().managed / 100;
                let min = u64::from(min) % 40 * hundredth;
                let marks = Watermarks { min, low: 2 * min, high: 3 * min };
                self.world.at(zone).set_watermarks(marks, [0, hundredth, hundredth, hundredth]);
            }
            Op::DecayBoost { zone, pages } => {
                let (zone, pages) = (self.zone(zone), u64::from(pages));
                let before = self.world.at(zone).stats().watermark_boost;
                assert_eq!(self.world.at(zone).decay_boost(pages), before.saturating_sub(pages));
            }
        }
        self.check_counters();
    }

    /// Allocates the block at a page. Succeeds if all of it is in a free block of an ordinary type.
    fn alloc_at(&mut self, from: u16, order: Order) {
        self.complete_deferred();
        let Some(range) = self.pick_range(from, 0) else { return };
        let pfn = range.start.align_down(order);
        let settled = order <= Order::PAGEBLOCK || from.is_multiple_of(2);
        if settled {
            self.settle(PageRange::new(pfn, order.pages()));
        }
        let free = self.world.settled_free_block_around(pfn);
        let contains = free.is_some_and(|free| free.end() >= pfn.offset(order.pages()));
        let block = Block { pfn, order };
        if self.world.alloc_at(pfn, order) {
            assert!(contains || !settled, "{block:?} was free as {free:?}");
            self.hold(block);
            self.live.push(block);
        } else if contains {
            let migratetype = self.world.pageblock_type(pfn).expect("the page is in the zone");
            assert!(!migratetype.is_ordinary(), "{block:?} was refused, in a pageblock of {migratetype:?}");
        }
    }

    /// Puts the pages in the bitmaps of a range's pageblocks on free lists, as calls that take places do. Merges then may give a pageblock
    /// its neighbour's type.
    pub(super) fn settle(&self, range: PageRange) {
        let pageblocks = (range.start.align_down(Order::PAGEBLOCK).0..range.end().0).step_by(PAGEBLOCK as usize);
        for pfn in pageblocks {
            let _ = self.world.settled_free_block_around(Pfn(pfn.max(range.start.0)));
        }
    }

    /// Allocates any number of pages. They begin at a multiple of the next power of two.
    fn alloc_exact(&mut self, request: &Request, pages: u64) {
        let result = self.world.alloc_with(Alloc::new(request).pages(pages));
        match (Order::holding(pages), result) {
            (Some(order), Ok(pfn)) => {
                self.check_place(pfn, &Request { order, ..*request });
                self.take_range(PageRange::new(pfn, pages));
            }
            (Some(order), Err(AllocError::OutOfMemory(_) | AllocError::Node(_))) => {
                self.check_nothing_left(&Request { order, ..*request });
            }
            (None, Err(error)) => assert_eq!(error, AllocError::Pages(pages)),
            (_, result) => panic!("{request:?}, {pages} pages: {result:?}"),
        }
    }

    /// Frees a part of a block in use. The rest stays in use as the largest blocks.
    fn free_part(&mut self, nth: u16, first: u16, pages: u16) {
        let Some(block) = self.drop_block(nth) else { return };
        let end = block.pfn.offset(block.order.pages());
        let start = block.pfn.offset(u64::from(first) % block.order.pages());
        let part = PageRange::new(start, 1 + u64::from(pages) % (end.0 - start.0));
        self.world.free_range(PageRange::new(part.start, part.pages)).expect("a part of a block in use");
        self.take_range(range(block.pfn.0, start.0));
        self.take_range(range(part.end().0, end.0));
    }

    /// Completes the deferred frees, for operations whose expected result depends on them.
    fn complete_deferred(&self) {
        for zone in (0..self.world.zones().len()).filter(|&zone| self.world.at(zone).stats().deferred > 0) {
            self.world.at(zone).audit().unwrap_or_else(|error| panic!("{error}"));
        }
    }

    /// Records the pages of a block as in use.
    fn hold(&mut self, block: Block) {
        let end = block.pfn.0 + block.order.pages();
        for page in block.pfn.0..end {
            assert!(!std::mem::replace(&mut self.held[page as usize], true), "page {page:#x} was handed out twice");
        }
        let mut at = block.pfn.0;
        while at < end {
            let range = self.online.iter().find(|range| (range.start.0..range.end().0).contains(&at));
            at = range.unwrap_or_else(|| panic!("{at:#x} is a hole")).end().0;
        }
        self.in_use[self.world.zone_of(block.pfn).map(|zone| zone.number()).expect("the page is in the zone")] +=
            block.order.pages();
    }

    /// Merges the pages that skipped merging. The audit then finds no unmerged pair.
    fn merge_skipped(&self, zone: usize) {
        let before = self.world.at(zone).stats();
        let pairs = self.world.at(zone).merge_skipped();
        let after = self.world.at(zone).stats();
        assert!(2 * pairs <= before.nr_free_pages + before.managed && after.nr_free_pages == before.nr_free_pages);
        assert!(pairs == 0 || before.merge_skips > 0, "zone {zone}: {pairs} pairs, none was put off");
        self.world.at(zone).audit().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(self.world.at(zone).merge_skipped(), 0, "zone {zone}: merged twice");
    }

    /// Whether a CPU is online and not the last one.
    fn can_go(&self, cpu: usize) -> bool {
        !self.gone[cpu] && self.gone.iter().filter(|gone| !**gone).count() > 1
    }

    fn zone(&self, zone: u8) -> usize {
        usize::from(zone) % self.world.zones().len()
    }

    fn alloc(&mut self, request: &Request) -> bool {
        match self.world.alloc(request) {
            Ok(pfn) => {
                self.take(pfn, request);
                true
            }
            Err(AllocError::OutOfMemory(_) | AllocError::Node(_)) => {
                self.check_nothing_left(request);
                false
            }
            Err(error) => panic!("{request:?}: {error}"),
        }
    }

    /// Allocates with an owner that frees `gives` of the model's blocks per call.
    fn alloc_with(&mut self, request: &Request, gives: u8) {
        let own = (0..40).map_while(|nth| self.drop_block(7_u16 * nth)).collect();
        let owner = Giving { world: self.world, blocks: RefCell::new(own), gives: gives.into(), calls: Cell::new(0) };
        let result = self.world.alloc_with(Alloc::new(request).owner(&owner));
        let calls = owner.calls.get();
        assert!(calls == 0 || request.wait == Wait::Memory, "{request:?} waits for the owner");
        assert!(calls <= if request.order > Order::COSTLY { 1 } else { 16 }, "{request:?}: {calls} calls");
        for block in owner.blocks.into_inner() {
            self.hold(block);
            self.live.push(block);
        }
        match result {
            Ok(pfn) => self.take(pfn, request),
            Err(AllocError::OutOfMemory(_)) => {
                self.check_nothing_left(request);
                self.check_nothing_reserved(request);
            }
            Err(AllocError::Node(_)) => {}
            Err(error) => panic!("{request:?}: {error}"),
        }
    }

    /// Records an allocated block.
    fn take(&mut self, pfn: Pfn, request: &Request) {
        self.check_place(pfn, request);
        let block = Block { pfn, order: request.order };
        self.hold(block);
        self.live.push(block);
    }

    /// Checks that a request allows the place of its block.
    fn check_place(&self, pfn: Pfn, request: &Request) {
        assert!(pfn.is_aligned(request.order), "{pfn} for {request:?}");
        let zone = self.world.zone_of(pfn).map(|zone| zone.number()).expect("a page of ours");
        let stats = self.world.at(zone).stats();
        assert!(stats.kind <= request.highest, "{pfn} of {:?} for {request:?}", stats.kind);
        assert!(!request.this_node_only || stats.node == self.map.cpus()[self.cpu as usize]);
    }

    /// Removes a block from the list of blocks in use, to free it.
    fn drop_block(&mut self, from: impl Into<usize>) -> Option<Block> {
        let at = from.into().checked_rem(self.live.len())?;
        let block = self.live.swap_remove(at);
        self.held[block.pfn.0 as usize..][..block.order.pages() as usize].fill(false);
        self.in_use[self.world.zone_of(block.pfn).map(|zone| zone.number()).expect("the page is in the zone")] -=
            block.order.pages();
        self.freed.truncate(200);
        self.freed.insert(0, block);
        Some(block)
    }
}
