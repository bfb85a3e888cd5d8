//! Measures nanoseconds per page of bulk calls by their size: `alloc_bulk` and `free_bulk` in turn, on pages in the
//! pageset. Prints the best of many runs, on one otherwise idle CPU.
//!
//! `cargo run --release -p pageset --features alloc --example bulk [PRESET...]`

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

/// Pages of one call.
const SIZES: [usize; 5] = [1, 8, 31, 128, 512];
/// Pages of one run: a few hundred microseconds, short enough that some runs are not interrupted.
const RUN: usize = 16 * 512;
const RUNS: usize = 200;

fn measure(preset: &Preset) -> Result<(), Box<dyn std::error::Error>> {
    let ranges = [PageRange::new(Pfn(0), 1 << 20)];
    let zones = [ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span: ranges[0], ranges: &ranges }];
    let config = Config { tuning: preset.tuning, pageset_capacity: 4096, ..Config::new(&zones, &[NodeId(0)]) };
    let metadata = OwnedMetadata::new(&config)?;
    let mut zones = metadata.zones();
    let world = Allocator::new(OneCpu, &config, metadata.lend(&mut zones))?;
    let batch = world.pageset_state(0, CpuId(0)).batch;
    world.set_bounds(0, Bounds { batch, high_min: 2048, high_max: 2048 })?;
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    print!("{:<12}", preset.name);
    for size in SIZES {
        let mut pages = [Pfn(0); 512];
        let mut blocks = [Block::default(); 512];
        let mut best = [f64::INFINITY; 2];
        for _ in 0..RUNS {
            let mut spent = [0.0; 2];
            for _ in 0..RUN / size {
                let start = Instant::now();
                let got = world.alloc_bulk(black_box(&request), &mut pages[..size])?;
                let allocated = Instant::now();
                for (block, &pfn) in blocks.iter_mut().zip(&pages[..got]) {
                    *block = Block { pfn, order: Order::ZERO };
                }
                let freeing = Instant::now();
                world.free_bulk(black_box(&blocks[..got]))?;
                spent[0] += (allocated - start).as_secs_f64();
                spent[1] += freeing.elapsed().as_secs_f64();
            }
            for (best, spent) in best.iter_mut().zip(spent) {
                *best = best.min(spent * 1e9 / (RUN / size * size) as f64);
            }
        }
        print!(" {:>9.1} {:>9.1}", best[0], best[1]);
    }
    println!();
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names = ["linux-4.19", "linux-5.18", "linux-6.18", "linux-6.19"].map(String::from).to_vec();
    }
    print!("ns a page   ");
    for size in SIZES {
        print!(" {:>9} {:>9}", format!("alloc {size}"), format!("free {size}"));
    }
    println!();
    for name in names {
        measure(Preset::find(&name).ok_or_else(|| format!("no preset {name}"))?)?;
    }
    Ok(())
}
