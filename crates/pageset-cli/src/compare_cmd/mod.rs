//! `pageset compare`: a published table, and what the simulator makes of it.

mod effects;
mod report;
mod tasks;

use std::fs;
use std::path::Path;

use pageset::Tuning;
use pageset::tuning::BatchRule;
use pageset::tuning::presets::LINUX_4_17;
use pageset_sim::compare::{self, EffectTable, SHIPPED, Simulated, SweepRow, SweepTable, TasksTable};
use pageset_sim::machine::Machine;
use pageset_sim::run::{Outcome, Run};
use pageset_sim::workload::Workload;

use self::report::Report;
use crate::error::{Exit, Failure};
use crate::sim::batch::Batch;
use crate::sim::machines;
use crate::sim::options::Effort;

/// Compare a published table with what the simulator makes of it
///
/// Runs what each row of the table describes, with the costs that each machine's base row of page_fault1 (batch 31) was
/// fitted to. Beside each error stands that of doing nothing, which repeats the base; for the sweep of batches also that of
/// a line in 1/batch through the base row and the last.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The table: one that is built in, such as page_fault1-batch-sweep.csv, or a file of the same form; a name that is
    /// none gets the list of those that are
    #[arg(value_name = "TABLE")]
    table: String,

    /// Only the rows of these machines
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    machine: Vec<String>,

    /// Only the rows that have one of these words in a key column; for tables other than the sweep of batches
    #[arg(long, value_name = "WORD,…", value_delimiter = ',')]
    row: Vec<String>,

    /// Only the rows of these batches, and the base rows; for the sweep of batches
    #[arg(long, value_name = "PAGES,…", value_delimiter = ',')]
    batch: Vec<u32>,

    /// Measure until score and contention are known so well, in percent and percentage points: the standard error of the
    /// mean over all seeds. Four tenths of --seconds are the least; 0 measures all of them
    #[arg(long, value_name = "PCT", default_value = "0.3", value_parser = percent)]
    precision: f64,

    /// Simulate all nodes, even where they are alike and share nothing, so that one would do
    #[arg(long)]
    whole: bool,

    #[command(flatten)]
    effort: Effort,
}

/// Runs `pageset compare`.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let text = read(&args.table)?;
    if EffectTable::is_one(&text) {
        return effects::run(&args, &text);
    }
    if !args.row.is_empty() {
        return Err(Failure::new(
            Exit::Usage,
            format!("--row: rows of {} are chosen by --machine, --batch", args.table),
        ));
    }
    if TasksTable::is_one(&text) {
        return tasks::run(&args, &text);
    }
    let table = SweepTable::parse(&args.table, &text).map_err(|error| Failure::new(Exit::Damaged, error))?;
    let rows = chosen(&args, table)?;
    let machines = machines(rows.iter().map(|row| row.machine.as_str()))?;
    let workload = Workload::find("page_fault1").ok_or_else(|| Failure::new(Exit::Failed, "no page_fault1"))?;
    let run_of = |row: &SweepRow| {
        // The kernel of the table: 4.17 but for its batch. High is six batches.
        let tuning = Tuning { batch: BatchRule::Fixed(row.batch), ..LINUX_4_17 };
        machines.get(row.machine.as_str()).map(|machine| args.run(workload, machine, tuning))
    };
    let runs: Vec<Run<'_>> = rows.iter().filter_map(run_of).collect();
    let batch = Batch::begin(&args.effort)?;
    let outcomes = batch.run(&runs, |n| format!("{}, batch {}", rows[n].machine, rows[n].batch))?;
    let (rows, simulated) = whole_rows(&rows, &outcomes, args.effort.seeds().count());
    let report = Report::new(&args, compare::compare(&rows, &simulated));
    batch.give(|| report.text(), || report.json())
}

impl Args {
    /// A run for a row, on all CPUs.
    fn run<'m>(&self, workload: &'m Workload, machine: &'m Machine, tuning: Tuning) -> Run<'m> {
        // The result is the mean over the seeds: each of them may be off by more.
        let each = self.precision * f64::from(self.effort.seeds).sqrt();
        let precision_pct = (self.precision > 0.0).then_some(each);
        Run { precision_pct, whole: self.whole, ..self.effort.run(workload, machine, tuning) }
    }

    /// What was run: the first line of a result.
    fn head(&self) -> String {
        let Effort { seconds, warm_up, seeds, .. } = self.effort;
        let (most, until) = match self.precision {
            0.0 => ("", String::new()),
            precision => ("at most ", format!(", until score and contention were known to {precision} %")),
        };
        format!("{}, {most}{seconds} s after {warm_up} s{until}, seeds 1 to {seeds}\n", self.table)
    }
}

/// Percent, from 0 to 100.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|pct: &f64| (0.0..=100.0).contains(pct));
    number.ok_or_else(|| "allowed: 0 to 100 percent".to_owned())
}

/// Reads a built-in table, or a file.
fn read(name: &str) -> Result<String, Failure> {
    let built_in = SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| (*text).to_owned());
    match built_in {
        Some(text) if !Path::new(name).exists() => Ok(text),
        _ => fs::read_to_string(name).map_err(|error| {
            let tables: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            Failure::new(Exit::Damaged, format!("{name}: {error}"))
                .help(format!("tables that are built in: {}", tables.join(", ")))
        }),
    }
}

/// The rows asked for; each machine's base row is always among them.
fn chosen(args: &Args, table: SweepTable) -> Result<Vec<SweepRow>, Failure> {
    for (option, missing) in [
        ("machine", args.machine.iter().find(|name| table.rows.iter().all(|row| row.machine != **name)).cloned()),
        ("batch", args.batch.iter().find(|b| table.rows.iter().all(|row| row.batch != **b)).map(u32::to_string)),
    ] {
        if let Some(missing) = missing {
            let message = format!("--{option} {missing}: no row of {} has it", args.table);
            return Err(Failure::new(Exit::Usage, message));
        }
    }
    let wanted = |row: &SweepRow| {
        (args.machine.is_empty() || args.machine.contains(&row.machine))
            && (args.batch.is_empty() || args.batch.contains(&row.batch) || row.is_base_of(row))
    };
    Ok(table.rows.into_iter().filter(wanted).collect())
}

/// The rows all of whose seeds were run, if their base row was.
fn whole_rows(rows: &[SweepRow], outcomes: &[Vec<(u64, Outcome)>], seeds: usize) -> (Vec<SweepRow>, Vec<Simulated>) {
    let whole = || rows.iter().zip(outcomes).filter(|(_, outcomes)| outcomes.len() == seeds);
    let has_base = |row: &SweepRow| whole().any(|(base, _)| base.is_base_of(row));
    let values = |outcome: &Outcome| [outcome.score(), outcome.zone_pct(), outcome.lru_pct()];
    let simulated = |seeds: &[(u64, Outcome)]| Simulated(seeds.iter().map(|(_, outcome)| values(outcome)).collect());
    whole().filter(|(row, _)| has_base(row)).map(|(row, seeds)| (row.clone(), simulated(seeds))).unzip()
}
