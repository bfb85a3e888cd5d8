//! `pageset-lab machine`: the simulated machines, and a description of this host.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pageset_sim::machine::{SHIPPED, detect};
use pageset_trace::printable;

use crate::columns::{Fit, numbers};
use crate::error::{Exit, Failure};
use crate::output::{Output, WideOption, is_standard};
use crate::sim::machine;

/// List, show and detect simulated machines
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
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Command::List => io::stdout().write_all(list()?.as_bytes())?,
        Command::Show { name } => io::stdout().write_all(text_of(&name)?.as_bytes())?,
        Command::Detect { output } => {
            if !is_standard(&output) && output.extension().is_none_or(|end| end != "toml") {
                let message = format!("cannot name a machine {}; allowed: names that end in .toml", output.display());
                return Err(Failure::new(Exit::Usage, printable(&message)));
            }
            let text = detect(Path::new("/"), "host").map_err(|error| Failure::new(Exit::Missing, error))?;
            let mut out = Output::create(&output)?;
            out.write_all(text.as_bytes())?;
            out.commit()?;
            if !is_standard(&output) {
                let _ = writeln!(
                    io::stderr(),
                    "next: pageset-lab sim page_fault1 --machine {} --rules kernel",
                    printable(&output.to_string_lossy())
                );
            }
        }
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
    Ok(Fit::new(&WideOption::default()).words(table))
}

fn text_of(name: &str) -> Result<String, Failure> {
    // Reports an unknown name and an invalid file.
    machine(name)?;
    match SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        Some((_, text)) => Ok((*text).to_owned()),
        None => Ok(fs::read_to_string(name)?),
    }
}
