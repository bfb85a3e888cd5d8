//! One grammar: an option has one meaning in all commands, and every page of the manual is complete.

#[path = "../../pageset-cli/tests/support/grammar.rs"]
mod grammar;

use clap::{CommandFactory as _, Parser as _};

use crate::examples::PROGRAM;
use crate::{Cli, command_line};

/// Options whose values have another form in some commands: the name, the command, and why.
const OTHER_FORM: &[(&str, &str, &str)] = &[
    ("machine", "pageset-lab-sim", "one machine; the others select rows of several machines"),
    ("set", "pageset-lab-sim", "several values of a rule, each a row"),
];

#[test]
fn an_option_has_one_meaning() {
    grammar::an_option_has_one_meaning(Cli::command(), OTHER_FORM);
}

#[test]
fn results_have_json_and_tables_fit() {
    let with: [(&str, &[&str]); 4] = [
        ("json", &["pageset-lab-diff", "pageset-lab-sim", "pageset-lab-compare", "pageset-lab-bench"]),
        ("csv", &["pageset-lab-diff", "pageset-lab-sim", "pageset-lab-bench"]),
        ("wide", &["pageset-lab-diff", "pageset-lab-sim"]),
        ("rules", &["pageset-lab-sim", "pageset-lab-interleave"]),
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
        for name in ["linux-6.18", "lkp-bdw-ep2", "kernel"] {
            assert!(script.contains(name), "{shell}: {name}");
        }
        // A script of fish completes options only, and a workload is an argument.
        assert!(script.contains("page_fault1") || shell == clap_complete::Shell::Fish, "{shell}");
    }
}

/// `kernel` is accepted where rules are, and durations have units.
#[test]
fn common_words_are_accepted() {
    for line in [
        "sim page_fault1 --machine vm-8 --rules kernel --seconds 0.5",
        "sim page_fault1 --machine vm-8 --rules kernel --set batch=31,63 --duration 20ms",
        "interleave --rules kernel",
    ] {
        let words = std::iter::once(PROGRAM.name).chain(line.split(' '));
        assert!(Cli::try_parse_from(words).is_ok(), "{line}");
    }
}

#[test]
fn commands_of_the_documentation_parse() {
    let seen = grammar::commands_of_the_documentation_parse(&PROGRAM, &command_line());
    assert!(seen > 8, "{seen} commands only");
}
