//! `pageset-lab sim`, `compare` and `machine`, as a user runs them.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Standard output of a command that must end with `code`, and its standard error.
fn ends(code: i32, arguments: &[&str]) -> (String, String) {
    let output = Command::new(crate::PROGRAM).args(arguments).stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}\n{err}");
    (out, err)
}

/// The arguments of a short run.
const SHORT: [&str; 8] = ["sim", "page_fault1", "--machine", "lkp-sb02", "--seconds", "0.02", "--warm-up", "0.005"];

fn short<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SHORT.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn the_same_run_has_the_same_result_on_any_number_of_threads() {
    let with = |more: &[&str]| ends(0, &short(more)).0;
    let one = with(&["--seeds", "3", "--tasks", "1,4", "--json", "--jobs", "1"]);
    assert_eq!(one, with(&["--seeds", "3", "--tasks", "1,4", "--json", "--jobs", "1"]));
    assert_eq!(one, with(&["--seeds", "3", "--tasks", "1,4", "--json", "--jobs", "3"]));
    let json: Value = serde_json::from_str(&one).expect("JSON");
    assert_eq!(json["schema"], "pageset.run/1");
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    let samples = rows[1]["samples"].as_array().expect("samples");
    assert_eq!(samples.len(), 3);
    assert_ne!(samples[0]["zone_locks"], samples[1]["zone_locks"], "another seed gave the same run");
    // Four tasks share cores: their score is higher than that of one task, but less than four times as high.
    let score = |row: usize| rows[row]["score"]["mean"].as_f64().expect("a number");
    assert!(score(1) > 1.2 * score(0) && score(1) < 4.0 * score(0), "{} {}", score(0), score(1));
}

#[test]
fn a_table_has_a_row_for_each_set_of_rules_and_number_of_tasks() {
    let (out, err) =
        ends(0, &short(&["--rules", "linux-4.16,linux-6.18", "--set", "batch=31", "--tasks", "2,4", "--seeds", "1"]));
    assert_eq!(err, "", "progress is shown without a terminal");
    let rows: Vec<&str> = out.lines().filter(|line| line.starts_with(" linux-")).collect();
    assert_eq!(rows.len(), 4, "{out}");
    assert!(out.contains("zone lock %") && out.contains("alloc p50 ns"), "{out}");
}

/// The era is that of the preset's kernel or of `--era`; a rule does not change it.
#[test]
fn rules_do_not_change_the_era() {
    // The era of the first row, and the holds of the LRU lock that add pages.
    let row = |more: &[&str]| {
        let out = ends(0, &short(&[&["--tasks", "1", "--json"], more].concat())).0;
        let row = serde_json::from_str::<Value>(&out).expect("JSON")["rows"][0].clone();
        let holds = row["samples"][0]["lru_locks"]["alloc"]["holds"].as_u64().expect("a count");
        (row["era"].as_str().map(str::to_owned), holds)
    };
    let era = |name: &str| Some(name.to_owned());
    let (of_preset, holds) = row(&["--rules", "linux-5.14"]);
    assert_eq!(of_preset, era("linux-5.11"));
    for rule in ["type_at_drain=on", "scale_drain=off", "cache_slice_batches=4"] {
        let (of_rule, switched) = row(&["--rules", "linux-5.14", "--set", rule]);
        assert_eq!(of_rule, of_preset, "{rule}");
        assert!(switched.abs_diff(holds) < holds / 10, "{rule}: {switched} holds, {holds} before");
    }
    // Batches of 31 pages instead of 15.
    let (given, fewer) = row(&["--rules", "linux-5.14", "--era", "linux-6.12"]);
    assert_eq!(given, era("linux-6.10"));
    assert!(fewer < holds * 6 / 10, "{fewer}, {holds} before");
    assert_eq!(row(&[]).0, era("linux-6.10"), "the era of a preset without a kernel");
    let (_, err) = ends(2, &short(&["--era", "5.15"]));
    assert!(
        err.contains("unknown era `5.15`; allowed: linux-4.16, linux-5.11, posted, linux-6.10, or a release"),
        "{err}"
    );
}

/// A rule that a simulation would ignore gives no row that looks like another one.
#[test]
fn a_slice_of_the_cache_is_refused() {
    for values in ["cache_slice_pages=100", "cache_slice_pages=100,200"] {
        let (out, err) = ends(2, &short(&["--rules", "linux-6.18", "--set", values]));
        let message =
            "cache_slice_pages: a simulation takes the caches of its machine\nhelp: `pageset-lab machine show NAME`";
        assert!(out.is_empty() && err.contains(message), "{err}");
    }
}

#[test]
fn a_sweep_has_a_row_for_each_combination() {
    let values = ["--set", "batch=31,63", "--set", "high=186,100"];
    let (out, _) = ends(0, &short(&[&["--rules", "linux-4.17", "--seeds", "1"], &values[..]].concat()));
    let rows: Vec<&str> = out.lines().filter(|line| line.starts_with(" linux-4.17 batch=")).collect();
    assert_eq!(rows.len(), 4, "{out}");
    assert!(rows[1].contains("batch=31 high=100") && rows[2].contains("batch=63 high=186"), "{out}");
    for (more, message) in [
        (&["--set", "batch=31,0"][..], "--set batch=0"),
        (&["--set", "high"], "no `=`"),
        (&["--set", "batch=31", "--set", "batch=63"], "batch"),
    ] {
        let (_, err) = ends(2, &short(more));
        assert!(err.contains(message), "{more:?}: {err}");
    }
}

#[test]
fn interleavings_are_tried_under_each_set_of_rules() {
    let arguments = ["interleave", "--rules", "linux-4.17,linux-6.18", "--seeds", "5", "--checks", "4", "--jobs", "2"];
    let (out, _) = ends(0, &arguments);
    assert!(out.starts_with("No invariant was violated in 10 interleavings of 4 CPUs.\n\n"), "{out}");
    assert!(out.contains("linux-4.17") && out.contains("linux-6.18"), "{out}");
    let (_, err) = ends(2, &["interleave", "--cpus", "65"]);
    assert!(err.contains("--cpus"), "{err}");
}

#[test]
fn a_negative_time_or_precision_names_the_allowed_values() {
    for (flag, message) in [
        ("--duration", "allowed: 0.000001 to 100000 virtual seconds"),
        ("--warm-up", "allowed: 0.000001 to 100000 virtual seconds"),
        ("--precision", "allowed: 0 to 100 percent"),
    ] {
        let (_, err) = ends(2, &["compare", "page_fault1-batch-sweep.csv", flag, "-1"]);
        assert!(err.contains(flag) && err.contains(message), "{flag}: {err}");
    }
}

#[test]
fn an_impossible_run_is_a_usage_error() {
    for (more, message) in [
        (&["--tasks", "5"][..], "--tasks 5: 5 tasks on 4 CPUs; allowed: 1 to 4"),
        (&["--tasks", "0"], "--tasks 0: 0 tasks on 4 CPUs; allowed: 1 to 4"),
        (&["--rules", "linux-1"], "unknown rules `linux-1`"),
        (&["--set", "batch=0"], "batch"),
        (&["--seeds", "0"], "--seeds"),
    ] {
        let (_, err) = ends(2, &short(more));
        assert!(err.contains(message), "{more:?}: {err}");
    }
    let (_, err) = ends(2, &["sim", "page_fault9", "--machine", "lkp-sb02"]);
    assert!(
        err.contains("unknown workload `page_fault9`; the closest are page_fault3, page_fault2, page_fault1"),
        "{err}"
    );
    let (_, err) = ends(2, &["sim", "page_fault1", "--machine", "pdp-11"]);
    assert!(err.contains("unknown machine `pdp-11`; the closest are "), "{err}");
    let (_, err) = ends(2, &["sim", "page_fault1", "--machine", "lkp-sb02", "--seconds=-1"]);
    assert!(err.contains("allowed: 0.000001 to 100000 virtual seconds"), "{err}");
}

#[test]
fn a_machine_file_is_read_and_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("m.toml");
    let name = file.to_str().expect("UTF-8");
    let (text, _) = ends(0, &["machine", "show", "lkp-sb02"]);
    fs::write(&file, text.replace("cores_per_socket = 4", "cores_per_socket = 2")).expect("it is written");
    let mut arguments = short(&["--seeds", "1", "--json"]);
    arguments[3] = name;
    let json: Value = serde_json::from_str(&ends(0, &arguments).0).expect("JSON");
    assert_eq!(json["rows"][0]["tasks"], 2);

    fs::write(&file, text.replace("cores_per_socket = 4", "cores_per_socket = 0")).expect("it is written");
    let line = text.lines().position(|line| line.starts_with("cores_per_socket")).expect("the key") + 1;
    let (_, err) = ends(2, &arguments);
    assert_eq!(err, format!("error: {name}, line {line}, cores_per_socket: 0; allowed: 1 and above\n"));
}

#[test]
fn machines_are_listed_and_this_one_is_detected() {
    let (out, _) = ends(0, &["machine", "list"]);
    let row = out.lines().find(|line| line.contains("lkp-skl-4sp1")).expect("the machine");
    assert!(row.split_whitespace().take(4).eq(["lkp-skl-4sp1", "192", "4", "4"]), "{out}");
    if cfg!(target_os = "linux") {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("host.toml");
        let name = file.to_str().expect("UTF-8");
        ends(0, &["machine", "detect", "--output", name]);
        let (shown, _) = ends(0, &["machine", "show", name]);
        assert!(shown.contains("name = \"host\""), "{shown}");
    }
}

#[test]
fn shared_costs_predict_machines_that_were_left_out() {
    const SMALL: &str = "lkp-sb02,lkp-skl-d01,lkp-hsw-d01";
    let short = ["--seconds", "0.012", "--warm-up", "0.006", "--seeds", "1"];
    let sweep = ["compare", "page_fault1-batch-sweep.csv", "--leave-one-out", "--machine"];
    let (out, _) = ends(0, &[&sweep[..], &[SMALL, "--batch", "63"], &short].concat());
    let costs = |machine: &str| {
        let (_, note) =
            out.split_once(&format!("\n{machine}: costs of the other machines (fault_cycles / ")).expect("a note");
        note.split(", pace").next().map(str::to_owned)
    };
    assert_ne!(costs("lkp-sb02"), costs("lkp-skl-d01"), "leaving a machine out changes nothing");
    assert!(out.contains("\nnearer than doing nothing in "), "{out}");
    assert!(out.contains("; batch 31 on the surface through all simulations: zone lock "), "{out}");
    let folder = tempfile::tempdir().expect("a folder");
    let mine = folder.path().join("mine.csv");
    let table = "machine,batch,score,change_pct,zone_contention_pct,lru_contention_pct,total_contention_pct\n";
    std::fs::write(&mine, format!("{table}xeon-2s40,31,1000,0,1,1,2\nvm-8,31,1000,0,1,1,2\n")).expect("a file");
    let (_, err) = ends(2, &[&["compare", mine.to_str().expect("UTF-8"), "--leave-one-out"], &short[..]].concat());
    assert!(err.contains("cannot leave vm-8, xeon-2s40 out: no row of batch 31 of the built-in sweep"), "{err}");
    let (_, err) = ends(2, &[&sweep[..], &["lkp-sb02"]].concat());
    assert!(err.contains("cannot leave lkp-sb02 out: no machine is left; try more machines"), "{err}");
    let (_, err) = ends(1, &[&sweep[..], &["lkp-sb02,lkp-skl-d01", "--seconds", "1us", "--warm-up", "1us"]].concat());
    assert!(err.contains("lkp-skl-d01 finished no operation") && err.contains("a longer --duration"), "{err}");
    let (_, err) = ends(2, &["compare", "batch-31-63-127.csv", "--leave-one-out"]);
    assert!(err.contains("cannot leave machines out of batch-31-63-127.csv: not a sweep of batches"), "{err}");
}

#[test]
fn a_comparison_has_published_simulated_and_baselines() {
    let arguments = [
        "compare",
        "page_fault1-batch-sweep.csv",
        "--machine",
        "lkp-sb02",
        "--batch",
        "63,511",
        "--seconds",
        "0.02",
        "--warm-up",
        "0.005",
        "--seeds",
        "1",
        "--precision",
        "0",
        "--json",
    ];
    let json: Value = serde_json::from_str(&ends(0, &arguments).0).expect("JSON");
    assert_eq!(json["schema"], "pageset.compare/1");
    let rows = json["rows"].as_array().expect("rows");
    let batches: Vec<_> = rows.iter().map(|row| row["batch"].as_u64().expect("a batch")).collect();
    assert_eq!(batches, [31, 63, 511], "the base row is always included");
    let row = &rows[1];
    assert_eq!(row["published"]["score"], 1_758_469.0);
    assert_eq!(row["do_nothing"]["score"], 1_744_495.0);
    assert!(row["simulated"]["zone_contention_pct"].as_f64().expect("a number") >= 0.0);
    assert_eq!(rows[0]["simulated"]["change_pct"], 0.0);
    let simulations = json!([{
        "machine": "lkp-sb02", "workload": "page_fault1", "tasks": 4, "era": "linux-4.16", "seeds": [1], "warm_up_ns": 5_000_000, "length_ns": 20_000_000,
        "measured_ns": [20_000_000], "one_node_for_all": false,
    }]);
    let mut found = row["simulations"].clone();
    let steadiness = found[0].as_object_mut().and_then(|one| one.remove("steadiness")).expect("it is measured");
    assert_eq!(steadiness[0]["measured_ns"], 20_000_000);
    let interval = found[0].as_object_mut().and_then(|one| one.remove("interval")).expect("it is known");
    // A single seed has the interval over time.
    assert_eq!(interval, steadiness[0]["interval"]);
    assert_eq!(rows[0]["interval"]["zone_contention_pct"], steadiness_of(&rows[0])["interval"]["zone_points"]);
    assert_eq!(found, simulations);

    let (out, _) = ends(0, &arguments[..arguments.len() - 1]);
    assert!(out.contains("Mean absolute error"), "{out}");
    let table = ["compare", "page_fault1-batch-sweep.csv", "--machine", "lkp-sb02", "--batch", "31", "--json"];
    let short = ["--seconds", "0.004", "--warm-up", "0.002"];
    let json: Value = serde_json::from_str(&ends(0, &[&table[..], &short].concat()).0).expect("JSON");
    assert_eq!(json["seeds"], json!([1, 2, 3]), "the default seeds are those of fits");
    let (_, err) = ends(2, &["compare", "page_fault1-batch-sweep.csv", "--machine", "pdp-11"]);
    assert!(err.contains("--machine pdp-11: no row of page_fault1-batch-sweep.csv has it"), "{err}");
    let (_, err) = ends(5, &["compare", "no-such-table.csv"]);
    assert!(err.contains("no-such-table.csv: ") && err.contains("page_fault1-batch-sweep.csv"), "{err}");
}

/// How steady the first simulation of a row is, with its first seed.
fn steadiness_of(row: &Value) -> &Value {
    &row["simulations"][0]["steadiness"][0]
}

#[test]
fn a_run_measures_until_it_has_settled() {
    let run = ["sim", "malloc2", "--machine", "lkp-sb02", "--json"];
    let json = |more: &[&str]| -> Value { serde_json::from_str(&ends(0, &[&run, more].concat()).0).expect("JSON") };
    // Nothing is shared, so the shortest measurement is precise: a sixth of the limit.
    let found = json(&[]);
    assert_eq!((&found["precision_pct"], &found["measured_ns"]), (&json!(1.0), &json!(600_000_000)));
    assert_eq!(found["rows"][0]["settled"], true);
    let steadiness = &found["rows"][0]["samples"][0]["steadiness"];
    assert_eq!((&steadiness["warm_up_ns"], &steadiness["measured_ns"]), (&json!(20_000_000), &json!(100_000_000)));
    assert_eq!(found["rows"][0]["interval"], steadiness["interval"]);
    // Explicit times are kept.
    let fixed = json(&["--warm-up", "0.001", "--seconds", "0.006"]);
    let steadiness = &fixed["rows"][0]["samples"][0]["steadiness"];
    assert_eq!((&steadiness["warm_up_ns"], &steadiness["measured_ns"]), (&json!(1_000_000), &json!(6_000_000)));
    assert_eq!(fixed["precision_pct"], 0.0);
}

#[test]
fn a_run_that_has_not_settled_is_named() {
    // A task maps its first region: most of it frees nothing yet.
    let (out, _) = ends(0, &short(&["--tasks", "1", "--precision", "0.001"]));
    assert!(out.contains("at most 0.02 s after 0.005 s, until steady and known to 0.001 %, seeds 1 to 1"), "{out}");
    assert!(out.contains("\n1 of 1 simulations have not settled: "), "{out}");
    assert!(out.contains("The least certain is pageset, 1 tasks, seed 1:\nscore +- "), "{out}");
    let (out, _) = ends(0, &["sim", "malloc2", "--machine", "lkp-sb02"]);
    assert!(!out.contains("settled"), "{out}");
}

#[test]
fn a_comparison_over_numbers_of_tasks_has_errors_and_baselines() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tasks.csv");
    let name = file.to_str().expect("UTF-8");
    let head = "kernel,tasks,processes_faults_per_s,processes_stddev,threads_faults_per_s,threads_stddev\n";
    fs::write(&file, format!("{head}4.16-rc5,1,586305,747,587731,1766\n4.16-rc5,2,1131428,7396,1022890,7333\n"))
        .expect("it is written");
    let arguments = ["compare", name, "--seconds", "0.01", "--warm-up", "0.005", "--seeds", "1", "--json"];
    let json: Value = serde_json::from_str(&ends(0, &arguments).0).expect("JSON");
    assert_eq!(json["schema"], "pageset.compare/1");
    let row = &json["rows"][1];
    assert_eq!((&row["kernel"], &row["tasks"]), (&"4.16-rc5".into(), &2.into()));
    let score = |of: &str| row[of]["processes_faults_per_s"].as_f64().expect("a number");
    assert_eq!((score("published"), score("do_nothing")), (1_131_428.0, 586_305.0));
    assert!(score("simulated") > 586_305.0);
    let simulations = row["simulations"].as_array().expect("simulations");
    let told: Vec<_> = simulations.iter().map(|one| (&one["workload"], &one["tasks"])).collect();
    let two = json!(2);
    assert_eq!(told, [(&json!("page_fault1"), &two), (&json!("page_fault1-threads"), &two)]);
    let (out, _) = ends(0, &arguments[..arguments.len() - 1]);
    assert!(out.contains("processes_faults_per_s: mean error"), "{out}");
    let (_, err) = ends(2, &["compare", name, "--batch", "31"]);
    assert!(err.contains("--batch"), "{err}");
    fs::write(&file, format!("{head}4.16-rc5,41,586305,747,587731,1766\n")).expect("it is written");
    let (_, err) = ends(4, &["compare", name]);
    assert!(err.contains("line 2: tasks: 41; allowed: 1 to 40"), "{err}");
}

/// The JSON of a command that is interrupted after two seconds.
#[cfg(unix)]
fn interrupted(arguments: &[&str]) -> Value {
    use std::time::Duration;

    let child = Command::new(crate::PROGRAM)
        .args(arguments)
        .args(["--jobs", "1", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    std::thread::sleep(Duration::from_secs(2));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_finished_samples() {
    // A seed takes hundredths of a second, or tenths in a debug build: all seeds take longer than two seconds.
    let times = ["--seconds", "0.2", "--warm-up", "0.005", "--seeds", "1000"];
    let json = interrupted(&[&["sim", "page_fault1", "--machine", "lkp-sb02", "--tasks", "1"], &times[..]].concat());
    let samples = json["rows"][0]["samples"].as_array().expect("samples").len();
    assert!((1..1000).contains(&samples), "{samples}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_finished_rows_of_a_comparison() {
    // The first rows are short, the other rows of the same machine take far longer than the test.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.csv");
    let name = file.to_str().expect("UTF-8");
    let head = "machine,batch,score,change_pct,zone_contention_pct,lru_contention_pct,total_contention_pct\n";
    let row = |batch: u32| format!("lkp-sb02,{batch},1744495,0,0,0,0\n");
    let rows: String = std::iter::once(31).chain(1000..4000).map(row).collect();
    fs::write(&file, format!("{head}{rows}")).expect("it is written");
    let json = interrupted(&["compare", name, "--seconds", "0.02", "--warm-up", "0.005", "--seeds", "1"]);
    let rows = json["rows"].as_array().expect("rows");
    assert!((1..3001).contains(&rows.len()), "{}", rows.len());
    assert_eq!(rows[0]["batch"], 31);
    assert!(rows[0]["simulated"]["score"].as_f64().expect("a number") > 0.0);
}

#[test]
fn a_comparison_ends_at_the_requested_precision() {
    let with = |more: &[&str]| {
        let fixed = ["compare", "page_fault1-batch-sweep.csv", "--machine", "lkp-sb02", "--batch", "31"];
        let times = ["--seconds", "0.08", "--warm-up", "0.005", "--seeds", "1"];
        ends(0, &[&fixed[..], &times, more].concat()).0
    };
    // A precision of 100 % is reached after a sixth of the time.
    let (early, all) = (with(&["--precision", "100"]), with(&["--precision", "0"]));
    assert!(
        early.contains("\n\npage_fault1-batch-sweep.csv, at most 0.08 s after 0.005 s, until steady and"),
        "{early}"
    );
    assert!(
        all.contains("\n\npage_fault1-batch-sweep.csv, 0.08 s after 0.005 s, seeds 1 to 1, era linux-4.16\n"),
        "{all}"
    );
    assert_ne!(early.lines().last(), all.lines().last(), "an early end gave the same score");
    assert_eq!(early, with(&["--precision", "100"]));
}

#[test]
fn an_unknown_table_gets_a_list_of_all_kinds() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.csv");
    fs::write(&file, "a,b\n1,2\n").expect("it is written");
    let (_, err) = ends(4, &["compare", file.to_str().expect("UTF-8")]);
    for heading in
        ["machine,batch,score,", "kernel,tasks,", "workload,machine,batch31", "workload,state,", "experiment,"]
    {
        assert!(err.lines().any(|line| line.trim().starts_with(heading)), "{heading}: {err}");
    }
}
