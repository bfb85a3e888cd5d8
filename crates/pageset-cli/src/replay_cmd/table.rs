//! A result as text: the recording, a row for each set of rules, the warnings, and the check.

use std::collections::BTreeMap;

use comfy_table::{Table, presets};
use pageset_trace::measure::warnings::{Counted, Warning};
use pageset_trace::measure::{Differences, Limit, Nearness, Pageset, ReplayResult, Replayed, Verdict, Zone};
use pageset_trace::printable;
use pageset_trace::replay::agreement::LIMITS;
use pageset_trace::replay::{Borrowed, Level, Totals};

use crate::columns::{Fit, Shown, grouped, numbers, trimmed};

/// Whether the amounts of each CPU and of each zone are also shown.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) by_cpu: bool,
    pub(super) by_zone: bool,
    /// Whether warnings are printed whole, and not by their names alone.
    pub(super) whole_warnings: bool,
}

pub(super) fn text(result: &ReplayResult, parts: Parts, fit: Fit) -> String {
    let mut text = fit.prose(&format!("{}\n\n", result.verdict().sentence()));
    text += &fit.words(header(result));
    text += "\n";
    text += &amounts(result, parts, fit);
    if result.rules.iter().any(|row| row.is_kernel) {
        text += "\n";
        text += &fit.prose(
            "Difference from the kernel, and share of its refills and drains made near the same place (by chance)\n",
        );
        text += &nearness(result, parts, fit);
        text += "\n";
        result.rules.iter().filter(|row| row.is_kernel).for_each(|row| text += &fit.prose(&borrowed(row)));
    }
    let warnings = warnings(result);
    if !warnings.is_empty() {
        text += "\n";
        if parts.whole_warnings {
            warnings.iter().for_each(|warning| text += &fit.prose(&format!("warning: {warning}\n")));
        } else {
            text += &fit.prose(&counted(&warnings));
        }
    }
    for limits in result.check.iter().flat_map(|check| check.limits.chunk_by(|a, b| a.rules == b.rules)) {
        text += "\n";
        text += &check(limits);
    }
    text
}

/// What a replay took from the kernel's own refills and drains.
fn borrowed(row: &Replayed) -> String {
    let Borrowed {
        start_lists,
        start_counters,
        start_countdowns,
        unclear_starts: _,
        drain_requests,
        inferred_allocs,
        unseen_counter_changes,
        moved_allocs,
        late_allocs,
        direct_frees,
        settings,
        setting_moments,
        snapshots,
    } = row.taken_from_kernel;
    let parts = [
        (start_lists, "lists at the start"),
        (start_counters, "counters at the start"),
        (start_countdowns, "countdowns at the start"),
        (drain_requests, "requests to drain"),
        (inferred_allocs, "allocations inferred"),
        (unseen_counter_changes, "changes of a zone without an event"),
        (moved_allocs, "allocations moved to their refill"),
        (late_allocs, "huge pages before events that came first"),
        (direct_frees, "frees that met a busy pageset"),
        (settings, "settings that later snapshots show"),
        (setting_moments, "moments of settings"),
        (snapshots, "later snapshots"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts = parts.map(|(count, what)| format!("{} {what}", grouped(*count))).collect::<Vec<_>>();
    let taken = if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") };
    format!("taken from the kernel's moves, {}, {}: {taken}\n", row.name, level_name(row.level))
}

/// The lines about the recording.
fn header(result: &ReplayResult) -> Table {
    let mut lines = Table::new();
    lines.load_preset(presets::NOTHING);
    let (trace, kernel) = (&result.trace, &result.kernel);
    let facts = &trace.facts;
    let mut line = |name: &str, value: String| {
        lines.add_row([name.to_owned(), value]);
    };
    line("recording", format!("{} ({})", trace.name, trace.form));
    if !facts.command.is_empty() {
        line("command", printable(&facts.command.join(" ")).into_owned());
    }
    let rules = &kernel.rules;
    line(
        "kernel",
        match &facts.kernel_release {
            Some(release) if kernel.known => format!("{release}, rules {rules}"),
            Some(release) => format!("{release}; assumed to be {rules}"),
            None => format!("not recorded; assumed to be {rules}"),
        },
    );
    let plural = |count: usize, name: &str| format!("{count} {name}{}", if count == 1 { "" } else { "s" });
    line("machine", format!("{}, {}", plural(trace.cpus, "CPU"), plural(trace.nodes, "node")));
    let name = |zone: &Zone| zone_name(result, zone.node, &zone.name);
    let zones = trace.zones.iter().map(|zone| format!("{} of {} pages", name(zone), grouped(zone.managed)));
    line("zones", zones.collect::<Vec<_>>().join(", "));
    line("duration", format!("{:.3} s", trace.duration_ns as f64 / 1e9));
    line("events", format!("{}, of them {} replayed", grouped(trace.events), grouped(trace.replayed_events)));
    line("operations", format!("{} allocations and frees", grouped(trace.operations)));
    if let Some(selected) = &result.only {
        let only = selected.conditions.join(" ");
        let unlisted = match selected.unlisted_operations {
            0 => String::new(),
            unlisted => format!("; {} of threads that the recording does not name are not counted", grouped(unlisted)),
        };
        let none = if selected.selected_operations == 0 { "; no operation matches, so nothing is counted" } else { "" };
        line("only", format!("{only}: {} operations{none}{unlisted}", grouped(selected.selected_operations)));
    }
    line(
        "level",
        match result.level {
            Level::Input => "input: allocations, frees, timer work, reclaim, and the state at the start".to_owned(),
            Level::Reconstructed => {
                "reconstructed: what the kernel's refills and drains reveal of its state is used as well".to_owned()
            }
        },
    );
    lines
}

/// The zone's name, with its node if there are several nodes.
fn zone_name(result: &ReplayResult, node: u32, name: &str) -> String {
    if result.trace.zones.iter().any(|zone| zone.node != node) {
        format!("node {node} {name}")
    } else {
        name.to_owned()
    }
}

/// A CPU, a zone by its index in the recording, or a pageset.
type Whose = (Option<u32>, Option<usize>);

/// Refills and drains of several pagesets.
#[derive(Default)]
struct Sum<'r> {
    totals: Totals,
    kernel: Totals,
    pagesets: Vec<(&'r Pageset, Totals)>,
}

/// The pagesets' amounts by CPU, by zone or by both, each with the kernel's amounts.
fn sums<'r>(result: &ReplayResult, pagesets: &'r [Pageset], parts: Parts) -> BTreeMap<Whose, Sum<'r>> {
    let mut sums = BTreeMap::<Whose, Sum<'r>>::new();
    if !parts.by_cpu && !parts.by_zone {
        return sums;
    }
    for set in pagesets {
        let is_same = |other: &&Pageset| (other.cpu, other.node, &other.zone) == (set.cpu, set.node, &set.zone);
        let kernel = result.kernel.pagesets.iter().find(is_same).map(|other| other.totals).unwrap_or_default();
        let zone = result.trace.zones.iter().position(|zone| (zone.node, &zone.name) == (set.node, &set.zone));
        let sum = sums.entry((parts.by_cpu.then_some(set.cpu), zone.filter(|_| parts.by_zone))).or_default();
        sum.totals += set.totals;
        sum.kernel += kernel;
        sum.pagesets.push((set, kernel));
    }
    sums
}

fn part_name(result: &ReplayResult, (cpu, zone): Whose) -> String {
    let cpu = cpu.map(|cpu| format!("CPU {cpu}"));
    let zone = zone.map(|zone| &result.trace.zones[zone]).map(|zone| zone_name(result, zone.node, &zone.name));
    format!("  {}", [cpu, zone].into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn level_name(level: Level) -> String {
    match level {
        Level::Input => "input only".to_owned(),
        Level::Reconstructed => level.name().to_owned(),
    }
}

const NONE: &str = "-";

/// The table of amounts, in the columns of [`Replayed`].
pub(super) const AMOUNTS: &str = "amounts";

/// The table of the comparison with the kernel, in the columns of [`Replayed`].
pub(super) const NEARNESS: &str = "nearness";

/// A row for the kernel and one for each set of rules, each followed by its parts.
fn amounts(result: &ReplayResult, parts: Parts, fit: Fit) -> String {
    let shown = Shown::of::<Replayed>(AMOUNTS);
    let (mut table, ranks) = (shown.table(), shown.ranks());
    let mut group = |mut row: Vec<String>, pagesets: &[Pageset]| {
        row.resize(ranks.len(), NONE.to_owned());
        table.add_row(row);
        for (whose, sum) in sums(result, pagesets, parts) {
            let names = [part_name(result, whose), String::new()];
            table.add_row(names.into_iter().chain(shown.cells(&sum.totals)));
        }
    };
    let kernel = &result.kernel;
    let names = ["kernel, as recorded", NONE].map(str::to_owned).to_vec();
    group([names, shown.cells(&kernel.totals)].concat(), &kernel.pagesets);
    for row in &result.rules {
        let mut cells = shown.cells(row);
        cells[1] = level_name(row.level);
        group(cells, &row.pagesets);
    }
    fit.table(table, &ranks)
}

/// How closely a replay under the kernel's own rules follows the kernel, one row per level.
fn nearness(result: &ReplayResult, parts: Parts, fit: Fit) -> String {
    let shown = Shown::of::<Replayed>(NEARNESS);
    let mut table = shown.table();
    for row in result.rules.iter().filter(|row| row.is_kernel) {
        let mut cells = shown.cells(row);
        cells[1] = level_name(row.level);
        cells.splice(2..8, near_cells(row.differences, row.near));
        table.add_row(cells);
        for (whose, sum) in sums(result, &row.pagesets, parts) {
            let cells = near_cells(Differences::new(&sum.totals, &sum.kernel), Nearness::mean(&sum.pagesets));
            table.add_row([part_name(result, whose), String::new()].into_iter().chain(cells));
        }
    }
    fit.table(table, &shown.ranks())
}

fn near_cells(differences: Differences, near: Nearness) -> impl Iterator<Item = String> {
    let share = |(pct, by_chance): (Option<f64>, Option<f64>)| {
        pct.zip(by_chance).map_or(NONE.to_owned(), |(pct, by_chance)| format!("{pct:.1} % ({by_chance:.0} %)"))
    };
    differences.all().into_iter().map(signed).chain(near.all().into_iter().map(share))
}

/// A difference in percent with its sign; `kernel: 0` if the kernel's amount is 0.
fn signed(pct: Option<f64>) -> String {
    match pct {
        None => "kernel: 0".to_owned(),
        Some(pct) if pct.abs() < 0.005 => "0.00 %".to_owned(),
        Some(pct) => format!("{pct:+.2} %"),
    }
}

/// The warnings about the recording, and each warning about replays once, with the replay that has the highest count.
fn warnings(result: &ReplayResult) -> Vec<Warning> {
    let mut all = result.warnings.clone();
    let mut of_runs: BTreeMap<&str, Vec<(&Replayed, &Counted)>> = BTreeMap::new();
    for row in &result.rules {
        for warning in &row.counted {
            of_runs.entry(warning.what).or_default().push((row, warning));
        }
    }
    for found in of_runs.into_values() {
        let Some((row, worst)) = found.iter().max_by_key(|(_, warning)| warning.count) else { continue };
        let others = match found.len() - 1 {
            0 => String::new(),
            others => format!("; at most as many under {others} other{}", if others == 1 { "" } else { "s" }),
        };
        all.push(worst.warning(&format!(" ({}, {}{others})", row.name, level_name(row.level))));
    }
    all
}

/// The number of warnings, and their names for `pageset explain`.
fn counted(warnings: &[Warning]) -> String {
    let mut names: Vec<&str> = warnings.iter().map(|warning| warning.name.text()).collect();
    names.dedup();
    let s = if warnings.len() == 1 { "" } else { "s" };
    format!(
        "{} warning{s}: {}; --wide prints the text, `pageset explain NAME` says what to do\n",
        warnings.len(),
        names.join(", ")
    )
}

/// The limits of one set of rules: the measured value, the allowed value, and the verdict.
fn check(limits: &[Limit]) -> String {
    let failed = limits.iter().any(|limit| limit.verdict == Verdict::Fail);
    let (name, level) = (&limits[0].rules, level_name(limits[0].level));
    let mut text = format!("check of {name}, {level}: {}\n", if failed { "FAIL" } else { "pass" });
    let mut table = numbers(["", "measured", "allowed", ""].into_iter(), 0..1);
    if let Some(column) = table.column_mut(3) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    for limit in limits {
        let verdict = match limit.verdict {
            Verdict::Pass => "pass",
            Verdict::Fail => "FAIL",
            Verdict::NotJudged => "not judged",
        };
        let (measured, allowed) = limit_cells(limit);
        table.add_row([format!("  {}", limit.what), measured, allowed, verdict.to_owned()]);
    }
    // Drop the empty heading.
    text += trimmed(&table).split_once('\n').map_or("", |(_, rows)| rows);
    text
}

fn limit_cells(limit: &Limit) -> (String, String) {
    let Some(of) = LIMITS.iter().find(|of| of.quantity.name() == limit.what) else {
        let measured = limit.measured_pct.map_or(NONE.to_owned(), |pct| format!("{pct:.1} %"));
        return (measured, limit.allowed_pct.map_or("any".to_owned(), |pct| format!("{pct} % or more")));
    };
    (signed(limit.measured_pct), format!("within {} % or {}", of.pct, grouped(of.floor)))
}

/// One line for each limit that failed, for standard error.
pub(super) fn failures(result: &ReplayResult) -> Vec<String> {
    let limits = result.check.iter().flat_map(|check| &check.limits);
    let line = |limit: &Limit| {
        let (measured, allowed) = limit_cells(limit);
        let (trace, name, what) = (&result.trace.name, &limit.rules, &limit.what);
        format!("check failed: {trace}, {name}: {what} {measured}; allowed: {allowed}")
    };
    limits.filter(|limit| limit.verdict == Verdict::Fail).map(line).collect()
}
