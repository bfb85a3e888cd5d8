//! One measurement: threads on CPUs of their own, started together, and whether they had their CPUs.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::pattern::Pattern;
use crate::ring::Ring;
use crate::subject::{Run, Subject};

/// The share of the time that each thread must have had its CPU. Below that somebody else ran there, or the machine below
/// this one stole time, and what was measured is that.
pub const SHARE: f64 = 0.97;

/// What came of one measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Nanoseconds of a pair, the mean over the threads.
    pub ns_per_pair: f64,
    /// The share of the time that each thread had its CPU: that of the thread which had least, up to 1.
    pub cpu_share: f64,
    /// What the system said to a thread that was to stay on its CPU, where it refused.
    pub not_pinned: Option<String>,
}

impl Sample {
    /// Whether each thread had its CPU.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.cpu_share >= SHARE
    }
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
    let results: Vec<Sample> = thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .enumerate()
            .map(|(thread, &cpu)| {
                let (barrier, ring) = (&barrier, &ring);
                scope.spawn(move || {
                    let mut one = CpuSet::new();
                    one.set(cpu);
                    let not_pinned = sched_setaffinity(None, &one).err().map(|error| error.to_string());
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
                    let ns_per_pair = (end - begin.0).as_secs_f64() * 1e9 / pairs as f64;
                    Sample { ns_per_pair, cpu_share: share.min(1.0), not_pinned }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a subject that does not panic")).collect()
    });
    Sample {
        ns_per_pair: results.iter().map(|thread| thread.ns_per_pair).sum::<f64>() / results.len() as f64,
        cpu_share: results.iter().map(|thread| thread.cpu_share).fold(1.0, f64::min),
        not_pinned: results.into_iter().find_map(|thread| thread.not_pinned),
    }
}
