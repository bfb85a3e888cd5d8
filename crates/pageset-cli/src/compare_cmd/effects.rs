//! Tables of effects: run what their lines name, and say what came out.

use std::fmt::Write as _;

use pageset_sim::compare::{
    ComparedEffects, Effect, EffectTable, Experiment, Kind, NEAR_POINTS, SMALL_CHANGE_PCT, Verdict,
};
use pageset_sim::run::{Outcome, Run};
use pageset_sim::workload::Workload;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Args;
use super::report::{SCHEMA, Simulation, longest};
use crate::columns::{numbers, trimmed};
use crate::error::{Exit, Failure};
use crate::sim::batch::Batch;
use crate::sim::machines;

/// Runs `pageset compare` for such a table.
pub(super) fn run(args: &Args, text: &str) -> Result<Exit, Failure> {
    let mut table = EffectTable::parse(&args.table, text).map_err(|error| Failure::new(Exit::Damaged, error))?;
    if !args.batch.is_empty() {
        return Err(Failure::new(Exit::Usage, format!("--batch: {} has no rows of a batch", args.table)));
    }
    let has = |word: &str, keys: &[(String, String)]| keys.iter().any(|(_, key)| key.contains(word));
    for word in args.machine.iter().chain(&args.row) {
        if !table.rows.iter().any(|row| has(word, &row.keys)) {
            return Err(Failure::new(Exit::Usage, format!("{word}: no row of {} has it", args.table)));
        }
    }
    table.retain(|row| {
        let any = |words: &[String]| words.is_empty() || words.iter().any(|word| has(word, &row.keys));
        any(&args.machine) && any(&args.row)
    });
    let experiments = &table.experiments;
    let machines = machines(experiments.iter().map(|experiment| experiment.machine))?;
    let run_of = |experiment: &Experiment| {
        let found = machines.get(experiment.machine).zip(Workload::find(experiment.workload));
        let (machine, workload) =
            found.ok_or_else(|| Failure::new(Exit::Failed, format!("there is no {}", experiment.workload)))?;
        let run = args.beside.run(workload, machine, experiment.tuning, experiment.era);
        let tasks = experiment.tasks.unwrap_or(run.tasks);
        Ok(Run { tasks, ..run })
    };
    let runs = experiments.iter().map(run_of).collect::<Result<Vec<_>, Failure>>()?;
    let batch = Batch::begin(&args.beside.effort)?;
    // One that fails costs its own rows, and not a table that took an hour.
    let mut notes: Vec<String> = table.rows.iter().filter_map(|row| row.note.clone()).collect();
    let failed =
        |number: usize, error| format!("{} on {}: {error}", runs[number].workload.name, runs[number].machine.name);
    let keep = |(number, outcomes): (usize, Result<Vec<_>, _>)| {
        outcomes.unwrap_or_else(|error| {
            notes.push(format!("not simulated: {}", failed(number, error)));
            Vec::new()
        })
    };
    let outcomes: Vec<Vec<(u64, Outcome)>> = batch.run_each(&runs).into_iter().enumerate().map(keep).collect();
    let simulations = runs.iter().zip(&outcomes).map(Simulation::of).collect();
    let outcomes: Vec<Vec<Outcome>> =
        outcomes.into_iter().map(|seeds| seeds.into_iter().map(|(_, outcome)| outcome).collect()).collect();
    let rows = table.compare(&outcomes);
    let missing = table.rows.iter().filter(|row| rows.iter().all(|compared| compared.keys != row.keys));
    notes.extend(missing.map(|row| format!("nothing to show for {}", words(&row.keys))));
    let report = Report { args, rows, simulations, notes };
    batch.give(|| report.text(), || report.json())
}

/// A row's key columns in words.
fn words(keys: &[(String, String)]) -> String {
    keys.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>().join(", ")
}

struct Report<'r> {
    args: &'r Args,
    rows: Vec<ComparedEffects>,
    /// By experiment.
    simulations: Vec<Simulation>,
    /// What was simulated otherwise than the table says, or not at all.
    notes: Vec<String>,
}

impl Report<'_> {
    fn text(&self) -> String {
        let mut text = self.args.head(&self.simulations.iter().collect::<Vec<_>>());
        text += "p published, s simulated, change from the base: in percent, of shares in percentage points\n\n";
        let keys = self.rows.first().map_or(&[][..], |row| &row.keys[..]);
        let heads = ["column", "p", "s", "spread", "error", "doing nothing", "change p", "change s", ""];
        let heads = keys.iter().map(|(name, _)| name.as_str()).chain(heads);
        let mut table = numbers(heads, 0..keys.len() + 1);
        for row in &self.rows {
            for effect in &row.effects {
                let mut cells: Vec<String> = row.keys.iter().map(|(_, key)| key.clone()).collect();
                cells.push(effect.column.name.clone());
                cells.extend(cells_of(effect));
                table.add_row(cells);
            }
        }
        text += &trimmed(&table);
        let _ = write!(text, "\n{}", self.summary());
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        text
    }

    fn count(&self, of: impl Fn(&Effect) -> bool) -> usize {
        self.rows.iter().flat_map(|row| &row.effects).filter(|effect| of(effect)).count()
    }

    fn summary(&self) -> String {
        let share = |effect: &Effect| effect.column.kind == Kind::Share;
        let verdicts =
            |shares: bool, verdict| self.count(|effect| share(effect) == shares && effect.verdict() == verdict);
        let (signs, wrong) = (verdicts(false, Verdict::Holds), verdicts(false, Verdict::Misses));
        let (near, far) = (verdicts(true, Verdict::Holds), verdicts(true, Verdict::Misses));
        format!(
            "changes above {SMALL_CHANGE_PCT} %: {signs} of {} with the right sign\n\
             shares: {near} of {} within {NEAR_POINTS} points\n",
            signs + wrong,
            near + far
        )
    }

    fn json(&self) -> impl Serialize + use<> {
        let rows = self.rows.iter().map(|row| self.row_json(row)).collect();
        let length = longest(self.simulations.iter());
        Document {
            schema: SCHEMA,
            table: self.args.table.clone(),
            measured_ns: length.time.whole_ns(),
            warm_up_ns: length.warm_up.whole_ns(),
            seeds: self.args.beside.effort.seeds().collect(),
            rows,
            notes: self.notes.clone(),
        }
    }

    fn row_json(&self, row: &ComparedEffects) -> Map<String, Value> {
        let mut json = Map::new();
        for (name, key) in &row.keys {
            json.insert(name.clone(), key.clone().into());
        }
        let columns = |of: &dyn Fn(&Effect) -> Option<f64>| -> Map<String, Value> {
            row.effects.iter().filter_map(|effect| Some((effect.column.name.clone(), of(effect)?.into()))).collect()
        };
        json.insert("published".to_owned(), columns(&|effect| effect.column.published).into());
        json.insert("simulated".to_owned(), columns(&|effect| Some(effect.simulated.mean)).into());
        json.insert("deviation".to_owned(), columns(&|effect| Some(effect.simulated.deviation)).into());
        json.insert("do_nothing".to_owned(), columns(&|effect| effect.column.do_nothing).into());
        let simulations = row.experiments.iter().map(|&number| &self.simulations[number]);
        json.insert("simulations".to_owned(), simulations.map(|simulation| json!(simulation)).collect());
        json
    }
}

fn cells_of(effect: &Effect) -> [String; 8] {
    let value = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
    let (published, simulated) = (effect.column.published, effect.simulated.mean);
    let verdict = match effect.verdict() {
        Verdict::Holds => "holds",
        Verdict::Misses => "misses",
        Verdict::Open => "",
    };
    let change = |change: Option<f64>| change.map_or_else(|| "-".to_owned(), |change| format!("{change:+.1}"));
    [
        value(published),
        number(simulated),
        value(Some(effect.simulated.deviation).filter(|&deviation| deviation > 0.0)),
        value(published.map(|published| simulated - published)),
        value(effect.column.do_nothing.zip(published).map(|(base, published)| base - published)),
        change(effect.published_change()),
        change(effect.simulated_change()),
        verdict.to_owned(),
    ]
}

/// A number with four digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    table: String,
    measured_ns: u64,
    warm_up_ns: u64,
    seeds: Vec<u64>,
    rows: Vec<Map<String, Value>>,
    notes: Vec<String>,
}
