//! The `pageset` command.
//!
//! Each subcommand is a module `NAME_cmd` with its arguments (`Args`) and `run(Args) -> Result<Exit, Failure>`. A
//! subcommand prints its result on standard output, and progress and warnings on standard error. Only this file ends
//! the process.

mod advise_cmd;
mod demo_cmd;
mod diff_cmd;
mod examples;
mod explain_cmd;
mod fleet_cmd;
#[cfg(test)]
mod grammar_tests;
mod inputs;
mod record_cmd;
mod recordings;
mod replay_cmd;
mod report_cmd;
mod status_cmd;
mod top_cmd;
mod trace_cmd;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};
// The modules of the commands name these as their own.
use pageset_report::{columns, error, generate, host, interrupt, output, perfetto, program, rules, time};

use crate::error::{Exit, Failure};
use crate::examples::PROGRAM;
use crate::inputs::INPUTS;
use crate::output::JsonOption;

/// Record the page traffic of a live Linux machine, and replay it through a page allocator under any rules
///
/// Without a subcommand: show what works on this machine for this user, and the command for it.
#[derive(Parser)]
#[command(name = "pageset", version = program::VERSION, max_term_width = 120, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    json: JsonOption,
}

/// The subcommands, in the order a user needs them.
#[derive(clap::Subcommand)]
enum Command {
    Demo(demo_cmd::Args),
    Record(record_cmd::Args),
    Replay(replay_cmd::Args),
    Trace(trace_cmd::Args),
    Diff(diff_cmd::Args),
    Advise(advise_cmd::Args),
    Top(top_cmd::Args),
    Agent(top_cmd::agent::Args),
    Fleet(fleet_cmd::Args),
    Report(report_cmd::Args),
    Explain(explain_cmd::Args),
    #[command(hide = true)]
    Generate(generate::Args),
}

/// The commands of the laboratory.
const MOVED: [program::Moved; 10] = [
    ("bench", "pageset-lab bench"),
    ("compare", "pageset-lab compare"),
    ("identify", "pageset replay FILE --identify"),
    ("interleave", "pageset-lab interleave"),
    ("kernels", "pageset-lab kernels"),
    ("machine", "pageset-lab machine"),
    ("run", "pageset-lab sim"),
    ("sim", "pageset-lab sim"),
    ("study", "pageset-lab study"),
    ("sweep", "pageset-lab sim --set KEY=VALUE,…"),
];

fn run(cli: Cli) -> Result<Exit, Failure> {
    let Some(command) = cli.command else { return status_cmd::run(&cli.json) };
    match command {
        Command::Demo(args) => demo_cmd::run(&args, &run_words),
        Command::Record(args) => record_cmd::run(args),
        Command::Replay(args) => replay_cmd::run(args),
        Command::Trace(args) => trace_cmd::run(args),
        Command::Diff(args) => diff_cmd::run(&INPUTS, &args),
        Command::Advise(args) => advise_cmd::run(args),
        Command::Top(args) => top_cmd::run(args),
        Command::Agent(args) => top_cmd::agent::run(&args),
        Command::Fleet(args) => fleet_cmd::run(&args),
        Command::Report(args) => report_cmd::run(&INPUTS, &args),
        Command::Explain(args) => explain_cmd::run(&args),
        Command::Generate(args) => generate::run(&PROGRAM, &args, command_line()),
    }
}

/// Runs a command line of this program, given without the program's name.
fn run_words(words: &[&str]) -> Result<Exit, Failure> {
    let parsed = Cli::try_parse_from(std::iter::once(&"pageset").chain(words));
    run(parsed.map_err(|error| Failure::new(Exit::Usage, error))?)
}

fn command_line() -> clap::Command {
    program::with_exits(&PROGRAM, Cli::command())
}

fn main() -> ExitCode {
    if let Some(code) = record_cmd::become_command() {
        return ExitCode::from(code);
    }
    let parsed = command_line().try_get_matches().and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return program::said(&PROGRAM, &error, &MOVED).into(),
    };
    pageset_record::clean_up(&mut |warning| {
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "warning: {warning}");
    });
    program::ended(run(cli))
}
