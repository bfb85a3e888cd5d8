//! Options shared by the commands of the simulator.

use std::num::NonZeroUsize;
use std::thread;

use pageset::Tuning;
use pageset_sim::era::Era;
use pageset_sim::machine::Machine;
use pageset_sim::run::{Run, SteadinessOf};
use pageset_sim::sweep;
use pageset_sim::time::Time;
use pageset_sim::workload::{Length, Workload};

use crate::output::{CsvOption, JsonOption, WideOption};
use crate::time;

/// The longest virtual time of one run. A guess: the clocks hold more, and nobody waits for longer.
const MOST_SECONDS: f64 = 100_000.0;

/// The default number of seeds. The default duration of a run belongs to the workload, see [`Length`].
const SEEDS: u32 = 1;
/// The default number of seeds for the rows that costs are fitted to, and for the tables with these rows. All changes
/// are relative to the score of batch 31. Two seeds' scores of batch 31 differ by up to 2.4 % (lkp-bdw-ex1, in runs of 9 s).
const SEEDS_OF_FITS: u32 = 3;
/// The default of `--precision` without `--duration`, in percent.
const PRECISION_PCT: f64 = 1.0;

/// How long and how often each setting is simulated.
#[derive(clap::Args)]
pub(crate) struct Effort {
    /// Measure TIME of virtual time, such as 20ms or 1.5s [default: until the run is steady]
    ///
    /// With --precision, measure at most TIME. The default is at most six times what the workload needs; 9s for page_fault1.
    #[arg(long, alias = "seconds", value_name = "TIME", allow_negative_numbers = true, value_parser = seconds)]
    duration: Option<f64>,

    /// Simulate TIME of virtual time before the measurement begins [default: until nothing drifts]
    ///
    /// Without a precision, the default is what the workload needs; 0.5s for page_fault1.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = seconds)]
    warm_up: Option<f64>,

    /// Stop measuring when score and contention are known to PCT, and nothing drifts [default: 1; 0 with --duration]
    ///
    /// PCT is half the width of the 95 % interval of the mean, from ten batches of each run, in percent of the score and in
    /// percentage points of contention. At least a sixth of the longest time is measured. 0 measures the whole time. A run that is
    /// still less precise, or still drifts, at the end of its time is reported as not settled.
    #[arg(long, value_name = "PCT", allow_negative_numbers = true, value_parser = percent)]
    precision: Option<f64>,

    /// Run each setting with the seeds 1 to K, and show the mean and the spread [default: 1; 3 for fits]
    ///
    /// Gain of more seeds: a known spread and a better mean. Cost: K times the simulation time. A fit is `compare` with
    /// the tables of page_fault1 over batches or over tasks.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,

    /// The kernel's era: linux-4.16, linux-5.11, posted, linux-6.10, or a release [default: that of the rules or the table]
    ///
    /// The era sets what rules do not: the pages of an LRU batch, the LRU locks of memory groups, and the caches that
    /// count for a CPU's slice of the cache. If unsure, omit this option. Rules and tables without a kernel have linux-6.10.
    #[arg(long, value_name = "NAME")]
    era: Option<Era>,

    /// Simulate on N threads [default: one per CPU of this host]; the result does not depend on N
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    #[command(flatten)]
    pub(crate) json: JsonOption,

    #[command(flatten)]
    pub(crate) csv: CsvOption,

    #[command(flatten)]
    pub(crate) wide: WideOption,
}

impl Effort {
    /// How long a workload is simulated: the times of the options, or the workload's own.
    pub(crate) fn length(&self, workload: &Workload) -> Length {
        let Length { warm_up, time } = workload.length;
        let most = if self.precision_pct().is_some() { workload.length.limit() } else { time };
        Length {
            warm_up: self.warm_up.map_or(warm_up, Time::from_seconds),
            time: self.duration.map_or(most, Time::from_seconds),
        }
    }

    /// The precision at which a measurement ends; `None` measures the whole time.
    pub(crate) fn precision_pct(&self) -> Option<f64> {
        let default = if self.duration.is_some() { 0.0 } else { PRECISION_PCT };
        Some(self.precision.unwrap_or(default)).filter(|precision| *precision > 0.0)
    }

    /// A run with the first seed, on all CPUs and all nodes. `--era` overrides `era`.
    pub(crate) fn run<'m>(&self, workload: &'m Workload, machine: &'m Machine, tuning: Tuning, era: Era) -> Run<'m> {
        let Length { warm_up, time } = self.length(workload);
        Run {
            workload,
            machine,
            tuning,
            era: self.era.unwrap_or(era),
            high_fraction: 0,
            tasks: machine.topology().cpus(),
            warm_up,
            time,
            detect_warm_up: self.warm_up.is_none() && self.precision_pct().is_some(),
            precision_pct: self.precision_pct(),
            whole: true,
            seed: 1,
        }
    }

    /// Sets the number of seeds that costs are fitted with, unless `--seeds` sets it.
    pub(crate) fn with_seeds_of_fits(mut self) -> Self {
        self.seeds.get_or_insert(SEEDS_OF_FITS);
        self
    }

    /// A run whose figures are compared with published ones. One of several identical nodes that share nothing stands for all.
    pub(crate) fn compared<'m>(
        &self,
        workload: &'m Workload,
        machine: &'m Machine,
        tuning: Tuning,
        era: Era,
    ) -> Run<'m> {
        Run { whole: false, ..self.run(workload, machine, tuning, era) }
    }

    /// The numbers of seeds and of threads.
    pub(crate) fn of_each(&self) -> sweep::Effort {
        let workers = self.jobs.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
        sweep::Effort { seeds: self.seeds.unwrap_or(SEEDS), workers }
    }
}

/// Describes the simulation: the measured time, the time before it, the precision, and the seeds.
/// `length` is `None` if the simulations differ in length.
pub(crate) fn described(length: Option<Length>, precision_pct: f64, seeds: usize) -> String {
    let (most, until) = match precision_pct {
        0.0 => ("", String::new()),
        precision => ("at most ", format!(", until steady and known to {precision} %")),
    };
    let length = match length {
        Some(Length { warm_up, time }) => format!("{} s after {} s", time.seconds(), warm_up.seconds()),
        None => "as long as each workload needs".to_owned(),
    };
    format!("{most}{length}{until}, seeds 1 to {seeds}")
}

/// A line that counts the runs that have not settled and describes the least certain; `runs` are names and whether they have.
pub(crate) fn unsettled<'a>(runs: impl Iterator<Item = (&'a str, &'a SteadinessOf)>) -> String {
    let (mut not, mut all) = (0, 0);
    let mut worst: Option<(&str, &SteadinessOf)> = None;
    for (name, found) in runs {
        all += 1;
        if found.settled {
            continue;
        }
        not += 1;
        if worst.is_none_or(|(_, known)| found.interval.score_pct > known.interval.score_pct) {
            worst = Some((name, found));
        }
    }
    let Some((name, SteadinessOf { interval, drift, .. })) = worst else { return String::new() };
    format!(
        "{not} of {all} simulations have not settled: measure longer (--duration; --json has each). The least certain is {name}:\n\
         score +- {:.1} %, drift {:+.1} %; zone lock +- {:.1}, drift {:+.1}; LRU lock +- {:.1}, drift {:+.1} points\n",
        interval.score_pct,
        drift.score_pct,
        interval.zone_points,
        drift.zone_points,
        interval.lru_points,
        drift.lru_points
    )
}

/// Parses a percentage from 0 to 100.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|pct: &f64| (0.0..=100.0).contains(pct));
    number.ok_or_else(|| "allowed: 0 to 100 percent".to_owned())
}

/// Parses a duration of virtual time, above 0.
fn seconds(text: &str) -> Result<f64, String> {
    let number = time::seconds(text).filter(|s| (1e-6..=MOST_SECONDS).contains(s));
    number.ok_or_else(|| "allowed: 0.000001 to 100000 virtual seconds, also with the unit us, ms, s, m or h".to_owned())
}
