//! `pageset replay --identify`: which kernel's rules produced a recording.

use std::path::PathBuf;

use pageset_trace::measure::identification::Identification;
use pageset_trace::replay::identify::identify;
use pageset_trace::replay::{Step, Totals};

use crate::columns::{Fit, grouped, numbers};
use crate::error::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{self, JsonOption, is_standard, write_json};
use crate::recordings;
use crate::replay_cmd::progress::Progress;

/// Candidates in the table, unless all are wanted. A guess: most traffic distinguishes fewer.
const SHOWN: usize = 8;

/// The importance of the columns: those with the largest number leave first.
const RANKS: [usize; 7] = [0, 0, 2, 4, 1, 3, 0];

/// Ranks the rules of all kernels by how much of each recording they explain. Prints the best matches, or all.
pub(super) fn run(files: &[PathBuf], all: bool, json: &JsonOption, fit: Fit) -> Result<Exit, Failure> {
    let interrupt = Interrupt::at_once()?;
    let traces = files.iter().map(|file| recordings::open(file)).collect::<Result<Vec<_>, _>>()?;
    if let Some(trace) = traces.iter().find(|trace| trace.facts().lost_events()) {
        let message = format!("cannot identify {}: events were lost while recording", trace.name());
        return Err(Failure::new(Exit::Damaged, message).help("record with a larger --buffer"));
    }
    let json = json.path()?;
    let json_only = json.is_some_and(is_standard);
    let mut results = Vec::new();
    for (i, trace) in traces.iter().enumerate() {
        let mut progress = Progress::new(trace);
        let identified = identify(trace, &mut |done, of| progress.step(Step::Presets { done, of }))?;
        progress.clear();
        let result = Identification::new(trace, &identified);
        if !json_only {
            let apart = if i > 0 { "\n" } else { "" };
            output::print(&format!("{apart}{}", text(&result, all, fit)))?;
        }
        results.push(result);
    }
    match json {
        Some(path) => write_json(path, &results, &interrupt),
        None => Ok(Exit::Done),
    }
}

fn text(found: &Identification, all: bool, fit: Fit) -> String {
    let release = found.kernel_release.as_deref().unwrap_or("not recorded");
    let by = found.by_release.as_ref().map_or(String::new(), |name| format!(", rules {name}"));
    let text = fit.prose(&format!("{}: {}\nkernel {release}{by}\n", found.recording, answer(found)));
    let mut table =
        numbers(["rules", "explained", "refills", "refill pages", "drains", "drain pages", "agrees"].into_iter(), 0..1);
    let Totals { refills, refill_pages, drains, drain_pages } = found.kernel;
    let amounts = [refills, refill_pages, drains, drain_pages].map(grouped);
    table.add_row(["kernel, as recorded".to_owned(), "-".to_owned()].into_iter().chain(amounts).collect::<Vec<_>>());
    let shown = if all { found.candidates.len() } else { SHOWN.max(found.alike) };
    for row in found.candidates.iter().take(shown) {
        let name = std::iter::once(&row.rules).chain(&row.same).cloned().collect::<Vec<_>>().join(" = ");
        let amounts = [row.refills, row.refill_pages, row.drains, row.drain_pages].map(grouped);
        let cells = [name, format!("{:.1} %", row.explained_pct)].into_iter().chain(amounts);
        table.add_row(cells.chain([if row.agrees { "yes" } else { "no" }.to_owned()]).collect::<Vec<_>>());
    }
    text + &fit.table(table, &RANKS)
}

/// The rules that produced the recording, and how sure that is.
fn answer(found: &Identification) -> String {
    let (named, others): (Vec<_>, Vec<_>) = found.best().iter().partition(|row| found.is_choice(row));
    let others = others.iter().map(|row| row.rules.as_str()).collect::<Vec<_>>().join(", ");
    let (choice, confidence) = (&found.choice, found.confidence.name());
    if named.is_empty() {
        return format!(
            "best: {others} (confidence {confidence}); the release names {choice}, which the traffic does not clearly contradict"
        );
    }
    let alike =
        if others.is_empty() { String::new() } else { format!("; this traffic does not distinguish: {others}") };
    format!("{choice}, confidence {confidence}{alike}")
}
