//! A report as text: what was recorded, a row for each set of rules, what weakens it, and the check.

use std::collections::BTreeMap;

use comfy_table::{Table, presets};
use pageset_trace::replay::{Borrowed, Level, Near, Totals};

use super::check::{Checked, Limit, Verdict};
use super::measure::{Amounts, Part, Report, Row, Whose, differs_pct};
use super::warnings::{Counted, Warning};
use crate::columns::{grouped, numbers, trimmed};

/// The whole report.
pub(super) fn text(report: &Report<'_>, checks: &[Checked]) -> String {
    let mut text = trimmed(&header(report));
    text += "\n";
    text += &trimmed(&amounts(report));
    if report.rows.iter().any(|row| row.is_kernel) {
        text +=
            "\nDifference from the kernel, and share of its refills and drains made near the same place (by chance)\n";
        text += &trimmed(&nearness(report));
        text += "\n";
        report.rows.iter().filter(|row| row.is_kernel).for_each(|row| text += &borrowed(row));
    }
    let warnings = warnings(report);
    if !warnings.is_empty() {
        text += "\n";
        warnings.iter().for_each(|warning| text += &format!("warning: {warning}\n"));
    }
    for checked in checks {
        text += "\n";
        text += &check(checked);
    }
    text
}

/// What each replay took from the kernel's own outcome.
fn borrowed(row: &Row) -> String {
    let Borrowed {
        start_lists,
        start_counters,
        drain_requests,
        inferred_allocs,
        moved_allocs,
        direct_frees,
        snapshots,
    } = row.outcome.borrowed;
    let parts = [
        (start_lists, "lists at the start"),
        (start_counters, "counters at the start"),
        (drain_requests, "requests to drain"),
        (inferred_allocs, "allocations inferred"),
        (moved_allocs, "allocations moved to their refill"),
        (direct_frees, "frees that met a busy pageset"),
        (snapshots, "later snapshots"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts = parts.map(|(count, what)| format!("{} {what}", grouped(*count))).collect::<Vec<_>>();
    let taken = if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") };
    format!("taken from the kernel's moves, {}, {}: {taken}\n", row.name, level_name(row.level))
}

/// What was recorded.
fn header(report: &Report<'_>) -> Table {
    let mut lines = Table::new();
    lines.load_preset(presets::NOTHING);
    let (facts, setting, notes) = (report.facts(), report.setting(), report.replay.notes());
    let mut line = |name: &str, value: String| {
        lines.add_row([name.to_owned(), value]);
    };
    line("recording", format!("{} ({})", report.trace.name(), report.form()));
    if !facts.command.is_empty() {
        line("command", facts.command.join(" "));
    }
    let rules = setting.kernel.name;
    line(
        "kernel",
        match &facts.kernel_release {
            Some(release) if setting.kernel_known => format!("{release}, rules {rules}"),
            Some(release) => format!("{release}; taken to be {rules}"),
            None => format!("not recorded; taken to be {rules}"),
        },
    );
    let plural = |count: usize, name: &str| format!("{count} {name}{}", if count == 1 { "" } else { "s" });
    let nodes = setting.zones.iter().map(|zone| zone.node).collect::<std::collections::BTreeSet<_>>().len();
    line("machine", format!("{}, {}", plural(setting.cpus.len(), "CPU"), plural(nodes, "node")));
    let zones = (0..).zip(&setting.zones);
    let zones = zones.map(|(i, zone)| format!("{} of {} pages", zone_name(report, i), grouped(zone.start.managed)));
    line("zones", zones.collect::<Vec<_>>().join(", "));
    line("duration", format!("{:.3} s", notes.duration_ns as f64 / 1e9));
    line("events", format!("{}, of them {} replayed", grouped(notes.events), grouped(notes.replayed)));
    line("operations", format!("{} allocations and frees", grouped(notes.operations)));
    if let Some((only, selection)) = &report.only {
        let only = only.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let unlisted = match selection.unlisted {
            0 => String::new(),
            unlisted => format!("; {} of threads that the recording does not name are left out", grouped(unlisted)),
        };
        let none = if selection.operations == 0 { "; no operation meets this, so nothing is counted" } else { "" };
        line("only", format!("{only}: {} operations{none}{unlisted}", grouped(selection.operations)));
    }
    line(
        "level",
        match report.level {
            Level::Input => "input: allocations, frees, timer work, reclaim, and the state at the start".to_owned(),
            Level::Reconstructed => {
                "reconstructed: what the kernel's refills and drains reveal of its state is used as well".to_owned()
            }
        },
    );
    lines
}

fn zone_name(report: &Report<'_>, zone: u32) -> String {
    let zones = &report.setting().zones;
    let Some(setting) = zones.get(zone as usize) else { return format!("zone {zone}") };
    match zones.iter().any(|z| z.node != setting.node) {
        true => format!("node {} {}", setting.node.0, setting.name),
        false => setting.name.clone(),
    }
}

fn part_name(report: &Report<'_>, of: Whose) -> String {
    let cpu = of.cpu.map(|cpu| format!("CPU {cpu}"));
    let zone = of.zone.map(|zone| zone_name(report, zone));
    format!("  {}", [cpu, zone].into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn level_name(level: Level) -> String {
    match level {
        Level::Input => "input only".to_owned(),
        Level::Reconstructed => level.name().to_owned(),
    }
}

const NONE: &str = "-";

/// What heads the columns of the amounts.
pub(super) const AMOUNTS: [&str; 9] =
    ["rules", "level", "refills", "refill pages", "drains", "drain pages", "locks/1000 ops", "most held", "failed"];

/// What heads the columns of the comparison with the kernel.
pub(super) const NEARNESS: [&str; 9] =
    ["rules", "level", "refills", "refill pages", "drains", "drain pages", "refills near", "drains near", "explained"];

/// A row for the kernel and one for each set of rules, its parts below it.
fn amounts(report: &Report<'_>) -> Table {
    let mut table = numbers(AMOUNTS.into_iter(), 0..2);
    let mut add = |name: String, level: String, totals: &Totals, rest: [String; 3]| {
        let totals = [totals.refills, totals.refill_pages, totals.drains, totals.drain_pages].map(grouped);
        table.add_row([name, level].into_iter().chain(totals).chain(rest).collect::<Vec<_>>());
    };
    let none = || [NONE, NONE, NONE].map(str::to_owned);
    let empty = || [const { String::new() }; 3];
    let mut group = |name: String, level: String, amounts: &Amounts, rest| {
        add(name, level, &amounts.totals, rest);
        for part in &amounts.shown {
            add(part_name(report, part.of), String::new(), &part.totals, empty());
        }
    };
    group("kernel, as recorded".to_owned(), NONE.to_owned(), &report.kernel, none());
    for row in &report.rows {
        let rest =
            [format!("{:.1}", row.locks_per_1000()), grouped(row.outcome.held_pages_max), grouped(row.outcome.failed)];
        group(row.name.clone(), level_name(row.level), &row.amounts, rest);
    }
    table
}

/// How near the kernel's own rules come to it, a row a level.
fn nearness(report: &Report<'_>) -> Table {
    let mut table = numbers(NEARNESS.into_iter(), 0..2);
    let kernel = &report.kernel;
    for row in report.rows.iter().filter(|row| row.is_kernel) {
        let whole = (row.refills_near, row.drains_near);
        let explained = format!("{:.1} %", row.explained_pct);
        let cells = near_cells(&row.amounts.totals, &kernel.totals, whole).into_iter().chain([explained]);
        table.add_row([row.name.clone(), level_name(row.level)].into_iter().chain(cells).collect::<Vec<_>>());
        for part in &row.amounts.shown {
            let theirs = kernel.of(part.of).map(|part| part.totals).unwrap_or_default();
            let cells = near_cells(&part.totals, &theirs, near_of(part)).into_iter().chain([String::new()]);
            table.add_row([part_name(report, part.of), String::new()].into_iter().chain(cells).collect::<Vec<_>>());
        }
    }
    table
}

fn near_of(part: &Part) -> (Option<Near>, Option<Near>) {
    (part.refills_near, part.drains_near)
}

fn near_cells(ours: &Totals, kernel: &Totals, near: (Option<Near>, Option<Near>)) -> [String; 6] {
    let differs = |ours, kernel| signed(differs_pct(ours, kernel));
    let share = |near: Option<Near>| {
        near.map_or(NONE.to_owned(), |near| format!("{:.1} % ({:.0} %)", near.pct, near.chance_pct))
    };
    [
        differs(ours.refills, kernel.refills),
        differs(ours.refill_pages, kernel.refill_pages),
        differs(ours.drains, kernel.drains),
        differs(ours.drain_pages, kernel.drain_pages),
        share(near.0),
        share(near.1),
    ]
}

/// A difference in percent with its sign; the kernel may have nothing to compare with.
fn signed(pct: Option<f64>) -> String {
    match pct {
        None => "kernel: 0".to_owned(),
        Some(pct) if pct.abs() < 0.005 => "0.00 %".to_owned(),
        Some(pct) => format!("{pct:+.2} %"),
    }
}

/// The recording's weaknesses, and once each those of single replays, with the worst of them.
fn warnings(report: &Report<'_>) -> Vec<Warning> {
    let mut all = report.warnings.clone();
    let mut of_runs: BTreeMap<&str, Vec<(&Row, &Counted)>> = BTreeMap::new();
    for row in &report.rows {
        for warning in &row.warnings {
            of_runs.entry(warning.what).or_default().push((row, warning));
        }
    }
    for found in of_runs.into_values() {
        let Some((row, worst)) = found.iter().max_by_key(|(_, warning)| warning.count) else { continue };
        let others = match found.len() - 1 {
            0 => String::new(),
            others => format!("; fewer or as many under {others} other{}", if others == 1 { "" } else { "s" }),
        };
        all.push(worst.warning(&format!(" ({}, {}{others})", row.name, level_name(row.level))));
    }
    all
}

/// Each limit: what was measured, what is allowed, how it ended.
fn check(checked: &Checked) -> String {
    let ending = if checked.passed() { "pass" } else { "FAIL" };
    let mut text = format!("check of {}, {}: {ending}\n", checked.name, level_name(checked.level));
    let mut table = numbers(["", "measured", "allowed", ""].into_iter(), 0..1);
    if let Some(column) = table.column_mut(3) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    for limit in &checked.limits {
        let verdict = match limit.verdict {
            Verdict::Fail => "FAIL",
            verdict => verdict.name(),
        };
        let (measured, allowed) = limit_cells(limit);
        table.add_row([format!("  {}", limit.what), measured, allowed, verdict.to_owned()]);
    }
    // The heading says nothing.
    text += trimmed(&table).split_once('\n').map_or("", |(_, rows)| rows);
    text
}

fn limit_cells(limit: &Limit) -> (String, String) {
    let Some(deviation) = limit.deviation else {
        let measured = limit.measured_pct.map_or(NONE.to_owned(), |pct| format!("{pct:.1} %"));
        return (measured, limit.allowed_pct.map_or("any".to_owned(), |pct| format!("{pct} % or more")));
    };
    let allowed = format!("within {} % or {}", deviation.limit.pct, grouped(deviation.limit.floor));
    (signed(limit.measured_pct), allowed)
}

/// One line for each limit that failed, for standard error.
pub(super) fn failures(report: &Report<'_>, checks: &[Checked]) -> Vec<String> {
    let mut lines = Vec::new();
    for checked in checks {
        for limit in checked.limits.iter().filter(|limit| limit.verdict == Verdict::Fail) {
            let (measured, allowed) = limit_cells(limit);
            let (trace, name, what) = (report.trace.name(), &checked.name, limit.what);
            lines.push(format!("check failed: {trace}, {name}: {what} {measured}; allowed: {allowed}"));
        }
    }
    lines
}
