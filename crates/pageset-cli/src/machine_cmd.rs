//! `pageset machine`: the simulated machines, a description of this host, and the fit of a machine's costs.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pageset_sim::calibrate::{self, Calibration, Cost, Fit, Goal, GoalError, Settings, Target};
use pageset_sim::machine::{Calibrated, SHIPPED, detect};
use pageset_sim::run::RunError;
use pageset_sim::time::Time;
use pageset_sim::workload::{Length, Workload};

use crate::columns::{grouped, numbers, trimmed};
use crate::error::{Exit, Failure};
use crate::output::Output;
use crate::sim::batch::Batch;
use crate::sim::machine;
use crate::sim::options::{Beside, described};

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
    /// Fit a machine's calibrated costs to its published base row
    ///
    /// The base row is the row of batch 31. Its score, zone lock contention and LRU lock contention determine the three
    /// costs. For the machine of the table over numbers of tasks, the scores of processes in the first and the last row
    /// determine fault_ns and lru_page_ns. A row without lock contention says little about the costs of a lock.
    /// Therefore transfer_ns and lru_page_ns are also held near estimates for all machines: 85 ns ± 30 % and 43 ns ± 10
    /// %. Prints the table [calibrated] for the machine's description, the simulated rows, and the standard errors of
    /// the costs.
    Calibrate {
        /// The machine by name, or a description in a .toml file
        #[arg(value_name = "NAME")]
        machine: String,

        /// Largest number of simulations; up to three more determine the standard errors
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
    // Reports an unknown name and an invalid file.
    machine(name)?;
    match SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        Some((_, text)) => Ok((*text).to_owned()),
        None => Ok(fs::read_to_string(name)?),
    }
}

fn fit(name: &str, most: u16, beside: &Beside) -> Result<Exit, Failure> {
    let machine = machine(name)?;
    let goal = Goal::of(&machine).map_err(|error| {
        let exit = if matches!(error, GoalError::NoRow { .. }) { Exit::Usage } else { Exit::Damaged };
        Failure::new(exit, error)
    })?;
    let workload =
        Workload::find("page_fault1").ok_or_else(|| Failure::new(Exit::Failed, "unknown workload `page_fault1`"))?;
    let effort = beside.effort.of_each();
    let settings = Settings {
        run: &|machine, tuning, era| beside.run(workload, machine, tuning, era),
        effort,
        max_simulations: usize::from(most),
    };
    let batch = Batch::begin(&beside.effort)?;
    let mut best = None;
    let heard = |fit: &Fit| {
        best = Some(fit.clone());
        let _ = writeln!(io::stderr(), "{}", rows(&fit.simulated));
    };
    let fit = match calibrate::fit(&machine, &goal, &settings, || batch.keep_on(), heard) {
        Err(RunError::Interrupted) => best,
        fit => Some(fit.map_err(|error| Failure::new(Exit::Failed, error))?),
    };
    let Some(fit) = fit else { return Ok(Exit::Interrupted) };
    let run = beside.run(workload, &machine, goal.tuning, goal.era);
    batch.give(&Calibration::new(&run, &goal, &fit, beside.precision, effort.seeds), text)
}

/// Describes rows.
fn rows(rows: &[Target]) -> String {
    let row = |row: &Target| {
        let mut text = format!("{} tasks: score {}", row.tasks, grouped(row.score.round() as u64));
        if let Some([zone_pct, lru_pct]) = row.contention_pct {
            text += &format!(", zone lock {zone_pct:.1} %, LRU lock {lru_pct:.1} %");
        }
        text
    };
    rows.iter().map(row).collect::<Vec<_>>().join("; ")
}

/// The fitted table, with the published and the simulated rows and the standard errors as comments.
fn text(fit: &Calibration) -> String {
    let time = |ns: u64| Time::from_ns(ns as f64);
    let length = Length { warm_up: time(fit.warm_up_ns), time: time(fit.measured_ns) };
    let mut text = format!(
        "# Published: {}.\n# Simulated, {}: {}.\n",
        rows(&fit.published),
        described(Some(length), fit.precision_pct, fit.seeds.len()),
        rows(&fit.simulated),
    );
    if !fit.relative_errors.is_empty() {
        let error = |(key, error): (&String, &Option<f64>)| format!("{key} {:.0} %", 100.0 * error.unwrap_or(f64::NAN));
        let errors: Vec<_> = fit.relative_errors.iter().map(error).collect();
        text += &format!(
            "# Standard errors, from the row and from the estimates for all machines: {}.\n",
            errors.join(", ")
        );
    }
    let Calibrated { fault_ns, transfer_ns, lru_page_ns } = fit.calibrated;
    text += "[calibrated]\n";
    for (cost, ns) in Cost::ALL.into_iter().zip([fault_ns, transfer_ns, lru_page_ns]) {
        text += &format!("{} = {}\n", cost.key(), ns.get());
    }
    text
}
