//! `pageset generate`: man pages and shell completions for packages, from the definition of the command line.

use std::io;
use std::path::PathBuf;

use crate::error::{Exit, Failure};

/// Generate man pages or shell completions for packages
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Write a man page for the command and one for each subcommand into an existing folder
    Man {
        /// The existing folder
        folder: PathBuf,
    },
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Runs `pageset generate` on the definition of the whole command line.
pub(crate) fn run(args: Args, mut command: clap::Command) -> Result<Exit, Failure> {
    match args.what {
        What::Man { folder } => clap_mangen::generate_to(command, &folder).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot write man pages to {}: {error}", folder.display()))
        })?,
        What::Completions { shell } => clap_complete::generate(shell, &mut command, "pageset", &mut io::stdout()),
    }
    Ok(Exit::Done)
}
