//! The number of blocks per refill.

use crate::support::{Known, World, movable, one_zone};
use pageset::policy::presets::{LINUX_6_18, PAGESET};
use pageset::policy::{Bounds, Tuning};
use pageset::{CpuId, MigrateType, Order};

/// Blocks of order 3 in a row: in the kernels every seven blocks take the zone's lock; with `double_blocks`, 7 + 15 +
/// 31 + 63 blocks are four refills.
#[test]
fn refills_of_blocks_double() {
    let refills = |world: &World<'_>| {
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 16_000, high_max: 16_000 }).expect("room");
        let blocks: Vec<_> = (0..112).map(|_| world.alloc(&movable(3)).expect("memory")).collect();
        let refills = world.pageset(0, CpuId(0)).stats().refills;
        blocks.into_iter().for_each(|pfn| world.free(pfn, Order::COSTLY).expect("in use"));
        refills
    };
    let both = [false, true].map(|double_blocks| Tuning { double_blocks, ..LINUX_6_18 });
    assert_eq!(both.map(|tuning| one_zone(tuning, 1 << 17, 1, refills)), [16, 4]);
}

/// Half of 1 GiB in huge pages, twice. In the kernels a refill takes two, and a drain up to four. With so little memory `high` limits
/// the batch: by the default to an eighth of it. Counted are the holds of the zone's locks,
/// and the refills and drains.
#[test]
fn huge_pages_move_by_the_batch() {
    let moves = |tuning| {
        one_zone(tuning, 1 << 18, 1, |world| {
            let mut before = (0, 0, 0);
            for round in 0..2 {
                let blocks: Vec<_> = (0..256).map(|_| world.alloc(&movable(9)).expect("memory")).collect();
                blocks.into_iter().for_each(|pfn| world.free(pfn, Order::PAGEBLOCK).expect("in use"));
                let (zone, cpu) = (world.at(0).stats(), world.pageset(0, CpuId(0)).stats());
                let now = (zone.lock_refill + zone.lock_drain, cpu.refills, cpu.drains);
                if round == 1 {
                    return (now.0 - before.0, now.1 - before.1, now.2 - before.2);
                }
                before = now;
            }
            unreachable!("two rounds")
        })
    };
    let one_by_one = moves(Tuning { batch_blocks: 0, ..PAGESET });
    let quarters = moves(Tuning { high_share: 0, ..PAGESET });
    assert_eq!((one_by_one, moves(PAGESET), quarters), ((176, 120, 56), (153, 96, 57), (78, 49, 29)));
}

/// A pair of huge pages that a drain moves, and a block of the largest order, enter the free lists whole.
#[test]
fn pairs_of_huge_pages_are_freed_as_one_block() {
    for order in [9, 10] {
        one_zone(PAGESET, 1 << 13, 1, |world| {
            let blocks: Vec<_> =
                (1..(1 << 13) >> order).map(|_| world.alloc(&movable(order)).expect("memory")).collect();
            blocks.into_iter().for_each(|pfn| world.free(pfn, Order::new(order).expect("an order")).expect("in use"));
            world.drain();
            assert_eq!(world.at(0).free_blocks(Order::MAX, MigrateType::Movable), 8, "order {order}");
        });
    }
}
