//! Threads that start, move, block and die on one pool that is too small for them, while it grows, shrinks and gives
//! memory back: no page twice, the books balance, and the process's resident memory is back at the end.
//!
//! A working set of 256 MiB lives through it all, with its owner's stamp on each page as everything has: what is
//! resident is compared with what was at the start, and a page of it that somebody else wrote is found.
//!
//! Runs for `PAGESET_SOAK_SECONDS` seconds, 3 if that is not set, with `PAGESET_SOAK_SEED`; `ci/pool-soak.sh` runs it
//! optimised, and longer.

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
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const MIB: u64 = 1 << 20;
/// Bytes of the working set.
const KEPT: u64 = 256 * MIB;
/// Threads at a time: four for each CPU of a small machine, so that holders of locks lose their CPUs.
const THREADS: u64 = 8;

/// A small generator: the same sequence for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % n
    }
}

/// A run with its owner's stamp at both ends of each page.
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
                assert_eq!(found, self.stamp, "{run:?} was handed out twice; PAGESET_SOAK_SEED={seed}");
            }
        }
    }
}

/// How often what happened. Relaxed: statistics.
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
    /// The next stamp, of all that there ever are.
    stamps: &'p AtomicU64,
    counts: Counts,
    mail: Mutex<Vec<Run<'p>>>,
}

impl<'p> World<'p> {
    fn mail(&self) -> std::sync::MutexGuard<'_, Vec<Run<'p>>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One thread's life: some operations, then it dies, with what it has freed or left to others.
    fn life(&self, mut random: Random, cpus: &[usize]) {
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
                            // Room for others.
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
                    let mut one = CpuSet::new();
                    one.set(cpus[random.below(cpus.len() as u64) as usize]);
                    // A CPU that was taken away meanwhile: stays where it is.
                    let _ = sched_setaffinity(None, &one);
                }
                991 => self.contiguous(random.below(6 * MIB) as usize + 1),
                992..994 => self.pool.tick().expect("a tick"),
                994 => drop(self.pool.give_back(4 * MIB).expect("given back")),
                995 => self.pool.drain(),
                996 if self.pool.grow(random.below(4 * MIB) + 1).is_ok() => self.counts.add(|counts| &counts.grown),
                997 if self.pool.shrink(random.below(4 * MIB) + 1).is_ok() => self.counts.add(|counts| &counts.shrunk),
                998 if random.below(50) == 0 => {
                    self.counts.add(|counts| &counts.unwound);
                    // As a panic, but without its message: handles free what they have on the way.
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
        // SAFETY: the pages are this call's own, and a page begins with a word.
        words().for_each(|word| unsafe { word.write(stamp) });
        thread::yield_now();
        for word in words() {
            // SAFETY: as above.
            assert_eq!(unsafe { word.read() }, stamp, "{word:?} was handed out twice; PAGESET_SOAK_SEED={}", self.seed);
        }
        // SAFETY: the pages are this call's own and not referred to afterwards.
        unsafe { self.pool.free_bulk(&pages[..got]).expect("were allocated") };
    }
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

/// How a thread ends that unwinds on purpose.
struct Unwound;

/// Lets threads live until the time is over, and frees what they have left. Says how it goes once a minute.
fn live(pool: &PagePool, seed: u64, stamps: &AtomicU64, time: Duration) -> Counts {
    let start = Instant::now();
    let world = World { pool, seed, end: start + time, stamps, counts: Counts::default(), mail: Mutex::new(vec![]) };
    let allowed = sched_getaffinity(None).expect("own affinity");
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    thread::scope(|scope| {
        for place in 0..THREADS {
            let (world, cpus) = (&world, &cpus);
            scope.spawn(move || {
                let mut generation = 0;
                while Instant::now() < world.end {
                    generation += 1;
                    world.counts.add(|counts| &counts.threads);
                    let random = Random(world.seed.wrapping_mul(place * 1_000_003 + generation) | 1);
                    // A thread of its own, so that it ends.
                    let ended = thread::scope(|inner| inner.spawn(move || world.life(random, cpus)).join());
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

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * rustix::param::page_size() as u64
}

/// Empties caches, gives all free memory back, and says what is resident then, of the process.
fn settled(pool: &PagePool) -> u64 {
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
    // First a short one: what the C library and the harness keep of dead threads is there from then on.
    live(&pool, seed ^ 2, &stamps, Duration::from_millis(1000.min(seconds * 200)));
    let before = settled(&pool);

    let counts = live(&pool, seed, &stamps, Duration::from_secs(seconds));
    kept.iter().for_each(|run| run.check(seed));
    let after = settled(&pool);
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
    assert_eq!(pool.resident_bytes().expect("a count"), KEPT, "all that is free has gone back; seed {seed}");
    // A sanitizer keeps shadows of what was ever touched.
    let percent = number("PAGESET_SOAK_RESIDENT_PERCENT", 1);
    assert!(after <= before + before / 100 * percent, "{after} bytes are resident, {before} were; seed {seed}");
    let seen = |which: fn(&Counts) -> &AtomicU64| which(&counts).load(Relaxed) > 0;
    assert!(seen(|counts| &counts.refused), "no pressure: {counts:?}");
    assert!(seen(|counts| &counts.grown) && seen(|counts| &counts.contiguous), "{counts:?}");
    drop(kept);
    pool.audit().expect("the books add up");
    assert_eq!(pool.stats().in_use_bytes, 0, "seed {seed}");
}
