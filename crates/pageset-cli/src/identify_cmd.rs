//! `pageset identify`: which kernel's rules made a recording.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pageset_trace::Trace;
use pageset_trace::replay::identify::{Candidate, Identified, identify};
use serde::Serialize;

use crate::columns::{grouped, numbers, trimmed};
use crate::error::{Exit, Failure};
use crate::output::Output;
use crate::replay_cmd::measure::failure;
use crate::replay_cmd::progress::{Interrupt, Progress};

/// The schema's name and version.
const SCHEMA: &str = "pageset.identify/1";
/// Candidates in the table unless all are asked for. A guess: more than can be told apart on most traffic.
const SHOWN: usize = 8;

/// Find out which kernel's rules made a recording, from its refills and drains
///
/// Replays the recording under the rules of every kernel. A row says what share of the moved pages the replay and the kernel move
/// near the same place, and how refills and drains compare. The first row is the best.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The recordings, each reported by itself
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Show all presets, not only the best
    #[arg(long)]
    all: bool,

    /// Also write JSON of the schema pageset.identify/1, an object a recording; `-` is standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What the table and the JSON show; the fields stand in this order.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    recording: String,
    kernel_release: Option<String>,
    /// The preset that the release names; null where the recording has none.
    by_release: Option<&'static str>,
    /// The preset to replay under.
    choice: &'static str,
    /// `high`, `fair` or `low`.
    confidence: &'static str,
    /// How many of the first presets cannot be told apart on this traffic.
    alike: usize,
    candidates: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    rules: &'static str,
    /// Other kernels' presets with the same rules.
    same: Vec<&'static str>,
    explained_pct: f64,
    agrees: bool,
    refill_pages: u64,
    refills: u64,
    drain_pages: u64,
    drains: u64,
}

impl Document {
    fn new(trace: &Trace, identified: &Identified) -> Self {
        let row = |candidate: &Candidate| {
            let [refill_pages, refills, drain_pages, drains] = candidate.deviations.map(|deviation| deviation.replay);
            Row {
                rules: candidate.preset.name,
                same: candidate.same.clone(),
                explained_pct: candidate.explained_pct,
                agrees: candidate.agrees,
                refill_pages,
                refills,
                drain_pages,
                drains,
            }
        };
        Document {
            schema: SCHEMA,
            recording: trace.name().to_owned(),
            kernel_release: trace.facts().kernel_release.clone(),
            by_release: identified.by_release.map(|preset| preset.name),
            choice: identified.choice().name,
            confidence: identified.confidence.name(),
            alike: identified.alike,
            candidates: identified.candidates.iter().map(row).collect(),
        }
    }

    fn text(&self, kernel: [u64; 4], all: bool) -> String {
        let release = self.kernel_release.as_deref().unwrap_or("not recorded");
        let by = self.by_release.map_or(String::new(), |name| format!(", rules {name}"));
        let mut text = format!("{}: kernel {release}{by}\n", self.recording);
        let mut table = numbers(
            ["rules", "explained", "refills", "refill pages", "drains", "drain pages", "agrees"].into_iter(),
            0..1,
        );
        let [refill_pages, refills, drain_pages, drains] = kernel.map(grouped);
        table.add_row(vec![
            "kernel, as recorded".to_owned(),
            "-".to_owned(),
            refills,
            refill_pages,
            drains,
            drain_pages,
        ]);
        let shown = if all { self.candidates.len() } else { SHOWN.max(self.alike) };
        for row in self.candidates.iter().take(shown) {
            let name = [row.rules].into_iter().chain(row.same.iter().copied()).collect::<Vec<_>>().join(" = ");
            let amounts = [row.refills, row.refill_pages, row.drains, row.drain_pages].map(grouped);
            let cells = [name, format!("{:.1} %", row.explained_pct)].into_iter().chain(amounts);
            table.add_row(cells.chain([if row.agrees { "yes" } else { "no" }.to_owned()]).collect::<Vec<_>>());
        }
        text += &trimmed(&table);
        let is_choice = |row: &&Row| row.rules == self.choice || row.same.contains(&self.choice);
        let best = &self.candidates[..self.alike];
        let others = best.iter().filter(|row| !is_choice(row)).map(|row| row.rules).collect::<Vec<_>>().join(", ");
        let (choice, confidence) = (self.choice, self.confidence);
        text += "\n";
        if !best.iter().any(|row| is_choice(&row)) {
            text += &format!("best: {others} (confidence {confidence}); the release names {choice}, ");
            return text + "which the traffic does not clearly contradict\n";
        }
        let alike =
            if others.is_empty() { String::new() } else { format!("; not told apart on this traffic: {others}") };
        text + &format!("{choice}, confidence {confidence}{alike}\n")
    }
}

/// Runs `pageset identify`.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let interrupt = Interrupt::install()?;
    let traces = args.files.iter().map(|file| Trace::open(file)).collect::<Result<Vec<_>, _>>()?;
    let json_only = args.json.as_deref() == Some(Path::new("-"));
    let mut documents = Vec::new();
    if let Some(trace) = traces.iter().find(|trace| trace.facts().lost_events()) {
        let message = format!("cannot identify {}: events were lost while it was recorded", trace.name());
        return Err(Failure::new(Exit::Damaged, message).help("record with a larger --buffer"));
    }
    for (i, trace) in traces.iter().enumerate() {
        let mut progress = Progress::new();
        let identified = identify(trace, &mut |done, of| progress.identify(done, of)).map_err(failure)?;
        progress.clear();
        let document = Document::new(trace, &identified);
        if !json_only {
            let kernel = identified.candidates[0].deviations.map(|deviation| deviation.kernel);
            let apart = if i > 0 { "\n" } else { "" };
            write!(io::stdout(), "{apart}{}", document.text(kernel, args.all))?;
        }
        documents.push(document);
    }
    if let Some(path) = &args.json {
        let text = match documents.as_slice() {
            [document] => serde_json::to_vec_pretty(document),
            documents => serde_json::to_vec_pretty(documents),
        };
        let text = text.map_err(io::Error::from)?;
        let (written, interrupted) = interrupt.held_off(|| {
            let mut out = Output::create(path)?;
            out.write_all(&text)?;
            out.write_all(b"\n")?;
            out.commit()
        });
        written?;
        if interrupted {
            return Ok(Exit::Interrupted);
        }
    }
    Ok(Exit::Done)
}
