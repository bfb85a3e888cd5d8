//! Measures nanoseconds of the important paths: hot pairs, bulk calls, refills and drains. Prints the best of several
//! runs on one otherwise idle CPU, to detect regressions.
//!
//! `cargo run --release -p pageset --features alloc --example hot [PRESET...]`

use std::hint::black_box;
use std::time::Instant;

use pageset::alloc::owned::OwnedMetadata;
use pageset::policy::{Bounds, Preset};
use pageset::{
    Allocator, Block, Config, CpuId, Machine, MigrateType, NodeId, Order, PageRange, Pfn, Request, SpinLock, ZoneKind,
    ZoneSpec,
};

struct OneCpu;

impl Machine for OneCpu {
    type Lock = SpinLock;

    #[inline]
    fn cpu(&self) -> CpuId {
        CpuId(0)
    }
}

type World<'a> = Allocator<'a, OneCpu>;

/// The best nanoseconds per unit of `units`, over some runs.
fn best(units: u64, mut run: impl FnMut()) -> f64 {
    (0..7)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e9 / units as f64
        })
        .fold(f64::INFINITY, f64::min)
}

fn pairs(world: &World<'_>, order: Order) -> f64 {
    let request = Request::new(order, MigrateType::Movable);
    best(1_000_000, || {
        for _ in 0..1_000_000 {
            let pfn = world.alloc(black_box(&request)).expect("memory");
            world.free(black_box(pfn), order).expect("was allocated");
        }
    })
}

/// Allocates and frees `pages` single pages, more than the pageset holds.
fn through(world: &World<'_>, pages: usize) -> f64 {
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    let mut held = Vec::with_capacity(pages);
    best(4 * pages as u64, || {
        for _ in 0..4 {
            held.extend((0..pages).map(|_| world.alloc(&request).expect("memory")));
            held.drain(..).for_each(|pfn| world.free(pfn, Order::ZERO).expect("was allocated"));
        }
    })
}

fn bulk(world: &World<'_>) -> f64 {
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    let mut pages = [Pfn(0); 512];
    let mut blocks = [Block::default(); 512];
    best(512 * 2000, || {
        for _ in 0..2000 {
            let got = world.alloc_bulk(&request, &mut pages).expect("memory");
            for (block, &pfn) in blocks.iter_mut().zip(&pages[..got]) {
                *block = Block { pfn, order: Order::ZERO };
            }
            world.free_bulk(&blocks[..got]).expect("were allocated");
        }
    })
}

fn measure(preset: &Preset) -> Result<(), Box<dyn std::error::Error>> {
    let ranges = [PageRange::new(Pfn(0), 1 << 20)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let config = Config { tuning: preset.tuning, pageset_capacity: 4096, ..Config::new(&zones, &[NodeId(0)]) };
    let metadata = OwnedMetadata::new(&config)?;
    let mut zones = metadata.zones();
    let world = Allocator::new(OneCpu, &config, metadata.lend(&mut zones))?;
    let order = |order| Order::new(order).ok_or("an order");
    let batch = world.pageset_state(0, CpuId(0)).batch;
    world.set_bounds(0, Bounds { batch, high_min: 1024, high_max: 1024 })?;
    let (single, large, uncached) = (pairs(&world, Order::ZERO), pairs(&world, order(3)?), pairs(&world, order(5)?));
    let in_bulk = bulk(&world);
    world.set_bounds(0, Bounds { batch, high_min: 4 * batch, high_max: 4 * batch })?;
    let before = world.zone_stats(0);
    let streamed = through(&world, 100_000);
    let after = world.zone_stats(0);
    let holds = after.lock_acquisitions() - before.lock_acquisitions();
    let pages = after.pagesets.refill_pages - before.pagesets.refill_pages;
    println!(
        "{:<12} {single:>11.1} {large:>11.1} {uncached:>11.1} {in_bulk:>13.1} {streamed:>15.1} {:>12.1}",
        preset.name,
        2.0 * pages as f64 / holds as f64
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names = ["linux-4.19", "linux-5.18", "linux-6.18", "linux-6.19"].map(String::from).to_vec();
    }
    println!(
        "ns of one allocation and its free      pair, o. 0  pair, o. 3  pair, o. 5  bulk-512, page  refilled+drained  pages a hold"
    );
    for name in names {
        measure(Preset::find(&name).ok_or_else(|| format!("no preset {name}"))?)?;
    }
    Ok(())
}
