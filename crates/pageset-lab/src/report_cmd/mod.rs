//! `pageset-lab report`: a page about results.
//!
//! | module | what it does |
//! | --- | --- |
//! | `card` | the card of each kind of result |
//! | `simulated`, `bench` | the sections of each kind of result |

pub(crate) mod bench;
pub(crate) mod card;
pub(crate) mod simulated;

use pageset_report::kinds::Inputs;
use pageset_report::page::{Report, Section, draw, sections};
use pageset_report::report;

use crate::error::{Exit, Failure};

/// Write a page about results: one self-contained HTML file
///
/// INPUT is the JSON output of sim, compare or bench, or the Parquet table of a study. The page begins with a
/// verdict, how far to trust it, and three numbers. Each chart answers the question in its title and has its data below.
/// The page loads nothing from a network, shows every chart without scripts too, follows the reader's light or dark
/// mode, and can be printed.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    report: report::Args,
}

pub(crate) fn run(inputs: &Inputs, args: &Args) -> Result<Exit, Failure> {
    report::run(inputs, &args.report)
}
