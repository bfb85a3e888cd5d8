//! `pageset fleet`: the lines of many agents, merged into one answer.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::PathBuf;

use comfy_table::CellAlignment;
use pageset_fleet::{Fleet, Group, Merge};

use crate::columns::{Fit, Shown, grouped, numbers};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{self, JsonOption, WideOption, is_standard, write_json};

/// Merge what `pageset agent` says on many machines: which of them wait for zone locks, and what to set where
///
/// The latest line of each machine counts. The first sentence is the answer. The table has a row for each verdict and setting, the
/// most time to be won first. A line that no agent has written is counted, and the first ones are named with the reason.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The files of lines, in any order; `-` is standard input, http://HOST:9090 a Prometheus server that scrapes the machines
    #[arg(required = true, value_name = "FILE")]
    file: Vec<PathBuf>,

    #[command(flatten)]
    json: JsonOption,

    #[command(flatten)]
    wide: WideOption,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let json = args.json.path()?;
    let interrupt = Interrupt::at_once()?;
    let mut merge = Merge::default();
    for path in &args.file {
        let name = path.display().to_string();
        if name.contains("://") {
            let failed = |why| Failure::new(Exit::Unreadable, format!("cannot merge: {why}"));
            merge
                .query(&name)
                .map_err(|why| failed(why).help("name a Prometheus server as http://HOST:9090, or files"))?;
            continue;
        }
        let failed = |error| Failure::new(Exit::Unreadable, format!("cannot read {name}: {error}"));
        let from: Box<dyn BufRead> = match is_standard(path) {
            true => Box::new(io::stdin().lock()),
            false => Box::new(BufReader::new(File::open(path).map_err(failed)?)),
        };
        merge.read(&name, from).map_err(failed)?;
    }
    let fleet = merge.finish();
    for wrong in &fleet.first_wrong_lines {
        let text = format!("{}: line {}: {}", wrong.file, wrong.line, wrong.reason);
        // Standard error may be closed.
        let _ = writeln!(io::stderr(), "{}", Failure::new(Exit::Damaged, text).as_warning());
    }
    if fleet.lines == 0 {
        let why = match fleet.wrong_lines {
            0 => "there are no lines".to_owned(),
            wrong => format!("none of {} lines is of an agent", grouped(wrong)),
        };
        return Err(
            Failure::new(Exit::Damaged, format!("cannot merge: {why}")).help("use the output of `pageset agent`")
        );
    }
    if !json.is_some_and(is_standard) {
        output::print(&text(&fleet, Fit::new(&args.wide)))?;
    }
    json.map_or(Ok(Exit::Done), |path| write_json(path, &[fleet], &interrupt))
}

/// The answer and the table.
fn text(fleet: &Fleet, fit: Fit) -> String {
    let wrong = match fleet.wrong_lines {
        0 => String::new(),
        wrong => format!("; {} are of no agent", grouped(wrong)),
    };
    let many = |count: u64, one: &str| format!("{} {one}{}", grouped(count), if count == 1 { "" } else { "s" });
    let read = format!("{} of {}{wrong}", many(fleet.lines, "line"), many(fleet.machines, "machine"));
    let head = fit.prose(&format!("{}\n{read}\n", fleet.sentence));
    let shown = Shown::of::<Group>("fleet");
    let mut table = numbers(shown.headings(), 0..1);
    // The words after the numbers.
    for column in table.column_iter_mut().skip(4) {
        column.set_cell_alignment(CellAlignment::Left);
    }
    for group in &fleet.groups {
        table.add_row(shown.cells(group));
    }
    format!("{head}\n{}", fit.table(table, &shown.ranks()))
}
