//! Many runs for one result: run on all cores with a bar, kept as far as they came at Ctrl-C, and given out as text and
//! as JSON.

use std::io::{self, Write as _};

use pageset_sim::run::{Outcome, Run, RunError};
use pageset_sim::sweep::run_all;
use serde::Serialize;

use super::options::Effort;
use super::progress::{Interrupt, Progress};
use crate::error::{Exit, Failure};
use crate::output::Output;

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

    /// Runs each with all seeds; of each, with its seed, what was run to its end. `name` says in messages which run it was.
    ///
    /// # Errors
    /// A run that failed.
    pub(crate) fn run(
        &self,
        runs: &[Run<'_>],
        name: impl Fn(usize) -> String,
    ) -> Result<Vec<Vec<(u64, Outcome)>>, Failure> {
        let mut seeded = Vec::new();
        for run in runs {
            // One seed's holds are enough to look at.
            let held = |place| if place == 0 { run.held } else { 0 };
            let seeds = self.effort.seeds().enumerate();
            seeded.extend(seeds.map(|(place, seed)| Run { seed, held: held(place), ..run.clone() }));
        }
        let progress = Progress::new(seeded.len());
        let keep_on = || self.interrupt.keep_on();
        let outcomes = run_all(&seeded, self.effort.workers(), keep_on, |ended| progress.at(ended));
        drop(progress);
        let seeds = self.effort.seeds().count();
        let mut kept = vec![Vec::new(); runs.len()];
        for (place, outcome) in outcomes.into_iter().enumerate() {
            let number = place / seeds;
            match outcome {
                Ok(outcome) => kept[number].push((seeded[place].seed, outcome)),
                Err(RunError::Interrupted) => {}
                Err(error) => return Err(Failure::new(Exit::Failed, format!("{}: {error}", name(number)))),
            }
        }
        Ok(kept)
    }

    /// Prints the result as it was asked for, and says how the command ends.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn give<J: Serialize>(
        self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> J,
    ) -> Result<Exit, Failure> {
        if !self.effort.json_only() {
            io::stdout().write_all(text().as_bytes())?;
        }
        if let Some(path) = &self.effort.json {
            let mut out = Output::create(path)?;
            serde_json::to_writer_pretty(&mut out, &json()).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
            out.commit()?;
        }
        Ok(if self.interrupt.keep_on() { Exit::Done } else { Exit::Interrupted })
    }
}
