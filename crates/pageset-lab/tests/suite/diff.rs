//! `pageset-lab diff`, as a user runs it.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{ends, json, strict};

/// Runs a simulation into a file.
fn simulate(rules: &str, seeds: &str, file: &Path) {
    simulate_with(&["--rules", rules, "--seeds", seeds], file);
}

fn simulate_with(options: &[&str], file: &Path) {
    let file = format!("--json={}", file.display());
    let words = ["sim", "page_fault1", "--machine", "vm-8", "--seconds", "0.02", "--warm-up", "0.01"];
    let words = words.into_iter().chain(options.iter().copied()).chain([file.as_str()]);
    let words: Vec<&str> = words.collect();
    let words: Vec<&dyn AsRef<Path>> = words.iter().map(|word| word as &dyn AsRef<Path>).collect();
    ends(0, &words);
}

#[test]
fn two_simulations_differ_by_more_than_noise() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    simulate("linux-4.17", "4", &at("old.json"));
    simulate("linux-6.18", "4", &at("new.json"));
    let (text, error) = ends(0, &[&"diff", &at("old.json"), &at("new.json"), &"--fail-above", &"5%"]);
    assert_eq!(error, "");
    assert!(text.contains(" rules        linux-4.17 in A, linux-6.18 in B\n"), "{text}");
    let row = |text: &str, name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(row(&text, " zone lock %").ends_with(" better"), "{text}");
    // The other way round: worse, and the check fails.
    let (text, error) = ends(1, &[&"diff", &at("new.json"), &at("old.json"), &"--fail-above", &"1%"]);
    assert!(row(&text, " zone lock %").ends_with(" WORSE, fails"), "{text}");
    assert!(error.starts_with("check failed: ") && error.ends_with(" rows are worse by more than 1 %\n"), "{error}");
    ends(0, &[&"diff", &at("new.json"), &at("old.json")]);
    // The same result on both sides.
    let (text, _) = ends(0, &[&"diff", &at("new.json"), &at("new.json"), &"--fail-above", &"0"]);
    assert!(!text.contains("WORSE") && !text.contains(" better"), "{text}");
}

#[test]
fn the_json_matches_its_schema_and_the_csv_has_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    simulate("linux-4.17", "2", &at("a.json"));
    simulate("pageset", "2", &at("b.json"));
    let out = [format!("--json={}", at("diff.json").display()), format!("--csv={}", at("diff.csv").display())];
    let (text, _) = ends(0, &[&"diff", &at("a.json"), &at("b.json"), &out[0], &out[1]]);
    let diff = json(&fs::read_to_string(at("diff.json")).unwrap());
    let schema = json(&ends(0, &[&"explain", &"--schema", &"diff"]).0);
    let schema = strict(&schema);
    let errors: Vec<String> = schema.iter_errors(&diff).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let model: pageset_report::diff::Diff = serde_json::from_value(diff.clone()).unwrap();
    assert_eq!(serde_json::to_value(&model).unwrap(), diff);
    let csv = fs::read_to_string(at("diff.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 1 + model.rows.len());
    assert!(lines[0].contains("metric") && lines[0].contains("interval.low"), "{csv}");
    for row in &model.rows {
        assert!(text.contains(&row.metric) && csv.contains(&row.metric), "{}", row.metric);
        assert_eq!((row.a.samples.len(), row.b.samples.len()), (2, 2));
    }
    // Every member is explained.
    fn members(value: &Value, names: &mut Vec<String>) {
        match value {
            Value::Object(object) => object.iter().for_each(|(name, value)| {
                names.push(name.clone());
                members(value, names);
            }),
            Value::Array(all) => all.iter().take(1).for_each(|value| members(value, names)),
            _ => {}
        }
    }
    let mut names = Vec::new();
    members(&diff, &mut names);
    for name in names.iter().filter(|name| *name != "schema") {
        ends(0, &[&"explain", name]);
    }
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (tasks, file) in [("1,2", "few.json"), ("3", "many.json")] {
        let words =
            ["sim", "page_fault1", "--machine", "vm-8", "--duration", "1ms", "--warm-up", "1ms", "--tasks", tasks];
        let mut words: Vec<String> = words.map(str::to_owned).to_vec();
        words.push(format!("--json={}", at(file).display()));
        ends(0, &words.iter().map(|word| word as &dyn AsRef<Path>).collect::<Vec<_>>());
    }
    let (_, error) = ends(2, &[&"diff", &at("few.json"), &at("many.json")]);
    let cases =
        |tasks: &str| format!("workload page_fault1, machine vm-8, rules pageset, era linux-6.10, tasks {tasks}, ");
    for part in ["A and B have nothing in common; A has ", &cases("1"), " and 1 more; B has ", &cases("3")] {
        assert!(error.contains(part), "{part}: {error}");
    }
    // What the product compares: the message names its command.
    for (text, message) in [
        ("{\"schema\": \"pageset.replay/1\"}", "`pageset diff` reads it"),
        ("a recording", "help: `pageset diff` reads recordings"),
    ] {
        fs::write(at("other"), text).unwrap();
        let (_, error) = ends(4, &[&"diff", &at("few.json"), &at("other")]);
        assert!(error.contains(message), "{error}");
    }
}
