//! `pageset-lab explain` and `pageset-lab generate`, as a user runs them.

use std::collections::BTreeSet;

use crate::support::explained::{completions_offer, headings, members, pages_and_completions_know_every_subcommand};
use crate::support::{ends, json, strict};

/// Each name in the text and the JSON of simulations and benchmarks has an entry.
#[test]
fn headings_and_members_are_explained() {
    let short = ["--seconds", "0.01", "--warm-up", "0.005", "--seeds", "2"];
    let machine = ["--machine", "lkp-sb02"];
    let bench = ["bench", "--no-peers", "--threads", "1", "--rounds", "1", "--window-ms", "1"];
    let of = |words: &[&[&'static str]]| words.concat();
    let commands = [
        of(&[&["sim", "page_fault1", "--tasks", "1,2"], &machine, &short]),
        of(&[&["sim", "page_fault1", "--tasks", "1", "--set", "batch=31,63"], &machine, &short]),
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
fn schemas_are_listed() {
    let (list, _) = ends(0, &[&"explain", &"--schema"]);
    assert_eq!(list, "sim\ncompare\ncompare --all-tables\nbench\ndiff\n");
}

#[test]
fn completions_offer_names_and_files() {
    completions_offer(&[
        (&["pageset-lab", "sim", "--rules"], "kernel", true),
        (&["pageset-lab", "sim", "--machine"], "vm-8", true),
        (&["pageset-lab", "compare", "--machine"], "vm-8", false),
    ]);
    let (script, _) = ends(0, &[&"generate", &"completions", &"zsh"]);
    let machine = script.lines().find(|line| line.contains("--machine=[The machine by name")).unwrap();
    assert!(machine.ends_with(")\" \"files\\:file\\:_files -g \\*.toml\"}' \\"), "{machine}");
    assert!(machine.contains(":NAME:{_alternative \"names\\:name\\:("), "{machine}");
}

#[test]
fn man_pages_and_completions_know_every_subcommand() {
    pages_and_completions_know_every_subcommand("pageset-lab", "compare");
}
