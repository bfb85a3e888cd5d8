//! One table of exit codes: in the manual, and in what the commands do.

use std::fs::{self, OpenOptions};

use crate::support::faults::{have_their_exit_codes, refuse_before_the_work, words};
use crate::support::{Small, command, ends, faults};

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
    let good_rules = format!("replay {good} --rules FILE");
    let mut cases: Vec<(i32, Vec<String>)> = Vec::new();
    // A file that does not exist, and a folder.
    let inputs =
        ["replay FILE", "replay --identify FILE", "trace info FILE", "trace export FILE", "report FILE", "advise FILE"];
    let import = format!("trace import FILE -o {out}");
    let with_zoneinfo = format!("replay {good} --snapshots FILE");
    for file in [missing, a_folder] {
        let more = ["top --from FILE", &import, &with_zoneinfo];
        cases.extend(inputs.iter().chain(&more).map(|line| (UNREADABLE, words(line, file))));
    }
    let toml = ["replay --list-rules --rules FILE", &good_rules];
    cases.extend(toml.iter().map(|line| (UNREADABLE, words(line, missing))));
    // A file of another kind.
    let more = ["top --from FILE", &import];
    cases.extend(inputs.iter().chain(&more).map(|line| (DAMAGED, words(line, damaged))));
    // A file that cannot be written.
    let lines = [
        format!("trace import {good} -o FILE"),
        format!("trace export {good} -o FILE"),
        format!("report {good} -o FILE"),
        format!("replay {good} --json=FILE"),
        format!("advise {good} --json=FILE"),
        "top --once -i 0.1 --no-count --openmetrics FILE".to_owned(),
    ];
    cases.extend(lines.iter().map(|line| (UNWRITTEN, words(line, &nowhere))));
    cases.push((UNWRITTEN, words("generate man FILE", damaged)));
    // Wrong usage.
    let (option, rules) = ("--no-such-option".to_owned(), format!("replay {good} --rules no-such-rules"));
    for subcommand in ["record", "replay", "advise", "top", "report"] {
        cases.push((USAGE, vec![subcommand.to_owned(), option.clone()]));
    }
    cases.push((USAGE, words(&rules, "")));
    cases.push((USAGE, words("explain no-such-name", "")));
    have_their_exit_codes(&cases);
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
    let lines = [
        format!("replay {good} --json=FILE"),
        format!("replay {good} --csv=FILE"),
        format!("replay {good} --timeline FILE"),
        format!("replay --identify {good} --json=FILE"),
        format!("trace info {good} --json=FILE"),
        format!("diff {good} {good} --json=FILE"),
        format!("advise {good} --json=FILE"),
        "advise --live 600 --json=FILE".to_owned(),
        format!("report {good} -o FILE"),
    ];
    refuse_before_the_work(&lines, [&nowhere, a_folder]);
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
    faults::a_full_device_has_its_exit_code(&[
        "--help",
        "--version",
        "replay --help",
        "replay --list-rules",
        "explain batch",
        "top --once -i 0.1 --no-count",
        "top --once -i 0.1 --no-count --json",
        "generate completions bash",
        &format!("trace info {events}"),
        &format!("trace export {events}"),
        &format!("report {events} -o -"),
        &format!("replay {events}"),
    ]);
}

/// A reader that takes one line and goes is no fault.
#[test]
fn a_closed_pipe_is_no_fault() {
    faults::a_closed_pipe_is_no_fault(&["generate completions zsh", "replay --list-rules", "--help"]);
}

/// A command of the other program, and an earlier name: the error says what to type.
#[test]
fn a_command_of_another_name_is_named() {
    for (name, now) in [
        ("run", "pageset-lab sim"),
        ("sweep", "pageset-lab sim --set KEY=VALUE,…"),
        ("study", "pageset-lab study"),
        ("compare", "pageset-lab compare"),
        ("machine", "pageset-lab machine"),
        ("interleave", "pageset-lab interleave"),
        ("bench", "pageset-lab bench"),
    ] {
        let (_, error) = ends(2, &[&name, &"x", &"--json"]);
        assert_eq!(error, format!("error: unknown command `{name}`; try `{now}`\n"));
    }
}

/// A closed standard output is an error of a command that writes there, and of no other.
#[test]
fn a_closed_standard_output_is_an_error() {
    let small = Small::new();
    let closed = |line: &[&str]| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "exec \"$0\" \"$@\" >&-", crate::PROGRAM]).args(line).output().unwrap()
    };
    let (file, out) = (small.events(), small.at("out.pstrace"));
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    for line in
        [&["trace", "info", file][..], &["replay", file], &["advise", file, "--json"], &["trace", "export", file]]
    {
        let output = closed(line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{line:?}: {error}");
        assert!(error.contains("error: cannot write the result: standard output is closed\n"), "{line:?}: {error}");
    }
    assert!(closed(&["trace", "import", file, "-o", out]).status.success());
    assert!(fs::metadata(out).is_ok_and(|file| file.len() > 0));
}

/// Names of files and texts of recordings reach a terminal or a page only with their control characters escaped.
#[test]
fn hostile_names_are_printable_in_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = "\u{1b}]0;title\u{7}\u{1b}[31mred\u{9b}2J\u{202e}";
    let file = folder.path().join(format!("a{hostile}.pstrace"));
    let small = Small::new();
    let trace = pageset_trace::Trace::open(&small.events()).unwrap();
    let text = || Some(hostile.to_owned());
    let facts = pageset_trace::Facts {
        command: vec![hostile.to_owned(), "two\nlines".to_owned()],
        kernel_release: text(),
        kernel_version: text(),
        thp_enabled: text(),
        clock: hostile.to_owned(),
        sources: vec![hostile.to_owned()],
        ..trace.facts().clone()
    };
    let mut writer = pageset_trace::file::Writer::create(Vec::new(), &facts).unwrap();
    for (tag, text) in &trace.snapshots().texts {
        writer.snapshot_text(tag, text).unwrap();
    }
    for event in trace.events().unwrap() {
        writer.event(&event.unwrap()).unwrap();
    }
    fs::write(&file, writer.finish().unwrap()).unwrap();
    let (name, page) = (file.to_str().unwrap(), folder.path().join("page.html"));
    let (page, missing) = (page.to_str().unwrap(), format!("{name}.missing"));
    let rules = format!("{hostile}.toml");
    let lines: &[&[&str]] = &[
        &["trace", "info", name],
        &["trace", "export", name],
        &["replay", name, "--wide"],
        &["replay", name, "--identify"],
        &["replay", name, "--check"],
        &["replay", name, "--rules", hostile],
        &["replay", name, "--rules", &rules],
        &["replay", name, "--set", hostile],
        &["advise", name],
        &["diff", name, name],
        &["report", name, "-o", page],
        &["report", name, "-o", "-"],
        &["top", "--from", name],
        &["explain", hostile],
        &["trace", "info", &missing],
        &["trace", "import", &missing, "-o", page],
        &["trace", "import", name, "-o", &format!("{missing}/out")],
        &["replay", &missing],
        &["advise", &missing],
        &["diff", &missing, &missing],
        &["report", &missing],
        &["top", "--from", &missing],
    ];
    for line in lines {
        let output = std::process::Command::new(crate::PROGRAM).args(*line).output().unwrap();
        let mut texts = vec![output.stdout, output.stderr];
        texts.extend(fs::read(page));
        for text in texts {
            let text = String::from_utf8_lossy(&text);
            let acts = |c: &char| c.is_control() && !matches!(c, '\n' | '\t') || *c == '\u{202e}';
            assert_eq!(text.chars().find(acts), None, "{line:?}: {text:?}");
        }
    }
}

/// A missing argument is followed by an example, and a place that cannot be written by what to do.
#[test]
fn a_usage_error_shows_an_example() {
    let (_, error) = ends(2, &[&"replay"]);
    assert!(error.ends_with("\nExample: pageset replay my.pstrace --rules kernel,linux-5.18\n"), "{error}");
    let (_, error) = ends(2, &[&"generate", &"man", &"-"]);
    assert!(error.contains("name a folder"), "{error}");
    let small = Small::new();
    let nowhere = small.at("no-folder/page.html");
    let (_, error) = ends(6, &[&"report", &small.events(), &"-o", &nowhere]);
    assert!(error.ends_with("\nhelp: make its folder first\n"), "{error}");
}
