//! Threads fault memory in through jemalloc, and one background thread of jemalloc gives it back to the kernel: so pages are
//! allocated on all CPUs and freed on one.
//!
//! `purgers SECONDS [THREADS]`; without THREADS, one for each CPU. `_RJEM_MALLOC_CONF` overrides the options of jemalloc.

use std::hint::black_box;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// jemalloc's options. Unused memory returns at the next look of the background thread, a tenth of a second apart at least. It returns
/// with `MADV_DONTNEED`, which frees at once. Without huge pages, a fault takes one page.
// SAFETY: jemalloc declares the symbol as a pointer to a text that ends with a zero byte.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static OPTIONS: &[u8; 93] =
    b"background_thread:true,max_background_threads:1,dirty_decay_ms:20,muzzy_decay_ms:0,thp:never\0";

const KIB: usize = 1024;
/// The sizes of the blocks: each is a size class of jemalloc, and beyond what a thread caches.
const SIZES: [usize; 6] = [64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, 1024 * KIB, 2048 * KIB];
/// What a thread holds at the end of a request: that of 4 threads is about what a CPU of a machine of 1 GiB may keep free. A guess.
const REQUEST_BYTES: usize = 8192 * KIB;
/// The smallest page that Linux has.
const PAGE_BYTES: usize = 4096;
/// The time between two requests of a thread: a little more than jemalloc's background thread waits between two looks.
const PAUSE: Duration = Duration::from_millis(120);

/// Allocates and touches the blocks of one request, and frees them. `seed` selects the sizes.
fn request(seed: &mut u64) {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0;
    while bytes < REQUEST_BYTES {
        // Xorshift.
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        let size = SIZES[(*seed % SIZES.len() as u64) as usize];
        // Not zeroed: jemalloc would give the pages back and fault them in again.
        let mut block = Vec::with_capacity(size);
        for page in block.spare_capacity_mut().chunks_mut(PAGE_BYTES) {
            page[0].write(1);
        }
        blocks.push(black_box(block));
        bytes += size;
    }
}

fn main() {
    let numbers: Option<Vec<f64>> = std::env::args().skip(1).map(|word| word.parse().ok()).collect();
    let (seconds, threads) = match numbers.as_deref() {
        Some(&[seconds]) if seconds > 0.0 => (seconds, std::thread::available_parallelism().map_or(1, usize::from)),
        Some(&[seconds, threads]) if seconds > 0.0 && threads >= 1.0 => (seconds, threads as usize),
        _ => {
            eprintln!("cannot read the arguments; usage: purgers SECONDS [THREADS]");
            std::process::exit(2);
        }
    };
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut seed = thread as u64 + 1;
                // The threads do not work in step.
                std::thread::sleep(PAUSE * thread as u32 / threads as u32);
                while Instant::now() < end {
                    request(&mut seed);
                    std::thread::sleep(PAUSE);
                }
            });
        }
    });
}
