//! The screen: a header with what is unusual, and a panel for each part of the view.
//!
//! | module | what it draws |
//! | --- | --- |
//! | `style` | colours and emphasis |
//! | `spark` | a sparkline in Braille |
//! | `table` | columns that fit, with whole or short numbers |
//! | `header` | the kernel, the clock, and what is unusual |
//! | `zones` | zones, with a gauge of free pages and the watermarks |
//! | `waits` | waits for zone locks by path, with percentiles |
//! | `map` | a heat map of the CPUs, by node |
//! | `movers` | what the lists of processes and of call sites have in common |
//! | `processes` | the list of processes, in place of map, list and chart |
//! | `sites` | the list of call sites, in the same place |
//! | `cpus` | the list of CPUs with sparklines |
//! | `chart` | the chosen CPU over time, and the machine's counters |
//! | `footer` | unavailable values, keys, the filter's prompt, and the help |
//!
//! Panels leave from the bottom of this table up if the screen is small; `zones` and `cpus` stay.

mod chart;
mod cpus;
mod footer;
mod header;
mod map;
mod movers;
mod processes;
mod sites;
mod spark;
mod style;
mod table;
mod waits;
mod zones;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};

use self::chart::Of;
use super::order::List;
use super::state::{Scene, State};

/// What a click chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// By its name.
    Zone(String),
    Cpu(u32),
}

/// The places of the screen that a click chooses.
#[derive(Debug, Default)]
pub(super) struct Hits(Vec<(Rect, Target)>);

impl Hits {
    fn add(&mut self, place: Rect, target: Target) {
        self.0.push((place, target));
    }

    /// What is at a place.
    pub(super) fn at(&self, column: u16, row: u16) -> Option<&Target> {
        let place = Position::new(column, row);
        self.0.iter().find(|(rect, _)| rect.contains(place)).map(|(_, target)| target)
    }
}

/// The width and height from which a second column shows waits and charts. Unit: characters, lines.
const TWO_COLUMNS: (u16, u16) = (160, 40);
/// The width of the second column and of the gap before it.
const SECOND: u16 = 76;
const GAP: u16 = 2;
/// The most lines of a chart.
const CHART_LINES: u16 = 15;
/// The largest number of zone lines, so that a small screen also shows CPUs.
const ZONE_LINES: usize = 12;
/// The lines of the list of CPUs that the map leaves: headings and a few CPUs.
const LIST_LINES: u16 = 5;

/// Draws one view. Returns the places that can be clicked.
pub(super) fn draw(frame: &mut Frame<'_>, scene: &Scene<'_>, state: &State) -> Hits {
    let area = frame.area();
    let mut hits = Hits::default();
    let sentences = (scene.unusual.sentences.len() as u16).clamp(1, if area.height < 30 { 1 } else { 3 });
    let notes = footer::lines(scene, area.height);
    let [title, said, body, note, keys] = Layout::vertical([1, sentences, 0, notes, 1].map(|lines| match lines {
        0 => Constraint::Fill(1),
        lines => Constraint::Length(lines),
    }))
    .areas(area);
    // Without notes their line does not exist.
    let (body, note) =
        if notes == 0 { (Rect { height: body.height + note.height, ..body }, Rect::ZERO) } else { (body, note) };
    header::draw(frame, title, said, scene, state);
    let two = area.width >= TWO_COLUMNS.0 && area.height >= TWO_COLUMNS.1;
    if two {
        let [left, _, right] =
            Layout::horizontal([Constraint::Fill(1), Constraint::Length(GAP), Constraint::Length(SECOND)]).areas(body);
        first(frame, left, scene, state, false, &mut hits);
        second(frame, right, scene, state);
    } else {
        first(frame, body, scene, state, true, &mut hits);
    }
    footer::draw(frame, note, keys, scene, state);
    if state.help {
        footer::help(frame, area);
    }
    hits
}

/// Takes lines from the top of an area.
fn take(area: &mut Rect, lines: u16) -> Rect {
    let lines = lines.min(area.height);
    let taken = Rect { height: lines, ..*area };
    (area.y, area.height) = (area.y + lines, area.height - lines);
    taken
}

/// The first or only column: zones, waits if `alone`, map, list, and the chart if `alone` and there is room.
fn first(frame: &mut Frame<'_>, mut area: Rect, scene: &Scene<'_>, state: &State, alone: bool, hits: &mut Hits) {
    let height = area.height;
    let gap = u16::from(height >= 30);
    // The map comes if the list cannot show every CPU; then it needs the lines of some zones.
    let shown = state.ordered(scene);
    let crowded = state.list == List::Cpus && shown.len() > usize::from(height) && height >= 16;
    let most = (usize::from(height).saturating_sub(2) / if crowded { 4 } else { 2 }).clamp(1, ZONE_LINES);
    let zones = scene.view.zones.len().min(most) as u16 + 1;
    zones::draw(frame, take(&mut area, zones), scene, state, hits);
    take(&mut area, gap);
    if alone {
        let lines = waits::lines(scene, height);
        waits::draw(frame, take(&mut area, lines), scene, state);
        take(&mut area, if lines > 0 { gap } else { 0 });
        if area.width >= 100 && height >= 30 && state.list == List::Cpus {
            let chart = area.height / 3;
            let chart = chart.min(CHART_LINES);
            let place = Rect { y: area.y + area.height - chart, height: chart, ..area };
            chart::draw(frame, place, scene, state, Of::Held);
            area.height -= chart + gap;
        }
    }
    match state.list {
        List::Cpus => {}
        List::Processes => return movers::draw(frame, area, scene.view, state, &processes::list(scene, state)),
        List::CallSites => return movers::draw(frame, area, scene.view, state, &sites::list(scene, state)),
    }
    if let Some(plan) = map::plan(scene, state, area, area.height.saturating_sub(LIST_LINES))
        .filter(|_| shown.len() + 2 > usize::from(area.height))
    {
        let lines = plan.lines();
        map::draw(frame, take(&mut area, lines), scene, state, &plan, hits);
        take(&mut area, gap);
    }
    cpus::draw(frame, area, scene, state, &shown, hits);
}

/// The second column: waits, the chosen CPU over time, and counters.
fn second(frame: &mut Frame<'_>, mut area: Rect, scene: &Scene<'_>, state: &State) {
    let lines = waits::lines(scene, area.height);
    waits::draw(frame, take(&mut area, lines), scene, state);
    take(&mut area, u16::from(lines > 0));
    let counters = chart::counter_lines(scene);
    let measured = lines > 1;
    let charts = if measured { &[Of::Held, Of::Moved, Of::Waited][..] } else { &[Of::Held, Of::Moved] };
    let each = (area.height.saturating_sub(counters) / charts.len() as u16).min(CHART_LINES);
    for of in charts {
        chart::draw(frame, take(&mut area, each.saturating_sub(1)), scene, state, *of);
        take(&mut area, 1);
    }
    chart::counters(frame, area, scene, state);
}

/// Every text with a number that is no member of the view, uncut.
#[cfg(test)]
pub(super) fn texts(scene: &Scene<'_>, state: &State) -> Vec<String> {
    let mut texts = header::clock(scene, state);
    texts.push(header::covered(scene));
    texts.extend((1..=scene.unusual.sentences.len()).map(|more| more.to_string()));
    texts.extend(footer::texts());
    texts.extend(waits::texts(scene));
    texts.extend(cpus::texts(scene, state));
    texts.extend(movers::texts(scene.view, &processes::list(scene, state)));
    texts.extend(movers::texts(scene.view, &sites::list(scene, state)));
    texts.extend(chart::texts(scene, state));
    let area = Rect::new(0, 0, 500, 500);
    texts.extend(map::plan(scene, state, area, 500).map(|plan| map::legend(scene, &plan).concat()));
    texts
}
