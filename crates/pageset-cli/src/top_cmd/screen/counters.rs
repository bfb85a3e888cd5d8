//! The machine's counters.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::super::figures::rate;
use super::super::fit;
use super::super::state::{Scene, State};
use super::style;
use crate::columns::grouped;

/// The lines of the panel.
pub(super) fn lines(scene: &Scene<'_>) -> u16 {
    match scene.view.vmstat.len() as u16 {
        0 => 0,
        lines => lines + 1,
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>, state: &State) {
    let width = usize::from(area.width);
    let head = ["whole machine", "  per second", ", since boot"].map(str::to_owned);
    let head = fit::line(&head, width);
    let mut lines = vec![Line::styled(format!("{head:<width$}"), style::columns(state))];
    lines.extend(scene.view.vmstat.iter().map(|counter| {
        let value = format!("  {:>26}", grouped(counter.value));
        let texts = [format!("{:<20}", counter.name), format!("{:>14}", rate(counter.per_s)), value];
        Line::raw(fit::line(&texts, width))
    }));
    frame.render_widget(Paragraph::new(lines), area);
}
