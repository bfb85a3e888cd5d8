//! The manual: a page for the command and for each subcommand, from the definition of the command line.

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use crate::error::EXITS;
use crate::program::Program;

/// How the parts of a page begin.
const APOSTROPHE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// The name of each page's file, and its text.
///
/// # Errors
/// None that a user can cause.
pub fn pages(program: &Program, command: Command) -> io::Result<Vec<(String, String)>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(program, &command, None, &mut pages)?;
    Ok(pages)
}

/// Adds the pages of a command and of its visible subcommands.
fn add(
    program: &Program,
    command: &Command,
    parent: Option<&str>,
    pages: &mut Vec<(String, String)>,
) -> io::Result<()> {
    let name = name(command);
    let visible = || command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    if visible().next().is_some() {
        man.render_subcommands_section(&mut text)?;
    }
    examples(program, &name).to_writer(&mut text)?;
    exit_status().to_writer(&mut text)?;
    files_section(program, &name).to_writer(&mut text)?;
    let related = parent.map(str::to_owned).into_iter().chain(visible().map(self::name));
    see_also(&related.collect::<Vec<_>>()).to_writer(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    // Every part begins with the same definition of the apostrophe: once is enough.
    let text = text.replace(APOSTROPHE, "");
    pages.push((man.get_filename(), format!("{APOSTROPHE}{text}")));
    for subcommand in visible() {
        add(program, subcommand, Some(&name), pages)?;
    }
    Ok(())
}

/// `pageset-trace-info`, the name of the page.
fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn examples(program: &Program, name: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    let of_page = program.examples.iter().filter(|(page, _)| *page == name).flat_map(|(_, examples)| *examples);
    for (line, about) in of_page {
        roff.control("TP", []);
        roff.text([bold(format!("{} {line}", program.name).trim_end())]);
        roff.text([roman(*about)]);
    }
    roff
}

fn files_section(program: &Program, name: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["FILES"]);
    for (file, about) in program.files(name) {
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

fn see_also(names: &[String]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    let mut words = Vec::new();
    for name in names {
        words.extend([roman(if words.is_empty() { "" } else { ", " }), bold(name), roman("(1)")]);
    }
    roff.text(words);
    roff
}
