//! Errors that a checker of memory must report, and a program without errors. `ci/planted.sh` runs them under address sanitizer
//! and valgrind, and fails if a checker is silent.
#![allow(unsafe_code, reason = "the errors")]

use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::thread;

use pageset_host::{Order, PAGE_BYTES, PagePool, RunSpec};

fn order(order: u8) -> Order {
    Order::new(order).expect("an order")
}

/// Reads a byte, which the compiler must not leave out.
fn read(from: NonNull<u8>) -> u8 {
    // SAFETY: the memory of a pool is mapped; whether the program may read it is what the checker decides.
    black_box(unsafe { from.read_volatile() })
}

/// Every kind of call, from several threads. A checker must be silent.
fn correct(pool: &PagePool) {
    thread::scope(|scope| {
        for thread in 0..3_u8 {
            scope.spawn(move || {
                for round in 0..50_u8 {
                    let mut run = pool.pages(order(round % 6)).expect("memory");
                    run.fill(thread);
                    assert!(run.iter().all(|&byte| byte == thread));
                }
            });
        }
    });
    let mut pages = [NonNull::dangling(); 100];
    assert_eq!(pool.alloc_bulk(&mut pages), Ok(100));
    // SAFETY: the program owns the pages.
    unsafe {
        pages.iter().for_each(|page| page.write_bytes(1, PAGE_BYTES));
        pool.free_bulk(Order::ZERO, &pages).expect("in use");
        let page = pool.alloc(Order::ZERO).expect("memory");
        pool.free_deferred(page.cast(), Order::ZERO).expect("in use");
    }
    let mut run = pool.contig_pages(5 << 20).expect("memory");
    run.fill(1);
    drop(run);
    assert!(pool.pages_with(&RunSpec::new(order(3)).zeroed()).expect("memory").iter().all(|&byte| byte == 0));
    pool.give_back(u64::MAX).expect("given back");
    pool.shrink(2 << 20).expect("free memory");
    pool.set_limit(Some(4 << 20)).expect("free memory");
    assert_eq!(pool.stats().in_use_bytes, 0);
}

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    let pool = PagePool::builder(16 << 20).build().expect("a pool");
    let run = pool.alloc(order(2)).expect("memory").cast::<u8>();
    // SAFETY: the program owns the run.
    unsafe { run.write_bytes(1, 4 * PAGE_BYTES) };
    // SAFETY: the program owns the run. The errors follow the free.
    let free = || unsafe { pool.free(run, order(2)).expect("in use") };
    match what.as_str() {
        "correct" => {
            free();
            correct(&pool);
        }
        "use-after-free" => {
            free();
            read(run);
        }
        "use-after-drain" => {
            free();
            pool.drain();
            read(run);
        }
        "use-after-deferred-free" => {
            // SAFETY: the program owns the run. The error follows the free.
            unsafe { pool.free_deferred(run, order(2)).expect("in use") };
            read(run);
        }
        "use-after-contig-free" => {
            let contig = pool.alloc_contig(3 << 20).expect("memory");
            // SAFETY: the program owns the run. The error follows the free.
            unsafe { pool.free_contig(contig).expect("in use") };
            read(contig.cast());
        }
        // The first page behind a run of a new pool is free.
        "beyond-a-run" => {
            read(run.map_addr(|address| address.saturating_add(4 * PAGE_BYTES)));
        }
        "leak" => {
            let lost = pool.alloc(Order::ZERO).expect("memory");
            black_box(lost.len());
            free();
            // The pool stays, so that its end does not free the run.
            static KEPT: OnceLock<PagePool> = OnceLock::new();
            KEPT.get_or_init(|| pool);
            // Calls overwrite the registers and the stack that had the address.
            black_box([0_usize; 4096]);
            println!("done: leak");
            return;
        }
        _ => panic!("cannot plant {what:?}: unknown; try correct, use-after-free, use-after-drain, leak, beyond-a-run"),
    }
    println!("done: {what}");
}
