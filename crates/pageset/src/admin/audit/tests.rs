//! Planted inconsistencies, which the audit must find: on free lists, in pagesets and depots.

extern crate std;

use super::AuditError;
use crate::alloc::owned::OwnedMetadata;
use crate::frame::{End, PageState, Tag};
use crate::pcp::CachedZone;
use crate::policy::lists::order_of;
use crate::store::depot::words_of;
use crate::sync::{self, LockedWord};
use crate::{
    Allocator, Config, CpuId, Free, FreeTo, Machine, MigrateType, NodeId, Order, PageRange, Pfn, RegionRule, Request,
    SpinLock, Tuning, ZoneKind, ZoneSpec,
};
use core::sync::atomic::AtomicU32;
use std::string::{String, ToString};
use std::vec::Vec;

struct OneCpu;

impl Machine for OneCpu {
    type Lock = SpinLock;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

/// The list of single movable pages.
const LIST: usize = 1;

/// Two regions, with free blocks of order 1 on a list, single pages in the pageset of CPU 0, and some in the first region's depot.
fn world(test: impl FnOnce(&Allocator<'_, OneCpu>, &CachedZone<'_, OneCpu>)) {
    let ranges = [PageRange::new(Pfn(0), 1 << 14)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let tuning = Tuning { backing: Tuning::default().backing.with_regions(RegionRule::Fixed(2)), ..Tuning::default() };
    let config = Config { tuning, ..Config::new(&zones, &[NodeId(0); 2]) };
    let metadata = OwnedMetadata::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let world = Allocator::new(OneCpu, &config, metadata.lend(&mut zones)).expect("the map is valid");
    let zone = &world.zones[0];
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    let pages: Vec<_> = (0..400).map(|_| world.alloc(&request).expect("memory")).collect();
    for &page in &pages[..40] {
        world.free(page, Order::ZERO).expect("in use");
    }
    // Pairs whose neighbours are in use.
    for page in pages[100..].iter().filter(|page| page.0 % 4 < 2) {
        world.free_with(Free::block(*page, Order::ZERO).to(FreeTo::Buddy)).expect("in use");
    }
    let pcp = zone.lock_pageset(world.env(), CpuId(0));
    let blocks: Vec<_> = (0..5).map(|_| AtomicU32::new(pcp.pop(LIST).expect("cached"))).collect();
    pcp.count.set(pcp.count.get() - 5);
    sync::add(&pcp.drain_pages, 5);
    zone.shared.regions[0].depot.put(words_of(&zone.shared, 0), LIST, &blocks, &|| ());
    drop(pcp);
    assert_eq!(order_of(LIST), Order::ZERO);
    test(&world, zone);
}

fn found(world: &Allocator<'_, OneCpu>) -> String {
    match world.zone(0).expect("a zone").audit() {
        Err(AuditError::Inconsistent(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The slots of the free blocks of order 1, and their list.
fn pairs(zone: &CachedZone<'_, OneCpu>) -> Vec<u32> {
    let (list, links) =
        (zone.shared.regions[0].list(Order::new(1).expect("one"), MigrateType::Movable), zone.frames().links);
    let slots: Vec<_> = core::iter::successors(list.first(), |&slot| list.after(links, slot)).collect();
    assert!(slots.len() > 3, "{slots:?}");
    slots
}

#[test]
fn faults_are_found() {
    type Plant = fn(&Allocator<'_, OneCpu>, &CachedZone<'_, OneCpu>);
    let rows: [(&str, Plant); 16] = [
        ("the link of a block to the one before it", |_, zone| {
            let slots = pairs(zone);
            zone.frames().links.prev(slots[2]).set(slots[0]);
        }),
        // A ring: the lists' lengths end the walk.
        ("the link of a block to the one before it", |_, zone| {
            let slots = pairs(zone);
            zone.frames().links.next(slots[2]).set(slots[0]);
        }),
        ("the length of a free list", |_, zone| {
            let slots = pairs(zone);
            zone.frames().links.next(slots[2]).set(u32::MAX);
        }),
        ("a free list or pageset has a page outside the zone", |_, zone| {
            let slots = pairs(zone);
            zone.frames().links.next(slots[1]).set(u32::MAX - 1);
        }),
        // A free block that is on no list, with all counters in agreement.
        ("pages on free lists against pages tagged free", |_, zone| {
            let list = zone.shared.regions[0].list(Order::new(1).expect("one"), MigrateType::Movable);
            list.remove(zone.frames().links, pairs(zone)[1], |_| ());
            sync::sub(&zone.shared.regions[0].free_pages, 2);
        }),
        // A block that is on the list of another type.
        ("the list of a block", |_, zone| {
            let region = &zone.shared.regions[0];
            let slot = pairs(zone)[1];
            let order = Order::new(1).expect("one");
            region.list(order, MigrateType::Movable).remove(zone.frames().links, slot, |_| ());
            let other = region.list(order, MigrateType::Unmovable);
            other.push(zone.frames().links, slot, End::Head, |_| ());
        }),
        ("the tag of a listed block", |_, zone| {
            let page = pairs(zone)[1];
            zone.frames()
                .set_tag(page, Tag::new(PageState::Allocated, Order::new(1).expect("one"), MigrateType::Movable));
        }),
        // A block twice in a pageset, and another not at all: the counters agree.
        ("how often a cached block is in a pageset or depot", |world, zone| {
            let pcp = zone.lock_pageset(world.env(), CpuId(0));
            let (_, second) = (pcp.pop(LIST).expect("cached"), pcp.pop(LIST).expect("cached"));
            assert!(pcp.push(LIST, second) && pcp.push(LIST, second));
        }),
        // A block in two pagesets instead of another one.
        ("how often a cached block is in a pageset or depot", |world, zone| {
            let pcp = zone.lock_pageset(world.env(), CpuId(0));
            let (first, _) = (pcp.pop(LIST).expect("cached"), pcp.pop(LIST).expect("cached"));
            assert!(pcp.push(LIST, first));
            pcp.count.set(pcp.count.get() - 1);
            drop(pcp);
            let pcp = zone.lock_pageset(world.env(), CpuId(1));
            assert!(pcp.push(LIST, first));
            pcp.count.set(pcp.count.get() + 1);
        }),
        // A block in the depot that is also in a pageset.
        ("how often a cached block is in a pageset or depot", |_, zone| {
            let depot = zone.shared.regions[0].depot.batches(words_of(&zone.shared, 0), LIST).next().expect("a batch");
            depot[1].set(depot[2].get());
        }),
        // A batch of a depot that lost its last page, which the depot's own count still has.
        ("the pages of a depot", |_, zone| zone.shared.regions[0].depot.lose_block(words_of(&zone.shared, 0), LIST)),
        ("how often a cached block is in a pageset or depot", |world, zone| {
            let pcp = zone.lock_pageset(world.env(), CpuId(0));
            pcp.pop(LIST).expect("cached");
            pcp.count.set(pcp.count.get() - 1);
        }),
        // The second page of a pair, which is in no block of its own.
        ("a page of a block is in a bitmap", |_, zone| {
            zone.shared.bitmaps.put_back(pairs(zone)[1] + 1, Order::ZERO);
        }),
        ("the pages in bitmaps", |_, zone| zone.shared.regions[0].bitmaps.pages.add(1)),
        ("pages whose free is deferred", |_, zone| zone.shared.plant_deferred_page()),
        ("the count of a pageset", |world, zone| {
            zone.lock_pageset(world.env(), CpuId(0)).pop(LIST).expect("cached");
        }),
    ];
    for (number, (what, plant)) in rows.into_iter().enumerate() {
        world(|world, zone| {
            world.zone(0).expect("a zone").audit().expect("nothing is planted yet");
            plant(world, zone);
            let text = found(world);
            assert!(text.contains(what), "row {number}: {text}");
        });
    }
}

/// The page that a fault concerns is named, if it was lost from a pageset, and if it was lost from a depot.
#[test]
fn a_lost_block_is_named() {
    type Lose = fn(&Allocator<'_, OneCpu>, &CachedZone<'_, OneCpu>) -> u32;
    let from_pageset: Lose = |world, zone| {
        let pcp = zone.lock_pageset(world.env(), CpuId(0));
        pcp.count.set(pcp.count.get() - 1);
        pcp.pop(LIST).expect("cached")
    };
    let from_depot: Lose =
        |_, zone| zone.shared.regions[0].depot.take(words_of(&zone.shared, 0), LIST, 1, &|| ())[0].get();
    for lose in [from_pageset, from_depot] {
        world(|world, zone| {
            let lost = lose(world, zone);
            let expected = std::format!(
                "zone 0: how often a cached block is in a pageset or depot: expected 1, found 0, at page {lost:#x}"
            );
            assert_eq!(found(world), expected);
        });
    }
}
