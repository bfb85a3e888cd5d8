//! Many runs for one result: they run on all cores with a progress bar, Ctrl-C keeps the finished ones, and the result
//! is written as text and as JSON.

use std::io::{self, Write as _};

use pageset_sim::run::{Run, RunError};
use pageset_sim::sweep::{BySeed, run_seeds};
use serde::Serialize;

use super::options::Effort;
use super::progress::{Interrupt, Progress};
use crate::error::{Exit, Failure};
use crate::output::{self, Output};

/// The runs of one command.
pub(crate) struct Batch<'e> {
    effort: &'e Effort,
    interrupt: Interrupt,
}

impl<'e> Batch<'e> {
    /// Installs a handler for Ctrl-C, which from now on ends the runs instead of the command.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub(crate) fn begin(effort: &'e Effort) -> Result<Self, Failure> {
        Ok(Batch { effort, interrupt: Interrupt::install()? })
    }

    /// Whether the runs go on: no Ctrl-C has arrived.
    pub(crate) fn keep_on(&self) -> bool {
        self.interrupt.keep_on()
    }

    /// Runs each of `runs` with all seeds.
    pub(crate) fn run(&self, runs: &[Run<'_>]) -> Vec<Result<BySeed, RunError>> {
        let progress = Progress::new();
        run_seeds(runs, self.effort.of_each(), || self.keep_on(), |ended, all| progress.of(ended, all))
    }

    /// Writes the result as text, as JSON or as both, and returns the exit code.
    ///
    /// # Errors
    /// The result cannot be written.
    pub(crate) fn give<R: Serialize>(self, result: &R, text: impl FnOnce(&R) -> String) -> Result<Exit, Failure> {
        let json = self.effort.json.as_deref();
        if json.is_none_or(|path| path.as_os_str() != "-") {
            io::stdout().write_all(text(result).as_bytes())?;
        }
        if let Some(path) = json {
            let mut out = Output::create(path)?;
            output::json(&mut out, result)?;
            out.commit()?;
        }
        Ok(if self.keep_on() { Exit::Done } else { Exit::Interrupted })
    }
}
