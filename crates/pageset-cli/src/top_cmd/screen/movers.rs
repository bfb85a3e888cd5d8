//! What the lists of processes and of call sites have in common.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::fit::{self, Column};
use super::super::plain::{per_second, percent, wait_ms};
use super::super::state::State;
use super::super::view::{By, Mover, View};
use super::style;
use super::table::{Fitted, per_s};
use crate::columns::grouped;

/// A list of processes or of call sites.
pub(super) struct Movers<'a, T> {
    /// Their name, as in `processes`.
    pub(super) name: &'static str,
    /// The line of an empty list.
    pub(super) none: &'static str,
    /// Sorted, or why there are none.
    pub(super) all: Result<Vec<&'a T>, &'static str>,
    /// What weakens the numbers.
    pub(super) note: Option<String>,
    /// The columns, with whole or with short numbers.
    pub(super) columns: fn(&View, &[&T], bool) -> Vec<Column>,
    /// The columns of a rank below this are shown even if that needs short numbers.
    pub(super) essential: usize,
}

/// The columns of pages and waits, with these headings and ranks. Without a measured wait, the last one does not exist.
pub(super) fn columns<T: Mover>(view: &View, shown: &[&T], short: bool, heads: [(&str, usize); 3]) -> Vec<Column> {
    let column = |place: usize, usual: usize, cell: &dyn Fn(&T) -> String| Column {
        head: heads[place].0.to_owned(),
        cells: shown.iter().map(|mover| cell(mover)).collect(),
        usual,
        rank: heads[place].1,
        words: false,
    };
    let pages = |pages: u64| per_s(per_second(pages, view), short);
    let mut columns =
        vec![column(0, 12, &|mover| pages(mover.pages_in())), column(1, 12, &|mover| pages(mover.pages_out()))];
    if shown.iter().any(|mover| mover.wait_ns().is_some()) {
        columns.push(column(2, 20, &|mover| percent(wait_ms(mover, view))));
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
    parts.extend(list.note.iter().map(|note| format!("; {note}")));
    parts
}

/// Draws the list.
pub(super) fn draw<T>(frame: &mut Frame<'_>, area: Rect, view: &View, state: &State, list: &Movers<'_, T>) {
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
    state.row_lines.set(lines);
    let first = state.first_row.min(all.len().saturating_sub(lines));
    let shown = &all[first..(first + lines).min(all.len())];
    let head = heading(list, state, first, shown.len(), all.len());
    let mut text = vec![Line::styled(fit::line(&head, width), style::HEAD)];
    if all.is_empty() {
        text.push(Line::styled(fit::line(&[list.none.to_owned()], width), style::dim(state)));
    } else {
        let fitted = Fitted::new(|short| (list.columns)(view, shown, short), width, list.essential);
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
pub(super) fn texts<T>(view: &View, list: &Movers<'_, T>) -> Vec<String> {
    let Ok(all) = &list.all else {
        return list.all.as_ref().err().map(|reason| (*reason).to_owned()).into_iter().collect();
    };
    let mut texts: Vec<String> = list.note.iter().cloned().collect();
    texts.extend([false, true].into_iter().flat_map(|short| (list.columns)(view, all, short)).flat_map(|c| c.cells));
    texts.extend((0..=all.len()).map(|number| grouped(number as u64)));
    texts
}
