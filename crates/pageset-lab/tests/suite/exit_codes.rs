//! One table of exit codes: in the manual, and in what the commands do.

use std::fs;
use std::path::Path;

use crate::support::faults::{have_their_exit_codes, refuse_before_the_work, words};
use crate::support::{ends, faults};

#[test]
fn the_manual_and_the_help_have_the_same_table() {
    faults::the_manual_and_the_help_have_the_same_table();
}

/// The same fault has the same exit code in every command, and the manual has that code.
#[test]
fn the_same_fault_has_the_same_exit_code() {
    const USAGE: i32 = 2;
    const DAMAGED: i32 = 4;
    const UNREADABLE: i32 = 5;
    const UNWRITTEN: i32 = 6;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).into_os_string().into_string().unwrap();
    let (damaged, missing) = (at("damaged"), at("missing.toml"));
    fs::write(&damaged, "neither a recording nor a table\n").unwrap();
    let mut cases: Vec<(i32, Vec<String>)> = Vec::new();
    // A file that does not exist, and a folder.
    for file in [missing.as_str(), folder.path().to_str().unwrap()] {
        let lines = ["report FILE", "compare FILE", "predict compare FILE FILE", "sim trace FILE --machine vm-8"];
        cases.extend(lines.iter().map(|line| (UNREADABLE, words(line, file))));
    }
    let toml = ["machine show FILE", "sim page_fault1 --machine FILE", "diff FILE FILE"];
    cases.extend(toml.iter().map(|line| (UNREADABLE, words(line, &missing))));
    // A file of another kind.
    let lines = ["report FILE", "diff FILE FILE", "predict compare FILE FILE", "sim trace FILE --machine vm-8"];
    cases.extend(lines.iter().map(|line| (DAMAGED, words(line, &damaged))));
    // A file that cannot be written.
    cases.push((UNWRITTEN, words("machine detect -o FILE", &at("no-folder/out.toml"))));
    cases.push((UNWRITTEN, words("predict write 6.12-amd64.2cpu -o FILE", &at("no-folder/out"))));
    // A prediction stays as it was written.
    cases.push((1, words("predict write 6.12-amd64.2cpu -o FILE", &damaged)));
    cases.push((1, words("predict write no-such.boot -o FILE", &at("new"))));
    cases.push((UNWRITTEN, words("generate man FILE", &damaged)));
    // Wrong usage.
    cases.push((USAGE, words("machine detect -o FILE", &at("host"))));
    for subcommand in ["sim", "compare", "bench", "report", "diff"] {
        cases.push((USAGE, vec![subcommand.to_owned(), "--no-such-option".to_owned()]));
    }
    cases.push((USAGE, words("sim page_fault1 --machine no-such-machine", "")));
    have_their_exit_codes(&cases);
}

/// A result that cannot be written is reported before the work, not after it: nothing else is printed.
#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("no-folder/out").into_os_string().into_string().unwrap();
    let run = "page_fault1 --machine vm-8 --tasks 1 --duration 1ms --warm-up 1ms --seeds 1";
    let lines = [
        format!("sim {run} --json=FILE"),
        format!("sim {run} --csv=FILE"),
        "compare page_fault1-batch-sweep.csv --json=FILE".to_owned(),
        "compare --all-tables --csv=FILE".to_owned(),
        "bench --json=FILE".to_owned(),
        "bench --csv=FILE".to_owned(),
    ];
    refuse_before_the_work(&lines, [&nowhere, folder.path().to_str().unwrap()]);
}

/// Standard output on a full device: one exit code for all commands, and no panic.
#[test]
fn a_full_device_has_its_exit_code() {
    let lines = [
        "--help",
        "--version",
        "sim --help",
        "explain batch",
        "machine list",
        "machine detect",
        "generate completions bash",
    ];
    faults::a_full_device_has_its_exit_code(&lines);
}

/// A reader that takes one line and goes is no fault.
#[test]
fn a_closed_pipe_is_no_fault() {
    faults::a_closed_pipe_is_no_fault(&["generate completions zsh", "sim --list", "--help", "machine list"]);
}

/// A command of the other program, and an earlier name: the error says what to type.
#[test]
fn a_command_of_another_name_is_named() {
    for (name, now) in [
        ("run", "pageset-lab sim"),
        ("sweep", "pageset-lab sim --set KEY=VALUE,…"),
        ("replay", "pageset replay"),
        ("record", "pageset record"),
        ("advise", "pageset advise"),
    ] {
        let (_, error) = ends(2, &[&name, &"x", &"--json"]);
        assert_eq!(error, format!("error: unknown command `{name}`; try `{now}`\n"));
    }
}

#[test]
fn a_usage_error_shows_an_example() {
    for (line, example) in [
        ("sim", "sim page_fault1 --machine lkp-bdw-ep2 --rules linux-4.17,kernel"),
        ("study run", "study run study.toml --out results --jobs 2"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let words: Vec<&dyn AsRef<Path>> = words.iter().map(|word| word as &dyn AsRef<Path>).collect();
        let (_, error) = ends(2, &words);
        assert!(error.ends_with(&format!("\nExample: pageset-lab {example}\n")), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let host = folder.path().join("host.toml");
    let (_, text) = ends(0, &[&"machine", &"detect", &"-o", &host]);
    assert!(text.starts_with("next: pageset-lab sim page_fault1 --machine ") && host.exists(), "{text}");
}
