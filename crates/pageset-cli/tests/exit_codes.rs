//! One table of exit codes: in each page of the manual, and in what the commands do.

mod support;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Stdio;

use support::{Small, command, ends, pageset};

/// The exit codes of a page of the manual, each with its meaning.
fn table(page: &str) -> BTreeMap<i32, String> {
    let section = page.split(".SH ").find(|section| section.starts_with("\"EXIT STATUS\"")).expect("EXIT STATUS");
    let rows = section.split(".TP\n").skip(1).map(|row| {
        let (code, meaning) = row.split_once('\n').unwrap();
        let digits: String = code.chars().filter(char::is_ascii_digit).collect();
        (digits.parse().unwrap(), meaning.lines().next().unwrap_or_default().to_owned())
    });
    rows.collect()
}

/// The table of the manual.
fn documented() -> BTreeMap<i32, String> {
    let folder = tempfile::tempdir().unwrap();
    ends(0, &[&"generate", &"man", &folder.path()]);
    let pages = fs::read_dir(folder.path()).unwrap().map(|page| fs::read_to_string(page.unwrap().path()).unwrap());
    let mut tables: Vec<BTreeMap<i32, String>> = pages.map(|page| table(&page)).collect();
    assert!(tables.len() > 15, "{}", tables.len());
    let first = tables.pop().unwrap();
    assert!(tables.iter().all(|other| *other == first), "the pages have different tables");
    first
}

#[test]
fn every_page_and_the_help_have_the_same_table() {
    let table = documented();
    let (help, _) = ends(0, &[&"--help"]);
    for (code, meaning) in &table {
        let row = format!("{code:>3}  {}", meaning.replace("\\-", "-"));
        assert!(help.replace("\n       ", " ").contains(&row), "{row:?} is not in the help:\n{help}");
    }
    assert_eq!(table.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 129, 130, 143]);
}

/// The same fault has the same exit code in every command, and the manual has that code.
#[test]
fn the_same_fault_has_the_same_exit_code() {
    const USAGE: i32 = 2;
    const DAMAGED: i32 = 4;
    const UNREADABLE: i32 = 5;
    const UNWRITTEN: i32 = 6;
    let table = documented();
    let small = Small::new();
    let good = small.events().into_os_string().into_string().unwrap();
    let damaged = small.at("damaged");
    fs::write(&damaged, "neither a recording nor a table\n").unwrap();
    let damaged = damaged.to_str().unwrap();
    let missing = small.at("missing.toml");
    let missing = missing.to_str().unwrap();
    let a_folder = small.0.path().to_str().unwrap();
    let out = small.at("out").into_os_string().into_string().unwrap();
    let nowhere = small.at("no-folder/out").into_os_string().into_string().unwrap();
    let on = |machine: &'static str| ["run", "page_fault1", "--machine", machine].map(str::to_owned).to_vec();
    let words =
        |line: &str, file: &str| -> Vec<String> { line.split(' ').map(|word| word.replace("FILE", file)).collect() };
    let good_rules = format!("replay {good} --rules FILE");
    let mut cases: Vec<(i32, Vec<String>)> = Vec::new();
    // A file that does not exist, and a folder.
    let inputs = ["replay FILE", "identify FILE", "trace info FILE", "trace export FILE", "report FILE", "advise FILE"];
    let import = format!("trace import FILE -o {out}");
    let with_zoneinfo = format!("replay {good} --snapshots FILE");
    for file in [missing, a_folder] {
        let more = ["top --from FILE", "compare FILE", "run trace FILE --machine vm-8", &import, &with_zoneinfo];
        cases.extend(inputs.iter().chain(&more).map(|line| (UNREADABLE, words(line, file))));
    }
    let toml = ["machine show FILE", "run page_fault1 --machine FILE", "replay --list-rules --rules FILE", &good_rules];
    cases.extend(toml.iter().map(|line| (UNREADABLE, words(line, missing))));
    // A file of another kind.
    let more = ["top --from FILE", "run trace FILE --machine vm-8", &import];
    cases.extend(inputs.iter().chain(&more).map(|line| (DAMAGED, words(line, damaged))));
    // A file that cannot be written.
    let lines = [
        format!("trace import {good} -o FILE"),
        format!("trace export {good} -o FILE"),
        format!("report {good} -o FILE"),
        format!("replay {good} --json=FILE"),
        format!("advise {good} --json=FILE"),
        "top --once -i 0.1 --no-count --openmetrics FILE".to_owned(),
        "machine detect -o FILE".to_owned(),
        "generate man FILE".to_owned(),
    ];
    cases.extend(lines.iter().map(|line| (UNWRITTEN, words(line, &nowhere))));
    // Wrong usage.
    let (option, rules) = ("--no-such-option".to_owned(), format!("replay {good} --rules no-such-rules"));
    for subcommand in ["record", "replay", "identify", "run", "sweep", "compare", "bench", "advise", "top", "report"] {
        cases.push((USAGE, vec![subcommand.to_owned(), option.clone()]));
    }
    cases.push((USAGE, words(&rules, "")));
    cases.push((USAGE, words("explain no-such-name", "")));
    cases.push((USAGE, on("no-such-machine")));
    let mut wrong = Vec::new();
    for (code, line) in &cases {
        assert!(table.contains_key(code), "exit code {code} is not in the manual");
        let line: Vec<&dyn AsRef<Path>> = line.iter().map(|word| word as &dyn AsRef<Path>).collect();
        let output = pageset(&line);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() != Some(*code) || !error.starts_with("error: ") || error.contains("no-folder/.tmp") {
            let shown: Vec<String> = line.iter().map(|word| word.as_ref().display().to_string()).collect();
            wrong.push(format!("{}: {}, not {code}: {error}", shown.join(" "), output.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The device of standard output is no file to replace: what was behind it stays.
#[test]
fn a_result_for_the_device_of_standard_output_is_appended() {
    let small = Small::new();
    let log = small.at("log");
    fs::write(&log, "earlier\n").unwrap();
    let end = OpenOptions::new().append(true).open(&log).unwrap();
    let mut info = command(&[&"trace", &"info", &small.events(), &"--json=/dev/stdout"]);
    assert!(info.stdout(end).status().unwrap().success());
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.starts_with("earlier\n") && text.contains("\"facts\""), "{text}");
}

/// A result that cannot be written is reported before the work, not after it: nothing else is printed.
#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_work() {
    let small = Small::new();
    let good = small.events().into_os_string().into_string().unwrap();
    let nowhere = small.at("no-folder/out").into_os_string().into_string().unwrap();
    let a_folder = small.0.path().to_str().unwrap();
    let run = "page_fault1 --machine vm-8 --tasks 1 --duration 1ms --warm-up 1ms --seeds 1";
    let lines = [
        format!("run {run} --json=FILE"),
        format!("run {run} --csv=FILE"),
        format!("run {run} --timeline FILE"),
        format!("sweep {run} --batch 31 --json=FILE"),
        "compare page_fault1-batch-sweep.csv --json=FILE".to_owned(),
        "compare --all-tables --csv=FILE".to_owned(),
        "machine calibrate lkp-skl-4sp1 --json=FILE".to_owned(),
        "machine share --json=FILE".to_owned(),
        "bench --json=FILE".to_owned(),
        "bench --nodes 1 --csv=FILE".to_owned(),
        format!("replay {good} --json=FILE"),
        format!("replay {good} --csv=FILE"),
        format!("replay {good} --timeline FILE"),
        format!("identify {good} --json=FILE"),
        format!("trace info {good} --json=FILE"),
        format!("diff {good} {good} --json=FILE"),
        format!("advise {good} --json=FILE"),
        "advise --live 600 --json=FILE".to_owned(),
        format!("report {good} -o FILE"),
    ];
    for (line, file) in lines.iter().flat_map(|line| [(line, nowhere.as_str()), (line, a_folder)]) {
        let words: Vec<String> = line.split(' ').map(|word| word.replace("FILE", file)).collect();
        let words: Vec<&dyn AsRef<Path>> = words.iter().map(|word| word as &dyn AsRef<Path>).collect();
        let (out, error) = ends(6, &words);
        assert_eq!(out, "", "{line}");
        let lines: Vec<&str> = error.lines().filter(|line| !line.starts_with("note: external allocators")).collect();
        assert!(lines.len() == 1 && lines[0].starts_with(&format!("error: cannot write {file}: ")), "{line}: {error}");
    }
}

/// The check before the work changes no file, and leaves no other file in the folder.
#[test]
fn work_that_fails_leaves_the_output_as_it_was() {
    let small = Small::new();
    let (kept, damaged) = (small.at("kept.json"), small.at("damaged"));
    fs::write(&kept, "kept").unwrap();
    fs::write(&damaged, "neither a recording nor a table\n").unwrap();
    let files = || fs::read_dir(small.0.path()).unwrap().count();
    let before = files();
    for file in [&kept, &small.at("new.json")] {
        ends(4, &[&"diff", &damaged, &damaged, &format!("--json={}", file.display())]);
    }
    assert_eq!((fs::read_to_string(&kept).unwrap().as_str(), files()), ("kept", before));
}

/// Standard output on a full device: one exit code for all commands, and no panic.
#[test]
fn a_full_device_has_its_exit_code() {
    let small = Small::new();
    let events = small.events().into_os_string().into_string().unwrap();
    for line in [
        "--help",
        "--version",
        "replay --help",
        "replay --list-rules",
        "explain batch",
        "machine list",
        "machine detect",
        "top --once -i 0.1 --no-count",
        "top --once -i 0.1 --no-count --json",
        "generate completions bash",
        &format!("trace info {events}"),
        &format!("trace export {events}"),
        &format!("report {events} -o -"),
        &format!("replay {events}"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let words: Vec<&dyn AsRef<Path>> = words.iter().map(|word| word as &dyn AsRef<Path>).collect();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(&words).stdout(full).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let output = output.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(6), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A reader that takes one line and goes is no fault.
#[test]
fn a_closed_pipe_is_no_fault() {
    for line in ["generate completions zsh", "replay --list-rules", "--help", "machine list"] {
        let words: Vec<&str> = line.split(' ').collect();
        let words: Vec<&dyn AsRef<Path>> = words.iter().map(|word| word as &dyn AsRef<Path>).collect();
        let mut child = command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), error.as_str()), (Some(0), ""), "{line}");
    }
}
