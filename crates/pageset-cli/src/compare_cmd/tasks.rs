//! The table over numbers of tasks: processes and threads on one machine.

use std::io::{self, Write as _};

use pageset_sim::compare::{TASKS_COLUMNS, TASKS_MACHINE, TasksRow, TasksTable, baselines};
use pageset_sim::run::{Run, RunError};
use pageset_sim::statistics::Spread;
use pageset_sim::sweep::run_all;
use pageset_sim::workload::Workload;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Args;
use super::report::SCHEMA;
use crate::columns::{grouped, numbers, trimmed};
use crate::error::{Exit, Failure};
use crate::output::Output;
use crate::sim::machine;
use crate::sim::progress::{Interrupt, Progress};

/// One number of a row: what was published and simulated, and the baselines.
struct Cell {
    column: usize,
    published: f64,
    simulated: Spread,
    do_nothing: f64,
    amdahl: f64,
}

/// Runs `pageset compare` for such a table.
pub(super) fn run(args: &Args, text: &str) -> Result<Exit, Failure> {
    let machine = machine(TASKS_MACHINE)?;
    let table = TasksTable::parse(&args.table, text, machine.topology().cpus())
        .map_err(|error| Failure::new(Exit::Damaged, error))?;
    if !args.batch.is_empty() || !args.machine.is_empty() {
        let message = format!("--machine, --batch: {} has rows of one machine, and none of a batch", args.table);
        return Err(Failure::new(Exit::Usage, message));
    }
    let columns = TASKS_COLUMNS.iter().enumerate();
    let workloads: Vec<(usize, _)> =
        columns.filter_map(|(column, (_, name))| Some((column, Workload::find(name)?))).collect();
    let effort = &args.effort;
    let mut runs = Vec::new();
    for row in &table.rows {
        for (_, workload) in &workloads {
            runs.extend(effort.seeds().map(|seed| Run {
                workload,
                machine: &machine,
                tuning: row.tuning,
                high_fraction: 0,
                tasks: row.tasks,
                warm_up: effort.warm_up(),
                time: effort.time(),
                seed,
            }));
        }
    }
    let interrupt = Interrupt::install()?;
    let progress = Progress::new(runs.len());
    let outcomes = run_all(&runs, effort.workers(), || interrupt.keep_on(), |ended| progress.at(ended));
    drop(progress);
    let mut outcomes = outcomes.into_iter();
    let mut rows: Vec<(&TasksRow, Vec<Cell>)> = Vec::new();
    for row in &table.rows {
        let [do_nothing, amdahl] = baselines(&table.rows, row);
        let mut cells = Vec::new();
        for (column, _) in &workloads {
            let mut scores = Vec::new();
            for outcome in outcomes.by_ref().take(effort.seeds().count()) {
                match outcome {
                    Ok(outcome) => scores.push(outcome.score()),
                    Err(RunError::Interrupted) => {}
                    Err(error) => return Err(Failure::new(Exit::Failed, format!("{} tasks: {error}", row.tasks))),
                }
            }
            if let Some(simulated) = Spread::of(&scores) {
                let (do_nothing, amdahl) = (do_nothing[*column], amdahl[*column]);
                cells.push(Cell { column: *column, published: row.published[*column], simulated, do_nothing, amdahl });
            }
        }
        rows.push((row, cells));
    }
    if !effort.json_only() {
        io::stdout().write_all(report(args, &rows).as_bytes())?;
    }
    if let Some(path) = &effort.json {
        let mut out = Output::create(path)?;
        serde_json::to_writer_pretty(&mut out, &document(args, &rows)).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        out.commit()?;
    }
    Ok(if interrupt.keep_on() { Exit::Done } else { Exit::Interrupted })
}

fn error_pct(of: f64, published: f64) -> f64 {
    100.0 * (of / published - 1.0)
}

fn report(args: &Args, rows: &[(&TasksRow, Vec<Cell>)]) -> String {
    let (seconds, warm_up, seeds) = (args.effort.seconds, args.effort.warm_up, args.effort.seeds);
    let mut text = format!("{} on {TASKS_MACHINE}, {seconds} s after {warm_up} s, seeds 1 to {seeds}\n", args.table);
    text += "errors in percent: simulated, doing nothing (the row of fewest tasks again), Amdahl's law\n\n";
    let heads = ["column", "kernel", "tasks", "published", "simulated", "spread %", "error", "nothing", "Amdahl"];
    let mut table = numbers(heads.into_iter(), 0..2);
    let mut summary = String::new();
    for (column, (name, _)) in TASKS_COLUMNS.iter().enumerate() {
        let mut errors = Vec::new();
        for (row, cell) in rows.iter().flat_map(|(row, cells)| cells.iter().map(move |cell| (row, cell))) {
            if cell.column != column {
                continue;
            }
            let three = [cell.simulated.mean, cell.do_nothing, cell.amdahl].map(|of| error_pct(of, cell.published));
            let mut line = vec![(*name).to_owned(), row.kernel.clone(), row.tasks.to_string()];
            line.extend([cell.published, cell.simulated.mean].map(|score| grouped(score.round() as u64)));
            line.push(format!("{:.2}", 100.0 * cell.simulated.deviation / cell.simulated.mean));
            line.extend(three.map(|error| format!("{error:+.1}")));
            table.add_row(line);
            errors.push(three.map(f64::abs));
        }
        if !errors.is_empty() {
            let mean = |i: usize| errors.iter().map(|three| three[i]).sum::<f64>() / errors.len() as f64;
            let worst = errors.iter().map(|three| three[0]).fold(0.0, f64::max);
            summary += &format!(
                "{name}: mean error {:.1} %, worst {worst:.1} %; doing nothing {:.1} %, Amdahl's law {:.1} %\n",
                mean(0),
                mean(1),
                mean(2)
            );
        }
    }
    text += &trimmed(&table);
    text + "\n" + &summary
}

fn document(args: &Args, rows: &[(&TasksRow, Vec<Cell>)]) -> impl Serialize + use<> {
    let row = |(row, cells): &(&TasksRow, Vec<Cell>)| {
        let columns = |of: fn(&Cell) -> f64| -> Map<String, Value> {
            cells.iter().map(|cell| (TASKS_COLUMNS[cell.column].0.to_owned(), of(cell).into())).collect()
        };
        json!({
            "kernel": row.kernel,
            "tasks": row.tasks,
            "published": columns(|cell| cell.published),
            "simulated": columns(|cell| cell.simulated.mean),
            "deviation": columns(|cell| cell.simulated.deviation),
            "do_nothing": columns(|cell| cell.do_nothing),
            "amdahl": columns(|cell| cell.amdahl),
        })
    };
    json!({
        "schema": SCHEMA,
        "table": args.table,
        "measured_ns": args.effort.time().whole_ns(),
        "warm_up_ns": args.effort.warm_up().whole_ns(),
        "seeds": args.effort.seeds().collect::<Vec<_>>(),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}
