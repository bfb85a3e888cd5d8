//! Many runs for one result: they run on all cores with a progress bar, Ctrl-C keeps the finished ones, and the result
//! is written as text and as JSON.

use std::io::{self, Write as _};

use pageset_sim::run::{Run, RunError};
use pageset_sim::sweep::{BySeed, run_seeds};
use serde::Serialize;

use super::options::Effort;
use super::progress::{Interrupt, Progress};
use crate::columns::Fit;
use crate::csv::Line;
use crate::error::{Exit, Failure};
use crate::output::Forms;

/// The runs of one command.
pub(crate) struct Batch<'e> {
    effort: &'e Effort,
    forms: Forms<'e>,
    interrupt: Interrupt,
}

impl<'e> Batch<'e> {
    /// Installs a handler for Ctrl-C, which from now on ends the runs instead of the command.
    ///
    /// # Errors
    /// A file of the result cannot be written; errors of the operating system.
    pub(crate) fn begin(effort: &'e Effort) -> Result<Self, Failure> {
        let forms = Forms::new(&effort.json, &effort.csv)?;
        Ok(Batch { effort, forms, interrupt: Interrupt::install()? })
    }

    /// Whether the runs go on: no Ctrl-C has arrived.
    pub(crate) fn keep_on(&self) -> bool {
        self.interrupt.keep_on()
    }

    pub(crate) fn run(&self, runs: &[Run<'_>]) -> Vec<Result<BySeed, RunError>> {
        let progress = Progress::new();
        run_seeds(runs, self.effort.of_each(), || self.keep_on(), |ended, all| progress.of(ended, all))
    }

    /// Writes the result as text, as JSON or as both, and returns the exit code.
    pub(crate) fn give<'r, R: Serialize, Row: Serialize + 'r>(
        self,
        result: &'r R,
        text: impl FnOnce(&R, Fit) -> String,
        rows: impl Iterator<Item = Line<'r, Row>>,
    ) -> Result<Exit, Failure> {
        if self.forms.text() {
            io::stdout().write_all(text(result, Fit::new(&self.effort.wide)).as_bytes())?;
        }
        let keep_on = self.keep_on();
        self.forms.write(&[result], rows, &self.interrupt)?;
        Ok(if keep_on { Exit::Done } else { Exit::Interrupted })
    }
}
