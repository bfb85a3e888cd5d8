//! What a benchmark says of the pool, and how far to trust it. The control is floor b: the least that a page cache per CPU
//! costs.

use std::fmt;

use pageset_statistics::geometric_mean;
use pageset_statistics::verdict::{Kind, Trust};

use crate::floors::FLOOR_B;
use crate::ours::NAME as OURS;
use crate::report::{Report, Row};

/// The largest share of thrown away samples of a quiet machine. A guess. Unit: percent.
const THROWN_PCT_MAX: f64 = 5.0;
/// The share from which most of the machine was not the benchmark's. A guess. Unit: percent.
const BUSY_PCT: f64 = 50.0;
/// The number of samples from which a median means something. A guess.
const SAMPLES_MIN: usize = 3;

/// A figure of the pool, and its ratio to another.
pub type Ratio<'r> = (&'r Row, f64);

/// What a benchmark says of the pool.
#[derive(Clone, Debug)]
pub struct Verdict<'r> {
    /// The pool's first figure, its median, and that of floor b. Unit: nanoseconds.
    pub first: Option<(&'r Row, f64, Option<f64>)>,
    /// The pool's figures against floor b.
    pub floor: Vec<Ratio<'r>>,
    /// The geometric mean of these.
    pub mean: Option<f64>,
    /// The pool's figures against the fastest other allocator.
    pub peers: Vec<Ratio<'r>>,
}

impl<'r> Verdict<'r> {
    /// The verdict on a benchmark.
    pub fn of(report: &'r Report) -> Verdict<'r> {
        let best = |like: &Row, is: fn(&Row) -> bool| {
            let same = |row: &&Row| is(row) && row.pattern == like.pattern && row.threads == like.threads;
            report.rows.iter().filter(same).filter_map(Row::median).reduce(f64::min)
        };
        let ours = || report.rows.iter().filter(|row| row.who == OURS).filter_map(|row| Some((row, row.median()?)));
        let against = |is: fn(&Row) -> bool| -> Vec<Ratio<'r>> {
            ours().filter_map(|(row, ns)| Some((row, ns / best(row, is)?))).collect()
        };
        let floor = against(|row| row.who == FLOOR_B);
        let mean = geometric_mean(&floor.iter().map(|(_, ratio)| *ratio).collect::<Vec<_>>());
        let first = ours().next().map(|(row, ns)| (row, ns, best(row, |row| row.who == FLOOR_B)));
        let peers = against(|row| row.who != OURS && row.who != FLOOR_B);
        Verdict { first, floor, mean, peers }
    }

    /// The number of figures in which no other allocator is faster.
    pub fn fastest(&self) -> usize {
        self.peers.iter().filter(|(_, ratio)| *ratio <= 1.0).count()
    }

    /// The pool's worst figure: against other allocators if there are any, else against floor b.
    pub fn worst(&self) -> Option<&Ratio<'r>> {
        let all = if self.peers.is_empty() { &self.floor } else { &self.peers };
        all.iter().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The kind of the verdict.
    pub fn kind(&self) -> Kind {
        match (self.first, self.mean) {
            (None, _) | (_, None) => Kind::None,
            _ if !self.peers.is_empty() && self.fastest() == self.peers.len() => Kind::Same,
            _ => Kind::Differs,
        }
    }
}

/// What weakens the verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weakness {
    /// So many samples were thrown away. Unit: percent.
    Thrown(f64),
    /// A thread could not be pinned.
    NotPinned,
    /// The benchmark was interrupted.
    Interrupted,
    /// A figure of the pool has so many samples.
    FewSamples(usize),
}

impl Weakness {
    /// What weakens a benchmark.
    pub fn of(report: &Report) -> Vec<Weakness> {
        let thrown: u32 = report.rows.iter().map(|row| row.discarded).sum();
        let kept: usize = report.rows.iter().map(|row| row.ns_per_pair.len()).sum();
        let pct = 100.0 * f64::from(thrown) / (f64::from(thrown) + kept as f64).max(1.0);
        let ours = report.rows.iter().filter(|row| row.who == OURS).map(|row| row.ns_per_pair.len());
        let few = ours.filter(|samples| *samples > 0).min().unwrap_or(0);
        [
            (pct > THROWN_PCT_MAX).then_some(Weakness::Thrown(pct)),
            report.rows.iter().any(|row| row.not_pinned > 0).then_some(Weakness::NotPinned),
            report.interrupted.then_some(Weakness::Interrupted),
            (few < SAMPLES_MIN).then_some(Weakness::FewSamples(few)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The trust that it leaves.
    pub fn trust(self) -> Trust {
        match self {
            Weakness::FewSamples(_) => Trust::Low,
            Weakness::Thrown(pct) if pct > BUSY_PCT => Trust::Low,
            Weakness::Thrown(_) | Weakness::NotPinned | Weakness::Interrupted => Trust::Fair,
        }
    }
}

/// Prints a sentence without its full stop.
impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weakness::Thrown(pct) => {
                write!(f, "{pct:.0} % of the samples were thrown away: other programs used the CPUs")
            }
            Weakness::NotPinned => f.write_str("a thread could not be pinned to its CPU"),
            Weakness::Interrupted => f.write_str("the benchmark was interrupted"),
            Weakness::FewSamples(samples) => write!(f, "a figure of the pool has {samples} samples"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::MachineFacts;

    #[test]
    fn the_pool_is_judged_against_the_floor_and_peers() {
        let measured = |who: &str, pattern: &str, samples: &[f64], discarded: u32| Row {
            who: who.to_owned(),
            pattern: pattern.to_owned(),
            threads: 1,
            ns_per_pair: samples.to_vec(),
            asleep: Vec::new(),
            discarded,
            discarded_samples: Vec::new(),
            not_pinned: 0,
            failed: None,
            ratio_to_floor_b: None,
        };
        let (floor, ours) = (measured("floor b", "hot", &[4.0; 9], 0), measured("pageset", "hot", &[8.0; 9], 0));
        let peer = |ns: f64| measured("peer", "hot", &[ns; 9], 0);
        let bench = |rows: &[&Row]| {
            let machine = MachineFacts { processor: "P".into(), kernel: "K".into(), cpus: 2 };
            let rows = rows.iter().map(|row| (*row).clone()).collect();
            let (schema, window_ns) = ("pageset.bench/1".to_owned(), 1);
            Report { schema, machine, window_ns, rounds: 9, interrupted: false, rows }
        };
        let (noisy, none) = (measured("pageset", "hot", &[8.0; 9], 1), measured("floor b", "hot", &[], 9));
        for (rows, kind, trust, mean, fastest) in [
            (vec![&floor, &ours], Kind::Differs, Trust::High, Some(2.0), 0),
            (vec![&floor, &ours, &peer(16.0)], Kind::Same, Trust::High, Some(2.0), 1),
            (vec![&floor, &ours, &peer(5.0)], Kind::Differs, Trust::High, Some(2.0), 0),
            (vec![&floor, &noisy], Kind::Differs, Trust::Fair, Some(2.0), 0),
            // The control has no samples, or is missing.
            (vec![&none, &ours], Kind::None, Trust::Fair, None, 0),
            (vec![&ours], Kind::None, Trust::High, None, 0),
            (vec![&floor], Kind::None, Trust::Low, None, 0),
        ] {
            let report = bench(&rows);
            let judged = Verdict::of(&report);
            let trusted = Weakness::of(&report).into_iter().map(Weakness::trust).min().unwrap_or(Trust::High);
            assert_eq!((judged.kind(), trusted), (kind, trust), "{judged:?}");
            assert_eq!((judged.mean, judged.fastest()), (mean, fastest), "{judged:?}");
            assert!(kind == Kind::None || judged.first.is_some_and(|first| first.1 == 8.0), "{judged:?}");
        }
    }
}
