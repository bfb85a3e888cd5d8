//! Drains by request: the pagesets that each drains, and its behaviour while another drain runs. Specification 8.1.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Behaving, Behaviour, Known, movable};
use pageset::alloc::owned::OwnedMetadata;
use pageset::machine::Access;
use pageset::policy::presets::LINUX_6_18;
use pageset::{
    Alloc, AllocError, Allocator, Config, CpuId, LockPath, MigrateType, MoveError, NodeId, Order, Owner, PageRange,
    Pfn, Request, Tuning, ZoneKind, ZoneSpec,
};

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// A machine that can suspend a drain of zone 0, until another thread waits for it.
#[derive(Default)]
struct HoldUp {
    armed: AtomicBool,
    held_up: AtomicBool,
    go_on: AtomicBool,
    waits: AtomicU32,
}

impl Behaviour for HoldUp {
    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn probe(&self, access: Access) {
        if access == (Access::ZoneLock { zone: 0, region: 0, path: LockPath::Drain }) && self.armed.swap(false, SeqCst)
        {
            self.held_up.store(true, SeqCst);
            let since = Instant::now();
            // The time is limited, so that a missing wait is a failure.
            while !self.go_on.load(SeqCst) && since.elapsed() < Duration::from_secs(20) {
                thread::yield_now();
            }
        }
    }

    fn relax(&self) {
        self.waits.fetch_add(1, SeqCst);
        self.go_on.store(true, SeqCst);
        thread::yield_now();
    }
}

/// Two zones, two CPUs, pages of each zone in each pageset.
fn world(test: impl FnOnce(&Allocator<'_, Behaving<'_>>, &HoldUp)) {
    world_under(Tuning::default(), test);
}

/// As [`world`], under other rules.
fn world_under(tuning: Tuning, test: impl FnOnce(&Allocator<'_, Behaving<'_>>, &HoldUp)) {
    let ranges = [1, 2].map(|at| [PageRange::new(Pfn(at << 20), 1 << 14)]);
    let zone = |node: usize| ZoneSpec {
        node: NodeId(node as u32),
        kind: ZoneKind::Normal,
        span: ranges[node][0],
        ranges: &ranges[node],
    };
    let specs = [zone(0), zone(1)];
    let config = Config { tuning, ..Config::new(&specs, &[NodeId(0), NodeId(1)]) };
    let metadata = OwnedMetadata::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let machine = HoldUp::default();
    let world = Allocator::new(Behaving(&machine), &config, metadata.lend(&mut zones)).expect("the map is valid");
    for cpu in [0, 1] {
        CPU.set(cpu);
        for node in [0, 1] {
            let request = Request { node: Some(NodeId(node)), ..movable(0) };
            let pfn = world.alloc(&request).expect("memory");
            world.free(pfn, Order::ZERO).expect("was allocated");
        }
    }
    CPU.set(0);
    assert!(counts(&world).iter().flatten().all(|&kept| kept));
    test(&world, &machine);
}

/// Whether each pageset holds pages, by zone and CPU.
fn counts(world: &Allocator<'_, Behaving<'_>>) -> [[bool; 2]; 2] {
    [0, 1].map(|zone| [0, 1].map(|cpu| world.pageset(zone, CpuId(cpu)).state().count > 0))
}

#[test]
fn each_drain_empties_its_pagesets() {
    world(|world, _| {
        CPU.set(1);
        world.at(0).drain_local();
        assert_eq!(counts(world), [[true, false], [true, true]]);
    });
    world(|world, _| {
        world.drain();
        assert_eq!(counts(world), [[false, true], [false, true]]);
    });
    world(|world, _| {
        world.at(1).drain_all();
        assert_eq!(counts(world), [[true, true], [false, false]]);
    });
    world(|world, machine| {
        world.drain_all();
        world.drain_all();
        world.at(0).drain_all();
        assert_eq!(counts(world), [[false, false]; 2]);
        assert_eq!(machine.waits.load(SeqCst), 0, "each drain ends before the next begins");
    });
}

#[test]
fn a_drain_does_its_work_while_another_one_runs() {
    world(|world, machine| {
        machine.armed.store(true, SeqCst);
        thread::scope(|scope| {
            let first = scope.spawn(|| world.drain_all());
            while !machine.held_up.load(SeqCst) {
                thread::yield_now();
            }
            // Of a zone that the first has not reached: in the other one it holds the lock of a pageset.
            world.at(1).drain_all();
            let left = counts(world);
            machine.go_on.store(true, SeqCst);
            assert_eq!(left[1], [false, false], "the second drain does not wait for the first, nor leave it the work");
            first.join().expect("it does not panic");
            assert_eq!(counts(world), [[false, false]; 2]);
            assert_eq!(machine.waits.load(SeqCst), 0);
        });
    });
}

/// An owner that reports progress once, but frees nothing: so a request drains for reclaim, and asks again.
struct Promising<F>(Cell<u32>, F);

impl<F: Fn(u32)> Owner for Promising<F> {
    fn isolate(&self, _pfn: Pfn) -> Option<Order> {
        None
    }

    fn move_block(&self, _from: Pfn, _to: Pfn, _order: Order) -> Result<(), MoveError> {
        Err(MoveError::Busy)
    }

    fn put_back(&self, _pfn: Pfn, _order: Order) {}

    fn reclaim(&self, _request: &Request) -> u64 {
        let call = self.0.replace(self.0.get() + 1);
        self.1(call);
        u64::from(call == 0)
    }
}

/// Of requests that find no memory, one drains for all.
#[test]
fn one_request_at_a_time_drains_for_reclaim() {
    // Without the drains that a request makes before it fails.
    world_under(LINUX_6_18, |world, machine| {
        // CPU 1 keeps its pages, and CPU 0 gets a page of each zone back.
        let all: Vec<_> = std::iter::from_fn(|| world.alloc(&movable(0)).ok()).collect();
        for node in [0, 1] {
            let span = world.at(node).span();
            let pfn = all.iter().find(|pfn| (span.start..span.end()).contains(pfn)).expect("of this zone");
            world.free(*pfn, Order::ZERO).expect("was allocated");
        }
        assert_eq!(counts(world), [[true; 2]; 2]);
        // Another type than that of the pages in the pagesets.
        let request = Request::new(Order::ZERO, MigrateType::Unmovable);
        thread::scope(|scope| {
            let first = scope.spawn(|| {
                let arm = |call| machine.armed.store(call == 0, SeqCst);
                let _ = world.alloc_with(Alloc::new(&request).owner(&Promising(Cell::new(0), arm)));
            });
            while !machine.held_up.load(SeqCst) {
                thread::yield_now();
            }
            CPU.set(1);
            let asked_again = Cell::new(None);
            let owner = Promising(Cell::new(0), |call| asked_again.set((call == 1).then(|| counts(world))));
            let found = world.alloc_with(Alloc::new(&request).owner(&owner));
            machine.go_on.store(true, SeqCst);
            let is_refused = matches!(found, Err(AllocError::OutOfMemory(_)));
            assert!(is_refused, "the second request has no pages of a drain: {found:?}");
            let left = asked_again.get().expect("it asks the owner twice");
            assert_eq!(left[1], [true, true], "the second request leaves the drain to the first");
            first.join().expect("it does not panic");
            assert_eq!(counts(world)[1], [false, false], "the first request drains for both");
        });
    });
}

/// A disable drains itself while another drain runs, so the pagesets are empty when it returns.
#[test]
fn a_disable_does_not_rely_on_another_drain() {
    world(|world, machine| {
        machine.armed.store(true, SeqCst);
        thread::scope(|scope| {
            scope.spawn(|| world.drain_all());
            while !machine.held_up.load(SeqCst) {
                thread::yield_now();
            }
            world.at(1).disable_pagesets();
            let left = counts(world);
            machine.go_on.store(true, SeqCst);
            assert_eq!(left[1], [false, false]);
        });
    });
}
