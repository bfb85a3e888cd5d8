//! Calls that must fail and change nothing.

use crate::support::Known;
use pageset::admin::stats::ZoneStats;
use pageset::policy::{Bounds, PcpState};
use pageset::{
    AllocError, Block, CpuId, Free, HotplugError, Immovable, MapError, MigrateType, NodeId, Obstacle, Order, PageRange,
    Pfn, RangeError, Request, WrongFree,
};

use super::Model;
use crate::ops::{CAPACITY, Wrong, at, order, range};

/// The state of a world that an error must not change.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Picture {
    zones: Vec<ZoneStats>,
    pagesets: Vec<(PcpState, [u32; pageset::policy::lists::LISTS])>,
    free: Vec<u32>,
}

impl Model<'_> {
    pub(super) fn wrong(&self, wrong: Wrong, nth: usize) {
        let world = self.world;
        let live = nth.checked_rem(self.live.len()).map(|at| self.live[at]);
        let refused = |pfn: Pfn, order: Order| world.free(pfn, order).expect_err("a wrong free").reason;
        match wrong {
            Wrong::NotOurs => {
                let outside = [u64::MAX, 1 << 40, at(16_384), 0][nth % 4];
                assert_eq!(refused(Pfn(outside), order(nth as u8)), WrongFree::NotOurs);
            }
            Wrong::Hole => {
                if let Some(hole) = nth.checked_rem(self.holes.len()).map(|at| self.holes[at]) {
                    let reason = refused(hole.start.offset(nth as u64 % hole.pages), Order::ZERO);
                    assert_eq!(reason, WrongFree::NotAllocated(pageset::PageState::Inside));
                }
            }
            Wrong::Misaligned => {
                if let Some(block) = live {
                    let order = order(block.pfn.0.trailing_zeros() as u8 + 1);
                    if order > Order::ZERO && !block.pfn.is_aligned(order) {
                        assert_eq!(refused(block.pfn, order), WrongFree::Misaligned);
                    }
                }
            }
            Wrong::Twice => {
                if let Some(block) = nth.checked_rem(self.freed.len()).map(|at| self.freed[at])
                    && !self.held[block.pfn.0 as usize]
                {
                    let reason = refused(block.pfn, block.order);
                    assert!(matches!(reason, WrongFree::NotAllocated(_) | WrongFree::Inside { .. }), "{reason:?}");
                }
            }
            Wrong::AnotherOrder => {
                if let Some(block) = live {
                    for order in Order::all().filter(|&o| o != block.order && block.pfn.is_aligned(o)) {
                        assert_eq!(refused(block.pfn, order), WrongFree::WrongOrder(block.order));
                    }
                }
            }
            Wrong::Tail => {
                if let Some(Block { pfn, order: of }) = live.filter(|block| block.order > Order::ZERO) {
                    let reason = refused(pfn.offset(1 + nth as u64 % (of.pages() - 1)), Order::ZERO);
                    let state = pageset::PageState::Allocated;
                    assert_eq!(reason, WrongFree::Inside { head: pfn, order: of, state });
                }
            }
            Wrong::BulkTwice => {
                let mut blocks: Vec<_> = self.live.iter().copied().take(1 + nth % 100).collect();
                if let Some(&first) = blocks.first() {
                    blocks.push(first);
                    world.free_bulk(&blocks).expect_err("the first block comes twice");
                }
            }
            Wrong::SplitUp => {
                if let Some(block) = live.filter(|block| block.order < Order::MAX) {
                    world.split(block.pfn, block.order, order(block.order.get() + 1)).expect_err("larger");
                }
                world.split(Pfn(u64::MAX), order(1), Order::ZERO).expect_err("the page is in no zone");
            }
            Wrong::NoPart => {
                if let Some(Block { pfn: head, order }) = live {
                    let inside = nth as u64 % order.pages();
                    let wrong = |pages| {
                        world.free_range(PageRange::new(head.offset(inside), pages)).expect_err("a wrong range")
                    };
                    assert_eq!(wrong(0).reason, WrongFree::NoPages);
                    assert_eq!(wrong(u64::MAX).reason, WrongFree::NotOurs);
                }
                if let Some(block) = nth.checked_rem(self.freed.len()).map(|at| self.freed[at])
                    && !self.held[block.pfn.0 as usize]
                {
                    let reason = world.free_range(PageRange::new(block.pfn, 1)).expect_err("it is not in use").reason;
                    assert!(matches!(reason, WrongFree::NotAllocated(_) | WrongFree::Inside { .. }), "{reason:?}");
                }
            }
            Wrong::AskFor(migratetype) => {
                if !migratetype.is_ordinary() {
                    let request = Request::new(order(nth as u8), migratetype);
                    assert_eq!(world.alloc(&request), Err(AllocError::Migratetype(migratetype)));
                }
            }
            Wrong::Node => {
                let node = NodeId(3 + nth as u32);
                let request = Request { node: Some(node), ..Request::new(Order::ZERO, MigrateType::Movable) };
                assert_eq!(world.alloc(&request), Err(AllocError::Node(node)));
            }
            Wrong::Fraction => {
                let fraction = 1 + nth as u32 % 7;
                assert_eq!(world.set_high_fraction(fraction), Err(MapError::Fraction(fraction)));
            }
            Wrong::Bounds => {
                let room = CAPACITY * 10;
                for (batch, high_min, high_max) in [(0, 1, 2), (1, 3, 2), (1, room, room), (room, 1, 1)] {
                    world.at(0).set_bounds(Bounds { batch, high_min, high_max }).expect_err("cannot be had");
                }
            }
            Wrong::OnlineTwice => {
                let Some(at) = nth.checked_rem(self.online.len()) else { return };
                let range = self.online[at];
                let within = range.start.offset(nth as u64 % range.pages);
                let error = world.online(PageRange::new(within, 1)).expect_err("online already");
                assert!(matches!(error, MapError::Overlap { .. }), "{error}");
            }
            Wrong::OnlineOutside => {
                for range in [range(1 << 40, (1 << 40) + 1), PageRange::new(Pfn(5000), u64::MAX)] {
                    world.online(range).expect_err("in no zone");
                }
                assert_eq!(world.online(PageRange::new(Pfn(5000), 0)), Err(MapError::Empty { start: Pfn(5000) }));
            }
            Wrong::Cpu => {
                let (at, possible) = (nth % self.gone.len(), self.gone.len());
                let cpu = CpuId(at as u32);
                if self.gone[at] {
                    assert_eq!(world.cpu_offline(cpu), Err(HotplugError::Offline(cpu)));
                } else {
                    assert_eq!(world.cpu_online(cpu), Err(HotplugError::Online(cpu)));
                    if !self.can_go(at) {
                        assert_eq!(world.cpu_offline(cpu), Err(HotplugError::LastCpu(cpu)));
                    }
                }
                let cpu = CpuId((possible + nth) as u32);
                assert_eq!(world.cpu_offline(cpu), Err(HotplugError::NoSuchCpu { cpu, possible }));
                assert_eq!(world.cpu_online(cpu), Err(HotplugError::NoSuchCpu { cpu, possible }));
            }
            Wrong::Range => {
                let start = Pfn(5000);
                for (asked, migratetype, obstacle) in [
                    (PageRange::new(start, 0), MigrateType::Movable, Obstacle::Empty),
                    (PageRange::new(start, u64::MAX), MigrateType::Movable, Obstacle::NotOurs),
                    (range(1 << 40, (1 << 40) + 1), MigrateType::Movable, Obstacle::NotOurs),
                    (range(at(5000), at(5000) + 1), MigrateType::Cma, Obstacle::Migratetype(MigrateType::Cma)),
                ] {
                    let error = world.alloc_range(asked, migratetype, &Immovable).expect_err("wrong");
                    assert_eq!(error, RangeError { pfn: asked.start, obstacle });
                }
                world.free_with(Free::whole_blocks(PageRange::new(start, 0))).expect_err("no pages");
                if let Some(Block { pfn, order }) = live {
                    // The range ends after the first page that is not in use.
                    let free = (pfn.0..).find(|&page| !self.held[page as usize]).expect("not all is in use");
                    world
                        .free_with(Free::whole_blocks(PageRange::new(pfn, free + 1 - pfn.0)))
                        .expect_err("not all in use");
                    if order > Order::ZERO {
                        world
                            .free_with(Free::whole_blocks(PageRange::new(pfn, order.pages() - 1)))
                            .expect_err("the block reaches beyond the range");
                        world
                            .free_with(Free::whole_blocks(PageRange::new(pfn.offset(1), order.pages() - 1)))
                            .expect_err("inside");
                    }
                }
            }
            Wrong::Enable => {
                let zone = nth % self.disabled.len();
                if self.disabled[zone] == 0 {
                    assert_eq!(world.at(zone).enable_pagesets(), Err(HotplugError::PagesetsEnabled { zone }));
                }
            }
        }
    }

    pub(super) fn picture(&self) -> Picture {
        let zones = 0..self.world.zones().len();
        let cpus = 0..self.map.cpus().len() as u32;
        Picture {
            // The check whether memory is online takes the lock, which counts.
            zones: zones.clone().map(|z| ZoneStats { lock_map: 0, ..self.world.at(z).stats() }).collect(),
            pagesets: zones
                .clone()
                .flat_map(|zone| cpus.clone().map(move |cpu| (zone, CpuId(cpu))))
                .map(|(zone, cpu)| (self.world.pageset(zone, cpu).state(), self.world.pageset(zone, cpu).lists()))
                .collect(),
            free: zones
                .flat_map(|zone| {
                    Order::all().flat_map(move |order| MigrateType::ALL.map(|migratetype| (zone, order, migratetype)))
                })
                .map(|(zone, order, migratetype)| self.world.at(zone).free_blocks(order, migratetype))
                .collect(),
        }
    }
}
