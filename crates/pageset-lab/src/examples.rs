//! The examples and the files of each page of the manual. `examples.txt` has the examples.

use pageset_report::program::{FileOf, Program};
use pageset_sim::machine::SHIPPED;
use pageset_sim::workload::WORKLOADS;

/// The program, for the manual and the completions.
pub(crate) static PROGRAM: Program =
    Program { name: "pageset-lab", examples: include_str!("examples.txt"), files: &FILES, files_of: &FILES_OF, names };

fn names(argument: &str) -> Option<Vec<&'static str>> {
    match argument {
        "machine" => Some(SHIPPED.iter().map(|(name, _)| *name).collect()),
        "workload" => Some(WORKLOADS.iter().map(|workload| workload.name).chain(["trace"]).collect()),
        _ => None,
    }
}

/// The files that the page of the program names.
const FILES: [FileOf; 2] = [
    ("NAME.toml", "A set of rules, a machine, or a study, by the argument that names it."),
    ("NAME.pstrace", "A recording of `pageset record`, as a workload."),
];

const FILES_OF: [(&str, FileOf); 3] = [
    ("pageset-lab-report", ("pageset.html, pageset.md", "The page, unless -o names another file.")),
    ("pageset-lab-study-run", ("DIR/results.parquet", "The table of the finished cells.")),
    (
        "pageset-lab-bench",
        ("pageset-bench-peers", "The program that measures external allocators, next to the command or in PATH."),
    ),
];
