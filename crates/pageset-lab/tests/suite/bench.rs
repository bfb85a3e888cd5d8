//! `pageset-lab bench` as a user runs it. The figures depend on the machine; the form of the output does not.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(crate::PROGRAM);
    command.args(["bench", "--no-peers"]).args(args).output().expect("the command")
}

/// External allocators take part if their program is in `PATH`, with the same arguments. Otherwise the command says so.
#[test]
fn peers_are_run_if_installed() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let run = || {
        let mut command = Command::new(crate::PROGRAM);
        command.env("PATH", folder.path()).args(["bench", "--who", "floor b", "--patterns", "hot", "--threads", "1"]);
        command.args(["--rounds", "1", "--window-ms", "1"]).output().expect("the command")
    };
    let without = run();
    assert!(without.status.success());
    assert!(
        text(&without.stderr).starts_with("note: external allocators are not measured: pageset-bench-peers is neither")
    );
    let program = folder.path().join("pageset-bench-peers");
    let script = |text: &str| {
        std::fs::write(&program, format!("#!/bin/sh\necho \"$@\" >&2\n{text}\n")).expect("a script");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
    };
    let result = r#"{ "schema": "pageset.bench/1", "machine": { "processor": "P", "kernel": "K", "cpus": 2 },
        "window_ns": 1000000, "rounds": 1, "interrupted": false, "rows": [{ "who": "jemalloc", "pattern": "hot",
        "threads": 1, "ns_per_pair": [7.5], "asleep": [0.0], "discarded": 0, "discarded_samples": [], "not_pinned": 0,
        "failed": null, "ratio_to_floor_b": 2.5 }] }"#;
    script(&format!("echo '{result}'"));
    let with = run();
    assert_eq!(with.status.code(), Some(0));
    assert_eq!(text(&with.stderr), "--who floor b --patterns hot --threads 1 --rounds 1 --window-ms 1\n");
    let row =
        text(&with.stdout).lines().nth(3).map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    assert!(text(&with.stdout).starts_with("No verdict. No sample of the pool was kept. Trust low"));
    assert_eq!(row, Some(["jemalloc", "7.5", "(2.50)"].map(str::to_owned).into()), "{}", text(&with.stdout));
    script("exit 2");
    assert_eq!(run().status.code(), Some(2), "the exit code of wrong usage is passed on");
    script("exit 7");
    let failed = run();
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed.stderr).ends_with("/pageset-bench-peers: exit status: 7\n"), "{}", text(&failed.stderr));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn json_has_every_sample_and_the_discarded_ones() {
    let patterns = "hot,bulk,random,churn,order-9,calls-32,half-9,old-64k,old-2m,old-4m";
    let out = bench(&["--patterns", patterns, "--threads", "1", "--rounds", "2", "--window-ms", "1", "--json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let report: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!((&report["schema"], &report["window_ns"]), (&"pageset.bench/1".into(), &1_000_000.into()));
    assert_eq!((&report["rounds"], &report["interrupted"]), (&2.into(), &false.into()));
    let rows = report["rows"].as_array().expect("rows");
    let mut thrown_away = 0;
    for pattern in patterns.split(',') {
        let of_pattern: Vec<&Value> = rows.iter().filter(|row| row["pattern"] == pattern).collect();
        let names: Vec<&str> = of_pattern.iter().filter_map(|row| row["who"].as_str()).collect();
        let no_floor = ["order-9", "half-9"].contains(&pattern);
        let all: &[&str] = if no_floor { &["pageset"] } else { &["floor b", "pageset"] };
        assert_eq!(names, all, "{pattern}");
        for row in of_pattern {
            let samples = row["ns_per_pair"].as_array().expect("samples");
            let discarded = row["discarded"].as_u64().expect("a count");
            thrown_away += discarded;
            let values = row["discarded_samples"].as_array().expect("samples");
            assert_eq!(values.len() as u64, discarded, "{row}");
            let is_share =
                |value: &Value| value["cpu_share"].as_f64().is_some_and(|share| (0.0..0.97).contains(&share));
            assert!(values.iter().all(|value| is_share(value) && value["ns_per_pair"].is_f64()), "{row}");
            assert!(row["failed"].is_null(), "{row}");
            assert_eq!(row["threads"], 1);
            assert!(samples.len() <= 2 && samples.len() as u64 + discarded >= 2, "{row}");
            assert!(samples.iter().all(|ns| ns.as_f64().is_some_and(|ns| ns > 0.0 && ns < 1e9)), "{row}");
            if no_floor {
                assert!(row["ratio_to_floor_b"].is_null(), "{row}");
            } else if row["who"] == "floor b" && !samples.is_empty() {
                assert_eq!(row["ratio_to_floor_b"], 1.0);
            }
        }
    }
    let said = text(&out.stderr);
    assert_eq!(said.contains("were thrown away"), thrown_away > 0, "{said}");
}

#[test]
fn the_table_has_a_row_for_each_and_floor_b_always() {
    let out = bench(&["--patterns", "hot", "--who", "pageset", "--threads", "1", "--rounds", "1", "--window-ms", "1"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let table = text(&out.stdout);
    let first_words: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(first_words, ["ns", "floor", "pageset", "In"], "{table}");
}

/// Half of 4 GiB does not fit into 2 GiB of address space: a warning and the table say so.
#[test]
fn a_subject_that_cannot_be_built_is_reported() {
    let pageset = crate::PROGRAM;
    let args = "bench --no-peers --patterns half --who pageset --threads 1 --rounds 1 --window-ms 1";
    let limited = format!("ulimit -v 2097152; exec '{pageset}' {args}");
    let out = Command::new("sh").args(["-c", &limited]).output().expect("a shell");
    let (table, said) = (text(&out.stdout), text(&out.stderr));
    assert!(out.status.success(), "{said}");
    assert!(
        said.contains("warning: pageset, half 1T: could not be built: cannot reserve address space (4294967296 bytes)"),
        "{said}"
    );
    assert!(table.lines().any(|line| line.split_whitespace().eq(["pageset", "failed"])), "{table}");
}

#[test]
fn an_impossible_measurement_is_a_usage_error() {
    for (args, said) in [
        (["--who", "nobody"], "unknown allocator `nobody`; allowed: floor b, pageset"),
        (["--threads", "0"], "cannot use 0 threads; allowed: 1 to "),
        (["--threads", "65537"], "cannot use 65537 threads; allowed: 1 to "),
        (["--patterns", "hottest"], "no such pattern; allowed: hot, bulk, random, churn, remote, order-9, calls-32"),
        (["--rounds", "0"], "0 is not in 1..=10000"),
    ] {
        let out = bench(&args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(text(&out.stderr).contains(said), "{args:?}: {}", text(&out.stderr));
        assert!(out.stdout.is_empty(), "{args:?}");
    }
    // The pattern remote needs two CPUs.
    let out = bench(&["--patterns", "remote", "--threads", "1"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("pattern remote does not support [1] threads; allowed: --threads 2"));
}
