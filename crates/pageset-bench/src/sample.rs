//! One measurement: threads on CPUs of their own, started together, and whether they had their CPUs.

use std::cell::Cell;
use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::look::{Counts, Look, Spent};
use crate::pattern::Pattern;
use crate::ring::Ring;
use crate::subject::{Run, Subject};

/// The share of the time that each thread must have had its CPU, but for what it slept of its own accord. Below that somebody
/// else ran there, or the machine below this one stole time, and what was measured is that.
pub const SHARE: f64 = 0.97;

/// What came of one measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Nanoseconds of a pair, the mean over the threads.
    pub ns_per_pair: f64,
    /// The share of the time, up to 1, that nobody kept its CPU from a thread: that of the thread which had least.
    pub cpu_share: f64,
    /// The share of the time that a thread slept of its own accord, as one does that waits for a lock: that of the
    /// thread which slept most. It is part of what is measured.
    pub asleep: f64,
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

/// Where threads wait for each other, awake: one that slept here would begin when the system gets round to it, and another
/// that works with it has measured its absence until then.
#[derive(Default)]
struct Gate(AtomicUsize);

/// More than any number of threads: opens a gate for good.
const OPEN: usize = usize::MAX / 2;

impl Gate {
    fn wait_for(&self, threads: usize) {
        // Relaxed: what threads share was shared before they started.
        self.0.fetch_add(1, Ordering::Relaxed);
        while self.0.load(Ordering::Relaxed) < threads {
            hint::spin_loop();
        }
    }
}

/// Opens the gates when its thread panics, which else the others would wait for.
struct OpenInPanic<'g>([&'g Gate; 2]);

impl Drop for OpenInPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.iter().for_each(|gate| gate.0.store(OPEN, Ordering::Relaxed));
        }
    }
}

/// Measures once: `cpus` has a CPU for each thread.
///
/// # Panics
/// When a thread of the subject does.
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
                        let look = counts.look();
                        begin.set(Some(look));
                        look.at() + window
                    };
                    let over = || end.set(Some(Look::after()));
                    let run = Run { thread, threads: cpus.len(), pattern, ready: &ready, over: &over, ring };
                    let pairs = subject.work(&run);
                    let (Some(begin), Some(end)) = (begin.get(), end.get()) else {
                        panic!("{pattern}: a thread did not say when it was ready, or when it was over");
                    };
                    let Spent { wall, kept_off, asleep } = end.since(&begin);
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
        threads.into_iter().map(|thread| thread.join().expect("a subject that does not panic")).collect()
    });
    Sample {
        ns_per_pair: results.iter().map(|thread| thread.ns_per_pair).sum::<f64>() / results.len() as f64,
        cpu_share: results.iter().map(|thread| thread.cpu_share).fold(1.0, f64::min),
        asleep: results.iter().map(|thread| thread.asleep).fold(0.0, f64::max),
        not_pinned: results.into_iter().find_map(|thread| thread.not_pinned),
    }
}
