//! One grammar: an option has one meaning in all commands, and every page of the manual is complete. For both programs.

use std::collections::BTreeMap;

use clap::{Arg, Command};
use pageset_report::manual;
use pageset_report::program::Program;

/// The options that several commands have: the name, and words that describe the meaning in every command. A new option with
/// a name of this table means the same; a name that a second command begins to use gets a row.
const SHARED: &[(&str, &str)] = &[
    ("again", "Repeat completed steps"),
    ("batch", "atches"),
    ("buffer", "ring buffer"),
    ("csv", "Write CSV instead of text"),
    ("definition", "The definition file"),
    ("dir", "The folder for kernels"),
    ("duration", "TIME"),
    ("era", "The kernel's era"),
    ("guest-pageset", "The `pageset` of"),
    ("history", "Age the memory"),
    ("interval", "Seconds between"),
    ("jobs", "on N threads"),
    ("json", "JSON"),
    ("list", "List"),
    ("listen", "OpenMetrics text over HTTP, on a loopback address only"),
    ("machine", "machine"),
    ("once", "Print one result and exit"),
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

/// Short options and their long names.
const SHORT: &[(char, &str)] = &[('o', "output"), ('i', "interval"), ('n', "count"), ('h', "help"), ('V', "version")];

/// All commands that a user sees, by the names of their pages.
pub(crate) fn commands(command: Command) -> Vec<(String, Command)> {
    fn add(command: &Command, all: &mut Vec<(String, Command)>) {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        all.push((name, command.clone()));
        command.get_subcommands().filter(|sub| !sub.is_hide_set()).for_each(|sub| add(sub, all));
    }
    let mut command = command.disable_help_subcommand(true);
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

/// An option has one meaning and one form in all commands, but for the forms of `other_form`.
pub(crate) fn an_option_has_one_meaning(command: Command, other_form: &[(&str, &str, &str)]) {
    let mut uses: BTreeMap<String, Vec<(String, Arg)>> = BTreeMap::new();
    for (page, command) in commands(command) {
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
        let is_other = |page: &str| other_form.iter().any(|(name, of, _)| (name, *of) == (&long.as_str(), page));
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
    for (name, page, _) in other_form {
        assert!(uses.get(*name).is_some_and(|uses| uses.iter().any(|(of, _)| of == page)), "{page} --{name}");
    }
}

/// Each page of the manual has all sections, and its examples parse.
pub(crate) fn every_page_is_complete_and_its_examples_parse(program: &Program, command: Command) {
    let pages = manual::pages(program, command.clone()).unwrap();
    assert_eq!(pages.len(), commands(command.clone()).len());
    for (file, text) in &pages {
        let section = |name: &str| {
            text.split(".SH ").find(|part| part.trim_start_matches('"').starts_with(name)).unwrap_or_default().len()
        };
        for name in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "SEE ALSO"] {
            assert!(section(name) > name.len() + 5, "{file}: no {name}");
        }
        // Exit codes and common files are on one page, which all others name.
        let is_first = *file == format!("{}.1", program.name);
        let first = format!("\\fB{}\\fR(1)", program.name.replace('-', "\\-"));
        let has = |name: &str| section(name) > name.len() + 5;
        assert_eq!((has("EXIT STATUS"), text.contains(&first)), (is_first, !is_first), "{file}");
        assert!(has("FILES") || !is_first, "{file}");
    }
    let all = commands(command.clone());
    for example in program.examples.lines() {
        let [page, line, about] = example.split(" | ").collect::<Vec<_>>().try_into().expect(example);
        assert!(all.iter().any(|(of, _)| of == page), "{page}");
        let words = std::iter::once(program.name).chain(line.split(' ').filter(|word| !word.is_empty()));
        if let Err(error) = command.clone().try_get_matches_from(words) {
            panic!("{page}: `{} {line}`: {error}", program.name);
        }
        let of_page = page.strip_prefix(program.name).unwrap().trim_start_matches('-').replace('-', " ");
        assert!(line.starts_with(&of_page), "{page}: {line}");
        assert!(about.ends_with('.'), "{page}: {about}");
    }
}

/// Each of these pages has this option.
pub(crate) fn pages_have_the_option(command: &Command, option: &str, pages: &[&str]) {
    let has = |command: &Command| command.get_arguments().any(|argument| argument.get_long() == Some(option));
    let with: Vec<String> =
        commands(command.clone()).into_iter().filter(|(_, command)| has(command)).map(|(page, _)| page).collect();
    for page in pages {
        assert!(with.iter().any(|of| of == page), "{page} has no --{option}");
    }
}

/// Each command of this program in the README, the guide and the reference parses. Returns their number.
pub(crate) fn commands_of_the_documentation_parse(program: &Program, command: &Command) -> usize {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = |name| std::fs::read_dir(root.join(name)).unwrap().map(|entry| entry.unwrap().path());
    let pages = folder("docs/guide")
        .chain(folder("docs/reference"))
        .chain([root.join("README.md"), root.join("docs/trust.md")]);
    let mut seen = 0;
    for page in pages.filter(|path| path.extension().is_some_and(|kind| kind == "md")) {
        let text = std::fs::read_to_string(&page).unwrap();
        let after_prompts = text.lines().filter_map(|line| line.strip_prefix("$ "));
        let inline = text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2));
        for code in after_prompts.chain(inline) {
            // Comments and pipes belong to the shell, a dash stands for any options, and a subcommand alone is a name.
            let code = code.trim_start_matches("sudo ").split(" # ").next().unwrap_or_default();
            let words = code.split(['>', '|']).next().unwrap_or_default().split_whitespace();
            let words: Vec<&str> = words.filter(|word| *word != "…").collect();
            if words.len() < 3 || words[0] != program.name {
                continue;
            }
            if let Err(error) = command.clone().try_get_matches_from(&words) {
                panic!("{}: `{code}`: {error}", page.display());
            }
            seen += 1;
        }
    }
    seen
}
