//! What is measured, and each pattern as a loop over it.

use std::hint::black_box;
use std::time::Instant;

use crate::pattern::{BATCH, HALF_OF, HELD, Pattern};
use crate::ring::{Ring, TOGETHER};

/// A source of pages. A page is known by a number: its address, its frame number, an index.
pub trait Pages: Sync {
    /// What a thread has for itself.
    type Local;

    /// Prepares a thread, which is on its CPU already.
    fn local(&self, thread: usize) -> Self::Local;

    /// Takes a page. There always is one; a subject that runs out panics and says so.
    fn get(&self, local: &mut Self::Local) -> u64;

    /// Gives a page back.
    fn put(&self, local: &mut Self::Local, page: u64);

    /// Takes as many pages as there is room for and gives them back, each in one call where it has one. `pages` is for those
    /// that name pages by numbers.
    #[inline(always)]
    fn take_and_give(&self, local: &mut Self::Local, pages: &mut [u64]) {
        pages.iter_mut().for_each(|page| *page = self.get(local));
        black_box(&*pages).iter().for_each(|&page| self.put(local, page));
    }
}

/// Something that can be measured, by name.
pub struct Entry {
    /// Its name in tables.
    pub name: &'static str,
    /// Builds it for a pattern and a number of threads.
    pub make: fn(Pattern, usize) -> Built,
}

/// A subject, or why there is none.
pub type Built = Result<Box<dyn Subject>, Refusal>;

/// Why somebody is not measured under a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It does not offer what the pattern takes: orders, frees on another thread.
    NotOffered,
    /// It does, but could not be built: why not.
    Failed(String),
}

/// A thread's part in one measurement.
pub struct Run<'r> {
    /// Which thread, from 0.
    pub thread: usize,
    /// How many there are.
    pub threads: usize,
    /// What it is to do.
    pub pattern: Pattern,
    /// Called when everything is prepared; returns when to stop.
    pub ready: &'r dyn Fn() -> Instant,
    /// Called when the last pair is done, before anything else is given back.
    pub over: &'r dyn Fn(),
    pub(crate) ring: &'r Ring,
}

/// Something that runs patterns.
pub trait Subject: Sync {
    /// Runs a thread's part: prepares, says that it is ready, works until the time is over, says so, and returns how many
    /// pages it took and gave back until then. What it holds then it gives back.
    fn work(&self, run: &Run<'_>) -> u64;
}

/// Numbers that do not repeat soon: the multiplier is Knuth's.
struct Scatter(u64);

impl Scatter {
    #[inline(always)]
    fn below_held(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as usize % HELD
    }
}

/// Odd, so that its multiples visit all places of a power of two; large, so that two in a row are far apart.
const STRIDE: usize = 40_503;

impl<P: Pages> Subject for P {
    fn work(&self, run: &Run<'_>) -> u64 {
        let mut local = self.local(run.thread);
        let local = &mut local;
        match run.pattern {
            Pattern::Hot | Pattern::HotHuge => until(run, 256, || {
                for _ in 0..256 {
                    let page = self.get(local);
                    self.put(local, black_box(page));
                }
            }),
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
            Pattern::Calls(count) => {
                let mut pages = vec![0; count];
                // As many as make the looks at the clock, 20 to 50 ns each, less than a hundredth of a ns a page.
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
                // Once before the time begins: what is touched first is not what is measured.
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

/// Pages between two looks at the clock where a page takes less than a ns.
const CLOCK_PAGES: usize = 8192;

/// Works in pieces of `pairs` until the time is over.
fn until(run: &Run<'_>, pairs: usize, mut piece: impl FnMut()) -> u64 {
    // Once for the caches.
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

/// Batches between two looks at the clock, in `Remote`: 512 pages, as in `Bulk`.
const ROUND: usize = 8;

trait Remote: Pages {
    fn remote(&self, run: &Run<'_>, local: &mut Self::Local) -> u64;
}

impl<P: Pages> Remote for P {
    fn remote(&self, run: &Run<'_>, local: &mut Self::Local) -> u64 {
        let mut pages = [0; TOGETHER];
        if run.thread == 0 {
            // Closed before anything is looked at: the other one's time ends with that.
            let over = || {
                run.ring.close();
                (run.over)();
            };
            return until(&Run { over: &over, ..*run }, ROUND * TOGETHER, || {
                for _ in 0..ROUND {
                    pages.iter_mut().for_each(|page| *page = self.get(local));
                    run.ring.send(&pages);
                }
            });
        }
        (run.ready)();
        let mut done = 0;
        while run.ring.receive(&mut pages) {
            pages.iter().for_each(|&page| self.put(local, page));
            done += TOGETHER as u64;
        }
        (run.over)();
        done
    }
}
