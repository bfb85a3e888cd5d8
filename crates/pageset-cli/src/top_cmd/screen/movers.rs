//! The lists of processes and of call sites, summed over the last seconds.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::figures::percent;
use super::super::fit::{self, Column};
use super::super::order::List;
use super::super::plain::{PROCESSES, SITES, function, per_second, sampled, wait_ms};
use super::super::state::{Scene, State};
use super::super::view::{By, Mover, ProcessTraffic, SiteTraffic};
use super::style;
use super::table::{Fitted, pages, per_s};
use crate::columns::grouped;

/// A list of processes or of call sites.
pub(super) struct Movers<'a, T> {
    /// Their name, as in `processes`.
    pub(super) name: &'static str,
    /// The line of an empty list.
    pub(super) none: &'static str,
    /// Whether the arrows scroll it.
    pub(super) is_main: bool,
    /// Sorted, or why there are none.
    pub(super) all: Result<Vec<&'a T>, &'static str>,
    /// What weakens the numbers.
    pub(super) note: Option<String>,
    /// The time that the numbers are of. Unit: seconds.
    pub(super) seconds: Option<f64>,
    /// The columns, with whole or with short numbers.
    pub(super) columns: fn(Option<f64>, &[&T], bool) -> Vec<Column>,
    /// The columns of a rank below this are shown even if that needs short numbers.
    pub(super) essential: usize,
}

/// The columns of pages and waits, with these headings and ranks. Without a measured wait, the last one does not exist.
fn traffic_columns<T: Mover>(
    seconds: Option<f64>,
    shown: &[&T],
    short: bool,
    heads: [(&str, usize); 3],
) -> Vec<Column> {
    let column = |place: usize, usual: usize, cell: &dyn Fn(&T) -> String| Column {
        head: heads[place].0.to_owned(),
        cells: shown.iter().map(|mover| cell(mover)).collect(),
        usual,
        rank: heads[place].1,
        words: false,
    };
    let pages = |pages: u64| per_s(per_second(pages, seconds), short);
    let mut columns =
        vec![column(0, 12, &|mover| pages(mover.pages_in())), column(1, 12, &|mover| pages(mover.pages_out()))];
    if shown.iter().any(|mover| mover.wait_ns().is_some()) {
        columns.push(column(2, 20, &|mover| percent(wait_ms(mover, seconds))));
    }
    columns
}

/// The sort key, and which movers are shown.
fn heading<T>(list: &Movers<'_, T>, state: &State, first: usize, shown: usize, all: usize) -> Vec<String> {
    let by = if state.by == By::Pages { "pages" } else { "waits" };
    let mut parts = vec![format!("{} by {by}", list.name)];
    if all > shown {
        let number = |number: usize| grouped(number as u64);
        parts.push(format!(", {} to {} of {}", number(first + 1), number(first + shown), number(all)));
    }
    parts.extend(list.seconds.map(|seconds| format!(", mean of {} s", seconds.round().max(1.0))));
    parts.extend(list.note.iter().map(|note| format!("; {note}")));
    parts
}

/// The lines of a list of at most `most` movers; none if they are not counted.
pub(super) fn lines<T>(list: &Movers<'_, T>, most: usize) -> u16 {
    let rows = list.all.as_ref().map(|all| all.len().clamp(1, most));
    rows.map_or(0, |rows| u16::try_from(rows + 2).unwrap_or(u16::MAX))
}

pub(super) fn draw<T>(frame: &mut Frame<'_>, area: Rect, state: &State, list: &Movers<'_, T>) {
    let width = usize::from(area.width);
    let all = match &list.all {
        Ok(all) => all,
        Err(reason) => {
            let text = fit::line(&[(*reason).to_owned()], width);
            frame.render_widget(Line::styled(text, style::dim(state)), area);
            return;
        }
    };
    let lines = usize::from(area.height).saturating_sub(2);
    let first = if list.is_main { state.first_row.min(all.len().saturating_sub(lines)) } else { 0 };
    if list.is_main {
        state.row_lines.set(lines);
    }
    let shown = &all[first..(first + lines).min(all.len())];
    let head = heading(list, state, first, shown.len(), all.len());
    let mut text = vec![Line::styled(fit::line(&head, width), style::HEAD)];
    if all.is_empty() {
        text.push(Line::styled(fit::line(&[list.none.to_owned()], width), style::dim(state)));
    } else {
        let fitted = Fitted::new(|short| (list.columns)(list.seconds, shown, short), width, list.essential);
        let row = |line: Option<usize>| -> Vec<Span<'static>> {
            let cell = |place| line.map_or_else(|| fitted.heading(place), |line| fitted.cell(place, line));
            (0..fitted.widths.len()).map(cell).collect()
        };
        text.push(Line::from(row(None)).style(style::columns(state)));
        text.extend((0..shown.len()).map(|line| Line::from(row(Some(line)))));
    }
    frame.render_widget(Paragraph::new(text), area);
}

/// The headings of short columns.
const SHORT_PROCESSES: [&str; 5] = ["process", "pid", "in/s", "out/s", "wait ms/s"];

fn process_columns(seconds: Option<f64>, shown: &[&ProcessTraffic], short: bool) -> Vec<Column> {
    let usual = PROCESSES.iter().map(String::as_str);
    let heads: Vec<&str> = if short { SHORT_PROCESSES.to_vec() } else { usual.collect() };
    let column = |place: usize, usual: usize, rank: usize, words: bool, cell: &dyn Fn(&ProcessTraffic) -> String| {
        let cells = shown.iter().map(|process| cell(process)).collect();
        Column { head: heads[place].to_owned(), cells, usual, rank, words }
    };
    let mut columns = vec![
        column(0, 17, 0, true, &|process| process.name.clone()),
        column(1, 9, 4, false, &|process| process.pid.to_string()),
    ];
    columns.extend(traffic_columns(seconds, shown, short, [(heads[2], 1), (heads[3], 2), (heads[4], 3)]));
    columns
}

/// Why there are no processes, and what to do.
fn no_processes(scene: &Scene<'_>) -> &'static str {
    match (scene.position.is_some(), scene.view.counted_by.is_some()) {
        (true, _) => "no processes: these looks were saved without; save looks as root with `top --json`",
        (false, true) => "no processes: this kernel cannot empty a table of processes; use Linux 5.6 or later",
        (false, false) => "no processes: nothing is counted; run as root, without --no-count",
    }
}

/// The list of processes.
pub(super) fn processes<'a>(scene: &Scene<'a>, state: &State) -> Movers<'a, ProcessTraffic> {
    Movers {
        name: "processes",
        none: "no process moved pages",
        all: state.movers(&scene.history.processes).ok_or_else(|| no_processes(scene)),
        note: None,
        seconds: scene.history.processes.seconds,
        is_main: state.list == List::Processes,
        columns: process_columns,
        // The name and both rates.
        essential: 3,
    }
}

/// The headings of short columns.
const SHORT_SITES: [&str; 6] = ["call site", "called by", "samples", "in/s", "out/s", "wait ms/s"];

fn site_columns(seconds: Option<f64>, shown: &[&SiteTraffic], short: bool) -> Vec<Column> {
    let usual = SITES.iter().map(String::as_str);
    let heads: Vec<&str> = if short { SHORT_SITES.to_vec() } else { usual.collect() };
    let column = |place: usize, usual: usize, rank: usize, words: bool, cell: &dyn Fn(&SiteTraffic) -> String| {
        let cells = shown.iter().map(|site| cell(site)).collect();
        Column { head: heads[place].to_owned(), cells, usual, rank, words }
    };
    let mut columns = vec![
        column(0, 20, 0, true, &|site| function(&site.function)),
        column(1, 20, 5, true, &|site| function(&site.caller)),
        column(2, 13, 1, false, &|site| pages(site.page_samples, short)),
    ];
    columns.extend(traffic_columns(seconds, shown, short, [(heads[3], 2), (heads[4], 3), (heads[5], 4)]));
    columns
}

/// Why there are no call sites, and what to do.
fn no_sites(scene: &Scene<'_>) -> &'static str {
    match (scene.position.is_some(), scene.view.counted_by.is_some()) {
        (true, _) => "no call sites: these looks were saved without; save looks as root with `top --json`",
        (false, true) => "no call sites: they need Linux 5.6 and addresses in /proc/kallsyms (kernel.kptr_restrict)",
        (false, false) => "no call sites: nothing is counted; run as root, without --no-count",
    }
}

/// The list of call sites.
pub(super) fn sites<'a>(scene: &Scene<'a>, state: &State) -> Movers<'a, SiteTraffic> {
    let all = state.movers(&scene.history.sites);
    let samples = all.as_ref().map(|all| all.iter().fold(0, |sum: u64, site| sum.saturating_add(site.page_samples)));
    Movers {
        name: "call sites",
        none: "no call site was seen moving pages",
        all: all.ok_or_else(|| no_sites(scene)),
        note: samples.map(sampled),
        seconds: scene.history.sites.seconds,
        is_main: state.list == List::CallSites,
        columns: site_columns,
        // All but the caller.
        essential: 5,
    }
}
