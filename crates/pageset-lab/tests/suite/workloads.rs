//! The workloads of the simulator, recordings among them, and tables of effects, as a user runs them.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Standard output of a command that must end with `code`, and its standard error.
fn ends(code: i32, arguments: &[&str]) -> (String, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(crate::PROGRAM);
    let output = command.current_dir(root).args(arguments).stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}\n{err}");
    (out, err)
}

#[test]
fn the_list_has_a_line_for_each_workload() {
    let (out, err) = ends(0, &["sim", "--list"]);
    assert_eq!(err, "");
    for name in ["page_fault1 ", "page_fault1-threads", "kbuild", "af-unix", "stress-highalloc-1ms", "trace "] {
        assert!(out.lines().any(|line| line.trim_start().starts_with(name)), "{name}: {out}");
    }
}

#[test]
fn an_unknown_workload_gets_a_suggestion() {
    let (_, err) = ends(2, &["sim", "page_falt1", "--machine", "lkp-sb02"]);
    assert!(err.contains("unknown workload `page_falt1`; the closest are page_fault1, "), "{err}");
    assert!(err.contains("pageset-lab sim --list"), "{err}");
    let (_, err) = ends(2, &["sim", "quicksort", "--machine", "lkp-sb02"]);
    assert!(err.contains("unknown workload `quicksort`; the closest are "), "{err}");
    ends(2, &["sim"]);
}

#[test]
fn a_recording_is_spread_over_the_tasks() {
    let run = |tasks: &str| {
        let trace = "traces/sock-q1.events.zst";
        let arguments = ["sim", "trace", trace, "--machine", "lkp-sb02", "--tasks", tasks, "--seeds", "1", "--json"];
        serde_json::from_str::<Value>(&ends(0, &arguments).0).expect("JSON")["rows"][0]["samples"][0].clone()
    };
    let (one, two) = (run("1"), run("2"));
    // The number of calls in the recording, as `pageset trace info` shows it.
    assert_eq!(one["operations"].as_u64(), Some(81_768 + 81_718));
    assert_eq!(two["operations"], one["operations"]);
    assert_ne!(two["from_zone"], one["from_zone"], "two CPUs free to each other, so refills must differ");
    let (_, err) = ends(2, &["sim", "trace", "--machine", "lkp-sb02"]);
    assert!(err.contains("the workload `trace` needs a recording: trace FILE"), "{err}");
    // Whether a machine is named or not.
    for more in [&["--machine", "lkp-sb02"][..], &[]] {
        let (_, err) = ends(2, &[&["sim", "my.pstrace"][..], more].concat());
        assert!(err.contains("a file, not a workload; try `pageset-lab sim trace my.pstrace --machine NAME`"), "{err}");
        assert!(err.contains("or `pageset replay my.pstrace`"), "{err}");
        assert!(ends(2, &[&["sim", "demo"][..], more].concat()).1.contains("try `pageset replay demo`"));
    }
    let (_, err) = ends(2, &["sim", "kbuild", "x.zst", "--machine", "lkp-sb02"]);
    assert!(err.contains("x.zst: only the workload `trace` takes a recording"), "{err}");
    ends(4, &["sim", "trace", "Cargo.toml", "--machine", "lkp-sb02"]);
    let (_, err) = ends(5, &["sim", "trace", "demo", "--machine", "lkp-sb02"]);
    assert!(err.contains("help: `pageset demo` writes the built-in recording"), "{err}");
}

/// A short comparison: three batches on the smallest machine.
const SHORT: [&str; 12] = [
    "compare",
    "batch-31-63-127.csv",
    "--machine",
    "lkp-sb02",
    "--row",
    "page_fault2.processes",
    "--seconds",
    "0.02",
    "--warm-up",
    "0.01",
    "--seeds",
    "2",
];

#[test]
fn sizes_are_set_and_checked() {
    let run = |code, size: &str, workload: &str| {
        let arguments = ["sim", workload, "--size", size, "--machine", "lkp-sb02", "--tasks", "2", "--seconds", "0.01"];
        ends(code, &[&arguments[..], &["--warm-up", "0.005", "--rules", "linux-6.18"]].concat())
    };
    assert!(run(0, "1", "exit").0.contains("\n\nexit, 1 GiB on lkp-sb02 "));
    let (_, err) = run(2, "1", "malloc1");
    assert_eq!(err, "error: --size: malloc1 has no size; allowed with: exit\n");
    let (_, err) = run(1, "4096", "exit");
    assert!(err.contains("exit, 4096 GiB on a machine of ") && err.contains("try another --size"), "{err}");
    let (list, _) = ends(0, &["sim", "--list"]);
    assert!(list.contains("[100]"), "{list}");
}

#[test]
fn all_tables_are_compared() {
    let short = ["--seconds", "0.01", "--warm-up", "0.01", "--seeds", "2"];
    let all = |code, more: &[&str]| ends(code, &[&["compare", "--all-tables"][..], more, &short[..]].concat());
    let (text, _) = all(0, &["--machine", "lkp-sb02"]);
    let (json, _) = all(0, &["--machine", "lkp-sb02", "--json"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["schema"], "pageset.compare-page/1");
    let tables = json["tables"].as_array().expect("tables");
    let names: Vec<_> = tables.iter().map(|table| table["comparison"]["table"].as_str().unwrap()).collect();
    assert_eq!(names, ["page_fault1-batch-sweep.csv", "batch-31-63-127.csv"]);
    for table in tables {
        let values = table["values"].as_array().unwrap();
        let counted = values.iter().filter(|value| value["seen"] != "base").count();
        assert_eq!(table["counts"]["values"], counted);
        assert!(values.iter().all(|value| value["interval"].is_number()), "two seeds have an interval");
    }
    // The text has a line for each table, and for all of them.
    for name in names.iter().chain(&["all", "all, unseen values"]) {
        assert!(text.lines().any(|line| line.trim_start().starts_with(name)), "{name} is not in\n{text}");
    }
    // The CSV has a line for each value. Of one seed, values have intervals over time, and rows that have not settled are marked.
    let one =
        ["compare", "--all-tables", "--machine", "lkp-sb02", "--seconds", "0.01", "--warm-up", "0.01", "--seeds", "1"];
    let (csv, _) = ends(0, &[&one[..], &["--csv"]].concat());
    let values = tables.iter().map(|table| table["values"].as_array().unwrap().len()).sum::<usize>();
    assert_eq!(csv.lines().count(), values + 1, "{csv}");
    let heads: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let column = |name| heads.iter().position(|head| *head == name).unwrap_or_else(|| panic!("no {name} in {heads:?}"));
    let scores: Vec<Vec<&str>> = csv
        .lines()
        .map(|line| line.split(',').collect())
        // The keys of a row are one cell in quotes, with a comma.
        .filter(|cells: &Vec<&str>| cells[3] == "score")
        .collect();
    let cell = |cells: &[&str], name| cells[column(name) + 1].to_owned();
    assert!(scores.iter().all(|cells| cell(cells, "interval").parse::<f64>().unwrap() > 0.0), "{csv}");
    assert!(scores.iter().any(|cells| cell(cells, "unsettled") == "true"), "{csv}");
    assert!(
        csv.lines().any(|line| line.contains("\"lkp-sb02, 31\",score,amount,1744495.0,") && line.contains(",fitted,")),
        "{csv}"
    );
    let (_, err) = all(2, &["--machine", "pdp-11"]);
    assert!(err.contains("has all of pdp-11"), "{err}");
    ends(2, &["compare", "--all-tables", "page_fault1-batch-sweep.csv"]);
    let (_, err) = ends(2, &["compare"]);
    assert!(err.contains("built-in tables: page_fault1-batch-sweep.csv, "), "{err}");
}

#[test]
fn a_table_of_effects_is_compared() {
    let json = |jobs| {
        let arguments: Vec<&str> = SHORT.into_iter().chain(["--json", "--jobs", jobs]).collect();
        ends(0, &arguments).0
    };
    let text = json("1");
    assert_eq!(text, json("3"), "the result depends on the number of threads");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["schema"], "pageset.compare/1");
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!(
        (&row["workload"], &row["machine"]),
        (&"will-it-scale.page_fault2.processes".into(), &"lkp-sb02".into())
    );
    assert_eq!(row["published"]["batch63"], 837_844.0);
    assert_eq!(row["do_nothing"]["batch63"], 842_616.0);
    assert_eq!(row["simulated"]["batch31"], 842_616.0, "the base is not the table's");
    let changed = row["simulated"]["batch63"].as_f64().expect("a number");
    assert!(changed != 842_616.0 && (changed / 842_616.0 - 1.0).abs() < 0.1, "{changed}");
    // A run for each batch.
    let simulations = row["simulations"].as_array().expect("simulations");
    assert_eq!(simulations.len(), 3);
    assert!(simulations.iter().all(|one| one["workload"] == "page_fault2" && one["one_node_for_all"] == false));
}

#[test]
fn the_workload_determines_the_simulated_time() {
    let measured = |times: &[&str]| {
        let table = ["compare", "batch-31-63-127.csv", "--machine", "lkp-sb02", "--row", "malloc1.processes", "--json"];
        let json: Value = serde_json::from_str(&ends(0, &[&table[..], times].concat()).0).expect("JSON");
        let simulation = &json["rows"][0]["simulations"][0];
        (simulation["warm_up_ns"].as_u64(), simulation["measured_ns"][0].as_u64())
    };
    // Rounds of microseconds, which are known at once.
    assert_eq!(measured(&[]), (Some(20_000_000), Some(100_000_000)));
    assert_eq!(measured(&["--seconds", "0.002"]), (Some(20_000_000), Some(2_000_000)));
    assert_eq!(measured(&["--seconds", "0.002", "--warm-up", "0.001"]), (Some(1_000_000), Some(2_000_000)));
}

#[test]
fn notes_describe_deviations_from_the_table() {
    let short = ["compare", "single-pass-bulk-free.csv", "--row", "110", "--seconds", "0.001", "--warm-up", "0.001"];
    let note = "2-socket CascadeLake, 80 CPUs: page_fault1 processes, 110 tasks: simulated as 80, one on each CPU";
    let (out, _) = ends(0, &short);
    assert!(out.contains(note), "{out}");
    let json: Value = serde_json::from_str(&ends(0, &[&short[..], &["--json"]].concat()).0).expect("JSON");
    assert_eq!(json["notes"], json!([note]));
    assert_eq!(json["seeds"], json!([1]), "the default is one seed");
    assert_eq!(json["rows"][0]["simulations"][0]["tasks"], 80);
    ends(0, &["explain", "notes"]);
}

#[test]
fn the_text_counts_the_verdicts() {
    let (out, err) = ends(0, &SHORT);
    assert_eq!(err, "");
    for words in ["batch63", "doing nothing", "changes above 3 %: 0 of 0 with the right sign"] {
        assert!(out.contains(words), "{words}: {out}");
    }
}

#[test]
fn missing_rows_are_a_usage_error() {
    let (_, err) = ends(2, &["compare", "single-pass-bulk-free.csv", "--row", "quicksort"]);
    assert!(err.contains("--row quicksort: no row of single-pass-bulk-free.csv has it"), "{err}");
    let (_, err) = ends(2, &["compare", "single-pass-bulk-free.csv", "--batch", "31"]);
    assert!(err.contains("--batch: single-pass-bulk-free.csv has no rows of a batch"), "{err}");
    let (_, err) = ends(2, &["compare", "page_fault1-batch-sweep.csv", "--row", "quicksort"]);
    assert!(err.contains("--row quicksort: no row of page_fault1-batch-sweep.csv has it"), "{err}");
    let (_, err) = ends(5, &["compare", "quicksort.csv"]);
    assert!(err.contains("pcp-autotune-patch-by-patch.csv"), "the tables that there are: {err}");
}

/// Without a guest there is nothing to compare: no empty table is written.
#[test]
fn an_agent_that_watched_nothing_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("UTF-8");
    let (_, error) = ends(1, &["kernels", "--definition", "lab/agent.toml", "--dir", dir, "agent"]);
    assert!(error.contains(&format!("no guest of this definition has ended in {dir}; run `boot` first")), "{error}");
    assert!(!folder.path().join("agent.csv").exists());
}
