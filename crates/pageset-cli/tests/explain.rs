//! `pageset explain` and `pageset generate`, as a user runs them.

mod support;

use std::fs;

use support::{Small, ends};

#[test]
fn a_warning_as_it_was_printed_is_explained() {
    let small = Small::new();
    let (text, _) = ends(0, &[&"replay", &small.events()]);
    let warnings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("warning: ")).collect();
    assert!(!warnings.is_empty(), "{text}");
    for warning in warnings {
        let (said, _) = ends(0, &[&"explain", &warning]);
        assert!(said.contains(" (warning)\n") && said.contains("to do: "), "{warning}: {said}");
    }
}

#[test]
fn a_name_that_is_none_is_an_error_with_what_was_meant() {
    let (out, error) = ends(2, &[&"explain", &"most hled"]);
    assert_eq!(out, "");
    assert!(error.contains("nothing is called most hled (did you mean most held?)"), "{error}");
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
    let (_, error) = ends(1, &[&"generate", &"man", &folder.path().join("none")]);
    assert!(error.contains("none"), "{error}");
}
