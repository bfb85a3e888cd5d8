//! `pageset diff`: what changed between two sets of recordings or results of `replay`.

use pageset_report::diff;
use pageset_report::kinds::Inputs;
use pageset_report::measure::{Better, Kind, Measured, amount, measured, per_1000, single};
use pageset_trace::measure::{ReplayResult, Replayed};
use pageset_trace::replay::Replay;

use crate::error::{Exit, Failure};

/// Compare two sets of recordings or results: what changed, and whether it is more than noise
///
/// Compares recordings with each other, or results of `replay`. A row shows the change of one metric from A to B. With
/// two files or more on each side, it also shows the interval of changes that the files are compatible with. The
/// intervals of all rows together hold with 95 % (Welch's method, with the correction of Bonferroni). A change is noise
/// if its interval contains 0.
///
/// Cases meet if they agree in their properties, such as the recording and the rules. A property that all cases
/// of A share, and all cases of B with another value, is what is compared.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    diff: diff::Args,
}

pub(crate) fn run(inputs: &Inputs, args: &Args) -> Result<Exit, Failure> {
    diff::run(inputs, &args.diff)
}

/// What a recorded kernel did.
static RECORDING: Kind = Kind { name: "recording", about: "a recording", by_file: false, note: "" };
/// A replay of a recording.
static REPLAY: Kind = Kind { name: "replay", about: "a result of replay", by_file: false, note: "" };

/// The metrics of a replay: one sample each. A row of another level than the result's is left out.
pub(crate) fn of_replay(result: &ReplayResult) -> Vec<Measured> {
    let of_row = |row: &Replayed| {
        let case = vec![
            ("recording", result.trace.name.clone()),
            ("rules", row.name.clone()),
            ("level", row.level.name().to_owned()),
        ];
        measured(&REPLAY, &case, std::slice::from_ref(row), |row| (None, row.operations))
    };
    result.named().flat_map(of_row).collect()
}

/// What the kernel did in a recording: one sample each.
pub(crate) fn of_recording(replay: &Replay<'_>, command: &[String]) -> Vec<Measured> {
    let load = if command.is_empty() { "the machine".to_owned() } else { command.join(" ") };
    let case = vec![
        ("load", load),
        ("kernel", replay.setting().kernel.name.to_owned()),
        ("CPUs", replay.setting().cpus.len().to_string()),
    ];
    let (kernel, notes) = (replay.kernel(), replay.notes());
    let totals = kernel.totals(|_| true);
    let largest = kernel.refills.iter().chain(&kernel.drains).map(|moved| moved.pages).max().unwrap_or(0);
    let of_1000 = |count: u64| per_1000(count, notes.operations);
    let seconds = (notes.duration_ns as f64 / 1e9).max(1e-9);
    let all = [
        ("refills/1000 ops", Better::Lower, of_1000(totals.refills)),
        ("drains/1000 ops", Better::Lower, of_1000(totals.drains)),
        ("refill pages/1000 ops", Better::Lower, of_1000(totals.refill_pages)),
        ("drain pages/1000 ops", Better::Lower, of_1000(totals.drain_pages)),
        ("largest move", Better::Lower, f64::from(largest)),
        ("fallbacks/1000 ops", Better::Lower, of_1000(notes.found.fallbacks)),
        ("reclaims", Better::Lower, notes.found.reclaims as f64),
        ("operations a second", Better::Neither, notes.operations as f64 / seconds),
    ];
    all.into_iter().map(|(name, better, value)| single(&RECORDING, &case, amount(name, better), value)).collect()
}
