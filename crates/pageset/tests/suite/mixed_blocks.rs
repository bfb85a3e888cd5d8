//! Blocks of the largest order cover two pageblocks, whose types may become different. CMA, HIGHATOMIC and ISOLATE
//! pageblocks never share a free block with others. Specification 1.5, 1.6.

use crate::support::{Known, World, build, movable};
use pageset::policy::PRESETS;
use pageset::{Config, MigrateType, NodeId, Order, PageRange, Pfn, ZoneKind, ZoneSpec};

const BASE: Pfn = Pfn(1 << 20);
const NOT_ORDINARY: [MigrateType; 3] = [MigrateType::HighAtomic, MigrateType::Cma, MigrateType::Isolate];

/// Each pageblock's pages are on the lists of its type, and merge again when the types become equal.
fn check_apart(world: &World<'_>, name: &str, other: MigrateType) {
    world.at(0).audit().unwrap_or_else(|error| panic!("{name}, {other:?}: {error}"));
    for (migratetype, orders) in [(other, [1, 0]), (MigrateType::Movable, [1, 0])] {
        let found = [Order::PAGEBLOCK, Order::MAX].map(|order| world.at(0).free_blocks(order, migratetype));
        assert_eq!(found, orders, "{name}: pageblocks and largest blocks of {migratetype:?} beside {other:?}");
    }
    world.set_pageblock_type(BASE, MigrateType::Movable).expect("the page is in the zone");
    world.set_pageblock_type(BASE.offset(512), MigrateType::Movable).expect("the page is in the zone");
    assert_eq!(world.at(0).free_blocks(Order::MAX, MigrateType::Movable), 1, "{name}: after {other:?}");
    world.at(0).audit().unwrap_or_else(|error| panic!("{name}, {other:?}: {error}"));
}

#[test]
fn a_freed_block_is_put_on_the_lists_of_its_pageblocks() {
    for preset in PRESETS {
        for other in NOT_ORDINARY {
            for half in [0, 512] {
                crate::support::one_zone(preset.tuning, 1024, 1, |world| {
                    let request = pageset::Request { watermarks: false, ..movable(10) };
                    let block = world.alloc(&request).expect("there is one");
                    world.set_pageblock_type(BASE.offset(half), other).expect("the page is in the zone");
                    world.free(block, Order::MAX).expect("it is in use");
                    check_apart(world, preset.name, other);
                });
            }
        }
    }
}

#[test]
fn memory_comes_online_on_the_lists_of_its_pageblocks() {
    for preset in PRESETS {
        for other in NOT_ORDINARY {
            let range = PageRange::new(BASE, 1024);
            let spec = ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[] };
            build(&Config { tuning: preset.tuning, ..Config::new(&[spec], &[NodeId(0)]) }, |world| {
                world.set_pageblock_type(BASE, other).expect("in the zone's span");
                world.online(range).expect("the range is still a hole");
                check_apart(world, preset.name, other);
            });
        }
    }
}
