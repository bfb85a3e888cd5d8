//! What a scheduler needs to know: the study, the folder, the shards.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pageset_study::cell::Cells;

use super::{Executor, RunArgs};
use crate::error::{Exit, Failure};

/// The default number of shards: Slurm's default limit of an array is 1,001.
const SHARDS: usize = 1000;

/// Options of the executors `slurm` and `kubernetes`.
#[derive(clap::Args)]
pub(super) struct Scheduled {
    /// Shards of the array or indexed job [default: one per cell, at most 1000]
    #[arg(long, value_name = "N", help_heading = "Schedulers")]
    shards: Option<std::num::NonZeroUsize>,

    /// Print the script or manifest and submit nothing
    #[arg(long, help_heading = "Schedulers")]
    pub(super) dry_run: bool,

    /// Slurm: an option of sbatch, such as --sbatch=--partition=short; may be repeated
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, help_heading = "Schedulers")]
    pub(super) sbatch: Vec<String>,

    /// Kubernetes: the image, which has the command `pageset-lab`
    #[arg(long, value_name = "IMAGE", help_heading = "Schedulers")]
    pub(super) image: Option<String>,

    /// Kubernetes: the claim of the shared volume; `--out` is a folder on it
    #[arg(long, value_name = "CLAIM", help_heading = "Schedulers")]
    pub(super) claim: Option<String>,

    /// How many shards run at the same time [default: all]
    #[arg(long, value_name = "N", help_heading = "Schedulers")]
    pub(super) parallelism: Option<std::num::NonZeroUsize>,
}

impl Scheduled {
    pub(super) fn shards(&self, cells: &Cells<'_>) -> usize {
        let most = self.shards.map_or(SHARDS, std::num::NonZeroUsize::get);
        most.min(cells.all().len()).max(1)
    }
}

/// The absolute form of a path, which must be UTF-8 without line breaks to stand in a script.
///
/// # Errors
/// The path cannot stand in a script.
pub(super) fn absolute(path: &Path) -> Result<String, Failure> {
    let absolute = std::path::absolute(path)?;
    let text = absolute.to_str().filter(|text| !text.contains(char::is_control));
    let what = || format!("{}: not a path for a script; allowed: UTF-8 without line breaks", path.display());
    text.map(str::to_owned).ok_or_else(|| Failure::new(Exit::Usage, what()))
}

/// A name of letters, digits and hyphens, at most 48 long.
pub(super) fn job_name(study: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = study.chars().map(safe).take(40).collect();
    format!("pageset-{}", name.trim_matches('-')).trim_matches('-').to_owned()
}

/// Refuses options that the executor does not have: each would be ignored.
///
/// # Errors
/// The first such option, and the executors that have it.
pub(super) fn check(args: &RunArgs) -> Result<(), Failure> {
    use Executor::{Kubernetes, Local, Slurm};
    let RunArgs { scheduled: given, executor, .. } = args;
    let options: [(&str, bool, &[Executor]); 7] = [
        ("--shard", args.shard.is_some(), &[Local]),
        ("--dry-run", given.dry_run, &[Slurm, Kubernetes]),
        ("--shards", given.shards.is_some(), &[Slurm, Kubernetes]),
        ("--parallelism", given.parallelism.is_some(), &[Slurm, Kubernetes]),
        ("--sbatch", !given.sbatch.is_empty(), &[Slurm]),
        ("--image", given.image.is_some(), &[Kubernetes]),
        ("--claim", given.claim.is_some(), &[Kubernetes]),
    ];
    for (option, is_given, has_it) in options {
        if is_given && !has_it.contains(executor) {
            let allowed: Vec<&str> = has_it.iter().map(|executor| executor.name()).collect();
            let message = format!(
                "cannot use {option} with --executor {}; allowed: --executor {}",
                executor.name(),
                allowed.join(" or ")
            );
            return Err(Failure::new(Exit::Usage, message));
        }
    }
    Ok(())
}

/// Gives `input` to a scheduler's command and returns what it prints.
pub(super) fn give(program: &str, arguments: &[&str], input: &str) -> Result<String, Failure> {
    let failed = |what: String| {
        Failure::new(Exit::Missing, what).help("--dry-run prints what would be submitted; submit it where that works")
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(format!("cannot start {program}: {error}")))?;
    let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(failed(format!("{program} failed: {}; see its message above", output.status)));
    }
    written?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Prints a script or manifest.
pub(super) fn print(text: &str) -> Result<Exit, Failure> {
    io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

/// The command of this process, for nodes that share its file system.
pub(super) fn own_command() -> Result<String, Failure> {
    let path: PathBuf = std::env::current_exe()?;
    absolute(&path)
}
