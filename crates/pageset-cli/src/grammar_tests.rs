//! One grammar: an option has one meaning in all commands, and every page of the manual is complete.

#[path = "../tests/support/grammar.rs"]
mod grammar;

use clap::{CommandFactory as _, Parser as _};

use crate::examples::PROGRAM;
use crate::{Cli, command_line};

/// Options whose values have another form in some commands: the name, the command, and why.
const OTHER_FORM: &[(&str, &str, &str)] = &[
    ("json", "pageset-top", "a line for each look, on standard output"),
    ("output", "pageset-demo", "a folder: the tour writes two files"),
    ("output", "pageset-trace-import", "the value's name shows the ending of the file"),
    ("output", "pageset-trace-export", "the value's name shows the ending of the file"),
    ("rules", "pageset-replay", "the value's name shows the ending of a rule file"),
];

#[test]
fn an_option_has_one_meaning() {
    grammar::an_option_has_one_meaning(Cli::command(), OTHER_FORM);
}

#[test]
fn results_have_json_and_tables_fit() {
    let with: [(&str, &[&str]); 4] = [
        (
            "json",
            &[
                "pageset",
                "pageset-replay",
                "pageset-trace-info",
                "pageset-diff",
                "pageset-advise",
                "pageset-top",
                "pageset-fleet",
                "pageset-explain",
            ],
        ),
        ("csv", &["pageset-replay", "pageset-diff"]),
        ("wide", &["pageset-replay", "pageset-diff", "pageset-advise", "pageset-fleet"]),
        ("rules", &["pageset-replay"]),
    ];
    for (option, pages) in with {
        grammar::pages_have_the_option(&Cli::command(), option, pages);
    }
}

#[test]
fn every_page_is_complete_and_its_examples_parse() {
    grammar::every_page_is_complete_and_its_examples_parse(&PROGRAM, command_line());
}

#[test]
fn completions_know_names() {
    for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
        let script = pageset_report::completions::script(&PROGRAM, command_line(), shell);
        let script = String::from_utf8(script).unwrap();
        for name in ["linux-6.18", "kernel"] {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
}

/// `kernel` is accepted where rules are, and durations have units.
#[test]
fn common_words_are_accepted() {
    for line in
        ["replay x --rules kernel --json --csv=x.csv --wide", "diff a b --json=x.json", "record --duration 1.5s"]
    {
        let words = std::iter::once(PROGRAM.name).chain(line.split(' '));
        assert!(Cli::try_parse_from(words).is_ok(), "{line}");
    }
}

#[test]
fn commands_of_the_documentation_parse() {
    let seen = grammar::commands_of_the_documentation_parse(&PROGRAM, &command_line());
    assert!(seen > 30, "{seen} commands only");
}
