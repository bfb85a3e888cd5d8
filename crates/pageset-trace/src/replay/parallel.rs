//! Replays on several threads, with the results and the progress of a loop.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The number of events between two counts of a thread's events.
const COUNT_EVERY: u64 = 1 << 14;
/// The time between two reports while no job ends: ten reports per second.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// The progress of the jobs, as if they ran one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All jobs before this one have ended.
    Begin(usize),
    /// The number of events read since the last `Begin`.
    Events(u64),
}

/// Does the jobs on at most `threads` threads and returns their results in the order of the jobs. `work` reports the
/// number of events that its job has read. Without an error, the results and the `Begin` reports do not depend on the
/// number of threads.
///
/// # Errors
/// The error of the first job that fails, as in a loop. Jobs after it may have run.
pub(crate) fn run_all<J: Sync, R: Send, E: Send>(
    jobs: &[J],
    threads: usize,
    work: impl Fn(&J, &mut dyn FnMut(u64)) -> Result<R, E> + Sync,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<R>, E> {
    let threads = threads.min(jobs.len());
    if threads <= 1 {
        let one = |(index, job)| {
            progress(Progress::Begin(index));
            work(job, &mut |events| progress(Progress::Events(events)))
        };
        return jobs.iter().enumerate().map(one).collect();
    }
    let (next, failed, read) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let results: Mutex<Vec<Option<Result<R, E>>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let (send, ended) = channel();
    let worker = |send: Sender<usize>| {
        // Relaxed, here and below: the counts guard no other data. The mutex and the channel pass the results on.
        // Jobs begin in order, so all jobs before a failed one have begun and end.
        while !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { break };
            let count = &mut |events: u64| {
                if events > 0 && events.is_multiple_of(COUNT_EVERY) {
                    read.fetch_add(COUNT_EVERY, Ordering::Relaxed);
                }
            };
            let result = work(job, count);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
            // The receiver lives until all threads have ended.
            let _ = send.send(index);
        }
    };
    let worker = &worker;
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                let send = send.clone();
                scope.spawn(move || worker(send))
            })
            .collect();
        drop(send);
        let (mut done, mut first, mut before) = (vec![false; jobs.len()], 0, 0);
        progress(Progress::Begin(0));
        loop {
            match ended.recv_timeout(REPORT_EVERY) {
                Ok(index) => {
                    done[index] = true;
                    while first + 1 < jobs.len() && done[first] {
                        first += 1;
                        // Events of a job whose turn comes later count from then on.
                        before = read.load(Ordering::Relaxed);
                        progress(Progress::Begin(first));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    progress(Progress::Events(read.load(Ordering::Relaxed).saturating_sub(before)));
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        for thread in running {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
    });
    // Jobs without a result come after an error, where `collect` ends.
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

/// Does two jobs at the same time if there are two threads. `first` runs on this thread.
pub(crate) fn both<A, B: Send>(threads: usize, first: impl FnOnce() -> A, second: impl FnOnce() -> B + Send) -> (A, B) {
    if threads <= 1 {
        return (first(), second());
    }
    thread::scope(|scope| {
        let second = scope.spawn(second);
        (first(), second.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result, the `Begin` reports, and the last count of events since each.
    fn run(threads: usize, fails: &[u64]) -> (Result<Vec<u64>, u64>, Vec<usize>) {
        let jobs: Vec<u64> = (0..20).collect();
        let mut begun = Vec::new();
        let work = |job: &u64, count: &mut dyn FnMut(u64)| {
            // Later jobs are shorter, so that they end before earlier ones.
            (0..(20 - job) * 10_000).for_each(count);
            if fails.contains(job) { Err(*job) } else { Ok(job * job) }
        };
        let result = run_all(&jobs, threads, work, &mut |step| {
            if let Progress::Begin(job) = step {
                begun.push(job);
            }
        });
        (result, begun)
    }

    #[test]
    fn threads_change_neither_results_nor_their_order() {
        let serial = run(1, &[]);
        assert_eq!(serial, (Ok((0..20).map(|job| job * job).collect()), (0..20).collect()));
        for threads in [0, 2, 3, 64] {
            assert_eq!(run(threads, &[]), serial, "{threads} threads");
        }
    }

    #[test]
    fn the_first_error_is_that_of_a_loop() {
        for threads in [1, 2, 8] {
            assert_eq!(run(threads, &[19, 7, 11]).0, Err(7), "{threads} threads");
        }
        assert_eq!(run(2, &[0]).0, Err(0));
    }

    #[test]
    #[should_panic(expected = "job 3")]
    fn a_panic_of_a_job_is_passed_on() {
        let work = |job: &u64, _: &mut dyn FnMut(u64)| if *job == 3 { panic!("job 3") } else { Ok::<_, ()>(()) };
        let _ = run_all(&[1, 2, 3, 4], 2, work, &mut |_| {});
    }

    #[test]
    fn no_jobs_have_no_results() {
        let work = |_: &u64, _: &mut dyn FnMut(u64)| Ok::<u64, ()>(0);
        assert_eq!(run_all(&[], 4, work, &mut |_| {}), Ok(Vec::new()));
    }
}
