//! One recording replayed under each set of rules: the numbers that tables, JSON and the check are made of.

use std::collections::BTreeMap;

use pageset::tuning::Tuning;
use pageset_trace::replay::agreement::{agrees, explained_pct};
use pageset_trace::replay::identify::{Identified, identify};
use pageset_trace::replay::selection::{Only, Selection};
use pageset_trace::replay::{Level, Move, Moves, Near, Outcome, Replay, ReplayError, RuleSet, Setting, Totals, near};
use pageset_trace::{Facts, Form, Trace};

use super::progress::Progress;
use super::warnings;
use crate::error::{Exit, Failure};
use crate::rules::Chosen;

/// All that is reported of a recording.
pub(super) struct Report<'t> {
    /// The recording.
    pub(super) trace: &'t Trace,
    /// Its machine, made ready for replays.
    pub(super) replay: Replay<'t>,
    /// What the replays of the named rules were allowed to use.
    pub(super) level: Level,
    /// Whose refills and drains are counted, where not all are, and how much that is.
    pub(super) only: Option<(Vec<Only>, Selection)>,
    /// What the kernel did.
    pub(super) kernel: Amounts,
    /// Each named set of rules at the level; after them the kernel's rules by the input alone, unless that is the
    /// level.
    pub(super) rows: Vec<Row>,
    /// What weakens every result.
    pub(super) warnings: Vec<warnings::Warning>,
    /// Whether the traffic contradicts the rules that the release names. The replay then uses the rules that agree with the
    /// traffic, and `--check` fails.
    pub(super) contradicted: bool,
}

/// Refills and drains in sums, and by pageset.
pub(super) struct Amounts {
    /// The sums.
    pub(super) totals: Totals,
    /// By CPU and zone, those that moved pages in the kernel or the replay.
    pub(super) pagesets: Vec<Part>,
    /// As asked for with `--cpu` and `--zone`; empty when not.
    pub(super) shown: Vec<Part>,
}

/// The moves of some of the pagesets.
pub(super) struct Part {
    /// Whose they are.
    pub(super) of: Whose,
    /// Their sums.
    pub(super) totals: Totals,
    /// How near its refills are to the kernel's.
    pub(super) refills_near: Option<Near>,
    /// The same of drains.
    pub(super) drains_near: Option<Near>,
}

/// A CPU, a zone as numbered in the setting, or a pageset; nothing means all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Whose {
    pub(super) cpu: Option<u32>,
    pub(super) zone: Option<u32>,
}

/// One replay.
pub(super) struct Row {
    /// The rules' name.
    pub(super) name: String,
    /// What it was allowed to use.
    pub(super) level: Level,
    /// Whether the rules are the recorded kernel's.
    pub(super) is_kernel: bool,
    /// The rules.
    pub(super) tuning: Tuning,
    /// The administrator's fraction in force, 0 for none.
    pub(super) high_fraction: u32,
    /// Each CPU's share of the last-level cache in pages; nothing where neither the recording nor the user says.
    pub(super) cache_slice_pages: Option<u64>,
    /// Its refills and drains.
    pub(super) amounts: Amounts,
    /// How near its refills are to the kernel's.
    pub(super) refills_near: Option<Near>,
    /// The same of drains.
    pub(super) drains_near: Option<Near>,
    /// The share of what the kernel and the replay move that both move near the same place, in percent.
    pub(super) explained_pct: f64,
    /// The sums of all refills and drains, selected or not.
    pub(super) whole: Totals,
    /// Each selected refill and drain.
    pub(super) moves: Moves,
    /// Everything else that it counted; its moves are taken out.
    pub(super) outcome: Outcome,
    /// What weakens this result beside what weakens all.
    pub(super) warnings: Vec<warnings::Counted>,
}

/// How to replay, as the command line has it.
pub(super) struct How {
    pub(super) level: Level,
    /// Whose refills and drains are counted; all, where this is empty.
    pub(super) only: Vec<Only>,
    /// Amounts by CPU and by zone.
    pub(super) by_cpu: bool,
    pub(super) by_zone: bool,
}

impl<'t> Report<'t> {
    /// Replays a recording. Where the rules that its release names do not agree with its traffic and another kernel's
    /// do, those are taken to be the kernel's.
    ///
    /// # Errors
    /// Damage to it, and rules that it cannot be replayed under.
    pub(super) fn measure(
        trace: &'t Trace,
        chosen: &Chosen,
        how: &How,
        progress: &mut Progress,
    ) -> Result<Self, Failure> {
        progress.look_over(trace);
        let replay = Replay::prepare(trace, &mut |events| progress.at(events))?;
        let selection =
            if how.only.is_empty() { None } else { Some(Selection::new(trace, replay.setting(), &how.only)?) };
        let rows = rows(trace, &replay, chosen, (how, selection.as_ref()), progress)?;
        let doubtful = rows.iter().find(|row| row.is_kernel && row.level == how.level);
        let kernel = replay.kernel().totals(|_| true);
        if doubtful.is_none_or(|row| agrees(&kernel, &row.whole)) {
            return Ok(Self::new(trace, (how, selection), replay, rows, None));
        }
        let identified = identify(trace, &mut |done, of| progress.identify(done, of)).map_err(failure)?;
        let choice = identified.choice();
        if choice.tuning == replay.setting().kernel.tuning {
            return Ok(Self::new(trace, (how, selection), replay, rows, Some(identified)));
        }
        let replay = Replay::prepare_as(trace, choice, &mut |events| progress.at(events))?;
        let rows = self::rows(trace, &replay, chosen, (how, selection.as_ref()), progress)?;
        Ok(Self::new(trace, (how, selection), replay, rows, Some(identified)))
    }

    fn new(
        trace: &'t Trace,
        (how, selection): (&How, Option<Selection>),
        replay: Replay<'t>,
        rows: Vec<Row>,
        identified: Option<Identified>,
    ) -> Self {
        let warnings = warnings::of_trace(trace, &replay, how.level, &rows, identified.as_ref());
        let kernel = selected(selection.as_ref(), replay.kernel());
        let kernel = Amounts::new(&kernel, &kernel, replay.notes().replayed, how);
        let only = selection.map(|selection| (how.only.clone(), selection));
        let named = identified.as_ref().and_then(|identified| identified.by_release);
        let contradicted = named.is_some_and(|named| named.tuning != replay.setting().kernel.tuning);
        Report { trace, level: how.level, only, kernel, rows, warnings, contradicted, replay }
    }

    /// The recorded machine.
    pub(super) fn setting(&self) -> &Setting {
        self.replay.setting()
    }

    /// What is known of the machine and of losses.
    pub(super) fn facts(&self) -> &Facts {
        self.trace.facts()
    }

    /// The name of the form it is kept in.
    pub(super) fn form(&self) -> &'static str {
        match self.trace.form() {
            Form::Own => "pageset",
            Form::Text => "text",
            Form::Perf => "perf",
            _ => "other",
        }
    }

    /// The rows at the chosen level: the named rules.
    pub(super) fn named(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.level == self.level)
    }
}

/// Each set of rules replayed, in their order; the kernel's by the input alone last.
fn rows(
    trace: &Trace,
    replay: &Replay<'_>,
    chosen: &Chosen,
    (how, selection): (&How, Option<&Selection>),
    progress: &mut Progress,
) -> Result<Vec<Row>, Failure> {
    let kernel_rules = replay.kernel_rules();
    let mut runs: Vec<(RuleSet, Level)> =
        chosen.for_kernel(&kernel_rules)?.into_iter().map(|rules| (rules, how.level)).collect();
    let recorded_slice = replay.setting().cache_slice_pages;
    if how.level != Level::Input {
        let control = if recorded_slice.is_none() { chosen.control(&kernel_rules) } else { kernel_rules.clone() };
        runs.push((control, Level::Input));
    }
    let places = replay.notes().replayed;
    let kernel = &selected(selection, replay.kernel());
    let mut rows = Vec::new();
    for (i, (rules, level)) in runs.iter().enumerate() {
        progress.replay(&rules.name, replay.notes().events, i as u64, runs.len() as u64);
        let mut outcome = replay.run(rules, *level, &mut |events| progress.at(events)).map_err(failure)?;
        let cache_slice_pages = rules.cache_slice_pages.or(recorded_slice);
        let all = std::mem::take(&mut outcome.moves);
        let moves = selected(selection, &all);
        rows.push(Row {
            name: rules.name.clone(),
            level: *level,
            // A cache of a size that is not recorded may be the recorded machine's.
            is_kernel: rules.tuning == kernel_rules.tuning
                && rules.high_fraction.is_none()
                && (recorded_slice.is_none() || cache_slice_pages == recorded_slice),
            tuning: rules.tuning,
            high_fraction: rules.high_fraction.or(trace.facts().high_fraction).unwrap_or(0),
            cache_slice_pages,
            amounts: Amounts::new(&moves, kernel, places, how),
            refills_near: near(&kernel.refills, &moves.refills, places),
            drains_near: near(&kernel.drains, &moves.drains, places),
            explained_pct: explained_pct(kernel, &moves),
            warnings: warnings::of_run(&outcome, replay.notes()),
            whole: all.totals(|_| true),
            moves,
            outcome,
        });
    }
    progress.clear();
    Ok(rows)
}

/// The moves that are counted.
fn selected(selection: Option<&Selection>, moves: &Moves) -> Moves {
    selection.map_or_else(|| moves.clone(), |selection| selection.of(moves))
}

impl Row {
    /// Holds of zone locks per 1000 allocations and frees.
    pub(super) fn locks_per_1000(&self) -> f64 {
        1000.0 * self.outcome.zone_lock_acquisitions as f64 / self.outcome.operations.max(1) as f64
    }
}

impl Amounts {
    fn new(moves: &Moves, kernel: &Moves, places: u64, how: &How) -> Self {
        let pageset = |m: &Move| Whose { cpu: Some(m.cpu.0), zone: Some(m.zone) };
        let shown = |m: &Move| {
            let all = pageset(m);
            Whose { cpu: all.cpu.filter(|_| how.by_cpu), zone: all.zone.filter(|_| how.by_zone) }
        };
        let shown = if how.by_cpu || how.by_zone { parts(moves, kernel, places, shown) } else { Vec::new() };
        Amounts { totals: moves.totals(|_| true), pagesets: parts(moves, kernel, places, pageset), shown }
    }

    /// The part that is shown of `whose`, if that moved anything in the kernel or the replay.
    pub(super) fn of(&self, whose: Whose) -> Option<&Part> {
        self.shown.iter().find(|part| part.of == whose)
    }
}

/// The moves split by whose they are.
fn parts(moves: &Moves, kernel: &Moves, places: u64, whose: impl Fn(&Move) -> Whose) -> Vec<Part> {
    let mut split: BTreeMap<Whose, [Moves; 2]> = BTreeMap::new();
    for (side, moves) in [moves, kernel].into_iter().enumerate() {
        for m in &moves.refills {
            split.entry(whose(m)).or_default()[side].refills.push(*m);
        }
        for m in &moves.drains {
            split.entry(whose(m)).or_default()[side].drains.push(*m);
        }
    }
    let part = |(of, [moves, kernel]): (Whose, [Moves; 2])| Part {
        of,
        totals: moves.totals(|_| true),
        refills_near: near(&kernel.refills, &moves.refills, places),
        drains_near: near(&kernel.drains, &moves.drains, places),
    };
    split.into_iter().map(part).collect()
}

/// By how much an amount differs from the kernel's, in percent; nothing where the kernel has none and it has some.
pub(crate) fn differs_pct(amount: u64, kernel: u64) -> Option<f64> {
    match (amount, kernel) {
        (0, 0) => Some(0.0),
        (_, 0) => None,
        _ => Some((amount as f64 / kernel as f64 - 1.0) * 100.0),
    }
}

pub(crate) fn failure(error: ReplayError) -> Failure {
    match error {
        ReplayError::Trace(error) => error.into(),
        ReplayError::Map(error) => {
            Failure::new(Exit::Usage, format!("these rules are invalid for this machine: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::differs_pct;

    #[test]
    fn differences() {
        assert_eq!(differs_pct(0, 0), Some(0.0));
        assert_eq!(differs_pct(1, 0), None);
        assert_eq!(differs_pct(0, 4), Some(-100.0));
        assert_eq!(differs_pct(5, 4), Some(25.0));
    }
}
