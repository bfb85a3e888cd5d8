//! Measures the work under the zone lock per moved page: touches of memory that other CPUs write, and nanoseconds; with
//! and without skipped merging and clusters.
//!
//! `cargo run --release -p pageset --features alloc --example holds [PRESET...]`
//!
//! One CPU repeatedly allocates and frees 32768 single pages, in order as page_fault1 does, or shuffled. The pageset
//! keeps six batches. The nanoseconds include the clock's own cost, about 40 per hold.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::Preset;
use pageset::{
    Access, Allocator, Config, CpuId, LockPath, Machine, MigrateType, NodeId, Order, PageRange, Pfn, RawLock, Request,
    ZoneKind, ZoneSpec,
};

/// The work in the holds of one path.
#[derive(Clone, Copy, Default)]
struct Work {
    holds: u64,
    touches: u64,
    ns: u64,
}

thread_local! {
    /// The path that takes a zone's lock next.
    static NEXT: Cell<Option<LockPath>> = const { Cell::new(None) };
    /// The path of the current hold, and its start.
    static HELD: Cell<Option<(LockPath, Instant)>> = const { Cell::new(None) };
    static WORK: RefCell<[Work; LockPath::COUNT]> = RefCell::default();
}

fn count(path: LockPath, change: impl FnOnce(&mut Work)) {
    WORK.with_borrow_mut(|work| change(&mut work[path as usize]));
}

/// A lock for one thread that knows whether it is a zone's lock.
#[derive(Debug, Default)]
struct Watched;

impl RawLock for Watched {
    fn lock(&self) {
        if let Some(path) = NEXT.take() {
            count(path, |work| work.holds += 1);
            HELD.set(Some((path, Instant::now())));
        }
    }

    fn try_lock(&self) -> bool {
        true
    }

    fn unlock(&self) {
        // The zone's lock is taken after the pageset's and released before it.
        if let Some((path, since)) = HELD.take() {
            count(path, |work| work.ns += since.elapsed().as_nanos() as u64);
        }
    }
}

struct Counting;

impl Machine for Counting {
    type Lock = Watched;

    fn cpu(&self) -> CpuId {
        CpuId(0)
    }

    fn probe(&self, access: Access) {
        match access {
            Access::Touch(_) => {
                if let Some((path, _)) = HELD.get() {
                    count(path, |work| work.touches += 1);
                }
            }
            Access::Prefetch(_) => {}
            Access::ZoneLock { path, .. } => NEXT.set(Some(path)),
        }
    }
}

const PAGES: usize = 32_768;
const ROUNDS: u64 = 20;

/// Shuffles with a small generator: the same permutation for each preset.
fn shuffle(pages: &mut [Pfn], seed: &mut u64) {
    for last in (1..pages.len()).rev() {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        pages.swap(last, (*seed >> 33) as usize % (last + 1));
    }
}

fn run(preset: &Preset, shuffled: bool) {
    let ranges = [PageRange::new(Pfn(1 << 20), 1 << 20)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let config = Config { tuning: preset.tuning, ..Config::new(&zones, &[NodeId(0)]) };
    let metadata = OwnedMetadata::new(&config).expect("memory");
    let mut zones = metadata.zones();
    let world = Allocator::new(Counting, &config, metadata.lend(&mut zones)).expect("the map is valid");
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    let (mut seed, mut pages) = (1, Vec::with_capacity(PAGES));
    let mut before = world.zone_stats(0);
    for round in 0..=ROUNDS {
        if round == 1 {
            // The first round brings the free lists into their steady state.
            WORK.take();
            before = world.zone_stats(0);
        }
        pages.extend((0..PAGES).map(|_| world.alloc(&request).expect("memory")));
        if shuffled {
            shuffle(&mut pages, &mut seed);
        }
        pages.drain(..).for_each(|pfn| world.free(pfn, Order::ZERO).expect("was allocated"));
    }
    let (work, after) = (WORK.take(), world.zone_stats(0));
    let order = if shuffled { "shuffled" } else { "in order" };
    print!("{:<14} {order:<9}", preset.name);
    for (path, pages) in [
        (LockPath::Refill, after.pagesets.refill_pages - before.pagesets.refill_pages),
        (LockPath::Drain, after.pagesets.drain_pages - before.pagesets.drain_pages),
    ] {
        let Work { holds, touches, ns } = work[path as usize];
        let per_page = |of: u64| of as f64 / pages.max(1) as f64;
        print!("   {:>7.1} {:>8.2} {:>6.1}", pages as f64 / holds.max(1) as f64, per_page(touches), per_page(ns));
    }
    println!();
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let names = if asked.is_empty() {
        ["linux-4.17", "merge-skip", "clusters", "clusters-free"].map(String::from).to_vec()
    } else {
        asked
    };
    println!("                           refill: a page               drain: a page");
    println!("rules          freed       pages/hold touches ns       pages/hold touches ns");
    for shuffled in [false, true] {
        for name in &names {
            match Preset::find(name) {
                Some(preset) => run(preset, shuffled),
                None => eprintln!("there are no rules {name}"),
            }
        }
    }
}
