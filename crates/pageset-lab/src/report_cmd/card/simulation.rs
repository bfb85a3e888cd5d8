//! The cards of simulations: one workload on one machine, and a study of many.

use indexmap::IndexSet;
use pageset_report::page::card::{Kind, Sure};
use pageset_sim::run::{RunResult, RunRow};
use pageset_sim::verdict::{OfRun, OfStudy, Pair, Weakness, unfinished};
use pageset_statistics::Compared;

use super::{Card, Figure, Verdict, deciding_figures, number, sure, times};

/// What a difference of a single seed is worth.
const ONE_SEED: &str = "one seed does not tell a difference from noise; try --seeds 3";

pub(crate) fn run(result: &RunResult) -> Card {
    let judged = OfRun::of(result);
    let (text, why) = match judged {
        OfRun::Apart => (String::new(), "No row can be compared with the first one".to_owned()),
        OfRun::NoControl(row) => {
            (String::new(), format!("{}, the control, has no result: no seed has ended", row.rules))
        }
        OfRun::Alone(row) => {
            let waits = number(row.waits()[0].pct.map_or(0.0, |pct| pct.mean));
            let text = format!("{} on {} tasks waits {waits} % of its time for zone locks", row.rules, row.tasks);
            (text, "There is nothing to compare with".to_owned())
        }
        OfRun::Scales(few, many) => {
            let (work, tasks) = (score(many) / score(few), f64::from(many.tasks) / f64::from(few.tasks.max(1)));
            let ratio = times(work, 1.0).unwrap_or_default();
            let text = format!("{} does {ratio} times the work with {} times the tasks", few.rules, number(tasks));
            let [fewer, more] = [few, many].map(|row| number(score(row)));
            (text, format!("{} tasks do {fewer} a second, {} tasks {more}", few.tasks, many.tasks))
        }
        OfRun::Best(pair) => best(&pair, &result.unit),
    };
    let verdict = if text.is_empty() { Verdict::none(why) } else { Verdict::new(judged.kind(), text, why) };
    let shown = match judged {
        OfRun::Best(pair) => Some((pair.row, Some(pair.control))),
        _ => result.rows.first().map(|row| (row, None)),
    };
    Card {
        about: format!("{} on {}", result.workload, result.machine),
        verdict,
        sure: trust(std::slice::from_ref(result)),
        figures: figures(shown, &result.unit),
        warnings: warnings(result),
        next: None,
    }
}

fn score(row: &RunRow) -> f64 {
    row.score.map_or(0.0, |score| score.mean)
}

/// The text of the best row, and why; no text if there is no verdict.
fn best(pair: &Pair<'_>, unit: &str) -> (String, String) {
    let (name, own) = (&pair.row.rules, &pair.control.rules);
    let [more, fewer] = [pair.row, pair.control].map(|row| number(score(row)));
    let why = format!("{more} {unit} a second instead of {fewer}, with {} tasks", pair.row.tasks);
    let text = match pair.differs {
        Compared::UnknownNoise => return (String::new(), format!("{name} does {why}; {ONE_SEED}")),
        Compared::Higher => {
            format!("{name} does {} times the work of {own}", times(pair.ratio, 1.0).unwrap_or_default())
        }
        Compared::Lower => format!("No other row does more work than {own}"),
        Compared::Equal | Compared::Noise => {
            format!("No row does more work than {own} beyond the spread of the seeds")
        }
    };
    (text, why)
}

/// The longest allocation from a pageset that needs nothing from its zone. A guess: a refill alone holds the zone lock for longer.
/// Unit: nanoseconds.
const HIT_NS_MAX: u64 = 100;

fn figures(shown: Option<(&RunRow, Option<&RunRow>)>, unit: &str) -> [Figure; 3] {
    let of = shown.map(|(row, _)| format!(", {}", row.rules)).unwrap_or_default();
    let control = shown.and_then(|(_, control)| control).map(|row| (row.rules.as_str(), row));
    let mut figures = deciding_figures(shown.map(|(row, _)| row), &of, control);
    if !unit.is_empty() {
        figures[0].name = figures[0].name.replacen("score", unit, 1);
    }
    // What an allocation from a list costs is an input of the simulator, not a result.
    if shown.and_then(|(row, _)| row.alloc_ns).is_some_and(|alloc| alloc.p99 <= HIT_NS_MAX) {
        let rest = shown.and_then(|(_, control)| Some((control?.rules.as_str(), control?.alloc_ns?.p99)));
        let rest = rest.map(|(name, p99)| format!("; {name}: at most {} ns", number(p99 as f64))).unwrap_or_default();
        let found = format!("found in the pageset, without the zone{rest}");
        figures[2] = Figure::new(format!("99 of 100 allocations{of}"), None, "").with_note(found);
    }
    figures
}

fn trust(results: &[RunResult]) -> Sure {
    sure(Weakness::of_runs(results).into_iter().map(|weakness| (weakness.trust(), weakness)), "")
}

/// Seeds that have not ended.
fn warnings(result: &RunResult) -> Vec<String> {
    let wanted = result.seeds.max(1);
    let warning = |(row, ended): (&RunRow, usize)| {
        format!("{}, {} tasks: only {ended} of {wanted} seeds have ended", row.rules, row.tasks)
    };
    unfinished(result).map(warning).collect()
}

/// The card of a study. The control is the first set of rules, on each machine and workload with each number of tasks.
pub(crate) fn study(results: &[RunResult]) -> Card {
    if let [one] = results {
        return run(one);
    }
    let judged = OfStudy::of(results);
    let OfStudy { control, best, cells } = &judged;
    let (wins, losses) = (judged.count(Compared::Higher), judged.count(Compared::Lower));
    let verdict = match best {
        None => Verdict::none(format!("No row can be compared with {control}, the first set of rules")),
        Some((name, ratio)) => {
            let ratio = times(*ratio, 1.0).unwrap_or_default();
            let text = format!("{name} does {ratio} times the work of {control} on average");
            let why = format!(
                "Better in {wins} and worse in {losses} of {} cells, beyond the spread of the seeds",
                cells.len()
            );
            match judged.kind() {
                Kind::None => Verdict::none(format!("{text}; {ONE_SEED}")),
                Kind::Same => Verdict::new(Kind::Same, format!("No rules do more work than {control}"), why),
                Kind::Differs => Verdict::new(Kind::Differs, text, why),
            }
        }
    };
    let order = |a: &&Pair<'_>, b: &&Pair<'_>| a.ratio.total_cmp(&b.ratio);
    let figure = |name: &str, pair: Option<&Pair<'_>>| {
        let note = pair.map(|pair| format!("{} tasks", pair.row.tasks)).unwrap_or_default();
        Figure::new(name, pair.map(|pair| pair.ratio), "times").with_note(note)
    };
    let figures = [
        Figure::new("work, geometric mean", best.map(|best| best.1), "times").with_note(format!("against {control}")),
        figure("worst cell", cells.iter().min_by(order)),
        figure("best cell", cells.iter().max_by(order)),
    ];
    let machines: IndexSet<&str> = results.iter().map(|result| result.machine.as_str()).collect();
    let workloads: IndexSet<&str> = results.iter().map(|result| result.workload.as_str()).collect();
    let about = format!("Study: {} workloads on {} machines", workloads.len(), machines.len());
    let warnings = results.iter().flat_map(|result| {
        warnings(result).into_iter().map(|warning| format!("{} on {}: {warning}", result.workload, result.machine))
    });
    Card { about, verdict, sure: trust(results), figures, warnings: warnings.collect(), next: None }
}
