//! Compares recordings and results: what changed from A to B, with its spread, and whether it is more than noise.
//!
//! Modules, bottom to top. Each module uses only the modules above it in this table:
//!
//! | module | contents |
//! | --- | --- |
//! | [`input`] | the files of a side, by their content |
//! | `pair` | the cases that both sides have |
//! | [`model`] | the result: rows, verdicts, and which of them exceed a limit |
//! | `table` | the result as text |

pub mod input;
pub mod model;
mod pair;
mod table;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

pub use self::input::Side;
pub use self::model::{Diff, SCHEMA};
pub use self::table::HEADS;
use crate::columns::Fit;
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::kinds::Inputs;
use crate::output::{self, CsvOption, Forms, JsonOption, WideOption};
use crate::progress::Files;

/// The arguments of `diff`.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct Args {
    /// A and B: a recording, a JSON result, the table of a study, or a folder of these; commas separate the files of a side
    #[arg(required = true, value_name = "A B")]
    sides: Vec<PathBuf>,

    /// The files of B, if the files of A are not separated by commas: diff A1 A2 -- B1 B2
    #[arg(last = true, value_name = "B")]
    b: Vec<PathBuf>,

    /// Exit with code 1 if a metric worsens by more than PERCENT, such as 5%, and not by noise
    ///
    /// Shares, such as `zone lock %`, worsen by percentage points. Metrics without a better direction never fail. A change
    /// whose noise is unknown counts.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,

    /// Compare these metrics only, named as in the table
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    metric: Vec<String>,

    #[command(flatten)]
    json: JsonOption,

    #[command(flatten)]
    csv: CsvOption,

    #[command(flatten)]
    wide: WideOption,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim_end().parse().ok();
    number
        .filter(|number: &f64| (0.0..=1e6).contains(number))
        .ok_or_else(|| "allowed: a percentage, such as 5%".to_owned())
}

/// Runs `diff` of a program with these inputs.
pub fn run(inputs: &Inputs, args: &Args) -> Result<Exit, Failure> {
    let interrupt = Interrupt::at_once()?;
    let forms = Forms::new(&args.json, &args.csv)?;
    let (a, b) = sides(&args.sides, &args.b)?;
    let mut progress = Files::new();
    let mut read = |paths: &[PathBuf]| Side::read(inputs, paths, &mut |step| progress.step(step));
    let (mut a, mut b) = (read(&a)?, read(&b)?);
    progress.clear();
    keep(&mut a, &mut b, &args.metric)?;
    let diff = Diff::of(&a, &b, args.fail_above)?;
    if forms.text() {
        output::print(&table::text(&diff, &Fit::new(&args.wide)))?;
    }
    let written = forms.write(&[&diff], diff.rows.iter().map(|row| (Vec::new(), row)), &interrupt)?;
    if let (true, Some(limit)) = (diff.failed, diff.fail_above) {
        let worse = diff.rows.iter().filter(|row| row.fails).count();
        let _ = writeln!(
            io::stderr(),
            "check failed: {worse} of {} rows are worse by more than {limit} %",
            diff.rows.len()
        );
        return Ok(Exit::Failed);
    }
    Ok(written)
}

/// Leaves only these metrics; all of them without names.
fn keep(a: &mut Side, b: &mut Side, names: &[String]) -> Result<(), Failure> {
    let mut known: Vec<String> = Vec::new();
    for measured in a.measured.iter().chain(&b.measured).flatten() {
        if !known.contains(&measured.metric.name) {
            known.push(measured.metric.name.clone());
        }
    }
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        return Err(Failure::new(Exit::Usage, format!("unknown metric `{unknown}`; allowed: {}", known.join(", "))));
    }
    if !names.is_empty() {
        for file in a.measured.iter_mut().chain(&mut b.measured) {
            file.retain(|measured| names.contains(&measured.metric.name));
        }
    }
    Ok(())
}

/// The paths of A and of B.
fn sides(first: &[PathBuf], last: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Failure> {
    match (first, last) {
        (a, b) if !b.is_empty() => Ok((a.to_vec(), b.to_vec())),
        ([a, b], _) => Ok((listed(a), listed(b))),
        (given, _) => {
            let inputs = if given.len() == 1 { "input" } else { "inputs" };
            let message =
                format!("cannot tell A from B: {} {inputs} given; allowed: two, or A1 A2 … -- B1 B2 …", given.len());
            Err(Failure::new(Exit::Usage, message)
                .help("separate the files of a side with commas, or put `--` between the sides"))
        }
    }
}

/// The files in a list with commas. A file whose name contains a comma is one file.
fn listed(list: &Path) -> Vec<PathBuf> {
    match list.to_str() {
        Some(text) if text.contains(',') && !list.exists() => text.split(',').map(PathBuf::from).collect(),
        _ => vec![list.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_of_a_command_line() {
        let paths = |words: &[&str]| words.iter().map(PathBuf::from).collect::<Vec<_>>();
        let of = |first: &[&str], last: &[&str]| sides(&paths(first), &paths(last)).ok();
        assert_eq!(of(&["a", "b"], &[]), Some((paths(&["a"]), paths(&["b"]))));
        assert_eq!(of(&["a,b", "c,d,e"], &[]), Some((paths(&["a", "b"]), paths(&["c", "d", "e"]))));
        assert_eq!(of(&["a", "b"], &["c"]), Some((paths(&["a", "b"]), paths(&["c"]))));
        assert_eq!((of(&["a"], &[]), of(&["a", "b", "c"], &[])), (None, None));
        let folder = tempfile::tempdir().unwrap();
        let with_comma = folder.path().join("a,b");
        std::fs::write(&with_comma, "").unwrap();
        assert_eq!(listed(&with_comma), [with_comma]);
    }

    #[test]
    fn limits_are_percentages() {
        assert_eq!((percent("5%"), percent("0.5"), percent("5 %")), (Ok(5.0), Ok(0.5), Ok(5.0)));
        for wrong in ["", "%", "-1%", "x", "inf"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
