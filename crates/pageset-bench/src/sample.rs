//! One measurement: threads on CPUs of their own, started together, and whether they had their CPUs.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::pattern::Pattern;
use crate::ring::Ring;
use crate::subject::{Run, Subject};

/// The share of the time that each thread must have had its CPU. Below it somebody else ran there, or the machine below
/// this one stole time, and what was measured is that.
const SHARE: f64 = 0.97;

/// What came of one measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sample {
    /// Nanoseconds of a pair, the mean over the threads.
    Kept(f64),
    /// A thread had its CPU for this share of the time only.
    Stolen(f64),
}

/// The CPUs that this process may use, lowest first.
#[must_use]
pub fn allowed_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Measures once: `cpus` has a CPU for each thread.
///
/// # Panics
/// When a thread of the subject does.
pub fn sample(subject: &dyn Subject, pattern: Pattern, cpus: &[usize], window: Duration) -> Sample {
    let barrier = Barrier::new(cpus.len());
    let ring = Ring::new();
    let results: Vec<(f64, f64)> = thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .enumerate()
            .map(|(thread, &cpu)| {
                let (barrier, ring) = (&barrier, &ring);
                scope.spawn(move || {
                    let mut one = CpuSet::new();
                    one.set(cpu);
                    // Where this is refused, the share of CPU time tells.
                    let _ = sched_setaffinity(None, &one);
                    let start = std::sync::Mutex::new((Instant::now(), Duration::ZERO));
                    let ready = || {
                        barrier.wait();
                        let begin = (Instant::now(), cpu_time());
                        *start.lock().expect("no panic holds it") = begin;
                        begin.0 + window
                    };
                    let run = Run { thread, threads: cpus.len(), pattern, ready: &ready, ring };
                    let (pairs, end) = subject.work(&run);
                    // What was given back after the end takes CPU time too: the share is of all of it.
                    let (now, cpu) = (Instant::now(), cpu_time());
                    let begin = *start.lock().expect("no panic holds it");
                    let share = (cpu - begin.1).as_secs_f64() / (now - begin.0).as_secs_f64();
                    ((end - begin.0).as_secs_f64() * 1e9 / pairs as f64, share)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a subject that does not panic")).collect()
    });
    let share = results.iter().map(|(_, share)| *share).fold(f64::INFINITY, f64::min);
    if share < SHARE {
        return Sample::Stolen(share);
    }
    Sample::Kept(results.iter().map(|(ns, _)| ns).sum::<f64>() / results.len() as f64)
}
