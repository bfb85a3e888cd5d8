//! Filled charts over time: a measure as an area, another as a line, and an axis of time.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::figures::{percent, rate, signed};
use super::super::fit;
use super::super::history::Measure;
use super::super::state::{Scene, State};
use super::super::view::{CpuWaits, Pageset};
use super::{Hits, Target, style};
use crate::columns::grouped;

/// The smallest chart with its heading and its axis. Unit: characters, lines.
pub(super) const SMALLEST: (u16, u16) = (36, 6);
/// The lines from which a chart is easily read.
const GOOD: u16 = 8;
/// The looks that fill a chart at least; fewer leave its left side empty. More are drawn narrower, up to a character.
const SHORTEST: usize = 30;
/// The width of the labels of values, and the least distance between labels of time. Unit: characters.
const LABEL: u16 = 6;
const TICKS: usize = 12;
/// The distances of labels of time that are read at once. Unit: seconds.
const STEPS: [f64; 15] =
    [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0, 7200.0, 14400.0, 43200.0];

/// A chart without its heading.
struct Chart {
    /// The last values, the newest last.
    fill: Vec<Option<f32>>,
    line: Vec<Option<f32>>,
    /// The age of each look.
    ages: Option<Vec<f64>>,
    /// The least value at the top of the scale.
    least: f32,
    label: fn(f32) -> String,
}

/// An age in words of at most five characters.
fn age(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{}s", seconds.round()),
        ..7200.0 => format!("{}m", (seconds / 60.0).round()),
        _ => format!("{}h", (seconds / 3600.0).round()),
    }
}

impl Chart {
    fn draw(&self, buffer: &mut Buffer, area: Rect, state: &State) {
        let (rows, columns) = (usize::from(area.height - 1), usize::from(area.width - LABEL - 1));
        let values = || self.fill.iter().chain(&self.line).flatten().copied();
        let most = values().fold(self.least, f32::max);
        let dim = style::dim(state);
        for (row, text) in [(0, (self.label)(most)), (rows - 1, "0".to_owned())] {
            let text = fit::whole(format!("{text:>width$}", width = usize::from(LABEL)));
            buffer.set_string(area.x, area.y + row as u16, text, dim);
        }
        (0..area.height - 1).for_each(|row| buffer.set_string(area.x + LABEL, area.y + row, "│", dim));
        // Looks in the whole width.
        let looks = self.fill.len().max(SHORTEST).min(columns);
        let (left, right) = (area.x + LABEL + 1, area.x + area.width);
        for (back, place) in (0..columns).map(|back| (back, back * looks / columns)) {
            let of = |all: &[Option<f32>]| *all.get(all.len().checked_sub(place + 1)?)?;
            let x = right - 1 - back as u16;
            // In eighths of a row, at least one for what is not 0.
            let eighths =
                |value: f32| ((value / most * 8.0 * rows as f32).round() as usize).max(usize::from(value > 0.0));
            let filled = of(&self.fill).map_or(0, eighths);
            for row in 0..filled.div_ceil(8).min(rows) {
                let mark = fit::EIGHTHS[(filled - 8 * row).min(8)];
                let y = area.y + (rows - 1 - row) as u16;
                buffer[(x, y)].set_char(mark).set_style(style::line(state));
            }
            if let Some(value) = of(&self.line) {
                let at = eighths(value).clamp(1, 8 * rows) - 1;
                let y = area.y + (rows - 1 - at / 8) as u16;
                let covered = filled >= 8 * (at / 8 + 1);
                let mark = ['▁', '─', '─', '▔'][at % 8 / 2];
                let cell = &mut buffer[(x, y)];
                cell.set_char(mark).set_style(style::limit(covered, state));
            }
        }
        self.axis(buffer, Rect { x: left, y: area.y + area.height - 1, width: columns as u16, height: 1 }, looks, dim);
    }

    /// The labels of time at round ages, each ending below the look that it belongs to.
    fn axis(&self, buffer: &mut Buffer, area: Rect, looks: usize, dim: Style) {
        let (end, width) = (area.x + area.width, usize::from(area.width));
        buffer.set_string(end - 3, area.y, "now", dim);
        let Some(ages) = &self.ages else { return };
        let of = |back: usize| ages.get(ages.len().checked_sub(back * looks / width + 1)?).copied();
        let known: Vec<f64> = (0..width).map_while(of).collect();
        let Some(oldest) = known.last() else { return };
        let least = oldest * TICKS as f64 / known.len() as f64;
        let Some(step) = STEPS.into_iter().find(|step| *step >= least) else { return };
        for (back, pair) in known.windows(2).enumerate().map(|(before, pair)| (before + 1, pair)) {
            let passed = (pair[1] / step).floor();
            let text = fit::whole(age(passed * step));
            if passed > (pair[0] / step).floor() && back + text.len() <= width {
                buffer.set_string(end - (back + text.len()) as u16, area.y, text, dim);
            }
        }
    }
}

/// The columns of a grid of `number` charts in an area, and the lines of each; `None` if there is no room.
pub(super) fn grid(area: Rect, number: usize) -> Option<(usize, u16)> {
    let most = usize::from(area.width / SMALLEST.0).min(number);
    let lines = |columns: usize| area.height.checked_div(number.div_ceil(columns) as u16).unwrap_or(0);
    let with = |least: u16| (1..=most).find(|columns| lines(*columns) >= least);
    let columns = with(GOOD).or_else(|| with(SMALLEST.1))?;
    Some((columns, lines(columns)))
}

/// Draws a chart for each CPU: the pages that it holds, with high as a line.
pub(super) fn cpus(
    frame: &mut Frame<'_>,
    area: Rect,
    scene: &Scene<'_>,
    state: &State,
    sets: &[Pageset],
    hits: &mut Hits,
) {
    let Some((columns, lines)) = grid(area, sets.len()) else { return };
    let width = area.width / columns as u16;
    let rows = sets.len().div_ceil(columns) as u16;
    for (place, set) in sets.iter().enumerate() {
        let (column, row) = ((place % columns) as u16, (place / columns) as u16);
        // The last row and column take what is left.
        let last = |at: u16, all: u16, size: u16, whole: u16| if at + 1 == all { whole - size * at } else { size };
        let cell = Rect {
            x: area.x + column * width,
            y: area.y + row * lines,
            width: last(column, columns as u16, width, area.width) - u16::from(usize::from(column) + 1 < columns),
            height: last(row, rows, lines, area.height),
        };
        held(frame, cell, scene, state, set, sets.len() > 1);
        hits.add(cell, Target::Cpu(set.cpu));
    }
}

pub(super) fn held(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>, state: &State, set: &Pageset, mark: bool) {
    let (view, cpu) = (scene.view, set.cpu);
    let zone = state.zones(view).name(view, cpu);
    let mut head = vec![format!("CPU {cpu}: {} of {}", grouped(set.count), grouped(set.high))];
    head.extend(set.change.map(|change| format!(", {}", signed(Some(change)))));
    if let Some(traffic) = view.traffic_of(cpu) {
        let rates = ["refill/s", "drain/s"].into_iter().zip(traffic.rates());
        head.extend(rates.filter(|(_, rate)| rate.is_some()).map(|(name, of)| format!(", {name} {}", rate(of))));
    }
    let wait = view.waits_of(cpu).and_then(CpuWaits::pct);
    head.extend(wait.map(|wait| format!(", wait {} %", percent(Some(wait)))));
    let ordered = state.ordered(scene);
    let chosen = mark && ordered.get(state.chosen(&ordered)).is_some_and(|chosen| chosen.cpu == cpu);
    let mut of_head = if scene.unusual.has(cpu) { style::alarm(false, state) } else { style::HEAD };
    if chosen {
        of_head = of_head.patch(style::CHOSEN);
    }
    let values = |of| scene.history.values(&zone, cpu, of, area.width.into());
    draw(
        frame,
        area,
        scene,
        state,
        Span::styled(fit::line(&head, area.width.into()), of_head),
        Chart {
            fill: values(Measure::Held),
            line: values(Measure::High),
            ages: None,
            least: 1.0,
            label: |value| fit::short(value.ceil() as u64),
        },
    );
}

/// The last `most` means of all CPUs' waits. Unit: percent of their time.
fn mean_waits(scene: &Scene<'_>, most: usize) -> Vec<Option<f32>> {
    let cpus = scene.view.traffic.as_ref().map_or(0, Vec::len).max(1) as f32;
    scene.history.sums(Measure::Waits, most).into_iter().map(|sum| sum.map(|sum| sum / cpus)).collect()
}

/// Whether the CPUs have waited long enough for a chart: a tenth of a percent of their time. A guess.
pub(super) fn have_waited(scene: &Scene<'_>) -> bool {
    mean_waits(scene, usize::MAX).into_iter().flatten().any(|mean| mean >= 0.1)
}

/// Draws what all CPUs move, or how long they wait.
pub(super) fn machine(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>, state: &State, waits: bool) {
    let sums = |of| scene.history.sums(of, area.width.into());
    let (head, chart) = if waits {
        let fill = mean_waits(scene, area.width.into());
        // The label has six characters.
        let label = |value: f32| if value < 999.0 { format!("{value:.2}") } else { fit::short(value as u64) };
        (
            vec!["all CPUs: zone-lock waits, % of the time".to_owned()],
            Chart { fill, line: Vec::new(), ages: None, least: 0.01, label },
        )
    } else {
        let label = |value: f32| fit::short(value.ceil() as u64);
        let (fill, line) = (sums(Measure::Refills), sums(Measure::Drains));
        let head = ["all CPUs: pages refilled a second".to_owned(), "; ─ drained".to_owned()];
        (head.into(), Chart { fill, line, ages: None, least: 1.0, label })
    };
    draw(frame, area, scene, state, Span::styled(fit::line(&head, area.width.into()), style::HEAD), chart);
}

/// Draws a chart with its heading, if there is room.
fn draw(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>, state: &State, head: Span<'_>, mut chart: Chart) {
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 - 1 {
        return;
    }
    chart.ages = scene.history.ages(area.width.into());
    frame.render_widget(Line::from(head), Rect { height: 1, ..area });
    chart.draw(frame.buffer_mut(), Rect { y: area.y + 1, height: area.height - 1, ..area }, state);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thirty looks in as many characters: a quarter of the line's height, and at last half of it.
    #[test]
    fn an_area_with_a_line_and_an_axis_of_time() {
        let fill = (0..30).map(|look| Some(if look < 29 { 50.0 } else { 100.0 })).collect();
        let line = vec![Some(200.0); 30];
        let ages = Some((0..30).rev().map(f64::from).collect());
        let chart = Chart { fill, line, ages, least: 1.0, label: |value| fit::short(value as u64) };
        let mut buffer = Buffer::empty(Rect::new(0, 0, 37, 5));
        let area = buffer.area;
        chart.draw(&mut buffer, area, &State::new());
        let text: Vec<String> = (0..5).map(|y| (0..37).map(|x| buffer[(x, y)].symbol().to_owned()).collect()).collect();
        assert_eq!(
            text,
            [
                format!("   200│{}", "▔".repeat(30)),
                format!("      │{}", " ".repeat(30)),
                format!("      │{}█", " ".repeat(29)),
                format!("     0│{}", "█".repeat(30)),
                "                   15s            now".to_owned(),
            ]
        );
    }

    #[test]
    fn charts_share_the_area() {
        for ((width, height), number, expected) in [
            ((80, 16), 1, Some((1, 16))),
            ((80, 16), 2, Some((1, 8))),
            ((80, 16), 4, Some((2, 8))),
            ((80, 12), 4, Some((2, 6))),
            ((80, 16), 8, None),
            ((122, 50), 16, Some((3, 8))),
            ((30, 50), 1, None),
            ((80, 16), 0, None),
        ] {
            assert_eq!(grid(Rect::new(0, 0, width, height), number), expected, "{number} in {width} x {height}");
        }
    }
}
