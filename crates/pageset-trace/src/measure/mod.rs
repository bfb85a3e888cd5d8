//! Replays one recording under several sets of rules and builds the result that table, JSON and report show.
//!
//! | module | contents |
//! | --- | --- |
//! | `model` | the result |
//! | [`warnings`], `recipe`, `weaknesses` | warnings about the result |
//! | `check` | the check of a replay against the kernel |
//! | [`identification`] | the kernel rules that fit a recording best |
//! | `timeline` | times of the kernel's and each replay's refills and drains |

mod check;
pub mod identification;
mod model;
mod recipe;
mod timeline;
pub mod warnings;
mod weaknesses;

use std::collections::{BTreeMap, BTreeSet};

use pageset_rules::{Chosen, RuleSet};

pub use model::{
    Check, Differences, Kernel, Limit, Nearness, Pageset, Recording, ReplayResult, Replayed, Schema, Selected, Verdict,
    Whole, Zone, differs_pct,
};
pub(crate) use recipe::of_recipe;
pub use timeline::Mark;
pub(crate) use weaknesses::kernel_ticks;
pub use weaknesses::{disagreement, lost_on, of_recording};

use self::warnings::Warning;
use crate::facts::Facts;
use crate::replay::agreement::{agrees, explained_pct};
use crate::replay::identify::{Identified, identify_surveyed};
use crate::replay::parallel::{Progress, run_all};
use crate::replay::selection::{Only, Selection};
use crate::replay::{Level, Move, Moves, Outcome, Replay, ReplayError, Setting, Step, Totals, near};
use crate::trace::Trace;

/// Options of the replays.
#[derive(Clone, Debug)]
pub struct How {
    /// The level of the replays of the named rules.
    pub level: Level,
    /// Conditions on the counted refills and drains; all count if empty.
    pub only: Vec<Only>,
}

/// A recording's result, and the moves behind it.
#[derive(Debug)]
pub struct Measured<'t> {
    /// The result.
    pub result: ReplayResult,
    /// Whether the traffic contradicts the rules that the release names. If so, the replay uses the rules that agree
    /// with the traffic, and a check fails.
    pub contradicted: bool,
    trace: &'t Trace,
    replay: Replay<'t>,
    /// The counted moves of each row of the result.
    moves: Vec<Moves>,
}

/// A replay under one set of rules, before it becomes a row of the result.
struct Run {
    rules: RuleSet,
    level: Level,
    /// Whether the rules are the recorded kernel's.
    is_kernel: bool,
    cache_slice_pages: Option<u64>,
    /// The totals of all refills and drains, counted or not.
    whole: Totals,
    /// The counted refills and drains.
    moves: Moves,
    /// The other measurements, without moves.
    outcome: Outcome,
    /// Replays with one undecided moment the other way, of the kernel's rules at the input level.
    other_ways: Vec<Totals>,
}

impl<'t> Measured<'t> {
    /// Replays a recording. If the rules that its release names do not agree with its traffic but another kernel's
    /// rules do, the latter are taken as the kernel's.
    ///
    /// # Errors
    /// If the recording is damaged, or its replay under the rules is impossible.
    pub fn new(
        trace: &'t Trace,
        chosen: &Chosen,
        how: &How,
        progress: &mut dyn FnMut(Step<'_>),
    ) -> Result<Self, ReplayError> {
        progress(Step::LookOver);
        let mut replay = Replay::prepare(trace, &mut |events| progress(Step::Events(events)))?;
        let selection =
            if how.only.is_empty() { None } else { Some(Selection::new(trace, replay.setting(), &how.only)?) };
        let mut runs = runs(&replay, chosen, how.level, selection.as_ref(), progress)?;
        let own = runs.iter().find(|run| run.is_kernel && run.level == how.level);
        let mut identified = None;
        if own.is_some_and(|own| !agrees(&replay.kernel().totals(|_| true), &own.whole)) {
            let found = identify_surveyed(&replay, &mut |done, of| progress(Step::Presets { done, of }))?;
            if found.choice().tuning != replay.setting().kernel.tuning {
                replay = replay.under(found.choice(), &mut |events| progress(Step::Events(events)))?;
                runs = self::runs(&replay, chosen, how.level, selection.as_ref(), progress)?;
            }
            identified = Some(found);
        }
        Ok(Self::of(trace, replay, how, selection, runs, identified.as_ref()))
    }

    fn of(
        trace: &'t Trace,
        replay: Replay<'t>,
        how: &How,
        selection: Option<Selection>,
        runs: Vec<Run>,
        identified: Option<&Identified>,
    ) -> Self {
        let setting = replay.setting();
        let places = replay.notes().replayed;
        let kernel = &selected(selection.as_ref(), replay.kernel());
        let warnings = weaknesses::of_trace(trace, &replay, how.level, &runs, identified);
        let row = |run: &Run| replayed(run, &replay, kernel, trace.facts(), &warnings);
        let named = identified.and_then(|identified| identified.by_release);
        let own = runs.iter().find(|run| run.is_kernel && run.level == how.level);
        let result = ReplayResult {
            schema: Schema::V1,
            level: how.level,
            only: selection.map(|selection| Selected {
                conditions: how.only.iter().map(ToString::to_string).collect(),
                selected_operations: selection.operations,
                unlisted_operations: selection.unlisted,
                whole: own.map(|own| Whole {
                    kernel: replay.kernel().totals(|_| true),
                    busiest: replay.kernel().busiest(),
                    replay: own.whole,
                }),
            }),
            trace: recording(trace, &replay),
            kernel: Kernel {
                rules: setting.kernel.name.to_owned(),
                known: setting.kernel_known,
                totals: kernel.totals(|_| true),
                pagesets: pagesets(setting, kernel, kernel, places),
            },
            rules: runs.iter().map(row).collect(),
            check: None,
            warnings: warnings.clone(),
        };
        let contradicted = named.is_some_and(|named| named.tuning != setting.kernel.tuning);
        let moves = runs.into_iter().map(|run| run.moves).collect();
        Measured { result, contradicted, trace, replay, moves }
    }
}

/// Replays each set of rules in order. The last replay uses the kernel's rules at the input level.
fn runs(
    replay: &Replay<'_>,
    chosen: &Chosen,
    level: Level,
    selection: Option<&Selection>,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<Vec<Run>, ReplayError> {
    let kernel_rules = replay.kernel_rules();
    let mut sets: Vec<(RuleSet, Level)> =
        chosen.for_kernel(&kernel_rules)?.into_iter().map(|rules| (rules, level)).collect();
    let recorded_slice = replay.setting().cache_slice_pages;
    if level != Level::Input {
        let control = if recorded_slice.is_none() { chosen.control(&kernel_rules) } else { kernel_rules.clone() };
        sets.push((control, Level::Input));
    }
    let run = |(rules, level): &(RuleSet, Level), count: &mut dyn FnMut(u64)| {
        let mut outcome = replay.run(rules, *level, count)?;
        let cache_slice_pages = rules.cache_slice_pages.or(recorded_slice);
        let all = std::mem::take(&mut outcome.moves);
        // A recording without cache sizes does not contradict the given size.
        let is_kernel = rules.tuning == kernel_rules.tuning
            && rules.high_fraction.is_none()
            && (recorded_slice.is_none() || cache_slice_pages == recorded_slice);
        let other_ways = if is_kernel && *level == Level::Input { replay.other_ways(rules)? } else { Vec::new() };
        Ok(Run {
            is_kernel,
            other_ways,
            rules: rules.clone(),
            level: *level,
            cache_slice_pages,
            whole: all.totals(|_| true),
            moves: selected(selection, &all),
            outcome,
        })
    };
    let (events, of) = (replay.notes().events, sets.len() as u64);
    run_all(&sets, replay.threads(), run, &mut |step| match step {
        Progress::Begin(done) => progress(Step::Replay { rules: &sets[done].0.name, events, done: done as u64, of }),
        Progress::Events(read) => progress(Step::Events(read)),
    })
}

fn selected(selection: Option<&Selection>, moves: &Moves) -> Moves {
    selection.map_or_else(|| moves.clone(), |selection| selection.of(moves))
}

/// Builds a row of the result. `shared` are the warnings of all rows.
fn replayed(run: &Run, replay: &Replay<'_>, kernel: &Moves, facts: &Facts, shared: &[Warning]) -> Replayed {
    let Run { rules, outcome, moves, .. } = run;
    let (places, kernel_totals, totals) = (replay.notes().replayed, kernel.totals(|_| true), moves.totals(|_| true));
    let mut counted = weaknesses::of_run(outcome, replay.notes());
    counted.extend(weaknesses::undecided(&run.whole, &run.other_ways, replay.notes()));
    let own: Vec<Warning> = counted.iter().map(|counted| counted.warning("")).collect();
    Replayed {
        name: rules.name.clone(),
        level: run.level,
        is_kernel: run.is_kernel,
        totals,
        differences: Differences::new(&totals, &kernel_totals),
        near: nearness(kernel, moves, places),
        explained_pct: explained_pct(kernel, moves),
        agrees: agrees(&kernel_totals, &totals),
        taken_from_kernel: outcome.borrowed,
        zone_lock_acquisitions: outcome.zone_lock_acquisitions,
        zone_lock_acquisitions_per_1000_operations: per_1000(outcome.zone_lock_acquisitions, outcome.operations),
        zone_lock_lines: outcome.zone_lock_lines,
        longest_hold_lines: outcome.longest_hold_lines,
        held_pages_max: outcome.held_pages_max,
        depot_pages: outcome.depot_pages,
        operations: outcome.operations,
        failed: outcome.failed,
        below_min: outcome.below_min,
        unseen_allocs: outcome.unseen_allocs,
        lost_frees: outcome.lost_frees,
        refused_frees: outcome.refused_frees,
        tuning: pageset_rules::described(&rules.tuning).into_iter().map(|(key, v)| (key.to_owned(), v)).collect(),
        high_fraction: rules.high_fraction.or(facts.high_fraction).unwrap_or(0),
        cache_slice_pages: run.cache_slice_pages,
        pagesets: pagesets(replay.setting(), moves, kernel, places),
        warnings: shared.iter().cloned().chain(own).collect(),
        counted,
    }
}

/// The number per 1000 operations.
pub(crate) fn per_1000(number: u64, operations: u64) -> f64 {
    1000.0 * number as f64 / operations.max(1) as f64
}

fn nearness(kernel: &Moves, moves: &Moves, places: u64) -> Nearness {
    Nearness::new(near(&kernel.refills, &moves.refills, places), near(&kernel.drains, &moves.drains, places))
}

/// The totals of the moves by CPU and zone.
fn pagesets(setting: &Setting, moves: &Moves, kernel: &Moves, places: u64) -> Vec<Pageset> {
    let mut split: BTreeMap<(u32, u32), [Moves; 2]> = BTreeMap::new();
    let pageset_of = |m: &Move| (m.cpu.0, m.zone);
    for (side, moves) in [moves, kernel].into_iter().enumerate() {
        for m in &moves.refills {
            split.entry(pageset_of(m)).or_default()[side].refills.push(*m);
        }
        for m in &moves.drains {
            split.entry(pageset_of(m)).or_default()[side].drains.push(*m);
        }
    }
    let pageset = |((cpu, zone), [moves, kernel]): ((u32, u32), [Moves; 2])| {
        let zone = setting.zones.get(zone as usize)?;
        let (totals, near) = (moves.totals(|_| true), nearness(&kernel, &moves, places));
        Some(Pageset { cpu, node: zone.node.0, zone: zone.name.clone(), totals, near })
    };
    split.into_iter().filter_map(pageset).collect()
}

fn recording(trace: &Trace, replay: &Replay<'_>) -> Recording {
    let (notes, setting) = (replay.notes(), replay.setting());
    let zone = |zone: &crate::replay::setting::ZoneSetting| Zone {
        node: zone.node.0,
        name: zone.name.clone(),
        managed: zone.start.managed,
        free: zone.start.free,
        held: zone.start.pagesets.iter().map(|pageset| pageset.count).sum(),
        watermark_min: zone.start.watermarks.min,
        watermark_low: zone.start.watermarks.low,
        watermark_high: zone.start.watermarks.high,
        batch: zone.start.bounds.batch,
        high_min: zone.start.bounds.high_min,
        high_max: zone.start.bounds.high_max,
    };
    Recording {
        name: trace.name().to_owned(),
        form: trace.form().name().to_owned(),
        events: notes.events,
        replayed_events: notes.replayed + notes.counter_changes,
        operations: notes.operations,
        duration_ns: notes.duration_ns,
        cpus: setting.cpus.len(),
        nodes: setting.zones.iter().map(|zone| zone.node).collect::<BTreeSet<_>>().len(),
        zones: setting.zones.iter().map(zone).collect(),
        facts: trace.facts().clone(),
        found: notes.found,
    }
}
