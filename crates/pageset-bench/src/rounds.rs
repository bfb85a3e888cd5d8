//! The rounds: in each round every allocator takes one sample of each pattern in turn, so that disturbances affect all
//! allocators alike.

use std::collections::HashMap;
use std::time::Duration;

use crate::pattern::Pattern;
use crate::report::{MachineFacts, Report, Row, SCHEMA};
use crate::sample::{allowed_cpus, sample};
use crate::subject::{Built, Entry, Refusal};

/// Tries for each sample. A guess: on a machine that is busy half of the time, one of this many short windows is quiet.
const TRIES: u32 = 8;

/// What to measure, and how often.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The patterns; empty for all.
    pub patterns: Vec<Pattern>,
    /// The names of the allocators; empty for all. Floor b is always measured.
    pub who: Vec<String>,
    /// Numbers of threads; empty for 1, 2, 4 and so on, and the number of CPUs.
    pub threads: Vec<usize>,
    /// Samples per figure.
    pub rounds: u32,
    /// Duration of a sample.
    pub window: Duration,
}

/// Invalid settings, with the allowed values.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingsError {
    /// No allocator has this name.
    #[error("unknown allocator `{name}`; allowed: {allowed}")]
    Who {
        /// The name.
        name: String,
        /// All names.
        allowed: String,
    },
    /// The number of threads is 0 or exceeds the CPUs.
    #[error("cannot use {threads} threads; allowed: 1 to {cpus}, one per CPU")]
    Threads {
        /// The configured threads.
        threads: usize,
        /// CPUs that the process may use.
        cpus: usize,
    },
    /// A pattern that supports none of the configured numbers of threads.
    #[error("pattern {pattern} does not support {threads:?} threads; allowed: --threads 2")]
    Pattern {
        /// The pattern.
        pattern: Pattern,
        /// The numbers of threads.
        threads: Vec<usize>,
    },
}

/// One figure to measure. Its subject is built for each sample and dropped before the next, so that its memory does not
/// affect the others.
struct Figure {
    row: Row,
    pattern: Pattern,
    make: fn(Pattern, usize) -> Built,
    is_offered: bool,
}

impl Figure {
    /// Measures until a sample is kept or all tries are used.
    fn measure(&mut self, cpus: &[usize], window: Duration, keep_on: impl Fn() -> bool) {
        // Work that left nothing of a round leaves next to nothing of more rounds.
        if !self.is_offered || self.row.is_disturbed() || self.row.failed.is_some() || !keep_on() {
            return;
        }
        let subject = match (self.make)(self.pattern, self.row.threads) {
            Ok(subject) => subject,
            Err(Refusal::NotOffered) => return self.is_offered = false,
            Err(Refusal::Failed(why)) => return self.row.failed = Some(why),
        };
        for _ in 0..TRIES {
            if !keep_on() || self.row.take(sample(&*subject, self.pattern, &cpus[..self.row.threads], window)) {
                break;
            }
        }
    }
}

/// Performs all measurements. Returns early with the samples so far when `keep_on` returns false. `progress` receives
/// the number of finished samples and the number of all samples, after each sample.
pub fn run(
    settings: &Settings,
    entries: &[Entry],
    keep_on: impl Fn() -> bool,
    mut progress: impl FnMut(usize, usize),
) -> Result<Report, SettingsError> {
    let cpus = allowed_cpus();
    let mut figures = figures(settings, entries, &cpus)?;
    let all = figures.len() * settings.rounds as usize;
    let window = settings.window;
    let mut done = 0;
    progress(done, all);
    for _ in 0..settings.rounds {
        for figure in &mut figures {
            figure.measure(&cpus, window, &keep_on);
            done += 1;
            progress(done, all);
        }
    }
    let rows = figures.into_iter().filter(|figure| figure.is_offered).map(|figure| figure.row).collect();
    let window_ns = window.as_nanos() as u64;
    let machine = machine(cpus.len());
    let mut report = Report {
        schema: SCHEMA.to_owned(),
        machine,
        window_ns,
        rounds: settings.rounds,
        interrupted: !keep_on(),
        rows,
    };
    report.compare();
    Ok(report)
}

fn figures(settings: &Settings, entries: &[Entry], cpus: &[usize]) -> Result<Vec<Figure>, SettingsError> {
    let names: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
    if let Some(name) = settings.who.iter().find(|who| !names.contains(&who.as_str())).cloned() {
        return Err(SettingsError::Who { name, allowed: names.join(", ") });
    }
    let mut threads = settings.threads.clone();
    if threads.is_empty() {
        threads = (0..).map(|shift| 1 << shift).take_while(|&n| n < cpus.len()).chain([cpus.len()]).collect();
    }
    if let Some(&threads) = threads.iter().find(|&&n| n == 0 || n > cpus.len()) {
        return Err(SettingsError::Threads { threads, cpus: cpus.len() });
    }
    let patterns = if settings.patterns.is_empty() { Pattern::ALL.to_vec() } else { settings.patterns.clone() };
    // A pattern that supports no number of threads is an error if it was named, and is left out otherwise.
    if let Some(&pattern) = settings.patterns.iter().find(|pattern| !threads.iter().any(|&n| pattern.takes(n))) {
        return Err(SettingsError::Pattern { pattern, threads });
    }
    let wanted = |name: &str| {
        settings.who.is_empty() || name == crate::floors::FLOOR_B || settings.who.iter().any(|who| who == name)
    };
    let mut seen = HashMap::new();
    let mut figures = vec![];
    for &pattern in &patterns {
        for &threads in threads.iter().filter(|&&n| pattern.takes(n)) {
            for entry in entries.iter().filter(|entry| wanted(entry.name)) {
                if seen.insert((pattern.to_string(), threads, entry.name), ()).is_some() {
                    continue;
                }
                let row = Row::new(entry.name, pattern, threads);
                figures.push(Figure { row, pattern, make: entry.make, is_offered: true });
            }
        }
    }
    Ok(figures)
}

fn machine(cpus: usize) -> MachineFacts {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let processor = processor.map_or("unknown", |(_, name)| name.trim()).to_owned();
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    MachineFacts { processor, kernel, cpus }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn a_figure_without_a_sample_of_its_first_round_is_not_tried_again() {
        fn never(_: Pattern, _: usize) -> Built {
            panic!("the figure is tried again")
        }
        let mut row = Row::new("x", Pattern::Hot, 1);
        assert!(!row.take(Sample { ns_per_pair: 9.0, cpu_share: 0.5, asleep: 0.0, not_pinned: None }));
        let mut figure = Figure { row, pattern: Pattern::Hot, make: never, is_offered: true };
        figure.measure(&[0], Duration::ZERO, || true);
        assert_eq!(figure.row.discarded, 1);
    }
}
