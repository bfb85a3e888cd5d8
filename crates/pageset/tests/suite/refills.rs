//! The number of blocks per refill.

use crate::support::{World, movable, one_zone};
use pageset::policy::presets::LINUX_6_18;
use pageset::policy::{Bounds, Tuning};
use pageset::{CpuId, Order};

/// Blocks of order 3 in a row: in the kernels every seven blocks take the zone's lock; with `double_blocks`, 7 + 15 +
/// 31 + 63 blocks are four refills.
#[test]
fn refills_of_blocks_double() {
    let refills = |world: &World<'_>| {
        world.set_bounds(0, Bounds { batch: 63, high_min: 16_000, high_max: 16_000 }).expect("room");
        let blocks: Vec<_> = (0..112).map(|_| world.alloc(&movable(3)).expect("memory")).collect();
        let refills = world.pageset_stats(0, CpuId(0)).refills;
        blocks.into_iter().for_each(|pfn| world.free(pfn, Order::COSTLY).expect("in use"));
        refills
    };
    let both = [false, true].map(|double_blocks| Tuning { double_blocks, ..LINUX_6_18 });
    assert_eq!(both.map(|tuning| one_zone(tuning, 1 << 17, 1, refills)), [16, 4]);
}
