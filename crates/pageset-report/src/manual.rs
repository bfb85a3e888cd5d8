//! The manual: a page for the command and for each subcommand, from the definition of the command line. What is the same on
//! several pages is printed once: exit codes and files on the command's page, the paragraphs of a shared option on the first
//! page that has it, an option for all subcommands on the page of their command.

use std::collections::HashMap;
use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use crate::error::EXITS;
use crate::program::Program;

/// How the parts of a page begin.
const APOSTROPHE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// The name of each page's file, and its text.
pub fn pages(program: &Program, command: Command) -> io::Result<Vec<(String, String)>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(program, &command, &[], &mut HashMap::new(), &mut pages)?;
    Ok(pages)
}

/// The page on which an option's paragraphs are printed, by the option and the paragraphs.
type Described = HashMap<(String, String), String>;

/// Adds the pages of a command, which has these parents, and of its visible subcommands.
fn add(
    program: &Program,
    command: &Command,
    parents: &[String],
    described: &mut Described,
    pages: &mut Vec<(String, String)>,
) -> io::Result<()> {
    let name = name(command);
    let visible = || command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let (command, elsewhere) = without_repetition(command.clone(), &name, described);
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    let has_options = command.get_arguments().any(|argument| !argument.is_hide_set());
    if has_options {
        man.render_options_section(&mut text)?;
    }
    if !elsewhere.is_empty() {
        let mut roff = Roff::new();
        if has_options {
            roff.control("PP", []);
        } else {
            roff.control("SH", ["OPTIONS"]);
        }
        roff.text([roman("Options that pages share: ")].into_iter().chain(listed(&elsewhere)).collect::<Vec<_>>());
        roff.to_writer(&mut text)?;
    }
    if visible().next().is_some() {
        man.render_subcommands_section(&mut text)?;
    }
    examples(program, &name).to_writer(&mut text)?;
    if parents.is_empty() {
        exit_status().to_writer(&mut text)?;
    }
    files_section(program, &name).to_writer(&mut text)?;
    let related: Vec<String> = parents.iter().cloned().chain(visible().map(self::name)).collect();
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text(listed(&related));
    roff.to_writer(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    // Every part begins with the same definition of the apostrophe: once is enough.
    let text = text.replace(APOSTROPHE, "");
    pages.push((man.get_filename(), format!("{APOSTROPHE}{text}")));
    let parents = [parents, &[name]].concat();
    for subcommand in visible() {
        add(program, subcommand, &parents, described, pages)?;
    }
    Ok(())
}

/// The command of a page without what other parts of the manual say, and the pages that describe its options in full.
fn without_repetition(mut command: Command, page: &str, described: &mut Described) -> (Command, Vec<String>) {
    let mut elsewhere = Vec::new();
    command = command.mut_args(|argument| {
        let id = argument.get_id().to_string();
        // Every command has this one.
        if id == "help" {
            return argument.hide(true);
        }
        let global = argument.is_global_set();
        let long = argument.get_long_help().filter(|_| argument.get_help().is_some());
        let Some(repeated) = long.or(argument.get_help().filter(|_| global)) else { return argument };
        let first = described.entry((id, repeated.to_string())).or_insert_with(|| page.to_owned());
        if first == page {
            return argument;
        }
        if !elsewhere.contains(first) {
            elsewhere.push(first.clone());
        }
        if global { argument.hide(true) } else { argument.long_help(None::<&str>) }
    });
    // The first paragraph is the name's.
    let more = command.get_long_about().map(ToString::to_string);
    if let Some((_, more)) = more.as_deref().and_then(|about| about.split_once("\n\n")) {
        command = command.long_about(more.to_owned());
    }
    (command, elsewhere)
}

/// `pageset-trace-info`, the name of the page.
fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn examples(program: &Program, name: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for (line, about) in program.examples_of(name) {
        roff.control("TP", []);
        roff.text([bold(format!("{} {line}", program.name).trim_end())]);
        roff.text([roman(about)]);
    }
    roff
}

fn files_section(program: &Program, name: &str) -> Roff {
    let mut roff = Roff::new();
    let of_page = program.files_of.iter().filter(|(of, _)| *of == name).map(|(_, file)| file);
    let files: Vec<_> = of_page.chain(program.files.iter().filter(|_| name == program.name)).collect();
    if !files.is_empty() {
        roff.control("SH", ["FILES"]);
    }
    for (file, about) in files {
        roff.control("TP", []);
        roff.text([italic(*file)]);
        roff.text([roman(*about)]);
    }
    roff
}

fn exit_status() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (exit, meaning) in EXITS {
        roff.control("TP", []);
        roff.text([bold((exit as u8).to_string())]);
        roff.text([roman(meaning)]);
    }
    roff
}

fn listed(names: &[String]) -> Vec<Inline> {
    let mut words = Vec::new();
    for name in names {
        words.extend([roman(if words.is_empty() { "" } else { ", " }), bold(name), roman("(1)")]);
    }
    words
}
