//! Options that the simulator's commands have in common.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use pageset::Tuning;
use pageset_sim::era::Era;
use pageset_sim::machine::Machine;
use pageset_sim::run::Run;
use pageset_sim::sweep;
use pageset_sim::time::Time;
use pageset_sim::workload::{Length, Workload};

/// Virtual time that one run may take: what its clocks hold with room, and more than anyone waits for.
const MOST_SECONDS: f64 = 100_000.0;

/// Seeds, where nobody says otherwise; how long a run is, is the workload's own, see [`Length`].
const SEEDS: u32 = 1;
/// Seeds for the rows that costs are fitted to and for the tables that have them, where nobody says otherwise: one seed's
/// score of batch 31, which all changes are counted from, is up to 1.5 % off the mean of three (lkp-hsw-ep2, see
/// `docs/research/accuracy.md`). Costs of the shipped machines are fitted with as many.
const SEEDS_OF_FITS: u32 = 3;
/// How well figures that stand beside published ones are to be known, in percent: all that is asked for is measured, as when
/// costs were fitted.
const PRECISION_PCT: f64 = 0.0;

/// How long and how often each setting is simulated.
#[derive(clap::Args)]
pub(crate) struct Effort {
    /// Virtual seconds that are measured; at most, where there is --precision [default: as long as the workload needs,
    /// 1.5 for page_fault1]
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = seconds)]
    seconds: Option<f64>,

    /// Virtual seconds before the measurement begins [default: as long as the workload needs, 0.5 for page_fault1]
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = seconds)]
    warm_up: Option<f64>,

    /// How many seeds each setting is run with, from 1 up; the table has their mean and spread [default: 1; for
    /// calibrate, and compare with page_fault1 over batches or over tasks, 3]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,

    /// The kernel's era, which sets what rules do not: LRU batches, LRU locks of memory groups, what counts as a CPU's slice
    /// of the cache: linux-4.16, linux-5.11, posted, linux-6.10, or a release such as linux-5.15 [default: of a preset
    /// that of its kernel, of a published table that of its kernels, else linux-6.10]
    #[arg(long, value_name = "NAME")]
    era: Option<Era>,

    /// Threads to simulate on [default: one a CPU of this host]; no result depends on it
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    /// Also write JSON; `-` is standard output, instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
}

impl Effort {
    /// How long a workload is simulated: as asked, or as it needs.
    pub(crate) fn length(&self, workload: &Workload) -> Length {
        let Length { warm_up, time } = workload.length;
        Length {
            warm_up: self.warm_up.map_or(warm_up, Time::from_seconds),
            time: self.seconds.map_or(time, Time::from_seconds),
        }
    }

    /// A run with the first seed, on all CPUs and all nodes. `era` holds unless --era sets another.
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
            precision_pct: None,
            whole: true,
            held: 0,
            seed: 1,
        }
    }

    /// Seeds and threads.
    pub(crate) fn of_each(&self) -> sweep::Effort {
        let workers = self.jobs.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
        sweep::Effort { seeds: self.seeds.unwrap_or(SEEDS), workers }
    }
}

/// How settings are simulated whose figures stand beside published ones: tables, and the rows that costs are fitted to. Both
/// are run by [`Beside::run`], so that a fit's figures are those that `compare` shows.
#[derive(clap::Args)]
pub(crate) struct Beside {
    /// Measure until score and contention are known so well, in percent and percentage points: the standard error of the
    /// mean over all seeds. Four tenths of --seconds are the least; 0 measures all of them
    #[arg(long, value_name = "PCT", default_value_t = PRECISION_PCT, allow_negative_numbers = true, value_parser = percent)]
    pub(crate) precision: f64,

    /// Simulate all nodes, even where they are alike and share nothing, so that one would do
    #[arg(long)]
    whole: bool,

    #[command(flatten)]
    pub(crate) effort: Effort,
}

impl Beside {
    /// With as many seeds as costs are fitted with, unless asked for otherwise.
    pub(crate) fn with_seeds_of_fits(mut self) -> Self {
        self.effort.seeds.get_or_insert(SEEDS_OF_FITS);
        self
    }

    /// A run with the first seed, on all CPUs.
    pub(crate) fn run<'m>(&self, workload: &'m Workload, machine: &'m Machine, tuning: Tuning, era: Era) -> Run<'m> {
        // The result is the mean over the seeds: each of them may be off by more.
        let each = self.precision * f64::from(self.effort.of_each().seeds).sqrt();
        let precision_pct = (self.precision > 0.0).then_some(each);
        Run { precision_pct, whole: self.whole, ..self.effort.run(workload, machine, tuning, era) }
    }
}

/// What is done, in words: for how long it is measured and after how long, where all lengths are the same, how well score
/// and contention are to be known, and how many seeds there are.
pub(crate) fn described(length: Option<Length>, precision_pct: f64, seeds: usize) -> String {
    let (most, until) = match precision_pct {
        0.0 => ("", String::new()),
        precision => ("at most ", format!(", until score and contention were known to {precision} %")),
    };
    let length = match length {
        Some(Length { warm_up, time }) => format!("{} s after {} s", time.seconds(), warm_up.seconds()),
        None => "as long as each workload needs".to_owned(),
    };
    format!("{most}{length}{until}, seeds 1 to {seeds}")
}

/// Percent, from 0 to 100.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|pct: &f64| (0.0..=100.0).contains(pct));
    number.ok_or_else(|| "allowed: 0 to 100 percent".to_owned())
}

/// A length of virtual time, above 0.
fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|&s: &f64| (1e-6..=MOST_SECONDS).contains(&s));
    number.ok_or_else(|| "virtual time is from 0.000001 to 100000 seconds".to_owned())
}
