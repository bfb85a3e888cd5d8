//! The cost of each entry point, for `ci/costs.sh` to count under valgrind: instructions, atomic ones among them, locks taken, and
//! cache lines written.
//!
//! `costs list` prints the names. `costs run NAME` makes 48 calls of equal cost, each through a function `subject_NAME`, which
//! valgrind counts. `costs locks NAME` prints the number of calls, and of the locks that they took together. `costs lines NAME`
//! prints the number of calls, and writes [`MARK`] at the begin and the end of each, for valgrind's trace of all writes; `costs mark`
//! prints the address of that word. Names that end with an [`AGES`] entry run in memory with a past. Names with `half` allocate or free
//! half of the memory, and names with `held` some blocks, again and again: refills and drains have their share of each call.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::Bounds;
use pageset::{
    AllocError, Allocator, Block, Config, CpuId, Free, FreeCheck, FreeError, FreeTo, Machine, MigrateType, NodeId,
    Order, PageRange, Pfn, RawLock, Request, SpinLock, Tuning, ZoneKind, ZoneSpec,
};

/// The number of counted calls. Fewer than a batch, so that none of the cheap calls meets a refill or a drain.
const CALLS: usize = 48;
/// Pages of the zone: 4 GiB.
const PAGES: u64 = 1 << 20;
/// Pages of a bulk call.
const BULK: usize = 32;
/// Blocks that are in use at once in names with `held`.
const HELD: usize = 32;
/// Pages of a refill or a drain: the batch of a zone of this size.
const BATCH: u32 = 63;

/// Locks taken, each with one atomic exchange. The only other atomic read-modify-write operation of these paths claims a
/// block that is freed: see `FreeCheck`.
static LOCKS: AtomicU64 = AtomicU64::new(0);

/// Not 0 in a call that is counted: a reader of a trace finds its writes between two writes of this word.
static MARK: AtomicU64 = AtomicU64::new(0);

/// The lock of an allocator, which names what is counted.
trait Counted: RawLock {
    /// The most calls of a name with `half`. A trace has some hundred lines for each.
    const MOST: usize = usize::MAX;

    /// A counted call begins, or ends.
    #[inline(always)]
    fn mark(begins: bool) {
        let _ = begins;
    }
}

impl Counted for SpinLock {}

/// The allocator's own lock, for `costs lines`.
#[derive(Debug, Default)]
struct MarkingLock(SpinLock);

impl RawLock for MarkingLock {
    fn lock(&self) {
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    fn unlock(&self) {
        self.0.unlock();
    }
}

impl Counted for MarkingLock {
    const MOST: usize = 1 << 13;

    fn mark(begins: bool) {
        MARK.store(begins.into(), Relaxed);
    }
}

/// The allocator's own lock with a counter. The counter adds two instructions, a load and a store; the lock count and
/// the instruction count come from different builds.
#[derive(Debug, Default)]
struct CountingLock(SpinLock);

impl RawLock for CountingLock {
    fn lock(&self) {
        LOCKS.store(LOCKS.load(Relaxed) + 1, Relaxed);
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        LOCKS.store(LOCKS.load(Relaxed) + 1, Relaxed);
        self.0.try_lock()
    }

    fn unlock(&self) {
        self.0.unlock();
    }
}

impl Counted for CountingLock {}

/// A machine whose CPU number is one load.
struct OneCpu<L> {
    number: AtomicU32,
    lock: std::marker::PhantomData<L>,
}

impl<L: RawLock> Machine for OneCpu<L> {
    type Lock = L;

    #[inline(always)]
    fn cpu(&self) -> CpuId {
        CpuId(self.number.load(Relaxed))
    }
}

type World<'a, L> = Allocator<'a, OneCpu<L>>;

const SINGLE: Request = Request::new(Order::ZERO, MigrateType::Movable);

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

macro_rules! subjects {
    ($($name:ident($world:ident, $($arg:ident: $type:ty),*) -> $result:ty $body:block)*) => {
        $(
            // The function returns what the call returns, as a caller's own function would with `?`.
            #[inline(never)]
            fn $name<L: Counted>($world: &World<'_, L>, $($arg: $type),*) -> $result $body
        )*
    };
}

subjects! {
    subject_harness(_world, page: Pfn) -> Result<Pfn, AllocError> { Ok(black_box(page)) }
    subject_alloc(world,) -> Result<Pfn, AllocError> { world.alloc(&SINGLE) }
    subject_free(world, page: Pfn) -> Result<(), FreeError> { world.free(page, Order::ZERO) }
    subject_alloc_of(world, request: &Request) -> Result<Pfn, AllocError> { world.alloc(request) }
    subject_free_of(world, page: Pfn, order: Order) -> Result<(), FreeError> { world.free(page, order) }
    subject_alloc_bulk(world, pages: &mut [Pfn; BULK]) -> Result<usize, AllocError> { world.alloc_bulk(&SINGLE, pages) }
    subject_alloc_bulk_of(world, request: &Request, pages: &mut [Pfn; BULK]) -> Result<usize, AllocError> {
        world.alloc_bulk(request, pages)
    }
    subject_free_bulk(world, blocks: &[Block; BULK]) -> Result<(), FreeError> { world.free_bulk(blocks) }
    subject_refill(world,) -> Result<Pfn, AllocError> { world.alloc(&SINGLE) }
    subject_drain(world, page: Pfn) -> Result<(), FreeError> { world.free(page, Order::ZERO) }
    subject_free_direct(world, page: Pfn) -> Result<(), FreeError> { world.free_with(Free::block(page, Order::ZERO).to(FreeTo::Buddy)) }
}

/// Makes a counted call.
#[inline(always)]
fn count_call<L: Counted, T, E: std::fmt::Debug>(call: impl FnOnce() -> Result<T, E>) -> T {
    L::mark(true);
    let result = call();
    L::mark(false);
    result.expect("memory is there, and each freed block was in use")
}

/// The names of the entry points.
const NAMES: [&str; 46] = [
    "harness",
    "alloc",
    "free",
    "alloc-order-3",
    "free-order-3",
    "alloc-order-9",
    "free-order-9",
    "alloc-bulk-32",
    "free-bulk-32",
    "alloc-bulk-32-order-2",
    "free-bulk-32-order-2",
    "alloc-bulk-32-order-3",
    "free-bulk-32-order-3",
    "alloc-bulk-32-order-9",
    "free-bulk-32-order-9",
    "refill-63",
    "refill-63-depot",
    "drain-63",
    "drain-63-lists",
    "alloc-order-5",
    "free-direct",
    "free-basic",
    "free-order-9-basic",
    "free-bulk-32-all",
    "alloc-half-0",
    "free-half-0",
    "alloc-half-3",
    "free-half-3",
    "alloc-half-9",
    "free-half-9",
    "alloc-half-10",
    "free-half-10",
    "alloc-held-3-96m",
    "free-held-3-96m",
    "alloc-held-4-96m",
    "free-held-4-96m",
    "alloc-old-4m",
    "free-old-4m",
    "alloc-old-2m",
    "free-old-2m",
    "alloc-old-64k",
    "free-old-64k",
    "alloc-order-3-old-64k",
    "free-order-3-old-64k",
    "alloc-old-90",
    "free-old-90",
];

/// Pages of a zone whose every 64 KiB, or every page, has a past: 256 MiB, for valgrind follows each access of the preparation.
const FEWER_PAGES: u64 = 1 << 16;

/// A past of the memory: the end of a name, the zone's pages, and what happened to it.
type Age = (&'static str, u64, fn(&dyn Past));

/// The pasts. No free block is as large as 4 MiB, 2 MiB or 64 KiB after the first three, as after a day of use; in the next, nine of ten
/// pages are in use, here and there. The last is a new zone of 96 MiB, where batches are small.
const AGES: [Age; 5] = [
    ("-old-4m", PAGES, |world| world.use_one_page_of(1 << 10)),
    ("-old-2m", PAGES, |world| world.use_one_page_of(1 << 9)),
    ("-old-64k", FEWER_PAGES, |world| world.use_one_page_of(1 << 4)),
    ("-old-90", FEWER_PAGES, |world| world.use_nine_of_ten_pages()),
    ("-96m", 96 << 8, |_| {}),
];

/// What ages an allocator, whatever its lock.
trait Past {
    fn use_one_page_of(&self, pages: u64);
    fn use_nine_of_ten_pages(&self);
}

impl<L: Counted> Past for World<'_, L> {
    fn use_one_page_of(&self, pages: u64) {
        let mut starts = (0..self.zone(0).expect("a zone").stats().managed).step_by(pages as usize);
        assert!(starts.all(|page| self.alloc_at(Pfn(page), Order::ZERO)), "memory is fresh");
        self.drain_all();
    }

    fn use_nine_of_ten_pages(&self) {
        let mut pages: Vec<_> = std::iter::from_fn(|| self.alloc(&SINGLE).ok()).collect();
        // A linear congruence, so that each run has the same past. Constants: Knuth's.
        let mut state = 1_u64;
        for last in (1..pages.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            pages.swap(last, (state >> 33) as usize % (last + 1));
        }
        pages.iter().take(pages.len() / 10).for_each(|&page| self.free(page, Order::ZERO).expect("was allocated"));
        self.drain_all();
    }
}

/// Ends of the names of entry points of allocators with other checks of frees than the default.
const CHECKS: [(&str, FreeCheck); 2] = [("-basic", FreeCheck::Basic), ("-all", FreeCheck::All)];

/// Allocates some blocks of one order and frees them again, with bounds as for a machine: first `uncounted` times, then `counted` times. Returns
/// the number of calls that were counted.
fn rounds<L: Counted>(
    world: &World<'_, L>,
    order: Order,
    held: usize,
    [uncounted, counted]: [usize; 2],
    allocs: bool,
) -> usize {
    let request = Request::new(order, MigrateType::Movable);
    let mut pages = vec![Pfn(0); held];
    let mut locks = 0;
    for round in 0..uncounted + counted {
        let counts = round >= uncounted;
        LOCKS.store(0, Relaxed);
        for page in &mut pages {
            if counts && allocs {
                *page = count_call::<L, _, _>(|| subject_alloc_of(world, &request));
            } else {
                *page = world.alloc(&request).expect("memory");
            }
        }
        let of_allocs = LOCKS.swap(0, Relaxed);
        for page in &mut pages {
            if counts && !allocs {
                count_call::<L, _, _>(|| subject_free_of(world, *page, order));
            } else {
                world.free(*page, order).expect("was allocated");
            }
        }
        if counts {
            locks += if allocs { of_allocs } else { LOCKS.load(Relaxed) };
        }
    }
    LOCKS.store(locks, Relaxed);
    counted * held
}

/// Runs the calls of one name. Returns how many were counted.
fn run<L: Counted>(world: &World<'_, L>, name: &str, calls: usize) -> usize {
    // Half of the memory, most calls miss; and as many blocks as a program may hold.
    if let Some((what, number)) = name.split_once("-half-") {
        let order = order(number.parse().expect("an order"));
        let half = (PAGES as usize / 2) >> order.get();
        return rounds(world, order, half.min(L::MOST), [1, 1], what == "alloc");
    }
    if let Some((what, number)) = name.split_once("-held-") {
        return rounds(world, order(number.parse().expect("an order")), HELD, [4, 8], what == "alloc");
    }
    let mut pages = [Pfn(0); CALLS];
    let pages = &mut pages[..calls];
    let bounds = |high| Bounds { batch: BATCH, high_min: high, high_max: high };
    // The bounds are so large that nothing is drained. Pages of all sizes are cached.
    world.zone(0).expect("a zone").set_bounds(bounds(1 << 15)).expect("room");
    let each_order = |order: u8| Request::new(self::order(order), MigrateType::Movable);
    let with_order = |number: u8, pages: &mut [Pfn], allocs: bool| {
        let (request, order) = (each_order(number), order(number));
        // Two rounds: the first one fills the pageset.
        for _ in 0..2 {
            for page in pages.iter_mut() {
                *page = world.alloc(&request).expect("memory");
            }
            pages.iter().for_each(|&page| world.free(page, order).expect("was allocated"));
        }
        LOCKS.store(0, Relaxed);
        for page in pages.iter_mut() {
            if allocs {
                *page = count_call::<L, _, _>(|| subject_alloc_of(world, &request))
            } else {
                *page = world.alloc(&request).expect("memory")
            }
        }
        if !allocs {
            LOCKS.store(0, Relaxed);
            pages.iter().for_each(|&page| count_call::<L, _, _>(|| subject_free_of(world, page, order)));
        }
    };
    match name {
        "harness" => {
            LOCKS.store(0, Relaxed);
            pages.iter_mut().for_each(|page| *page = count_call::<L, _, _>(|| subject_harness(world, *page)));
        }
        "alloc" | "free" => {
            for _ in 0..2 {
                pages.iter_mut().for_each(|page| *page = world.alloc(&SINGLE).expect("memory"));
                pages.iter().for_each(|&page| world.free(page, Order::ZERO).expect("was allocated"));
            }
            LOCKS.store(0, Relaxed);
            if name == "alloc" {
                pages.iter_mut().for_each(|page| *page = count_call::<L, _, _>(|| subject_alloc(world)));
            } else {
                pages.iter_mut().for_each(|page| *page = world.alloc(&SINGLE).expect("memory"));
                LOCKS.store(0, Relaxed);
                pages.iter().for_each(|&page| count_call::<L, _, _>(|| subject_free(world, page)));
            }
        }
        "alloc-order-3" => with_order(3, pages, true),
        "free-order-3" => with_order(3, pages, false),
        "alloc-order-5" => with_order(5, pages, true),
        "alloc-order-9" => with_order(9, pages, true),
        "free-order-9" => with_order(9, pages, false),
        _ if name.contains("-bulk-32") => {
            let (name, number) = name.split_once("-order-").unwrap_or((name, "0"));
            let order = order(number.parse().expect("an order"));
            let request = Request::new(order, MigrateType::Movable);
            let mut locks = 0;
            for round in 0..=calls {
                let mut some = [Pfn(0); BULK];
                LOCKS.store(0, Relaxed);
                if name == "alloc-bulk-32" && round > 0 {
                    let got = count_call::<L, _, _>(|| {
                        if order == Order::ZERO {
                            subject_alloc_bulk(world, &mut some)
                        } else {
                            subject_alloc_bulk_of(world, &request, &mut some)
                        }
                    });
                    assert_eq!(got, BULK);
                    locks += LOCKS.load(Relaxed);
                } else {
                    assert_eq!(world.alloc_bulk(&request, &mut some), Ok(BULK));
                }
                let blocks = some.map(|pfn| Block { pfn, order });
                LOCKS.store(0, Relaxed);
                if name == "free-bulk-32" && round > 0 {
                    count_call::<L, _, _>(|| subject_free_bulk(world, &blocks));
                    locks += LOCKS.load(Relaxed);
                } else {
                    world.free_bulk(&blocks).expect("were allocated");
                }
            }
            LOCKS.store(locks, Relaxed);
        }
        "refill-63" => {
            let mut locks = 0;
            for page in pages {
                world.drain();
                // The state after a pause: a refill takes one batch.
                world.zone(0).expect("a zone").pageset(CpuId(0)).expect("a CPU").restore(&Default::default());
                LOCKS.store(0, Relaxed);
                *page = count_call::<L, _, _>(|| subject_refill(world));
                locks += LOCKS.load(Relaxed);
            }
            LOCKS.store(locks, Relaxed);
        }
        "drain-63" | "refill-63-depot" => {
            let mut locks = 0;
            let passed = |before: &pageset::admin::stats::ZoneStats| {
                let after = world.zone(0).expect("a zone").stats();
                (after.depot_in_pages - before.depot_in_pages, after.depot_out_pages - before.depot_out_pages)
            };
            let depot_pages = if world.tuning().backing.depot() { u64::from(BATCH) } else { 0 };
            for page in pages {
                // Room for one batch and one refill; the next free drains one batch.
                world.drain();
                world.zone(0).expect("a zone").set_bounds(bounds(1 << 15)).expect("room");
                world.zone(0).expect("a zone").pageset(CpuId(0)).expect("a CPU").restore(&Default::default());
                let mut held = [Pfn(0); 3 * BATCH as usize];
                for page in &mut held {
                    *page = world.alloc(&SINGLE).expect("memory");
                }
                world.drain();
                for &page in &held[1..2 * BATCH as usize] {
                    world.free(page, Order::ZERO).expect("was allocated");
                }
                world.zone(0).expect("a zone").set_bounds(bounds(2 * BATCH)).expect("room");
                let state = pageset::policy::PcpState { high: 2 * BATCH, ..Default::default() };
                world.zone(0).expect("a zone").pageset(CpuId(0)).expect("a CPU").restore(&state);
                *page = held[0];
                let (drained, before) = (
                    world.zone(0).expect("a zone").pageset(CpuId(0)).expect("a CPU").stats().drain_pages,
                    world.zone(0).expect("a zone").stats(),
                );
                LOCKS.store(0, Relaxed);
                if name == "drain-63" {
                    count_call::<L, _, _>(|| subject_drain(world, *page));
                    locks += LOCKS.load(Relaxed);
                } else {
                    world.free(*page, Order::ZERO).expect("was allocated");
                }
                assert_eq!(
                    world.zone(0).expect("a zone").pageset(CpuId(0)).expect("a CPU").stats().drain_pages - drained,
                    u64::from(BATCH)
                );
                assert_eq!(passed(&before), (depot_pages, 0));
                for &page in &held[2 * BATCH as usize..] {
                    world.free(page, Order::ZERO).expect("was allocated");
                }
                if name == "refill-63-depot" {
                    let kept = world.zone(0).expect("a zone").pageset(CpuId(0)).expect("a CPU").state().count;
                    let kept: Vec<_> = (0..kept).map(|_| world.alloc(&SINGLE).expect("memory")).collect();
                    // The state after a pause: a refill takes one batch.
                    world.zone(0).expect("a zone").pageset(CpuId(0)).expect("a CPU").restore(&state);
                    let before = world.zone(0).expect("a zone").stats();
                    LOCKS.store(0, Relaxed);
                    *page = count_call::<L, _, _>(|| subject_refill(world));
                    locks += LOCKS.load(Relaxed);
                    assert_eq!(passed(&before), (0, depot_pages));
                    kept.iter().chain([&*page]).for_each(|&page| world.free(page, Order::ZERO).expect("was allocated"));
                }
            }
            LOCKS.store(locks, Relaxed);
        }
        "free-direct" => {
            pages.iter_mut().for_each(|page| *page = world.alloc(&SINGLE).expect("memory"));
            LOCKS.store(0, Relaxed);
            pages.iter().for_each(|&page| count_call::<L, _, _>(|| subject_free_direct(world, page)));
        }
        other => panic!("{other} is no entry point; allowed: {}", NAMES.join(", ")),
    }
    calls
}

fn run_in_world<L: Counted + 'static>(name: &str) -> Result<usize, Box<dyn std::error::Error>> {
    let age = AGES.into_iter().find(|(end, ..)| name.ends_with(end));
    let (name, pages) = age.map_or((name, PAGES), |(end, pages, _)| (name.trim_end_matches(end), pages));
    let ranges = [PageRange::new(Pfn(0), pages)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let other_check = CHECKS.iter().find_map(|(end, check)| Some((name.strip_suffix(end)?, *check)));
    let (name, free_check) = other_check.unwrap_or((name, FreeCheck::default()));
    // Without depots, a drain goes to the free lists.
    let without_depot = name.strip_suffix("-lists");
    let backing = Tuning::default().backing.with_stores(without_depot.is_none(), true);
    let in_regions = name.strip_suffix("-regions");
    let backing = if in_regions.is_some() { backing.with_regions(pageset::RegionRule::Fixed(4)) } else { backing };
    let tuning = Tuning { backing, ..Tuning::default() };
    let name = without_depot.or(in_regions).unwrap_or(name);
    let config = Config { pageset_capacity: 1 << 15, free_check, tuning, ..Config::new(&zones, &[NodeId(0)]) };
    let metadata: OwnedMetadata<OneCpu<L>> = OwnedMetadata::new(&config)?;
    let mut zones = metadata.zones();
    let machine = OneCpu { number: AtomicU32::new(0), lock: std::marker::PhantomData };
    let world = Allocator::new(machine, &config, metadata.lend(&mut zones))?;
    if let Some((.., happens)) = age {
        happens(&world);
    }
    Ok(run(&world, name, CALLS))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("list") => NAMES.iter().for_each(|name| println!("{name}")),
        // Valgrind counts this run, with the plain lock.
        Some("run") => {
            let name = std::env::args().nth(2).ok_or("a name")?;
            run_in_world::<SpinLock>(&name)?;
        }
        Some("locks") => {
            let name = std::env::args().nth(2).ok_or("a name")?;
            let calls = run_in_world::<CountingLock>(&name)?;
            println!("{calls} {}", LOCKS.load(Relaxed));
        }
        Some("mark") => println!("{:p}", &raw const MARK),
        Some("lines") => {
            let name = std::env::args().nth(2).ok_or("a name")?;
            println!("{}", run_in_world::<MarkingLock>(&name)?);
        }
        _ => return Err("usage: costs list | costs run NAME | costs locks NAME | costs lines NAME | costs mark".into()),
    }
    Ok(())
}
