//! Many runs in parallel on host threads. The assignment of runs to threads changes no outcome.

use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::run::{Outcome, Run, RunError};

/// Outcomes of one setting with their seeds. Interrupted runs are missing.
pub type BySeed = Vec<(u64, Outcome)>;

/// Seeds per setting and host threads.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Each setting runs with the seeds 1 to `seeds`.
    pub seeds: u32,
    /// Host threads.
    pub workers: NonZeroUsize,
}

/// Runs each setting with all seeds. A failed run does not affect the other settings. Interrupted runs are left out.
/// All threads poll `keep_on`; `false` stops the runs. `done` receives the number of finished runs and the number of
/// all runs, at the start and after each run.
pub fn run_seeds(
    runs: &[Run<'_>],
    effort: Effort,
    keep_on: impl Fn() -> bool + Sync,
    done: impl Fn(usize, usize) + Sync,
) -> Vec<Result<BySeed, RunError>> {
    let mut seeded = Vec::new();
    for run in runs {
        seeded.extend((1..=u64::from(effort.seeds)).map(|seed| Run { seed, ..run.clone() }));
    }
    let all = seeded.len();
    done(0, all);
    let outcomes = run_all(&seeded, effort.workers, keep_on, |ended| done(ended, all));
    let mut kept: Vec<Result<BySeed, RunError>> = runs.iter().map(|_| Ok(Vec::new())).collect();
    for (place, (outcome, run)) in outcomes.into_iter().zip(&seeded).enumerate() {
        let kept = &mut kept[place / effort.seeds as usize];
        match (kept.as_mut(), outcome) {
            (Ok(kept), Ok(outcome)) => kept.push((run.seed, outcome)),
            (Err(_), _) | (Ok(_), Err(RunError::Interrupted)) => {}
            (Ok(_), Err(error)) => *kept = Err(error),
        }
    }
    kept
}

/// Runs `run`. A panic is an error of this run, so that the others keep their results.
fn caught(run: &Run<'_>, keep_on: impl Fn() -> bool) -> Result<Outcome, RunError> {
    panic::catch_unwind(AssertUnwindSafe(|| run.run(keep_on))).unwrap_or_else(|panic| Err(RunError::of_panic(&*panic)))
}

/// Runs all `runs`; outcomes are in the order of `runs`.
fn run_all(
    runs: &[Run<'_>],
    workers: NonZeroUsize,
    keep_on: impl Fn() -> bool + Sync,
    done: impl Fn(usize) + Sync,
) -> Vec<Result<Outcome, RunError>> {
    let outcomes: Vec<Mutex<Option<Result<Outcome, RunError>>>> = runs.iter().map(|_| Mutex::new(None)).collect();
    let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..workers.get().min(runs.len()) {
            scope.spawn(|| {
                loop {
                    // Relaxed: this counter only hands out indices; locks guard the outcomes, and the scope joins the
                    // threads.
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(run) = runs.get(index) else { break };
                    let outcome = if keep_on() { caught(run, &keep_on) } else { Err(RunError::Interrupted) };
                    if let Ok(mut slot) = outcomes[index].lock() {
                        *slot = Some(outcome);
                    }
                    done(ended.fetch_add(1, Ordering::Relaxed) + 1);
                }
            });
        }
    });
    let taken = outcomes.into_iter().map(|slot| slot.into_inner().ok().flatten());
    taken.map(|outcome| outcome.unwrap_or(Err(RunError::Interrupted))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::era::Era;
    use crate::machine;
    use crate::time::Time;
    use crate::workload::Workload;

    fn short(machine: &machine::Machine) -> Run<'_> {
        Run {
            workload: Workload::find("malloc1").unwrap(),
            machine,
            tuning: pageset::policy::presets::LINUX_4_17,
            era: Era::Linux4_16,
            high_fraction: 0,
            tasks: 4,
            warm_up: Time::from_seconds(0.001),
            time: Time::from_seconds(0.001),
            detect_warm_up: false,
            precision_pct: None,
            whole: true,
            seed: 1,
        }
    }

    #[test]
    fn a_failed_run_does_not_affect_the_other_settings() {
        let machine = machine::find("lkp-sb02").unwrap().unwrap();
        let good = short(&machine);
        let bad = Run { tasks: 1000, ..good.clone() };
        let effort = Effort { seeds: 2, workers: NonZeroUsize::MIN };
        let kept = run_seeds(&[good.clone(), bad, good], effort, || true, |_, all| assert_eq!(all, 6));
        assert_eq!(kept.iter().map(|kept| kept.as_ref().map_or(0, Vec::len)).collect::<Vec<_>>(), [2, 0, 2]);
        assert!(kept[1].as_ref().unwrap_err().to_string().starts_with("1000 tasks on 4 CPUs"));
    }

    #[test]
    fn a_run_that_panics_does_not_affect_the_other_settings() {
        let machine = machine::find("lkp-sb02").unwrap().unwrap();
        let polls = AtomicUsize::new(0);
        // The first poll is before the run, the second one is part of it.
        let keep_on = || {
            assert!(polls.fetch_add(1, Ordering::Relaxed) != 1, "a fault");
            true
        };
        let effort = Effort { seeds: 1, workers: NonZeroUsize::MIN };
        let kept = run_seeds(&[short(&machine), short(&machine)], effort, keep_on, |_, _| {});
        assert_eq!(kept[0].as_ref().unwrap_err().to_string(), "the simulator panicked: a fault");
        assert_eq!(kept[1].as_ref().map(Vec::len).unwrap(), 1);
    }
}
