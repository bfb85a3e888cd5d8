//! The zones: numbers, and a gauge of free pages with ticks at the watermarks.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{LineGauge, Paragraph};

use super::super::figures::{index, number};
use super::super::fit::{self, Column};
use super::super::state::{Scene, State};
use super::super::view::{HUGE, Zone};
use super::table::{Fitted, change, pages};
use super::{Hits, Target, style};

/// The zones' columns of a rank below this are shown even if that needs short numbers: the name, held and free.
const ESSENTIAL: usize = 3;
/// The width of the screen from which zones have a gauge. Unit: characters.
const WITH_GAUGE: u16 = 60;
/// The widths of the gauge.
const GAUGE: std::ops::RangeInclusive<u16> = 16..=48;

/// The zones whose free blocks are shown at most.
const BLOCK_ZONES: usize = 6;

fn columns(zones: &[&Zone], short: bool) -> Vec<Column> {
    let column = |head: &str, usual: usize, rank: usize, cell: &dyn Fn(&Zone) -> String| Column {
        head: head.to_owned(),
        cells: zones.iter().map(|zone| cell(zone)).collect(),
        usual,
        rank,
        words: false,
    };
    let bound = |bound: Option<u64>| bound.map_or_else(|| number(None), |bound| pages(bound, short));
    vec![
        Column { words: true, ..column("zone", 11, 0, &Zone::name) },
        Column { words: true, ..column("mark", 6, 4, &|zone| zone.mark().to_owned()) },
        column("free", 10, 2, &|zone| pages(zone.free, short)),
        column("free +-", 9, 6, &|zone| change(zone.free_change, short)),
        column("held", 8, 1, &|zone| pages(zone.held, short)),
        column("held +-", 8, 5, &|zone| change(zone.held_change, short)),
        column("held %", 7, 3, &|zone| format!("{:.2}", zone.held_pct)),
        column("high_min", 9, 8, &|zone| bound(zone.high_min)),
        column("high_max", 9, 7, &|zone| bound(zone.high_max)),
        column("managed", 12, 9, &|zone| pages(zone.managed, short)),
        column("min", 9, 11, &|zone| pages(zone.min, short)),
        column("low", 9, 10, &|zone| pages(zone.low, short)),
        column("high", 9, 12, &|zone| pages(zone.high, short)),
        column("batch", 6, 13, &|zone| pages(zone.batch, short)),
    ]
}

/// The place of a number of pages on a gauge between 0 and 1. The scale is logarithmic, from a quarter of min to all
/// pages: watermarks are less than a hundredth of a zone.
fn place(zone: &Zone, pages: u64) -> f64 {
    let least = (zone.min as f64 / 4.0).max(1.0);
    let most = (zone.managed as f64).max(least * 2.0);
    ((pages as f64 / least).max(1.0).ln() / (most / least).ln()).clamp(0.0, 1.0)
}

/// The places of the zones that are worth a line: the shown CPU's zone, unusual ones, and then the largest. A zone
/// without pages in pagesets is left out.
pub(super) fn shown(scene: &Scene<'_>, state: &State, most: usize) -> Vec<usize> {
    let (view, marked) = (scene.view, marked(scene, state));
    let is_unusual = |place: &usize| scene.unusual.zones.contains_key(place);
    let mut places: Vec<usize> = (0..view.zones.len()).collect();
    places.retain(|place| *place == marked || is_unusual(place) || !view.zones[*place].is_idle());
    places.sort_by_key(|place| (*place != marked, !is_unusual(place), std::cmp::Reverse(view.zones[*place].managed)));
    places.truncate(most);
    places.sort_unstable();
    places
}

/// The zone of the chosen CPU.
fn marked(scene: &Scene<'_>, state: &State) -> usize {
    let ordered = state.ordered(scene);
    let chosen = ordered.get(state.chosen(&ordered));
    chosen.map_or_else(|| state.zone(scene.view), |set| state.zones(scene.view).of(scene.view, set.cpu))
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>, state: &State, hits: &mut Hits) {
    if area.height == 0 {
        return;
    }
    let marked = marked(scene, state);
    let places = shown(scene, state, usize::from(area.height).saturating_sub(1).max(1));
    let shown: Vec<&Zone> = places.iter().filter_map(|place| scene.view.zones.get(*place)).collect();
    let gauge = if area.width < WITH_GAUGE { 0 } else { (area.width * 3 / 10).clamp(*GAUGE.start(), *GAUGE.end()) };
    let room = usize::from(area.width.saturating_sub(if gauge > 0 { gauge + 2 } else { 0 }));
    let fitted = Fitted::new(|short| columns(&shown, short), room, ESSENTIAL);
    // The gauge takes what the numbers leave.
    let taken = fitted.width() as u16;
    let gauge = if gauge > 0 { (area.width - taken - 2).min(*GAUGE.end()) } else { 0 };
    let cells = |line: Option<usize>| -> Vec<Span<'static>> {
        let cell = |place| line.map_or_else(|| fitted.heading(place), |line| fitted.cell(place, line));
        (0..fitted.widths.len()).map(cell).collect()
    };
    let mut heads = cells(None);
    if gauge > 0 {
        heads.push(Span::raw(format!("  {:<width$}", "free between min low high", width = usize::from(gauge))));
    }
    let line_at = |line: usize| Rect { y: area.y + line as u16, height: 1, ..area };
    frame.render_widget(Line::from(heads).style(style::columns(state)), line_at(0));
    for (line, zone) in shown.iter().enumerate().take(usize::from(area.height) - 1) {
        let at = line_at(line + 1);
        let mut row = cells(Some(line));
        let unusual = scene.unusual.zones.get(&places[line]);
        if let Some(severe) = unusual {
            for (span, (place, _)) in row.iter_mut().zip(&fitted.widths) {
                if matches!(fitted.columns[*place].head.as_str(), "mark" | "free") {
                    span.style = style::alarm(*severe, state);
                }
            }
        }
        if let Some(cell) = row.first_mut().filter(|_| places[line] == marked) {
            cell.style = style::CHOSEN;
        }
        frame.render_widget(Line::from(row), Rect { width: taken.min(at.width), ..at });
        if gauge > 0 {
            let alarm = unusual.map(|severe| style::alarm(*severe, state));
            draw_gauge(frame, Rect { x: at.x + taken + 1, width: gauge + 1, ..at }, zone, alarm, state);
        }
        hits.add(at, Target::Zone(zone.name()));
    }
}

fn draw_gauge(frame: &mut Frame<'_>, area: Rect, zone: &Zone, alarm: Option<Style>, state: &State) {
    let filled = place(zone, zone.free);
    let gauge = LineGauge::default()
        .ratio(filled)
        .label("")
        .filled_symbol("━")
        .unfilled_symbol("─")
        .filled_style(alarm.unwrap_or(style::line(state)))
        .unfilled_style(style::dim(state));
    frame.render_widget(gauge, area);
    // The gauge begins after the space that follows its empty label.
    let width = area.width.saturating_sub(1);
    if width < 3 {
        return;
    }
    for mark in [zone.min, zone.low, zone.high] {
        let at = place(zone, mark);
        let column = area.x + 1 + ((f64::from(width) * at) as u16).min(width - 1);
        if let Some(cell) = frame.buffer_mut().cell_mut((column, area.y)) {
            let is_filled = cell.symbol() == "━" || cell.symbol() == "┿";
            cell.set_symbol(if is_filled { "┿" } else { "┼" });
            cell.set_style(alarm.unwrap_or_default());
        }
    }
}

/// Draws the free blocks of each zone by order, and how fragmented the zone is for huge pages.
pub(super) fn blocks(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>, state: &State) {
    let places = shown(scene, state, usize::from(area.height).saturating_sub(1));
    let zones = places.iter().filter_map(|place| scene.view.zones.get(*place));
    let zones: Vec<(&Zone, &Vec<u64>)> = zones.filter_map(|zone| Some((zone, zone.free_blocks.as_ref()?))).collect();
    let Some(orders) = zones.iter().map(|(_, blocks)| blocks.len()).max() else { return };
    let column = |head: String, usual: usize, rank: usize, cells: Vec<String>| Column {
        head,
        cells,
        usual,
        rank,
        words: rank == 0,
    };
    let columns = || {
        let names = zones.iter().map(|(zone, _)| zone.name()).collect();
        let indices = zones.iter().map(|(zone, _)| index(zone.fragmentation_index(HUGE))).collect();
        let of =
            |order: usize| zones.iter().map(move |(_, all)| all.get(order).map_or(String::new(), |n| fit::short(*n)));
        let mut columns = vec![column("blocks".to_owned(), 9, 0, names)];
        columns
            .extend((0..orders).map(|order| column(format!("2^{order}"), 5, 2 + orders - order, of(order).collect())));
        columns.push(column("frag".to_owned(), 5, 1, indices));
        columns
    };
    let fitted = Fitted::new(|_| columns(), area.width.into(), 2);
    let row = |line: Option<usize>| -> Line<'static> {
        let cell = |place| line.map_or_else(|| fitted.heading(place), |line| fitted.cell(place, line));
        (0..fitted.widths.len()).map(cell).collect::<Vec<_>>().into()
    };
    let mut lines = vec![row(None).style(style::columns(state))];
    lines.extend((0..zones.len()).map(|line| row(Some(line))));
    frame.render_widget(Paragraph::new(lines), area);
}

/// The lines of [`blocks`].
pub(super) fn block_lines(scene: &Scene<'_>, state: &State) -> u16 {
    let places = shown(scene, state, BLOCK_ZONES);
    let known = places.iter().filter(|place| scene.view.zones[**place].free_blocks.is_some()).count() as u16;
    known + u16::from(known > 0)
}
