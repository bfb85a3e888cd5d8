//! The slow path: reclaim is woken, the owner is asked, pagesets are drained, reserves are returned, and finally the
//! error. Specification 1.7, 8.1.

use std::cell::{Cell, RefCell};
use std::sync::mpsc;
use std::thread;

use crate::support::{Behaving, Behaviour, Known, World, build, movable, one_zone};
use pageset::alloc::owned::OwnedMetadata;
use pageset::alloc::shortage::Reason;
use pageset::machine::{Access, Line};
use pageset::policy::presets::*;
use pageset::policy::{Bounds, ListRule, Tuning, Watermarks};
use pageset::{
    Alloc, AllocError, Allocator, Config, CpuId, Free, FreeTo, MigrateType, MoveError, NodeId, Order, OutOfMemory,
    Owner, PageRange, Pfn, Request, Urgency, Wait, ZoneKind, ZoneSpec,
};

const BASE: u64 = 1 << 20;

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

/// An owner that frees some blocks at each call, and counts the calls.
struct Giving<'w, 'a> {
    world: &'w World<'a>,
    blocks: RefCell<Vec<(Pfn, Order)>>,
    at_once: usize,
    calls: Cell<u32>,
}

impl<'w, 'a> Giving<'w, 'a> {
    fn new(world: &'w World<'a>, blocks: Vec<(Pfn, Order)>, at_once: usize) -> Self {
        Giving { world, blocks: RefCell::new(blocks), at_once, calls: Cell::new(0) }
    }
}

impl Owner for Giving<'_, '_> {
    fn isolate(&self, _pfn: Pfn) -> Option<Order> {
        None
    }

    fn move_block(&self, _from: Pfn, _to: Pfn, _order: Order) -> Result<(), MoveError> {
        Err(MoveError::Busy)
    }

    fn put_back(&self, _pfn: Pfn, _order: Order) {}

    fn reclaim(&self, _request: &Request) -> u64 {
        self.calls.set(self.calls.get() + 1);
        let mut blocks = self.blocks.borrow_mut();
        let from = blocks.len().saturating_sub(self.at_once);
        let given = blocks.split_off(from);
        given.into_iter().map(|(pfn, order)| self.world.free(pfn, order).map_or(0, |()| order.pages())).sum()
    }
}

/// Allocates all memory in blocks of one order.
fn exhaust(world: &World<'_>, of: u8) -> Vec<(Pfn, Order)> {
    let request = Request { watermarks: false, ..movable(of) };
    std::iter::from_fn(|| world.alloc(&request).ok()).map(|pfn| (pfn, order(of))).collect()
}

fn out_of_memory(result: Result<Pfn, AllocError>) -> OutOfMemory {
    match result {
        Err(AllocError::OutOfMemory(shortage)) => shortage,
        other => panic!("{other:?}"),
    }
}

/// A zone without marks whose pages are all in use as blocks of one order.
fn full(of: u8, test: impl FnOnce(&World<'_>, Vec<(Pfn, Order)>)) {
    one_zone(LINUX_6_18, 4096, 2, |world| {
        world.at(0).set_watermarks(Watermarks::default(), [0; 4]);
        let blocks = exhaust(world, of);
        assert_eq!(blocks.len() as u64 * order(of).pages(), 4096);
        test(world, blocks);
        world.at(0).audit().expect("the audit passes");
    });
}

#[test]
fn the_owner_is_asked_only_where_nothing_else_helps() {
    one_zone(LINUX_6_18, 4096, 2, |world| {
        let owner = Giving::new(world, vec![], 1);
        world.at(0).set_watermarks(Watermarks { min: 100, low: 4096, high: 4096 }, [0; 4]);
        world.alloc_with(Alloc::new(&movable(4)).owner(&owner)).expect("above the min mark");
        assert_eq!(owner.calls.get(), 0);
        world.at(0).set_watermarks(Watermarks { min: 4096, low: 4096, high: 4096 }, [0; 4]);
        for wait in [Wait::Lock, Wait::Nothing] {
            out_of_memory(world.alloc_with(Alloc::new(&Request { wait, ..movable(4) }).owner(&owner)));
        }
        assert_eq!(owner.calls.get(), 0, "it cannot wait");
        let wrong = Request::new(order(4), MigrateType::Isolate);
        assert_eq!(
            world.alloc_with(Alloc::new(&wrong).owner(&owner)),
            Err(AllocError::Migratetype(MigrateType::Isolate))
        );
        assert_eq!(owner.calls.get(), 0, "nothing can help");
        out_of_memory(world.alloc_with(Alloc::new(&movable(4)).owner(&owner)));
        assert_eq!(owner.calls.get(), 1, "it gave nothing and is not asked again");
    });
}

#[test]
fn what_the_owner_frees_is_found() {
    full(0, |world, blocks| {
        // The page goes to this CPU's pageset, where watermarks do not count it; a drain makes it count.
        let owner = Giving::new(world, blocks, 1);
        let drains = world.at(0).stats().pagesets.drains;
        world.alloc_with(Alloc::new(&movable(0)).owner(&owner)).expect("one was given");
        assert_eq!((owner.calls.get(), world.at(0).stats().pagesets.drains), (1, drains + 1));
    });
    full(4, |world, blocks| {
        let owner = Giving::new(world, blocks, 1);
        let drains = world.at(0).stats().pagesets.drains;
        world.alloc_with(Alloc::new(&movable(4)).owner(&owner)).expect("one was given");
        assert_eq!((owner.calls.get(), world.at(0).stats().pagesets.drains), (1, drains), "nothing to drain");
    });
    full(0, |world, mut blocks| {
        // Another CPU's pageset is drained only after the owner has freed something.
        world.machine().run_on(1);
        for _ in 0..50 {
            let (pfn, order) = blocks.pop().expect("thousands");
            world.free(pfn, order).expect("was allocated");
        }
        world.machine().run_on(0);
        let last = blocks.pop().expect("thousands");
        out_of_memory(world.alloc_with(Alloc::new(&movable(0)).owner(&Giving::new(world, vec![], 1))));
        assert_eq!(world.at(0).stats().pagesets.count, 50);
        world.alloc_with(Alloc::new(&movable(0)).owner(&Giving::new(world, vec![last], 1))).expect("51 pages");
        let stats = world.at(0).stats();
        assert_eq!(stats.nr_free_pages + stats.pagesets.count, 50);
    });
}

/// The default rules drain other CPUs' pagesets before a request fails. The owner is asked before that. Otherwise CPUs would take pages from
/// one another while any CPU has some, and would not reclaim.
#[test]
fn the_owner_is_asked_before_pages_are_taken_from_other_cpus() {
    for (gives, left) in [(2000, 50), (0, 0)] {
        one_zone(PAGESET, 4096, 2, |world| {
            world.at(0).set_watermarks(Watermarks::default(), [0; 4]);
            let mut blocks = exhaust(world, 0);
            world.machine().run_on(1);
            for (pfn, order) in blocks.split_off(blocks.len() - 50) {
                world.free(pfn, order).expect("was allocated");
            }
            world.machine().run_on(0);
            let owner = Giving::new(world, blocks, gives);
            world.alloc_with(Alloc::new(&movable(0)).owner(&owner)).expect("the owner or the other CPU has some");
            assert_eq!((owner.calls.get(), world.pageset(0, CpuId(1)).state().count), (1, left), "{gives} given");
            world.at(0).audit().expect("the audit passes");
        });
    }
}

#[test]
fn retries_end() {
    use Reason::{NoBlock, Watermark};
    // Eight pages per call are less than a block of order 4.
    for (of, calls, reason) in [(1, 16, NoBlock), (3, 16, NoBlock), (4, 1, Watermark), (9, 1, Watermark)] {
        full(0, |world, blocks| {
            // Every other page: they never merge.
            let given = blocks.into_iter().step_by(2).collect();
            let owner = Giving::new(world, given, 8);
            let shortage = out_of_memory(world.alloc_with(Alloc::new(&movable(of)).owner(&owner)));
            assert_eq!(owner.calls.get(), calls, "order {of}");
            assert_eq!((shortage.reason, shortage.free_pages), (reason, u64::from(8 * calls)));
            assert_eq!(shortage.free_blocks[0], 8 * calls);
        });
    }
    full(0, |world, blocks| {
        // Adjacent pages, one per call: two make a block of order 1 if they are buddies.
        let owner = Giving::new(world, blocks, 1);
        world.alloc_with(Alloc::new(&movable(1)).owner(&owner)).expect("two buddies");
        assert_eq!(owner.calls.get(), 2);
    });
}

/// An owner that allocates and frees in its callback.
struct Busy<'w, 'a>(Giving<'w, 'a>);

impl Owner for Busy<'_, '_> {
    fn isolate(&self, pfn: Pfn) -> Option<Order> {
        self.0.isolate(pfn)
    }

    fn move_block(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), MoveError> {
        self.0.move_block(from, to, order)
    }

    fn put_back(&self, pfn: Pfn, order: Order) {
        self.0.put_back(pfn, order);
    }

    fn reclaim(&self, request: &Request) -> u64 {
        let own = Request { watermarks: false, ..*request };
        if let Ok(page) = self.0.world.alloc(&own) {
            self.0.world.free(page, own.order).expect("was allocated");
        }
        self.0.world.drain_all();
        // The call continues on another CPU.
        self.0.world.machine().run_on(1);
        self.0.reclaim(request)
    }
}

#[test]
fn the_owner_may_use_the_allocator() {
    full(0, |world, blocks| {
        let owner = Busy(Giving::new(world, blocks, 3));
        world.alloc_with(Alloc::new(&movable(0)).owner(&owner)).expect("three were given");
        let stats = world.at(0).stats();
        assert_eq!(stats.nr_free_pages + stats.pagesets.count, 2);
    });
}

#[test]
fn reserved_pageblocks_are_given_back_last_one_last() {
    // Only two reserved pageblocks are left; the owner frees a page that the request cannot use.
    let reserve = |world: &World<'_>| {
        for nth in [0, 1] {
            world.set_pageblock_type(Pfn(BASE + 512 * nth), MigrateType::HighAtomic).expect("the page is in the zone");
        }
        exhaust(world, 0)
    };
    let state = |world: &World<'_>| {
        let stats = world.at(0).stats();
        (stats.nr_reserved_highatomic, stats.nr_free_highatomic)
    };
    one_zone(LINUX_6_18, 4096, 2, |world| {
        world.at(0).set_watermarks(Watermarks::default(), [0; 4]);
        let mut blocks = reserve(world);
        assert_eq!((state(world), blocks.len()), ((1024, 1024), 3072));
        let request = Request::new(order(4), MigrateType::Unmovable);
        let page = |blocks: &mut Vec<_>| vec![blocks.swap_remove(0), blocks.swap_remove(2)];
        let owner = Giving::new(world, page(&mut blocks), 1);
        let got = world.alloc_with(Alloc::new(&request).owner(&owner)).expect("the first reserved pageblock");
        assert_eq!((owner.calls.get(), state(world)), (1, (512, 512)));
        assert_eq!(world.pageblock_type(got), Some(MigrateType::Unmovable), "the type that was wanted");
        // The other 31 blocks of the pageblock, then the last pageblock, which is returned by force: the owner frees
        // nothing more.
        let owner = Giving::new(world, vec![], 1);
        for _ in 1..32 {
            world.alloc_with(Alloc::new(&request).owner(&owner)).expect("of the same pageblock");
        }
        assert_eq!((owner.calls.get(), state(world)), (0, (512, 512)));
        world.alloc_with(Alloc::new(&request).owner(&owner)).expect("the last one");
        assert_eq!((owner.calls.get(), state(world)), (1, (0, 0)));
        while world.alloc(&request).is_ok() {}
        out_of_memory(world.alloc_with(Alloc::new(&request).owner(&owner)));
        world.at(0).audit().expect("the audit passes");
    });
    // A request that cannot wait does not reach that step.
    one_zone(LINUX_6_18, 4096, 2, |world| {
        world.at(0).set_watermarks(Watermarks::default(), [0; 4]);
        let blocks = reserve(world);
        let owner = Giving::new(world, blocks, 1);
        out_of_memory(world.alloc_with(Alloc::new(&Request { wait: Wait::Lock, ..movable(4) }).owner(&owner)));
        assert_eq!((owner.calls.get(), state(world)), (0, (1024, 1024)));
    });
}

/// DMA32 and NORMAL of one node, 4 pageblocks each.
fn two_zones(test: impl FnOnce(&World<'_>)) {
    let ranges = [[PageRange::new(Pfn(BASE), 2048)], [PageRange::new(Pfn(BASE + 2048), 2048)]];
    let spec = |kind, ranges: &'static [PageRange]| ZoneSpec { node: NodeId(0), kind, span: ranges[0], ranges };
    let leak = |ranges: [PageRange; 1]| -> &'static [PageRange] { Box::leak(Box::new(ranges)) };
    let zones = [spec(ZoneKind::Dma32, leak(ranges[0])), spec(ZoneKind::Normal, leak(ranges[1]))];
    build(&Config::new(&zones, &[NodeId(0)]), |world| {
        (0..2).for_each(|zone| world.at(zone).set_watermarks(Watermarks::default(), [0; 4]));
        test(world);
        for zone in 0..2 {
            world.at(zone).audit().expect("the audit passes");
        }
    });
}

#[test]
fn reclaim_is_woken_for_zones_below_low() {
    let marks = |low| Watermarks { min: 0, low, high: 2 * low };
    two_zones(|world| {
        world.alloc(&movable(4)).expect("memory");
        assert_eq!(world.machine().woken(), [], "there is enough");
        // NORMAL is short and DMA32 serves: the first attempt succeeds.
        world.at(1).set_watermarks(marks(3000), [0; 4]);
        let got = world.alloc(&movable(4)).expect("memory");
        assert_eq!((world.zone_of(got).map(|zone| zone.number()), world.machine().woken()), (Some(0), vec![]));
        world.at(0).set_watermarks(marks(3000), [0; 4]);
        let both = [(1, order(4), ZoneKind::Movable), (0, order(4), ZoneKind::Movable)];
        let got = world.alloc(&movable(4)).expect("above the min mark");
        assert_eq!((world.zone_of(got).map(|zone| zone.number()), world.machine().woken()), (Some(1), both.to_vec()));
        let low = Request { highest: ZoneKind::Dma32, ..movable(0) };
        world.alloc(&low).expect("above the min mark");
        assert_eq!(world.machine().woken(), [(0, Order::ZERO, ZoneKind::Dma32)], "only zones that it may use");
        for silent in [Request { wakes_reclaim: false, ..movable(4) }, Request { wait: Wait::Nothing, ..movable(4) }] {
            world.alloc(&silent).expect("above the min mark");
            assert_eq!(world.machine().woken(), [], "{silent:?}");
        }
        world.at(0).set_watermarks(marks(0), [0; 4]);
        exhaust(world, 10);
        world.machine().woken();
        out_of_memory(world.alloc(&movable(10)));
        let both = [(1, Order::MAX, ZoneKind::Movable), (0, Order::MAX, ZoneKind::Movable)];
        assert_eq!(world.machine().woken(), both, "and of a zone without such a block");
    });
}

#[test]
fn needs_reclaim_and_is_balanced() {
    two_zones(|world| {
        let balanced = |order, highest| world.node(NodeId(0)).is_balanced(order, highest);
        assert_eq!([0, 1].map(|zone| world.at(zone).needs_reclaim()), [false; 2]);
        let high = |high| Watermarks { min: 0, low: 0, high };
        world.at(0).set_watermarks(high(2047), [0; 4]);
        assert_eq!([0, 1].map(|zone| world.at(zone).needs_reclaim()), [false; 2], "one page above the mark");
        world.at(0).set_watermarks(high(2048), [0; 4]);
        assert_eq!([0, 1].map(|zone| world.at(zone).needs_reclaim()), [true, false]);
        // One balanced zone is enough.
        assert!(balanced(Order::ZERO, ZoneKind::Movable) && !balanced(Order::ZERO, ZoneKind::Dma32));
        assert!(balanced(Order::MAX, ZoneKind::Normal));
        assert!(balanced(Order::ZERO, ZoneKind::Dma), "no such zone, nothing to do");
        assert!(world.node(NodeId(7)).is_balanced(Order::ZERO, ZoneKind::Movable));
        exhaust(world, 10).iter().for_each(|&(pfn, of)| {
            world.split(pfn, of, order(9)).expect("was allocated");
            world.free_with(Free::block(pfn, order(9)).to(FreeTo::Buddy)).expect("was allocated");
        });
        assert!(!balanced(Order::MAX, ZoneKind::Normal) && balanced(order(9), ZoneKind::Normal));
        // The reserve counts by the waking request's highest zone.
        world.at(1).set_watermarks(high(1000), [0, 0, 0, 24]);
        assert!(balanced(Order::ZERO, ZoneKind::Normal) && !balanced(Order::ZERO, ZoneKind::Movable));
    });
}

#[test]
fn reclaim_is_active_up_to_a_zone() {
    // A pageset of a zone under reclaim keeps four batches. Specification 4.11.
    let kept = |world: &World<'_>, zone: usize| {
        let request = Request { zone: Some(zone), ..movable(0) };
        let pages: Vec<_> = (0..500).map(|_| world.alloc(&request).expect("memory")).collect();
        pages.into_iter().for_each(|pfn| world.free(pfn, Order::ZERO).expect("was allocated"));
        let kept = world.at(zone).stats().pagesets.count;
        world.drain_all();
        kept
    };
    two_zones(|world| {
        for zone in [0, 1] {
            world.at(zone).set_bounds(Bounds { batch: 10, high_min: 300, high_max: 300 }).expect("room");
        }
        let large = |world| [0, 1].map(|zone| kept(world, zone) > 100);
        assert_eq!(large(world), [true; 2]);
        world.node(NodeId(0)).set_reclaim_active(ZoneKind::Dma32, true);
        assert_eq!(large(world), [false, true]);
        world.node(NodeId(0)).set_reclaim_active(ZoneKind::Movable, true);
        assert_eq!(large(world), [false; 2]);
        world.node(NodeId(1)).set_reclaim_active(ZoneKind::Movable, false);
        assert_eq!(large(world), [false; 2], "another node");
        world.node(NodeId(0)).set_reclaim_active(ZoneKind::Movable, false);
        assert_eq!(large(world), [true; 2]);
    });
}

#[test]
fn out_of_memory_says_where_and_why() {
    two_zones(|world| {
        let marks = |min| Watermarks { min, low: min, high: min };
        // 2048 pages each. DMA32 lacks 952 pages of its mark and reserve, NORMAL only 462: NORMAL is the nearest zone.
        world.at(0).set_watermarks(marks(2900), [0, 0, 100, 100]);
        world.at(1).set_watermarks(marks(2000), [0, 0, 0, 510]);
        let shortage = out_of_memory(world.alloc(&movable(4)));
        assert_eq!((shortage.order, shortage.migratetype), (order(4), MigrateType::Movable));
        assert_eq!((shortage.zones, shortage.free_pages, shortage.cached_pages), (2, 4096, 0));
        assert_eq!(shortage.free_blocks[..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]);
        let nearest = shortage.nearest;
        assert_eq!(shortage.reason, Reason::Watermark);
        assert_eq!((nearest.zone, nearest.node, nearest.kind), (1, NodeId(0), ZoneKind::Normal));
        assert_eq!((nearest.free, nearest.for_others, nearest.mark, nearest.reserve), (2048, 0, 2000, 510));
        // Rights lower the mark: here 1050 and 100 suffice, 1950 do not.
        let oom = Request { urgency: Urgency::OomVictim, ..movable(10) };
        world.at(0).set_watermarks(marks(3900), [0, 0, 100, 100]);
        let nearest = out_of_memory(world.alloc(&Request { zone: Some(0), ..oom })).nearest;
        assert_eq!((nearest.mark, nearest.reserve), (1950, 100));
        // Pages unusable for the request, and pages in pagesets.
        world.at(0).set_watermarks(Watermarks::default(), [0; 4]);
        let page = world.alloc(&Request { zone: Some(0), ..movable(0) }).expect("memory");
        world.free(page, Order::ZERO).expect("was allocated");
        let cached = world.at(0).stats().pagesets.count;
        for (nth, to) in [(1, MigrateType::Cma), (2, MigrateType::HighAtomic)] {
            world.set_pageblock_type(Pfn(BASE + 512 * nth), to).expect("the page is in the zone");
        }
        world.at(0).set_watermarks(marks(2000), [0; 4]);
        let dma32 = Request { highest: ZoneKind::Dma32, ..Request::new(order(2), MigrateType::Unmovable) };
        let shortage = out_of_memory(world.alloc(&dma32));
        assert_eq!((shortage.zones, shortage.cached_pages, shortage.free_pages), (1, cached, 2048 - cached));
        assert_eq!((shortage.nearest.free, shortage.nearest.for_others), (2048 - cached, 1024));
        let pages: u64 = Order::all().map(|o| u64::from(shortage.free_blocks[o.index()]) * o.pages()).sum();
        assert_eq!(pages, shortage.free_pages);
        let text = AllocError::OutOfMemory(shortage).to_string();
        let free = 2048 - cached;
        assert!(
            text.starts_with(&format!(
                "no Unmovable block of order 2: zone DMA32 of node 0 has {free} pages free, 1024 of them \
                 unusable for this request; \
                 4 are needed above its min mark of 2000 and reserve of 0; zones tried: 1, pages free there: {free}, in \
                 blocks of order 0 to 10: "
            )) && text.ends_with(&format!("; {cached} more in pagesets")),
            "{text}"
        );
        // Enough pages, but not in one block; and a request without marks.
        world.at(0).set_watermarks(Watermarks::default(), [0; 4]);
        let huge = Request { order: order(9), cma: true, ..dma32 };
        let blocks: Vec<_> = std::iter::from_fn(|| world.alloc(&huge).ok()).collect();
        for &block in &blocks[..2] {
            world.split(block, order(9), order(8)).expect("was allocated");
            world.free_with(Free::block(block, order(8)).to(FreeTo::Buddy)).expect("was allocated");
        }
        for watermarks in [true, false] {
            let shortage = out_of_memory(world.alloc(&Request { watermarks, ..huge }));
            assert_eq!(shortage.reason, Reason::NoBlock);
            let text = AllocError::OutOfMemory(shortage).to_string();
            let reason = "request; that is above its marks, but no block of this order is usable; zones tried: 1";
            assert!(text.contains(reason), "{text}");
        }
    });
}

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
    /// The channel on which this thread reports that it holds a zone lock, and waits to go on.
    static STOP: RefCell<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>> = const { RefCell::new(None) };
}

/// A machine that can suspend a thread while it holds a zone lock.
struct Stopping;

impl Behaviour for Stopping {
    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn probe(&self, access: Access) {
        if let Access::Touch(Line::Zone { .. }) = access
            && let Some((held, go_on)) = STOP.take()
        {
            held.send(()).expect("somebody waits for it");
            go_on.recv().expect("somebody says so");
        }
    }
}

#[test]
fn a_request_that_never_waits_skips_held_locks() {
    let range = PageRange::new(Pfn(BASE), 4096);
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: range, ranges: &[range] }];
    // Bitmaps serve such a request without a lock.
    let tuning = Tuning { lists: ListRule::HugeByMobility, ..PAGESET_LISTS };
    let config = Config { tuning, ..Config::new(&zones, &[NodeId(0), NodeId(0)]) };
    let metadata = OwnedMetadata::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let world = Allocator::new(Behaving(&Stopping), &config, metadata.lend(&mut zones)).expect("the map is valid");
    let nothing = |of| Request { wait: Wait::Nothing, ..movable(of) };
    // With free locks the request gets the same blocks as others.
    let free: Vec<_> = [0, 1, 4].map(|of| (world.alloc(&nothing(of)).expect("memory"), order(of))).into();
    free.iter().for_each(|&(pfn, of)| world.free(pfn, of).expect("was allocated"));
    let (held, is_held) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            CPU.set(1);
            STOP.set(Some((held, goes_on)));
            world.alloc(&movable(4))
        });
        is_held.recv().expect("the other thread is there");
        // This CPU's pageset serves the request. Blocks of any order that need the zone lock are refused.
        let cached = world.alloc(&nothing(0)).expect("in the pageset");
        world.free_with(Free::block(cached, Order::ZERO).to(FreeTo::PagesetUndrained)).expect("was allocated");
        let before = world.at(0).stats();
        for of in [2, 4, 9, 10] {
            let shortage = out_of_memory(world.alloc(&nothing(of)));
            assert_eq!(shortage.reason, Reason::Busy, "order {of}");
            assert!(
                AllocError::OutOfMemory(shortage).to_string().contains("but its lock was held or its block was taken")
            );
        }
        assert_eq!(world.at(0).stats(), before, "nothing has changed");
        go_on.send(()).expect("it waits");
        other.join().expect("no panic").expect("memory");
    });
    for of in [2, 4, 9, 10] {
        world.alloc(&nothing(of)).expect("the lock is free again");
    }
    world.at(0).audit().expect("the audit passes");
}

/// An owner that frees nothing but lets pages move.
struct MovesAll;

impl Owner for MovesAll {
    fn isolate(&self, _pfn: Pfn) -> Option<Order> {
        Some(Order::ZERO)
    }

    fn move_block(&self, _from: Pfn, _to: Pfn, _order: Order) -> Result<(), MoveError> {
        Ok(())
    }

    fn put_back(&self, _pfn: Pfn, _order: Order) {}
}

/// All free pages are in the pageset of another CPU, and too scattered to merge. The owner reclaims nothing, so that pageset is drained.
/// Its pages then give a compaction room.
#[test]
fn pages_of_other_cpus_make_room_for_a_compaction() {
    let tuning = Tuning { backing: PAGESET.backing.with_stores(false, false), ..PAGESET };
    one_zone(tuning, 8 * 512, 2, |world| {
        world.at(0).set_watermarks(Watermarks::default(), [0; 4]);
        let pages = exhaust(world, 0);
        world.machine().run_on(1);
        for &(pfn, order) in pages.iter().step_by(64) {
            world.free(pfn, order).expect("allocated");
        }
        world.machine().run_on(0);
        world.at(0).set_bounds(Bounds::DISABLED).expect("room");
        assert_eq!((world.pageset(0, CpuId(1)).state().count, world.at(0).stats().nr_free_pages), (64, 0));
        world.alloc_with(Alloc::new(&movable(3)).owner(&MovesAll)).expect("64 pages are free, and all others can move");
    });
}

/// Half of the memory is free, page by page, and all of the rest can move. The async compaction scans only pageblocks
/// of the request's own type. The compaction after reclaim scans all, also if reclaim freed nothing.
#[test]
fn scattered_memory_is_compacted_without_a_page_reclaimed() {
    for migratetype in [MigrateType::Movable, MigrateType::Unmovable] {
        one_zone(LINUX_6_18, 8 * 512, 1, |world| {
            world.at(0).set_watermarks(Watermarks::default(), [0; 4]);
            world.at(0).set_bounds(Bounds::DISABLED).expect("room");
            let pages = exhaust(world, 0);
            pages.iter().step_by(2).for_each(|&(pfn, order)| world.free(pfn, order).expect("allocated"));
            let request = Request::new(order(6), migratetype);
            world.alloc(&request).expect_err("only single pages are free");
            world.alloc_with(Alloc::new(&request).owner(&MovesAll)).expect("compaction makes it");
            world.at(0).audit().expect("the audit passes");
        });
    }
}

/// Marks at the end of their range are marks that no request passes.
#[test]
fn marks_above_all_memory_keep_everything() {
    one_zone(LINUX_6_18, 4096, 1, |world| {
        for (marks, reserve) in [([u64::MAX; 3], [1; 4]), ([1, 2, u64::MAX], [u64::MAX; 4])] {
            let [min, low, high] = marks;
            world.at(0).set_watermarks(Watermarks { min, low, high }, reserve);
            out_of_memory(world.alloc(&movable(0)));
            out_of_memory(world.alloc(&Request { urgency: Urgency::High, wait: Wait::Lock, ..movable(4) }));
            let report = world.compact(&movable(9), pageset::CompactMode::Sync, &MovesAll);
            assert_eq!(report.moved, 0, "{report:?}");
            world.alloc(&Request { watermarks: false, ..movable(0) }).expect("marks do not count");
        }
    });
}
