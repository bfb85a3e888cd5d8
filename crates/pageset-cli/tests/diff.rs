//! `pageset diff`, as a user runs it.

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;
use support::{Small, ends, json, strict, trace};

/// Runs a simulation into a file.
fn simulate(rules: &str, seeds: &str, file: &Path) {
    simulate_with(&["--rules", rules, "--seeds", seeds], file);
}

fn simulate_with(options: &[&str], file: &Path) {
    let file = format!("--json={}", file.display());
    let words = ["run", "page_fault1", "--machine", "vm-8", "--seconds", "0.02", "--warm-up", "0.01"];
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

/// Fresh and aged memory are different cases: the difference is stated, and both in one folder stay apart.
#[test]
fn the_past_of_the_memory_is_part_of_the_case() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("both")).unwrap();
    simulate_with(&["--seeds", "1", "--tasks", "1"], &at("both/fresh.json"));
    simulate_with(&["--seeds", "1", "--tasks", "1", "--history", "2"], &at("both/aged.json"));
    let (text, _) = ends(0, &[&"diff", &at("both/fresh.json"), &at("both/aged.json")]);
    assert!(text.contains("fresh memory in A, memory aged by 2 turnovers in B\n"), "{text}");
    let (text, _) = ends(0, &[&"diff", &at("both"), &at("both")]);
    for memory in ["fresh memory", "memory aged by 2 turnovers"] {
        assert!(text.contains(memory), "{memory}: {text}");
    }
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
    let model: pageset_diff::Diff = serde_json::from_value(diff.clone()).unwrap();
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
fn recordings_of_two_kernels() {
    let of = |machine: &str| trace(&format!("lab/{machine}.unix1.pstrace"));
    let (text, _) = ends(0, &[&"diff", &of("6.12-amd64.4cpu"), &of("6.18-amd64.4cpu")]);
    assert!(text.contains(" kernel  linux-6.12.29 in A, linux-6.18 in B\n"), "{text}");
    assert!(text.contains("the noise of 6 of 8 rows is unknown"), "{text}");
    // Several on each side, in all forms: their noise is known.
    let lists = ["6.18-amd64.4cpu", "6.18-amd64.6g", "7.0-amd64.4cpu", "7.1-amd64.4cpu"]
        .map(|machine| of(machine).display().to_string());
    let (a, b) = (format!("{},{}", lists[0], lists[1]), format!("{},{}", lists[2], lists[3]));
    let (by_comma, _) = ends(0, &[&"diff", &a, &b]);
    let (by_dashes, _) = ends(0, &[&"diff", &lists[0], &lists[1], &"--", &lists[2], &lists[3]]);
    assert_eq!(by_comma, by_dashes);
    assert!(!by_comma.contains("noise unknown"), "{by_comma}");
    let folder = tempfile::tempdir().unwrap();
    for (side, files) in [("a", &lists[..2]), ("b", &lists[2..])] {
        fs::create_dir(folder.path().join(side)).unwrap();
        for file in files {
            fs::copy(file, folder.path().join(side).join(Path::new(file).file_name().unwrap())).unwrap();
        }
    }
    fs::write(folder.path().join("a/notes.txt"), "not compared").unwrap();
    let (by_folder, _) = ends(0, &[&"diff", &folder.path().join("a"), &folder.path().join("b")]);
    // Two lines name the files.
    assert_eq!(by_folder.lines().skip(2).collect::<Vec<_>>(), by_comma.lines().skip(2).collect::<Vec<_>>());
}

#[test]
fn replays_of_one_recording_under_two_rules() {
    let small = Small::new();
    for (rules, file) in [("linux-5.18", "old.json"), ("linux-6.18", "new.json")] {
        let json = format!("--json={}", small.at(file).display());
        ends(0, &[&"replay", &small.events(), &"--rules", &rules, &json]);
    }
    let (text, _) = ends(0, &[&"diff", &small.at("old.json"), &small.at("new.json"), &"--metric", &"locks/1000 ops"]);
    assert!(text.contains("linux-5.18 in A, linux-6.18 in B"), "{text}");
    assert!(text.contains("1 rows: 1 of unknown noise"), "{text}");
    let (_, error) = ends(2, &[&"diff", &small.at("old.json"), &small.at("new.json"), &"--metric", &"speed"]);
    assert!(error.contains("unknown metric `speed`; allowed: locks/1000 ops, "), "{error}");
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let small = Small::new();
    let (damaged, empty, other) = (small.at("damaged.json"), small.at("empty"), small.at("other.json"));
    fs::write(&damaged, "{\"schema\": ").unwrap();
    fs::write(&other, "{\"schema\": \"pageset.top/1\"}").unwrap();
    fs::create_dir(&empty).unwrap();
    let missing = small.at("missing");
    for (code, file, message) in [
        (5, &missing, "cannot read "),
        (4, &damaged, "EOF"),
        (4, &other, "results of the schema `pageset.top/1` are not compared"),
        (4, &empty, "the folder has no recording and no result"),
    ] {
        let (_, error) = ends(code, &[&"diff", &small.events(), file]);
        assert!(error.contains(message), "{error}");
    }
    let (_, error) = ends(2, &[&"diff", &small.events()]);
    assert!(error.contains("1 inputs given; allowed: two"), "{error}");
    simulate("pageset", "1", &small.at("run.json"));
    let (_, error) = ends(2, &[&"diff", &small.events(), &small.at("run.json")]);
    let [trace, run] = [small.events(), small.at("run.json")].map(|path| path.display().to_string());
    let message = format!(
        "error: cannot compare inputs of different kinds: in A, {trace} is a recording; in B, {run} is a result of run, sweep or \
         study\nhelp: compare recordings with recordings, "
    );
    assert!(error.starts_with(&message), "{error}");
    for (tasks, file) in [("1,2", "few.json"), ("3", "many.json")] {
        let words =
            ["run", "page_fault1", "--machine", "vm-8", "--duration", "1ms", "--warm-up", "1ms", "--tasks", tasks];
        let mut words: Vec<String> = words.map(str::to_owned).to_vec();
        words.push(format!("--json={}", small.at(file).display()));
        ends(0, &words.iter().map(|word| word as &dyn AsRef<Path>).collect::<Vec<_>>());
    }
    let (_, error) = ends(2, &[&"diff", &small.at("few.json"), &small.at("many.json")]);
    let cases =
        |tasks: &str| format!("workload page_fault1, machine vm-8, rules pageset, era linux-6.10, tasks {tasks}, ");
    for part in ["A and B have nothing in common; A has ", &cases("1"), " and 1 more; B has ", &cases("3")] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let (_, error) = ends(2, &[&"diff", &small.events(), &small.events(), &"--fail-above", &"much"]);
    assert!(error.contains("allowed: a percentage, such as 5%"), "{error}");
}
