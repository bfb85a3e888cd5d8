//! A soak test: threads start, move, block and end on a pool that is too small for them. Meanwhile the pool grows,
//! shrinks and gives memory back.
//!
//! The test checks that no page has two owners, that the counters balance, and that resident memory returns to its first
//! value. Each owner stamps its pages, so the test detects foreign writes. A working set of 256 MiB stays allocated
//! throughout.
//!
//! The test runs for `PAGESET_SOAK_SECONDS` seconds (default: 3) with the seed `PAGESET_SOAK_SEED`. `ci/pool-soak.sh`
//! runs an optimised build for longer.

mod common;

use std::env;
use std::fs;
use std::ops::DerefMut;
use std::panic;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pageset_host::{ContigPages, GiveBack, HugePages, Order, PAGE_BYTES, PagePool, Pages};

use common::MIB;

/// The working set in bytes.
const KEPT: u64 = 256 * MIB;
/// Concurrent threads: four for each CPU of a small machine, so that lock holders lose their CPUs.
const THREADS: u64 = 8;

/// A small random number generator. A seed determines its sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % n
    }
}

/// A run with the stamp of its owner at both ends of each page.
struct Stamped<B> {
    pages: B,
    stamp: u64,
}

type Run<'p> = Stamped<Pages<&'p PagePool>>;

impl<B: DerefMut<Target = [u8]>> Stamped<B> {
    fn new(mut pages: B, stamps: &AtomicU64) -> Self {
        let stamp = stamps.fetch_add(1, Relaxed);
        for page in pages.chunks_exact_mut(PAGE_BYTES) {
            page[..8].copy_from_slice(&stamp.to_ne_bytes());
            page[PAGE_BYTES - 8..].copy_from_slice(&stamp.to_ne_bytes());
        }
        Stamped { pages, stamp }
    }

    fn check(&self, seed: u64) {
        for page in self.pages.chunks_exact(PAGE_BYTES) {
            for place in [0, PAGE_BYTES - 8] {
                let found = u64::from_ne_bytes(page[place..place + 8].try_into().expect("8 bytes"));
                let run = self.pages.as_ptr();
                assert_eq!(found, self.stamp, "{run:?} has two owners; PAGESET_SOAK_SEED={seed}");
            }
        }
    }
}

/// Counts of events. Relaxed: statistics.
#[derive(Debug, Default)]
struct Counts {
    operations: AtomicU64,
    threads: AtomicU64,
    refused: AtomicU64,
    grown: AtomicU64,
    shrunk: AtomicU64,
    contiguous: AtomicU64,
    unwound: AtomicU64,
}

impl Counts {
    fn add(&self, which: fn(&Self) -> &AtomicU64) {
        which(self).fetch_add(1, Relaxed);
    }
}

struct World<'p> {
    pool: &'p PagePool,
    seed: u64,
    end: Instant,
    /// The next stamp. Each is used once.
    stamps: &'p AtomicU64,
    counts: Counts,
    mail: Mutex<Vec<Run<'p>>>,
}

impl<'p> World<'p> {
    fn mail(&self) -> std::sync::MutexGuard<'_, Vec<Run<'p>>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one thread: some operations, then it frees its runs or leaves them to other threads.
    fn run_thread(&self, mut random: Random, cpus: &[usize]) {
        let mut mine: Vec<Run<'p>> = vec![];
        let free = |run: Run<'p>| run.check(self.seed);
        let operations = 200 + random.below(4000);
        for _ in 0..operations {
            match random.below(1000) {
                0..480 => {
                    let order = [0, 0, 0, 0, 0, 1, 2, 3, 4, 7, 9, 10][random.below(12) as usize];
                    match self.pool.pages(Order::new(order).expect("an order")) {
                        Ok(pages) => mine.push(Stamped::new(pages, self.stamps)),
                        Err(_) => {
                            self.counts.add(|counts| &counts.refused);
                            // Makes room for other threads.
                            mine.drain(..mine.len() / 2).for_each(free);
                        }
                    }
                }
                480..900 => {
                    if let Some(at) = random.below(256).checked_rem(mine.len() as u64) {
                        free(mine.swap_remove(at as usize));
                    }
                }
                900..930 => self.bulk(random.below(300) as usize),
                930..960 => {
                    let few = mine.len() / 4;
                    self.mail().extend(mine.drain(..few));
                }
                960..980 => {
                    let theirs: Vec<_> = {
                        let mut mail = self.mail();
                        let few = mail.len().min(30);
                        mail.drain(..few).collect()
                    };
                    theirs.into_iter().for_each(free);
                }
                980..984 => thread::sleep(Duration::from_micros(random.below(500))),
                984 => thread::sleep(Duration::from_millis(random.below(20))),
                985..991 => {
                    // If the CPU went offline meanwhile, the thread stays where it is.
                    let _ = common::pin(cpus[random.below(cpus.len() as u64) as usize]);
                }
                991 => self.contiguous(random.below(6 * MIB) as usize + 1),
                992..994 => self.pool.tick().expect("a tick"),
                994 => drop(self.pool.give_back(4 * MIB).expect("given back")),
                995 => self.pool.drain(),
                996 if self.pool.grow(random.below(4 * MIB) + 1).is_ok() => self.counts.add(|counts| &counts.grown),
                997 if self.pool.shrink(random.below(4 * MIB) + 1).is_ok() => self.counts.add(|counts| &counts.shrunk),
                998 if random.below(50) == 0 => {
                    self.counts.add(|counts| &counts.unwound);
                    // A panic without its message. The handles free their runs.
                    panic::resume_unwind(Box::new(Unwound));
                }
                _ => drop(self.pool.stats()),
            }
        }
        self.counts.operations.fetch_add(operations, Relaxed);
        if random.below(2) == 0 {
            self.mail().append(&mut mine);
        }
        mine.into_iter().for_each(free);
    }

    fn contiguous(&self, bytes: usize) {
        let Ok(pages) = self.pool.contig_pages(bytes) else { return };
        self.counts.add(|counts| &counts.contiguous);
        let run: Stamped<ContigPages<&PagePool>> = Stamped::new(pages, self.stamps);
        thread::yield_now();
        run.check(self.seed);
    }

    fn bulk(&self, count: usize) {
        let mut pages = vec![NonNull::<u8>::dangling(); count];
        let Ok(got) = self.pool.alloc_bulk(&mut pages) else { return };
        let stamp = self.stamps.fetch_add(1, Relaxed);
        let words = || pages[..got].iter().map(|page| page.cast::<u64>());
        // SAFETY: this call owns the pages, and each page starts with an aligned word.
        words().for_each(|word| unsafe { word.write(stamp) });
        thread::yield_now();
        for word in words() {
            // SAFETY: this call owns the pages, and each page starts with an initialised word.
            assert_eq!(unsafe { word.read() }, stamp, "{word:?} has two owners; PAGESET_SOAK_SEED={}", self.seed);
        }
        // SAFETY: this call owns the pages, and nothing refers to them afterwards.
        unsafe { self.pool.free_bulk(Order::ZERO, &pages[..got]).expect("allocated pages") };
    }
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("cannot read {name}={text}: it is not a number; try {default}"))
    })
}

/// The panic payload of a thread that unwinds on purpose.
struct Unwound;

/// Runs threads for `time`, and frees the runs that they left. Prints the counts once a minute.
fn run_threads(pool: &PagePool, seed: u64, stamps: &AtomicU64, time: Duration) -> Counts {
    let start = Instant::now();
    let world = World { pool, seed, end: start + time, stamps, counts: Counts::default(), mail: Mutex::new(vec![]) };
    let cpus = common::allowed_cpus();
    thread::scope(|scope| {
        for place in 0..THREADS {
            let (world, cpus) = (&world, &cpus);
            scope.spawn(move || {
                let mut generation = 0;
                while Instant::now() < world.end {
                    generation += 1;
                    world.counts.add(|counts| &counts.threads);
                    let random = Random(world.seed.wrapping_mul(place * 1_000_003 + generation) | 1);
                    // A new thread for each generation, so that threads end.
                    let ended = thread::scope(|inner| inner.spawn(move || world.run_thread(random, cpus)).join());
                    match ended {
                        Err(how) if !how.is::<Unwound>() => panic::resume_unwind(how),
                        _ => {}
                    }
                }
            });
        }
        while Instant::now() + MINUTE < world.end {
            thread::sleep(MINUTE);
            println!("{:>5} s: {} MiB resident, {:?}", start.elapsed().as_secs(), resident() / MIB, world.counts);
        }
    });
    world.mail().drain(..).for_each(|run| run.check(seed));
    world.counts
}

const MINUTE: Duration = Duration::from_secs(60);

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * rustix::param::page_size() as u64
}

/// Gives all free memory back, and returns the resident memory of this process in bytes.
fn resident_after_give_back(pool: &PagePool) -> u64 {
    pool.give_back(u64::MAX).expect("given back");
    resident()
}

#[test]
fn soak() {
    let seconds = number("PAGESET_SOAK_SECONDS", 3);
    let seed = number("PAGESET_SOAK_SEED", 0x5eed) | 1;
    println!("PAGESET_SOAK_SECONDS={seconds} PAGESET_SOAK_SEED={seed} ci/pool-soak.sh");
    let policy = GiveBack { interval: Duration::from_millis(10), after_scans: 2, bytes_per_scan: 8 * MIB };
    let builder = PagePool::builder(KEPT + 32 * MIB).reserve(KEPT + 64 * MIB).give_back(policy);
    let mut pool = builder.huge_pages(HugePages::None).build().expect("a pool");
    let stamps = AtomicU64::new(1);
    let kept: Vec<_> =
        (0..KEPT / (4 * MIB)).map(|_| Stamped::new(pool.pages(Order::MAX).expect("room"), &stamps)).collect();
    // A warm-up: the C library and the harness keep some memory of the first threads.
    run_threads(&pool, seed ^ 2, &stamps, Duration::from_millis(1000.min(seconds * 200)));
    let before = resident_after_give_back(&pool);

    let counts = run_threads(&pool, seed, &stamps, Duration::from_secs(seconds));
    kept.iter().for_each(|run| run.check(seed));
    let after = resident_after_give_back(&pool);
    let stats = pool.stats();
    println!("{counts:?}");
    println!(
        "resident {:.2} MiB before, {:.2} MiB after; size {} MiB, {} MiB given back, {} lock holds",
        before as f64 / MIB as f64,
        after as f64 / MIB as f64,
        stats.size_bytes / MIB,
        stats.given_back_bytes / MIB,
        stats.lock_acquisitions
    );
    assert_eq!(stats.in_use_bytes, KEPT, "seed {seed}");
    assert_eq!(stats.alloc_bytes, stats.free_total_bytes + KEPT, "seed {seed}");
    assert_eq!(stats.free_bytes + stats.cached_bytes + KEPT, stats.size_bytes, "seed {seed}");
    assert_eq!(pool.memory().resident_bytes().expect("a count"), KEPT, "free memory stayed resident; seed {seed}");
    // A sanitizer keeps shadow memory of each page that was ever touched.
    let percent = number("PAGESET_SOAK_RESIDENT_PERCENT", 1);
    assert!(
        after <= before + before / 100 * percent,
        "resident memory rose from {before} to {after} bytes; seed {seed}"
    );
    let seen = |which: fn(&Counts) -> &AtomicU64| which(&counts).load(Relaxed) > 0;
    assert!(seen(|counts| &counts.refused), "no allocation failed: {counts:?}");
    assert!(seen(|counts| &counts.grown) && seen(|counts| &counts.contiguous), "{counts:?}");
    drop(kept);
    pool.audit().expect("a consistent pool");
    assert_eq!(pool.stats().in_use_bytes, 0, "seed {seed}");
}
