//! `pageset report`: a page about a result or a recording.
//!
//! | module | what it does |
//! | --- | --- |
//! | `input` | reads the input: our JSON by its schema, a study's table, or a recording |
//! | `card` | the verdict, how far to trust it, three numbers, warnings |
//! | `sections` | a question, its chart and its data |
//! | `results`, `simulated`, `bench`, `recording`, `json` | the sections of each kind of input |
//! | `draw` | the layout of charts |
//! | `data` | the data of charts that the page's script reads |
//! | `render` | cards and sections as HTML, SVG and Markdown |

mod bench;
mod card;
mod data;
mod draw;
mod input;
mod json;
mod recording;
mod render;
mod results;
mod sections;
mod simulated;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use self::card::Card;
use self::draw::Chart;
use crate::error::{Exit, Failure};
use crate::output::{self, Output};

/// Write a page about a result or a recording: one self-contained HTML file
///
/// INPUT is the JSON output of replay, advise, top, run, sweep, compare or bench, the Parquet table of a study, or a
/// recording. The page begins with a verdict, how far to trust it, and three numbers. Each chart answers the question in
/// its title and has its data below. The page loads nothing from a network, shows every chart without scripts too,
/// follows the reader's light or dark mode, and can be printed.
#[derive(clap::Args)]
pub(crate) struct Args {
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
struct Report {
    title: String,
    /// One for each input, and for each result in it.
    cards: Vec<Card>,
    /// What was measured, and on which machine.
    facts: Vec<String>,
    sections: Vec<Section>,
}

/// A question, its answer as a chart, and the data.
struct Section {
    question: String,
    /// An explanation or a weakness of the answer; may be empty.
    note: String,
    chart: Option<Chart>,
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Runs `pageset report`.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let default = if args.markdown { "pageset.md" } else { "pageset.html" };
    let output = args.output.as_deref().unwrap_or(Path::new(default));
    output::check(output)?;
    let mut report = Report { title: String::new(), cards: Vec::new(), facts: Vec::new(), sections: Vec::new() };
    for input in &args.inputs {
        let part = input::read(input)?;
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
