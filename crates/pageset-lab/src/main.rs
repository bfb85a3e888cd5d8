//! The `pageset-lab` command: for people who develop an allocator.
//!
//! Each subcommand is a module `NAME_cmd` with its arguments (`Args`) and `run(Args) -> Result<Exit, Failure>`. A
//! subcommand prints its result on standard output, and progress and warnings on standard error. Only this file ends
//! the process.

mod bench_cmd;
mod compare_cmd;
mod diff_cmd;
mod examples;
mod explain_cmd;
#[cfg(test)]
mod grammar_tests;
mod inputs;
mod interleave_cmd;
mod kernels_cmd;
mod machine_cmd;
mod report_cmd;
mod sim;
mod sim_cmd;
#[cfg(feature = "parquet")]
mod study_cmd;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};
// The modules of the commands name these as their own.
use pageset_report::{columns, csv, error, generate, interrupt, output, program, rules, time};

use crate::error::{Exit, Failure};
use crate::examples::PROGRAM;
use crate::inputs::INPUTS;

/// Simulate machines and workloads under the rules of a page allocator, run studies, and compare with published results
///
/// `pageset` records and replays real machines. This program is for people who develop an allocator.
#[derive(Parser)]
#[command(name = "pageset-lab", version = program::VERSION, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands, in the order a user needs them.
#[derive(clap::Subcommand)]
enum Command {
    Sim(sim_cmd::Args),
    #[cfg(feature = "parquet")]
    Study(study_cmd::Args),
    Compare(compare_cmd::Args),
    Machine(machine_cmd::Args),
    Interleave(interleave_cmd::Args),
    Bench(bench_cmd::Args),
    Kernels(kernels_cmd::Args),
    Predict(kernels_cmd::predict::Args),
    Diff(diff_cmd::Args),
    Report(report_cmd::Args),
    Explain(explain_cmd::Args),
    #[command(hide = true)]
    Generate(generate::Args),
}

/// The commands of the product, and earlier names.
const MOVED: [program::Moved; 11] = [
    ("advise", "pageset advise"),
    ("agent", "pageset agent"),
    ("demo", "pageset demo"),
    ("fleet", "pageset fleet"),
    ("identify", "pageset replay FILE --identify"),
    ("record", "pageset record"),
    ("replay", "pageset replay"),
    ("run", "pageset-lab sim"),
    ("sweep", "pageset-lab sim --set KEY=VALUE,…"),
    ("top", "pageset top"),
    ("trace", "pageset trace"),
];

fn run(cli: Cli) -> Result<Exit, Failure> {
    match cli.command {
        Command::Sim(args) => sim_cmd::run(args),
        #[cfg(feature = "parquet")]
        Command::Study(args) => study_cmd::run(args),
        Command::Compare(args) => compare_cmd::run(args),
        Command::Machine(args) => machine_cmd::run(args),
        Command::Interleave(args) => interleave_cmd::run(args),
        Command::Bench(args) => bench_cmd::run(args),
        Command::Kernels(args) => kernels_cmd::run(&args),
        Command::Predict(args) => kernels_cmd::predict::run(&args),
        Command::Diff(args) => diff_cmd::run(&INPUTS, &args),
        Command::Report(args) => report_cmd::run(&INPUTS, &args),
        Command::Explain(args) => explain_cmd::run(&args),
        Command::Generate(args) => generate::run(&PROGRAM, &args, command_line()),
    }
}

fn command_line() -> clap::Command {
    program::with_exits(&PROGRAM, Cli::command())
}

fn main() -> ExitCode {
    let parsed = command_line().try_get_matches().and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    match parsed {
        Ok(cli) => program::ended(run(cli)),
        Err(error) => program::said(&PROGRAM, &error, &MOVED).into(),
    }
}
