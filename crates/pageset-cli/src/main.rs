//! The `pageset` command.
//!
//! Each subcommand is a module `NAME_cmd` with its arguments (`Args`) and `run(Args) -> Result<Exit, Failure>`. A
//! subcommand prints its result on standard output, and progress and warnings on standard error. Only this file ends
//! the process.

mod advise_cmd;
mod bench_cmd;
mod columns;
mod compare_cmd;
mod completions;
mod csv;
mod demo_cmd;
mod diff_cmd;
mod error;
mod examples;
mod explain_cmd;
mod generate_cmd;
#[cfg(test)]
mod grammar_tests;
mod host;
mod identify_cmd;
mod interleave_cmd;
mod interrupt;
mod machine_cmd;
mod manual;
mod old_spelling;
mod output;
mod perfetto;
mod record_cmd;
mod replay_cmd;
mod report_cmd;
mod rules;
mod run_cmd;
mod sim;
mod status_cmd;
mod study_cmd;
mod sweep_cmd;
mod time;
mod top_cmd;
mod trace_cmd;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use crate::error::{EXITS, Exit, Failure};
use crate::output::JsonOption;

/// Record the page traffic of a live Linux machine, replay it through a page allocator under any rules, and run
/// workloads on simulated machines
///
/// Without a subcommand: show what works on this machine for this user, and the command for it.
#[derive(Parser)]
#[command(name = "pageset", version = env!("PAGESET_VERSION"), max_term_width = 120, args_conflicts_with_subcommands = true)]
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
    Identify(identify_cmd::Args),
    Trace(trace_cmd::Args),
    Diff(diff_cmd::Args),
    Run(run_cmd::Args),
    Sweep(sweep_cmd::Args),
    Study(study_cmd::Args),
    Compare(compare_cmd::Args),
    Machine(machine_cmd::Args),
    Interleave(interleave_cmd::Args),
    Bench(bench_cmd::Args),
    Advise(advise_cmd::Args),
    Top(top_cmd::Args),
    Report(report_cmd::Args),
    Explain(explain_cmd::Args),
    #[command(hide = true)]
    Generate(generate_cmd::Args),
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    let Some(command) = cli.command else { return status_cmd::run(&cli.json) };
    match command {
        Command::Demo(args) => demo_cmd::run(&args, &run_words),
        Command::Record(args) => record_cmd::run(args),
        Command::Replay(args) => replay_cmd::run(args),
        Command::Identify(args) => identify_cmd::run(&args),
        Command::Trace(args) => trace_cmd::run(args),
        Command::Diff(args) => diff_cmd::run(&args),
        Command::Run(args) => run_cmd::run(args),
        Command::Sweep(args) => sweep_cmd::run(args),
        Command::Study(args) => study_cmd::run(args),
        Command::Compare(args) => compare_cmd::run(args),
        Command::Machine(args) => machine_cmd::run(args),
        Command::Interleave(args) => interleave_cmd::run(args),
        Command::Bench(args) => bench_cmd::run(args),
        Command::Advise(args) => advise_cmd::run(args),
        Command::Top(args) => top_cmd::run(args),
        Command::Report(args) => report_cmd::run(args),
        Command::Explain(args) => explain_cmd::run(args),
        Command::Generate(args) => generate_cmd::run(args, command_line()),
    }
}

/// Runs a command line of this program, given without the program's name.
fn run_words(words: &[&str]) -> Result<Exit, Failure> {
    let parsed = Cli::try_parse_from(std::iter::once(&"pageset").chain(words));
    run(parsed.map_err(|error| Failure::new(Exit::Usage, error))?)
}

/// The definition of the command line.
fn command_line() -> clap::Command {
    let row = |(exit, meaning): &(Exit, &str)| format!("  {:>3}  {meaning}\n", *exit as u8);
    let exits: String = EXITS.iter().map(row).collect();
    Cli::command().after_long_help(format!("Exit codes of every subcommand:\n{}", exits.trim_end()))
}

/// Prints a usage error, or the help that was asked for.
fn said(error: &clap::Error) -> Exit {
    let printed = error.print().and_then(|()| std::io::stdout().flush());
    match printed {
        _ if error.use_stderr() => Exit::Usage,
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Exit::Unwritten,
        _ => Exit::Done,
    }
}

fn main() -> ExitCode {
    if let Some(code) = record_cmd::become_command() {
        return ExitCode::from(code);
    }
    let parsed = command_line()
        .try_get_matches_from(old_spelling::modern(std::env::args_os()))
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return said(&error).into(),
    };
    pageset_trace::record::clean_up(&mut |warning| {
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "warning: {warning}");
    });
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(failure) if failure.is_broken_pipe() => Exit::Done.into(),
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{failure}");
            failure.exit().into()
        }
    }
}
