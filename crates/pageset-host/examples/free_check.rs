//! What the checks of frees cost: a pair of single calls, and bulk calls, in ns for each page.
//!
//! Pools with different checks take turns, so that other load on the machine affects all of them alike. The figures are medians of
//! the differences to a pool with [`FreeCheck::Basic`], with the quartiles.
#![allow(unsafe_code, reason = "raw frees")]

use std::error::Error;
use std::ptr::NonNull;
use std::time::Instant;

use pageset_host::{FreeCheck, Order, PagePool};

const ROUNDS: usize = 400;
const PAGES_PER_ROUND: usize = 100_000;

fn pairs(pool: &PagePool) -> Result<(), Box<dyn Error>> {
    for _ in 0..PAGES_PER_ROUND {
        let page = pool.alloc(Order::ZERO)?;
        // SAFETY: the page is allocated, and nothing refers to it.
        unsafe { pool.free(page.cast(), Order::ZERO)? };
    }
    Ok(())
}

fn bulk<const COUNT: usize>(pool: &PagePool) -> Result<(), Box<dyn Error>> {
    let mut pages = [NonNull::dangling(); COUNT];
    for _ in 0..PAGES_PER_ROUND / COUNT {
        let got = pool.alloc_bulk(&mut pages)?;
        // SAFETY: the pages are allocated, and nothing refers to them.
        unsafe { pool.free_bulk(Order::ZERO, &pages[..got])? };
    }
    Ok(())
}

type Work = fn(&PagePool) -> Result<(), Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let checks = [FreeCheck::Basic, FreeCheck::Single, FreeCheck::All];
    let pools: Vec<_> = checks.iter().map(|&check| PagePool::builder(64 << 20).free_check(check).build()).collect();
    let pools = pools.into_iter().collect::<Result<Vec<_>, _>>()?;
    let works: [(&str, Work); 3] = [("pair", pairs), ("bulk of 32", bulk::<32>), ("bulk of 256", bulk::<256>)];
    println!("{:<12} {:<7} {:>8} {:>16}", "calls", "check", "median", "quartiles");
    for (name, work) in works {
        let mut differences = vec![vec![]; pools.len()];
        for _ in 0..ROUNDS {
            let mut basic = 0.0;
            for (pool, differences) in pools.iter().zip(&mut differences) {
                let start = Instant::now();
                work(pool)?;
                let ns = start.elapsed().as_nanos() as f64 / PAGES_PER_ROUND as f64;
                if std::ptr::eq(pool, &pools[0]) {
                    basic = ns;
                }
                differences.push(ns - basic);
            }
        }
        for (check, differences) in checks.iter().zip(&mut differences).skip(1) {
            differences.sort_by(f64::total_cmp);
            let [low, median, high] = [1, 2, 3].map(|quarter| differences[ROUNDS * quarter / 4]);
            println!("{name:<12} {:<7} {median:>5.2} ns {low:>6.2} to {high:.2}", format!("{check:?}"));
        }
    }
    Ok(())
}
