//! `pageset-vmcache MEMORY THREADS BUDGET_MIB MS ROUND`: the traffic of a buffer manager on one kind of memory.
//!
//! Phases "fill", of 2 MS, and "all", of MS, fix random pages of a set 1.25 times as large as the budget. In phase "tenth", the set
//! and the budget are a tenth, for 4 MS. Each page that comes into memory has a new size, 4 to 64 KiB. Prints a line `phase,…` for each
//! phase and `sample,…` every 100 ms. Ends with 1 if a page has wrong content or a frame is lost, and with 3 if the machine
//! does not have the memory.

mod buffers;
mod memory;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use buffers::Buffers;
use memory::Memory;

/// The mean size of a page: a fifth each of 4, 8, 16, 32 and 64 KiB.
const MEAN_PAGE_BYTES: u64 = 25_395;

/// Counts of durations, 16 classes for each power of two of nanoseconds.
struct Histogram([u32; 16 * 64]);

impl Histogram {
    fn add(&mut self, ns: u64) {
        let ns = ns.max(16);
        let power = ns.ilog2() as usize;
        self.0[16 * power + ((ns >> (power - 4)) & 15) as usize] += 1;
    }

    /// The lower end of the class in which that part of the durations ends, in nanoseconds.
    fn quantile(&self, part: f64) -> u64 {
        let total: u64 = self.0.iter().map(|&count| u64::from(count)).sum();
        let mut left = (total as f64 * part) as u64;
        for (class, &count) in self.0.iter().enumerate() {
            if left < u64::from(count) {
                return (16 + class as u64 % 16) << (class / 16 - 4);
            }
            left -= u64::from(count);
        }
        0
    }
}

struct Phase {
    name: &'static str,
    pages: usize,
    budget: u64,
    time: Duration,
}

/// The process's resident memory in bytes.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("/proc/self/smaps_rollup");
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).expect("Rss");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

fn cpu_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Fixes random pages until `stop`. Counts fixes with wrong content, and fixes without memory.
fn fix_pages(
    buffers: &Buffers,
    pages: usize,
    seed: u64,
    stop: &AtomicBool,
    wrong: &AtomicU64,
    failed: &AtomicU64,
) -> (u64, Histogram) {
    let (mut random, mut fixes, mut times) = (seed, 0, Histogram([0; 16 * 64]));
    while !stop.load(Ordering::Relaxed) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let start = Instant::now();
        let fixed = buffers.fix((random >> 20) as usize % pages);
        times.add(start.elapsed().as_nanos() as u64);
        let Some(mut fixed) = fixed else {
            failed.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let content = fixed.content;
        let words = fixed.words();
        let middle = (random >> 8) as usize % words.len();
        let right = [0, middle, words.len() - 1].iter().all(|&word| words[word] == content);
        wrong.fetch_add(u64::from(!right), Ordering::Relaxed);
        // A write, as an owner may do it.
        words[middle] = content;
        fixes += 1;
    }
    (fixes, times)
}

fn run() -> Result<(), (u8, String)> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage = || (2, "usage: pageset-vmcache MEMORY THREADS BUDGET_MIB MS ROUND".to_owned());
    let number =
        |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).filter(|&n| n > 0).ok_or_else(usage);
    let (name, threads, budget, ms, round) =
        (words.first().ok_or_else(usage)?, number(1)?, number(2)? << 20, number(3)?, number(4)?);
    let pages = (budget * 5 / 4 / MEAN_PAGE_BYTES) as usize;
    let memory = Memory::new(name, budget, pages).map_err(|error| (3, format!("{name}: {error}")))?;
    let buffers = Buffers::new(memory, pages, budget);
    let (wrong, failed, seed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicUsize::new(1));
    let begin = Instant::now();
    let time = Duration::from_millis(ms);
    for phase in [
        Phase { name: "fill", pages, budget, time: time * 2 },
        Phase { name: "all", pages, budget, time },
        Phase { name: "tenth", pages: pages / 10, budget: budget / 10, time: time * 4 },
    ] {
        buffers.set_budget(phase.budget);
        let stop = AtomicBool::new(false);
        let (cpu, start) = (cpu_ms(), Instant::now());
        let (fixes, times) = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    let seed = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed.fetch_add(1, Ordering::Relaxed) as u64);
                    let (buffers, pages, stop, wrong, failed) = (&buffers, phase.pages, &stop, &wrong, &failed);
                    scope.spawn(move || fix_pages(buffers, pages, seed, stop, wrong, failed))
                })
                .collect();
            while start.elapsed() < phase.time {
                thread::sleep(Duration::from_millis(100));
                let held = buffers.held_bytes.load(Ordering::Relaxed);
                println!(
                    "sample,{name},{round},{threads},{},{},{held},{}",
                    begin.elapsed().as_millis(),
                    phase.budget,
                    resident_bytes()
                );
            }
            stop.store(true, Ordering::Relaxed);
            let mut all = (0, Histogram([0; 16 * 64]));
            for worker in workers {
                let (fixes, times) = worker.join().expect("a worker");
                all.0 += fixes;
                all.1.0.iter_mut().zip(times.0).for_each(|(sum, count)| *sum += count);
            }
            all
        });
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|part| times.quantile(part));
        println!(
            "phase,{name},{round},{threads},{},{fixes},{},{},{p50},{p99},{p999},{},{},{}",
            phase.name,
            start.elapsed().as_millis(),
            cpu_ms() - cpu,
            phase.budget,
            buffers.held_bytes.load(Ordering::Relaxed),
            resident_bytes()
        );
    }
    let [wrong, failed] = [wrong, failed].map(AtomicU64::into_inner);
    if wrong != 0 || failed != 0 {
        return Err((1, format!("{name}: {wrong} fixes of pages with wrong content, {failed} without memory")));
    }
    buffers.close().map_err(|error| (1, format!("{name}: {error}")))
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, error)) => {
            eprintln!("error: {error}");
            ExitCode::from(code)
        }
    }
}
