//! The command line, and the rounds: in each, everyone has one sample of each pattern in turn, so that what the machine
//! does meanwhile happens to all.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::pattern::Pattern;
use crate::report::{MachineFacts, Report, Row, SCHEMA};
use crate::sample::{allowed_cpus, sample};
use crate::subject::{Built, Entry, Refusal};

/// Tries for each sample that is wanted, before it is given up. A guess: on a machine that is busy half of the time
/// this many short windows have a quiet one among them.
const TRIES: u32 = 8;

/// Measures how fast pages are taken and given back, beside floors that say what the hardware allows.
///
/// Everyone is measured in turn, on threads with a CPU each. A sample in which a thread had its CPU for less than 97 %
/// of the time is thrown away, and said so.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Only these patterns: hot, bulk, random, churn, remote, order-9, calls-32, calls-256, half, half-9
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    patterns: Vec<Pattern>,

    /// Only these subjects, by their names in the table; floor b is measured as well
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    who: Vec<String>,

    /// Numbers of threads; by default 1, 2, 4 and so on, and as many as there are CPUs
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    threads: Vec<usize>,

    /// Samples of each
    #[arg(long, value_name = "NUMBER", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,

    /// How long a sample takes, in milliseconds; short ones more often have their CPUs for themselves
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    window_ms: u64,

    /// Print JSON, with every sample
    #[arg(long)]
    pub json: bool,

    /// Leave allocators from outside out, also where `pageset-bench-peers` is installed
    #[arg(long)]
    pub no_peers: bool,
}

/// A command line that cannot be done: what is wrong, and what is allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// What a run has measured.
pub type Outcome = Report;

/// One figure to be measured. Its subject is built for each sample, and gone before the next is: one's memory does not
/// weigh on the others.
struct Figure {
    row: Row,
    pattern: Pattern,
    make: fn(Pattern, usize) -> Built,
    is_offered: bool,
}

impl Figure {
    /// Measures until a sample is kept or the tries are used up.
    fn measure(&mut self, cpus: &[usize], window: Duration, stopped: impl Fn() -> bool) {
        if !self.is_offered || self.row.failed.is_some() || stopped() {
            return;
        }
        let subject = match (self.make)(self.pattern, self.row.threads) {
            Ok(subject) => subject,
            Err(Refusal::NotOffered) => return self.is_offered = false,
            Err(Refusal::Failed(why)) => return self.row.failed = Some(why),
        };
        for _ in 0..TRIES {
            if stopped() || self.row.take(sample(&*subject, self.pattern, &cpus[..self.row.threads], window)) {
                break;
            }
        }
    }
}

/// Measures. Ends early when `stop` turns true, with what there is by then. `progress` is told of each sample: how many
/// are done, and of how many.
///
/// # Errors
/// Names or numbers that there are not.
pub fn run(
    args: &Args,
    entries: &[Entry],
    stop: &AtomicBool,
    mut progress: impl FnMut(usize, usize),
) -> Result<Outcome, UsageError> {
    let cpus = allowed_cpus();
    let mut figures = figures(args, entries, &cpus)?;
    let all = figures.len() * args.rounds as usize;
    let window = Duration::from_millis(args.window_ms);
    // Relaxed: only says when to end.
    let stopped = || stop.load(Relaxed);
    let mut done = 0;
    for _ in 0..args.rounds {
        for figure in &mut figures {
            figure.measure(&cpus, window, stopped);
            done += 1;
            progress(done, all);
        }
    }
    let rows = figures.into_iter().filter(|figure| figure.is_offered).map(|figure| figure.row).collect();
    let window_ns = window.as_nanos() as u64;
    let machine = machine(cpus.len());
    let mut report = Report { schema: SCHEMA, machine, window_ns, rounds: args.rounds, interrupted: stopped(), rows };
    report.compare();
    Ok(report)
}

fn figures(args: &Args, entries: &[Entry], cpus: &[usize]) -> Result<Vec<Figure>, UsageError> {
    let names: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
    if let Some(unknown) = args.who.iter().find(|who| !names.contains(&who.as_str())) {
        return Err(UsageError(format!("nobody is called {unknown:?}; allowed: {}", names.join(", "))));
    }
    let mut threads = args.threads.clone();
    if threads.is_empty() {
        threads = (0..).map(|shift| 1 << shift).take_while(|&n| n < cpus.len()).chain([cpus.len()]).collect();
    }
    if let Some(wrong) = threads.iter().find(|&&n| n == 0 || n > cpus.len()) {
        let allowed = cpus.len();
        return Err(UsageError(format!("{wrong} threads were asked for; allowed: 1 to {allowed}, a CPU each")));
    }
    let patterns = if args.patterns.is_empty() { Pattern::ALL.to_vec() } else { args.patterns.clone() };
    // Asked for by name, a pattern that no number of threads fits is a mistake; among all it is left out.
    if let Some(pattern) = args.patterns.iter().find(|pattern| !threads.iter().any(|&n| pattern.takes(n))) {
        return Err(UsageError(format!("pattern {pattern} does not take {threads:?} threads; allowed: --threads 2")));
    }
    let wanted =
        |name: &str| args.who.is_empty() || name == crate::floors::FLOOR_B || args.who.iter().any(|who| who == name);
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
