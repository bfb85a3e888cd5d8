//! `generate`: man pages and shell completions for packages, from the definition of the command line.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::completions;
use crate::error::{Exit, Failure};
use crate::manual;
use crate::output;
use crate::program::Program;

/// Generate man pages or shell completions for packages
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Write a man page for the command and one for each subcommand into a folder
    Man {
        /// The folder; it is created if it does not exist
        folder: PathBuf,
    },
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Runs `generate` on the definition of a program's whole command line.
pub fn run(program: &Program, args: &Args, command: clap::Command) -> Result<Exit, Failure> {
    match &args.what {
        What::Man { folder } if output::is_standard(folder) => {
            let message = "cannot write man pages to standard output: there are several; name a folder";
            return Err(Failure::new(Exit::Usage, message));
        }
        What::Man { folder } => {
            let unwritten = |path: &Path, error: io::Error| {
                Failure::new(Exit::Unwritten, format!("cannot write {}: {error}", path.display()))
            };
            fs::create_dir_all(folder).map_err(|error| unwritten(folder, error))?;
            for (name, text) in manual::pages(program, command)? {
                let path = folder.join(name);
                fs::write(&path, text).map_err(|error| unwritten(&path, error))?;
            }
        }
        What::Completions { shell } => {
            io::stdout().write_all(&completions::script(program, command, *shell))?;
        }
    }
    Ok(Exit::Done)
}
