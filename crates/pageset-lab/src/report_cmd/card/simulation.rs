//! The cards of simulations: one workload on one machine, and a study of many.

use pageset_report::page::card::{Sure, Trust};
use pageset_sim::run::{RunResult, RunRow};
use pageset_statistics::{CONFIDENCE, Compared, compare, geometric_mean};

use super::{Card, Figure, Kind, Verdict, number, times, trust};

/// The number of seeds from which a spread means something. A guess.
const SEEDS_MIN: usize = 3;
/// Measured time below which a simulation may depend on its begin. A guess: results after 0.5 s and after 1.5 s
/// differ on some machines. Unit: nanoseconds.
const MEASURED_NS_MIN: u64 = 500_000_000;
/// Why a simulation is never trusted fully.
const SIMULATED: &str = "simulated, not measured on a machine";

/// A row next to the first row with the same number of tasks, which is the control.
struct Pair<'r> {
    control: &'r RunRow,
    row: &'r RunRow,
    ratio: f64,
    /// How the row's scores differ from the control's.
    differs: Compared,
}

/// Pairs all rows that have a score. The control has the first row's rules.
fn pairs(result: &RunResult) -> Vec<Pair<'_>> {
    let Some(first) = result.rows.first() else { return Vec::new() };
    let control =
        |row: &RunRow| result.rows.iter().find(|other| other.tasks == row.tasks && other.rules == first.rules);
    let pair = |row| {
        let control = control(row).filter(|control| !std::ptr::eq(*control, row))?;
        let (score, own) = (row.score?, control.score?);
        let ratio = score.mean / own.mean;
        let differs = compare(&scores(control), &scores(row), CONFIDENCE);
        (own.mean > 0.0).then_some(Pair { control, row, ratio, differs })
    };
    result.rows.iter().filter_map(pair).collect()
}

/// The scores of all seeds.
fn scores(row: &RunRow) -> Vec<f64> {
    row.samples.iter().map(|sample| sample.score).collect()
}

/// What a difference of a single seed is worth.
const ONE_SEED: &str = "one seed does not tell a difference from noise; try --seeds 3";

/// The card of a run or a sweep. The control is the first row's rules with as many tasks.
pub(in super::super) fn run(result: &RunResult) -> Card {
    let about = format!("{} on {}", result.workload, result.machine);
    let most_tasks = result.rows.iter().map(|row| row.tasks).max().unwrap_or(0);
    let control = result.rows.first();
    let pairs = pairs(result);
    // Contention is highest with the most tasks.
    let at_most = pairs.iter().filter(|pair| pair.row.tasks == most_tasks);
    let best = at_most.max_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let verdict = match (control, best) {
        (Some(control), _) if control.score.is_none() => {
            Verdict::none(format!("{}, the control, has no result: no seed has ended", control.rules))
        }
        (Some(control), None) if result.rows.len() == 1 => {
            Verdict::new(Kind::Same, one(control), "There is nothing to compare with")
        }
        (Some(control), None) if result.rows.iter().all(|row| row.rules == control.rules) => scaling(result, control),
        (_, None) => Verdict::none("No row can be compared with the first one"),
        (_, Some(best)) => compared(best, most_tasks, &result.unit),
    };
    let shown = best.map_or(control, |best| Some(best.row));
    let figures = figures(shown, best.map(|best| best.control), &result.unit);
    Card { about, verdict, sure: sure([result]), figures, warnings: warnings(result), next: None }
}

/// The verdict on one row.
fn one(row: &RunRow) -> String {
    let waits = row.zone_lock_pct.map_or(0.0, |pct| pct.mean);
    format!("{} on {} tasks waits {} % of its time for zone locks", row.rules, row.tasks, number(waits))
}

/// The verdict on one set of rules with several numbers of tasks.
fn scaling(result: &RunResult, first: &RunRow) -> Verdict {
    let of = |row: &RunRow| row.score.map(|score| (row.tasks, score.mean));
    let all = || result.rows.iter().filter_map(of);
    let (Some(few), Some(many)) = (all().min_by_key(|row| row.0), all().max_by_key(|row| row.0)) else {
        return Verdict::none("No row has a result");
    };
    let text = format!(
        "{} does {} times the work with {} times the tasks",
        first.rules,
        times(many.1, few.1).unwrap_or_default(),
        number(f64::from(many.0) / f64::from(few.0.max(1)))
    );
    let why = format!("{} tasks do {} a second, {} tasks {}", few.0, number(few.1), many.0, number(many.1));
    Verdict::new(Kind::Differs, text, why)
}

fn compared(best: &Pair<'_>, tasks: u32, unit: &str) -> Verdict {
    let (name, own) = (&best.row.rules, &best.control.rules);
    let score = |row: &RunRow| row.score.map_or(0.0, |score| score.mean);
    let why = format!(
        "{} {unit} a second instead of {}, with {tasks} tasks",
        number(score(best.row)),
        number(score(best.control))
    );
    match best.differs {
        Compared::UnknownNoise => Verdict::none(format!("{name} does {why}; {ONE_SEED}")),
        Compared::Higher => {
            let ratio = times(best.ratio, 1.0).unwrap_or_default();
            Verdict::new(Kind::Differs, format!("{name} does {ratio} times the work of {own}"), why)
        }
        Compared::Lower => Verdict::new(Kind::Same, format!("No other row does more work than {own}"), why),
        Compared::Equal | Compared::Noise => {
            Verdict::new(Kind::Same, format!("No row does more work than {own} beyond the spread of the seeds"), why)
        }
    }
}

fn figures(row: Option<&RunRow>, control: Option<&RunRow>, unit: &str) -> [Figure; 3] {
    let figure = |name: &str, unit: &'static str, of: fn(&RunRow) -> Option<f64>| {
        let title = |row: &RunRow| format!("{name}, {}", row.rules);
        match (row.and_then(|row| Some((row, of(row)?))), control.and_then(|row| Some((row, of(row)?)))) {
            (Some((row, value)), Some((own, control))) => {
                Figure::against(title(row), value, unit, (&own.rules, control))
            }
            (Some((row, value)), None) => Figure::new(title(row), value, unit),
            _ => Figure::new(name, None, unit),
        }
    };
    let name = if unit.is_empty() { "score" } else { unit };
    [
        figure(name, "per second", |row| Some(row.score?.mean)),
        figure("waiting for zone locks", "% of the CPUs' time", |row| Some(row.zone_lock_pct?.mean)),
        figure("99 of 100 allocations take at most", "ns", |row| Some(row.alloc_ns?.p99 as f64)),
    ]
}

/// The trust in simulations.
fn sure<'r>(results: impl IntoIterator<Item = &'r RunResult> + Clone) -> Sure {
    let rows = || results.clone().into_iter().flat_map(|result| &result.rows);
    let seeds = rows().map(|row| row.samples.len()).filter(|seeds| *seeds > 0).min().unwrap_or(0);
    let measured = results.clone().into_iter().map(|result| result.measured_ns).min().unwrap_or(0);
    trust(
        [
            (seeds <= 1, Trust::Low, "one seed for a row: its spread is unknown".to_owned()),
            ((2..SEEDS_MIN).contains(&seeds), Trust::Fair, format!("only {seeds} seeds for a row")),
            (
                measured < MEASURED_NS_MIN,
                Trust::Fair,
                format!("only {} s were measured: a longer run may differ", number(measured as f64 / 1e9)),
            ),
            (true, Trust::Fair, SIMULATED.to_owned()),
        ],
        "",
    )
}

/// Seeds that have not ended.
fn warnings(result: &RunResult) -> Vec<String> {
    let missing = |row: &RunRow| {
        let (ended, wanted) = (row.samples.len(), result.seeds as usize);
        (ended < wanted || ended == 0)
            .then(|| format!("{}, {} tasks: only {ended} of {} seeds have ended", row.rules, row.tasks, wanted.max(1)))
    };
    result.rows.iter().filter_map(missing).collect()
}

/// The card of a study. The control is the first set of rules, on each machine and workload with each number of tasks.
pub(crate) fn study(results: &[RunResult]) -> Card {
    if let [one] = results {
        return run(one);
    }
    let pairs: Vec<Pair<'_>> = results.iter().flat_map(pairs).collect();
    let names: indexmap::IndexSet<&str> = pairs.iter().map(|pair| pair.row.rules.as_str()).collect();
    let mean = |name: &str| {
        let of_name = pairs.iter().filter(|pair| pair.row.rules == name);
        geometric_mean(&of_name.map(|pair| pair.ratio).collect::<Vec<_>>())
    };
    let best = names.into_iter().filter_map(|name| Some((name, mean(name)?))).max_by(|a, b| a.1.total_cmp(&b.1));
    let control = results.iter().find_map(|result| result.rows.first()).map_or("", |row| row.rules.as_str());
    let of_best: Vec<&Pair<'_>> =
        pairs.iter().filter(|pair| best.is_some_and(|best| pair.row.rules == best.0)).collect();
    let count = |differs| of_best.iter().filter(|pair| pair.differs == differs).count();
    let (wins, losses) = (count(Compared::Higher), count(Compared::Lower));
    let verdict = match best {
        None => Verdict::none(format!("No row can be compared with {control}, the first set of rules")),
        Some((name, ratio)) => {
            let why = format!(
                "Better in {wins} and worse in {losses} of {} cells, beyond the spread of the seeds",
                of_best.len()
            );
            let ratio = times(ratio, 1.0).unwrap_or_default();
            match wins + losses {
                0 if count(Compared::UnknownNoise) > 0 => {
                    Verdict::none(format!("{name} does {ratio} times the work of {control} on average; {ONE_SEED}"))
                }
                0 => Verdict::new(Kind::Same, format!("No rules do more work than {control}"), why),
                _ => {
                    let text = format!("{name} does {ratio} times the work of {control} on average");
                    Verdict::new(Kind::Differs, text, why)
                }
            }
        }
    };
    let extreme = |most: bool| {
        let order = |a: &&&Pair<'_>, b: &&&Pair<'_>| a.ratio.total_cmp(&b.ratio);
        if most { of_best.iter().max_by(order) } else { of_best.iter().min_by(order) }
    };
    let figure = |name: &str, pair: Option<&&Pair<'_>>| {
        let note = pair.map(|pair| format!("{} tasks", pair.row.tasks)).unwrap_or_default();
        Figure::new(name, pair.map(|pair| pair.ratio), "times").with_note(note)
    };
    let figures = [
        Figure::new("work, geometric mean", best.map(|best| best.1), "times").with_note(format!("against {control}")),
        figure("worst cell", extreme(false)),
        figure("best cell", extreme(true)),
    ];
    let machines: indexmap::IndexSet<&str> = results.iter().map(|result| result.machine.as_str()).collect();
    let workloads: indexmap::IndexSet<&str> = results.iter().map(|result| result.workload.as_str()).collect();
    let about = format!("Study: {} workloads on {} machines", workloads.len(), machines.len());
    let warnings = results.iter().flat_map(|result| {
        warnings(result).into_iter().map(|warning| format!("{} on {}: {warning}", result.workload, result.machine))
    });
    Card { about, verdict, sure: sure(results), figures, warnings: warnings.collect(), next: None }
}
