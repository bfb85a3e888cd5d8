//! `pageset-lab machine`: the simulated machines, a description of this host, and the fits of a machine's pace and of the shared costs.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pageset_sim::calibrate::{self, Calibration, Fit, Goal, GoalError, Settings, SharedFit, Simulated, Target};
use pageset_sim::machine::{Machine, SHIPPED, Shared, detect};
use pageset_sim::run::RunError;
use pageset_sim::time::Time;
use pageset_sim::workload::{Length, Workload};

use crate::columns::{self, grouped, numbers, trimmed};
use crate::error::{Exit, Failure};
use crate::output::Output;
use crate::sim::batch::Batch;
use crate::sim::machine;
use crate::sim::options::{Beside, described};
use crate::sim::progress::Progress;

/// List, show, detect and calibrate simulated machines
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the built-in machines
    List,
    /// Print a machine's description: TOML with the meaning and the source of each number
    Show {
        /// The machine's name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Describe this host: its counts and caches, with the latencies of a similar machine
    Detect {
        /// Write the description to FILE; `-` is standard output
        #[arg(short, long, value_name = "FILE", default_value = "-")]
        output: PathBuf,
    },
    /// Fit a machine's pace to its published score
    ///
    /// The pace is the one number of a machine that is fitted: it scales all durations alike. The row is that of batch 31, or,
    /// for the machine of the table over numbers of tasks, that of 40 processes. The fit does not see contention. Prints the table [fitted] for the machine's description, and the published and the simulated row.
    Calibrate {
        /// The machine by name, or a description in a .toml file
        #[arg(value_name = "NAME")]
        machine: String,

        #[command(flatten)]
        beside: Beside,
    },
    /// Set the costs that all machines share, and judge them on machines that were left out
    ///
    /// The costs of the table [shared] are set on the rows of batch 31 of all machines of the batch sweep together: score and
    /// contention, at pace 1. Then each machine in turn is left out, the costs are fitted again to the other machines, and its row is predicted.
    Share {
        /// Use only these machines of the batch sweep
        #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
        machine: Vec<String>,

        #[command(flatten)]
        beside: Beside,
    },
}

/// Runs `pageset-lab machine`.
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
        Command::Calibrate { machine: name, beside } => return fit(&name, &beside.with_seeds_of_fits()),
        Command::Share { machine, beside } => return share(&machine, &beside.with_seeds_of_fits()),
    }
    Ok(Exit::Done)
}

fn list() -> Result<String, Failure> {
    let heads = ["name", "CPUs", "sockets", "nodes", "GiB", "about"];
    let mut table = numbers(heads.into_iter(), 0..1);
    if let Some(column) = table.column_mut(5) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    for (name, _) in SHIPPED {
        let machine = machine(name)?;
        let topology = machine.topology();
        table.add_row([
            machine.name,
            topology.cpus().to_string(),
            machine.cited.sockets.get().to_string(),
            topology.sockets.to_string(),
            machine.cited.memory_gib.get().to_string(),
            machine.about,
        ]);
    }
    Ok(trimmed(&table))
}

fn text_of(name: &str) -> Result<String, Failure> {
    // Reports an unknown name and an invalid file.
    machine(name)?;
    match SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        Some((_, text)) => Ok((*text).to_owned()),
        None => Ok(fs::read_to_string(name)?),
    }
}

/// The published row of a machine.
fn goal(machine: &Machine) -> Result<Goal, Failure> {
    Goal::of(machine).map_err(|error| {
        let exit = if matches!(error, GoalError::NoRow { .. }) { Exit::Usage } else { Exit::Damaged };
        Failure::new(exit, error)
    })
}

/// The workload of the rows that costs are set on.
pub(crate) fn page_fault1() -> Result<&'static Workload, Failure> {
    Workload::find("page_fault1").ok_or_else(|| Failure::new(Exit::Failed, "unknown workload `page_fault1`"))
}

fn fit(name: &str, beside: &Beside) -> Result<Exit, Failure> {
    let machine = machine(name)?;
    let (goal, workload) = (goal(&machine)?, page_fault1()?);
    let effort = beside.effort.of_each();
    let settings = Settings { run: &|machine, tuning, era| beside.run(workload, machine, tuning, era), effort };
    let batch = Batch::begin(&beside.effort)?;
    let mut best = None;
    let heard = |fit: &Fit| {
        best = Some(*fit);
        let _ = writeln!(io::stderr(), "pace {}: {}", fit.fitted.pace.get(), row(&fit.simulated));
    };
    let fit = match calibrate::fit(&machine, &goal, &settings, || batch.keep_on(), heard) {
        Err(RunError::Interrupted) => best,
        fit => Some(fit.map_err(|error| Failure::new(Exit::Failed, error))?),
    };
    let Some(fit) = fit else { return Ok(Exit::Interrupted) };
    let run = beside.run(workload, &machine, goal.tuning, goal.era);
    let result = Calibration::new(&run, &goal, &fit, effort.seeds);
    batch.give(&result, |result, _| text(result), std::iter::once((Vec::new(), &result)))
}

/// Sets the shared costs of the machines of the batch sweep.
fn share(names: &[String], beside: &Beside) -> Result<Exit, Failure> {
    let (machines, goals) = rows_of_sweep(names)?;
    let workload = page_fault1()?;
    let effort = beside.effort.of_each();
    let settings = Settings { run: &|machine, tuning, era| beside.run(workload, machine, tuning, era), effort };
    let batch = Batch::begin(&beside.effort)?;
    let progress = Progress::new();
    let heard = |ended, all| progress.of(ended, all);
    let sharing = match calibrate::share(&machines, &goals, &settings, || batch.keep_on(), heard) {
        Err(RunError::Interrupted) => return Ok(Exit::Interrupted),
        sharing => sharing.map_err(|error| Failure::new(Exit::Failed, error))?,
    };
    drop(progress);
    let Some((first, goal)) = machines.first().zip(goals.first()) else { return Ok(Exit::Done) };
    let run = beside.run(workload, first, goal.tuning, goal.era);
    let result = SharedFit::new(&run, sharing, effort.seeds);
    let Shared { fault_cycles, lru_page_cycles, transfer_load } = result.sharing.shared;
    let of_all = || {
        vec![
            ("shared.fault_cycles", fault_cycles.get().to_string()),
            ("shared.lru_page_cycles", lru_page_cycles.get().to_string()),
            ("shared.transfer_load", transfer_load.get().to_string()),
        ]
    };
    batch.give(&result, shared_text, result.sharing.machines.iter().map(|row| (of_all(), row)))
}

/// The machines of the batch sweep and their rows of batch 31: all of them, or those with these names.
pub(crate) fn rows_of_sweep(names: &[String]) -> Result<(Vec<Machine>, Vec<Goal>), Failure> {
    let (mut machines, mut goals) = (Vec::new(), Vec::new());
    for (name, _) in SHIPPED {
        let machine = machine(name)?;
        let goal = Goal::of(&machine).ok().filter(|goal| goal.row.contention_pct.is_some());
        if let Some(goal) = goal.filter(|_| names.is_empty() || names.iter().any(|asked| asked == name)) {
            machines.push(machine);
            goals.push(goal);
        }
    }
    if let Some(missing) = names.iter().find(|name| machines.iter().all(|machine| machine.name != **name)) {
        let what = format!("cannot share the costs of {missing}: no row of batch 31 of the batch sweep");
        return Err(Failure::new(Exit::Usage, what));
    }
    if let [alone] = &machines[..] {
        let what = format!("cannot leave {} out: no machine is left; try more machines", alone.name);
        return Err(Failure::new(Exit::Usage, what));
    }
    Ok((machines, goals))
}

/// Describes a row.
fn row(row: &Target) -> String {
    let mut text = format!("{} tasks: score {}", row.tasks, grouped(row.score.round() as u64));
    if let Some([zone_pct, lru_pct]) = row.contention_pct {
        text += &format!(", zone lock {zone_pct:.1} %, LRU lock {lru_pct:.1} %");
    }
    text
}

fn how(how: &Simulated) -> String {
    let time = |ns: u64| Time::from_ns(ns as f64);
    let length = Length { warm_up: time(how.warm_up_ns), time: time(how.measured_ns) };
    described(Some(length), how.precision_pct, how.history, how.seeds.len())
}

/// The fitted table, with the published and the simulated row as comments.
fn text(fit: &Calibration) -> String {
    format!(
        "# Published: {}.\n# Simulated, {}: {}.\n# Only the score was fitted.\n[fitted]\npace = {}\n",
        row(&fit.published),
        how(&fit.how),
        row(&fit.simulated),
        fit.fitted.pace.get()
    )
}

/// The shared costs, and a row for each machine: with the costs of all machines, and with those of the others.
fn shared_text(fit: &SharedFit, width: columns::Fit) -> String {
    let heads = [
        "machine",
        "score",
        "zone lock %",
        "LRU lock %",
        "of others",
        "zone lock %",
        "LRU lock %",
        "expected",
        "scatter",
        "costs of others",
    ];
    let mut table = numbers(heads.into_iter(), 0..1);
    let ratio = |of: &Target, to: &Target| format!("x {:.2}", of.score / to.score);
    for machine in &fit.sharing.machines {
        let points = |of: &Target, lock: usize| {
            let [published, simulated] =
                [&machine.published, of].map(|row| row.contention_pct.map_or(f64::NAN, |all| all[lock]));
            format!("{published:.0} / {simulated:.1}")
        };
        let (all, others) = (&machine.simulated, &machine.predicted);
        table.add_row([
            machine.machine.clone(),
            ratio(all, &machine.published),
            points(all, 0),
            points(all, 1),
            ratio(others, &machine.published),
            points(others, 0),
            points(others, 1),
            machine.expected.contention_pct.map_or_else(String::new, |[zone, lru]| format!("{zone:.1} / {lru:.1}")),
            format!("{:.1}", machine.scatter[0].max(machine.scatter[1])),
            costs(&machine.shared_of_others) + if machine.at_limit { " (limit)" } else { "" },
        ]);
    }
    let mut text = format!(
        "Rows of batch 31 at pace 1, {}. Contention: published / simulated.\n\
         Expected: zone lock / LRU lock % on the surface through all simulations. Scatter: of a simulated row around it, in points.\n",
        how(&fit.how)
    );
    text += &width.table(table, &[0, 3, 5, 6, 0, 1, 2, 4, 8, 7]);
    let limit = if fit.sharing.at_limit { ", at the limit of a range" } else { "" };
    text += &format!("\nCosts of all machines together{limit}: fault_cycles / lru_page_cycles / transfer_load\n");
    text + &costs(&fit.sharing.shared) + "\n"
}

/// The shared costs of a machine, in the order of its description.
pub(crate) fn costs(shared: &Shared) -> String {
    let Shared { fault_cycles, lru_page_cycles, transfer_load } = shared;
    format!("{} / {} / {}", fault_cycles.get(), lru_page_cycles.get(), transfer_load.get())
}
