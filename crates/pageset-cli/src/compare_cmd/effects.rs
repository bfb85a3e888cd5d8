//! Tables of effects: run what their lines name, and say what came out.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use pageset_sim::compare::{ComparedEffects, Effect, EffectTable, Kind, NEAR_POINTS, SMALL_CHANGE_PCT, Verdict};
use pageset_sim::machine::Machine;
use pageset_sim::run::{Outcome, Run, RunError};
use pageset_sim::sweep::run_all;
use pageset_sim::workload::Workload;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Args;
use super::report::SCHEMA;
use crate::columns::{numbers, trimmed};
use crate::error::{Exit, Failure};
use crate::output::Output;
use crate::sim::machine;
use crate::sim::options::Effort;
use crate::sim::progress::{Interrupt, Progress};

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
    let interrupt = Interrupt::install()?;
    let outcomes = simulate(&table, &args.effort, &interrupt)?;
    let report = Report { table: &args.table, rows: table.compare(&outcomes), effort: &args.effort };
    if !args.effort.json_only() {
        io::stdout().write_all(report.text().as_bytes())?;
    }
    if let Some(path) = &args.effort.json {
        let mut out = Output::create(path)?;
        serde_json::to_writer_pretty(&mut out, &report.json()).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        out.commit()?;
    }
    Ok(if interrupt.keep_on() { Exit::Done } else { Exit::Interrupted })
}

/// Runs all experiments with all seeds; of each those that were run to their end.
fn simulate(table: &EffectTable, effort: &Effort, interrupt: &Interrupt) -> Result<Vec<Vec<Outcome>>, Failure> {
    let mut machines: Vec<Machine> = Vec::new();
    for experiment in &table.experiments {
        if machines.iter().all(|known| known.name != experiment.machine) {
            machines.push(machine(experiment.machine)?);
        }
    }
    let mut runs = Vec::new();
    for experiment in &table.experiments {
        let found = machines.iter().find(|known| known.name == experiment.machine);
        let (Some(machine), Some(workload)) = (found, Workload::find(experiment.workload)) else {
            return Err(Failure::new(Exit::Failed, format!("there is no {}", experiment.workload)));
        };
        let cpus = machine.topology().cpus();
        runs.extend(effort.seeds().map(|seed| Run {
            workload,
            machine,
            tuning: experiment.tuning,
            high_fraction: 0,
            // More tasks than CPUs take turns: to the allocator they are as many as CPUs.
            tasks: experiment.tasks.unwrap_or(cpus).min(cpus),
            warm_up: effort.warm_up().max(workload.cycle),
            time: effort.time().max(workload.cycle),
            seed,
        }));
    }
    let progress = Progress::new(runs.len());
    let outcomes = run_all(&runs, effort.workers(), || interrupt.keep_on(), |ended| progress.at(ended));
    drop(progress);
    let mut whole = vec![Vec::new(); table.experiments.len()];
    for (place, outcome) in outcomes.into_iter().enumerate() {
        let number = place / effort.seeds().count();
        match outcome {
            Ok(outcome) => whole[number].push(outcome),
            Err(RunError::Interrupted) => {}
            Err(error) => {
                let experiment = &table.experiments[number];
                let message = format!("{} on {}: {error}", experiment.workload, experiment.machine);
                return Err(Failure::new(Exit::Failed, message));
            }
        }
    }
    Ok(whole)
}

struct Report<'r> {
    table: &'r str,
    rows: Vec<ComparedEffects>,
    effort: &'r Effort,
}

impl Report<'_> {
    fn text(&self) -> String {
        let Effort { seconds, warm_up, seeds, .. } = self.effort;
        let mut text = format!("{}, {seconds} s after {warm_up} s, seeds 1 to {seeds}\n", self.table);
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
        let rows = self.rows.iter().map(row_json).collect();
        Document {
            schema: SCHEMA,
            table: self.table.to_owned(),
            measured_ns: self.effort.time().whole_ns(),
            warm_up_ns: self.effort.warm_up().whole_ns(),
            seeds: self.effort.seeds().collect(),
            rows,
        }
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
        number(effect.simulated.deviation),
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

fn row_json(row: &ComparedEffects) -> Map<String, Value> {
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
    json
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    table: String,
    measured_ns: u64,
    warm_up_ns: u64,
    seeds: Vec<u64>,
    rows: Vec<Map<String, Value>>,
}
