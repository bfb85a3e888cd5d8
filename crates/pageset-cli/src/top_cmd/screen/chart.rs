//! The chosen CPU over time, and the machine's counters.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Paragraph};

use super::super::fit;
use super::super::history::Measure;
use super::super::plain::rate;
use super::super::state::{Scene, State};
use super::style;
use crate::columns::grouped;

/// The smallest area of a chart. Unit: characters, lines.
const SMALLEST: (u16, u16) = (40, 5);
/// The looks that fill a chart at least.
const SHORTEST: usize = 30;

/// What a chart shows of the chosen CPU.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// Pages in its pageset, and the pageset's high.
    Held,
    /// Pages that it refills and drains.
    Moved,
    /// The share of its time in which it waits for zone locks.
    Waited,
}

/// The title and the measures of a chart, each with its name; the most important last.
fn content(cpu: u32, zone: &str, of: Of) -> (String, Vec<(&'static str, Measure)>) {
    match of {
        Of::Held => (format!("CPU {cpu}, zone {zone}: pages"), vec![("high", Measure::High), ("held", Measure::Held)]),
        Of::Moved => {
            let measures = vec![("drained", Measure::Drains), ("refilled", Measure::Refills)];
            (format!("CPU {cpu}: pages per second"), measures)
        }
        Of::Waited => (format!("CPU {cpu}: waits, % of the time"), vec![("", Measure::Waits)]),
    }
}

/// The label of the largest value.
fn top(largest: f64, of: Of) -> String {
    match of {
        Of::Waited => format!("{largest:.2}"),
        _ => fit::short(largest.ceil() as u64),
    }
}

/// The largest of some values, and at least what makes a readable scale.
fn largest(values: impl Iterator<Item = f64>, of: Of) -> f64 {
    values.fold(if matches!(of, Of::Waited) { 0.01 } else { 1.0 }, f64::max)
}

/// Every text of the charts with a number.
#[cfg(test)]
pub(super) fn texts(scene: &Scene<'_>, state: &State) -> Vec<String> {
    let ordered = state.ordered(scene);
    let Some(set) = ordered.get(state.chosen(&ordered)) else { return Vec::new() };
    let zone = state.zones(scene.view).name(scene.view, set.cpu);
    let of = |of| {
        let (title, measures) = content(set.cpu, &zone, of);
        let values = measures.iter().flat_map(|(_, of)| scene.history.values(&zone, set.cpu, *of, usize::MAX));
        [title, top(largest(values.flatten().map(f64::from), of), of)]
    };
    [of(Of::Held), of(Of::Moved), of(Of::Waited)].concat()
}

/// Draws a chart of the chosen CPU.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>, state: &State, of: Of) {
    let ordered = state.ordered(scene);
    let Some(set) = ordered.get(state.chosen(&ordered)) else { return };
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        return;
    }
    let zone = state.zones(scene.view).name(scene.view, set.cpu);
    let (title, measures) = content(set.cpu, &zone, of);
    // Two dots in a character of Braille; the axis takes some of the width. A short history is stretched.
    let most = scene.history.len().clamp(SHORTEST, 2 * usize::from(area.width - 8));
    let points = |measure| -> Vec<(f64, f64)> {
        let values = scene.history.values(&zone, set.cpu, measure, most);
        let first = most - values.len();
        let point = |(place, value): (usize, Option<f32>)| Some(((first + place) as f64, f64::from(value?)));
        values.into_iter().enumerate().filter_map(point).collect()
    };
    let all: Vec<Vec<(f64, f64)>> = measures.iter().map(|(_, measure)| points(*measure)).collect();
    let largest = largest(all.iter().flatten().map(|(_, value)| *value), of);
    let dataset = |(place, points): (usize, &'_ Vec<(f64, f64)>)| {
        let style = if place + 1 == all.len() { style::line(state) } else { style::dim(state) };
        (points.clone(), style)
    };
    let styled: Vec<_> = all.iter().enumerate().map(dataset).collect();
    let sets = styled.iter().map(|(points, style)| {
        Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line).style(*style).data(points)
    });
    // Labels of one width, so that the charts' axes are one below the other.
    let labels = ["0".to_owned(), top(largest, of)].map(|label| format!("{label:>6}"));
    let chart = Chart::new(sets.collect())
        .x_axis(Axis::default().style(style::dim(state)).bounds([0.0, most as f64 - 1.0]))
        .y_axis(Axis::default().style(style::dim(state)).bounds([0.0, largest * 1.02]).labels(labels));
    let width = usize::from(area.width);
    let mut head = vec![title];
    if let [(dim, _), (bright, _)] = measures[..] {
        head.extend([format!(" {bright}"), format!("; dim: {dim}")]);
    }
    let head = fit::line(&head, width);
    frame.render_widget(Line::styled(format!("{head:<width$}"), style::columns(state)), Rect { height: 1, ..area });
    frame.render_widget(chart, Rect { y: area.y + 1, height: area.height - 1, ..area });
}

/// The lines of the counters.
pub(super) fn counter_lines(scene: &Scene<'_>) -> u16 {
    match scene.view.vmstat.len() as u16 {
        0 => 0,
        lines => lines + 1,
    }
}

/// Draws the machine's counters.
pub(super) fn counters(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>, state: &State) {
    let width = usize::from(area.width);
    let head = fit::line(&["whole machine".to_owned(), "  per second".to_owned(), ", since boot".to_owned()], width);
    let mut lines = vec![Line::styled(format!("{head:<width$}"), style::columns(state))];
    for counter in &scene.view.vmstat {
        let texts = [
            format!("{:<20}", counter.name),
            format!("{:>14}", rate(counter.per_s)),
            format!("  {:>26}", grouped(counter.value)),
        ];
        let fits = texts.concat().chars().count() <= width;
        let text = if fits { texts.concat() } else { fit::line(&texts, width) };
        lines.push(Line::from(Span::raw(text)));
    }
    if scene.view.vmstat.is_empty() {
        return;
    }
    frame.render_widget(Paragraph::new(lines), area);
}
