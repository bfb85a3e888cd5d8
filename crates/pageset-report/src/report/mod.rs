//! The command `report`: one self-contained HTML file about results or recordings.

mod input;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::error::{Exit, Failure};
use crate::kinds::Inputs;
use crate::output::{self, Output};
use crate::page::{self, Report};

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

    /// Write the verdict and the tables as Markdown instead of HTML, as for a FILE that ends in .md
    #[arg(long)]
    markdown: bool,

    /// Also write each chart as an SVG file into this folder, which is made if it does not exist
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

/// Forms that a name may ask for, and that no report has.
const OTHER_FORMS: [&str; 5] = ["csv", "json", "pdf", "png", "svg"];

/// Runs `report` of a program with these inputs.
pub fn run(inputs: &Inputs, args: &Args) -> Result<Exit, Failure> {
    let end = args.output.as_deref().and_then(Path::extension).unwrap_or_default();
    if let Some(end) = OTHER_FORMS.into_iter().find(|form| end.eq_ignore_ascii_case(form)) {
        return Err(Failure::new(Exit::Usage, format!("cannot write a report as .{end}; allowed: .html, .md"))
            .help("--svg FOLDER writes the charts, and a browser prints the page as a PDF"));
    }
    if args.markdown && ["html", "htm"].into_iter().any(|form| end.eq_ignore_ascii_case(form)) {
        return Err(Failure::new(Exit::Usage, "--markdown writes no .html; name a .md file"));
    }
    let markdown = args.markdown || ["md", "markdown"].into_iter().any(|form| end.eq_ignore_ascii_case(form));
    let default = if markdown { "pageset.md" } else { "pageset.html" };
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
    page::sections::share_time(&mut report.sections);
    let page = if markdown { page::render::markdown(&report) } else { page::render::html(&report)? };
    if let Some(folder) = &args.svg {
        fs::create_dir_all(folder).map_err(|error| {
            Failure::new(Exit::Unwritten, format!("cannot make the folder {}: {error}", folder.display()))
        })?;
        for (name, svg) in page::render::charts(&report)? {
            write(&folder.join(name), &svg)?;
        }
    }
    write(output, &page)?;
    if args.output.is_none() {
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "wrote {default}");
    }
    Ok(Exit::Done)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut out = Output::create(path)?;
    out.write_all(text.as_bytes())?;
    Ok(out.commit()?)
}
