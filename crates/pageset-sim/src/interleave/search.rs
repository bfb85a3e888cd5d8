//! Many interleavings with different seeds, in parallel on host threads.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::{Failure, Interleaving, Tried};

/// The result of many interleavings.
#[derive(Debug, Default)]
pub struct Search {
    /// Number of interleavings without a failure.
    pub interleavings: u64,
    /// Total work of these.
    pub tried: Tried,
    /// The failure with the lowest seed, and that seed.
    pub first_failure: Option<(u64, Failure)>,
}

/// Tries seeds until one fails. Higher seeds are skipped and lower seeds run to their end, so that any number of
/// threads finds the same failure. Each thread polls `keep_on` before each seed. `done` receives the number of
/// successful interleavings after each.
pub fn try_seeds(
    of_seed: impl Fn(u64) -> Interleaving + Sync,
    seeds: Range<u64>,
    workers: NonZeroUsize,
    keep_on: impl Fn() -> bool + Sync,
    done: impl Fn(usize) + Sync,
) -> Search {
    let (next, search) = (AtomicU64::new(seeds.start), Mutex::new(Search::default()));
    thread::scope(|scope| {
        for _ in 0..workers.get() {
            scope.spawn(|| {
                loop {
                    // Relaxed: this counter only hands out seeds; a lock guards the outcome, and the scope joins the
                    // threads.
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || !keep_on() {
                        break;
                    }
                    let result = of_seed(seed).run();
                    let Ok(mut search) = search.lock() else { break };
                    match result {
                        Ok(tried) => {
                            search.interleavings += 1;
                            search.tried.operations += tried.operations;
                            search.tried.switches += tried.switches;
                            done(search.interleavings as usize);
                        }
                        Err(failure) => {
                            next.store(seeds.end, Ordering::Relaxed);
                            if search.first_failure.as_ref().is_none_or(|(first, _)| seed < *first) {
                                search.first_failure = Some((seed, failure));
                            }
                        }
                    }
                }
            });
        }
    });
    search.into_inner().unwrap_or_default()
}
