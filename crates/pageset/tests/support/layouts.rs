//! Small zones with known contents, for compaction tests by hand.
#![allow(dead_code, unreachable_pub, reason = "each program that includes it uses a part")]

use pageset::policy::presets::LINUX_6_18;
use pageset::policy::{Bounds, Watermarks};
use pageset::{CompactReport, Order, Pfn};

use crate::owner::StampingOwner;
use crate::support::{Known, TestMachine, World, movable, one_zone};

pub const BASE: u64 = 1 << 20;
pub const PAGEBLOCK: u64 = Order::PAGEBLOCK.pages();

pub fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

pub fn page(n: u64) -> Pfn {
    Pfn(BASE + n)
}

pub const NO_MARKS: Watermarks = Watermarks { min: 0, low: 0, high: 0 };

/// A zone of `pageblocks` pageblocks without marks, whose pagesets keep nothing. All pages are allocated as movable
/// single pages, except those that `free` selects.
pub fn laid_out<R>(pageblocks: u64, free: impl Fn(u64) -> bool, test: impl FnOnce(&World<'_>) -> R) -> R {
    one_zone(LINUX_6_18, pageblocks * PAGEBLOCK, 1, |world| {
        world.at(0).set_watermarks(NO_MARKS, [0; 4]);
        world.at(0).set_bounds(Bounds::DISABLED).expect("room");
        for _ in 0..pageblocks * PAGEBLOCK {
            world.alloc(&movable(0)).expect("a page");
        }
        for n in (0..pageblocks * PAGEBLOCK).filter(|&n| free(n)) {
            world.free(page(n), Order::ZERO).expect("allocated");
        }
        let result = test(world);
        world.at(0).audit().expect("the audit passes");
        result
    })
}

/// Eight pageblocks. In the first every other page is free; in the last four the upper halves are free. The 1280 free
/// pages suffice for compaction for order 9: twice the block above the low mark.
pub fn every_other(n: u64) -> bool {
    match n / PAGEBLOCK {
        0 => n.is_multiple_of(2),
        4.. => n % PAGEBLOCK >= PAGEBLOCK / 2,
        _ => false,
    }
}

pub fn owner_of<'w, 'a>(world: &'w World<'a>, pages: impl Iterator<Item = u64>) -> StampingOwner<'w, 'a, TestMachine> {
    let owner = StampingOwner::new(world);
    for n in pages {
        owner.adopt(page(n), Order::ZERO);
    }
    owner
}

pub fn holes() -> impl Iterator<Item = u64> {
    (1..PAGEBLOCK).step_by(2)
}

pub fn cost(report: &CompactReport) -> [u64; 6] {
    [report.migrate_scanned, report.free_scanned, report.isolated, report.free_isolated, report.moved, report.failed]
}
