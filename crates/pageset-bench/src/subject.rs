//! The traits of a measured allocator, and each pattern as a loop over them.

use std::hint::black_box;
use std::time::Instant;

use crate::pattern::{BATCH, HALF_OF, HELD, Pattern};
use crate::ring::{BATCH_PAGES, Ring};

/// A page allocator. A number identifies a page: its address, its frame number or an index.
pub trait Pages: Sync {
    /// The state of a thread.
    type Local;

    /// Creates the state of the calling thread, which runs on its CPU already.
    fn local(&self, thread: usize) -> Self::Local;

    /// Allocates a page. The allocator is larger than the pattern; a subject without pages panics.
    fn get(&self, local: &mut Self::Local) -> u64;

    /// Allocates a page, or `None` if all are in use. For an allocator whose pages are all in use only after more calls than the
    /// pattern makes, the same as `get`.
    #[inline(always)]
    fn get_if_any(&self, local: &mut Self::Local) -> Option<u64> {
        Some(self.get(local))
    }

    /// Frees a page.
    fn put(&self, local: &mut Self::Local, page: u64);

    /// Allocates `pages.len()` pages and frees them, each in one call if the allocator has such calls. `pages` is a
    /// buffer for allocators that number their pages.
    #[inline(always)]
    fn take_and_give(&self, local: &mut Self::Local, pages: &mut [u64]) {
        pages.iter_mut().for_each(|page| *page = self.get(local));
        black_box(&*pages).iter().for_each(|&page| self.put(local, page));
    }
}

/// An allocator that can be measured, by name.
pub struct Entry {
    /// The name in tables.
    pub name: &'static str,
    /// Builds it for a pattern and a number of threads.
    pub make: fn(Pattern, usize) -> Built,
}

/// A subject, or why there is none.
pub type Built = Result<Box<dyn Subject>, Refusal>;

/// Why an allocator is not measured under a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The allocator lacks a feature of the pattern: orders, or frees on another thread.
    NotOffered,
    /// The allocator could not be built; the text gives the reason.
    Failed(String),
}

/// A thread's part in one measurement.
pub struct Run<'r> {
    /// The number of the thread, from 0.
    pub thread: usize,
    /// Number of threads.
    pub threads: usize,
    /// The pattern to run.
    pub pattern: Pattern,
    /// Called after the preparation; returns when to stop.
    pub ready: &'r dyn Fn() -> Instant,
    /// Called after the last pair, before held pages are freed.
    pub over: &'r dyn Fn(),
    pub(crate) ring: &'r Ring,
}

/// An allocator that can run patterns.
pub trait Subject: Sync {
    /// Runs a thread's part. Prepares, calls `ready`, works until the time is over and calls `over`. Then frees all
    /// held pages. Returns the number of pages allocated and freed between the two calls.
    fn work(&self, run: &Run<'_>) -> u64;
}

/// A linear congruential generator with Knuth's multiplier.
struct Scatter(u64);

impl Scatter {
    #[inline(always)]
    fn below_held(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as usize % HELD
    }
}

/// Odd, so that its multiples visit all indices of a power of two; large, so that successive indices are far apart.
const STRIDE: usize = 40_503;

impl<P: Pages> Subject for P {
    fn work(&self, run: &Run<'_>) -> u64 {
        let mut local = self.local(run.thread);
        let local = &mut local;
        match run.pattern {
            Pattern::Hot | Pattern::HotHuge => until(run, PAIRS, || self.pairs(local)),
            Pattern::Bulk => {
                let mut pages = [0; BATCH];
                until(run, BATCH, || {
                    pages.iter_mut().for_each(|page| *page = self.get(local));
                    pages.iter().for_each(|&page| self.put(local, black_box(page)));
                })
            }
            Pattern::Random => {
                let mut scatter = Scatter(run.thread as u64 + 1);
                let mut held: Vec<u64> = (0..HELD).map(|_| self.get(local)).collect();
                let result = until(run, 256, || {
                    for _ in 0..256 {
                        let place = &mut held[scatter.below_held()];
                        self.put(local, *place);
                        *place = self.get(local);
                    }
                });
                held.iter().for_each(|&page| self.put(local, page));
                result
            }
            Pattern::Churn => {
                let mut scatter = Scatter(run.thread as u64 + 1);
                let mut held: Vec<u64> = (0..HELD).map(|_| self.get(local)).collect();
                let result = until(run, BATCH, || {
                    let start = scatter.below_held();
                    let places = (0..BATCH).map(|i| (start + i * STRIDE) % HELD);
                    places.clone().for_each(|place| self.put(local, held[place]));
                    places.for_each(|place| held[place] = self.get(local));
                });
                held.iter().for_each(|&page| self.put(local, page));
                result
            }
            Pattern::Remote => self.remote(run, local),
            Pattern::Old(block) => {
                let kept = self.age(run, local, block);
                let result = until(run, PAIRS, || self.pairs(local));
                kept.iter().for_each(|&page| self.put(local, page));
                result
            }
            Pattern::Calls(count) => {
                let mut pages = vec![0; count];
                // Enough calls that reading the clock, 20 to 50 ns, costs less than 0.01 ns a page.
                let calls = CLOCK_PAGES.div_ceil(count);
                until(run, calls * count, || {
                    for _ in 0..calls {
                        self.take_and_give(local, &mut pages);
                    }
                })
            }
            Pattern::Half | Pattern::HalfHuge => {
                let count = (HALF_OF / 2 / run.threads) >> run.pattern.order();
                let mut pages = vec![0; count];
                // The first touch of memory is not part of the measurement.
                pages.iter_mut().for_each(|page| *page = self.get(local));
                pages.iter().for_each(|&page| self.put(local, page));
                until(run, count, || {
                    pages.iter_mut().for_each(|page| *page = self.get(local));
                    pages.iter().for_each(|&page| self.put(local, black_box(page)));
                })
            }
        }
    }
}

/// Pairs between two reads of the clock in `Hot`.
const PAIRS: usize = 256;

pub(crate) trait Pairs: Pages {
    fn pairs(&self, local: &mut Self::Local);
    fn age(&self, run: &Run<'_>, local: &mut Self::Local, block: usize) -> Vec<u64>;
}

impl<P: Pages> Pairs for P {
    /// Allocates a page and frees it, [`PAIRS`] times.
    #[inline(always)]
    fn pairs(&self, local: &mut Self::Local) {
        for _ in 0..PAIRS {
            let page = self.get(local);
            self.put(local, black_box(page));
        }
    }

    /// Allocates this thread's share of all pages and frees all but the first of each block of `block` pages. Returns those that
    /// are kept.
    fn age(&self, run: &Run<'_>, local: &mut Self::Local, block: usize) -> Vec<u64> {
        let share = run.pattern.pages(run.threads) / run.threads;
        let mut pages: Vec<u64> = (0..share).map_while(|_| self.get_if_any(local)).collect();
        pages.sort_unstable();
        // Addresses are 4,096 apart, numbers of pages 1.
        let unit = pages.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(1).max(1);
        let (kept, freed) = pages.into_iter().partition::<Vec<u64>, _>(|page| (page / unit) % block as u64 == 0);
        freed.iter().for_each(|&page| self.put(local, page));
        kept
    }
}

/// Pages between two reads of the clock in patterns that take less than 1 ns a page.
const CLOCK_PAGES: usize = 8192;

/// Runs pieces of `pairs` pages until the time is over.
fn until(run: &Run<'_>, pairs: usize, mut piece: impl FnMut()) -> u64 {
    // One piece warms the caches.
    piece();
    let end = (run.ready)();
    let mut done = 0;
    loop {
        piece();
        done += pairs as u64;
        if Instant::now() >= end {
            (run.over)();
            return done;
        }
    }
}

/// Batches between two reads of the clock in `Remote`: 512 pages, as in `Bulk`.
const BATCHES_PER_PIECE: usize = 8;

trait Remote: Pages {
    fn remote(&self, run: &Run<'_>, local: &mut Self::Local) -> u64;
}

impl<P: Pages> Remote for P {
    fn remote(&self, run: &Run<'_>, local: &mut Self::Local) -> u64 {
        let mut pages = [0; BATCH_PAGES];
        if run.thread == 0 {
            // The ring closes before this thread reads its counters, because closing ends the other thread's time.
            let over = || {
                run.ring.close();
                (run.over)();
            };
            return until(&Run { over: &over, ..*run }, BATCHES_PER_PIECE * BATCH_PAGES, || {
                for _ in 0..BATCHES_PER_PIECE {
                    pages.iter_mut().for_each(|page| *page = self.get(local));
                    run.ring.send(&pages);
                }
            });
        }
        (run.ready)();
        let mut done = 0;
        while run.ring.receive(&mut pages) {
            pages.iter().for_each(|&page| self.put(local, page));
            done += BATCH_PAGES as u64;
        }
        (run.over)();
        done
    }
}
