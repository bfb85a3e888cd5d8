//! One grammar: an option has one meaning in all commands, and every page of the manual is complete.

use std::collections::BTreeMap;

use clap::{Arg, Command, CommandFactory as _, Parser as _};

use crate::{Cli, command_line, manual};

/// The options that several commands have: the name, and words that describe the meaning in every command. A new option with
/// a name of this table means the same; a name that a second command begins to use gets a row.
const SHARED: &[(&str, &str)] = &[
    ("batch", "atches"),
    ("buffer", "ring buffer"),
    ("csv", "Write CSV instead of text"),
    ("duration", "TIME"),
    ("era", "The kernel's era"),
    ("history", "Age the memory"),
    ("jobs", "on N threads"),
    ("json", "JSON"),
    ("list", "List"),
    ("machine", "machine"),
    ("out", "The folder of results"),
    ("output", "Write|The table|The folder"),
    ("precision", "Stop measuring"),
    ("rules", "The sets of rules"),
    ("seeds", "seed"),
    ("set", "a rule"),
    ("size", "The size of a workload"),
    ("snapshots", "The snapshots of a recording in text form"),
    ("tasks", "umbers of tasks"),
    ("timeline", "as a trace for ui.perfetto.dev"),
    ("warm-up", "before the measurement"),
    ("whole", "Simulate all nodes"),
    ("wide", "Show all columns"),
    ("zone-lock", "zone locks"),
    ("zoneinfo", "A copy of /proc/zoneinfo"),
];

/// Options whose values have another form in some commands: the name, the command, and why.
const OTHER_FORM: &[(&str, &str, &str)] = &[
    ("json", "pageset-top", "a line for each look, on standard output"),
    ("machine", "pageset-run", "one machine; the others select rows of several machines"),
    ("machine", "pageset-sweep", "as run"),
    ("set", "pageset-sweep", "several values of a rule, each a row"),
    ("batch", "pageset-sweep", "a value of --set, which is parsed with the other rules"),
    ("output", "pageset-demo", "a folder: the tour writes two files"),
    ("output", "pageset-trace-import", "the value's name shows the ending of the file"),
    ("output", "pageset-trace-export", "the value's name shows the ending of the file"),
    ("rules", "pageset-replay", "the value's name shows the ending of a rule file"),
];

/// Short options and their long names.
const SHORT: &[(char, &str)] = &[('o', "output"), ('i', "interval"), ('n', "count"), ('h', "help"), ('V', "version")];

/// All commands that a user sees, by the names of their pages.
fn commands() -> Vec<(String, Command)> {
    fn add(command: &Command, all: &mut Vec<(String, Command)>) {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        all.push((name, command.clone()));
        command.get_subcommands().filter(|sub| !sub.is_hide_set()).for_each(|sub| add(sub, all));
    }
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut all = Vec::new();
    add(&command, &mut all);
    all
}

/// The form of an option's value.
fn form(argument: &Arg) -> String {
    let names: Vec<String> = argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let takes = argument.get_action().takes_values();
    let (number, delimiter) = (argument.get_num_args(), argument.get_value_delimiter());
    format!(
        "{takes} {names:?} {number:?} {delimiter:?} {} {:?}",
        argument.is_require_equals_set(),
        argument.get_short()
    )
}

#[test]
fn an_option_has_one_meaning() {
    let mut uses: BTreeMap<String, Vec<(String, Arg)>> = BTreeMap::new();
    for (page, command) in commands() {
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            if let Some(long) = argument.get_long().filter(|long| !["help", "version"].contains(long)) {
                uses.entry(long.to_owned()).or_default().push((page.clone(), argument.clone()));
            }
            if let Some(short) = argument.get_short() {
                let long = argument.get_long().unwrap_or_default();
                assert!(SHORT.contains(&(short, long)), "{page}: -{short} is --{long}");
            }
        }
    }
    let mut wrong = Vec::new();
    for (long, uses) in uses.iter().filter(|(_, uses)| uses.len() > 1) {
        let Some((_, meaning)) = SHARED.iter().find(|(name, _)| name == long) else {
            let pages: Vec<&str> = uses.iter().map(|(page, _)| page.as_str()).collect();
            wrong.push(format!("--{long} is in {} and not in the table of shared options", pages.join(", ")));
            continue;
        };
        let is_other = |page: &str| OTHER_FORM.iter().any(|(name, of, _)| (name, *of) == (&long.as_str(), page));
        let usual = uses.iter().find(|(page, _)| !is_other(page)).map(|(_, argument)| form(argument));
        for (page, argument) in uses {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            if !meaning.split('|').any(|meaning| help.contains(meaning)) {
                wrong.push(format!("{page} --{long} means something else than `{meaning}`: {help}"));
            }
            if !is_other(page) && Some(form(argument)) != usual {
                wrong.push(format!("{page} --{long} has another form: {}, not {usual:?}", form(argument)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // No row is left over.
    for (name, page, _) in OTHER_FORM {
        assert!(uses.get(*name).is_some_and(|uses| uses.iter().any(|(of, _)| of == page)), "{page} --{name}");
    }
}

#[test]
fn results_have_json_and_tables_fit() {
    let with: BTreeMap<&str, &[&str]> = BTreeMap::from([
        (
            "json",
            &[
                "pageset",
                "pageset-replay",
                "pageset-identify",
                "pageset-trace-info",
                "pageset-diff",
                "pageset-run",
                "pageset-sweep",
                "pageset-compare",
                "pageset-bench",
                "pageset-advise",
                "pageset-top",
                "pageset-machine-measure",
                "pageset-machine-calibrate",
                "pageset-machine-share",
            ][..],
        ),
        ("csv", &["pageset-replay", "pageset-diff", "pageset-run", "pageset-sweep", "pageset-bench"]),
        ("wide", &["pageset-replay", "pageset-diff", "pageset-run", "pageset-sweep", "pageset-advise"]),
        ("rules", &["pageset-replay", "pageset-run", "pageset-sweep", "pageset-interleave"]),
    ]);
    for (option, pages) in with {
        let have: Vec<String> = commands()
            .into_iter()
            .filter(|(_, command)| command.get_arguments().any(|argument| argument.get_long() == Some(option)))
            .map(|(page, _)| page)
            .collect();
        for page in pages {
            assert!(have.iter().any(|of| of == page), "{page} has no --{option}");
        }
    }
}

#[test]
fn every_page_is_complete_and_its_examples_parse() {
    let pages = manual::pages(command_line()).unwrap();
    assert_eq!(pages.len(), commands().len());
    for (file, text) in &pages {
        let section = |name: &str| {
            text.split(".SH ").find(|part| part.trim_start_matches('"').starts_with(name)).unwrap_or_default().len()
        };
        for name in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "FILES", "SEE ALSO"] {
            assert!(section(name) > name.len() + 5, "{file}: no {name}");
        }
    }
    let all = commands();
    for (page, examples) in crate::examples::EXAMPLES {
        assert!(all.iter().any(|(of, _)| of == page), "{page}");
        for (line, about) in *examples {
            let words = std::iter::once("pageset").chain(line.split(' ').filter(|word| !word.is_empty()));
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{page}: `pageset {line}`: {error}");
            }
            let expected = page.replace('-', " ");
            assert!(format!("pageset {line}").starts_with(&expected) || *page == "pageset", "{page}: {line}");
            assert!(about.ends_with('.'), "{page}: {about}");
        }
    }
}

#[test]
fn completions_know_names() {
    for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
        let script = String::from_utf8(crate::completions::script(command_line(), shell)).unwrap();
        for name in ["linux-6.18", "lkp-bdw-ep2", "page_fault1", "kernel"] {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
}

/// `kernel` and the old spelling of the duration are accepted where rules and durations are.
#[test]
fn common_words_are_accepted() {
    for line in [
        "run page_fault1 --machine vm-8 --rules kernel --seconds 0.5",
        "sweep page_fault1 --machine vm-8 --rules kernel --batch 31 --duration 20ms",
        "interleave --rules kernel",
        "replay x --rules kernel --json --csv=x.csv --wide",
        "diff a b --json=x.json",
        "record --duration 1.5s",
    ] {
        let words = std::iter::once("pageset").chain(line.split(' '));
        assert!(Cli::try_parse_from(words).is_ok(), "{line}");
    }
}

/// Every command of the page for users of other tools parses.
#[test]
fn commands_for_users_of_other_tools_parse() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/coming-from.md");
    let text = std::fs::read_to_string(page).unwrap();
    let lines = text.split('`').skip(1).step_by(2).filter(|code| code.starts_with("pageset"));
    let mut seen = 0;
    for line in lines {
        let words = line.replace("run …", "run page_fault1 --machine vm-8");
        // A number where the page has a word for it.
        let words = words.replace("SIZE", "1G");
        if let Err(error) = Cli::try_parse_from(words.split(' ')) {
            panic!("`{line}`: {error}");
        }
        seen += 1;
    }
    assert!(seen > 25, "{seen} commands only");
}
