//! `pageset report`: a result, or a recording, as a page to look at.
//!
//! | module | what it does |
//! | --- | --- |
//! | `input` | what is reported on: JSON of ours by its schema, or a recording |
//! | `json`, `results`, `simulated`, `bench`, `recording` | the sections of each kind of input: a question, a chart, the data |
//! | `draw` | charts laid out |
//! | `render` | sections as HTML, SVG and Markdown |

mod bench;
mod draw;
mod input;
mod json;
mod recording;
mod render;
mod results;
mod simulated;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use self::draw::Chart;
use crate::error::{Exit, Failure};
use crate::output::Output;

/// Make a page to look at, of a result or a recording: one HTML file that needs nothing else
///
/// INPUT is what --json of replay, advise, top, run, sweep, compare or bench wrote, or a recording. Each chart answers
/// the question in its title and has its data below it. The page asks no network for anything and runs no script; it is
/// light or dark as the reader's system is, and can be printed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to report on; `-` is standard input, for JSON
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    /// The page; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "pageset.html")]
    output: PathBuf,

    /// Markdown tables instead of HTML
    #[arg(long)]
    markdown: bool,

    /// Also each chart as an SVG file of its own, into this folder
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

/// What a report says.
struct Report {
    title: String,
    /// What was measured, on what.
    facts: Vec<String>,
    sections: Vec<Section>,
}

/// A question, its answer as a chart, and the data.
struct Section {
    question: String,
    /// What weakens or explains it; may be empty.
    note: String,
    chart: Option<Chart>,
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Runs `pageset report`.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let mut report = Report { title: String::new(), facts: Vec::new(), sections: Vec::new() };
    for input in &args.inputs {
        let part = input::read(input)?;
        if report.title.is_empty() {
            report.title = part.title.clone();
        } else {
            report.facts.push(part.title.clone());
        }
        report.facts.extend(part.facts);
        report.sections.extend(part.sections);
    }
    let page = if args.markdown { render::markdown(&report) } else { render::html(&report)? };
    if let Some(folder) = &args.svg {
        for (name, svg) in render::charts(&report)? {
            write(&folder.join(name), &svg)?;
        }
    }
    write(&args.output, &page)?;
    Ok(Exit::Done)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut out = Output::create(path)?;
    out.write_all(text.as_bytes())?;
    Ok(out.commit()?)
}
