//! `pageset advise`: whether a load would be served better by another setting of this kernel's.
//!
//! | module | what it does |
//! | --- | --- |
//! | `patterns` | what kind of traffic it is, from one pass over the recording |
//! | `trust` | how sure that is, from how near the replay comes to the kernel |
//! | `verdict` | what to set, or nothing, from what replays measured |
//! | `table` | the advice as text |

mod patterns;
mod table;
mod trust;
mod verdict;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pageset::tuning::{PRESETS, Tuning};
use pageset_trace::Trace;
use pageset_trace::record::{self, Destination, HOLD, Limits, Options};
use pageset_trace::replay::identify::{self, Step};
use pageset_trace::replay::{Level, Outcome, ReplayError, RuleSet};
use serde::Serialize;

use self::patterns::Patterns;
use self::trust::{Seen, Sure, Trust};
use self::verdict::{Measured, Verdict, judge};
use crate::error::{Exit, Failure};
use crate::output::Output;
use crate::replay_cmd::progress::{Interrupt, Progress};
use crate::replay_cmd::warnings::disagreement;

/// Say whether another setting of this kernel's would serve a load better, what it gains and what it costs
///
/// The recording is replayed under every setting that its kernel offers (vm.percpu_pagelist_high_fraction at 0, 8 to
/// 100), and for comparison under the rules of other kernels. The answer is often: change nothing. Nothing is set.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The recording; as for `pageset replay`
    #[arg(required_unless_present = "live", value_name = "TRACE")]
    trace: Option<PathBuf>,

    /// Record this machine for so many seconds instead, as root
    #[arg(long, value_name = "SECONDS", conflicts_with = "trace", value_parser = clap::value_parser!(u64).range(1..=600))]
    live: Option<u64>,

    /// Also write JSON of the schema pageset.advise/1; `-` is standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What heads the columns.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    table::SETTINGS.into_iter().chain(patterns::NAMES)
}

/// All that is said.
#[derive(Serialize)]
struct Advice<'t> {
    schema: &'static str,
    trace: &'t str,
    kernel: Kernel<'t>,
    duration_ns: u64,
    operations: u64,
    cpus: usize,
    /// All pages of the zones, to weigh what pagesets hold.
    managed_pages: u64,
    verdict: Verdict,
    /// What the setting gains, in a sentence; null where nothing is to be changed.
    gain: Option<String>,
    /// What it costs.
    price: Option<String>,
    sure: Sure,
    /// Pages free in blocks of orders 9 and 10, where the recording tells.
    high_orders: HighOrderPages,
    /// Under what this kernel can be set to.
    settings: Vec<Measured>,
    /// Under the rules of other kernels.
    other_kernels: Vec<Measured>,
    patterns: Patterns,
    /// Of the patterns those that rule the load.
    named_patterns: Vec<Named>,
}

/// A pattern that rules the load.
#[derive(Serialize)]
struct Named {
    name: &'static str,
    seen: String,
}

/// How near the replay of what was in force comes to what the kernel kept free in large blocks.
#[derive(Serialize)]
struct HighOrderPages {
    /// Where the recording begins.
    begin_pages: Option<u64>,
    /// Where it ends: what the kernel had.
    kernel_end_pages: Option<u64>,
    /// And the replay.
    replay_end_pages: Option<u64>,
}

#[derive(Serialize)]
struct Kernel<'t> {
    release: Option<&'t str>,
    rules: &'static str,
    known: bool,
    /// Where the traffic does not agree with the rules of the release: what it agrees with.
    disagreement: Option<String>,
    high_fraction: u32,
}

/// The fractions that are tried: none, the least that is allowed, and what folklore uses.
const FRACTIONS: [u32; 7] = [0, 8, 12, 16, 25, 50, 100];
/// Other kernels: the ends of each era. The recorded kernel's own is left out.
const OTHERS: [&str; 4] = ["linux-4.19", "linux-5.18", "linux-6.7", "linux-6.18"];
/// Runs `pageset advise`.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let folder;
    let path = match (&args.trace, args.live) {
        (Some(path), _) => path.clone(),
        (None, Some(seconds)) => {
            folder = tempfile::tempdir()?;
            let path = folder.path().join("live.pstrace");
            record_for(Duration::from_secs(seconds), &path)?;
            path
        }
        (None, None) => {
            return Err(
                Failure::new(Exit::Usage, "there is nothing to judge").help("give a recording, or --live SECONDS")
            );
        }
    };
    let interrupt = Interrupt::install()?;
    let trace = Trace::open(&path)?;
    let advice = Advice::of(&trace, &mut Progress::new())?;
    if args.json.as_deref() != Some(Path::new("-")) {
        io::stdout().write_all(table::text(&advice).as_bytes())?;
    }
    if let Some(path) = &args.json {
        let json = serde_json::to_vec_pretty(&advice).map_err(io::Error::from)?;
        let (written, interrupted) = interrupt.held_off(|| {
            let mut out = Output::create(path)?;
            out.write_all(&json)?;
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

/// Records this machine as it runs.
fn record_for(time: Duration, path: &Path) -> Result<(), Failure> {
    let options = Options {
        command: Vec::new(),
        output: Destination::File(path.to_owned()),
        buffer_bytes: None,
        empty_lists: false,
        limits: Limits { duration: Some(time), ..Limits::default() },
        launcher: vec!["/proc/self/exe".into(), HOLD.into()],
    };
    let summary = record::record(&options, &mut |_| {}).map_err(crate::record_cmd::failure)?;
    match summary.interrupted {
        Some(_) => Err(Failure::new(Exit::Interrupted, "interrupted while recording; nothing can be said")),
        None => Ok(()),
    }
}

impl<'t> Advice<'t> {
    fn of(trace: &'t Trace, progress: &mut Progress) -> Result<Self, Failure> {
        progress.look_over(trace);
        let (replay, identified) = identify::prepare(trace, &mut |step| match step {
            Step::Events(events) => progress.at(events),
            Step::Presets { done, of } => progress.identify(done, of),
        })
        .map_err(failure)?;
        let patterns = Patterns::find(trace)?;
        let facts = trace.facts();
        let in_force = facts.high_fraction.unwrap_or(0);
        let kernel = replay.kernel_rules();
        let offered = settings(&kernel, in_force);
        let others = others(&kernel);
        let (notes, count) = (*replay.notes(), (offered.len() + others.len()) as u64);
        let mut done = 0;
        let mut measure = |rules: &RuleSet| -> Result<(Measured, Outcome), Failure> {
            progress.replay(&rules.name, notes.events, done, count);
            done += 1;
            let outcome =
                replay.run(rules, Level::Reconstructed, &mut |events| progress.at(events)).map_err(failure)?;
            Ok((measured(rules, &outcome), outcome))
        };
        let (mut settings, mut in_force_did) = (Vec::new(), None);
        for (fraction, rules) in &offered {
            let (measured, outcome) = measure(rules)?;
            let now = *fraction == in_force;
            if now {
                in_force_did = Some(outcome);
            }
            settings.push(Measured { high_fraction: Some(*fraction), in_force: now, ..measured });
        }
        let other_kernels = others.iter().map(|rules| Ok(measure(rules)?.0)).collect::<Result<_, Failure>>()?;
        progress.clear();
        let setting = replay.setting();
        let cpus = setting.cpus.len();
        let managed_pages = setting.zones.iter().map(|zone| zone.start.managed).sum();
        let seconds = notes.duration_ns as f64 / 1e9;
        let verdict = judge(&settings, seconds, cpus);
        let sure = match &in_force_did {
            Some(outcome) => trust::judge(&Seen {
                kernel: replay.kernel().totals(|_| true),
                replay: outcome.moves.totals(|_| true),
                basis: verdict.basis,
                seconds,
                cpus,
                lost_events: facts.lost_events(),
                near_mark: outcome.near_mark,
                kernel_known: setting.kernel_known,
            }),
            None => Sure { trust: Trust::Low, reasons: Vec::new() },
        };
        let seen = in_force_did.and_then(|outcome| outcome.high_orders);
        let chosen = table::chosen(&settings, &verdict);
        let named = patterns.named().into_iter().map(|(name, seen)| Named { name, seen });
        Ok(Advice {
            schema: "pageset.advise/1",
            trace: trace.name(),
            kernel: Kernel {
                release: facts.kernel_release.as_deref(),
                rules: setting.kernel.name,
                known: setting.kernel_known,
                disagreement: identified.as_ref().map(disagreement),
                high_fraction: in_force,
            },
            duration_ns: notes.duration_ns,
            operations: notes.operations,
            cpus,
            managed_pages,
            gain: chosen.map(|(now, then)| table::gain(now, then)),
            price: chosen.map(|(now, then)| table::price(now, then, managed_pages)),
            verdict,
            sure,
            high_orders: HighOrderPages {
                begin_pages: seen.map(|seen| seen.begin),
                kernel_end_pages: replay.kernel_high_orders_end(),
                replay_end_pages: seen.map(|seen| seen.end),
            },
            settings,
            other_kernels,
            named_patterns: named.collect(),
            patterns,
        })
    }
}

/// The settings that are offered, by their fraction. The one in force is replayed with the bounds that the snapshots
/// show.
fn settings(kernel: &RuleSet, in_force: u32) -> Vec<(u32, RuleSet)> {
    let mut fractions = FRACTIONS.to_vec();
    if !fractions.contains(&in_force) {
        fractions.push(in_force);
        fractions.sort_unstable();
    }
    let rules = |fraction: u32| {
        let high_fraction = (fraction != in_force).then_some(fraction);
        (fraction, RuleSet { name: fraction.to_string(), high_fraction, ..kernel.clone() })
    };
    fractions.into_iter().map(rules).collect()
}

fn others(kernel: &RuleSet) -> Vec<RuleSet> {
    let presets = OTHERS.iter().filter_map(|name| PRESETS.iter().find(|preset| preset.name == *name));
    let rules = presets.map(|preset| {
        let batch_scale_max = kernel.tuning.batch_scale_max;
        RuleSet { high_fraction: Some(0), ..RuleSet::new(preset.name, Tuning { batch_scale_max, ..preset.tuning }) }
    });
    rules.filter(|rules| rules.name != kernel.name).collect()
}

fn failure(error: ReplayError) -> Failure {
    match error {
        ReplayError::Trace(error) => error.into(),
        ReplayError::Map(error) => {
            Failure::new(Exit::Damaged, format!("the recorded machine cannot be built: {error}"))
        }
    }
}

fn measured(rules: &RuleSet, outcome: &Outcome) -> Measured {
    let moves = || outcome.moves.refills.iter().chain(&outcome.moves.drains).map(|moved| u64::from(moved.pages));
    Measured {
        setting: rules.name.clone(),
        high_fraction: None,
        in_force: false,
        operations: outcome.operations,
        zone_lock_acquisitions: outcome.zone_lock_acquisitions,
        longest_hold_pages: moves().max().unwrap_or(0),
        moved_pages: moves().sum(),
        held_pages_max: outcome.held_pages_max,
        high_order_pages_min: outcome.high_orders.map(|seen| seen.least),
        short: outcome.failed + outcome.below_min,
    }
}
