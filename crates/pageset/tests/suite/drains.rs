//! The blocks that a drain takes, their order, and the number of zone lock holds. Specification 3, 4.8, 8.1.

use std::cell::Cell;
use std::sync::Barrier;
use std::thread;

use crate::support::{Behaving, Behaviour, Known, World, build, movable, one_zone};
use pageset::admin::stats::PagesetStats;
use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::presets::*;
use pageset::policy::{Bounds, PRESETS, Tuning, Watermarks};
use pageset::{
    AllocError, Allocator, Config, CpuId, Free, FreeTo, Immovable, MigrateType, NodeId, Order, PageRange, Pfn, RawLock,
    Request, SpinLock, Wait, ZoneKind, ZoneSpec,
};

use MigrateType::{Movable, Reclaimable, Unmovable};

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

/// A zone of 1 GiB with two CPUs. CPU 1 allocates the blocks that CPU 0 frees, so that CPU 0's pageset holds only
/// those.
fn world(tuning: Tuning, bounds: Bounds, test: impl FnOnce(&World<'_>)) {
    let range = PageRange::new(Pfn(1 << 20), 1 << 18);
    let ranges = [range];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &ranges }];
    let config = Config { tuning, pageset_capacity: 10_000, ..Config::new(&zones, &[NodeId(0); 2]) };
    build(&config, |world| {
        world.at(0).set_bounds(bounds).expect("the pagesets have room");
        test(world);
        world.at(0).audit().expect("the audit passes");
    });
}

fn hold(high: u32) -> Bounds {
    Bounds { batch: 63, high_min: high, high_max: high }
}

/// Allocates on CPU 1.
fn elsewhere(world: &World<'_>, of: u8, migratetype: MigrateType, times: usize) -> Vec<Pfn> {
    world.machine().run_on(1);
    let pages =
        (0..times).map(|_| world.alloc(&Request::new(order(of), migratetype)).expect("memory")).collect::<Vec<_>>();
    world.machine().run_on(0);
    pages
}

fn free_all(world: &World<'_>, of: u8, pages: &[Pfn]) {
    for &pfn in pages {
        world.free(pfn, order(of)).expect("was allocated");
    }
}

fn stats(world: &World<'_>) -> PagesetStats {
    world.pageset(0, CpuId(0)).stats()
}

fn lists(world: &World<'_>) -> [u32; pageset::policy::lists::LISTS] {
    world.pageset(0, CpuId(0)).lists()
}

#[test]
fn whole_lists_from_the_freed_pages_list_on() {
    // 3.3. The lists before; then a free of the given order drains 63 pages; the lists after.
    for tuning in [LINUX_5_18, LINUX_6_7] {
        world(tuning, hold(200), |world| {
            let unmovable = elsewhere(world, 0, Unmovable, 80);
            let movables = elsewhere(world, 0, Movable, 80);
            let reclaimable = elsewhere(world, 0, Reclaimable, 39);
            let huge = elsewhere(world, 9, Movable, 1);
            free_all(world, 0, &unmovable);
            free_all(world, 0, &movables);
            free_all(world, 0, &reclaimable);
            assert_eq!(lists(world)[..3], [80, 80, 39]);
            // Resets what consecutive frees have raised.
            let state =
                pageset::policy::PcpState { free_count: 0, free_factor: 0, ..world.pageset(0, CpuId(0)).state() };
            world.pageset(0, CpuId(0)).restore(&state);
            free_all(world, 9, &huge);
            // The huge page's list first: all of it, which is more than requested.
            assert_eq!((&lists(world)[..3], stats(world).drain_pages), (&[80, 80, 39][..], 512));
            assert!(lists(world)[3..].iter().all(|&blocks| blocks == 0));
            let single = elsewhere(world, 0, Reclaimable, 1);
            world.pageset(0, CpuId(0)).restore(&state);
            free_all(world, 0, &single);
            // From list 2 on: all its 40 pages, then on to list 0.
            assert_eq!((lists(world)[..3].to_vec(), stats(world).drain_pages), (vec![57, 80, 0], 512 + 63));
            assert_eq!(
                world.alloc(&Request::new(Order::ZERO, Unmovable)),
                Ok(unmovable[79]),
                "the newest pages stay in the pageset"
            );
        });
    }
}

/// What a pageset of the default rules has counted is restored as it was: its limit is that of the state machine.
#[test]
fn the_count_of_frees_is_restored() {
    world(pageset::policy::presets::PAGESET, hold(4000), |world| {
        let state = pageset::policy::PcpState { free_count: 1900, ..world.pageset(0, CpuId(0)).state() };
        world.pageset(0, CpuId(0)).restore(&state);
        assert_eq!(world.pageset(0, CpuId(0)).state().free_count, 1900);
    });
}

#[test]
fn round_robin_over_the_lists() {
    // 3.2, E1 to E3: one block of each list in turn, from list 1 on; the last list left gives all that remains.
    for (tuning, batch, left) in [(LINUX_4_16, 31, [90, 0, 65]), (LINUX_4_19, 63, [79, 0, 44])] {
        world(tuning, Bounds { batch, high_min: 186, high_max: 186 }, |world| {
            for (migratetype, times) in [(Unmovable, 100), (Movable, 7), (Reclaimable, 79)] {
                let pages = elsewhere(world, 0, migratetype, times);
                free_all(world, 0, &pages);
            }
            // Seven rounds of one each empty list 1; then two of list 2 for one of list 0.
            assert_eq!(lists(world)[..3], left[..], "batch {batch}");
            assert_eq!((stats(world).drains, stats(world).drain_pages), (1, u64::from(batch)));
        });
    }
}

#[test]
fn a_drain_takes_one_hold_or_one_a_batch() {
    // E7: the same pages, one batch per hold.
    for (tuning, holds) in [(LINUX_6_18, 1), (LINUX_6_19, 4)] {
        world(tuning, Bounds { batch: 63, high_min: 300, high_max: 300 }, |world| {
            let some = elsewhere(world, 0, Movable, 200);
            free_all(world, 0, &some);
            let rest = elsewhere(world, 0, Movable, 100);
            let before = world.at(0).stats();
            free_all(world, 0, &rest);
            let after = world.at(0).stats();
            // free_count 300, clamped to high - batch.
            assert_eq!(after.lock_drain - before.lock_drain, holds);
            assert_eq!(after.pagesets.drain_pages - before.pagesets.drain_pages, 237);
        });
        // The once-a-second decay is chunked as well.
        world(tuning, Bounds { batch: 63, high_min: 300, high_max: 300 }, |world| {
            let some = elsewhere(world, 0, Movable, 299);
            free_all(world, 0, &some);
            world.at(0).set_bounds(hold(100)).expect("room");
            let state = world.pageset(0, CpuId(0)).state();
            world.pageset(0, CpuId(0)).restore(&pageset::policy::PcpState { high: 100, ..state });
            let before = world.at(0).stats().lock_drain;
            assert!(world.tick());
            assert_eq!((stats(world).drain_pages, world.at(0).stats().lock_drain - before), (199, holds));
        });
    }
}

#[test]
fn an_explicit_drain_empties_in_bounded_holds() {
    for preset in PRESETS {
        world(preset.tuning, Bounds { batch: 63, high_min: 10_000, high_max: 10_000 }, |world| {
            let pages = elsewhere(world, 0, Movable, 5000);
            free_all(world, 0, &pages);
            world.drain_all();
            for cpu in 0..2 {
                assert_eq!(world.pageset(0, CpuId(cpu)).state().count, 0, "{}", preset.name);
            }
            if preset.tuning.backing.has_owners() {
                // The pages went to the CPU that had claimed their pageblocks.
                return;
            }
            // 2016 pages per drain, or 504.
            let drains = if preset.tuning.batch_scale_max == 5 { 3 } else { 10 };
            assert_eq!((stats(world).drains, stats(world).drain_pages), (drains, 5000), "{}", preset.name);
            assert_eq!(world.at(0).stats().nr_free_pages, 1 << 18);
            world.at(0).merge_skipped();
            assert_eq!(world.at(0).free_blocks(Order::MAX, Movable), 256, "{}: merged", preset.name);
        });
    }
}

/// The bounds fall while a pageset holds 5,000 pages: the tick that drains it lets go of its lock after each 512 blocks.
#[test]
fn a_tick_drains_in_bounded_holds() {
    world(PAGESET, Bounds { batch: 63, high_min: 10_000, high_max: 10_000 }, |world| {
        let pages = elsewhere(world, 0, Movable, 5000);
        free_all(world, 0, &pages);
        world.at(0).set_bounds(Bounds { batch: 63, high_min: 300, high_max: 300 }).expect("room");
        // The next free brings `high` within the bounds, and drains once.
        free_all(world, 0, &elsewhere(world, 0, Movable, 1));
        let before = stats(world);
        let _ = world.tick();
        let after = stats(world);
        let (drains, pages) = (after.drains - before.drains, after.drain_pages - before.drain_pages);
        assert_eq!((after.count, drains), (300, pages.div_ceil(512)), "{pages} pages");
        assert!(drains > 5);
    });
}

#[test]
fn below_high_is_set_by_the_walk_and_cleared_after_a_drain() {
    let marks = |high| Watermarks { min: 0, low: 0, high };
    world(LINUX_6_18, Bounds { batch: 63, high_min: 252, high_max: 4096 }, |world| {
        let pages = elsewhere(world, 0, Movable, 1000);
        world.at(0).set_watermarks(marks(1 << 17), [0; ZoneKind::COUNT]);
        assert!(raises_high(world), "far above the mark");
        world.at(0).set_watermarks(marks(1 << 30), [0; ZoneKind::COUNT]);
        assert!(!raises_high(world), "the request that finds the shortage sets the flag");
        world.at(0).set_watermarks(marks(1 << 17), [0; ZoneKind::COUNT]);
        assert!(!raises_high(world), "an allocation does not clear the flag");
        free_all(world, 0, &pages[..100]);
        assert!(!raises_high(world), "frees without a drain do not clear the flag");
        world.at(0).set_watermarks(marks(1 << 30), [0; ZoneKind::COUNT]);
        free_all(world, 0, &pages[100..700]);
        assert!(stats(world).drains > 0);
        assert!(!raises_high(world), "a drain below the mark does not clear the flag");
        world.at(0).set_watermarks(marks(1 << 17), [0; ZoneKind::COUNT]);
        free_all(world, 0, &pages[700..]);
        assert!(raises_high(world), "a drain above the mark clears the flag");
    });
}

#[test]
fn an_order_that_no_free_block_has_sets_below_high() {
    // The quirk of 4.8, with any number of free pages.
    one_zone(LINUX_6_18, 1 << 14, 1, |world| {
        let pages: Vec<_> =
            std::iter::from_fn(|| world.alloc(&Request { watermarks: false, ..movable(0) }).ok()).collect();
        free_all(world, 0, &pages.into_iter().filter(|pfn| pfn.0 % 2 == 0).collect::<Vec<_>>());
        world.drain_all();
        world.at(0).set_watermarks(Watermarks { min: 0, low: 0, high: 64 }, [0; ZoneKind::COUNT]);
        world.at(0).set_below_high(false);
        assert!(raises_high(world));
        world.alloc(&movable(1)).expect_err("every other page is in use");
        assert!(!raises_high(world));
    });
}

/// Whether a refill raises high, which BELOW_HIGH stops.
fn raises_high(world: &World<'_>) -> bool {
    world.drain();
    world.at(0).set_bounds(Bounds { batch: 63, high_min: 252, high_max: 1024 }).expect("room");
    world.pageset(0, CpuId(0)).restore(&pageset::policy::PcpState { high: 252, ..Default::default() });
    let pfn = world.alloc(&movable(0)).expect("memory");
    let raised = world.pageset(0, CpuId(0)).state().high > 252;
    world.free(pfn, Order::ZERO).expect("was allocated");
    raised
}

/// A zone of 16 MiB. All its pages are in use, and then all frees are deferred: no call has taken the zone's lock since.
fn all_deferred(test: impl Fn(&World<'_>)) {
    for tuning in [LINUX_4_19, PAGESET] {
        one_zone(tuning, 1 << 12, 1, |world| {
            let all = std::iter::from_fn(|| world.alloc(&Request { watermarks: false, ..movable(0) }).ok());
            all.collect::<Vec<_>>()
                .into_iter()
                .for_each(|pfn| world.free_with(Free::block(pfn, Order::ZERO).to(FreeTo::Deferred)).expect("in use"));
            let stats = world.at(0).stats();
            assert_eq!((stats.nr_free_pages, stats.deferred, stats.pgalloc() - stats.pgfree()), (0, 1 << 12, 0));
            assert_eq!(stats.cached_pages(), 1 << 12);
            test(world);
            world.drain_all();
            assert_eq!(world.at(0).audit().expect("the audit passes").in_use, 0);
        });
    }
}

#[test]
fn a_request_completes_deferred_frees_before_it_fails() {
    all_deferred(|world| {
        let largest = movable(10);
        let error =
            world.alloc(&Request { wait: Wait::Nothing, ..largest }).expect_err("it takes no lock that may be held");
        let AllocError::OutOfMemory(shortage) = error else { panic!("{error}") };
        assert_eq!((shortage.free_pages, shortage.cached_pages), (0, 1 << 12), "a drain would free them");
        assert_eq!(world.at(0).stats().nr_free_pages, 0);
        let pfn = world.alloc(&Request { wait: Wait::Lock, ..largest }).expect("all memory is free, and merges");
        world.free(pfn, largest.order).expect("in use");
    });
}

#[test]
fn drains_of_all_cpus_complete_deferred_frees() {
    let drains: [fn(&World<'_>); 2] = [|world| world.drain_all(), |world| world.at(0).drain_all()];
    for drain in drains {
        all_deferred(|world| {
            drain(world);
            assert_eq!(world.at(0).stats().nr_free_pages, 1 << 12);
        });
    }
}

thread_local! {
    static STOPS: Cell<bool> = const { Cell::new(false) };
}

/// A machine on which the next lock of a pageset by a thread with `STOPS` waits until another thread has met it twice.
struct Stopping(Barrier);

impl Behaviour for Stopping {
    fn lock_pageset(&self, lock: &SpinLock, _cpu: CpuId) {
        if STOPS.replace(false) {
            self.0.wait();
            self.0.wait();
        }
        lock.lock();
    }
}

/// A drain drains everything, also while another one is running, which may have passed some pagesets.
#[test]
fn two_drains_of_all_cpus_at_once_both_drain() {
    let range = [PageRange::new(Pfn(0), 1 << 12)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range[0], ranges: &range }];
    let config = Config::new(&zones, &[NodeId(0); 2]);
    let drains: [fn(&Allocator<'_, Behaving<'_>>); 2] = [|world| world.drain_all(), |world| world.at(0).drain_all()];
    for drain in drains {
        let stopping = Stopping(Barrier::new(2));
        let metadata = OwnedMetadata::new(&config).expect("memory");
        let mut zones = metadata.zones();
        let world = Allocator::new(Behaving(&stopping), &config, metadata.lend(&mut zones)).expect("the map is valid");
        let pfn = world.alloc(&movable(0)).expect("memory");
        world.free(pfn, Order::ZERO).expect("in use");
        assert!(world.pageset(0, CpuId(0)).state().count > 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                STOPS.set(true);
                world.drain_all();
            });
            stopping.0.wait();
            drain(&world);
            let left = world.pageset(0, CpuId(0)).state().count;
            // First the other thread goes on, or a failure would wait for it.
            stopping.0.wait();
            assert_eq!(left, 0, "the other drain has not begun with this pageset");
        });
    }
}

#[test]
fn a_range_completes_deferred_frees() {
    all_deferred(|world| {
        let range = world.at(0).span();
        world.alloc_range(range, Movable, &Immovable).expect("all memory is free");
        world.free_with(Free::whole_blocks(range)).expect("in use");
    });
}
