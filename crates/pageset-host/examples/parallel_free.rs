//! All pages of a large pool freed at once by some threads, each its own part: pages a second, and how that grows with the
//! threads. Metadata only: the pages are never touched, so a pool of 512 GiB takes 1.2 GiB of memory. `had CPU` is the
//! share of the time that the thread had its CPU which had it least: a row below 97 % says more of other programs than
//! of the pool, and of it only `CPU ns/page` counts, which leaves out what others took.
//!
//! `cargo run --release -p pageset-host --example parallel_free -- [GIB] [THREADS...]`, by default `512 1 2`

use std::env;
use std::error::Error;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use pageset_host::{GiveBack, HugePages, Order, PAGE_BYTES, PagePool};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// How pages are given back.
#[derive(Clone, Copy)]
enum How {
    OneByOne,
    /// So many in one call.
    Calls(usize),
}

/// A pool of which all pages are taken, single ones. As many bulk calls as it takes, on one thread.
fn full(gib: u64) -> Result<(PagePool, Duration), Box<dyn Error>> {
    let pool = PagePool::builder(gib << 30).huge_pages(HugePages::None).give_back(GiveBack::OFF).build()?;
    let mut pages = [NonNull::dangling(); 256];
    let start = Instant::now();
    while pool.alloc_bulk(&mut pages).is_ok_and(|got| got == pages.len()) {}
    let took = start.elapsed();
    assert_eq!(pool.stats().in_use_bytes, gib << 30, "all pages are taken");
    Ok((pool, took))
}

/// Frees part `thread` of `threads` of the pool, by rising address.
fn free_part(pool: &PagePool, thread: usize, threads: usize, how: How) {
    let space = pool.address_space();
    let pages = space.len() / PAGE_BYTES;
    let (from, to) = (pages * thread / threads, pages * (thread + 1) / threads);
    let base = space.cast::<u8>();
    let at = |page: usize| base.map_addr(|base| base.saturating_add(page * PAGE_BYTES));
    match how {
        How::OneByOne => {
            for page in from..to {
                // SAFETY: all pages are taken, nothing refers to them, and each is in one part only.
                unsafe { pool.free(at(page), Order::ZERO).expect("it is taken") };
            }
        }
        How::Calls(count) => {
            let mut some = vec![base; count];
            for page in (from..to).step_by(count) {
                let some = &mut some[..count.min(to - page)];
                some.iter_mut().enumerate().for_each(|(i, place)| *place = at(page + i));
                // SAFETY: as above.
                unsafe { pool.free_bulk(some).expect("they are taken") };
            }
        }
    }
}

/// What this thread has had of its CPU.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Result<Vec<u64>, _> = env::args().skip(1).map(|arg| arg.parse()).collect();
    let numbers = numbers.map_err(|error| format!("{error}; usage: parallel_free [GIB] [THREADS...]"))?;
    let gib = numbers.first().copied().unwrap_or(512);
    let threads = numbers.get(1..).filter(|threads| !threads.is_empty()).unwrap_or(&[1, 2]);
    let allowed = sched_getaffinity(None)?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    if let Some(wrong) = threads.iter().find(|&&n| n == 0 || n > cpus.len() as u64) {
        return Err(format!("{wrong} threads; allowed: 1 to {}, a CPU each", cpus.len()).into());
    }

    let pages = (gib << 30) as f64 / PAGE_BYTES as f64;
    println!("{gib} GiB, {:.0} million pages", pages / 1e6);
    println!(
        "{:<10} {:>7} {:>16} {:>18} {:>8}",
        "freed", "threads", "million pages/s", "ns/page and thread", "scaling"
    );
    for (name, how) in [("one by one", How::OneByOne), ("calls-256", How::Calls(256))] {
        let mut of_one = None;
        for &n in threads {
            let (pool, filled) = full(gib)?;
            let barrier = Barrier::new(n as usize + 1);
            let (took, worked) = thread::scope(|scope| {
                let workers: Vec<_> = (0..n as usize)
                    .map(|thread| {
                        let (pool, barrier, cpu) = (&pool, &barrier, cpus[thread]);
                        scope.spawn(move || {
                            let mut one = CpuSet::new();
                            one.set(cpu);
                            if let Err(error) = sched_setaffinity(None, &one) {
                                eprintln!("warning: a thread could not be pinned to CPU {cpu}: {error}");
                            }
                            barrier.wait();
                            let (start, cpu) = (Instant::now(), cpu_time());
                            free_part(pool, thread, n as usize, how);
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
            let of_one = *of_one.get_or_insert(rate / n as f64);
            let (per_thread, scaling) = (took.as_secs_f64() * 1e9 * n as f64 / pages, rate / of_one);
            let cpu_ns = worked.iter().map(|(cpu, _)| cpu.as_secs_f64()).sum::<f64>() * 1e9 / pages;
            let shares = worked.iter().map(|(cpu, all)| cpu.as_secs_f64() / all.as_secs_f64() * 100.0);
            let share = shares.fold(100.0, f64::min);
            println!(
                "{name:<10} {n:>7} {:>16.1} {per_thread:>18.1} {scaling:>8.2} {cpu_ns:>11.1} {share:>7.0} %",
                rate / 1e6
            );
            eprintln!(
                "(taken by calls for 256 on one thread before: {:.1} ns a page)",
                filled.as_nanos() as f64 / pages
            );
        }
    }
    Ok(())
}
