//! Lines that move between cores, atomic operations, and clocks.

use std::hint::{black_box, spin_loop};
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use pageset_statistics::quantile;

use super::figure::{Figure, Sampler, cpu_share, own_seconds};
use super::mapping::Mapping;
use super::{LINE_BYTES, Place, chase, pin};
use crate::thread_time::{Counts, Snapshot};

/// Lines that one core writes and another reads. They fit into the first level of every core.
const SHARED_LINES: usize = 256;
/// Distance between these lines: a page each, as prefetchers work within a page.
const SHARED_STRIDE: usize = 4096;
/// Memory of these lines.
pub(super) const SHARED_BYTES: usize = SHARED_LINES * SHARED_STRIDE;
/// The most pairs of CPUs for a distance. More pairs show more of a mesh and leave less time for each.
const MOST_PAIRS: usize = 16;

/// How far apart two CPUs are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Distance {
    SameCore,
    SameLastLevel,
    SameSocket,
    OtherSocket,
}

impl Distance {
    fn of(a: Place, b: Place) -> Distance {
        if a.socket != b.socket {
            Distance::OtherSocket
        } else if a.core == b.core {
            Distance::SameCore
        } else if a.last_level == b.last_level {
            Distance::SameLastLevel
        } else {
            Distance::SameSocket
        }
    }

    pub(super) const fn about(self) -> &'static str {
        match self {
            Distance::SameCore => "of the same core",
            Distance::SameLastLevel => "of two cores with the same last level",
            Distance::SameSocket => "of the same socket with different last levels",
            Distance::OtherSocket => "of two sockets",
        }
    }
}

/// All pairs of CPUs of this distance.
pub(super) fn all_pairs(places: &[Place], distance: Distance) -> impl Iterator<Item = [usize; 2]> {
    let pairs = places.iter().enumerate().flat_map(|(nth, &a)| places[nth + 1..].iter().map(move |&b| (a, b)));
    pairs.filter(move |&(a, b)| Distance::of(a, b) == distance).map(|(a, b)| [a.cpu, b.cpu])
}

/// At most [`MOST_PAIRS`] pairs of this distance, spread evenly over all.
pub(super) fn pairs(places: &[Place], distance: Distance) -> Vec<[usize; 2]> {
    let all: Vec<_> = all_pairs(places, distance).collect();
    let chosen = all.len().min(MOST_PAIRS);
    (0..chosen).map(|nth| all[nth * all.len() / chosen]).collect()
}

/// The latency of lines that the first CPU of a pair has written and the second reads. Samples take turns over the
/// pairs.
pub(super) fn lines(pairs: &[[usize; 2]], sampler: &Sampler<'_>) -> io::Result<Figure> {
    let map = Mapping::huge(SHARED_BYTES)?;
    let mut turn = pairs.iter().cycle();
    let figure = sampler.figure(|| match turn.next() {
        Some(&pair) => written_and_read(map.words(), pair, sampler),
        None => (f64::NAN, 0.0),
    });
    Ok(figure.over(match pairs {
        [[a, b]] => format!("CPUs {a} and {b}"),
        pairs => format!("{} pairs of CPUs", pairs.len()),
    }))
}

/// The place of a shared line. Lines use all sets of a first level.
const fn shared_word(line: usize) -> usize {
    (line * SHARED_STRIDE + line * LINE_BYTES % SHARED_STRIDE) / size_of::<AtomicU64>()
}

/// One sample. In each round the writer writes all lines, and then the reader follows the cycle over them. The sample is
/// the median of the rounds: an interrupt lengthens only its own.
fn written_and_read(words: &[AtomicU64], [writer, reader]: [usize; 2], sampler: &Sampler<'_>) -> (f64, f64) {
    // The number of rounds that are written, and that are read; `usize::MAX` ends the writer.
    let (written, read) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            pin(writer);
            let begin = Counts::now().snapshot();
            for round in 1.. {
                for line in 0..SHARED_LINES {
                    let next = shared_word(chase::next(line, SHARED_LINES));
                    words[shared_word(line)].store(next as u64, Ordering::Relaxed);
                }
                // Release and acquire: the reader sees all lines of the round.
                written.store(round, Ordering::Release);
                loop {
                    match read.load(Ordering::Acquire) {
                        usize::MAX => return cpu_share(Snapshot::after().since(&begin)),
                        done if done == round => break,
                        _ => spin_loop(),
                    }
                }
            }
            0.0
        });
        let own = scope.spawn(|| {
            pin(reader);
            let begin = Counts::now().snapshot();
            let mut rounds = vec![];
            for round in 1.. {
                while written.load(Ordering::Acquire) != round {
                    spin_loop();
                }
                let start = Instant::now();
                let mut at = shared_word(0);
                for _ in 0..SHARED_LINES {
                    at = words[at].load(Ordering::Relaxed) as usize;
                }
                black_box(at);
                rounds.push(start.elapsed().as_secs_f64() * 1e9 / SHARED_LINES as f64);
                if begin.at().elapsed() >= sampler.effort.window {
                    break;
                }
                read.store(round, Ordering::Release);
            }
            let share = cpu_share(Snapshot::after().since(&begin));
            read.store(usize::MAX, Ordering::Release);
            (quantile(&rounds, 0.5).unwrap_or(f64::NAN), share)
        });
        let (ns, share) = own.join().unwrap_or((f64::NAN, 0.0));
        (ns, share.min(other.join().unwrap_or(0.0)))
    })
}

/// Atomic additions to a line that no other CPU uses.
pub(super) fn atomic(sampler: &Sampler<'_>) -> Figure {
    let count = AtomicU64::new(0);
    sampler.steps(|steps| add(&count, steps))
}

/// Additions between two readings of the clock.
const ADDITIONS: usize = 64;

fn add(count: &AtomicU64, times: usize) {
    for _ in 0..times {
        black_box(count).fetch_add(1, Ordering::Relaxed);
    }
}

/// Atomic additions of all CPUs to one line: ns per addition of any CPU.
pub(super) fn shared_atomic(cpus: &[usize], sampler: &Sampler<'_>) -> Figure {
    let figure = sampler.figure(|| {
        let count = AtomicU64::new(0);
        let results = together(cpus, || {
            let begin = Counts::now().snapshot();
            let mut own = 0;
            while begin.at().elapsed() < sampler.effort.window {
                add(&count, ADDITIONS);
                own += ADDITIONS;
            }
            let spent = Snapshot::after().since(&begin);
            (own as f64 / own_seconds(spent), cpu_share(spent))
        });
        let rate: f64 = results.iter().map(|(rate, _)| rate).sum();
        (1e9 / rate, results.iter().map(|(_, share)| *share).fold(1.0, f64::min))
    });
    figure.over(format!("{} CPUs", cpus.len()))
}

/// The clock of a core that works alone, relative to its clock while one CPU of each core works.
pub(super) fn turbo(cpus: &[usize], sampler: &Sampler<'_>) -> Figure {
    let work = || {
        let begin = Counts::now().snapshot();
        let (mut steps, mut value) = (0_u64, 1_u64);
        while begin.at().elapsed() < sampler.effort.window {
            for _ in 0..1000 {
                // Each multiplication waits for the one before: its latency is a fixed number of cycles.
                value = black_box(value.wrapping_mul(0x5851_f42d_4c95_7f2d));
            }
            steps += 1000;
        }
        let spent = Snapshot::after().since(&begin);
        (steps as f64 / own_seconds(spent), cpu_share(spent))
    };
    let figure = sampler.figure(|| {
        let alone = together(&cpus[..1], work);
        let all = together(cpus, work);
        let share = alone.iter().chain(&all).map(|(_, share)| *share).fold(1.0, f64::min);
        (alone[0].0 / all[0].0, share)
    });
    figure.over(format!("{} cores", cpus.len()))
}

/// Runs `work` on all `cpus`. The threads begin together.
fn together<T: Send>(cpus: &[usize], work: impl Fn() -> T + Sync) -> Vec<T> {
    let arrived = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (work, arrived) = (&work, &arrived);
        let spawn = |&cpu: &usize| {
            scope.spawn(move || {
                pin(cpu);
                // Relaxed: the threads share no data.
                arrived.fetch_add(1, Ordering::Relaxed);
                while arrived.load(Ordering::Relaxed) < cpus.len() {
                    spin_loop();
                }
                work()
            })
        };
        let threads: Vec<_> = cpus.iter().map(spawn).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of two last levels of two cores of two threads.
    fn places() -> Vec<Place> {
        (0..16).map(|cpu| Place { cpu, socket: cpu / 8, last_level: cpu / 4, core: cpu / 2 }).collect()
    }

    #[test]
    fn each_pair_has_one_distance() {
        let count = |distance| all_pairs(&places(), distance).count();
        let distances =
            [Distance::SameCore, Distance::SameLastLevel, Distance::SameSocket, Distance::OtherSocket].map(count);
        assert_eq!(distances, [8, 16, 32, 64]);
        assert_eq!(pairs(&places(), Distance::SameCore)[1], [2, 3]);
        let far = pairs(&places(), Distance::OtherSocket);
        assert_eq!((far.len(), far[0], far[15]), (MOST_PAIRS, [0, 8], [7, 12]));
        assert!(pairs(&places()[..1], Distance::SameCore).is_empty());
    }

    #[test]
    fn shared_lines_are_apart() {
        let mut lines: Vec<usize> = (0..SHARED_LINES).map(|line| shared_word(line) * 8 / LINE_BYTES).collect();
        assert!(shared_word(SHARED_LINES - 1) < SHARED_BYTES / 8);
        lines.dedup();
        assert_eq!(lines.len(), SHARED_LINES);
        let sets: std::collections::HashSet<_> = lines.iter().map(|line| line % 64).collect();
        assert_eq!(sets.len(), 64, "lines of few sets would not fit into a first level");
    }
}
