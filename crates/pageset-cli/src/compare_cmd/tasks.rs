//! The table over numbers of tasks: processes and threads on one machine.

use pageset_sim::compare::{TASKS_COLUMNS, TASKS_MACHINE, TasksRow, TasksTable, baselines};
use pageset_sim::run::{Outcome, Run};
use pageset_sim::statistics::Spread;
use pageset_sim::workload::Workload;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Args;
use super::report::{SCHEMA, Simulation, longest};
use crate::columns::{grouped, numbers, spread_pct, trimmed};
use crate::error::{Exit, Failure};
use crate::sim::batch::Batch;
use crate::sim::machine;

/// One number of a row: what was published and simulated, and the baselines.
struct Cell {
    column: usize,
    published: f64,
    simulated: Spread,
    do_nothing: f64,
    amdahl: f64,
}

/// A row, and what became of it.
struct Row<'t> {
    row: &'t TasksRow,
    cells: Vec<Cell>,
    simulations: Vec<Simulation>,
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
    let runs_of = |row: &TasksRow| {
        let run = |workload| Run { tasks: row.tasks, ..args.beside.run(workload, &machine, row.tuning, row.era) };
        workloads.iter().map(|(_, workload)| run(workload)).collect::<Vec<_>>()
    };
    let runs: Vec<Run<'_>> = table.rows.iter().flat_map(runs_of).collect();
    let batch = Batch::begin(&args.beside.effort)?;
    let outcomes = batch.run(&runs, |n| format!("{} tasks", runs[n].tasks))?;
    let cell = |row, &(column, _): &(usize, &Workload), seeds: &Vec<(u64, Outcome)>| {
        let simulated = Spread::of(&seeds.iter().map(|(_, outcome)| outcome.score()).collect::<Vec<_>>())?;
        let [do_nothing, amdahl] = baselines(&table.rows, row).map(|baseline| baseline[column]);
        Some(Cell { column, published: row.published[column], simulated, do_nothing, amdahl })
    };
    let row_of = |(number, row)| {
        let first = number * workloads.len();
        let of_row = first..first + workloads.len();
        let (runs, outcomes) = (&runs[of_row.clone()], &outcomes[of_row]);
        let cells = workloads.iter().zip(outcomes).filter_map(|(workload, seeds)| cell(row, workload, seeds));
        Row { row, cells: cells.collect(), simulations: runs.iter().zip(outcomes).map(Simulation::of).collect() }
    };
    let rows: Vec<Row<'_>> = table.rows.iter().enumerate().map(row_of).collect();
    batch.give(|| report(args, &rows), || document(args, &rows))
}

fn error_pct(of: f64, published: f64) -> f64 {
    100.0 * (of / published - 1.0)
}

fn report(args: &Args, rows: &[Row<'_>]) -> String {
    let mut text = args.head(&rows.iter().flat_map(|row| &row.simulations).collect::<Vec<_>>());
    text += &format!(
        "on {TASKS_MACHINE}; errors in percent: simulated, doing nothing (the row of fewest tasks again), Amdahl's law\n\n"
    );
    let heads = ["column", "kernel", "tasks", "published", "simulated", "spread %", "error", "nothing", "Amdahl"];
    let mut table = numbers(heads.into_iter(), 0..2);
    let mut summary = String::new();
    for (column, (name, _)) in TASKS_COLUMNS.iter().enumerate() {
        let mut errors = Vec::new();
        for (row, cell) in rows.iter().flat_map(|Row { row, cells, .. }| cells.iter().map(move |cell| (row, cell))) {
            if cell.column != column {
                continue;
            }
            let three = [cell.simulated.mean, cell.do_nothing, cell.amdahl].map(|of| error_pct(of, cell.published));
            let mut line = vec![(*name).to_owned(), row.kernel.clone(), row.tasks.to_string()];
            line.extend([cell.published, cell.simulated.mean].map(|score| grouped(score.round() as u64)));
            line.push(spread_pct(cell.simulated.deviation, cell.simulated.mean));
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

fn document(args: &Args, rows: &[Row<'_>]) -> impl Serialize + use<> {
    let row = |Row { row, cells, simulations }: &Row<'_>| {
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
            "simulations": simulations,
        })
    };
    let length = longest(rows.iter().flat_map(|row| &row.simulations));
    json!({
        "schema": SCHEMA,
        "table": args.table,
        "measured_ns": length.time.whole_ns(),
        "warm_up_ns": length.warm_up.whole_ns(),
        "seeds": args.beside.effort.seeds().collect::<Vec<_>>(),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}
