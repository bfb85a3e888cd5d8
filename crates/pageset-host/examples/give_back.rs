//! What stays resident of a fragmented pool, and what the scans cost that give its memory back.
//!
//! `cargo run --release -p pageset-host --example give_back -- [GIB]` (default: 1)
//!
//! Each pool is filled with runs of one order. Then all but some runs are freed, and the caches drained. Scans follow each
//! other without a pause, 5 for whole blocks and 20 for parts. The columns of CPU time are the means of the scans that gave
//! memory back, and of 100 scans after the last that did.

use std::env;
use std::error::Error;
use std::thread;
use std::time::Duration;

use pageset_host::{GiveBack, GiveBackParts, HugePages, Order, PAGE_BYTES, PagePool};
use rustix::time::{ClockId, clock_gettime};

const MIB: u64 = 1 << 20;

/// What stays in use.
struct Load {
    name: &'static str,
    order: u8,
    /// Each run whose number is a multiple of this. 0: none.
    each: usize,
}

const LOADS: [Load; 6] = [
    Load { name: "nothing in use", order: 9, each: 0 },
    Load { name: "all in use, 2 MiB runs", order: 9, each: 1 },
    Load { name: "all in use, 4 KiB runs", order: 0, each: 1 },
    Load { name: "one page in 1024", order: 0, each: 1024 },
    Load { name: "one page in 64", order: 0, each: 64 },
    Load { name: "each second page", order: 0, each: 2 },
];

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn micros(time: Duration, count: u32) -> f64 {
    if count == 0 { 0.0 } else { time.as_secs_f64() * 1e6 / f64::from(count) }
}

fn measure(gib: u64, load: &Load, parts: GiveBackParts, huge_pages: HugePages) -> Result<(), Box<dyn Error>> {
    let policy = GiveBack { interval: Duration::from_millis(1), ..GiveBack::default() };
    let builder = PagePool::builder(gib << 30).give_back(policy).give_back_parts(parts).huge_pages(huge_pages);
    let pool = builder.build()?;
    let order = Order::new(load.order).ok_or("an order")?;
    let mut runs = vec![];
    while let Ok(mut run) = pool.pages(order) {
        run.chunks_mut(PAGE_BYTES).for_each(|page| page[0] = 1);
        runs.push(run);
    }
    runs.sort_by_key(|run| run.as_ptr());
    let mut number = 0..;
    runs.retain(|_| load.each > 0 && number.next().is_some_and(|number: usize| number.is_multiple_of(load.each)));
    pool.drain();
    let (mut busy, mut busy_scans) = (Duration::ZERO, 0);
    let (mut idle, mut idle_scans) = (Duration::ZERO, 0);
    while idle_scans < 100 {
        thread::sleep(Duration::from_micros(1100));
        let (given, start) = (pool.stats().given_back_bytes, cpu_time());
        pool.tick()?;
        let took = cpu_time() - start;
        if pool.stats().given_back_bytes > given {
            (busy, busy_scans) = (busy + took, busy_scans + 1);
            (idle, idle_scans) = (Duration::ZERO, 0);
        } else {
            (idle, idle_scans) = (idle + took, idle_scans + 1);
        }
    }
    let stats = pool.stats();
    println!(
        "{:<23} {:<12} {:>5} {:>9.1} {:>9.1} {:>9} {:>11.0} {:>11.1}",
        load.name,
        format!("{huge_pages:?}"),
        if parts == GiveBackParts::OFF { "off" } else { "on" },
        stats.in_use_bytes as f64 / MIB as f64,
        pool.memory().resident_bytes()? as f64 / MIB as f64,
        busy_scans,
        micros(busy, busy_scans),
        micros(idle, idle_scans),
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let gib = env::args().nth(1).map_or(Ok(1), |text| text.parse())?;
    println!("{:42} {:>9} {:>9} {:>9} {:>11} {:>11}", "", "in use", "resident", "", "CPU µs of a", "CPU µs of");
    println!(
        "{:<23} {:<12} {:>5} {:>9} {:>9} {:>9} {:>11} {:>11}",
        "load", "huge pages", "parts", "MiB", "MiB", "scans", "scan", "one after"
    );
    for huge_pages in [HugePages::None, HugePages::Transparent] {
        for load in &LOADS {
            for parts in [GiveBackParts::OFF, GiveBackParts::default()] {
                measure(gib, load, parts, huge_pages)?;
            }
        }
    }
    Ok(())
}
