//! The verdict on a machine: numbers in, findings out, the most important first. Pure; it knows no screen and no view.

use super::NOTICEABLE_PER_CPU_S;
use crate::number::grouped;

/// From which values on a machine is not healthy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// A CPU waits this share of its time for zone locks. Unit: percent.
    pub wait_percent: f64,
    /// A CPU moves this many batches a second between zones and its pagesets.
    pub moves: f64,
}

impl Bounds {
    /// Guesses: a twentieth of the time is noticeable. A thousand holds of about 5 µs are half a percent of a CPU's time.
    pub const DEFAULT: Bounds = Bounds { wait_percent: 5.0, moves: NOTICEABLE_PER_CPU_S };
}

/// How many times the limit is severe. A guess.
const SEVERE: f64 = 4.0;

/// What was measured between two looks; `None` is not measured.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// The zones that are short of memory.
    pub short: Vec<Short>,
    /// Direct reclaims per second.
    pub stalls_per_s: Option<f64>,
    /// The CPUs whose waits are measured.
    pub waits: Option<Vec<Wait>>,
    /// The CPU that moves most batches, and how many a second.
    pub moves: Option<(u32, f64)>,
    /// Whether moves are counted, even if there was only one look.
    pub counted: bool,
    /// Whether there were two looks.
    pub two_looks: bool,
}

/// A zone below a watermark. Unit: pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Short {
    /// The zone's name.
    pub zone: String,
    /// Its free pages.
    pub free: u64,
    /// Whether `mark` is min; else it is low.
    pub is_min: bool,
    /// The watermark.
    pub mark: u64,
}

/// A CPU's waits for zone locks, in percent of its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// The CPU.
    pub cpu: u32,
    /// The share of its time.
    pub percent: f64,
    /// What most of the waits were for: `to refill`.
    pub mostly: &'static str,
}

/// How urgent a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something is wrong.
    Severe,
    /// Something is worth a look.
    Unusual,
    /// There is not enough to judge.
    Unknown,
    /// Nothing is to do.
    Healthy,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// A zone is short of memory.
    Short(Short),
    /// Allocations wait for direct reclaim, so many a second.
    Stalls(f64),
    /// The CPU that waits longest, and the number of CPUs above the limit.
    Waits {
        /// The CPU that waits longest.
        worst: Wait,
        /// CPUs above the limit.
        cpus: usize,
        /// How urgent it is.
        level: Level,
    },
    /// Waits are not measured, and a CPU moves many batches.
    Moves {
        /// The CPU.
        cpu: u32,
        /// Batches a second.
        per_s: f64,
        /// The limit.
        limit: f64,
    },
    /// Nothing is counted.
    Uncounted,
    /// Nothing changed yet.
    FirstLook,
    /// Nothing is to do.
    Healthy {
        /// The CPU that moves most batches, and how many a second.
        moves: Option<(u32, f64)>,
        /// The limit of moves.
        limit: f64,
        /// The CPU that waits longest.
        worst: Option<Wait>,
    },
}

/// The findings, at least one.
#[must_use]
pub fn judge(numbers: &Numbers, bounds: &Bounds) -> Vec<Finding> {
    let mut found: Vec<Finding> = numbers.short.iter().cloned().map(Finding::Short).collect();
    found.extend(numbers.stalls_per_s.filter(|stalls| *stalls >= 0.5).map(Finding::Stalls));
    let waits = numbers.waits.as_deref().unwrap_or_default();
    let worst = waits.iter().max_by(|a, b| a.percent.total_cmp(&b.percent)).cloned();
    let limit = bounds.moves;
    match (&worst, numbers.moves) {
        (Some(wait), _) if wait.percent >= bounds.wait_percent => {
            let cpus = waits.iter().filter(|wait| wait.percent >= bounds.wait_percent).count();
            let severe = wait.percent >= SEVERE * bounds.wait_percent;
            let level = if severe { Level::Severe } else { Level::Unusual };
            found.push(Finding::Waits { worst: wait.clone(), cpus, level });
        }
        (None, Some((cpu, per_s))) if per_s >= limit => found.push(Finding::Moves { cpu, per_s, limit }),
        _ if !found.is_empty() => {}
        (_, None) if !numbers.counted => found.push(Finding::Uncounted),
        _ if !numbers.two_looks => found.push(Finding::FirstLook),
        (_, moves) => found.push(Finding::Healthy { moves, limit, worst }),
    }
    // Stable: findings of one level stay in the order above.
    found.sort_by_key(Finding::level);
    found
}

impl Finding {
    /// How urgent the finding is.
    #[must_use]
    pub fn level(&self) -> Level {
        match self {
            Finding::Short(Short { is_min: true, .. }) | Finding::Stalls(_) => Level::Severe,
            Finding::Short(_) | Finding::Moves { .. } => Level::Unusual,
            Finding::Waits { level, .. } => *level,
            Finding::Uncounted | Finding::FirstLook => Level::Unknown,
            Finding::Healthy { .. } => Level::Healthy,
        }
    }

    /// The sentence in parts: what it is, and what to do. A narrow screen omits parts from the end.
    #[must_use]
    pub fn parts(&self) -> Vec<String> {
        match self {
            Finding::Short(Short { zone, free, is_min, mark }) => {
                let (name, remedy) = if *is_min { ("min", "free memory") } else { ("low", "kswapd frees memory") };
                let (free, mark) = (grouped(*free), grouped(*mark));
                vec![format!("zone {zone} is below {name}: {free} of {mark} pages are free"), format!("; {remedy}")]
            }
            Finding::Stalls(per_s) => {
                vec![
                    format!("allocations wait for direct reclaim: {} a second", whole(*per_s)),
                    "; free memory".to_owned(),
                ]
            }
            Finding::Waits { worst: Wait { cpu, percent, mostly }, cpus, .. } => vec![
                format!("CPU {cpu} waits {percent:.0} % of its time for zone locks"),
                format!("; run {ADVISE}"),
                format!("; mostly {mostly}{}", others(*cpus)),
            ],
            Finding::Moves { cpu, per_s, limit } => vec![
                format!("CPU {cpu} moves {} batches a second, limit {}", whole(*per_s), whole(*limit)),
                format!("; run {ADVISE}"),
                "; waits are not measured".to_owned(),
            ],
            Finding::Uncounted => {
                let parts = ["memory is not short", "; moves and waits are not counted: run as root"];
                parts.map(str::to_owned).into()
            }
            Finding::FirstLook => {
                let parts = ["memory is not short", "; moves and waits need a second look"];
                parts.map(str::to_owned).into()
            }
            Finding::Healthy { moves, limit, worst } => {
                let moves = moves.map(|(_, per_s)| {
                    let of = if per_s < *limit { format!(" of {}", whole(*limit)) } else { String::new() };
                    format!("{} moves a second{of}", whole(per_s))
                });
                let waits = worst.as_ref().map(|wait| format!("waits {:.1} % of the time", wait.percent));
                let healthy = match (moves, &waits) {
                    (Some(moves), None) => moves,
                    (Some(moves), Some(waits)) => format!("{moves}, {waits}"),
                    (None, _) => waits.unwrap_or_else(|| "memory is not short".to_owned()),
                };
                vec![format!("healthy: {healthy}"), ", nothing to tune".to_owned()]
            }
        }
    }

    /// The whole sentence, without a full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        self.parts().concat()
    }
}

/// The next command.
const ADVISE: &str = "`pageset advise --live 5`";

fn whole(number: f64) -> String {
    grouped(number.round() as u64)
}

/// The number of other CPUs, as the end of a sentence.
#[must_use]
pub fn others(all: usize) -> String {
    match all {
        0 | 1 => String::new(),
        2 => "; another CPU too".to_owned(),
        _ => format!("; {} other CPUs too", grouped(all as u64 - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(cpu: u32, percent: f64) -> Wait {
        Wait { cpu, percent, mostly: "to drain" }
    }

    #[test]
    fn the_most_important_finding_comes_first() {
        let short = |is_min| Short { zone: "0 Normal".to_owned(), free: 7, is_min, mark: 1234 };
        let calm = Numbers { moves: Some((1, 9.2)), counted: true, two_looks: true, ..Numbers::default() };
        let with = |waits: &[Wait]| Numbers { waits: Some(waits.to_vec()), ..calm.clone() };
        for (numbers, level, sentence) in [
            (calm.clone(), Level::Healthy, "healthy: 9 moves a second of 1,000, nothing to tune"),
            (
                with(&[wait(0, 0.4)]),
                Level::Healthy,
                "healthy: 9 moves a second of 1,000, waits 0.4 % of the time, nothing to tune",
            ),
            (
                with(&[wait(0, 6.0), wait(3, 12.4), wait(4, 4.9)]),
                Level::Unusual,
                "CPU 3 waits 12 % of its time for zone locks; run `pageset advise --live 5`; mostly to drain; another CPU \
                 too",
            ),
            (
                Numbers { moves: Some((2, 1000.0)), ..calm.clone() },
                Level::Unusual,
                "CPU 2 moves 1,000 batches a second, limit 1,000; run `pageset advise --live 5`; waits are not measured",
            ),
            // Measured waits decide, not the number of moves.
            (
                Numbers { moves: Some((2, 5000.0)), ..with(&[wait(0, 0.0)]) },
                Level::Healthy,
                "healthy: 5,000 moves a second, waits 0.0 % of the time, nothing to tune",
            ),
            (
                Numbers { short: vec![short(false)], ..with(&[wait(0, 20.0)]) },
                Level::Severe,
                "CPU 0 waits 20 % of its time for zone locks; run `pageset advise --live 5`; mostly to drain",
            ),
            (
                Numbers { short: vec![short(true)], ..with(&[wait(0, 19.9)]) },
                Level::Severe,
                "zone 0 Normal is below min: 7 of 1,234 pages are free; free memory",
            ),
            (
                Numbers { stalls_per_s: Some(12.0), ..calm.clone() },
                Level::Severe,
                "allocations wait for direct reclaim: 12 a second; free memory",
            ),
            // What is not measured is no number.
            (
                Numbers { two_looks: true, ..Numbers::default() },
                Level::Unknown,
                "memory is not short; moves and waits are not counted: run as root",
            ),
            (
                Numbers { counted: true, ..Numbers::default() },
                Level::Unknown,
                "memory is not short; moves and waits need a second look",
            ),
        ] {
            let found = judge(&numbers, &Bounds::DEFAULT);
            assert_eq!((found[0].level(), found[0].sentence().as_str()), (level, sentence), "{numbers:?}");
        }
    }
}
