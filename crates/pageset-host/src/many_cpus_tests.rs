//! A pool for more CPUs than this machine has. Few threads take turns on them.

use std::mem;
use std::sync::Mutex;
use std::thread;

use pageset::{CpuId, Order};

use crate::machine::pretended_cpu;
use crate::pool::{PAGE_BYTES, PagePool};

const CPUS: u32 = 256;
const THREADS: u32 = 4;
const POOL_BYTES: u64 = 256 << 20;
/// How often each thread goes through all its CPUs.
const ROUNDS: u32 = 40;

/// Each thread allocates on one CPU after the other, and frees there what others left. No run has two owners, each CPU's cache is used, and
/// all memory comes back and merges.
#[test]
fn runs_pass_between_256_cpus() {
    let mut pool = PagePool::builder(POOL_BYTES).pretended_cpus(CPUS as usize).build().expect("a pool");
    let left = Mutex::new(vec![]);
    let orders = [0, 0, 0, 1, 3, 0, 5, 9].map(|order| Order::new(order).expect("an order"));
    let work = |first: u32| {
        for round in 0..ROUNDS {
            for cpu in (first..CPUS).step_by(THREADS as usize) {
                pretended_cpu::set(cpu);
                let mark = (u64::from(round) << 32 | u64::from(cpu)).to_ne_bytes();
                let mut runs: Vec<_> = orders.iter().map(|&order| pool.pages(order).expect("memory")).collect();
                runs.iter_mut().for_each(|run| run[..8].copy_from_slice(&mark));
                assert!(runs.iter().all(|run| run[..8] == mark), "another run overlaps");
                let mine: Vec<_> = runs.into_iter().map(|run| (mark, run)).collect();
                // Those of another thread, or of this one on another CPU.
                let others = mem::replace(&mut *left.lock().expect("no panic"), mine);
                assert!(others.iter().all(|(mark, run)| run[..8] == mark[..]), "another run overlaps");
                drop(others);
                if cpu % 64 == first {
                    pool.drain();
                }
                pool.tick().expect("a tick");
            }
        }
    };
    thread::scope(|scope| {
        let work = &work;
        (0..THREADS).for_each(|first| drop(scope.spawn(move || work(first))));
    });
    drop(left);
    for cpu in 0..CPUS {
        let stats = pool.allocator().zone(0).expect("a zone").pageset(CpuId(cpu)).expect("a CPU").stats();
        assert!(stats.refills > 0 && stats.pgfree > 0, "CPU {cpu}: {stats:?}");
    }
    assert_eq!(pool.stats().in_use_bytes, 0);
    assert!(pool.stats().cached_bytes > 0, "nothing is left to drain");
    pool.audit().expect("consistent metadata");
    pool.drain();
    let stats = pool.stats();
    assert_eq!((stats.cached_bytes, stats.free_bytes), (0, POOL_BYTES));
    let whole = (0..POOL_BYTES / (Order::PAGEBLOCK.pages() * PAGE_BYTES as u64)).map(|_| pool.pages(Order::PAGEBLOCK));
    assert!(whole.collect::<Vec<_>>().iter().all(Result::is_ok), "free pages did not merge");
    pool.audit().expect("consistent metadata");
}
