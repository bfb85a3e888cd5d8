//! Many runs at once, on as many threads as are given. Which thread runs what changes no outcome.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::run::{Outcome, Run, RunError};

/// Runs all of them; outcomes are in the order of `runs`. `keep_on` is asked now and then by all threads, and `done` told
/// after each run how many have ended.
pub fn run_all(
    runs: &[Run<'_>],
    workers: NonZeroUsize,
    keep_on: impl Fn() -> bool + Sync,
    done: impl Fn(usize) + Sync,
) -> Vec<Result<Outcome, RunError>> {
    let outcomes: Vec<Mutex<Option<Result<Outcome, RunError>>>> = runs.iter().map(|_| Mutex::new(None)).collect();
    let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..workers.get().min(runs.len()) {
            scope.spawn(|| {
                loop {
                    // Relaxed: hands out numbers; the outcomes have locks, and the scope joins the threads.
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(run) = runs.get(index) else { break };
                    let outcome = if keep_on() { run.run(&keep_on) } else { Err(RunError::Interrupted) };
                    if let Ok(mut slot) = outcomes[index].lock() {
                        *slot = Some(outcome);
                    }
                    done(ended.fetch_add(1, Ordering::Relaxed) + 1);
                }
            });
        }
    });
    let taken = outcomes.into_iter().map(|slot| slot.into_inner().ok().flatten());
    taken.map(|outcome| outcome.unwrap_or(Err(RunError::Interrupted))).collect()
}
