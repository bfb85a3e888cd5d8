//! What both programs do alike: their version, the table of exit codes in the help, and the end of the process.

use std::io::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::error::{EXITS, Exit, Failure};

/// The version, and the commit if one is known.
pub const VERSION: &str = env!("PAGESET_VERSION");

/// A file, and what it is for.
pub type FileOf = (&'static str, &'static str);

/// What the manual and the completions of a program contain besides its command line.
#[derive(Debug)]
pub struct Program {
    /// The name of the program.
    pub name: &'static str,
    /// A line for each example: the page, the command line without the program's name, and what it does, with ` | ` between.
    pub examples: &'static str,
    /// The files that the program's page names.
    pub files: &'static [FileOf],
    /// The files of single pages.
    pub files_of: &'static [(&'static str, FileOf)],
    /// The names that the argument of this identifier takes, if there are any.
    pub names: fn(&str) -> Option<Vec<&'static str>>,
}

impl Program {
    /// The examples of a page: the command line without the program's name, and what it does.
    pub fn examples_of(&self, page: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
        let of_page = move |line: &'static str| line.strip_prefix(page)?.strip_prefix(" | ")?.split_once(" | ");
        self.examples.lines().filter_map(of_page)
    }

    /// The first example of the subcommand whose usage is `usage`, such as `Usage: pageset replay <FILE>...`.
    fn example_of_usage(&self, usage: &str) -> Option<&'static str> {
        let words = usage.strip_prefix("Usage: ")?.split_ascii_whitespace();
        let names = words.take_while(|word| word.starts_with(|letter: char| letter.is_ascii_lowercase()));
        let page = names.collect::<Vec<_>>().join("-");
        self.examples_of(&page).next().map(|(line, _)| line)
    }
}

/// The definition of a command line with the table of exit codes, and with the examples of each subcommand.
pub fn with_exits(program: &Program, command: clap::Command) -> clap::Command {
    let row = |(exit, meaning): &(Exit, &str)| format!("  {:>3}  {meaning}\n", *exit as u8);
    let exits: String = EXITS.iter().map(row).collect();
    with_examples(program, program.name, command)
        .after_long_help(format!("Exit codes of every subcommand:\n{}", exits.trim_end()))
}

/// The command of a page of the manual, with the examples of that page, and the same of its subcommands.
fn with_examples(program: &Program, page: &str, command: clap::Command) -> clap::Command {
    let row = |(line, about)| format!("  {} {line}\n      {about}\n", program.name);
    let rows: String = program.examples_of(page).map(row).collect();
    let command =
        if rows.is_empty() { command } else { command.after_long_help(format!("Examples:\n{}", rows.trim_end())) };
    command.mut_subcommands(|subcommand| {
        let page = format!("{page}-{}", subcommand.get_name());
        with_examples(program, &page, subcommand)
    })
}

/// Where a command of another name or program is: what the user typed, and what to type instead.
pub type Moved = (&'static str, &'static str);

/// Prints a usage error, or the help that was asked for. A command in `moved` gets the name of its successor.
pub fn said(program: &Program, error: &clap::Error, moved: &[Moved]) -> Exit {
    let unknown = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(name))) => Some(name),
        _ => None,
    };
    if let Some((name, now)) = unknown.and_then(|unknown| moved.iter().find(|(name, _)| name == unknown)) {
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "error: unknown command `{name}`; try `{now}`");
        return Exit::Usage;
    }
    let printed = error.print().and_then(|()| std::io::stdout().flush());
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage)
        && let Some(line) = program.example_of_usage(&usage.to_string())
    {
        let _ = writeln!(std::io::stderr(), "\nExample: {} {line}", program.name);
    }
    match printed {
        _ if error.use_stderr() => Exit::Usage,
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Exit::Unwritten,
        _ => Exit::Done,
    }
}

/// The exit code of a subcommand's end. Prints a failure.
pub fn ended(result: Result<Exit, Failure>) -> ExitCode {
    match result {
        Ok(exit) => exit.into(),
        Err(failure) if failure.is_broken_pipe() => Exit::Done.into(),
        Err(failure) => {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "{failure}");
            failure.exit().into()
        }
    }
}
