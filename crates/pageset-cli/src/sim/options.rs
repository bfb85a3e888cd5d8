//! Options that the simulator's commands have in common.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use pageset::Tuning;
use pageset_sim::machine::Machine;
use pageset_sim::run::Run;
use pageset_sim::time::Time;
use pageset_sim::workload::Workload;

/// Virtual time that one run may take: what its clocks hold with room, and more than anyone waits for.
const MOST_SECONDS: f64 = 100_000.0;

/// How long and how often each setting is simulated.
#[derive(clap::Args)]
pub(crate) struct Effort {
    /// Virtual seconds that are measured; by `compare` at most
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    pub(crate) seconds: f64,

    /// Virtual seconds before the measurement begins
    #[arg(long, value_name = "S", default_value = "0.5", value_parser = seconds)]
    pub(crate) warm_up: f64,

    /// How many seeds each setting is run with, from 1 up; the table has their mean and spread
    #[arg(long, value_name = "K", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) seeds: u32,

    /// Threads to simulate on [default: one a CPU of this host]; no result depends on it
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Also write JSON; `-` is standard output, instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
}

impl Effort {
    pub(crate) fn time(&self) -> Time {
        Time::from_seconds(self.seconds)
    }

    pub(crate) fn warm_up(&self) -> Time {
        Time::from_seconds(self.warm_up)
    }

    /// A run of so long with the first seed, on all CPUs and all nodes.
    pub(crate) fn run<'m>(&self, workload: &'m Workload, machine: &'m Machine, tuning: Tuning) -> Run<'m> {
        Run {
            workload,
            machine,
            tuning,
            high_fraction: 0,
            tasks: machine.topology().cpus(),
            warm_up: self.warm_up(),
            time: self.time(),
            precision_pct: None,
            whole: true,
            held: 0,
            seed: *self.seeds().start(),
        }
    }

    pub(crate) fn seeds(&self) -> std::ops::RangeInclusive<u64> {
        1..=u64::from(self.seeds)
    }

    pub(crate) fn workers(&self) -> NonZeroUsize {
        self.jobs.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
    }

    /// Whether standard output is for JSON.
    pub(crate) fn json_only(&self) -> bool {
        self.json.as_deref().is_some_and(|path| path.as_os_str() == "-")
    }
}

/// A length of virtual time, above 0.
fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|&s: &f64| (1e-6..=MOST_SECONDS).contains(&s));
    number.ok_or_else(|| "virtual time is from 0.000001 to 100000 seconds".to_owned())
}
