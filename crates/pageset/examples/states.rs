//! What the entry points cost in each state of a zone, for `ci/states.sh` to count under valgrind.
//!
//! `states list` prints the names of the states. `states run STATE` brings an allocator into that state, makes [`CALLS`] calls of each
//! entry point, each through a function `subject::CALL` that valgrind counts, and prints the calls that failed there.
//! `states reasons` prints why hot calls of a state cost more than three times their best: the state, the calls, the reason.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::presets::{LINUX_6_18, PAGESET};
use pageset::policy::sizes::WatermarkRule;
use pageset::policy::{Bounds, Watermarks};
use pageset::{
    Alloc, AllocFrom, Allocator, Block, Config, CpuId, Free, FreeTo, Immovable, Machine, MigrateType, NodeId, Order,
    PageRange, Pfn, RegionRule, Request, SpinLock, Tuning, Urgency, Wait, ZoneKind, ZoneSpec,
};

/// Pages of a zone: 1 GiB.
const PAGES: u64 = 1 << 18;
/// Calls of each entry point.
const CALLS: usize = 48;
/// Pages of a bulk call.
const BULK: usize = 32;

struct FirstCpu;

impl Machine for FirstCpu {
    type Lock = SpinLock;

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

type World<'a> = Allocator<'a, FirstCpu>;
type Bulk = [Block; BULK];

const fn request(order: u8, migratetype: MigrateType) -> Request {
    match Order::new(order) {
        Some(order) => Request::new(order, migratetype),
        None => panic!("an order"),
    }
}

const SINGLE: Request = request(0, MigrateType::Movable);
/// As [`SINGLE`], whatever the marks.
const ANY: Request = Request { watermarks: false, ..SINGLE };
const UNMOVABLE: Request = request(0, MigrateType::Unmovable);
const THREE: Request = request(3, MigrateType::Movable);
const FOUR: Request = request(4, MigrateType::Movable);
const NINE: Request = request(9, MigrateType::Movable);

/// Functions that each make one call, twice: valgrind counts those of `subject`, and those of `warm` prepare. The compiler would merge
/// equal functions, so each counted one has its name in it: four instructions.
macro_rules! calls {
    ($($name:ident($world:ident $(, $arg:ident: $type:ty)*) -> $result:ty $body:block)*) => {
        mod subject {
            use super::*;
            $(
                #[inline(never)]
                pub(super) fn $name($world: &World<'_> $(, $arg: $type)*) -> $result {
                    let _ = black_box(stringify!($name));
                    $body
                }
            )*
        }
        mod warm {
            use super::*;
            $(#[inline(never)] pub(super) fn $name($world: &World<'_> $(, $arg: $type)*) -> $result $body)*
        }
    };
}

calls! {
    alloc(world) -> Option<Pfn> { world.alloc(&SINGLE).ok() }
    free(world, page: Pfn) -> bool { world.free(page, Order::ZERO).is_ok() }
    alloc_unmovable(world) -> Option<Pfn> { world.alloc(&UNMOVABLE).ok() }
    free_unmovable(world, page: Pfn) -> bool { world.free(page, Order::ZERO).is_ok() }
    alloc_3(world) -> Option<Pfn> { world.alloc(&THREE).ok() }
    free_3(world, page: Pfn) -> bool { world.free(page, THREE.order).is_ok() }
    alloc_9(world) -> Option<Pfn> { world.alloc(&NINE).ok() }
    free_9(world, page: Pfn) -> bool { world.free(page, NINE.order).is_ok() }
    alloc_non_blocking(world) -> Option<Pfn> { world.non_blocking().alloc(&SINGLE).ok() }
    free_undrained(world, page: Pfn) -> bool { world.free_with(Free::block(page, Order::ZERO).to(FreeTo::PagesetUndrained)).is_ok() }
    alloc_direct(world) -> Option<Pfn> { world.alloc_with(Alloc::new(&SINGLE).from(AllocFrom::Buddy)).ok() }
    free_direct(world, page: Pfn) -> bool { world.free_with(Free::block(page, Order::ZERO).to(FreeTo::Buddy)).is_ok() }
    alloc_exact(world) -> Option<Pfn> { world.alloc_with(Alloc::new(&SINGLE).pages(3)).ok() }
    free_exact(world, page: Pfn) -> bool { world.free_range(PageRange::new(page, 3)).is_ok() }
    alloc_4(world) -> Option<Pfn> { world.alloc(&FOUR).ok() }
    free_part(world, page: Pfn) -> bool { world.free_range(PageRange::new(page, 16)).is_ok() }
    alloc_contig(world) -> Option<Pfn> { world.alloc_with(Alloc::new(&SINGLE).pages(12).aligned(4).owner(&Immovable)).ok() }
    free_contig(world, page: Pfn) -> bool { world.free_range(PageRange::new(page, 12)).is_ok() }
    refill(world) -> Option<Pfn> { world.alloc(&SINGLE).ok() }
    free_deferred(world, page: Pfn) -> bool { world.free_with(Free::block(page, Order::ZERO).to(FreeTo::Deferred)).is_ok() }
    alloc_bulk(world, pages: &mut [Pfn; BULK]) -> bool { world.alloc_bulk(&SINGLE, pages) == Ok(BULK) }
    free_bulk(world, blocks: &Bulk) -> bool { world.free_bulk(blocks).is_ok() }
    drain(world) -> () { black_box(world.drain()); }
    tick(world) -> () { black_box(world.tick()); }
}

type Take = fn(&World<'_>) -> Option<Pfn>;
type Give = fn(&World<'_>, Pfn) -> bool;
type Call = fn(&World<'_>);

/// An allocation and the free of its block.
struct Pair {
    names: [&'static str; 2],
    /// Blocks in use at once.
    held: usize,
    /// A block of the same size, without marks: for a free in a state where the allocation fails.
    block: Request,
    take: [Take; 2],
    give: [Give; 2],
}

macro_rules! pair {
    ($take:ident, $give:ident, $held:literal, $block:expr) => {
        Pair {
            names: [stringify!($take), stringify!($give)],
            held: $held,
            block: Request { watermarks: false, ..$block },
            take: [warm::$take, subject::$take],
            give: [warm::$give, subject::$give],
        }
    };
}

const PAIRS: [Pair; 9] = [
    pair!(alloc, free, 16, SINGLE),
    pair!(alloc_unmovable, free_unmovable, 16, UNMOVABLE),
    pair!(alloc_3, free_3, 4, THREE),
    pair!(alloc_9, free_9, 1, NINE),
    pair!(alloc_non_blocking, free_undrained, 16, SINGLE),
    pair!(alloc_direct, free_direct, 16, SINGLE),
    pair!(alloc_exact, free_exact, 4, request(2, MigrateType::Movable)),
    pair!(alloc_4, free_part, 4, FOUR),
    pair!(alloc_contig, free_contig, 4, request(4, MigrateType::Movable)),
];

/// Makes every call in a state. Returns the names of the calls that failed.
fn run(world: &World<'_>, state: &State) -> BTreeSet<&'static str> {
    let mut failed = BTreeSet::new();
    let mut note = |name, succeeded: bool| {
        if !succeeded {
            failed.insert(name);
        }
    };
    for pair in &PAIRS {
        for round in 0..2 + CALLS / pair.held {
            let counted = usize::from(round >= 2);
            if round == 2 {
                (state.before)(world);
            }
            let mut blocks = Vec::new();
            for _ in 0..pair.held {
                let taken = pair.take[counted](world);
                if counted == 1 {
                    note(pair.names[0], taken.is_some());
                }
                blocks.extend(taken.or_else(|| world.alloc(&pair.block).ok()));
            }
            if blocks.len() < pair.held {
                note(pair.names[1], false);
            }
            for block in blocks {
                let given = pair.give[counted](world, block);
                assert!(given, "{} of a block in use", pair.names[1]);
            }
        }
    }
    for round in 0..2 + CALLS {
        if round == 2 {
            (state.before)(world);
        }
        let mut pages = [Pfn(0); BULK];
        if round < 2 {
            warm::alloc_bulk(world, &mut pages);
        } else {
            note("alloc_bulk", subject::alloc_bulk(world, &mut pages));
        }
        let there = |page: Pfn| if page == Pfn(0) { world.alloc(&ANY).ok() } else { Some(page) };
        let block = |pfn| Block { pfn, order: Order::ZERO };
        let blocks: Vec<_> = pages.into_iter().filter_map(there).map(block).collect();
        let give = if round < 2 { warm::free_bulk } else { subject::free_bulk };
        match blocks.first_chunk() {
            Some(blocks) => assert!(give(world, blocks), "pages in use"),
            None => note("free_bulk", false),
        }
    }
    for round in 0..2 + CALLS {
        let calls: (Take, Give, Call, Call) = if round < 2 {
            (warm::refill, warm::free_deferred, warm::drain, warm::tick)
        } else {
            (subject::refill, subject::free_deferred, subject::drain, subject::tick)
        };
        world.drain();
        if round == 2 {
            (state.before)(world);
        }
        let page = calls.0(world);
        if round >= 2 {
            note("refill", page.is_some());
        }
        if let Some(page) = page.or_else(|| world.alloc(&ANY).ok()) {
            assert!(calls.1(world, page), "a page in use");
            calls.2(world);
            calls.3(world);
        }
    }
    failed
}
/// The machine of a state.
#[derive(Clone, Copy)]
struct Shape {
    tuning: Tuning,
    /// The node and the kind of each zone.
    zones: &'static [(u32, ZoneKind)],
    /// The node of each CPU.
    cpus: &'static [NodeId],
    pages: u64,
    watermarks: WatermarkRule,
}

const NORMAL: (u32, ZoneKind) = (0, ZoneKind::Normal);
const ONE: Shape = Shape {
    tuning: PAGESET,
    zones: &[NORMAL],
    cpus: &[NodeId(0)],
    pages: PAGES,
    watermarks: WatermarkRule { min_free_kbytes: None, huge_pages: false, scale_factor: 10, boost_factor: 0 },
};
const BOOSTS: Shape =
    Shape { watermarks: WatermarkRule { boost_factor: WatermarkRule::KERNEL_BOOST_FACTOR, ..ONE.watermarks }, ..ONE };
const TWO_CPUS: Shape = Shape { cpus: &[NodeId(0); 2], ..ONE };
const REGIONS: Shape =
    Shape { tuning: Tuning { backing: PAGESET.backing.with_regions(RegionRule::Fixed(4)), ..PAGESET }, ..TWO_CPUS };
const DMA32: Shape = Shape { zones: &[(0, ZoneKind::Dma32), NORMAL], ..ONE };
const NODES: Shape = Shape { zones: &[NORMAL, (1, ZoneKind::Normal)], cpus: &[NodeId(0), NodeId(1)], ..ONE };
const KERNEL: Shape = Shape { tuning: LINUX_6_18, ..ONE };

/// A state of zone 0, which is the first that requests try.
struct State {
    name: &'static str,
    shape: Shape,
    /// Brings the zone into the state.
    age: fn(&World<'_>),
    /// Does so again for what the calls change, before each entry point is counted.
    before: fn(&World<'_>),
    /// The hot calls that cost more than three times their best, and why.
    slow: &'static [(&'static str, &'static str)],
}

const FRESH: State = State { name: "fresh", shape: ONE, age: |_| {}, before: |_| {}, slow: &[] };

const STATES: &[State] = &[
    FRESH,
    State { name: "one-page-per-4-MiB", age: |world| pin(world, 1024), ..FRESH },
    State { name: "one-page-per-2-MiB", age: |world| pin(world, 512), ..FRESH },
    State { name: "one-page-per-64-KiB", age: |world| pin(world, 16), ..FRESH },
    State { name: "every-other-page", age: |world| pin(world, 2), ..FRESH },
    State {
        name: "50-percent-in-use",
        age: |world| fill(world, 50),
        slow: &[("alloc_3", "the free lists have no block of order 3: the mark test finds one in a bitmap")],
        ..FRESH
    },
    State {
        name: "90-percent-in-use",
        age: |world| fill(world, 90),
        slow: &[("alloc_unmovable", "types share pageblocks: each refill takes parts of other types' pageblocks")],
        ..FRESH
    },
    State {
        name: "99-percent-in-use",
        age: |world| fill(world, 99),
        slow: &[(
            "alloc alloc_unmovable free free_bulk",
            "the zone is at its marks: the marks are tested for each request, and pagesets keep little",
        )],
        ..FRESH
    },
    State { name: "a-day-of-mixed-orders", age: day, ..FRESH },
    State { name: "one-unmovable-block", age: |world| retype(world, 100, MigrateType::Unmovable), ..FRESH },
    State { name: "half-unmovable", age: |world| retype(world, 2, MigrateType::Unmovable), ..FRESH },
    State { name: "half-reclaimable", age: |world| retype(world, 2, MigrateType::Reclaimable), ..FRESH },
    State {
        name: "half-cma",
        age: |world| retype(world, 2, MigrateType::Cma),
        slow: &[(
            "free_bulk",
            "pages in CMA pageblocks have tags of another type: no run, and each is checked and freed by itself; can be mended",
        )],
        ..FRESH
    },
    State { name: "half-isolated", age: |world| retype(world, 2, MigrateType::Isolate), ..FRESH },
    State { name: "unmovable-exhausted", age: |world| exhaust(world, MigrateType::Unmovable), ..FRESH },
    State { name: "movable-exhausted", age: |world| exhaust(world, MigrateType::Movable), ..FRESH },
    State {
        name: "highatomic-reserve",
        age: reserve,
        slow: &[(
            "free free_3 free_9",
            "the zone was below its high mark and no tick has come since: each free moves high, as below",
        )],
        ..FRESH
    },
    State {
        name: "below-high",
        before: |world| marks(world, [0, 0, 1]),
        slow: &[
            (
                "alloc alloc_3 alloc_9 alloc_non_blocking alloc_unmovable",
                "below the high mark each request tests the marks",
            ),
            ("free free_3 free_9 free_bulk", "below the high mark each free lowers high: specification 4.8"),
        ],
        ..FRESH
    },
    State {
        name: "below-low",
        before: |world| marks(world, [0, 1, 1]),
        slow: &[
            (
                "alloc alloc_3 alloc_9 alloc_bulk alloc_non_blocking alloc_unmovable",
                "below the low mark each request fails there, wakes reclaim and tries the min mark",
            ),
            ("free free_3 free_9 free_bulk", "below the high mark each free lowers high: specification 4.8"),
        ],
        ..FRESH
    },
    State {
        name: "below-min",
        before: |world| marks(world, [1, 1, 1]),
        slow: &[("free free_3 free_9 free_bulk", "below the high mark each free lowers high: specification 4.8")],
        ..FRESH
    },
    State { name: "high-mark-just-met", age: |world| marks_at(world, 4096), ..FRESH },
    State { name: "boosted", shape: BOOSTS, age: boost, ..FRESH },
    State {
        name: "reclaim-active",
        before: |world| world.zone(0).expect("a zone").set_reclaim_active(true),
        slow: &[(
            "alloc_9 alloc_bulk free free_3 free_9 free_bulk",
            "each free lowers high to four batches, and the pagesets drain: specification 4.6",
        )],
        ..FRESH
    },
    State { name: "deferred-frees", before: defer, ..FRESH },
    State { name: "depot-full", age: |world| drains(world, 1 << 15), ..FRESH },
    State {
        name: "pagesets-disabled",
        age: |world| world.zone(0).expect("a zone").disable_pagesets(),
        slow: &[(
            "alloc alloc_3 alloc_9 alloc_bulk alloc_non_blocking alloc_unmovable free free_3 free_9 free_bulk \
             free_unmovable",
            "the pagesets keep nothing: each block is split or merged under the zone's lock",
        )],
        ..FRESH
    },
    State {
        name: "small-pagesets",
        age: small_pagesets,
        slow: &[(
            "alloc_3 alloc_9 alloc_bulk free_3 free_9 free_bulk",
            "the blocks in use at once are more pages than the 24 that a pageset may keep: each round has refills and drains",
        )],
        ..FRESH
    },
    State { name: "half-offline", age: half_offline, ..FRESH },
    State {
        name: "small-zone",
        shape: Shape { pages: 1 << 13, ..ONE },
        slow: &[("alloc_9 free_9", "a huge page is more than the pageset of a zone of 32 MiB may keep")],
        ..FRESH
    },
    State { name: "other-cpu-offline", shape: TWO_CPUS, age: |world| offline(world, 1), ..FRESH },
    State {
        name: "this-cpu-offline",
        shape: TWO_CPUS,
        age: |world| offline(world, 0),
        slow: &[(
            "alloc alloc_3 alloc_9 alloc_bulk alloc_non_blocking alloc_unmovable free free_3 free_9 free_bulk free_unmovable",
            "the CPU's pageset keeps nothing: each block is split or merged under the zone's lock",
        )],
        ..FRESH
    },
    State {
        name: "four-regions",
        shape: REGIONS,
        slow: &[("alloc_9", "two CPUs share the zone: a pageset keeps fewer huge pages, and some calls refill")],
        ..FRESH
    },
    State {
        name: "four-regions-pinned",
        shape: REGIONS,
        age: |world| pin(world, 1024),
        slow: &[("alloc_9", "two CPUs share the zone: a pageset keeps fewer huge pages, and some calls refill")],
        ..FRESH
    },
    State {
        name: "first-region-full",
        shape: REGIONS,
        age: |world| take_all(world, 0, PAGES / 4),
        slow: &[("alloc_9", "two CPUs share the zone: a pageset keeps fewer huge pages, and some calls refill")],
        ..FRESH
    },
    State {
        name: "last-region-free",
        shape: REGIONS,
        age: |world| take_all(world, 0, 3 * PAGES / 4),
        slow: &[("alloc_9", "two CPUs share the zone: a pageset keeps fewer huge pages, and some calls refill")],
        ..FRESH
    },
    State { name: "dma32-and-normal", shape: DMA32, ..FRESH },
    State {
        name: "normal-full",
        shape: DMA32,
        age: |world| take_all(world, PAGES, PAGES),
        slow: &[(
            "alloc alloc_3 alloc_9 alloc_bulk alloc_non_blocking alloc_unmovable",
            "the preferred zone is full: its marks are tested first",
        )],
        ..FRESH
    },
    State { name: "two-nodes", shape: NODES, ..FRESH },
    State {
        name: "own-node-full",
        shape: NODES,
        age: |world| take_all(world, 0, PAGES),
        slow: &[(
            "alloc alloc_3 alloc_9 alloc_bulk alloc_non_blocking alloc_unmovable",
            "the preferred zone is full: its marks are tested first",
        )],
        ..FRESH
    },
    State {
        name: "linux-6.18",
        shape: KERNEL,
        slow: &[("free_bulk", "32 pages are more than one hold of the kernel's rules, 31")],
        ..FRESH
    },
    State {
        name: "linux-6.18-pinned",
        shape: KERNEL,
        age: |world| pin(world, 1024),
        slow: &[("free_bulk", "32 pages are more than one hold of the kernel's rules, 31")],
        ..FRESH
    },
    State {
        name: "linux-6.18-90-percent",
        shape: KERNEL,
        age: |world| fill(world, 90),
        slow: &[
            ("alloc_unmovable", "types share pageblocks: each refill takes parts of other types' pageblocks"),
            ("free_bulk", "32 pages are more than one hold of the kernel's rules, 31"),
        ],
        ..FRESH
    },
];

/// The first page of zone 0.
const BASE: u64 = 1 << 20;

/// Takes one page of each `every`.
fn pin(world: &World<'_>, every: u64) {
    (0..PAGES).step_by(every as usize).for_each(|page| assert!(world.alloc_at(Pfn(BASE + page), Order::ZERO)));
}

/// Takes all free blocks of a part of memory.
fn take_all(world: &World<'_>, start: u64, pages: u64) {
    (start..start + pages).step_by(1024).for_each(|page| assert!(world.alloc_at(Pfn(BASE + page), Order::MAX)));
}

/// Numbers below `below`, the same in each run.
fn random(below: u64) -> u64 {
    static STATE: AtomicU64 = AtomicU64::new(0x9E37_79B9_7F4A_7C15);
    let mut next = STATE.load(Relaxed);
    next ^= next << 13;
    next ^= next >> 7;
    next ^= next << 17;
    STATE.store(next, Relaxed);
    next % below
}

/// All memory in use as single pages; then some at random are free.
fn fill(world: &World<'_>, percent: u64) {
    let pages: Vec<_> = std::iter::from_fn(|| world.alloc(&ANY).ok()).collect();
    for page in pages {
        if random(100) >= percent {
            world.free(page, Order::ZERO).expect("in use");
        }
    }
}

/// Allocations and frees of all orders and types, with half of memory in use.
fn day(world: &World<'_>) {
    let (mut held, mut pages) = (Vec::new(), 0);
    for _ in 0..100_000 {
        let order = [0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 4, 5, 9][random(13) as usize];
        let migratetype = if random(10) == 0 { MigrateType::Unmovable } else { MigrateType::Movable };
        let wanted = request(order, migratetype);
        if let Ok(page) = world.alloc(&wanted) {
            held.push((page, wanted.order));
            pages += wanted.order.pages();
        }
        while pages > PAGES / 2 {
            let (page, order) = held.swap_remove(random(held.len() as u64) as usize);
            world.free(page, order).expect("in use");
            pages -= order.pages();
        }
    }
}

/// Changes the type of one pageblock of each `every`.
fn retype(world: &World<'_>, every: usize, migratetype: MigrateType) {
    let starts = (0..PAGES).step_by(512).step_by(every);
    starts.for_each(|page| world.set_pageblock_type(Pfn(BASE + page), migratetype).expect("in a zone"));
}

/// Half of the pageblocks are of this type, and those are in use.
fn exhaust(world: &World<'_>, migratetype: MigrateType) {
    retype(world, 2, MigrateType::Unmovable);
    let first = if migratetype == MigrateType::Unmovable { 0 } else { 512 };
    let blocks = (first..PAGES).step_by(1024);
    blocks.for_each(|page| assert!(world.alloc_at(Pfn(BASE + page), NINE.order)));
}

/// Pageblocks that are reserved for urgent requests.
fn reserve(world: &World<'_>) {
    let urgent = Request { urgency: Urgency::High, wait: Wait::Lock, ..request(1, MigrateType::Unmovable) };
    marks(world, [1, 1, 1]);
    let page = world.alloc(&urgent);
    world.recompute();
    assert!(world.zone(0).expect("a zone").stats().nr_reserved_highatomic > 0, "a reserve after {page:?}");
}

/// Sets each mark to more than the free pages where `above`, else to 0.
fn marks(world: &World<'_>, above: [u64; 3]) {
    let [min, low, high] = above.map(|above| above * 2 * PAGES);
    world.zone(0).expect("a zone").set_watermarks(Watermarks { min, low, high }, [0; 4]);
}

/// Sets the marks so that `room` pages more than the high mark are free.
fn marks_at(world: &World<'_>, room: u64) {
    let high = world.zone(0).expect("a zone").stats().nr_free_pages - room;
    world.zone(0).expect("a zone").set_watermarks(Watermarks { min: high / 2, low: high / 2, high }, [0; 4]);
}

/// The marks are boosted: a request took part of another type's pageblock.
fn boost(world: &World<'_>) {
    for page in (0..PAGES).step_by(512) {
        let taken = world.alloc_at(Pfn(BASE + page + 256), Order::new(8).expect("an order"));
        assert!(taken, "a free block");
    }
    world.alloc_with(Alloc::new(&UNMOVABLE).from(AllocFrom::Buddy)).expect("memory");
    assert!(world.zone(0).expect("a zone").stats().watermark_boost > 0, "a boost");
}

/// Some frees are deferred.
fn defer(world: &World<'_>) {
    let pages: Vec<_> = (0..8).filter_map(|_| world.alloc(&SINGLE).ok()).collect();
    pages
        .iter()
        .for_each(|&page| world.free_with(Free::block(page, Order::ZERO).to(FreeTo::Deferred)).expect("in use"));
}

/// Many single pages were allocated and freed.
fn drains(world: &World<'_>, pages: usize) {
    let pages: Vec<_> = (0..pages).map(|_| world.alloc(&SINGLE).expect("memory")).collect();
    pages.iter().for_each(|&page| world.free(page, Order::ZERO).expect("in use"));
}

fn small_pagesets(world: &World<'_>) {
    world.zone(0).expect("a zone").set_bounds(Bounds { batch: 8, high_min: 24, high_max: 24 }).expect("valid");
}

fn half_offline(world: &World<'_>) {
    world.offline(PageRange::new(Pfn(BASE), PAGES / 2), &Immovable).expect("free memory");
}

fn offline(world: &World<'_>, cpu: u32) {
    world.cpu_offline(CpuId(cpu)).expect("two CPUs");
}

fn run_in_world(state: &State) -> Result<(), Box<dyn std::error::Error>> {
    let shape = state.shape;
    let ranges: Vec<_> =
        (0..shape.zones.len() as u64).map(|zone| [PageRange::new(Pfn(BASE + zone * PAGES), shape.pages)]).collect();
    let zones: Vec<_> = ranges
        .iter()
        .zip(shape.zones)
        .map(|(ranges, &(node, kind))| ZoneSpec { node: NodeId(node), kind, span: ranges[0], ranges })
        .collect();
    let config = Config { tuning: shape.tuning, watermarks: shape.watermarks, ..Config::new(&zones, shape.cpus) };
    let metadata: OwnedMetadata<FirstCpu> = OwnedMetadata::new(&config)?;
    let mut zones = metadata.zones();
    let world = Allocator::new(FirstCpu, &config, metadata.lend(&mut zones))?;
    (state.age)(&world);
    run(&world, state).iter().for_each(|call| println!("{call}"));
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => STATES.iter().for_each(|state| println!("{}", state.name)),
        ["run", name] => {
            run_in_world(STATES.iter().find(|state| state.name == name).ok_or("no such state; try list")?)?
        }
        ["reasons"] => {
            for state in STATES {
                state.slow.iter().for_each(|(calls, reason)| println!("{}: {calls}: {reason}", state.name));
            }
        }
        _ => return Err("usage: states list | states run STATE | states reasons".into()),
    }
    Ok(())
}
