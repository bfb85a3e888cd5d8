//! Hostile callers that use only what the pool allows: closures that panic or call the pool again, signal handlers that free
//! runs, and forks at any time.
//!
//! The test checks that no page has two owners, that no call hangs, and that the counters balance. Each owner stamps both
//! ends of its pages, and checks the stamps before it frees them. A watchdog ends the program if a thread makes no progress.
//! After each round everything is free, and an audit checks the pool. A callback cannot audit, since that takes the pool
//! alone.
//!
//! The pool calls code of its callers in these places. Each of them panics at random, or calls the pool again at random:
//!
//! | code | called by |
//! | --- | --- |
//! | a waker, and its drop | every call that frees memory, `tick`, `grow`, `set_limit`, polls and drops of futures |
//! | the closure of `alloc_bulk_as` | that call, for each page |
//! | the report of a ticker | the ticker's thread, which a panic ends |
//! | a writer | `zoneinfo`, which writes to it |
//!
//! The test runs for `PAGESET_HOSTILE_SECONDS` seconds (default: 3) with the seed `PAGESET_HOSTILE_SEED`. It has no
//! harness: signals of the process must reach the threads that use the pool.
#![allow(unsafe_code, reason = "a signal handler, forks, and raw frees")]

mod common;

#[path = "hostile/callbacks.rs"]
mod callbacks;
#[path = "hostile/children.rs"]
mod children;
#[path = "hostile/owned.rs"]
mod owned;
#[path = "hostile/signals.rs"]
mod signals;
#[path = "hostile/watchdog.rs"]
mod watchdog;
#[path = "hostile/worker.rs"]
mod worker;

use std::env;
use std::panic;
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pageset_host::{FreeCheck, GiveBack, HugePages, Memory, OnFork, PAGE_BYTES, PagePool, Ticker};

use callbacks::{below, seed_random};
use common::MIB;
use worker::{Round, Worker};

/// Threads that use the pool: three for each CPU of a small machine.
const THREADS: usize = 6;
/// The size of the pool at the start, and its address space. Small, so that requests fail and wait.
const POOL_BYTES: u64 = 24 * MIB;
const RESERVE_BYTES: u64 = 40 * MIB;
/// The time of one round, after which everything is freed and audited.
const ROUND: Duration = Duration::from_millis(600);
/// How often the interval of the signals changes.
const SIGNAL_PERIOD: Duration = Duration::from_millis(5);

/// Counts of events. Relaxed: statistics.
#[derive(Debug)]
struct Counts {
    operations: AtomicU64,
    callbacks: AtomicU64,
    /// Panics in callbacks.
    panics: AtomicU64,
    /// Panics of a caller that has runs.
    unwound: AtomicU64,
    /// Pages that a panic in the closure of `alloc_bulk_as` may have lost in this round: its documentation says how many.
    lost: AtomicU64,
    refused: AtomicU64,
    signals: AtomicU64,
    freed_by_signals: AtomicU64,
    forks: AtomicU64,
    futures: AtomicU64,
    own_tickers: AtomicU64,
}

static COUNTS: Counts = Counts {
    operations: AtomicU64::new(0),
    callbacks: AtomicU64::new(0),
    panics: AtomicU64::new(0),
    unwound: AtomicU64::new(0),
    lost: AtomicU64::new(0),
    refused: AtomicU64::new(0),
    signals: AtomicU64::new(0),
    freed_by_signals: AtomicU64::new(0),
    forks: AtomicU64::new(0),
    futures: AtomicU64::new(0),
    own_tickers: AtomicU64::new(0),
};

fn count(which: fn(&Counts) -> &AtomicU64) {
    which(&COUNTS).fetch_add(1, Relaxed);
}

static SEED: AtomicU64 = AtomicU64::new(0);

/// Ends the program: a panic could be taken for one of the test's own.
fn fail(what: &str) -> ! {
    eprintln!("error: {what}\nPAGESET_HOSTILE_SEED={} {COUNTS:?}", SEED.load(Relaxed));
    exit(101);
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("cannot read {name}={text}: it is not a number; try {default}"))
    })
}

/// A pool with random settings, and whether a forked child can read its memory.
fn random_pool() -> (PagePool, bool) {
    let first_node = pageset_host::topology::Topology::of_this_machine().nodes[0];
    let policy = GiveBack {
        interval: Duration::from_millis(1 + below(5)),
        after_scans: 1 + below(2) as u8,
        bytes_per_scan: 4 * MIB * below(2),
    };
    let is_shared = below(4) == 0;
    let on_fork = if is_shared || below(3) == 0 { OnFork::Absent } else { OnFork::Copy };
    let builder = PagePool::builder(POOL_BYTES)
        .reserve(RESERVE_BYTES)
        .nodes(&[first_node])
        .give_back(policy)
        .huge_pages(if below(4) == 0 { HugePages::Transparent } else { HugePages::None })
        .memory(if is_shared { Memory::Shared } else { Memory::Private })
        .on_fork(on_fork)
        .zero_on_free(below(4) == 0)
        .restartable_sequences(below(4) > 0)
        .free_check(if below(2) == 0 { FreeCheck::All } else { FreeCheck::default() });
    (builder.build().unwrap_or_else(|error| fail(&format!("cannot build a pool: {error}"))), on_fork == OnFork::Copy)
}

/// A ticker whose report panics, calls the pool, or drops the ticker itself.
fn hostile_ticker(pool: &Arc<PagePool>) -> Arc<Mutex<Option<Ticker>>> {
    let slot = Arc::new(Mutex::new(None));
    let (weak, own, seed) = (Arc::downgrade(pool), Arc::clone(&slot), below(u64::MAX));
    let mut rounds = 0;
    let report = move |_: &PagePool| {
        rounds += 1;
        if rounds == 1 {
            seed_random(seed);
        }
        match below(40) {
            0 => panic::resume_unwind(Box::new(callbacks::Hostile)),
            1 => {
                let ticker: Option<Ticker> = own.lock().unwrap_or_else(PoisonError::into_inner).take();
                if ticker.is_some() {
                    count(|counts| &counts.own_tickers);
                }
                drop(ticker);
            }
            _ => callbacks::call(&weak),
        }
        callbacks::clear();
    };
    let interval = Duration::from_millis(1 + below(4));
    let ticker = signals::allowed(|| pool.start_ticker(interval, report));
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = ticker.ok();
    slot
}

/// Runs all threads on a new pool, frees everything, and audits.
fn round(time: Duration) {
    let (pool, child_reads) = random_pool();
    let pool = Arc::new(pool);
    COUNTS.lost.store(0, Relaxed);
    callbacks::BULK_PANICS.store(below(4) == 0, Relaxed);
    signals::begin(&pool);
    let ticker = hostile_ticker(&pool);
    run_threads(&pool, child_reads, time);
    watchdog::at(THREADS, "the drop of a ticker");
    let running = ticker.lock().unwrap_or_else(PoisonError::into_inner).take();
    // Without the lock, for which the report may wait.
    drop(running);
    watchdog::at(THREADS, "the end of a round");
    callbacks::clear();
    signals::end(&pool);
    audit(sole_owner(pool));
}

/// Runs the threads, with signals, and frees what they left.
fn run_threads(pool: &Arc<PagePool>, child_reads: bool, time: Duration) {
    let world = Round { pool, child_reads, end: Instant::now() + time, mail: Mutex::default() };
    thread::scope(|scope| {
        for place in 0..THREADS {
            let (world, seed) = (&world, below(u64::MAX));
            scope.spawn(move || {
                seed_random(seed);
                Worker::new(world, place).run();
            });
        }
        while Instant::now() < world.end {
            signals::start_timer(Duration::from_micros(50 + below(2000)));
            thread::sleep(SIGNAL_PERIOD);
        }
    });
    signals::stop_timer();
    watchdog::at(THREADS, "the frees of sent runs");
    let left = world.mail.into_inner().unwrap_or_else(PoisonError::into_inner);
    left.into_iter().for_each(owned::Owned::free);
}

/// The pool, after all other references to it are gone. A ticker that its own report dropped ends a little later.
fn sole_owner(mut pool: Arc<PagePool>) -> PagePool {
    let start = Instant::now();
    loop {
        match Arc::try_unwrap(pool) {
            Ok(pool) => return pool,
            Err(_) if start.elapsed() > watchdog::LIMIT / 2 => fail("something still refers to the pool"),
            Err(shared) => pool = shared,
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Checks a pool of which everything was freed.
fn audit(mut pool: PagePool) {
    pool.set_limit(None).unwrap_or_else(|error| fail(&format!("cannot remove the limit: {error}")));
    pool.drain();
    let books = pool.audit().unwrap_or_else(|error| fail(&format!("the audit failed: {error}")));
    let in_use: u64 = books.iter().map(|node| node.in_use).sum();
    let lost = COUNTS.lost.load(Relaxed);
    if in_use > lost {
        fail(&format!("{in_use} pages are in use after everything was freed, and at most {lost} may be: {books:?}"));
    }
    let stats = pool.stats();
    if stats.in_use_bytes != in_use * PAGE_BYTES as u64
        || stats.alloc_bytes != stats.free_total_bytes + stats.in_use_bytes
        || stats.free_bytes + stats.cached_bytes + stats.in_use_bytes != stats.size_bytes
    {
        fail(&format!("the counters do not balance, with {in_use} pages in use: {stats:?}"));
    }
    if in_use == 0 && pool.contig_pages(stats.size_bytes as usize).is_err() {
        fail("not all memory is free");
    }
}

/// Whether each kind of event has happened. On a busy machine, that takes more than the shortest run.
fn all_happened() -> bool {
    let Counts { callbacks, panics, unwound, refused, freed_by_signals, forks, futures, .. } = &COUNTS;
    [callbacks, panics, unwound, refused, freed_by_signals, forks, futures].iter().all(|count| count.load(Relaxed) > 0)
}

fn main() {
    let seconds = number("PAGESET_HOSTILE_SECONDS", 3);
    let seed = number("PAGESET_HOSTILE_SEED", 0x5eed) | 1;
    println!(
        "PAGESET_HOSTILE_SECONDS={seconds} PAGESET_HOSTILE_SEED={seed} cargo test -p pageset-host --test hostile -- --nocapture"
    );
    SEED.store(seed, Relaxed);
    seed_random(seed);
    // The test's own panics call no hook.
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        print(info);
        fail("a call panicked");
    }));
    signals::set_up();
    watchdog::start();
    let start = Instant::now();
    let (mut rounds, mut minutes) = (0_u64, 0);
    while start.elapsed() < Duration::from_secs(seconds) || !all_happened() && start.elapsed() < watchdog::LIMIT {
        watchdog::at(THREADS, "the start of a round");
        round(ROUND);
        rounds += 1;
        if start.elapsed().as_secs() / 60 > minutes {
            minutes = start.elapsed().as_secs() / 60;
            println!("{:>5} s: {rounds} rounds, {COUNTS:?}", start.elapsed().as_secs());
        }
    }
    println!("{rounds} rounds, {COUNTS:?}");
    if !all_happened() {
        fail("something did not happen");
    }
    println!("test result: ok. 1 passed; 0 failed; hostile callers");
}
