//! `pageset machine`: the simulated machines, this host as one, and the fit of a machine's costs.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pageset::Tuning;
use pageset::tuning::BatchRule;
use pageset::tuning::presets::LINUX_4_17;
use pageset_sim::calibrate::{self, Cost, Fit, Goal, Settings, Target};
use pageset_sim::compare::{BASE_BATCH, SHIPPED as TABLES, SWEEP_ERA, SweepTable, TASKS_MACHINE, TasksRow, TasksTable};
use pageset_sim::machine::{Calibrated, Machine, SHIPPED, detect};
use pageset_sim::run::RunError;
use pageset_sim::workload::Workload;

use crate::columns::{grouped, numbers, trimmed};
use crate::error::{Exit, Failure};
use crate::output::Output;
use crate::sim::machine;
use crate::sim::options::Beside;
use crate::sim::progress::Interrupt;

/// List, show, detect and calibrate simulated machines
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the machines that are built in
    List,
    /// Print a machine's description: TOML, each number with its meaning and source
    Show {
        /// The machine's name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Describe this host: its counts and caches; latencies are those of a machine like it
    Detect {
        /// Where to write the description; `-` is standard output
        #[arg(short, long, value_name = "FILE", default_value = "-")]
        output: PathBuf,
    },
    /// Fit a machine's calibrated costs to its published row, and to no other
    ///
    /// The row is that of batch 31: score, zone lock and LRU lock contention give all three costs. For the machine of the
    /// table over numbers of tasks it is the first row and the last: their scores of processes give fault_ns and
    /// lru_page_ns. Where nobody waits for a lock, a row tells little of its costs: transfer_ns and lru_page_ns are also held
    /// to what is guessed of all machines, 85 ns give or take 30 % and 43 ns give or take 10 %. Prints the table [calibrated]
    /// for the machine's description, what the costs lead to and their standard errors.
    Calibrate {
        /// The machine, by name or as a description whose name ends in .toml
        #[arg(value_name = "NAME")]
        machine: String,

        /// Simulations at most, but for up to three that give the errors
        #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u16).range(4..))]
        most: u16,

        #[command(flatten)]
        beside: Beside,
    },
}

/// Runs `pageset machine`.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Command::List => io::stdout().write_all(list()?.as_bytes())?,
        Command::Show { name } => io::stdout().write_all(text_of(&name)?.as_bytes())?,
        Command::Detect { output } => {
            let text = detect(Path::new("/"), "host").map_err(|error| Failure::new(Exit::Missing, error))?;
            let mut out = Output::create(&output)?;
            out.write_all(text.as_bytes())?;
            out.commit()?;
        }
        Command::Calibrate { machine: name, most, beside } => return fit(&name, most, &beside.with_seeds_of_fits()),
    }
    Ok(Exit::Done)
}

fn list() -> Result<String, Failure> {
    let heads = ["name", "CPUs", "sockets", "GiB", "about"];
    let mut table = numbers(heads.into_iter(), 0..1);
    if let Some(column) = table.column_mut(4) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    for (name, _) in SHIPPED {
        let machine = machine(name)?;
        let topology = machine.topology();
        table.add_row([
            machine.name,
            topology.cpus().to_string(),
            topology.sockets.to_string(),
            machine.hardware.memory_gib.get().to_string(),
            machine.about,
        ]);
    }
    Ok(trimmed(&table))
}

fn text_of(name: &str) -> Result<String, Failure> {
    // Says what is wrong with the name, and with a file.
    machine(name)?;
    match SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        Some((_, text)) => Ok((*text).to_owned()),
        None => Ok(fs::read_to_string(name)?),
    }
}

fn fit(name: &str, most: u16, beside: &Beside) -> Result<Exit, Failure> {
    let machine = machine(name)?;
    let goal = goal(&machine)?;
    let workload = Workload::find("page_fault1").ok_or_else(|| Failure::new(Exit::Failed, "no page_fault1"))?;
    let settings = Settings {
        run: &|machine, tuning, era| beside.run(workload, machine, tuning, era),
        seeds: beside.effort.seeds().collect(),
        most: usize::from(most),
        workers: beside.effort.workers(),
    };
    let interrupt = Interrupt::install()?;
    let mut best = None;
    let heard = |fit: &Fit| {
        best = Some(fit.clone());
        let _ = writeln!(io::stderr(), "{}", told(&fit.simulated));
    };
    let (exit, fit) = match calibrate::fit(&machine, &goal, &settings, || interrupt.keep_on(), heard) {
        Ok(fit) => (Exit::Done, Some(fit)),
        Err(RunError::Interrupted) => (Exit::Interrupted, best),
        Err(error) => return Err(Failure::new(Exit::Failed, error)),
    };
    if let Some(fit) = fit {
        io::stdout().write_all(text(&goal, beside, workload, &fit).as_bytes())?;
    }
    Ok(exit)
}

/// The published rows that a machine is fitted to.
fn goal(machine: &Machine) -> Result<Goal, Failure> {
    if machine.name == TASKS_MACHINE { goal_of_tasks(machine) } else { goal_of_batches(machine) }
}

/// The row of batch 31.
fn goal_of_batches(machine: &Machine) -> Result<Goal, Failure> {
    let (file, text) = shipped("page_fault1-batch-sweep.csv")?;
    let table = SweepTable::parse(file, text).map_err(|error| Failure::new(Exit::Damaged, error))?;
    let row = table.rows.iter().find(|row| row.machine == machine.name && row.batch == BASE_BATCH);
    let [score, _, zone_pct, lru_pct, _] = row.map(|row| row.values).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("{file} has no row of batch {BASE_BATCH} of a machine {}", machine.name))
    })?;
    let row = Target { tasks: machine.topology().cpus(), score, contention_pct: Some([zone_pct, lru_pct]) };
    let tuning = Tuning { batch: BatchRule::Fixed(BASE_BATCH), ..LINUX_4_17 };
    Ok(Goal { rows: vec![row], costs: Cost::ALL.into(), tuning, era: SWEEP_ERA })
}

/// The rows of fewest and of most tasks.
fn goal_of_tasks(machine: &Machine) -> Result<Goal, Failure> {
    let (file, text) = shipped("page_fault1-1-to-40-tasks.csv")?;
    let table = TasksTable::parse(file, text, machine.topology().cpus());
    let rows = table.map_err(|error| Failure::new(Exit::Damaged, error))?.rows;
    let ends = rows.iter().min_by_key(|row| row.tasks).zip(rows.iter().max_by_key(|row| row.tasks));
    let (first, last) = ends.ok_or_else(|| Failure::new(Exit::Damaged, format!("{file} has no rows")))?;
    let target = |row: &TasksRow| Target { tasks: row.tasks, score: row.published[0], contention_pct: None };
    let costs = vec![Cost::Fault, Cost::LruPage];
    Ok(Goal { rows: vec![target(first), target(last)], costs, tuning: first.tuning, era: first.era })
}

/// A table that is built in.
fn shipped(name: &str) -> Result<(&'static str, &'static str), Failure> {
    let found = TABLES.iter().find(|(shipped, _)| *shipped == name);
    found.copied().ok_or_else(|| Failure::new(Exit::Failed, format!("there is no table {name}")))
}

/// Rows in words.
fn told(rows: &[Target]) -> String {
    let row = |row: &Target| {
        let mut text = format!("{} tasks: score {}", row.tasks, grouped(row.score.round() as u64));
        if let Some([zone_pct, lru_pct]) = row.contention_pct {
            text += &format!(", zone lock {zone_pct:.1} %, LRU lock {lru_pct:.1} %");
        }
        text
    };
    rows.iter().map(row).collect::<Vec<_>>().join("; ")
}

/// The fitted table, and as comments how near it comes and how well the rows tell each cost.
fn text(goal: &Goal, beside: &Beside, workload: &Workload, fit: &Fit) -> String {
    let Calibrated { fault_ns, transfer_ns, lru_page_ns } = fit.costs;
    let costs = [("fault_ns", fault_ns), ("transfer_ns", transfer_ns), ("lru_page_ns", lru_page_ns)];
    let mut text = format!(
        "# Published: {}.\n# Simulated, {}: {}.\n",
        told(&goal.rows),
        beside.told(Some(beside.effort.length(workload))),
        told(&fit.simulated),
    );
    if let Some(errors) = fit.errors {
        let error = |&cost: &Cost| format!("{} {:.0} %", costs[cost as usize].0, 100.0 * errors[cost as usize]);
        let errors: Vec<_> = goal.costs.iter().map(error).collect();
        text += &format!("# Standard errors, of the row and of what is guessed without it: {}.\n", errors.join(", "));
    }
    text += "[calibrated]\n";
    for (key, ns) in costs {
        text += &format!("{key} = {}\n", ns.get());
    }
    text
}
