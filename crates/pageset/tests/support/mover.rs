//! The owner of a model's blocks: it moves them, and injects faults at the worst moments. Also the model's checks of
//! compaction and ranges.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use pageset::{
    Block, CompactReport, Free, MigrateType, MoveError, Obstacle, Order, Owner, PageRange, Pfn, RangeError, Request,
};

use super::{Model, PAGEBLOCK, range as pages};
use crate::support::{Known, World};

/// The faults to inject, as bits: the lowest three bits select the frequency, the others the kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faults(pub u8);

impl Faults {
    const KEEPS: u8 = 8;
    const BUSY: u8 = 16;
    const NO_MEMORY: u8 = 32;
    const FREES: u8 = 64;
    const ALLOCATES: u8 = 128;

    /// Whether the fault happens at the n-th call.
    fn now(self, fault: u8, n: u32) -> bool {
        self.0 & fault != 0 && n.is_multiple_of(2 + 3 * u32::from(self.0 & 7))
    }
}

/// All blocks of a model can move, except for the injected faults.
pub struct Mover<'m, 'w> {
    model: RefCell<&'m mut Model<'w>>,
    /// The index of each block in the model's list.
    places: RefCell<HashMap<Pfn, usize>>,
    isolated: RefCell<HashSet<Pfn>>,
    faults: Faults,
    calls: Cell<u32>,
    pub moved: Cell<u64>,
}

impl<'m, 'w> Mover<'m, 'w> {
    pub fn new(model: &'m mut Model<'w>, faults: Faults) -> Self {
        let places = model.live.iter().enumerate().map(|(at, block)| (block.pfn, at)).collect();
        Mover {
            model: RefCell::new(model),
            places: RefCell::new(places),
            isolated: RefCell::default(),
            faults,
            calls: Cell::new(0),
            moved: Cell::new(0),
        }
    }

    /// Checks that all isolated blocks have moved or were put back.
    pub fn end(self) -> u64 {
        assert!(self.isolated.borrow().is_empty(), "neither moved nor put back: {:?}", self.isolated);
        self.moved.get()
    }

    fn now(&self, fault: u8) -> bool {
        self.faults.now(fault, self.calls.get())
    }

    fn free(&self, pfn: Pfn) {
        let mut model = self.model.borrow_mut();
        let mut places = self.places.borrow_mut();
        let at = places.remove(&pfn).expect("in use");
        let block = model.drop_block(at).expect("in use");
        assert_eq!(block.pfn, pfn);
        if let Some(last) = model.live.get(at) {
            places.insert(last.pfn, at);
        }
        model.world.free(block.pfn, block.order).expect("it is in use");
    }

    fn alloc(&self) {
        let mut model = self.model.borrow_mut();
        let request = Request::new(Order::ZERO, MigrateType::Movable);
        // A failure is not checked: the block that moves is in use twice, and the model knows it once.
        if let Ok(pfn) = model.world.alloc(&request) {
            model.take(pfn, &request);
            let at = model.live.len() - 1;
            self.places.borrow_mut().insert(model.live[at].pfn, at);
        }
    }
}

impl Owner for Mover<'_, '_> {
    fn isolate(&self, pfn: Pfn) -> Option<Order> {
        self.calls.set(self.calls.get() + 1);
        let at = *self.places.borrow().get(&pfn)?;
        if self.isolated.borrow().contains(&pfn) || self.now(Faults::KEEPS) {
            return None;
        }
        if self.now(Faults::FREES) {
            self.free(pfn);
            return None;
        }
        self.isolated.borrow_mut().insert(pfn);
        Some(self.model.borrow().live[at].order)
    }

    fn move_block(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), MoveError> {
        self.calls.set(self.calls.get() + 1);
        if self.now(Faults::BUSY) {
            return Err(MoveError::Busy);
        }
        if self.now(Faults::NO_MEMORY) {
            return Err(MoveError::NoMemory);
        }
        assert!(self.isolated.borrow_mut().remove(&from), "{from} is not isolated");
        {
            let mut model = self.model.borrow_mut();
            let at = self.places.borrow_mut().remove(&from).expect("in use");
            assert_eq!(model.live[at].order, order);
            model.relocate(at, to);
            self.places.borrow_mut().insert(to, at);
        }
        self.moved.set(self.moved.get() + order.pages());
        if self.now(Faults::ALLOCATES) {
            self.alloc();
        }
        if self.now(Faults::FREES) {
            self.free(to);
        }
        Ok(())
    }

    fn put_back(&self, pfn: Pfn, order: Order) {
        assert!(self.isolated.borrow_mut().remove(&pfn), "{pfn} is not isolated");
        let at = self.places.borrow()[&pfn];
        assert_eq!(self.model.borrow().live[at].order, order);
    }
}

impl<'w> Model<'w> {
    /// Runs a compaction, and checks its report against the moves and the counters.
    pub(super) fn compact(
        &mut self,
        faults: u8,
        compact: impl FnOnce(&World<'_>, &Mover<'_, '_>) -> CompactReport,
    ) -> CompactReport {
        let world = self.world;
        let counters = || {
            let mut sum = [0; 5];
            for stats in (0..world.zones().len()).map(|zone| world.at(zone).stats()) {
                let of_zone = [
                    stats.compact_migrate_scanned,
                    stats.compact_free_scanned,
                    stats.compact_isolated,
                    stats.pgmigrate_success,
                    stats.pgmigrate_fail,
                ];
                sum.iter_mut().zip(of_zone).for_each(|(sum, n)| *sum += n);
            }
            sum
        };
        let before = counters();
        let mover = Mover::new(self, Faults(faults));
        let report = compact(world, &mover);
        assert_eq!(report.moved, mover.end());
        assert_eq!(report.isolated, report.moved + report.failed);
        let isolated = report.isolated + report.free_isolated;
        let reported = [report.migrate_scanned, report.free_scanned, isolated, report.moved, report.failed];
        counters().iter().zip(before).zip(reported).for_each(|((now, old), n)| assert_eq!(now - old, n, "{report:?}"));
        for zone in 0..world.zones().len() {
            world.at(zone).audit().unwrap_or_else(|error| panic!("{error}"));
        }
        report
    }

    /// Records that a block has moved.
    fn relocate(&mut self, at: usize, to: Pfn) {
        let Block { pfn: from, order } = self.live[at];
        let [old, new] =
            [from, to].map(|pfn| self.world.zone_of(pfn).map(|zone| zone.number()).expect("a page of ours"));
        assert!(self.world.at(new).stats().kind <= self.world.at(old).stats().kind, "{from} to {to}");
        assert!(to.is_aligned(order), "{from} to {to}, order {order}");
        self.held[from.0 as usize..][..order.pages() as usize].fill(false);
        self.in_use[old] -= order.pages();
        self.hold(Block { pfn: to, order });
        self.live[at].pfn = to;
    }

    /// A range of `pages` pages that starts at an online page.
    pub(super) fn pick_range(&self, from: u16, pages: u16) -> Option<PageRange> {
        let all: u64 = self.online.iter().map(|range| range.pages).sum();
        let mut nth = (u64::from(from) * 97).checked_rem(all)?;
        let range = self.online.iter().find(|range| {
            let here = nth < range.pages;
            nth -= if here { 0 } else { range.pages };
            here
        })?;
        Some(PageRange::new(range.start.offset(nth), 1 + u64::from(pages) % 1500))
    }

    /// Whether a pageblock has online pages outside a range.
    fn is_online_beside(&self, start: u64, range: PageRange) -> bool {
        let beside = [(start, range.start.0), (range.end().0, start + PAGEBLOCK)];
        let in_block = |&(from, to): &(u64, u64)| (from.max(start), to.min(start + PAGEBLOCK));
        beside
            .iter()
            .map(in_block)
            .any(|(from, to)| self.online.iter().any(|online| online.start.0.max(from) < online.end().0.min(to)))
    }

    /// Allocates a range, or takes it offline (`leaves`). Returns whether it succeeded. Its pageblocks keep their
    /// types, and a reported obstacle must exist.
    pub(super) fn empty_range(
        &mut self,
        range: PageRange,
        leaves: bool,
        faults: u8,
        empty: impl FnOnce(&World<'_>, &Mover<'_, '_>) -> Result<(), RangeError>,
    ) -> bool {
        let world = self.world;
        // Other pageblocks may be claimed for the moved blocks.
        let pageblocks: Vec<_> =
            (range.start.align_down(Order::PAGEBLOCK).0..range.end().0).step_by(PAGEBLOCK as usize).collect();
        let types =
            || -> Vec<_> { pageblocks.iter().map(|&pfn| world.pageblock_type(Pfn(pfn.max(range.start.0)))).collect() };
        // The other half of the ranges meet bitmaps.
        let settled = range.pages.is_multiple_of(2);
        if settled {
            self.settle(range);
        }
        let before = types();
        let stats = world.zone_of(range.start).map(|zone| zone.number()).map(|zone| world.at(zone).stats());
        let may_merge = stats.is_some_and(|stats| stats.deferred > 0 || !settled && stats.bitmap > 0);
        let mover = Mover::new(self, Faults(faults));
        let result = empty(world, &mover);
        mover.end();
        let expected: Vec<_> = pageblocks
            .iter()
            .zip(before)
            .map(|(&start, migratetype)| match migratetype {
                // An empty HIGHATOMIC pageblock is no longer reserved.
                Some(MigrateType::HighAtomic) if leaves && result.is_ok() && !self.is_online_beside(start, range) => {
                    Some(MigrateType::Movable)
                }
                other => other,
            })
            .collect();
        // A deferred free that completes meanwhile, or a bitmap that is emptied, may give a pageblock its neighbour's type.
        if !may_merge {
            assert_eq!(types(), expected, "{result:?}");
        }
        if let Err(RangeError { pfn, obstacle }) = result {
            let is_online = |pfn: Pfn| self.online.iter().any(|range| pfn >= range.start && pfn < range.end());
            let zone = world.zone_of(range.start).map(|zone| zone.number());
            match obstacle {
                Obstacle::Offline => assert!(!is_online(pfn), "{pfn}"),
                Obstacle::NotOurs => assert_ne!(world.zone_of(Pfn(range.end().0 - 1)).map(|zone| zone.number()), zone),
                Obstacle::Isolated => assert_eq!(world.pageblock_type(pfn), Some(MigrateType::Isolate)),
                Obstacle::InUse(_) | Obstacle::Move(..) | Obstacle::NoPlace(_) => {
                    let block = self.live.iter().find(|block| block.pfn == pfn);
                    let block = block.unwrap_or_else(|| panic!("{pfn} is not in use: {obstacle:?}"));
                    assert!(pfn < range.end() && pfn.offset(block.order.pages()) > range.start);
                    assert!(faults > 7 || matches!(obstacle, Obstacle::NoPlace(_)), "no fault, but {obstacle:?}");
                }
                // No other thread runs.
                other => panic!("{range:?}: {other:?}"),
            }
        }
        for zone in 0..world.zones().len() {
            // The model learns of an offlined range only after this.
            world.at(zone).audit().unwrap_or_else(|error| panic!("{error}"));
        }
        result.is_ok()
    }

    /// Records the blocks of allocated pages: the largest aligned ones.
    pub(super) fn take_range(&mut self, range: PageRange) {
        let mut at = range.start;
        while at < range.end() {
            let fits = |of: &Order| at.is_aligned(*of) && at.offset(of.pages()) <= range.end();
            let block = Block { pfn: at, order: Order::all().rev().find(fits).expect("order 0 fits") };
            self.hold(block);
            self.live.push(block);
            at = at.offset(block.order.pages());
        }
    }

    pub(super) fn free_range(&mut self, nth: u16, blocks: u8) {
        let Some(first) = usize::from(nth).checked_rem(self.live.len()).map(|at| self.live[at]) else { return };
        let orders: HashMap<_, _> = self.live.iter().map(|block| (block.pfn, block.order)).collect();
        let zone = self.world.zone_of(first.pfn).map(|zone| zone.number());
        let mut end = first.pfn;
        for _ in 0..=blocks {
            match orders.get(&end) {
                Some(order) if self.world.zone_of(end).map(|zone| zone.number()) == zone => {
                    end = end.offset(order.pages())
                }
                _ => break,
            }
        }
        self.world
            .free_with(Free::whole_blocks(PageRange::new(first.pfn, end.0 - first.pfn.0)))
            .expect("all are in use");
        while let Some(at) = self.live.iter().position(|block| block.pfn >= first.pfn && block.pfn < end) {
            self.drop_block(at);
        }
    }

    /// Records that a range is offline.
    pub(super) fn retire(&mut self, range: PageRange) {
        assert!(!self.held[range.start.0 as usize..range.end().0 as usize].contains(&true), "{range:?} is in use");
        let parts = |old: &PageRange| {
            let before = (old.start.0, old.end().0.min(range.start.0));
            let after = (old.start.0.max(range.end().0), old.end().0);
            [before, after].into_iter().filter(|(start, end)| start < end).map(|(start, end)| pages(start, end))
        };
        self.online = self.online.iter().flat_map(parts).collect();
        self.holes.push(range);
    }
}
