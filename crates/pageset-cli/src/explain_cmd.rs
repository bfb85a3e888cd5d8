//! `pageset explain`: what a column, a number, a rule or a warning means, and what to do about it.

use pageset_report::{diff, explain};
use schemars::{Schema, schema_for};

use crate::error::{Exit, Failure};
use crate::status_cmd::{self, Status};
use crate::top_cmd;

/// Explain what a column, a number, a rule or a warning means, when it is bad, and what to do
///
/// NAME is a name from any output: a column heading, a metric, a key of --set, a member of JSON, or the word in
/// brackets at the end of a warning. Without NAME the command lists all names. With --schema it prints the JSON schema
/// of a result.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    explain: explain::Args,
}

/// Runs `pageset explain`.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    explain::run(&SCHEMAS, &args.explain)
}

/// The results of this program.
const SCHEMAS: explain::Schemas = explain::Schemas { names: &NAMES, of };

/// The names of the results that have a schema.
const NAMES: [&str; 8] = ["status", "replay", "identify", "advise", "advise set", "trace info", "diff", "top"];

/// The schema of a result, by the command's name or by the value of the result's member `schema`.
fn of(name: &str) -> Option<Schema> {
    Some(match name {
        "status" | status_cmd::SCHEMA => schema_for!(Status),
        "diff" | diff::SCHEMA => schema_for!(diff::Diff),
        "top" => top_cmd::schema().1,
        _ => {
            let asked = name.replace(' ', "-");
            let is_asked = |of: &str| {
                of == name || of.strip_prefix("pageset.").and_then(|of| of.split('/').next()) == Some(&asked)
            };
            pageset_trace::schemas().into_iter().chain([top_cmd::schema()]).find(|(of, _)| is_asked(of))?.1
        }
    })
}

#[cfg(test)]
mod tests {
    use pageset_report::explain::{explained, faults};

    use super::SCHEMAS;

    /// Each name that the command prints has an entry: column headings, rules, warnings.
    #[test]
    fn every_printed_name_has_an_entry() {
        assert_eq!(faults(&SCHEMAS), Vec::<String>::new());
        let columns = crate::trace_cmd::columns().chain(crate::advise_cmd::names()).chain(pageset_report::diff::HEADS);
        let warnings = pageset_trace::measure::warnings::Name::ALL.iter().map(|name| name.text());
        let names = columns.chain(warnings).chain(crate::rules::keys()).map(str::to_owned);
        let mut seen = 0;
        for name in names.chain(crate::top_cmd::names()) {
            assert!(!explained(&SCHEMAS, &name).is_empty(), "{name} is printed but has no entry");
            seen += 1;
        }
        assert!(seen > 80, "only {seen} names");
    }
}
