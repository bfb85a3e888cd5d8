//! `pageset sweep`: a workload under all combinations of some values of the rules.

use crate::error::{Exit, Failure};
use crate::rules::Chosen;
use crate::run_cmd::{self, Task};
use crate::sim::options::Effort;

/// Run a workload on a simulated machine under all combinations of some rules' values
///
/// As `pageset run`, with a row for each combination: `--batch 31,63 --set high_min=0,1000` is four rows for each set of
/// rules and number of tasks. The last `--set` changes first.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    task: Task,

    /// Batches to sweep over, in pages: the same as --set batch=PAGES,…
    #[arg(long, value_name = "PAGES,…")]
    batch: Option<String>,

    /// Values of a rule to sweep over; may be given again for another rule
    #[arg(long = "set", value_name = "KEY=VALUE,…")]
    settings: Vec<String>,

    #[command(flatten)]
    effort: Effort,
}

/// Combinations that a sweep may have: far more than anyone waits for.
const MOST: usize = 10_000;

/// Runs `pageset sweep`.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let batches = args.batch.iter().map(|values| format!("batch={values}"));
    let axes: Vec<Vec<String>> = batches.chain(args.settings).map(axis).collect();
    if axes.is_empty() {
        let message = "nothing to sweep over; give --batch PAGES,… or --set KEY=VALUE,…";
        return Err(Failure::new(Exit::Usage, message));
    }
    let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.len())).unwrap_or(usize::MAX);
    if count > MOST {
        return Err(Failure::new(Exit::Usage, format!("{count} combinations; allowed: up to {MOST}")));
    }
    let mut sets = Vec::new();
    for settings in combinations(&axes) {
        sets.extend(Chosen::parse(args.task.rules(), &settings, false)?.sets()?);
    }
    run_cmd::simulate(&args.task, &sets, &args.effort, None)
}

/// The settings that `key=a,b,c` stands for. What has no `=` is left as it is: reading it says what is wrong.
fn axis(text: String) -> Vec<String> {
    match text.split_once('=') {
        Some((key, values)) => values.split(',').map(|value| format!("{key}={value}")).collect(),
        None => vec![text],
    }
}

/// One setting of each axis, in all ways; the last changes first.
fn combinations(axes: &[Vec<String>]) -> Vec<Vec<String>> {
    axes.iter().fold(vec![Vec::new()], |before, axis| {
        let with = |settings: &Vec<String>| {
            let settings = settings.clone();
            axis.iter().map(move |setting| settings.iter().chain([setting]).cloned().collect()).collect::<Vec<_>>()
        };
        before.iter().flat_map(with).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_axis_changes_first() {
        let axes: Vec<Vec<String>> = ["a=1,2", "b=x,y,z"].map(|text| axis(text.to_owned())).into();
        let all: Vec<String> = combinations(&axes).iter().map(|settings| settings.join(" ")).collect();
        assert_eq!(all, ["a=1 b=x", "a=1 b=y", "a=1 b=z", "a=2 b=x", "a=2 b=y", "a=2 b=z"]);
        assert_eq!(axis("nonsense".to_owned()), ["nonsense"]);
    }
}
