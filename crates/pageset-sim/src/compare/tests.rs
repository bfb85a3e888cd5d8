use pageset::Tuning;

use super::*;
use crate::era::Era;
use crate::machine::Machine;
use crate::run::Run;
use crate::sweep::{Effort, run_seeds};
use crate::time::Time;
use crate::workload::Workload;

fn shipped(name: &str) -> &'static str {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).unwrap().1
}

#[test]
fn the_shipped_tables_are_complete() {
    for (name, rows, experiments) in [
        ("page_fault1-batch-sweep.csv", 123, 123),
        // Processes and threads.
        ("page_fault1-1-to-40-tasks.csv", 9, 18),
        ("batch-31-63-127.csv", 181, 3 * 181),
        ("merge-skip-and-clusters.csv", 13, 17),
        ("pcp-autotune-patch-by-patch.csv", 15, 15),
        // All experiments with more tasks than CPUs are the same.
        ("single-pass-bulk-free.csv", 18, 22),
    ] {
        let table = Table::parse(name, shipped(name)).unwrap();
        assert_eq!((table.rows.len(), table.experiments.len()), (rows, experiments), "{name}");
        for experiment in &table.experiments {
            assert!(Workload::find(experiment.workload).is_some(), "{}", experiment.workload);
            assert!(crate::machine::find(experiment.machine).is_some(), "{}", experiment.machine);
        }
    }
}

#[test]
fn columns_have_the_values_of_their_base() {
    let table = Table::parse("t", shipped("pcp-autotune-patch-by-patch.csv")).unwrap();
    let patch7 = &table.rows[4];
    assert_eq!(patch7.keys["state"].to_string(), "patch7");
    let zone = &patch7.columns[1];
    assert_eq!((zone.published, zone.do_nothing, zone.kind), (Some(9.8), Some(43.6), Kind::Share));
    assert_eq!(patch7.columns.len(), 4, "no cache-miss rate is published for builds");
    // A row without published values is simulated if its base is published.
    let without_values = "lmbench3-af-unix-score,patch3,,,,,\n";
    let text = format!("{}{without_values}", shipped("pcp-autotune-patch-by-patch.csv"));
    let row = Table::parse("t", &text).unwrap().rows.pop().unwrap();
    assert_eq!((row.columns.len(), row.columns[0].published), (5, None));
    assert_eq!(row.columns[0].do_nothing, Some(100.0));
}

#[test]
fn tasks_beyond_the_cpus_are_reduced_with_a_note() {
    let table = Table::parse("t", shipped("single-pass-bulk-free.csv")).unwrap();
    let noted: Vec<bool> = table.rows.iter().map(|row| row.note.is_some()).collect();
    let more = |row: &Row| row.keys["tasks"].to_string().parse::<u32>().is_ok_and(|tasks| tasks > 80);
    assert_eq!(noted, table.rows.iter().map(more).collect::<Vec<_>>());
    assert!(table.experiments.iter().all(|experiment| experiment.tasks.is_some_and(|tasks| tasks <= 80)));
}

#[test]
fn a_selection_keeps_only_its_own_experiments() {
    let mut table = Table::parse("t", shipped("batch-31-63-127.csv")).unwrap();
    table.select(&["lkp-sb02".to_owned()], &["ebizzy.throughput".to_owned()], &[]).unwrap();
    assert_eq!((table.rows.len(), table.experiments.len()), (1, 3));
    assert!(table.experiments.iter().all(|experiment| experiment.machine == "lkp-sb02"));

    let mut sweep = Table::parse("t", shipped("page_fault1-batch-sweep.csv")).unwrap();
    let select = |sweep: &mut Table, machine: &str, batch| sweep.select(&[machine.to_owned()], &[], &[batch]);
    assert_eq!(select(&mut sweep, "lkp-sb02", 7).unwrap_err(), "--batch 7: no row of t has it");
    assert_eq!(select(&mut sweep, "pdp-11", 63).unwrap_err(), "--machine pdp-11: no row of t has it");
    select(&mut sweep, "lkp-sb02", 63).unwrap();
    let batches: Vec<String> = sweep.rows.iter().map(|row| row.keys["batch"].to_string()).collect();
    assert_eq!(batches, ["31", "63"], "the base row must stay");
    assert_eq!(table.select(&[], &[], &[31]).unwrap_err(), "--batch: t has no rows of a batch");
}

/// A run of some milliseconds.
fn short<'m>(workload: &'m Workload, machine: &'m Machine, tuning: Tuning, era: Era) -> Run<'m> {
    Run {
        workload,
        machine,
        tuning,
        era,
        high_fraction: 0,
        tasks: 4,
        warm_up: Time::from_seconds(0.002),
        time: Time::from_seconds(0.005),
        detect_warm_up: false,
        precision_pct: None,
        whole: true,
        seed: 1,
    }
}

/// The interval of a change has the scatter of both scores; those of a ratio and of a base follow.
#[test]
fn intervals_have_the_scatter_of_the_base() {
    let head = "machine,batch,score,change_pct,zone_contention_pct,lru_contention_pct,total_contention_pct\n";
    let table = Table::parse("t", &format!("{head}lkp-sb02,31,100,0,0,0,0\nlkp-sb02,63,110,10,0,0,0\n")).unwrap();
    let machines = table.machines().unwrap();
    let runs = table.runs(&machines, &short);
    let of = |seeds: u32| {
        let effort = Effort { seeds, workers: std::num::NonZeroUsize::MIN };
        let outcomes = run_seeds(&runs, effort, || true, |_, _| {});
        let by_seed = |run: usize| {
            let all = outcomes[run].as_ref().unwrap();
            all.iter().map(|(_, outcome)| outcome.score()).collect::<Vec<_>>()
        };
        let scores = [by_seed(0), by_seed(1)];
        (scores, table.compare(&runs, outcomes, seeds))
    };
    let ([base, other], result) = of(3);
    let relative = |scores: &[f64]| {
        let mean = scores.iter().sum::<f64>() / 3.0;
        // The quantile of Student's distribution with two degrees, and the deviation of three values.
        let squares: f64 = scores.iter().map(|score| (score - mean).powi(2)).sum();
        4.302_652_730 * (squares / 2.0 / 3.0).sqrt() / mean
    };
    let (base_width, other_width) = (relative(&base), relative(&other));
    let expected = 100.0 * other.iter().sum::<f64>() / base.iter().sum::<f64>() * base_width.hypot(other_width);
    let found = result.rows[1].interval["change_pct"];
    assert!((found - expected).abs() < 1e-6 * expected, "{found}, not {expected}");
    assert!(base_width > 0.01 * other_width, "the base scatters");
    assert_eq!(result.rows[0].interval["change_pct"], 0.0, "a base is its own base");
    // With one seed the widths are those over time.
    let (_, result) = of(1);
    let width = |row: usize| result.rows[row].simulations[0].interval.unwrap().score_pct;
    let change = 1.0 + result.rows[1].simulated["change_pct"] / 100.0;
    let (found, expected) = (result.rows[1].interval["change_pct"], change * width(0).hypot(width(1)));
    assert!((found - expected).abs() < 1e-6 * expected, "{found}, not {expected}");
}

/// A time or a score relative to a base has an interval also with one seed.
#[test]
fn ratios_have_intervals_over_time() {
    let mut table = Table::parse("t", shipped("batch-31-63-127.csv")).unwrap();
    table.select(&["lkp-sb02".to_owned()], &["ebizzy.throughput".to_owned()], &[]).unwrap();
    let machines = table.machines().unwrap();
    let runs = table.runs(&machines, &short);
    let effort = Effort { seeds: 1, workers: std::num::NonZeroUsize::MIN };
    let result = table.compare(&runs, run_seeds(&runs, effort, || true, |_, _| {}), 1);
    let row = &result.rows[0];
    let columns: Vec<&String> = row.simulated.keys().collect();
    assert!(columns.iter().all(|column| row.interval.contains_key(*column)), "{columns:?}: {:?}", row.interval);
}

#[test]
fn an_unknown_machine_or_metric_is_not_taken_for_another() {
    let head = shipped("merge-skip-and-clusters.csv").lines().next().unwrap();
    for (row, message) in [
        (
            "\"page_fault1 process mode, 2-socket Haswell, 88 CPUs\",\"zone lock contention, pct\",42,,",
            "t, line 2: experiment: page_fault1 process mode, 2-socket Haswell",
        ),
        (
            "\"page_fault1 process mode, 2-socket Skylake\",\"zone lock wait, pct\",42,,",
            "t, line 2: metric: zone lock wait, pct; allowed: pct, or text that contains ",
        ),
    ] {
        let error = Table::parse("t", &format!("{head}\n{row}\n")).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn errors_name_the_line_and_the_column() {
    for (text, message) in [
        (
            "experiment,tasks,two_pass,single_pass\n\"2-socket CascadeLake: truncate\",0,1,1\n",
            "t, line 2: tasks: 0; allowed: 1 and above, or empty",
        ),
        (
            "experiment,tasks,two_pass,single_pass\n\"CascadeLake: truncate\",1,x,1\n",
            "t, line 2: two_pass: x; allowed: a number, or empty",
        ),
        (
            "experiment,tasks,two_pass,single_pass\n\"CascadeLake: truncate\",1,1\n",
            "t, line 2: the number of columns differs from the first line",
        ),
        ("experiment,tasks,two_pass,single_pass\n", "t: no rows"),
    ] {
        assert_eq!(Table::parse("t", text).unwrap_err().to_string(), message);
    }
    let table = format!("{}\nkbuild-build-time,patch11,1,1,1,1,1\n", series::HEADER);
    let message = Table::parse("t", &table).unwrap_err().to_string();
    assert_eq!(message, "t, line 2: state: patch11; allowed: base, patch1 to patch10");
    let table = format!("{}\nebizzy.throughput,pdp-11,1,,1,,1,\n", batches::HEADER);
    let message = Table::parse("t", &table).unwrap_err().to_string();
    assert!(message.starts_with("t, line 2: machine: unknown machine `pdp-11`; allowed: lkp-skl-4sp1, "), "{message}");
}
