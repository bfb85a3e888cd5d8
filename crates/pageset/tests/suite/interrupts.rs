//! Interrupts that call the allocator: nothing waits for the code that the interrupt stopped.
//!
//! The machine of these tests masks interrupts while a zone's lock is held, and not while a pageset's lock is held. An
//! interrupt comes at those reports of the probe that the test selects, unless it is masked.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::support::{Known, movable};
use pageset::alloc::owned::OwnedMetadata;
use pageset::machine::{Access, Line};
use pageset::policy::Bounds;
use pageset::policy::presets::{CLUSTERS_FREE, LINUX_6_19, PAGESET, PCP_BUDDY_LIST, PCP_CLAIM};
use pageset::{
    AllocError, Allocator, Config, CpuId, Free, FreeTo, Immovable, Machine, MigrateType, NodeId, Order, PageRange, Pfn,
    RawLock, Request, Tuning, ZoneKind, ZoneSpec,
};

thread_local! {
    /// How often interrupts are masked.
    static MASKED: Cell<u32> = const { Cell::new(0) };
    /// What an interrupt does, while interrupts may come, and how many came.
    static INTERRUPT: Cell<Option<fn()>> = const { Cell::new(None) };
    static COMES_AT: Cell<fn(Access) -> bool> = const { Cell::new(anywhere) };
    /// Whether nothing masks it: an NMI.
    static UNMASKABLE: Cell<bool> = const { Cell::new(false) };
    static INTERRUPTS: Cell<u32> = const { Cell::new(0) };
    static WORLD: Cell<Option<&'static World>> = const { Cell::new(None) };
    /// A page that interrupts allocated and the next one frees.
    static PAGE: Cell<Option<Pfn>> = const { Cell::new(None) };
}

/// A lock that masks interrupts, unless a pageset's was only tried. A wait for it would last for ever.
#[derive(Debug, Default)]
struct Lock {
    held: AtomicBool,
    masks: AtomicBool,
}

impl RawLock for Lock {
    fn lock(&self) {
        assert!(self.try_lock(), "waits for a lock that this CPU holds");
    }

    fn try_lock(&self) -> bool {
        let taken = !self.held.swap(true, SeqCst);
        if taken {
            self.masks.store(true, SeqCst);
            MASKED.set(MASKED.get() + 1);
        }
        taken
    }

    fn unlock(&self) {
        if self.masks.swap(false, SeqCst) {
            MASKED.set(MASKED.get() - 1);
        }
        self.held.store(false, SeqCst);
    }
}

fn anywhere(_access: Access) -> bool {
    true
}

/// Before the lock of a zone is taken, often with a pageset's lock held.
fn before_zone_locks(access: Access) -> bool {
    matches!(access, Access::ZoneLock { .. })
}

/// At a page's metadata. Without the zone's lock, only refills and drains of clusters touch it.
fn at_pages(access: Access) -> bool {
    matches!(access, Access::Touch(Line::Page(_)))
}

type World = Allocator<'static, OneCpu>;

struct OneCpu;

impl Machine for OneCpu {
    type Lock = Lock;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }

    fn try_lock_pageset(&self, lock: &Lock, _cpu: CpuId) -> bool {
        !lock.held.swap(true, SeqCst)
    }

    fn lock_pageset(&self, lock: &Lock, _cpu: CpuId) {
        assert_eq!(MASKED.get(), 0, "waits for a pageset with another lock held, or interrupts masked");
        assert!(!lock.held.swap(true, SeqCst), "waits for a pageset that this CPU holds");
    }

    fn without_interrupts<R>(&self, work: impl FnOnce() -> R) -> R {
        MASKED.set(MASKED.get() + 1);
        let result = work();
        MASKED.set(MASKED.get() - 1);
        result
    }

    fn probe(&self, access: Access) {
        if MASKED.get() > 0 && !UNMASKABLE.get() || !COMES_AT.get()(access) {
            return;
        }
        // No interrupt comes within an interrupt.
        let Some(interrupt) = INTERRUPT.take() else { return };
        INTERRUPTS.set(INTERRUPTS.get() + 1);
        interrupt();
        INTERRUPT.set(Some(interrupt));
    }

    fn relax(&self) {
        panic!("waits for work of this CPU");
    }
}

/// The pages of the zone: 1 GiB, so that clusters have the batch of real machines.
const PAGES: u64 = 1 << 18;

/// An allocator of one zone. Each test leaks some.
fn world(tuning: Tuning) -> &'static World {
    let ranges: &'static [PageRange] = Box::leak(Box::new([PageRange::new(Pfn(0), PAGES)]));
    let zones = Box::leak(Box::new([ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges }]));
    let config = Config { tuning, ..Config::new(zones, &[NodeId(0)]) };
    let metadata: &'static OwnedMetadata<OneCpu> = Box::leak(Box::new(OwnedMetadata::new(&config).expect("a map")));
    let world = Allocator::new(OneCpu, &config, metadata.lend(metadata.zones().leak())).expect("a map");
    let world = Box::leak(Box::new(world));
    WORLD.set(Some(world));
    world
}

fn interrupted() -> &'static World {
    WORLD.get().expect("the test made a world")
}

/// Allocates a page and frees the one of the interrupt before it.
fn exchange_page() {
    let page = interrupted().alloc(&movable(0)).ok();
    if let Some(before) = PAGE.replace(page) {
        interrupted().free(before, Order::ZERO).expect("an interrupt allocated it");
    }
}

/// Runs `work` with interrupts. Returns how many came.
fn with_interrupts(at: fn(Access) -> bool, interrupt: fn(), work: impl FnOnce()) -> u32 {
    COMES_AT.set(at);
    INTERRUPTS.set(0);
    INTERRUPT.set(Some(interrupt));
    work();
    INTERRUPT.set(None);
    INTERRUPTS.get()
}

/// Allocates and frees the zone's pages, so that there are refills and drains.
fn work(world: &World) {
    let pages: Vec<_> = (0..1500).map(|_| world.alloc(&movable(0)).expect("memory")).collect();
    pages.into_iter().for_each(|page| world.free(page, Order::ZERO).expect("allocated"));
    let blocks: Vec<_> = (0..20).map(|_| world.alloc(&movable(5)).expect("memory")).collect();
    let order = Order::new(5).expect("an order");
    blocks.into_iter().for_each(|block| world.free(block, order).expect("allocated"));
}

fn ends_well(world: &World) {
    if let Some(page) = PAGE.take() {
        world.free(page, Order::ZERO).expect("an interrupt allocated it");
    }
    assert_eq!(world.at(0).audit().expect("balanced books").in_use, 0);
}

#[test]
fn interrupts_allocate_and_free() {
    for at in [anywhere, before_zone_locks] {
        for tuning in [PAGESET, LINUX_6_19, CLUSTERS_FREE, PCP_CLAIM, PCP_BUDDY_LIST] {
            let world = world(tuning);
            assert!(with_interrupts(at, exchange_page, || work(world)) > 5);
            ends_well(world);
        }
    }
}

/// A timer's interrupt ticks and drains in the middle of a call that has the pageset.
#[test]
fn interrupts_tick_and_drain() {
    thread_local! {
        static LEFT: Cell<u32> = const { Cell::new(0) };
    }
    fn interrupt() {
        let world = interrupted();
        let (more, drained) = (world.tick(), world.drain());
        // A pageset that is in use is left for later, and both calls say so.
        assert!(drained || more);
        LEFT.set(LEFT.get() + u32::from(!drained));
        exchange_page();
    }
    for tuning in [PAGESET, LINUX_6_19, CLUSTERS_FREE, PCP_CLAIM, PCP_BUDDY_LIST] {
        let world = world(tuning);
        world.at(0).set_bounds(Bounds { batch: 31, high_min: 62, high_max: 62 }).expect("room");
        assert!(with_interrupts(before_zone_locks, interrupt, || work(world)) > 20);
        assert!(LEFT.replace(0) > 20, "no interrupt met a pageset in use");
        assert!(world.drain());
        ends_well(world);
    }
}

/// A refill that takes whole clusters writes their pages' tags without the zone's lock. An interrupt meanwhile would wait for
/// that refill, if it claims a pageblock.
#[test]
fn refills_of_clusters_mask_interrupts() {
    fn interrupt() {
        let unmovable = Request::new(Order::ZERO, MigrateType::Unmovable);
        PAGE.set(interrupted().alloc(&unmovable).ok());
    }
    let world = world(CLUSTERS_FREE);
    work(world);
    assert!(world.drain());
    let taken = world.at(0).stats().cluster_alloc_pages;
    let mut page = Err(AllocError::Node(NodeId(0)));
    with_interrupts(at_pages, interrupt, || page = world.alloc(&movable(0)));
    assert!(world.at(0).stats().cluster_alloc_pages > taken, "the refill took no cluster");
    world.free(page.expect("memory"), Order::ZERO).expect("allocated");
    ends_well(world);
}

/// An NMI meanwhile finds the zone's lock free, and must not take it: a claim of a pageblock would wait for the refill.
#[test]
fn calls_that_wait_for_nothing_wait_for_no_refill_of_clusters() {
    fn interrupt() {
        let unmovable = Request::new(Order::ZERO, MigrateType::Unmovable);
        if let Some(before) = PAGE.replace(interrupted().non_blocking().alloc(&unmovable).ok()) {
            interrupted()
                .free_with(Free::block(before, Order::ZERO).to(FreeTo::Deferred))
                .expect("an interrupt allocated it");
        }
    }
    let world = world(CLUSTERS_FREE);
    // No pageblock is free as a whole: a request of another type claims one that is partly free.
    let pins = || (0..PAGES).step_by(512).map(Pfn);
    pins().for_each(|page| assert!(world.alloc_at(page, Order::ZERO)));
    work(world);
    assert!(world.drain());
    let taken = world.at(0).stats().cluster_alloc_pages;
    UNMASKABLE.set(true);
    let came = with_interrupts(at_pages, interrupt, || work(world));
    UNMASKABLE.set(false);
    assert!(
        came > 20 && world.at(0).stats().cluster_alloc_pages > taken,
        "{came} interrupts, the refills took no cluster"
    );
    pins().for_each(|page| world.free(page, Order::ZERO).expect("allocated"));
    ends_well(world);
}

/// A free that takes no lock: the next holds of the zone's lock complete it.
#[test]
fn interrupts_defer_frees() {
    fn interrupt() {
        let world = interrupted();
        let page = world.alloc(&movable(3)).ok();
        if let Some(before) = PAGE.replace(page) {
            let order = Order::new(3).expect("an order");
            world.free_with(Free::block(before, order).to(FreeTo::Deferred)).expect("an interrupt allocated it");
            let twice =
                world.free_with(Free::block(before, order).to(FreeTo::Deferred)).expect_err("its free is deferred");
            assert!(twice.to_string().ends_with("it is free, in a pageset"), "{twice}");
        }
    }
    let world = world(PAGESET);
    assert!(with_interrupts(anywhere, interrupt, || work(world)) > 5);
    world.free(PAGE.take().expect("the last one"), Order::new(3).expect("an order")).expect("allocated");
    ends_well(world);
    world.drain();
    assert_eq!(world.at(0).stats().nr_free_pages, PAGES);
}

/// Changes of settings wait for pagesets, perhaps with an interrupt of another CPU, so they hold no other lock then:
/// `lock_pageset` checks it.
#[test]
fn changes_hold_no_lock_while_they_wait_for_pagesets() {
    let world = world(PAGESET);
    let page = world.alloc(&movable(0)).expect("memory");
    world.set_high_fraction(8).expect("a fraction");
    world.at(0).disable_pagesets();
    world.at(0).enable_pagesets().expect("disabled");
    world.recompute();
    world.tick_cpu(CpuId(0));
    world.drain_cpu(CpuId(0));
    let state = world.pageset(0, CpuId(0)).state();
    world.pageset(0, CpuId(0)).restore(&state);
    let range = PageRange::new(Pfn(2048), 1024);
    world.offline(range, &Immovable).expect("free memory");
    world.online(range).expect("offline");
    world.alloc_range(range, MigrateType::Movable, &Immovable).expect("free memory");
    world.free_with(Free::whole_blocks(range)).expect("allocated");
    world.free(page, Order::ZERO).expect("allocated");
    ends_well(world);
}
