//! Rate at which single pages return to a pool of 512 GiB when one or several threads free all of it. The pool's
//! metadata is touched, the pages are not.
//!
//! `cargo run --release -p pageset-bench --example parallel_free [GIB]`
#![allow(unsafe_code, reason = "raw frees")]

use std::error::Error;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use pageset_bench::sample::allowed_cpus;
use pageset_host::{GiveBack, HugePages, Order, PAGE_BYTES, PagePool};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Measurements per number of threads. The best one counts, because other tasks may disturb the rest.
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let gib: u64 = std::env::args().nth(1).map_or(Ok(512), |text| text.parse())?;
    let cpus = allowed_cpus();
    let builder = PagePool::builder(gib << 30).huge_pages(HugePages::None).give_back(GiveBack::OFF);
    let pool = builder.build()?;
    let pages = ((gib << 30) / PAGE_BYTES as u64) as usize;
    println!("{pages} pages, {} MiB of metadata", pool.stats().metadata_bytes >> 20);
    println!(
        "{:>7} {:>16} {:>12} {:>16} {:>12}",
        "threads", "taken, M pages/s", "ns a thread", "freed, M pages/s", "ns a thread"
    );
    for threads in (1..=cpus.len()).filter(|threads| threads.is_power_of_two()) {
        let mut best = (f64::INFINITY, f64::INFINITY);
        for _ in 0..ROUNDS {
            let (take, free) = round(&pool, pages, &cpus[..threads]);
            best = (best.0.min(take), best.1.min(free));
        }
        let rate = |seconds: f64| pages as f64 / seconds / 1e6;
        let ns = |seconds: f64| seconds * 1e9 * threads as f64 / pages as f64;
        println!(
            "{threads:>7} {:>16.1} {:>12.1} {:>16.1} {:>12.1}",
            rate(best.0),
            ns(best.0),
            rate(best.1),
            ns(best.1)
        );
    }
    Ok(())
}

/// Allocates all pages and frees them, on one thread per CPU. Returns the seconds of both.
fn round(pool: &PagePool, pages: usize, cpus: &[usize]) -> (f64, f64) {
    let barrier = Barrier::new(cpus.len());
    let each = |cpu: usize| {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).expect("an allowed CPU");
        let mut held: Vec<NonNull<u8>> = Vec::with_capacity(pages);
        barrier.wait();
        let start = Instant::now();
        while let Ok(page) = pool.alloc(Order::ZERO) {
            held.push(page.cast());
        }
        let taken = start.elapsed();
        barrier.wait();
        let start = Instant::now();
        for &page in &held {
            // SAFETY: this thread allocated the page, and no reference to it exists.
            unsafe { pool.free(page, Order::ZERO).expect("the page was allocated") };
        }
        barrier.wait();
        (taken.as_secs_f64(), start.elapsed().as_secs_f64(), held.len())
    };
    let all: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .map(|&cpu| {
                let each = &each;
                scope.spawn(move || each(cpu))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let taken: usize = all.iter().map(|(_, _, pages)| pages).sum();
    assert!(taken <= pages && taken + 4096 * cpus.len() >= pages, "{taken} of {pages} pages allocated");
    let longest = |of: fn(&(f64, f64, usize)) -> f64| all.iter().map(of).fold(0.0, f64::max);
    (longest(|all| all.0), longest(|all| all.1))
}
