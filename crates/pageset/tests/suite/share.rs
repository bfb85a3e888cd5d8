//! The pages that CPUs keep from each other: at most the zone's share by `kept_fraction`, after each call, on machines of any size.

use crate::support::{Known, World, build};
use pageset::policy::presets::PAGESET;
use pageset::{
    Alloc, AllocFrom, Block, Config, CpuId, Free, FreeTo, MigrateType, NodeId, Order, PageRange, Pfn, Request, Tuning,
    Wait, ZoneKind, ZoneSpec,
};

/// A small random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// One zone for each of `nodes` nodes.
fn machine<R>(tuning: Tuning, pages: u64, nodes: u32, cpus: u32, test: impl FnOnce(&World<'_>) -> R) -> R {
    let ranges: Vec<_> = (0..nodes).map(|node| [PageRange::new(Pfn(u64::from(node + 1) << 30), pages)]).collect();
    let zone = |node: u32| {
        let ranges = &ranges[node as usize];
        ZoneSpec { node: NodeId(node), kind: ZoneKind::Normal, span: ranges[0], ranges }
    };
    let specs: Vec<_> = (0..nodes).map(zone).collect();
    let cpus: Vec<_> = (0..cpus).map(|cpu| NodeId(cpu % nodes)).collect();
    build(&Config { tuning, ..Config::new(&specs, &cpus) }, test)
}

/// Runs random calls on random CPUs. Returns the largest share of a zone that was kept after a call, in thousandths.
fn most_kept(world: &World<'_>, cpus: u32, seed: u64) -> u64 {
    let (mut random, mut live, mut most) = (Random(seed), Vec::new(), 0);
    for step in 0..6000 {
        if random.below(8) == 0 {
            world.machine().run_on(random.below(cpus.into()) as u32);
        }
        // Phases in which most calls allocate, and such in which most free.
        let grows = step / 500 % 2 == 0;
        if random.below(5) < if grows { 4 } else { 1 } {
            let order = match random.below(30) {
                0 => 9,
                1 => random.below(11) as u8,
                2..8 => random.below(4) as u8,
                _ => 0,
            };
            let migratetype = [MigrateType::Movable, MigrateType::Unmovable][random.below(2) as usize];
            let order = Order::new(order).expect("an order");
            let request = Request { wait: Wait::Lock, watermarks: false, ..Request::new(order, migratetype) };
            if order == Order::ZERO && random.below(4) == 0 {
                let mut pages = [Pfn(0); 100];
                let got = world.alloc_bulk(&request, &mut pages).unwrap_or(0);
                live.extend(pages[..got].iter().map(|&pfn| Block { pfn, order }));
            } else {
                live.extend(world.alloc(&request).map(|pfn| Block { pfn, order }));
            }
        } else if !live.is_empty() {
            let block = live.swap_remove(random.below(live.len() as u64) as usize);
            match random.below(8) {
                0 => world.free_with(Free::block(block.pfn, block.order).to(FreeTo::PagesetUndrained)).expect("in use"),
                1 => {
                    let start = live.len() - live.len().min(100);
                    world.free(block.pfn, block.order).expect("in use");
                    world.free_bulk(&live.split_off(start)).expect("in use");
                }
                _ => world.free(block.pfn, block.order).expect("in use"),
            }
        }
        if random.below(100) == 0 {
            world.tick();
        }
        for zone in 0..world.zones().len() {
            let stats = world.at(zone).stats();
            most = most.max((stats.pagesets.count + stats.depot + stats.waiting) * 1000 / stats.managed);
        }
    }
    for zone in 0..world.zones().len() {
        world.at(zone).audit().expect("the audit passes");
    }
    most
}

const MACHINES: [(u64, u32, u32); 10] = [
    (64, 1, 1),
    (512, 1, 8),
    (1024, 1, 64),
    (4096, 1, 16),
    (1 << 14, 1, 32),
    (1 << 15, 2, 4),
    (1 << 16, 1, 64),
    (1 << 16, 1, 224),
    (1 << 17, 2, 64),
    (1 << 18, 1, 8),
];

#[test]
fn all_cpus_together_keep_a_share() {
    let mut reached = 0;
    for (number, (pages, nodes, cpus)) in MACHINES.into_iter().enumerate() {
        for fraction in [4, 2, 50] {
            let tuning = Tuning { kept_fraction: fraction, ..PAGESET };
            let most = machine(tuning, pages, nodes, cpus, |world| most_kept(world, cpus, number as u64));
            let share = 1000 / u64::from(fraction);
            assert!(most <= share, "{pages} pages, {cpus} CPUs: {most} thousandths of the zone, allowed {share}");
            reached += u64::from(most > share / 3);
        }
    }
    assert!(reached >= 5, "few machines come near their limit: {reached}");
    assert_eq!(Tuning::default().kept_fraction, 4);
}

/// Without the limit, many CPUs keep more of some zones.
#[test]
fn without_the_limit_they_keep_more() {
    let tuning = Tuning { kept_fraction: 0, ..PAGESET };
    let most = MACHINES.into_iter().enumerate().map(|(number, (pages, nodes, cpus))| {
        machine(tuning, pages, nodes, cpus, |world| most_kept(world, cpus, number as u64))
    });
    let most: Vec<_> = most.collect();
    assert!(most.iter().filter(|&&kept| kept > 250).count() >= 2, "thousandths of the zones: {most:?}");
}

/// Huge pages allocated and freed on two CPUs, half of memory each time, with ticks in between. Returns how often they take locks of the
/// zone in a round, when the pagesets have found their size.
fn locks_of_half_of_memory(cpus: u32) -> u64 {
    machine(PAGESET, 1 << 20, 1, cpus, |world| {
        let huge = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
        let mut locks = [0; 4];
        for taken in &mut locks {
            let before = world.at(0).stats().lock_acquisitions();
            for cpu in 0..2 {
                world.machine().run_on(cpu);
                let blocks: Vec<_> = (0..512).map(|_| world.alloc(&huge).expect("memory")).collect();
                blocks.into_iter().for_each(|pfn| world.free(pfn, Order::PAGEBLOCK).expect("in use"));
            }
            *taken = world.at(0).stats().lock_acquisitions() - before;
            (0..cpus).for_each(|cpu| _ = world.tick_cpu(CpuId(cpu)));
        }
        world.at(0).audit().expect("the audit passes");
        locks[3]
    })
}

/// CPUs that are configured but idle lend what they may keep. With 64 CPUs and more the zone has its largest number of regions, each with
/// a lock of its own: that costs more locks than two CPUs take, but more CPUs cost no more.
#[test]
fn idle_cpus_cost_the_busy_ones_little() {
    let [few, many, more, most] = [2, 64, 192, 1024].map(locks_of_half_of_memory);
    assert!(many <= 2 * few, "{many} locks with 64 CPUs, {few} with 2");
    assert!(more.max(most) <= many + many / 20, "{more} locks with 192 CPUs, {most} with 1,024, {many} with 64");
}

/// What a CPU has borrowed returns while it is idle, and others can borrow it.
#[test]
fn loans_end() {
    machine(PAGESET, 1 << 20, 1, 1024, |world| {
        let own = world.pageset(0, CpuId(0)).state().high_max;
        let huge = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
        let high_max = |cpu| world.pageset(0, CpuId(cpu)).state().high_max;
        let use_cpu = |cpu| {
            world.machine().run_on(cpu);
            let blocks: Vec<_> = (0..512).map(|_| world.alloc(&huge).expect("memory")).collect();
            blocks.into_iter().for_each(|pfn| world.free(pfn, Order::PAGEBLOCK).expect("in use"));
        };
        (0..20).for_each(use_cpu);
        let borrowed: u32 = (0..20).map(|cpu| high_max(cpu) - own).sum();
        assert!(borrowed > 90_000 && borrowed < (1 << 20) * 3 / 32, "{borrowed} of 98,304 pages");
        assert!(high_max(19) < 2 * own, "the first ones have all: {}", high_max(19));
        for cpu in (0..19).map(CpuId) {
            let ticks = (0..200).take_while(|_| world.tick_cpu(cpu)).count();
            assert!(ticks < 200, "an idle CPU needs no more ticks");
        }
        use_cpu(19);
        assert!(high_max(0) < 400 && high_max(19) > 8192, "{} and {}", high_max(0), high_max(19));
        // Offline, and with bounds by hand, none has a loan.
        world.cpu_offline(CpuId(19)).expect("others are online");
        assert_eq!(high_max(19), 0);
        world.at(0).audit().expect("the audit passes");
        use_cpu(1);
        world.at(0).set_bounds(pageset::policy::Bounds { batch: 20, high_min: 50, high_max: 50 }).expect("room");
        use_cpu(2);
        assert_eq!([1, 2].map(high_max), [50, 50]);
        world.at(0).audit().expect("the audit passes");
    });
}

/// A free of many blocks borrows when the pages that the pageset would then have are more than it may keep, and not before.
#[test]
fn a_run_of_frees_borrows_for_its_sum() {
    machine(PAGESET, 1 << 17, 1, 8, |world| {
        let huge = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
        let high_max = || world.pageset(0, CpuId(1)).state().high_max;
        let own = high_max();
        assert!((2 * 512..3 * 512).contains(&own), "two huge pages fit, and not three: {own}");
        // From the free lists: a refill would borrow as well.
        let take = |_| {
            let pfn = world.alloc_with(Alloc::new(&huge).from(AllocFrom::Buddy)).expect("memory");
            Block { pfn, order: Order::PAGEBLOCK }
        };
        let blocks: Vec<_> = (0..7).map(take).collect();
        world.machine().run_on(1);
        world.free_bulk(&blocks[..2]).expect("in use");
        assert_eq!(world.pageset(0, CpuId(1)).stats().count, 512, "room for one more");
        world.free_bulk(&blocks[2..3]).expect("in use");
        assert_eq!(high_max(), own, "two fit");
        world.free_bulk(&blocks[3..]).expect("in use");
        assert!(high_max() > own, "{} of {own}", high_max());
        world.at(0).audit().expect("the audit passes");
    });
}

/// A loan does not lift high above the capacity that the embedder gave.
#[test]
fn loans_stay_within_the_capacity() {
    let ranges = [PageRange::new(Pfn(0), 1 << 20)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let high_max = |pageset_capacity| {
        build(&Config { pageset_capacity, ..Config::new(&zones, &[NodeId(0); 1024]) }, |world| {
            let huge = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
            let blocks: Vec<_> = (0..512).map(|_| world.alloc(&huge).expect("memory")).collect();
            blocks.into_iter().for_each(|pfn| world.free(pfn, Order::PAGEBLOCK).expect("in use"));
            world.at(0).audit().expect("the audit passes");
            world.pageset(0, CpuId(0)).state().high_max
        })
    };
    // The second number is the room that the capacity has for pages before a drain.
    let [small, large, free] = [50, 4000, 0].map(high_max);
    assert!(small <= 50 + 64 && large <= 4000 + 64, "{small} and {large}");
    assert!(large > 3500 && free > 2 * large, "loans reach the capacity: {large} and {free}");
}

/// CPUs that come online share what the others may keep; what is too much goes back at a tick.
#[test]
fn more_cpus_get_smaller_shares() {
    machine(PAGESET, 1 << 14, 1, 32, |world| {
        (1..32).for_each(|cpu| world.cpu_offline(CpuId(cpu)).expect("one is left"));
        let alone = world.pageset(0, CpuId(0)).state().high_max;
        let pages: Vec<_> =
            (0..8000).map(|_| world.alloc(&Request::new(Order::ZERO, MigrateType::Movable)).expect("memory")).collect();
        pages.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("in use"));
        (1..32).for_each(|cpu| world.cpu_online(CpuId(cpu)).expect("offline"));
        let shared = world.pageset(0, CpuId(0)).state().high_max;
        assert!(shared <= (1 << 14) / 4 / 32 && alone > 2 * shared, "{alone}, then {shared}");
        world.tick_cpu(CpuId(0));
        assert!(world.pageset(0, CpuId(0)).state().count <= shared + world.pageset(0, CpuId(0)).state().batch);
    });
}

/// Blocks of order 4 that nobody requests fill what a CPU may keep. A refill of huge pages drains them. From the second time on, huge pages
/// come from the pageset and stay there.
#[test]
fn blocks_of_another_order_give_way() {
    for (cpus, held) in [(1, 8), (2, 8), (8, 4)] {
        machine(PAGESET, 1 << 17, 1, cpus, |world| {
            let use_blocks = |order, count| {
                let order = Order::new(order).expect("an order");
                let request = Request::new(order, MigrateType::Movable);
                let blocks: Vec<_> = (0..count).map(|_| world.alloc(&request).expect("memory")).collect();
                blocks.into_iter().for_each(|pfn| world.free(pfn, order).expect("in use"));
            };
            use_blocks(4, 1024);
            let state = world.pageset(0, CpuId(0)).state();
            assert!(state.count > state.high_max / 5 * 4, "{} of {} pages are kept", state.count, state.high_max);
            let holds = || world.at(0).stats().lock_acquisitions();
            (0..10).for_each(|_| use_blocks(9, held));
            let before = holds();
            (0..10).for_each(|_| use_blocks(9, held));
            assert_eq!(holds() - before, 0, "holds for {held} huge pages, ten times, with {cpus} CPUs");
            world.at(0).audit().expect("the audit passes");
        });
    }
}

/// A request that waits for nothing drains nothing, however little room it finds: one hold serves it, and the other lists keep their blocks.
#[test]
fn a_request_that_waits_for_nothing_makes_no_room() {
    let [(nothing, kept), (lock, drained)] = [Wait::Nothing, Wait::Lock].map(|wait| {
        machine(PAGESET, 1 << 17, 1, 2, |world| {
            let [small, huge] = [Order::new(4).expect("an order"), Order::PAGEBLOCK];
            let request = Request::new(small, MigrateType::Movable);
            let blocks: Vec<_> = (0..1024).map(|_| world.alloc(&request).expect("memory")).collect();
            blocks.into_iter().for_each(|pfn| world.free(pfn, small).expect("in use"));
            let books = || (world.at(0).stats().lock_acquisitions(), world.pageset(0, CpuId(0)).stats().count);
            let (holds, count) = books();
            let request = Request { wait, ..Request::new(huge, MigrateType::Movable) };
            assert!(world.alloc(&request).is_ok());
            let (holds_after, count_after) = books();
            world.at(0).audit().expect("the audit passes");
            (holds_after - holds, count_after.cast_signed() - count.cast_signed())
        })
    });
    assert_eq!((nothing, lock), (1, 2), "holds of the lock");
    assert!(kept > 0 && drained < 0, "{kept} pages more on the lists, and {drained}");
}
