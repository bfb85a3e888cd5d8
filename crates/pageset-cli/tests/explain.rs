//! `pageset explain` and `pageset generate`, as a user runs them.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{Small, ends, json, strict};

#[test]
fn a_printed_warning_is_explained() {
    let small = Small::new();
    let (text, _) = ends(0, &[&"replay", &small.events()]);
    let warnings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("warning: ")).collect();
    assert!(!warnings.is_empty(), "{text}");
    for warning in warnings {
        let (said, _) = ends(0, &[&"explain", &warning]);
        assert!(said.contains(" (warning)\n") && said.contains("to do: "), "{warning}: {said}");
    }
}

/// The names of all members, at any depth.
fn members(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                names.push(name.clone());
                members(value, names);
            }
        }
        Value::Array(all) => all.iter().for_each(|value| members(value, names)),
        _ => {}
    }
}

/// The column headings of the tables in a text. A heading is a line followed by a row, which has numbers.
fn headings(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    // Columns are separated by two spaces or more; a heading contains single spaces.
    let cells =
        |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect();
    let table = |pair: &&[&str]| {
        let (head, row): (Vec<String>, Vec<String>) = (cells(pair[0]), cells(pair[1]));
        head.len() > 2
            && row.len() > 2
            && !head[1].starts_with(|c: char| c.is_ascii_digit())
            && row[1..].iter().any(|cell| cell.starts_with(|c: char| c.is_ascii_digit()))
    };
    let heads = lines.windows(2).filter(table).map(|pair| cells(pair[0])).collect::<Vec<Vec<String>>>();
    heads
        .into_iter()
        .filter(|head| head.iter().skip(1).all(|cell| !cell.starts_with(|c: char| c.is_ascii_digit())))
        .flatten()
        .collect()
}

/// Each name in the text and the JSON of simulations and benchmarks has an entry.
#[test]
fn headings_and_members_are_explained() {
    let short = ["--seconds", "0.01", "--warm-up", "0.005", "--seeds", "2"];
    let machine = ["--machine", "lkp-sb02"];
    let bench = ["bench", "--no-peers", "--threads", "1", "--rounds", "1", "--window-ms", "1"];
    let of = |words: &[&[&'static str]]| words.concat();
    let commands = [
        of(&[&["run", "page_fault1", "--tasks", "1,2"], &machine, &short]),
        of(&[&["sweep", "page_fault1", "--tasks", "1", "--batch", "31,63"], &machine, &short]),
        of(&[&["compare", "page_fault1-batch-sweep.csv", "--batch", "63,511"], &machine, &short]),
        of(&[
            &["compare", "page_fault1-1-to-40-tasks.csv"],
            &["--seconds", "0.002", "--warm-up", "0.001", "--seeds", "1"],
        ]),
        of(&[&bench, &["--who", "floor b,pageset", "--patterns", "hot,churn"]]),
    ];
    let mut seen = BTreeSet::new();
    for command in &commands {
        let schema = json(&ends(0, &[&"explain", &"--schema", &command[0]]).0);
        let valid = strict(&schema);
        let arguments = |more: &'static [&'static str]| command.iter().chain(more).copied().collect::<Vec<_>>();
        let run = |arguments: Vec<&'static str>| {
            let arguments: Vec<&dyn AsRef<std::path::Path>> = arguments.iter().map(|word| word as _).collect();
            ends(0, &arguments).0
        };
        let mut names = headings(&run(arguments(&[])));
        assert!(names.len() >= 3, "no table of {command:?}: {names:?}");
        let result = json(&run(arguments(&["--json"])));
        let wrong: Vec<String> = valid.iter_errors(&result).map(|error| error.to_string()).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{command:?}");
        assert!(!valid.is_valid(&json("{ \"schema\": 1 }")), "{command:?}: the schema allows anything");
        members(&result, &mut names);
        for name in names {
            if seen.insert(name.clone()) {
                ends(0, &[&"explain", &name]);
            }
        }
    }
    assert!(seen.len() > 80, "{} names only", seen.len());
}

#[test]
fn the_fit_of_a_machine_matches_its_schema() {
    let (list, _) = ends(0, &[&"explain", &"--schema"]);
    assert_eq!(
        list,
        "status\nreplay\nidentify\nadvise\ntrace info\ndiff\nrun\nsweep\ncompare\ncompare --all-tables\ncalibrate\nshare\nbench\n\
         machine measure\ntop\n"
    );
    let schema = json(&ends(0, &[&"explain", &"--schema", &"pageset.calibrate/2"]).0);
    let fit = ["machine", "calibrate", "lkp-sb02", "--seconds", "0.004", "--warm-up", "0.002", "--json"];
    let fit: Vec<&dyn AsRef<std::path::Path>> = fit.iter().map(|word| word as _).collect();
    let fit = json(&ends(0, &fit).0);
    assert_eq!((&fit["schema"], &fit["seeds"]), (&"pageset.calibrate/2".into(), &serde_json::json!([1, 2, 3])));
    strict(&schema).validate(&fit).unwrap();
    let share = [
        "machine",
        "share",
        "--machine",
        "lkp-sb02,lkp-skl-d01",
        "--seeds",
        "1",
        "--seconds",
        "0.004",
        "--warm-up",
        "0.002",
        "--json",
    ];
    let share: Vec<&dyn AsRef<std::path::Path>> = share.iter().map(|word| word as _).collect();
    let share = json(&ends(0, &share).0);
    strict(&json(&ends(0, &[&"explain", &"--schema", &"pageset.share/3"]).0)).validate(&share).unwrap();
    let mut names = Vec::new();
    members(&fit, &mut names);
    members(&share, &mut names);
    for name in names {
        ends(0, &[&"explain", &name]);
    }
    let (_, error) = ends(2, &[&"explain", &"--schema", &"replays"]);
    assert!(error.contains("unknown result `replays`; allowed: status, replay, identify, advise, trace info, diff, run, sweep, compare, compare --all-tables, calibrate, share, bench, machine measure, top"), "{error}");
}

/// Each member of the JSON of a replay, a check, a look and an advice has an entry.
#[test]
fn members_of_measured_results_are_explained() {
    let small = Small::new();
    let (events, replay, advice) = (small.events(), small.at("replay.json"), small.at("advice.json"));
    ends(0, &[&"replay", &events, &"--check", &"--json", &replay]);
    ends(0, &[&"advise", &events, &"--json", &advice]);
    let read = |file| json(&fs::read_to_string(file).unwrap());
    let (info, _) = ends(0, &[&"trace", &"info", &events, &"--json"]);
    let (looks, _) = ends(0, &[&"top", &"--once", &"--interval", &"0.1", &"--json"]);
    let look = json(looks.lines().next().unwrap());
    let mut names = Vec::new();
    [read(replay), read(advice), json(&info), look].iter().for_each(|value| members(value, &mut names));
    // The numbers of CPUs are also members.
    let names: BTreeSet<&String> = names.iter().filter(|name| name.parse::<u32>().is_err()).collect();
    assert!(names.len() > 150, "{} names only", names.len());
    for name in names {
        ends(0, &[&"explain", name]);
    }
}

#[test]
fn an_unknown_name_is_an_error_with_a_suggestion() {
    let (out, error) = ends(2, &[&"explain", &"most hled"]);
    assert_eq!(out, "");
    assert!(error.contains("unknown name `most hled`; the closest are most held, "), "{error}");
}

/// Looks match their schema: without and with a previous look.
#[test]
fn looks_match_their_schema() {
    let (text, _) = ends(0, &[&"explain", &"--schema", &"top"]);
    assert_eq!(text, ends(0, &[&"explain", &"--schema", &"pageset.top/1"]).0);
    let schema = strict(&json(&text));
    let (looks, _) = ends(0, &[&"top", &"--made-up", &"8x2", &"--json", &"-n", &"3"]);
    let (live, _) = ends(0, &[&"top", &"--json", &"-n", &"2", &"-i", &"0.1"]);
    for look in looks.lines().chain(live.lines()).map(json) {
        let errors: Vec<String> = schema.iter_errors(&look).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        for member in ["schema", "kernel", "zones", "missing"] {
            let mut without = look.clone();
            without.as_object_mut().unwrap().remove(member);
            assert!(!schema.is_valid(&without), "without {member}");
        }
    }
}

/// What a shell offers for the last word.
fn offered(shell: &str, script: &Path, folder: &Path, words: &[&str]) -> Option<Vec<String>> {
    let script = script.display();
    let line = words.join(" ");
    let mut command = Command::new(shell);
    match shell {
        "bash" => command.args(["--norc", "-c"]).arg(format!(
            "source {script}; COMP_WORDS=({line} ''); COMP_CWORD={}; _pageset pageset '' {}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.len(),
            words[words.len() - 1]
        )),
        _ => command.args(["--no-config", "-c"]).arg(format!("source {script}; complete -C '{line} '")),
    };
    // fish completes commands that exist only.
    let own = Path::new(env!("CARGO_BIN_EXE_pageset")).parent().unwrap().display();
    command.env("PATH", format!("{own}:{}", std::env::var("PATH").unwrap_or_default()));
    let output = match command.current_dir(folder).stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => {
            println!("SKIPPED offered: {shell}: {error}");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

/// Where a .toml file is allowed, shells offer the names and such files.
#[test]
fn completions_offer_names_and_files() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["mine.toml", "other.json"] {
        fs::write(folder.path().join(file), "").unwrap();
    }
    for shell in ["bash", "fish"] {
        let script = folder.path().join(shell);
        fs::write(&script, ends(0, &[&"generate", &"completions", &shell]).0).unwrap();
        for (words, name, has_files) in [
            (&["pageset", "replay", "--rules"][..], "linux-6.18", true),
            (&["pageset", "run", "--rules"], "kernel", true),
            (&["pageset", "run", "--machine"], "vm-8", true),
            (&["pageset", "compare", "--machine"], "vm-8", false),
        ] {
            let Some(words_offered) = offered(shell, &script, folder.path(), words) else { continue };
            let has = |word: &str| words_offered.iter().any(|offered| offered == word);
            assert!(has(name), "{shell}: {words:?}: {words_offered:?}");
            assert_eq!(has("mine.toml"), has_files, "{shell}: {words:?}: {words_offered:?}");
            // fish offers other files after those with the ending.
            assert!(!has("other.json") || shell == "fish" && has_files, "{shell}: {words:?}: {words_offered:?}");
        }
    }
    let (script, _) = ends(0, &[&"generate", &"completions", &"zsh"]);
    let machine = script.lines().find(|line| line.contains("--machine=[The machine by name")).unwrap();
    assert!(machine.ends_with(")\" \"files\\:file\\:_files -g \\*.toml\"}' \\"), "{machine}");
    assert!(machine.contains(":NAME:{_alternative \"names\\:name\\:("), "{machine}");
}

#[test]
fn man_pages_and_completions_know_every_subcommand() {
    let (help, _) = ends(0, &[&"-h"]);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.contains(&"replay") && !commands.contains(&"generate"), "{help}");
    let folder = tempfile::tempdir().unwrap();
    ends(0, &[&"generate", &"man", &folder.path()]);
    for name in &commands {
        let page = fs::read_to_string(folder.path().join(format!("pageset-{name}.1"))).unwrap();
        assert!(page.contains(".SH OPTIONS") && page.contains(".SH DESCRIPTION"), "{name}: {page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let (script, _) = ends(0, &[&"generate", &"completions", &shell]);
        assert!(commands.iter().all(|name| script.contains(name)), "{shell}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (script, _) = ends(0, &[&"generate", &"completions", &shell]);
        assert!(!script.contains("@toml@"), "{shell}: a place for files is left");
    }
    let (_, error) = ends(6, &[&"generate", &"man", &folder.path().join("none")]);
    assert!(error.contains("none"), "{error}");
}
