//! Whole pageblocks in pagesets: claims, splits, merges, and owners.

use std::cell::Cell;

use crate::support::{Behaving, Behaviour, Known, World, build, movable};
use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::presets::{PCP_BUDDY, PCP_BUDDY_LIST, PCP_BUDDY_TRY, PCP_CLAIM, PCP_MERGE};
use pageset::policy::{ListRule, TuningError};
use pageset::{
    Allocator, Config, CpuId, Free, FreeTo, MigrateType, NodeId, Order, PageRange, Pfn, RawLock, Request, SpinLock,
    Tuning, ZoneKind, ZoneSpec,
};

const BASE: u64 = 1 << 20;
const PAGES: u64 = 1 << 16;
const PAGEBLOCK: usize = Order::PAGEBLOCK.pages() as usize;
const OWNERS: [Tuning; 3] = [PCP_BUDDY, PCP_BUDDY_TRY, PCP_BUDDY_LIST];

fn two_cpus<R>(tuning: Tuning, test: impl FnOnce(&World<'_>) -> R) -> R {
    let ranges = [PageRange::new(Pfn(BASE), PAGES)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    build(&Config { tuning, ..Config::new(&zones, &[NodeId(0); 2]) }, |world| {
        let result = test(world);
        world.at(0).audit().expect("the audit passes");
        result
    })
}

fn alloc(world: &World<'_>, cpu: u32, pages: usize) -> Vec<Pfn> {
    world.machine().run_on(cpu);
    (0..pages).map(|_| world.alloc(&movable(0)).expect("memory")).collect()
}

fn free(world: &World<'_>, cpu: u32, pages: impl IntoIterator<Item = Pfn>) {
    world.machine().run_on(cpu);
    pages.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
}

fn block_of(pfn: Pfn) -> u64 {
    pfn.0 >> Order::PAGEBLOCK.get()
}

/// One hold of the zone lock brings a whole pageblock, which serves requests of all orders.
#[test]
fn a_refill_claims_a_pageblock() {
    two_cpus(PCP_CLAIM, |world| {
        let pages = alloc(world, 0, 100);
        assert!(pages.iter().all(|&pfn| block_of(pfn) == block_of(pages[0])));
        let larger = [3, 5, 7].map(|order| world.alloc(&movable(order)).expect("memory"));
        assert!(larger.iter().all(|&pfn| block_of(pfn) == block_of(pages[0])));
        let stats = world.at(0).stats();
        assert_eq!((stats.lock_refill, stats.claimed_blocks, stats.pagesets.refill_pages), (1, 1, PAGEBLOCK as u64));
        assert_eq!(stats.pagesets.count as usize + 100 + 8 + 32 + 128, PAGEBLOCK);
        alloc(world, 1, 1);
        assert_eq!(world.at(0).stats().claimed_blocks, 2, "each CPU has its own pageblock");
    });
}

/// What a drain gives to the zone are the largest blocks: whole pageblocks after frees in any order.
#[test]
fn a_drain_merges_first() {
    for tuning in [PCP_MERGE, PCP_CLAIM] {
        two_cpus(tuning, |world| {
            let mut pages = alloc(world, 0, 4 * PAGEBLOCK);
            // A fixed permutation: 2047 has no factor in common with the number of pages.
            let all = pages.len();
            pages = (0..all).map(|i| pages[i * 2047 % all]).collect();
            free(world, 0, pages);
            world.drain_all();
            let stats = world.at(0).stats();
            assert!(stats.pageset_merges > 500, "{} merges", stats.pageset_merges);
            assert_eq!(world.at(0).free_blocks(Order::MAX, MigrateType::Movable) as u64, PAGES >> Order::MAX.get());
        });
    }
}

/// A full pageset whose pages find no buddy has no room to turn a list around: it defers frees, and the drain completes them.
#[test]
fn a_drain_of_a_full_pageset_leaves_nothing_deferred() {
    // A batch whose largest drain takes the whole pageset in one hold of the zone lock, and smaller ones.
    for batch in [31, 127, 255] {
        let tuning = Tuning { batch: pageset::policy::BatchRule::Fixed(batch), ..PCP_MERGE };
        two_cpus(tuning, |world| {
            let pages = alloc(world, 0, 16_000);
            world.drain_all();
            let even: Vec<Pfn> = pages.iter().copied().filter(|pfn| pfn.0 % 2 == 0).collect();
            even.iter().for_each(|&pfn| {
                world.free_with(Free::block(pfn, Order::ZERO).to(FreeTo::PagesetUndrained)).expect("in use")
            });
            world.machine().run_on(0);
            world.drain_all();
            let stats = world.at(0).stats();
            assert_eq!((stats.pagesets.count, stats.deferred), (0, 0), "batch {batch}");
            free(world, 0, pages.into_iter().filter(|pfn| pfn.0 % 2 == 1));
        });
    }
}

/// Blocks of one pageblock that lie in two pagesets do not merge, and none is lost.
#[test]
fn a_pageset_merges_its_own_blocks_only() {
    two_cpus(PCP_MERGE, |world| {
        let pages = alloc(world, 0, 600);
        world.drain_all();
        let (even, odd): (Vec<_>, Vec<_>) = pages.into_iter().partition(|pfn| pfn.0 % 2 == 0);
        free(world, 0, even);
        free(world, 1, odd);
        let merges = world.at(0).stats().pageset_merges;
        world.drain_cpu(CpuId(0));
        assert_eq!(world.at(0).stats().pageset_merges, merges, "buddies of order 0 are in the other pageset");
    });
}

/// What another CPU frees comes back to the CPU that claimed the pageblock.
#[test]
fn frees_go_to_the_owner() {
    for tuning in OWNERS {
        two_cpus(tuning, |world| {
            let pages = alloc(world, 0, 100);
            free(world, 1, pages.iter().copied());
            assert_eq!(world.pageset(0, CpuId(1)).state().count, 0, "{:?}", tuning.backing.owners());
            assert_eq!(world.at(0).stats().direct_free_pages, 0);
            let again = alloc(world, 0, PAGEBLOCK);
            assert!(again.iter().all(|&pfn| block_of(pfn) == block_of(pages[0])), "{:?}", tuning.backing.owners());
            let stats = world.at(0).stats();
            assert_eq!((stats.claimed_blocks, stats.owner_pages), (1, 100), "{:?}", tuning.backing.owners());
        });
    }
    two_cpus(PCP_CLAIM, |world| {
        let pages = alloc(world, 0, 100);
        free(world, 1, pages);
        assert_eq!(world.pageset(0, CpuId(1)).state().count, 100, "without owners they stay");
    });
}

/// Many blocks freed by one call go to their owners, too.
#[test]
fn bulk_frees_go_to_the_owner() {
    for tuning in OWNERS {
        two_cpus(tuning, |world| {
            let pages = alloc(world, 0, 100);
            world.machine().run_on(1);
            world.free_bulk_of(Order::ZERO, &pages).expect("in use");
            assert_eq!(world.pageset(0, CpuId(1)).state().count, 0, "{:?}", tuning.backing.owners());
        });
    }
}

/// A CPU finds the free parts of its own pageblocks before it claims another one.
#[test]
fn own_parts_come_first() {
    for tuning in OWNERS {
        two_cpus(tuning, |world| {
            let pages = alloc(world, 0, PAGEBLOCK);
            free(world, 0, pages.iter().copied().filter(|pfn| pfn.0 % 4 == 1));
            world.drain_all();
            let stats = world.at(0).stats();
            assert_eq!((stats.pagesets.count, stats.claimed_blocks), (0, 1));
            let again = alloc(world, 0, 60);
            assert!(again.iter().all(|&pfn| block_of(pfn) == block_of(pages[0])), "{:?}", tuning.backing.owners());
            let stats = world.at(0).stats();
            assert_eq!((stats.claimed_blocks, stats.own_parts), (1, PAGEBLOCK as u64 / 4));
            // Another CPU's parts are not looked for.
            free(world, 0, again);
            world.drain_all();
            alloc(world, 1, 1);
            assert_eq!(world.at(0).stats().claimed_blocks, 2);
        });
    }
}

/// A pageblock that is free as a whole has no owner: its pages go to the CPU that frees them after another one claimed it.
#[test]
fn ownership_ends_with_a_free_pageblock() {
    for tuning in OWNERS {
        two_cpus(tuning, |world| {
            let pages = alloc(world, 0, 10);
            free(world, 0, pages.iter().copied());
            world.drain_all();
            let other = alloc(world, 1, 10);
            assert_eq!(block_of(other[0]), block_of(pages[0]), "the same pageblock");
            free(world, 0, other);
            assert_eq!(world.pageset(0, CpuId(0)).state().count, 0, "CPU 1 owns it");
        });
    }
}

/// An offline CPU gets no pages, and leaves none behind.
#[test]
fn an_owner_may_go_offline() {
    for tuning in OWNERS {
        two_cpus(tuning, |world| {
            let pages = alloc(world, 0, 100);
            world.drain_all();
            free(world, 1, pages[..50].iter().copied());
            world.cpu_offline(CpuId(0)).expect("it is online");
            assert_eq!(world.pageset(0, CpuId(0)).state().count, 0);
            assert_eq!(world.at(0).stats().nr_free_pages, PAGES - 50, "what waited for the owner is free");
            free(world, 1, pages[50..].iter().copied());
            assert_eq!(world.pageset(0, CpuId(1)).state().count, 50, "{:?}", tuning.backing.owners());
            world.drain_all();
            let free = world.at(0).stats().nr_free_pages;
            assert_eq!(free, PAGES, "{:?}", tuning.backing.owners());
        });
    }
}

/// Parts of own pageblocks that are too small for a request stay where they are, and a refill looks at a few pageblocks only.
#[test]
fn small_parts_do_not_serve_larger_requests() {
    for tuning in OWNERS {
        two_cpus(tuning, |world| {
            let pages = alloc(world, 0, 20 * PAGEBLOCK);
            free(world, 0, pages.iter().copied().filter(|pfn| pfn.0 % 2 == 0));
            world.drain_all();
            world.machine().run_on(0);
            for order in [9, 3] {
                world.alloc(&movable(order)).expect("memory");
            }
            assert_eq!(world.at(0).stats().own_parts, 0, "{:?}", tuning.backing.owners());
            world.drain_all();
            alloc(world, 0, 1);
            let taken = world.at(0).stats().own_parts;
            assert!((1..=4 * PAGEBLOCK as u64 / 2).contains(&taken), "{taken} pages");
        });
    }
}

/// An owner's list holds no more than the owner may keep. The rest stays with the CPU that frees it.
#[test]
fn lists_of_owners_are_bounded() {
    two_cpus(PCP_BUDDY_LIST, |world| {
        let pages = alloc(world, 0, 40 * PAGEBLOCK);
        let high = u64::from(world.pageset(0, CpuId(0)).state().high);
        free(world, 1, pages);
        let stats = world.at(0).stats();
        assert!((high..high + 2).contains(&stats.waiting), "{} wait, high is {high}", stats.waiting);
        assert_eq!(world.pageset(0, CpuId(1)).stats().pgfree + stats.waiting, 40 * PAGEBLOCK as u64);
    });
}

/// A machine of two CPUs whose other CPU holds its pageset's lock.
struct OtherIsBusy;

impl Behaviour for OtherIsBusy {
    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn try_lock_pageset(&self, lock: &SpinLock, cpu: CpuId) -> bool {
        cpu == self.cpu() && lock.try_lock()
    }
}

std::thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

#[test]
fn a_busy_owner_is_passed_by() {
    let ranges = [PageRange::new(Pfn(BASE), PAGES)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    for (tuning, direct, waiting) in [(PCP_BUDDY_TRY, 100, 0), (PCP_BUDDY_LIST, 0, 100)] {
        let config = Config { tuning, ..Config::new(&zones, &[NodeId(0); 2]) };
        let metadata = OwnedMetadata::new(&config).expect("memory");
        let mut zones = metadata.zones();
        let world =
            Allocator::new(Behaving(&OtherIsBusy), &config, metadata.lend(&mut zones)).expect("the map is valid");
        CPU.set(0);
        let pages: Vec<_> = (0..100).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
        CPU.set(1);
        pages.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
        let stats = world.at(0).stats();
        assert_eq!((stats.direct_free_pages, stats.waiting), (direct, waiting), "{:?}", tuning.backing.owners());
        world.at(0).audit().expect("the audit passes");
    }
}

/// What waits on an owner's list serves the owner, and does not stay for ever.
#[test]
fn lists_of_owners_are_emptied() {
    two_cpus(PCP_BUDDY_LIST, |world| {
        let request = Request { watermarks: false, ..movable(0) };
        world.machine().run_on(0);
        let all: Vec<_> = std::iter::from_fn(|| world.alloc(&request).ok()).collect();
        assert_eq!(all.len() as u64, PAGES);
        free(world, 1, all[..200].iter().copied());
        let stats = world.at(0).stats();
        assert_eq!((stats.pagesets.count, stats.waiting), (0, 200));
        world.machine().run_on(0);
        let again = std::iter::from_fn(|| world.alloc(&request).ok()).count();
        assert_eq!(again, 200, "the owner takes them");
        free(world, 1, all[200..300].iter().copied());
        world.machine().run_on(0);
        let _ = world.tick();
        assert_eq!(world.at(0).stats().pagesets.count + world.at(0).stats().nr_free_pages, 100);
    });
}

/// What waits for an owner counts as freed, also after its pageblock was isolated and the owner defers its free. An exporter would take
/// a falling count for a restart.
#[test]
fn pgfree_does_not_fall_when_an_owner_defers_a_free() {
    two_cpus(PCP_BUDDY_LIST, |world| {
        let pages = alloc(world, 0, 100);
        let isolated = block_of(pages[0]) << Order::PAGEBLOCK.get();
        free(world, 1, pages);
        world.set_pageblock_type(Pfn(isolated), MigrateType::Isolate).expect("a pageblock of the zone");
        let before = world.at(0).stats();
        assert_eq!((before.pgfree(), before.waiting, before.deferred), (100, 100, 0));
        world.machine().run_on(0);
        let _ = world.tick();
        let deferred = world.at(0).stats();
        assert_eq!((deferred.pgfree(), deferred.waiting), (100, 0));
        assert_eq!(deferred.deferred + deferred.direct_free_pages, 100);
        world.drain_all();
        let after = world.at(0).stats();
        assert_eq!((after.pgfree(), after.deferred, after.direct_free_pages), (100, 0, 100));
    });
}

#[test]
fn rules_that_contradict_each_other() {
    let needs = |tuning: Tuning| match tuning.check() {
        Err(TuningError::Needs { rule, needs }) => (rule, needs),
        other => panic!("{other:?}"),
    };
    for (rule, tuning) in [("merge_blocks", PCP_MERGE), ("claim_blocks", PCP_CLAIM)] {
        assert_eq!(needs(Tuning { lists: ListRule::HugeByType, ..tuning }), (rule, "lists = all-orders"));
        assert_eq!(needs(Tuning { type_at_drain: false, ..tuning }), (rule, "type_at_drain = on"));
    }
}
