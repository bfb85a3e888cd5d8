//! Threads that start, move, block and die on one pool that is too small for them: no page twice, the books balance,
//! and resident memory is back at the end.
//!
//! Runs for `PAGESET_SOAK_SECONDS` seconds, 3 if that is not set, with `PAGESET_SOAK_SEED`.

use std::env;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pageset_host::{GiveBack, HugePages, Order, PAGE_BYTES, PagePool, Pages};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const MIB: u64 = 1 << 20;
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
struct Stamped<'p> {
    pages: Pages<&'p PagePool>,
    stamp: u64,
}

impl<'p> Stamped<'p> {
    fn new(mut pages: Pages<&'p PagePool>, world: &World<'p>) -> Stamped<'p> {
        let stamp = world.stamps.fetch_add(1, Relaxed);
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

struct World<'p> {
    pool: &'p PagePool,
    seed: u64,
    end: Instant,
    stamps: AtomicU64,
    operations: AtomicU64,
    refused: AtomicU64,
    mail: Mutex<Vec<Stamped<'p>>>,
}

impl<'p> World<'p> {
    fn mail(&self) -> std::sync::MutexGuard<'_, Vec<Stamped<'p>>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One thread's life: some operations, then it dies, with what it has freed or left to others.
    fn life(&self, mut random: Random, cpus: &[usize]) {
        let mut mine: Vec<Stamped<'p>> = vec![];
        let free = |run: Stamped<'p>| run.check(self.seed);
        let operations = 200 + random.below(4000);
        for _ in 0..operations {
            match random.below(1000) {
                0..480 => {
                    let order = [0, 0, 0, 0, 0, 1, 2, 3, 4, 7, 9, 10][random.below(12) as usize];
                    match self.pool.pages(Order::new(order).expect("an order")) {
                        Ok(pages) => mine.push(Stamped::new(pages, self)),
                        Err(_) => {
                            self.refused.fetch_add(1, Relaxed);
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
                980..985 => thread::sleep(Duration::from_micros(random.below(500))),
                985..993 => {
                    let mut one = CpuSet::new();
                    one.set(cpus[random.below(cpus.len() as u64) as usize]);
                    // A CPU that was taken away meanwhile: stays where it is.
                    let _ = sched_setaffinity(None, &one);
                }
                993..996 => self.pool.tick().expect("a tick"),
                996 => drop(self.pool.give_back(4 * MIB).expect("given back")),
                997 => self.pool.drain(),
                998 => drop(self.pool.grow(2 * MIB)),
                _ => drop(self.pool.stats()),
            }
        }
        self.operations.fetch_add(operations, Relaxed);
        if random.below(2) == 0 {
            self.mail().append(&mut mine);
        }
        mine.into_iter().for_each(free);
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

/// How many operations, how many of them refused, and how many threads.
struct Done {
    operations: u64,
    refused: u64,
    threads: u64,
}

/// Lets threads live until the time is over, and frees what they have left.
fn live(pool: &PagePool, seed: u64, time: Duration) -> Done {
    let world = World {
        pool,
        seed,
        end: Instant::now() + time,
        stamps: AtomicU64::new(1),
        operations: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        mail: Mutex::new(vec![]),
    };
    let allowed = sched_getaffinity(None).expect("own affinity");
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let lives = AtomicU64::new(0);
    thread::scope(|scope| {
        for place in 0..THREADS {
            let (world, cpus, lives) = (&world, &cpus, &lives);
            scope.spawn(move || {
                let mut generation = 0;
                while Instant::now() < world.end {
                    generation += 1;
                    lives.fetch_add(1, Relaxed);
                    let random = Random(world.seed.wrapping_mul(place * 1_000_003 + generation) | 1);
                    // A thread of its own, so that it ends.
                    thread::scope(|inner| drop(inner.spawn(move || world.life(random, cpus))));
                }
            });
        }
    });
    world.mail().iter().for_each(|run| run.check(seed));
    let (operations, refused) = (world.operations.load(Relaxed), world.refused.load(Relaxed));
    Done { operations, refused, threads: lives.load(Relaxed) }
}

#[test]
fn soak() {
    let seconds = number("PAGESET_SOAK_SECONDS", 3);
    let seed = number("PAGESET_SOAK_SEED", 0x5eed) | 1;
    println!(
        "PAGESET_SOAK_SECONDS={seconds} PAGESET_SOAK_SEED={seed} cargo test --release -p pageset-host --test soak"
    );
    let policy = GiveBack { interval: Duration::from_millis(10), after_scans: 2, bytes_per_scan: 8 * MIB };
    let builder = PagePool::builder(32 * MIB).reserve(64 * MIB).give_back(policy);
    let mut pool = builder.huge_pages(HugePages::None).build().expect("a pool");
    let before = pool.resident_bytes().expect("a count");
    let Done { operations, refused, threads } = live(&pool, seed, Duration::from_secs(seconds));
    let stats = pool.stats();
    println!(
        "{operations} operations by {threads} threads, {refused} refused; size {} MiB, {} MiB given back, {} lock holds",
        stats.size_bytes / MIB,
        stats.given_back_bytes / MIB,
        stats.lock_acquisitions
    );
    assert_eq!(stats.in_use_bytes, 0, "seed {seed}");
    assert_eq!(stats.alloc_bytes, stats.free_total_bytes, "seed {seed}");
    assert_eq!(stats.free_bytes + stats.cached_bytes, stats.size_bytes, "seed {seed}");
    pool.give_back(u64::MAX).expect("given back");
    pool.audit().expect("the books add up");
    let after = pool.resident_bytes().expect("a count");
    assert!(after <= before + stats.size_bytes / 100, "{after} bytes stay resident of {}", stats.size_bytes);
    assert!(operations > 1000 && refused > 0, "{operations} operations, {refused} refused: no pressure");
}
