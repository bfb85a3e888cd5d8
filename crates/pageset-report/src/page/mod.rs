//! The page of `report`: one self-contained HTML file about results or recordings.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`draw`] | the layout of charts |
//! | [`sections`] | a question, its chart and its data |
//! | [`card`] | the verdict, how far to trust it, three numbers, warnings |
//! | `input` | reads the input: our JSON by its schema, or a file by its content |
//! | `data` | the data of charts that the page's script reads |
//! | `render` | cards and sections as HTML, SVG and Markdown |

pub mod card;
mod data;
pub mod draw;
mod input;
mod render;
pub mod sections;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use self::card::Card;
use self::draw::Chart;
use crate::error::{Exit, Failure};
use crate::kinds::Inputs;
use crate::output::{self, Output};

/// The arguments of `report`.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct Args {
    /// The results or recordings; `-` reads JSON from standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    /// Write the page to FILE; `-` is standard output [default: pageset.html, with --markdown pageset.md]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write the verdict and the tables as Markdown instead of HTML
    #[arg(long)]
    markdown: bool,

    /// Also write each chart as an SVG file into this folder, which is made if it does not exist
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

/// The content of a report.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The title.
    pub title: String,
    /// One for each input, and for each result in it.
    pub cards: Vec<Card>,
    /// What was measured, and on which machine.
    pub facts: Vec<String>,
    /// The questions.
    pub sections: Vec<Section>,
}

/// A question, its answer as a chart, and the data.
#[derive(Clone, Debug)]
pub struct Section {
    /// The question.
    pub question: String,
    /// An explanation or a weakness of the answer; may be empty.
    pub note: String,
    /// The chart.
    pub chart: Option<Chart>,
    /// The headings of the data.
    pub heads: Vec<String>,
    /// The data.
    pub rows: Vec<Vec<String>>,
}

/// Joins the reports of all parts of an input into one.
///
/// # Errors
/// There is no part, or a part has no report.
pub fn joined<T>(all: impl IntoIterator<Item = T>, of: fn(T) -> Result<Report, String>) -> Result<Report, String> {
    let mut more = 0;
    let mut report: Option<Report> = None;
    for part in all {
        let part = of(part)?;
        match &mut report {
            None => report = Some(part),
            Some(report) => {
                more += 1;
                report.facts.push(part.title);
                report.cards.extend(part.cards);
                report.facts.extend(part.facts);
                report.sections.extend(part.sections);
            }
        }
    }
    let mut report = report.ok_or("the input is empty")?;
    if more > 0 {
        report.title += &format!(" and {more} more");
    }
    Ok(report)
}

/// Runs `report` of a program with these inputs.
///
/// # Errors
/// An input cannot be read, or the page cannot be written.
pub fn run(inputs: &Inputs, args: &Args) -> Result<Exit, Failure> {
    let default = if args.markdown { "pageset.md" } else { "pageset.html" };
    let output = args.output.as_deref().unwrap_or(Path::new(default));
    output::check(output)?;
    let mut report = Report::default();
    for input in &args.inputs {
        let part = input::read(inputs, input)?;
        match args.inputs.len() {
            1 => report.title = part.title,
            inputs => {
                report.title = format!("Report on {inputs} inputs");
                report.facts.push(part.title);
            }
        }
        report.cards.extend(part.cards);
        report.facts.extend(part.facts);
        report.sections.extend(part.sections);
    }
    sections::share_time(&mut report.sections);
    let page = if args.markdown { render::markdown(&report) } else { render::html(&report)? };
    if let Some(folder) = &args.svg {
        fs::create_dir_all(folder).map_err(|error| {
            Failure::new(Exit::Unwritten, format!("cannot make the folder {}: {error}", folder.display()))
        })?;
        for (name, svg) in render::charts(&report)? {
            write(&folder.join(name), &svg)?;
        }
    }
    write(output, &page)?;
    Ok(Exit::Done)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut out = Output::create(path)?;
    out.write_all(text.as_bytes())?;
    Ok(out.commit()?)
}
