//! One measurement: pinned threads that start together, and the share of time that they had their CPUs.

use std::cell::Cell;
use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::pattern::Pattern;
use crate::ring::Ring;
use crate::subject::{Run, Subject};
use crate::thread_time::{Counts, Snapshot, Spent};

/// The minimal share of the time, voluntary sleep excluded, in which each thread must have its CPU. A smaller share
/// means that another task used the CPU or that a hypervisor stole time, which distorts the sample.
pub const SHARE: f64 = 0.97;

/// The result of one measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Nanoseconds per pair, the mean over the threads.
    pub ns_per_pair: f64,
    /// The share of the time, up to 1, in which no other task kept the thread off its CPU: that of the thread with the
    /// smallest share.
    pub cpu_share: f64,
    /// The share of the time that a thread slept voluntarily, as when it waits for a lock: that of the thread which
    /// slept most. Sleep is part of the measurement.
    pub asleep: f64,
    /// The system's error for a thread that could not be pinned to its CPU.
    pub not_pinned: Option<String>,
}

impl Sample {
    /// Whether each thread had its CPU for at least [`SHARE`] of the time.
    pub fn is_kept(&self) -> bool {
        self.cpu_share >= SHARE
    }
}

/// The CPUs that this process may use, in ascending order.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// A spinning barrier. A sleeping thread would start late, and threads that wait for it would measure its absence.
#[derive(Default)]
struct Gate(AtomicUsize);

/// A count above any number of threads, which opens a gate permanently.
const OPEN: usize = usize::MAX / 2;

impl Gate {
    fn wait_for(&self, threads: usize) {
        // Relaxed: the threads' shared data was complete before they started.
        self.0.fetch_add(1, Ordering::Relaxed);
        while self.0.load(Ordering::Relaxed) < threads {
            hint::spin_loop();
        }
    }
}

/// Opens the gates when its thread panics; otherwise the other threads would wait for ever.
struct OpenInPanic<'g>([&'g Gate; 2]);

impl Drop for OpenInPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.iter().for_each(|gate| gate.0.store(OPEN, Ordering::Relaxed));
        }
    }
}

/// Takes one sample. `cpus` has one CPU per thread.
///
/// # Panics
/// When a thread of the subject panics.
pub fn sample(subject: &dyn Subject, pattern: Pattern, cpus: &[usize], window: Duration) -> Sample {
    let (arrived, counted) = (Gate::default(), Gate::default());
    let ring = Ring::new();
    let results: Vec<Sample> = thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .enumerate()
            .map(|(thread, &cpu)| {
                let (arrived, counted, ring) = (&arrived, &counted, &ring);
                scope.spawn(move || {
                    let _open = OpenInPanic([arrived, counted]);
                    let mut one = CpuSet::new();
                    one.set(cpu);
                    let not_pinned = sched_setaffinity(None, &one).err().map(|error| error.to_string());
                    let (begin, end) = (Cell::new(None), Cell::new(None));
                    let ready = || {
                        arrived.wait_for(cpus.len());
                        let counts = Counts::now();
                        counted.wait_for(cpus.len());
                        let snapshot = counts.snapshot();
                        begin.set(Some(snapshot));
                        snapshot.at() + window
                    };
                    let over = || end.set(Some(Snapshot::after()));
                    let run = Run { thread, threads: cpus.len(), pattern, ready: &ready, over: &over, ring };
                    let pairs = subject.work(&run);
                    let (Some(begin), Some(end)) = (begin.get(), end.get()) else {
                        panic!("{pattern}: a thread did not call ready and over");
                    };
                    let Spent { wall, kept_off, asleep, .. } = end.since(&begin);
                    let share = |time: Duration| time.as_secs_f64() / wall.as_secs_f64();
                    Sample {
                        ns_per_pair: wall.as_secs_f64() * 1e9 / pairs as f64,
                        cpu_share: 1.0 - share(kept_off).min(1.0),
                        asleep: share(asleep),
                        not_pinned,
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a subject must not panic")).collect()
    });
    Sample {
        ns_per_pair: results.iter().map(|thread| thread.ns_per_pair).sum::<f64>() / results.len() as f64,
        cpu_share: results.iter().map(|thread| thread.cpu_share).fold(1.0, f64::min),
        asleep: results.iter().map(|thread| thread.asleep).fold(0.0, f64::max),
        not_pinned: results.into_iter().find_map(|thread| thread.not_pinned),
    }
}
