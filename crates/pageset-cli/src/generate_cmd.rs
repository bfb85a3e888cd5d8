//! `pageset generate`: man pages and shell completions, made from the definition of the command line. For packages.

use std::io;
use std::path::PathBuf;

use crate::error::{Exit, Failure};

/// Make man pages or shell completions from the definition of the command line, for packages
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// A page for the command and one for each subcommand, into a folder that exists
    Man {
        /// The folder
        folder: PathBuf,
    },
    /// Completions, to standard output
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
}

/// Runs `pageset generate` on the whole command line's definition.
pub(crate) fn run(args: Args, mut command: clap::Command) -> Result<Exit, Failure> {
    match args.what {
        What::Man { folder } => clap_mangen::generate_to(command, &folder)
            .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", folder.display())))?,
        What::Completions { shell } => clap_complete::generate(shell, &mut command, "pageset", &mut io::stdout()),
    }
    Ok(Exit::Done)
}
