//! `pageset run`: a workload on a simulated machine, under any rules.

mod report;

use std::io::{self, Write as _};

use pageset_sim::run::{Run, RunError};
use pageset_sim::sweep::run_all;
use pageset_sim::workload::{WORKLOADS, Workload};
use pageset_trace::replay::RuleSet;

use self::report::{Report, Row};
use crate::error::{Exit, Failure};
use crate::output::Output;
use crate::rules::Chosen;
use crate::sim::machine;
use crate::sim::options::Effort;
use crate::sim::progress::{Interrupt, Progress};

/// Run a workload on a simulated machine under any rules
///
/// The machine's CPUs run in virtual time, the allocator is the real one. A row a set of rules and number of tasks: the
/// score, the share of the tasks' time that went to waiting for zone and LRU locks, and how long allocations took. The
/// same command gives the same result, byte for byte.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    task: Task,

    /// Change a rule of every named set, such as batch=63; may be given again and again
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,

    #[command(flatten)]
    effort: Effort,
}

/// What is run, and where.
#[derive(clap::Args)]
pub(crate) struct Task {
    /// The workload: page_fault1 (map 128 MiB, write a byte in each page, unmap; each task a process)
    #[arg(value_name = "WORKLOAD")]
    workload: String,

    /// The machine, by name (see `pageset machine list`) or as a description whose name ends in .toml
    #[arg(long, value_name = "NAME")]
    machine: String,

    /// The sets of rules: presets by name, `all` for all of them, or rule files whose names end in .toml
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "pageset")]
    rules: Vec<String>,

    /// How many tasks, each on a CPU of its own [default: as many as CPUs]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    tasks: Vec<u32>,
}

impl Task {
    /// The names of the sets of rules.
    pub(crate) fn rules(&self) -> &[String] {
        &self.rules
    }
}

/// Runs `pageset run`.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let sets = Chosen::parse(&args.task.rules, &args.settings, false)?.sets()?;
    simulate(&args.task, &sets, &args.effort)
}

/// Runs a task under each set of rules, and prints a row for each.
///
/// # Errors
/// Usage, or what a run failed of.
pub(crate) fn simulate(task: &Task, sets: &[RuleSet], effort: &Effort) -> Result<Exit, Failure> {
    let workload = Workload::find(&task.workload).ok_or_else(|| unknown(&task.workload))?;
    let machine = machine(&task.machine)?;
    let cpus = machine.topology().cpus();
    let tasks = if task.tasks.is_empty() { vec![cpus] } else { task.tasks.clone() };
    if let Some(&tasks) = tasks.iter().find(|&&tasks| tasks == 0 || tasks > cpus) {
        let message = format!("--tasks {tasks}: {}", RunError::Tasks { tasks, cpus });
        return Err(Failure::new(Exit::Usage, message));
    }
    let mut rows = Vec::new();
    let mut runs = Vec::new();
    for set in sets {
        for &tasks in &tasks {
            rows.push((set, tasks));
            runs.extend(effort.seeds().map(|seed| Run {
                workload,
                machine: &machine,
                tuning: set.tuning,
                high_fraction: set.high_fraction.unwrap_or(0),
                tasks,
                warm_up: effort.warm_up(),
                time: effort.time(),
                seed,
            }));
        }
    }
    let interrupt = Interrupt::install()?;
    let progress = Progress::new(runs.len());
    let outcomes = run_all(&runs, effort.workers(), || interrupt.keep_on(), |ended| progress.at(ended));
    drop(progress);
    let mut outcomes = outcomes.into_iter();
    let mut report = Report::new(workload, &machine, effort);
    for (set, tasks) in rows {
        let mut row = Row::new(&set.name, tasks);
        for (seed, outcome) in effort.seeds().zip(outcomes.by_ref()) {
            match outcome {
                Ok(outcome) => row.add(seed, outcome),
                Err(RunError::Interrupted) => {}
                Err(error) => return Err(Failure::new(Exit::Failed, format!("{}, {tasks} tasks: {error}", set.name))),
            }
        }
        report.add(row);
    }
    if !effort.json_only() {
        io::stdout().write_all(report.text().as_bytes())?;
    }
    if let Some(path) = &effort.json {
        let mut out = Output::create(path)?;
        serde_json::to_writer_pretty(&mut out, &report.json()).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        out.commit()?;
    }
    Ok(if interrupt.keep_on() { Exit::Done } else { Exit::Interrupted })
}

fn unknown(name: &str) -> Failure {
    let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
    Failure::new(Exit::Usage, format!("there is no workload {name}; allowed: {}", names.join(", ")))
}
