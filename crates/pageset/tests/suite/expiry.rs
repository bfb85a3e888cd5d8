//! Idle pages of another node's zone in a pageset are drained, a batch every third tick. Specification 8.2.

use crate::support::{Known, World, build, movable};
use pageset::policy::presets::LINUX_6_18;
use pageset::policy::{Bounds, PRESETS, Tuning};
use pageset::{Config, CpuId, NodeId, Order, PageRange, Pfn, Request, ZoneKind, ZoneSpec};

/// Two nodes with a zone and a CPU each, and a CPU on a node without memory. High is fixed, so that nothing decays.
fn world(tuning: Tuning, test: impl FnOnce(&World<'_>)) {
    let ranges = [1, 2].map(|at| [PageRange::new(Pfn(at << 20), 1 << 18)]);
    let zone = |node: usize| ZoneSpec {
        node: NodeId(node as u32),
        kind: ZoneKind::Normal,
        span: ranges[node][0],
        ranges: &ranges[node],
    };
    let specs = [zone(0), zone(1)];
    let cpus = [0, 1, 2].map(NodeId);
    build(&Config { tuning, pageset_capacity: 4000, ..Config::new(&specs, &cpus) }, |world| {
        for zone in [0, 1] {
            world.at(zone).set_bounds(Bounds { batch: 63, high_min: 2000, high_max: 2000 }).expect("room");
        }
        test(world);
        for zone in [0, 1] {
            world.at(zone).audit().expect("the audit passes");
        }
    });
}

/// Brings `pages` pages of a node into the pageset of a CPU.
fn cache(world: &World<'_>, cpu: u32, node: u32, pages: usize) {
    world.machine().run_on(cpu);
    let request = Request { node: Some(NodeId(node)), this_node_only: true, ..movable(0) };
    let held: Vec<_> = (0..pages).map(|_| world.alloc(&request).expect("memory")).collect();
    held.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("was allocated"));
}

fn count(world: &World<'_>, zone: usize, cpu: u32) -> u32 {
    world.pageset(zone, CpuId(cpu)).state().count
}

#[test]
fn a_batch_of_remote_pages_is_drained_every_third_tick() {
    for preset in
        PRESETS.iter().filter(|preset| !preset.tuning.expire_all && !preset.tuning.backing.merges_in_pageset())
    {
        world(preset.tuning, |world| {
            cache(world, 0, 1, 200);
            cache(world, 0, 0, 200);
            let (before, own) = (count(world, 1, 0), count(world, 0, 0));
            assert!(before >= 200 && own >= 200);
            let tick = || (world.tick(), count(world, 1, 0));
            assert_eq!(tick(), (true, before), "{}: the tick that sees the use", preset.name);
            assert_eq!(tick(), (true, before), "{}", preset.name);
            assert_eq!(tick(), (true, before - 63), "{}: due", preset.name);
            // The drain is a use, which starts the count again.
            assert_eq!(tick(), (true, before - 63), "{}: the tick that sees the drain", preset.name);
            assert_eq!(tick(), (true, before - 63), "{}", preset.name);
            assert_eq!(tick(), (true, before - 126), "{}: due again", preset.name);
            assert_eq!(count(world, 0, 0), own, "{}: its own node's stay", preset.name);
            let stats = world.pageset(1, CpuId(0)).stats();
            assert_eq!((stats.drains, stats.drain_pages), (2, 126), "{}", preset.name);
        });
    }
}

/// A caller that counts what its CPUs change, as the kernels do, says whether the zone was used.
#[test]
fn a_caller_may_count_uses_itself() {
    world(LINUX_6_18, |world| {
        cache(world, 0, 1, 200);
        let before = count(world, 1, 0);
        let tick = |used| (world.at(1).tick_counted(used), count(world, 1, 0));
        assert_eq!(tick(false), (false, before), "no count has changed");
        assert_eq!([tick(true), tick(false), tick(false)].map(|(_, count)| count), [before, before, before - 63]);
        // The drain changed no count either.
        assert_eq!(tick(false), (false, before - 63));
    });
}

/// A hold of a drain of which others use the rest meanwhile.
#[test]
fn a_part_of_a_pageset_is_drained() {
    world(LINUX_6_18, |world| {
        cache(world, 0, 1, 200);
        let before = count(world, 1, 0);
        assert!(world.at(1).drain_pages(40));
        assert_eq!(count(world, 1, 0), before - 40);
    });
}

#[test]
fn each_use_restarts_the_countdown() {
    world(LINUX_6_18, |world| {
        cache(world, 0, 1, 1);
        let request = Request { node: Some(NodeId(1)), ..movable(0) };
        // Both an allocation and a free count as a use.
        assert!(world.tick() && world.tick());
        let pfn = world.alloc(&request).expect("memory");
        assert!(world.tick() && world.tick());
        world.free(pfn, Order::ZERO).expect("was allocated");
        assert!(world.tick() && world.tick());
        assert_eq!(count(world, 1, 0), 63);
        assert!(world.tick());
        assert_eq!(count(world, 1, 0), 0);
        assert!(!world.tick());
        // Another CPU's tick does not count for this CPU.
        cache(world, 0, 1, 1);
        world.machine().run_on(1);
        assert!((0..10).all(|_| !world.tick()), "it is CPU 1's own node");
        assert_eq!(count(world, 1, 0), 63);
    });
}

#[test]
fn less_than_a_batch_is_drained_whole_and_an_empty_pageset_needs_no_ticks() {
    world(LINUX_6_18, |world| {
        cache(world, 0, 1, 40);
        world.drain();
        assert!(!world.tick(), "nothing is kept");
        world.machine().run_on(1);
        let pages: Vec<_> = (0..40).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
        world.machine().run_on(0);
        pages.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("was allocated"));
        assert_eq!(count(world, 1, 0), 40);
        let counts = [(); 4].map(|()| (world.at(1).tick(), count(world, 1, 0)));
        assert_eq!(counts, [(true, 40), (true, 40), (true, 0), (false, 0)]);
    });
}

/// For a CPU on a node without memory every zone is remote.
#[test]
fn a_node_without_memory_keeps_nothing_for_long() {
    world(LINUX_6_18, |world| {
        for node in [0, 1] {
            cache(world, 2, node, 10);
        }
        assert_eq!([0, 1].map(|zone| count(world, zone, 2)), [63, 63]);
        assert_eq!([(); 4].map(|()| world.tick()), [true, true, true, false]);
        assert_eq!([0, 1].map(|zone| count(world, zone, 2)), [0, 0]);
    });
}

/// Under auto-tuning, expiry adds to the decay, and each reports whether it has more to do.
#[test]
fn decay_and_expiry_share_a_tick() {
    world(LINUX_6_18, |world| {
        world.at(1).set_bounds(Bounds { batch: 63, high_min: 252, high_max: 2000 }).expect("room");
        cache(world, 0, 1, 200);
        // Specification 10.2, second case: count 441, high 693; ticks: 607 (0 drained), 532 (0), 466 (0), 408 (33).
        let state = || (world.pageset(1, CpuId(0)).state().high, count(world, 1, 0));
        assert_eq!(state(), (693, 441));
        let ticks = [(); 4].map(|()| (world.tick(), state()));
        assert_eq!(ticks, [(true, (607, 441)), (true, (532, 441)), (true, (466, 378)), (true, (408, 378))]);
    });
}
