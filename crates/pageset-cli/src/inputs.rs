//! What `report` and `diff` read: the kinds of files and results of this program.

use std::path::Path;

use pageset_report::kinds::{FileKind, Inputs, ResultKind, typed};
use pageset_report::measure::Step;
use pageset_report::page::joined;
use pageset_trace::advise::AdviceSet;
use pageset_trace::replay::Replay;

use crate::diff_cmd;
use crate::error::{Exit, Failure};
use crate::recordings;
use crate::report_cmd::{recording, results, top};

/// What `report` and `diff` read.
pub(crate) static INPUTS: Inputs = Inputs {
    files: &[TABLE, RECORDING],
    is_built_in: recordings::is_demo,
    results: &[
        ResultKind {
            schema: "pageset.replay/1",
            report: |values| joined(values, |value| Ok(results::replay(&typed(value)?))),
            measure: Some(|value| Ok(diff_cmd::of_replay(&typed(value)?))),
        },
        ResultKind {
            schema: "pageset.advise/1",
            report: |values| joined(values, |value| Ok(results::advise(&typed(value)?, None))),
            measure: None,
        },
        ResultKind {
            schema: "pageset.advise-set/1",
            report: |values| {
                joined(values, |value| {
                    let set: AdviceSet = typed(value)?;
                    Ok(results::advise_set(&set, joined(&set.recordings, |advice| Ok(results::advise(advice, None)))?))
                })
            },
            measure: None,
        },
        ResultKind { schema: "pageset.top/1", report: top::top, measure: None },
    ],
    reported: "use a recording, or the output of `pageset replay`, `advise` or `top` with --json",
    compared: "use recordings, or the JSON of `pageset replay`; `pageset-lab diff` compares simulations and benchmarks",
    elsewhere: (&["pageset.run/1", "pageset.compare/1", "pageset.bench/1"], "pageset-lab"),
};

/// A recording, in any form.
const RECORDING: FileKind = FileKind {
    is: |_| true,
    report: |path| recording::report(path, &recordings::open(path)?),
    measure: |path, progress| {
        let trace = recordings::open(path)?;
        let of = trace.totals().map(|totals| pageset_trace::replay::PASSES * totals.events);
        let replay = Replay::prepare(&trace, &mut |read| progress(Step::Events { read, of }))?;
        Ok(diff_cmd::of_recording(&replay, &trace.facts().command))
    },
};

/// The table of a study, which the laboratory reads.
const TABLE: FileKind = FileKind {
    is: |begin| begin.starts_with(b"PAR1"),
    report: |path| Err(table(path, "report")),
    measure: |path, _| Err(table(path, "diff")),
};

/// The failure for the table of a study.
fn table(path: &Path, command: &str) -> Failure {
    Failure::new(Exit::Damaged, format!("cannot read {}: it is the table of a study", path.display()))
        .help(format!("`pageset-lab {command}` reads it"))
}
