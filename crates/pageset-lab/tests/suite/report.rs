//! `pageset-lab report`, as a user runs it.

use std::fs;
use std::path::Path;

use crate::support::charts::{Seen, agree, seen};
use crate::support::{ends, json};

/// A folder for a result and its page.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }
}

/// Runs a command and reports on its JSON. The JSON is in `result.json`, the page in `report.html`.
fn reported(folder: &Folder, command: &[&'static str]) -> serde_json::Value {
    let arguments: Vec<&dyn AsRef<Path>> = command.iter().map(|word| word as _).collect();
    let (text, _) = ends(0, &arguments);
    fs::write(folder.at("result.json"), &text).unwrap();
    ends(0, &[&"report", &folder.at("result.json"), &"-o", &folder.at("report.html"), &"--svg", &folder.0.path()]);
    json(&text)
}

const SHORT: [&str; 8] = ["--machine", "lkp-sb02", "--seconds", "0.02", "--warm-up", "0.005", "--seeds", "3"];

fn short(words: &[&'static str]) -> Vec<&'static str> {
    words.iter().chain(&SHORT).chain(&["--json"]).copied().collect()
}

fn spread(value: &serde_json::Value) -> (f64, f64) {
    (value["mean"].as_f64().unwrap(), value["deviation"].as_f64().unwrap())
}

#[test]
fn a_run_is_drawn_against_its_tasks() {
    let folder = Folder::new();
    let result =
        reported(&folder, &short(&["sim", "page_fault1", "--rules", "linux-4.17,linux-6.18", "--tasks", "1,4"]));
    let chart = seen(&folder.at("chart-1.svg"));
    assert_eq!(chart.labels, ["1", "4"]);
    // Bars are grouped by tasks, then by rules; rows are grouped by rules, then by tasks.
    let rows = result["rows"].as_array().unwrap();
    let ordered = |tasks: u64| rows.iter().filter(move |row| row["tasks"] == tasks);
    let spreads: Vec<(f64, f64)> = [1, 4].into_iter().flat_map(ordered).map(|row| spread(&row["score"])).collect();
    agree(&chart, &spreads);
    assert!(chart.bars[1].0.starts_with("1, linux-6.18: "), "{}", chart.bars[1].0);
    let waits: Vec<(f64, f64)> =
        [1, 4].into_iter().flat_map(ordered).map(|row| spread(&row["zone_lock_pct"])).collect();
    assert!(waits[2].0 > 0.0, "no lock is waited for, so the test compares nothing");
    agree(&seen(&folder.at("chart-2.svg")), &waits);
}

#[test]
fn a_sweep_is_drawn_against_batch() {
    let folder = Folder::new();
    let command = short(&["sim", "page_fault1", "--rules", "linux-4.17", "--set", "batch=127,31,63", "--tasks", "2"]);
    let result = reported(&folder, &command);
    let chart = seen(&folder.at("chart-1.svg"));
    assert_eq!(chart.labels, ["31", "63", "127"]);
    let of = |batch: u32| {
        let rules = format!("linux-4.17 batch={batch}");
        spread(&result["rows"].as_array().unwrap().iter().find(|row| row["rules"] == *rules).unwrap()["score"])
    };
    agree(&chart, &[31, 63, 127].map(of));
    assert!(chart.bars.iter().all(|(title, _)| title.contains(", linux-4.17: ")), "{:?}", chart.bars);
}

#[test]
fn a_comparison_is_drawn_next_to_published_values() {
    let folder = Folder::new();
    let result = reported(&folder, &short(&["compare", "page_fault1-batch-sweep.csv", "--batch", "63,511"]));
    let rows = result["rows"].as_array().unwrap();
    let place = ["score", "change_pct", "lru_contention_pct", "total_contention_pct", "zone_contention_pct"];
    // Members are sorted by name.
    let number = 1 + {
        let mut sorted = place;
        sorted.sort_unstable();
        sorted.iter().position(|name| *name == "zone_contention_pct").unwrap()
    };
    let chart = seen(&folder.at(&format!("chart-{number}.svg")));
    assert_eq!(chart.labels, ["31", "63", "511"]);
    let value = |row: &serde_json::Value, of: &str| row[of]["zone_contention_pct"].as_f64().unwrap();
    let spreads: Vec<(f64, f64)> = rows
        .iter()
        .flat_map(|row| [(value(row, "published"), 0.0), (value(row, "simulated"), value(row, "deviation"))])
        .collect();
    agree(&chart, &spreads);
    assert!(chart.bars[2].0.starts_with("63, published: "), "{:?}", chart.bars);
    let page = fs::read_to_string(folder.at("report.html")).unwrap();
    let question = "lkp-sb02: how close is the simulation to the published zone contention in percent?";
    assert!(page.contains(question) && page.contains("compared with doing nothing?"), "{page}");
}

#[test]
fn a_benchmark_is_drawn_with_its_quartiles() {
    let folder = Folder::new();
    let result = reported(
        &folder,
        &[
            "bench",
            "--no-peers",
            "--who",
            "floor b,pageset",
            "--patterns",
            "hot",
            "--threads",
            "1",
            "--rounds",
            "5",
            "--window-ms",
            "1",
            "--json",
        ],
    );
    let row = |row: &serde_json::Value| {
        let mut samples: Vec<f64> =
            row["ns_per_pair"].as_array().unwrap().iter().map(|ns| ns.as_f64().unwrap()).collect();
        samples.sort_by(f64::total_cmp);
        samples
    };
    let rows: Vec<Vec<f64>> = result["rows"].as_array().unwrap().iter().map(row).collect();
    if rows.iter().any(|samples| samples.len() != 5) {
        return println!("SKIPPED a_benchmark_is_drawn_with_its_quartiles: the machine is too busy for five samples");
    }
    let chart = seen(&folder.at("chart-1.svg"));
    // Of five samples the quartiles are the second and the fourth.
    agree(
        &Seen { whiskers: Vec::new(), ..seen(&folder.at("chart-1.svg")) },
        &rows.iter().map(|of| (of[2], 0.0)).collect::<Vec<_>>(),
    );
    let unit = chart.bars[0].1 / rows[0][2];
    for (samples, (top, bottom)) in rows.iter().zip(&chart.whiskers) {
        assert!(((samples[3] - samples[1]) * unit - (bottom - top)).abs() < 0.3, "{samples:?}: {top} to {bottom}");
    }
    assert_eq!(chart.whiskers.len(), rows.len());
}

#[test]
fn inputs_that_are_not_results_are_refused() {
    let folder = Folder::new();
    for (text, message) in [
        (
            r#"{"schema": "pageset.run/1", "workload": "w", "machine": "m", "measured_ns": 1, "warm_up_ns": 0, "rows": []}"#,
            "the result has no rows",
        ),
        (
            r#"{"schema": "pageset.run/1", "workload": "w", "machine": "m", "measured_ns": 1, "warm_up_ns": 0, "rows": [{}]}"#,
            "missing field `rules`",
        ),
        (
            r#"{"schema": "pageset.compare/1", "table": "t", "measured_ns": 1, "warm_up_ns": 0, "seeds": [], "rows": [{}]}"#,
            "a row has no key column",
        ),
        (r#"{"schema": "pageset.bench/1", "machine": {}, "rows": []}"#, "missing field `processor`"),
        ("{\"schema\": \"pageset.replay/1\"}", "`pageset report` reads it"),
        ("a recording", "help: `pageset report` reads recordings"),
    ] {
        fs::write(folder.at("bad.json"), text).unwrap();
        let out = folder.at("out.html");
        let (_, error) = ends(4, &[&"report", &folder.at("bad.json"), &"-o", &out]);
        assert!(error.contains(message), "{text}: {error}");
        assert!(!out.exists(), "a failed report left a file");
    }
}
