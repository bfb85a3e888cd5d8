//! The list of processes: pages per second, and waits for zone locks.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::fit::{self, Column};
use super::super::plain::{PROCESSES, per_second, percent, wait_ms};
use super::super::state::{Scene, State};
use super::super::view::{By, ProcessTraffic, View};
use super::style;
use super::table::{Fitted, per_s};
use crate::columns::grouped;

/// The columns of a rank below this are shown even if that needs short numbers: the name and both rates.
const ESSENTIAL: usize = 3;

/// The headings of short columns.
const SHORT: [&str; 5] = ["process", "pid", "in/s", "out/s", "wait ms/s"];

fn columns(view: &View, shown: &[&ProcessTraffic], short: bool) -> Vec<Column> {
    let column = |place: usize, usual: usize, rank: usize, cell: &dyn Fn(&ProcessTraffic) -> String| Column {
        head: if short { SHORT[place] } else { PROCESSES[place] }.to_owned(),
        cells: shown.iter().map(|process| cell(process)).collect(),
        usual,
        rank,
        words: false,
    };
    let pages = |pages: u64| per_s(per_second(pages, view), short);
    let mut columns = vec![
        Column { words: true, ..column(0, 17, 0, &|process| process.name.clone()) },
        column(1, 9, 4, &|process| process.pid.to_string()),
        column(2, 12, 1, &|process| pages(process.pages_in)),
        column(3, 12, 2, &|process| pages(process.pages_out)),
    ];
    if shown.iter().any(|process| process.zone_lock_wait_ns.is_some()) {
        columns.push(column(4, 20, 3, &|process| percent(wait_ms(process, view))));
    }
    columns
}

/// Why there are no processes, and what to do.
fn reason(scene: &Scene<'_>) -> &'static str {
    match (scene.position.is_some(), scene.view.counted_by.as_deref()) {
        (true, _) => "no processes: these looks were saved without; save looks as root with `top --json`",
        (false, Some("bpf")) => "no processes: this kernel cannot empty a table of processes; use Linux 5.6 or later",
        (false, Some(_)) => "no processes: perf does not count them; run as root, without --count-by perf",
        (false, None) => "no processes: nothing is counted; run as root, without --no-count",
    }
}

/// The sort key, and which processes are shown.
fn heading(state: &State, first: usize, shown: usize, all: usize) -> Vec<String> {
    let by = if state.by == By::Pages { "pages" } else { "waits" };
    let mut parts = vec![format!("processes by {by}")];
    if all > shown {
        let number = |number: usize| grouped(number as u64);
        parts.push(format!(", {} to {} of {}", number(first + 1), number(first + shown), number(all)));
    }
    parts
}

/// Draws the list.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>, state: &State) {
    let width = usize::from(area.width);
    let Some(all) = state.processes(scene.view) else {
        let text = fit::line(&[reason(scene).to_owned()], width);
        frame.render_widget(Line::styled(text, style::dim(state)), area);
        return;
    };
    let lines = usize::from(area.height).saturating_sub(2);
    state.process_lines.set(lines);
    let first = state.first_process.min(all.len().saturating_sub(lines));
    let shown = &all[first..(first + lines).min(all.len())];
    let head = heading(state, first, shown.len(), all.len());
    let mut text = vec![Line::styled(fit::line(&head, width), style::HEAD)];
    if all.is_empty() {
        text.push(Line::styled(fit::line(&["no process moved pages".to_owned()], width), style::dim(state)));
    } else {
        let fitted = Fitted::new(|short| columns(scene.view, shown, short), width, ESSENTIAL);
        let row = |line: Option<usize>| -> Vec<Span<'static>> {
            let cell = |place| line.map_or_else(|| fitted.heading(place), |line| fitted.cell(place, line));
            (0..fitted.widths.len()).map(cell).collect()
        };
        text.push(Line::from(row(None)).style(style::columns(state)));
        text.extend((0..shown.len()).map(|line| Line::from(row(Some(line)))));
    }
    frame.render_widget(Paragraph::new(text), area);
}

/// Every text of the list.
#[cfg(test)]
pub(super) fn texts(scene: &Scene<'_>, state: &State) -> Vec<String> {
    let mut texts = vec![reason(scene).to_owned()];
    let Some(all) = state.processes(scene.view) else { return texts };
    texts.extend([false, true].into_iter().flat_map(|short| columns(scene.view, &all, short)).flat_map(|c| c.cells));
    texts.extend((0..=all.len()).map(|number| grouped(number as u64)));
    texts
}
