//! Threads whose CPUs change while they call the pool.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use pageset_host::{Order, PagePool};
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};

use crate::common::{MIB, allowed_cpus, order};

/// Another thread moves each worker between CPUs, also in the middle of a call, and takes CPUs away and gives them back. No run has two
/// owners, and all memory comes back, with restartable sequences and without.
#[test]
fn threads_that_are_moved_between_cpus_lose_no_run() {
    let cpus = allowed_cpus();
    for restartable in [true, false] {
        let mut pool = PagePool::builder(32 * MIB).restartable_sequences(restartable).build().expect("a pool");
        let (stop, threads) = (AtomicBool::new(false), [const { AtomicI32::new(0) }; 3]);
        let work = |number: usize| {
            threads[number].store(gettid().as_raw_nonzero().get(), Relaxed);
            let mut rounds = 0_u64;
            while !stop.load(Relaxed) {
                let mut runs: Vec<_> = [0, 0, 3, 0, 5, 9].iter().filter_map(|&n| pool.pages(order(n)).ok()).collect();
                let mark = (rounds << 2 | number as u64).to_ne_bytes();
                runs.iter_mut().for_each(|run| run[..8].copy_from_slice(&mark));
                let mut pages = [std::ptr::NonNull::dangling(); 20];
                let got = pool.alloc_bulk(&mut pages).unwrap_or(0);
                assert!(runs.iter().all(|run| run[..8] == mark), "another run overlaps");
                // SAFETY: the pages are allocated, and nothing refers to them.
                unsafe { pool.free_bulk(Order::ZERO, &pages[..got]).expect("pages in use") };
                rounds += 1;
            }
            rounds
        };
        let moves = thread::scope(|scope| {
            let work = &work;
            let workers: Vec<_> = (0..3).map(|number| scope.spawn(move || work(number))).collect();
            let (mut moves, end) = (0_u32, Instant::now() + Duration::from_secs(20));
            while moves < 600 && Instant::now() < end && !workers.iter().any(thread::ScopedJoinHandle::is_finished) {
                for (number, thread) in threads.iter().enumerate() {
                    let Some(thread) = Pid::from_raw(thread.load(Relaxed)) else { continue };
                    let mut allowed = CpuSet::new();
                    match (moves as usize + number) % (cpus.len() + 1) {
                        all if all == cpus.len() => cpus.iter().for_each(|&cpu| allowed.set(cpu)),
                        one => allowed.set(cpus[one]),
                    }
                    sched_setaffinity(Some(thread), &allowed).expect("an allowed CPU");
                    moves += 1;
                }
                if moves % 7 == 0 {
                    pool.tick().expect("a tick");
                }
                thread::yield_now();
            }
            stop.store(true, Relaxed);
            assert!(workers.into_iter().all(|worker| worker.join().expect("no panic") > 0), "a thread did nothing");
            moves
        });
        assert!(moves >= 600, "{moves} moves in 20 s");
        assert_eq!(sched_getaffinity(None).expect("own affinity").count() as usize, cpus.len());
        assert_eq!(pool.stats().in_use_bytes, 0);
        pool.audit().expect("a consistent pool");
        drop(pool.pages(Order::PAGEBLOCK).expect("memory"));
    }
}
