//! `pageset-lab sweep`: a workload under all combinations of some values of the rules.

use crate::error::{Exit, Failure};
use crate::run_cmd::{self, Task};
use crate::sim::options::Effort;

/// Run a workload on a simulated machine under all combinations of some rules' values
///
/// Works like `pageset-lab run`, with a row for each combination. For example, `--batch 31,63 --set high_min=0,1000` gives
/// four rows for each set of rules and number of tasks. The last `--set` changes fastest.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    task: Task,

    /// Batches to sweep over, in pages; short for --set batch=PAGES,…
    #[arg(long, value_name = "PAGES,…")]
    batch: Option<String>,

    /// Values of a rule to sweep over; may be repeated for other rules
    #[arg(long = "set", value_name = "KEY=VALUE,…")]
    settings: Vec<String>,

    #[command(flatten)]
    effort: Effort,
}

/// The largest number of combinations in a sweep. A guess: more would take far too long.
const MOST: usize = 10_000;

/// Runs `pageset-lab sweep`.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let batches = args.batch.iter().map(|values| format!("batch={values}"));
    let axes: Vec<Vec<String>> = batches.chain(args.settings).map(axis).collect();
    if axes.is_empty() {
        let message = "cannot sweep: no values given; add --batch PAGES,… or --set KEY=VALUE,…";
        return Err(Failure::new(Exit::Usage, message));
    }
    let count = axes.iter().try_fold(1_usize, |count, axis| count.checked_mul(axis.len())).unwrap_or(usize::MAX);
    if count > MOST {
        return Err(Failure::new(
            Exit::Usage,
            format!("cannot sweep over {count} combinations; allowed: up to {MOST}"),
        ));
    }
    let mut sets = Vec::new();
    for settings in combinations(&axes) {
        sets.extend(args.task.sets(&settings)?);
    }
    run_cmd::simulate(&args.task, &sets, &args.effort, None)
}

/// The settings that `key=a,b,c` stands for. A text without `=` is returned unchanged, and fails when it is parsed.
fn axis(text: String) -> Vec<String> {
    match text.split_once('=') {
        Some((key, values)) => values.split(',').map(|value| format!("{key}={value}")).collect(),
        None => vec![text],
    }
}

/// All combinations of one setting of each axis; the last axis changes fastest.
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
    fn the_last_axis_changes_fastest() {
        let axes: Vec<Vec<String>> = ["a=1,2", "b=x,y,z"].map(|text| axis(text.to_owned())).into();
        let all: Vec<String> = combinations(&axes).iter().map(|settings| settings.join(" ")).collect();
        assert_eq!(all, ["a=1 b=x", "a=1 b=y", "a=1 b=z", "a=2 b=x", "a=2 b=y", "a=2 b=z"]);
        assert_eq!(axis("nonsense".to_owned()), ["nonsense"]);
    }
}
