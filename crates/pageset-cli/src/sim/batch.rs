//! Many runs for one result: run on all cores with a bar, kept as far as they came at Ctrl-C, and given out as text and
//! as JSON.

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
    /// From now on Ctrl-C ends the runs, and not the command.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn begin(effort: &'e Effort) -> Result<Self, Failure> {
        Ok(Batch { effort, interrupt: Interrupt::install()? })
    }

    /// Whether nobody has asked to stop.
    pub(crate) fn keep_on(&self) -> bool {
        self.interrupt.keep_on()
    }

    /// Runs each with all seeds.
    pub(crate) fn run(&self, runs: &[Run<'_>]) -> Vec<Result<BySeed, RunError>> {
        let progress = Progress::new();
        run_seeds(runs, self.effort.of_each(), || self.keep_on(), |ended, all| progress.of(ended, all))
    }

    /// Prints the result as it was asked for, and says how the command ends.
    ///
    /// # Errors
    /// It cannot be written.
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
