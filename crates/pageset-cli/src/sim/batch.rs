//! Many runs for one result: run on all cores with a bar, kept as far as they came at Ctrl-C, and given out as text and
//! as JSON.

use std::io::{self, Write as _};

use pageset_sim::run::{Outcome, Run, RunError};
use pageset_sim::sweep::run_all;
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

    /// Runs each with all seeds; of each, with its seed, what was run to its end. `name` says in messages which run it was.
    ///
    /// # Errors
    /// A run that failed.
    pub(crate) fn run(
        &self,
        runs: &[Run<'_>],
        name: impl Fn(usize) -> String,
    ) -> Result<Vec<Vec<(u64, Outcome)>>, Failure> {
        let failed = |(number, error)| Failure::new(Exit::Failed, format!("{}: {error}", name(number)));
        let kept = self.run_each(runs).into_iter().enumerate();
        kept.map(|(number, kept)| kept.map_err(|error| failed((number, error)))).collect()
    }

    /// The same where one run's failure is not that of the others.
    pub(crate) fn run_each(&self, runs: &[Run<'_>]) -> Vec<Result<Vec<(u64, Outcome)>, RunError>> {
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
        let mut kept: Vec<Result<Vec<_>, RunError>> = runs.iter().map(|_| Ok(Vec::new())).collect();
        for (place, outcome) in outcomes.into_iter().enumerate() {
            let kept = &mut kept[place / seeds];
            match (kept.as_mut(), outcome) {
                (Ok(kept), Ok(outcome)) => kept.push((seeded[place].seed, outcome)),
                (Err(_), _) | (Ok(_), Err(RunError::Interrupted)) => {}
                (Ok(_), Err(error)) => *kept = Err(error),
            }
        }
        kept
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
            output::json(&mut out, &json())?;
            out.commit()?;
        }
        Ok(if self.interrupt.keep_on() { Exit::Done } else { Exit::Interrupted })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use pageset::tuning::presets::LINUX_4_17;
    use pageset_sim::era::Era;
    use pageset_sim::machine;
    use pageset_sim::workload::Workload;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        effort: Effort,
    }

    #[test]
    fn one_run_that_fails_costs_no_other() {
        let effort = Line::parse_from(["", "--seconds", "0.001", "--warm-up", "0.001", "--seeds", "2"]).effort;
        let machine = machine::find("lkp-sb02").unwrap().unwrap();
        let good = effort.run(Workload::find("malloc1").unwrap(), &machine, LINUX_4_17, Era::Linux4_16);
        let bad = Run { tasks: 1000, ..good.clone() };
        let batch = Batch::begin(&effort).unwrap();
        let kept = batch.run_each(&[good.clone(), bad.clone(), good.clone()]);
        assert_eq!(kept.iter().map(|kept| kept.as_ref().map_or(0, Vec::len)).collect::<Vec<_>>(), [2, 0, 2]);
        let whole = batch.run(&[good, bad], |number| format!("run {number}"));
        assert!(whole.unwrap_err().to_string().starts_with("error: run 1: 1000 tasks on 4 CPUs"));
    }
}
