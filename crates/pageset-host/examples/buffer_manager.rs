//! A small buffer manager: it caches blocks of a file and evicts the oldest. The example compares throughput and memory
//! with buffers from a pool and from the system allocator.
//!
//! `cargo run --release -p pageset-host --example buffer_manager [RUNS]`
//!
//! Each source of buffers runs RUNS times (default: 5), alternating, each time in a process of its own. The table shows
//! medians.
//!
//! The workload has three parts with different block sizes, like a database that scans an index, then large objects, then
//! both. Each part must reuse the memory that the previous part freed. When idle, each source gives memory back to the
//! system: the pool with `give_back`, glibc's heap with `malloc_trim`.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::ops::DerefMut;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use pageset_host::{PagePool, Pages, order_for};
use rustix::time::{ClockId, clock_gettime};

/// The most that the manager keeps in buffers, in bytes.
const KEPT: usize = 256 << 20;
/// Locks of the manager. The number of a block selects its lock.
const SHARDS: u64 = 16;
const THREADS: u64 = 2;
const LOOKUPS: u64 = 200_000;

/// The parts of the workload, with their block sizes in KiB.
const PARTS: [(&str, &[usize]); 3] = [("index", &[4]), ("objects", &[64]), ("both", &[4, 8, 16, 64])];

trait Source: Sync {
    type Buffer: DerefMut<Target = [u8]> + Send;
    /// Returns a buffer that starts with `block`.
    fn read(&self, block: &[u8]) -> Self::Buffer;
    /// Gives memory back to the system.
    fn idle(&self) {}
}

/// The system allocator.
struct Heap;

impl Source for Heap {
    type Buffer = Vec<u8>;

    fn read(&self, block: &[u8]) -> Vec<u8> {
        block.to_vec()
    }

    #[cfg(target_env = "gnu")]
    fn idle(&self) {
        // SAFETY: the call releases only free memory.
        unsafe { libc::malloc_trim(0) };
    }
}

struct Pool(PagePool);

impl<'p> Source for &'p Pool {
    type Buffer = Pages<&'p PagePool>;

    fn read(&self, block: &[u8]) -> Self::Buffer {
        let order = order_for(block.len()).expect("blocks have at most 4 MiB");
        let pool: &'p Pool = self;
        let mut buffer = pool.0.pages(order).expect("the pool is larger than KEPT");
        buffer[..block.len()].copy_from_slice(block);
        buffer
    }

    fn idle(&self) {
        self.0.give_back(u64::MAX).expect("the system takes memory back");
    }
}

/// The blocks of one lock, and the order of their insertion.
struct Shard<B> {
    blocks: HashMap<u64, B>,
    order: VecDeque<u64>,
    bytes: usize,
}

/// Looks a block up. On a miss, evicts old blocks until the new one fits, then reads it.
fn look_up<S: Source>(source: &S, shard: &Mutex<Shard<S::Buffer>>, number: u64, block: &[u8]) -> u64 {
    let mut shard = shard.lock().expect("no panic");
    if let Some(buffer) = shard.blocks.get(&number) {
        return u64::from(buffer[0]);
    }
    while shard.bytes + block.len() > KEPT / SHARDS as usize {
        let Some(oldest) = shard.order.pop_front() else { break };
        shard.bytes -= shard.blocks.remove(&oldest).map_or(0, |buffer| buffer.len());
    }
    let buffer = source.read(block);
    let first = u64::from(buffer[0]);
    shard.bytes += buffer.len();
    shard.order.push_back(number);
    shard.blocks.insert(number, buffer);
    first
}

/// The resident memory of this process in MiB.
fn resident_mib() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(f64::NAN);
    pages * rustix::param::page_size() as f64 / f64::from(1 << 20)
}

/// Runs the workload. After each part, prints a line: lookups per second, CPU µs per lookup, resident MiB.
fn run_workload<S: Source>(source: S) {
    let file = vec![7_u8; 64 << 10];
    let shards: Vec<_> =
        (0..SHARDS).map(|_| Mutex::new(Shard { blocks: HashMap::new(), order: VecDeque::new(), bytes: 0 })).collect();
    for (part, (_, sizes)) in PARTS.iter().enumerate() {
        let (start, cpu) = (Instant::now(), cpu_time());
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (source, shards, file) = (&source, &shards, &file);
                scope.spawn(move || {
                    let mut random = thread + 1;
                    let mut sum = 0;
                    for _ in 0..LOOKUPS {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        // Four times as many blocks as fit in KEPT.
                        let number = (random >> 33) % (4 * KEPT / (sizes[sizes.len() / 2] << 10)) as u64;
                        let block = &file[..sizes[number as usize % sizes.len()] << 10];
                        sum += look_up(source, &shards[(number % SHARDS) as usize], number << 2 | part as u64, block);
                    }
                    assert!(sum > 0);
                });
            }
        });
        let lookups = (THREADS * LOOKUPS) as f64;
        let cpu_us = (cpu_time() - cpu).as_secs_f64() * 1e6 / lookups;
        println!("{} {cpu_us} {}", lookups / start.elapsed().as_secs_f64(), resident_mib());
    }
    shards.iter().for_each(|shard| {
        let mut shard = shard.lock().expect("no panic");
        shard.blocks.clear();
        shard.order.clear();
        shard.bytes = 0;
    });
    source.idle();
    println!("0 0 {}", resident_mib());
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs the workload in a new process, and returns the numbers that [`run_workload`] prints for each part.
fn run(source: &str) -> Result<Vec<[f64; 3]>, Box<dyn Error>> {
    let out = Command::new(std::env::current_exe()?).arg(source).stderr(Stdio::inherit()).output()?;
    if !out.status.success() {
        return Err(format!("cannot run the workload with {source}: {}", out.status).into());
    }
    let line = |line: &str| {
        let numbers: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        Ok(numbers.try_into().map_err(|_| "cannot read a result: a line has three numbers")?)
    };
    str::from_utf8(&out.stdout)?.lines().map(line).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runs = match std::env::args().nth(1).as_deref() {
        Some("heap") => {
            run_workload(Heap);
            return Ok(());
        }
        Some("pool") => {
            // A quarter more than KEPT: evictions and reads overlap, and the caches of CPUs hold pages.
            let pool = Pool(PagePool::builder(KEPT as u64 * 5 / 4).build()?);
            run_workload(&pool);
            return Ok(());
        }
        Some(runs) => runs
            .parse::<usize>()
            .map_err(|error| format!("cannot read RUNS `{runs}`: {error}; try buffer_manager [RUNS]"))?
            .max(1),
        None => 5,
    };
    let (mut heap, mut pool) = (vec![], vec![]);
    for _ in 0..runs {
        heap.push(run("heap")?);
        pool.push(run("pool")?);
    }
    let of = |all: &[Vec<[f64; 3]>], part: usize, what: usize| median(all.iter().map(|run| run[part][what]).collect());
    let both = |part: usize, what: usize| [of(&heap, part, what), of(&pool, part, what)];
    println!("| part | lookups/s | with the pool | CPU µs/lookup | with the pool | resident MiB | with the pool |");
    println!("| --- | --: | --: | --: | --: | --: | --: |");
    for (part, (what, _)) in PARTS.iter().enumerate() {
        let ([heap, pool], [heap_us, pool_us], [heap_mib, pool_mib]) = (both(part, 0), both(part, 1), both(part, 2));
        println!("| {what} | {heap:.0} | {pool:.0} | {heap_us:.2} | {pool_us:.2} | {heap_mib:.0} | {pool_mib:.0} |");
    }
    let [heap_mib, pool_mib] = both(PARTS.len(), 2);
    println!("| idle | | | | | {heap_mib:.0} | {pool_mib:.0} |");
    Ok(())
}
