//! Commands on a terminal.

use std::path::Path;

use crate::support::command;
use crate::support::terminal::{self, shown};

/// <https://no-color.org>: a value that is not empty disables all colours.
#[test]
fn no_color_disables_all_colours() {
    terminal::no_color_disables_all_colours(&[
        (&["sim", "--no-such-option"], true),
        (&["machine", "list"], false),
        (&["sim", "page_fault1", "--machine", "vm-8", "--duration", "1ms", "--warm-up", "1ms"], false),
    ]);
}

/// On a terminal of 80 characters the tables of published and simulated rows fit, and a line names what they lack.
#[test]
fn wide_tables_fit_the_terminal() {
    let compare = "compare page_fault1-batch-sweep.csv --machine lkp-sb02 --seeds 1 --duration 4ms --warm-up 2ms";
    let on_terminal = |more: &str| {
        let line = format!("{compare} {more}");
        let words: Vec<&str> = line.split_whitespace().collect();
        shown(command(&words.iter().map(|word| word as &dyn AsRef<Path>).collect::<Vec<_>>()))
    };
    let (narrow, wide) = (on_terminal(""), on_terminal("--wide"));
    // The line may be broken.
    let left = |text: &str| {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(words.split_once("not shown: ")?.1.to_owned())
    };
    assert!(left(&narrow).is_some_and(|left| left.contains("spread %")), "{narrow}");
    assert_eq!(left(&wide), None, "{wide}");
    let head =
        |text: &str| text.lines().find(|line| line.trim_start().starts_with("machine ")).unwrap().trim_end().to_owned();
    assert!(head(&narrow).chars().count() <= 80 && head(&wide).contains("spread %"), "{wide}");
}

/// No list is wider than the terminal, which would break it inside words.
#[test]
fn lists_fit_the_terminal() {
    for words in [&["machine", "list"][..], &["sim", "--list"]] {
        let screen = shown(command(&words.iter().map(|word| word as &dyn AsRef<Path>).collect::<Vec<_>>()));
        assert!(screen.lines().count() > 10, "{screen}");
        for line in screen.lines().map(str::trim_end) {
            assert!(line.chars().count() <= 80, "{line}\n{screen}");
        }
    }
}
