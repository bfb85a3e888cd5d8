//! The samples of a figure, and when they count.

use std::fmt::Display;
use std::time::{Duration, Instant};

use pageset_statistics::quantile;
use schemars::JsonSchema;
use serde::Serialize;

use crate::sample::SHARE;
use crate::thread_time::{Counts, Snapshot, Spent};

/// How long and how often a quantity is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Samples to keep.
    pub samples: u32,
    /// Duration of a sample.
    pub window: Duration,
    /// The time after which no further sample begins.
    pub limit: Duration,
}

/// The samples of a quantity.
#[derive(Clone, PartialEq, Debug, Default, JsonSchema, Serialize)]
pub struct Figure {
    /// The kept samples. If the figure is disturbed: the discarded samples in which the threads had their CPUs longest.
    pub samples: Vec<f64>,
    /// Number of discarded samples, in which a thread did not have its CPU.
    pub discarded: u32,
    /// Whether no sample could be kept, so that the discarded samples are shown.
    pub disturbed: bool,
    /// What the figure was measured over: the size of a buffer, or CPUs.
    pub over: String,
    /// The reason why there are no samples.
    pub missing: Option<String>,
}

impl Figure {
    /// A figure without samples.
    pub fn none(why: String) -> Figure {
        Figure { missing: Some(why), ..Figure::default() }
    }

    pub(super) fn over(self, over: String) -> Figure {
        Figure { over, ..self }
    }

    /// The median of the samples, if there are any.
    pub fn median(&self) -> Option<f64> {
        quantile(&self.samples, 0.5)
    }

    /// Difference of the quartiles in percent of the median; `None` with fewer than two samples.
    pub fn spread_pct(&self) -> Option<f64> {
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| quantile(&self.samples, share));
        let pct = 100.0 * (high? - low?) / middle?;
        (self.samples.len() > 1 && pct.is_finite()).then_some(pct)
    }
}

/// The share of a thread's time, up to 1, in which no other task kept it off its CPU.
pub(super) fn cpu_share(spent: Spent) -> f64 {
    1.0 - (spent.kept_off.as_secs_f64() / spent.wall.as_secs_f64()).min(1.0)
}

/// The time in seconds in which the thread ran or slept: the time in which it was kept off its CPU does not count. Other
/// work still shows, as it uses the caches.
pub(super) fn own_seconds(spent: Spent) -> f64 {
    (spent.ran + spent.asleep).as_secs_f64().max(CLOCK_SECONDS)
}

/// The resolution of clocks, so that rates stay finite.
const CLOCK_SECONDS: f64 = 1e-9;

/// Says whether to go on: the user has not stopped the measurement.
pub type KeepOn<'k> = &'k (dyn Fn() -> bool + Sync);

/// Takes the samples of one figure.
pub(super) struct Sampler<'k> {
    pub(super) effort: Effort,
    pub(super) keep_on: KeepOn<'k>,
}

impl Sampler<'_> {
    /// Takes samples until there are enough, the time is over, or the user stops. A sample is a value and the share of
    /// the time that its threads had their CPUs. At least one sample is taken, unless the user has stopped.
    pub(super) fn figure(&self, mut sample: impl FnMut() -> (f64, f64)) -> Figure {
        self.try_figure(|| Ok::<_, String>(sample()))
    }

    /// As [`Self::figure`]. The first error is the reason why there are no samples.
    pub(super) fn try_figure<E: Display>(&self, mut sample: impl FnMut() -> Result<(f64, f64), E>) -> Figure {
        let begin = Instant::now();
        let (mut kept, mut discarded) = (vec![], vec![]);
        while kept.len() < self.effort.samples as usize && (self.keep_on)() {
            match sample() {
                Ok((value, share)) if share >= SHARE => kept.push(value),
                Ok((value, share)) => discarded.push((value, share)),
                Err(error) => return Figure::none(error.to_string()),
            }
            if begin.elapsed() >= self.effort.limit {
                break;
            }
        }
        let count = discarded.len() as u32;
        if kept.is_empty() && discarded.is_empty() {
            return Figure::none("stopped before the first sample".to_owned());
        }
        let disturbed = kept.is_empty();
        if disturbed {
            discarded.sort_by(|(_, a), (_, b)| b.total_cmp(a));
            kept.extend(discarded.iter().take(self.effort.samples as usize).map(|(value, _)| value));
        }
        Figure { samples: kept, discarded: count, disturbed, ..Figure::default() }
    }

    /// The time of a step of `work` in ns, on the calling thread. `work` performs the given number of steps. The first
    /// steps are not measured.
    pub(super) fn steps(&self, mut work: impl FnMut(usize)) -> Figure {
        // Until a batch takes a twentieth of a window: the clock is read rarely.
        let mut batch = 16;
        let mut time = |batch| {
            let start = Instant::now();
            work(batch);
            start.elapsed()
        };
        // The shorter of two times: other work makes one of them long.
        while time(batch).min(time(batch)) < self.effort.window / 20 && batch < 1 << 30 {
            batch *= 2;
        }
        self.figure(|| {
            let begin = Counts::now().snapshot();
            let mut steps = 0;
            while steps == 0 || begin.at().elapsed() < self.effort.window {
                work(batch);
                steps += batch;
            }
            let spent = Snapshot::after().since(&begin);
            (own_seconds(spent) * 1e9 / steps as f64, cpu_share(spent))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    const EFFORT: Effort = Effort { samples: 3, window: Duration::from_millis(1), limit: Duration::from_secs(600) };

    #[test]
    fn samples_count_only_if_the_threads_had_their_cpus() {
        let take = |shares: &[f64], samples: u32| {
            let mut values = shares.iter().zip([5.0, 4.0, 3.0, 2.0, 1.0]).map(|(&share, value)| (value, share));
            let stop = AtomicBool::new(false);
            let sampler = Sampler { effort: Effort { samples, ..EFFORT }, keep_on: &|| !stop.load(Relaxed) };
            sampler.figure(|| {
                let sample = values.next().expect("enough samples");
                stop.store(values.len() == 0, Relaxed);
                sample
            })
        };
        let figure = take(&[1.0, 0.5, 0.98, 0.97], 3);
        assert_eq!((figure.samples, figure.discarded, figure.disturbed), (vec![5.0, 3.0, 2.0], 1, false));
        let figure = take(&[0.5, 0.9], 3);
        assert_eq!((figure.samples, figure.discarded, figure.disturbed), (vec![4.0, 5.0], 2, true));
        let figure = take(&[0.5, 0.9, 0.8], 2);
        assert_eq!((figure.samples, figure.discarded), (vec![4.0, 3.0], 3), "the least disturbed samples");
        let figure = Sampler { effort: EFFORT, keep_on: &|| false }.figure(|| unreachable!("no sample is wanted"));
        assert_eq!((figure.median(), figure.missing.as_deref()), (None, Some("stopped before the first sample")));
    }

    #[test]
    fn time_off_the_cpu_does_not_count() {
        let [wall, ran, kept_off, asleep] = [10, 3, 5, 2].map(Duration::from_millis);
        let spent = Spent { wall, ran, kept_off, asleep };
        assert_eq!((own_seconds(spent), cpu_share(spent)), (0.005, 0.5));
        let never = Spent { wall, ran: Duration::ZERO, kept_off: wall, asleep: Duration::ZERO };
        assert_eq!((own_seconds(never), cpu_share(never)), (CLOCK_SECONDS, 0.0));
    }

    #[test]
    fn no_sample_begins_after_the_limit() {
        let effort = Effort { limit: Duration::ZERO, ..EFFORT };
        let figure = Sampler { effort, keep_on: &|| true }.figure(|| (1.0, 1.0));
        assert_eq!(figure.samples, [1.0]);
    }

    #[test]
    fn the_spread_is_that_of_the_quartiles() {
        let spread = |samples: &[f64]| Figure { samples: samples.to_vec(), ..Figure::default() }.spread_pct();
        assert_eq!(spread(&[10.0, 8.0, 12.0, 6.0, 100.0]), Some(40.0));
        assert_eq!((spread(&[1.0]), spread(&[]), spread(&[0.0, 0.0])), (None, None, None));
    }

    #[test]
    fn steps_are_counted() {
        let figure = Sampler { effort: EFFORT, keep_on: &|| true }.steps(|steps| {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(10) * steps as u32 {}
        });
        let median = figure.median().expect("samples");
        // Time off the CPU passes in the loop, but does not count.
        assert!(median > 0.0 && median < 1e6, "{median}");
    }
}
