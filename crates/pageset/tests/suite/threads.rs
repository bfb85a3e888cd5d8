//! Real threads on one zone with small batches: no page is allocated twice, and the audit passes at the end.
//!
//! Runs for `PAGESET_SECONDS` seconds in all, 5 by default. For ThreadSanitizer see `ci/tsan.sh`.

use crate::support::Known;
use std::cell::{Cell, RefCell};
use std::env;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::presets::*;
use pageset::policy::sizes::WatermarkRule;
use pageset::policy::{Bounds, RegionRule, Tuning, Watermarks};
use pageset::{
    Alloc, Allocator, Block, Config, CpuId, HotplugError, Machine, MigrateType, MoveError, NodeId, Order, Owner,
    PageRange, Pfn, RawLock, Request, SpinLock, Urgency, Wait, ZoneKind, ZoneSpec,
};

const PAGES: u64 = 1 << 14;
const BASE: u64 = 1 << 20;
const CPUS: usize = 3;
/// Capacity of each pageset in pages: an eighth of the zone, the most that an administrator may set.
const ROOM: u32 = PAGES as u32 / 8 + 64;
/// More threads than CPUs: two of them share a pageset and find it busy.
const THREADS: usize = 5;

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// The library's lock, but a waiter yields: on a machine with fewer CPUs than threads the holder may need the waiter's
/// CPU.
#[derive(Debug, Default)]
pub(crate) struct Polite(SpinLock);

impl RawLock for Polite {
    fn lock(&self) {
        while !self.0.try_lock() {
            thread::yield_now();
        }
    }

    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    fn unlock(&self) {
        self.0.unlock();
    }
}

pub(crate) struct Threads;

/// Puts the calling thread on a CPU.
pub(crate) fn run_on(cpu: u32) {
    CPU.set(cpu);
}

impl Machine for Threads {
    type Lock = Polite;

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn relax(&self) {
        thread::yield_now();
    }
}

/// A small random number generator with the same sequence for each thread of each run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % n
    }
}

/// The shared state of the threads: blocks in transit to another thread, and the pages in use.
struct Shared {
    mail: Mutex<Vec<Block>>,
    held: Vec<AtomicBool>,
    operations: AtomicUsize,
    changes: AtomicUsize,
    end: Instant,
}

impl Shared {
    fn mail(&self) -> std::sync::MutexGuard<'_, Vec<Block>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self, block: Block, held: bool) {
        let first = (block.pfn.0 - BASE) as usize;
        for page in &self.held[first..first + block.order.pages() as usize] {
            assert_eq!(page.swap(held, Relaxed), !held, "{block:?}: a page was handed out twice");
        }
    }
}

/// A thread as the owner of its blocks: frees some of them.
struct Giving<'w, 'a> {
    world: &'w Allocator<'a, Threads>,
    shared: &'w Shared,
    blocks: RefCell<Vec<Block>>,
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
        let mut blocks = self.blocks.borrow_mut();
        let from = blocks.len().saturating_sub(20);
        blocks.drain(from..).fold(0, |given, block| {
            self.shared.hold(block, false);
            self.world.free(block.pfn, block.order).expect("it was allocated");
            given + block.order.pages()
        })
    }
}

fn work(world: &Allocator<'_, Threads>, shared: &Shared, thread: usize) {
    run_on((thread % CPUS) as u32);
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (thread as u64 + 1) << 32);
    let mut mine: Vec<Block> = vec![];
    let free = |block: Block| {
        shared.hold(block, false);
        world.free(block.pfn, block.order).expect("it was allocated");
    };
    let mut done = 0;
    while done % 64 != 0 || Instant::now() < shared.end {
        done += 1;
        match random.below(100) {
            0..45 => {
                let order = Order::new([0, 0, 0, 0, 1, 2, 3, 4, 9][random.below(9)]).expect("an order");
                let migratetype = MigrateType::ALL[random.below(3)];
                let request = Request {
                    urgency: [Urgency::Ordinary, Urgency::Ordinary, Urgency::High, Urgency::OomVictim][random.below(4)],
                    wait: [Wait::Memory, Wait::Lock, Wait::Nothing][random.below(3)],
                    ..Request::new(order, migratetype)
                };
                let owner = Giving { world, shared, blocks: RefCell::new(mine) };
                let got = world.alloc_with(Alloc::new(&request).owner(&owner));
                mine = owner.blocks.into_inner();
                if let Ok(pfn) = got {
                    let block = Block { pfn, order };
                    shared.hold(block, true);
                    mine.push(block);
                }
            }
            45..85 => {
                if let Some(at) = random.below(256).checked_rem(mine.len()) {
                    free(mine.swap_remove(at));
                }
            }
            85..90 => shared.mail().extend(mine.drain(..mine.len() / 4)),
            90..95 => {
                let theirs: Vec<_> = {
                    let mut mail = shared.mail();
                    let few = mail.len().min(20);
                    mail.drain(..few).collect()
                };
                theirs.iter().for_each(|&block| shared.hold(block, false));
                world.free_bulk(&theirs).expect("they were allocated");
            }
            95 => {
                let pageblock = Pfn(BASE + 512 * random.below(PAGES as usize / 512) as u64);
                world
                    .set_pageblock_type(pageblock, MigrateType::ALL[random.below(3)])
                    .expect("the page is in the zone");
            }
            96 => {
                let mut pages = [Pfn(0); 40];
                let got = world.alloc_bulk(&Request::new(Order::ZERO, MigrateType::Movable), &mut pages).unwrap_or(0);
                for &pfn in &pages[..got] {
                    let block = Block { pfn, order: Order::ZERO };
                    shared.hold(block, true);
                    mine.push(block);
                }
            }
            97 if done % 2 == 0 => {
                // At one setting most requests take the slow path, at the other hardly any.
                let low = [PAGES / 64, PAGES - PAGES / 8][random.below(2)];
                world.at(0).set_watermarks(Watermarks { min: PAGES / 128, low, high: low + PAGES / 64 }, [0; 4]);
                world.at(0).decay_boost(PAGES / 16);
            }
            97 => drop(world.tick()),
            98 => {
                world.drain();
                world.at(0).merge_skipped();
            }
            _ => world.drain_all(),
        }
    }
    mine.into_iter().for_each(free);
    shared.operations.fetch_add(done, Relaxed);
}

/// Acts as administrator and machine meanwhile: CPUs go offline and online, pagesets are disabled, sizes change. The
/// checked values must hold at any time.
fn administer(world: &Allocator<'_, Threads>, shared: &Shared, bounds: Bounds) {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let cpu = |random: &mut Random| CpuId(random.below(CPUS) as u32);
    let mut changes = 0;
    while Instant::now() < shared.end {
        match random.below(10) {
            0 | 1 => {
                let cpu = cpu(&mut random);
                let refused = world.cpu_offline(cpu).err();
                let known = [HotplugError::Offline(cpu), HotplugError::LastCpu(cpu)];
                assert!(refused.is_none_or(|error| known.contains(&error)), "{refused:?}");
            }
            2 | 3 => come(world, cpu(&mut random)),
            4 => {
                world.at(0).disable_pagesets();
                // Callers in a call hold one block each; a refill or a drain counts in steps.
                let kept = (0..CPUS as u32).map(|cpu| world.pageset(0, CpuId(cpu)).state().count).max();
                assert!(kept <= Some(Order::PAGEBLOCK.pages() as u32), "{kept:?} pages kept");
                world.at(0).enable_pagesets().expect("disabled just now");
            }
            5 => world.set_high_fraction([0, 8, 100][random.below(3)]).expect("the pagesets have room"),
            6 => {
                let marks = world.at(0).stats().watermarks;
                world.at(0).set_watermarks(marks, [0; ZoneKind::COUNT]);
                world.recompute();
            }
            7 => world.at(0).drain_all(),
            // The result means nothing while others are in the middle of their calls, but nothing may change.
            8 => {
                let _ = world.at(0).audit();
            }
            _ => world.at(0).set_bounds(bounds).expect("the pagesets have room, and are enabled"),
        }
        changes += 1;
        for cpu in 0..CPUS as u32 {
            let state = world.pageset(0, CpuId(cpu)).state();
            assert!(state.high_max <= ROOM, "CPU {cpu} may keep {} pages", state.high_max);
        }
    }
    (0..CPUS as u32).for_each(|cpu| come(world, CpuId(cpu)));
    shared.changes.store(changes, Relaxed);
}

/// Brings a CPU online, if it is offline.
fn come(world: &Allocator<'_, Threads>, cpu: CpuId) {
    let refused = world.cpu_online(cpu).err();
    assert!(refused.is_none_or(|error| error == HotplugError::Online(cpu)), "{refused:?}");
}

fn hammer(name: &str, tuning: Tuning, time: Duration) {
    let ranges = [PageRange::new(Pfn(BASE), PAGES)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let watermarks = WatermarkRule { boost_factor: WatermarkRule::KERNEL_BOOST_FACTOR, ..WatermarkRule::default() };
    let config = Config { tuning, watermarks, pageset_capacity: ROOM - 64, ..Config::new(&zones, &[NodeId(0); CPUS]) };
    let metadata = OwnedMetadata::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let world = Allocator::new(Threads, &config, metadata.lend(&mut zones)).expect("the map is valid");
    let bounds = Bounds { batch: 3, high_min: 7, high_max: if tuning.auto_high { 40 } else { 7 } };
    world.at(0).set_bounds(bounds).expect("room");
    let shared = Shared {
        mail: Mutex::new(vec![]),
        held: (0..PAGES).map(|_| AtomicBool::new(false)).collect(),
        operations: AtomicUsize::new(0),
        changes: AtomicUsize::new(0),
        end: Instant::now() + time,
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (world, shared) = (&world, &shared);
            scope.spawn(move || work(world, shared, thread));
        }
        scope.spawn(|| administer(&world, &shared, bounds));
    });
    let left = std::mem::take(&mut *shared.mail());
    let books = world.at(0).audit().expect("the audit passes");
    assert_eq!(books.in_use, left.iter().map(|block| block.order.pages()).sum::<u64>(), "{name}");
    world.free_bulk(&left).expect("they were allocated");
    let stats = world.at(0).stats();
    assert_eq!(stats.pgalloc(), stats.pgfree(), "{name}");
    world.drain_all();
    world.at(0).audit().expect("the audit passes");
    assert_eq!(world.at(0).stats().nr_free_pages, PAGES, "{name}");
    let [operations, changes] = [&shared.operations, &shared.changes].map(|number| number.load(Relaxed));
    let direct = stats.lock_direct_alloc + stats.lock_direct_free;
    println!(
        "{name}: {operations} operations, {changes} changes by an administrator, {} lock holds, {direct} of them past the pagesets",
        stats.lock_acquisitions()
    );
    assert!(operations > 1000 && changes > 0, "{name}: {operations} operations, {changes} changes");
}

#[test]
fn threads_on_one_zone() {
    let seconds = env::var("PAGESET_SECONDS").map_or(5.0, |text| text.parse::<f64>().expect("a number of seconds"));
    let rules = [
        ("clusters", CLUSTERS_FREE),
        ("4.19", LINUX_4_19),
        ("5.14", LINUX_5_14),
        ("5.18", LINUX_5_18),
        ("6.18", LINUX_6_18),
        ("6.19", LINUX_6_19),
        ("owners, wait", PCP_BUDDY),
        ("owners, try", PCP_BUDDY_TRY),
        ("owners, list", PCP_BUDDY_LIST),
        ("regions", Tuning { backing: PAGESET_LISTS.backing.with_regions(RegionRule::Fixed(4)), ..PAGESET_LISTS }),
        ("bitmaps", Tuning { backing: PAGESET.backing.with_regions(RegionRule::Fixed(4)), ..PAGESET }),
    ];
    // A lock that is never released must not block everything else.
    let limit = Duration::from_secs_f64(seconds + 120.0);
    thread::spawn(move || {
        thread::sleep(limit);
        eprintln!("the threads have not ended after {limit:?}");
        std::process::exit(101);
    });
    for (name, tuning) in rules {
        hammer(name, tuning, Duration::from_secs_f64(seconds / rules.len() as f64));
    }
}
