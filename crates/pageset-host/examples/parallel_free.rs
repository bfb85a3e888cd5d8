//! The throughput of freeing all pages of a large pool, and how it scales with the number of threads.
//!
//! `cargo run --release -p pageset-host --example parallel_free -- [GIB] [THREADS...]` (default: `512 1 2`)
//!
//! Each thread frees its own part of the pool. Nothing touches the pages, so a pool of 512 GiB takes 1.2 GiB of memory,
//! for metadata.
//!
//! `on CPU` is the share of the time that a thread ran, for the thread with the smallest share. Below 97 %, other
//! programs disturb the measurement, and only `CPU ns/page` is meaningful: it excludes their time.

use std::env;
use std::error::Error;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use pageset_host::{GiveBack, HugePages, Order, PAGE_BYTES, PagePool};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// How a thread frees pages.
#[derive(Clone, Copy)]
enum Method {
    OneByOne,
    /// Bulk calls for this many pages each.
    Bulk(usize),
}

/// A pool with all pages allocated, and the time of the allocation by bulk calls for 256 pages on one thread.
fn full_pool(gib: u64) -> Result<(PagePool, Duration), Box<dyn Error>> {
    let pool = PagePool::builder(gib << 30).huge_pages(HugePages::None).give_back(GiveBack::OFF).build()?;
    let mut pages = [NonNull::dangling(); 256];
    let start = Instant::now();
    while pool.alloc_bulk(&mut pages).is_ok_and(|got| got == pages.len()) {}
    let took = start.elapsed();
    assert_eq!(pool.stats().in_use_bytes, gib << 30, "the pool has a free page");
    Ok((pool, took))
}

/// Frees part `thread` of `threads` equal parts of the pool, in ascending order of addresses.
fn free_part(pool: &PagePool, thread: usize, threads: usize, method: Method) {
    let space = pool.memory().address_space();
    let pages = space.len() / PAGE_BYTES;
    let (from, to) = (pages * thread / threads, pages * (thread + 1) / threads);
    let base = space.cast::<u8>();
    let at = |page: usize| base.map_addr(|base| base.saturating_add(page * PAGE_BYTES));
    match method {
        Method::OneByOne => {
            for page in from..to {
                // SAFETY: the page is allocated, nothing refers to it, and it belongs to this part only.
                unsafe { pool.free(at(page), Order::ZERO).expect("an allocated page") };
            }
        }
        Method::Bulk(count) => {
            let mut batch = vec![base; count];
            for page in (from..to).step_by(count) {
                let batch = &mut batch[..count.min(to - page)];
                batch.iter_mut().enumerate().for_each(|(i, slot)| *slot = at(page + i));
                // SAFETY: the pages are allocated, nothing refers to them, and they belong to this part only.
                unsafe { pool.free_bulk(Order::ZERO, batch).expect("allocated pages") };
            }
        }
    }
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Result<Vec<u64>, _> = env::args().skip(1).map(|arg| arg.parse()).collect();
    let numbers =
        numbers.map_err(|error| format!("cannot read the arguments: {error}; try parallel_free [GIB] [THREADS...]"))?;
    let gib = numbers.first().copied().unwrap_or(512);
    let threads = numbers.get(1..).filter(|threads| !threads.is_empty()).unwrap_or(&[1, 2]);
    let allowed = sched_getaffinity(None)?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    if let Some(wrong) = threads.iter().find(|&&n| n == 0 || n > cpus.len() as u64) {
        return Err(format!("cannot run {wrong} threads: each needs a CPU; try 1 to {}", cpus.len()).into());
    }

    let pages = (gib << 30) as f64 / PAGE_BYTES as f64;
    println!("{gib} GiB, {:.0} million pages", pages / 1e6);
    println!(
        "{:<11} {:>7} {:>16} {:>18} {:>8} {:>11} {:>8}",
        "freed", "threads", "million pages/s", "ns/page and thread", "scaling", "CPU ns/page", "on CPU"
    );
    for (name, method) in [("one by one", Method::OneByOne), ("bulk of 256", Method::Bulk(256))] {
        let mut rate_of_one = None;
        for &n in threads {
            let (pool, filled) = full_pool(gib)?;
            let barrier = Barrier::new(n as usize + 1);
            let (took, worked) = thread::scope(|scope| {
                let workers: Vec<_> = (0..n as usize)
                    .map(|thread| {
                        let (pool, barrier, cpu) = (&pool, &barrier, cpus[thread]);
                        scope.spawn(move || {
                            let mut one = CpuSet::new();
                            one.set(cpu);
                            if let Err(error) = sched_setaffinity(None, &one) {
                                eprintln!("warning: cannot pin a thread to CPU {cpu}: {error}; try an idle machine");
                            }
                            barrier.wait();
                            let (start, cpu) = (Instant::now(), cpu_time());
                            free_part(pool, thread, n as usize, method);
                            (cpu_time() - cpu, start.elapsed())
                        })
                    })
                    .collect();
                barrier.wait();
                let start = Instant::now();
                let worked: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("no panic")).collect();
                (start.elapsed(), worked)
            });
            assert_eq!(pool.stats().in_use_bytes, 0);
            let rate = pages / took.as_secs_f64();
            let rate_of_one = *rate_of_one.get_or_insert(rate / n as f64);
            let (per_thread, scaling) = (took.as_secs_f64() * 1e9 * n as f64 / pages, rate / rate_of_one);
            let cpu_ns = worked.iter().map(|(cpu, _)| cpu.as_secs_f64()).sum::<f64>() * 1e9 / pages;
            let shares = worked.iter().map(|(cpu, all)| cpu.as_secs_f64() / all.as_secs_f64() * 100.0);
            let share = shares.fold(100.0, f64::min);
            println!(
                "{name:<11} {n:>7} {:>16.1} {per_thread:>18.1} {scaling:>8.2} {cpu_ns:>11.1} {share:>6.0} %",
                rate / 1e6
            );
            eprintln!(
                "(allocated before by bulk calls for 256 pages on one thread: {:.1} ns/page)",
                filled.as_nanos() as f64 / pages
            );
        }
    }
    Ok(())
}
