//! The screen: a header with what is unusual, and a panel for each part of the view.
//!
//! | module | what it draws |
//! | --- | --- |
//! | `style` | colours and emphasis |
//! | `spark` | a sparkline in Braille |
//! | `table` | columns that fit, with whole or short numbers |
//! | `header` | the verdict, the kernel, the clock, and what else is unusual |
//! | `zones` | zones, with a gauge of free pages and the watermarks; their free blocks by order |
//! | `waits` | waits for zone locks by path, with percentiles |
//! | `chart` | filled charts over time: of each CPU if they are few, and of all CPUs |
//! | `map` | a heat map of many CPUs, by node |
//! | `cpus` | the list of many CPUs with sparklines |
//! | `movers` | the lists of processes and of call sites |
//! | `counters` | the machine's counters |
//! | `footer` | unavailable values, keys, the filter's prompt, and the help |
//!
//! Zones and CPUs stay on every screen; the other panels come as there is room. No row of the screen stays empty: the
//! charts take what the other panels leave.

mod chart;
mod counters;
mod cpus;
mod footer;
mod header;
mod map;
mod movers;
mod spark;
mod style;
mod table;
mod waits;
mod zones;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::text::Line;

use super::fit;
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
const SECOND: u16 = 78;
const GAP: u16 = 2;
/// The largest number of zone lines, so that a small screen also shows CPUs.
const ZONE_LINES: usize = 12;
/// The lines of the list of CPUs that the map leaves: headings and a few CPUs.
const LIST_LINES: u16 = 5;
/// The most processes and call sites beside the CPUs.
const ROWS: usize = 8;
/// The height from which there are gaps between panels, and processes beside the CPUs.
const TALL: u16 = 30;

/// Draws one view. Returns the places that can be clicked.
pub(super) fn draw(frame: &mut Frame<'_>, scene: &Scene<'_>, state: &State) -> Hits {
    let area = frame.area();
    let mut hits = Hits::default();
    let notes = footer::lines(scene, area.height);
    let [head, body, note, keys] =
        Layout::vertical([header::lines(scene, area.height), 0, notes, 1].map(|lines| match lines {
            0 => Constraint::Fill(1),
            lines => Constraint::Length(lines),
        }))
        .areas(area);
    // Without notes their line does not exist.
    let (body, note) =
        if notes == 0 { (Rect { height: body.height + note.height, ..body }, Rect::ZERO) } else { (body, note) };
    header::draw(frame, head, scene, state);
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

/// The first or only column: zones, waits if `alone`, and then the CPUs, or the list in their place.
fn first(frame: &mut Frame<'_>, mut area: Rect, scene: &Scene<'_>, state: &State, alone: bool, hits: &mut Hits) {
    let height = area.height;
    let gap = u16::from(height >= TALL);
    let ordered = state.ordered(scene);
    // The map comes if the list cannot show every CPU; then it needs the lines of some zones.
    let crowded = state.list == List::Cpus && ordered.len() > usize::from(height) && height >= 16;
    let most = (usize::from(height).saturating_sub(2) / if crowded { 4 } else { 2 }).clamp(1, ZONE_LINES);
    let zones = zones::shown(scene, state, most).len().max(1) as u16 + 1;
    zones::draw(frame, take(&mut area, zones), scene, state, hits);
    take(&mut area, gap);
    if alone {
        let lines = waits::lines(scene, height);
        waits::draw(frame, take(&mut area, lines), scene, state);
        take(&mut area, if lines > 0 { gap } else { 0 });
        let lines = if height >= TALL { zones::block_lines(scene, state) } else { 0 };
        zones::blocks(frame, take(&mut area, lines), scene, state);
        take(&mut area, if lines > 0 { gap } else { 0 });
    }
    match state.list {
        List::Cpus => {
            let processes = movers::processes(scene, state);
            let lines = if alone && height >= TALL {
                movers::lines(&processes, ROWS.min(usize::from(height / 5) - 2))
            } else {
                0
            };
            let below = Rect { y: area.y + area.height.saturating_sub(lines), height: lines, ..area };
            area.height = area.height.saturating_sub(lines + if lines > 0 { gap } else { 0 });
            cpu_panels(frame, area, scene, state, gap, hits);
            if lines > 0 {
                movers::draw(frame, below, state, &processes);
            }
        }
        List::Processes => list(frame, area, scene, state, &movers::processes(scene, state)),
        List::CallSites => list(frame, area, scene, state, &movers::sites(scene, state)),
    }
}

/// A whole list, and a chart of all CPUs below it.
fn list<T>(frame: &mut Frame<'_>, mut area: Rect, scene: &Scene<'_>, state: &State, list: &movers::Movers<'_, T>) {
    let lines = movers::lines(list, usize::MAX).max(1).min(area.height);
    let chart = area.height - lines >= chart::SMALLEST.1 && scene.view.traffic.is_some();
    movers::draw(frame, take(&mut area, if chart { lines } else { u16::MAX }), state, list);
    chart::machine(frame, area, scene, state, false);
}

/// The CPUs: a chart of each, or a map and a list of them with a chart of the chosen one.
fn cpu_panels(frame: &mut Frame<'_>, mut area: Rect, scene: &Scene<'_>, state: &State, gap: u16, hits: &mut Hits) {
    let ordered = state.ordered(scene);
    let charts = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    if chart::grid(charts, ordered.len()).is_some() {
        let mut parts = cpus::title(scene, state, &ordered, 0);
        parts.extend([": pages in each CPU's list".to_owned(), "; ─ high".to_owned()]);
        frame.render_widget(Line::styled(fit::line(&parts, area.width.into()), style::dim(state)), take(&mut area, 1));
        return chart::cpus(frame, area, scene, state, &ordered, hits);
    }
    if let Some(plan) = map::plan(scene, state, area, area.height.saturating_sub(LIST_LINES))
        .filter(|_| ordered.len() + 2 > usize::from(area.height))
    {
        let lines = plan.lines();
        map::draw(frame, take(&mut area, lines), scene, state, &plan, hits);
        take(&mut area, gap);
    }
    let busy = cpus::busy(scene, state, &ordered);
    let list = busy.len() as u16 + 2;
    // The chosen CPU's chart takes what the list leaves, and on a tall screen a third.
    let left = area.height.saturating_sub(list + gap);
    let lines = if area.height >= TALL { left.max(area.height / 3) } else { left };
    let chart = if lines >= chart::SMALLEST.1 && area.width >= chart::SMALLEST.0 { lines } else { 0 };
    let list = area.height - if chart > 0 { chart + gap } else { 0 };
    let list = take(&mut area, list);
    cpus::draw(frame, list, scene, state, &busy, ordered.len() - busy.len(), hits);
    if let Some(set) = ordered.get(state.chosen(&ordered)).filter(|_| chart > 0) {
        take(&mut area, gap);
        chart::held(frame, area, scene, state, set, false);
    }
}

/// The second column: waits, charts of all CPUs, processes, call sites, free blocks, and counters.
fn second(frame: &mut Frame<'_>, mut area: Rect, scene: &Scene<'_>, state: &State) {
    let lines = waits::lines(scene, area.height);
    waits::draw(frame, take(&mut area, lines), scene, state);
    take(&mut area, u16::from(lines > 0));
    let (processes, sites) = (movers::processes(scene, state), movers::sites(scene, state));
    let list = |is_shown: bool, lines: u16| if is_shown { 0 } else { lines };
    let wanted = [
        list(state.list == List::Processes, movers::lines(&processes, ROWS)),
        list(state.list == List::CallSites, movers::lines(&sites, ROWS)),
        zones::block_lines(scene, state),
        counters::lines(scene),
    ];
    // What is not counted has no chart; then the counters take the column.
    let mut left = area.height.saturating_sub(if scene.view.traffic.is_some() { 2 * chart::SMALLEST.1 } else { 0 });
    let panels = wanted.map(|lines| {
        let lines = if lines > 0 && lines < left { lines } else { 0 };
        left -= if lines > 0 { lines + 1 } else { 0 };
        lines
    });
    let below: u16 = panels.iter().map(|lines| lines + u16::from(*lines > 0)).sum();
    if scene.view.traffic.is_some() {
        let waited = chart::have_waited(scene);
        let lines = area.height - below;
        let mut charts = take(&mut area, lines);
        let each = if waited { charts.height / 2 } else { charts.height };
        chart::machine(frame, take(&mut charts, each), scene, state, false);
        chart::machine(frame, charts, scene, state, true);
    }
    for (place, lines) in panels.into_iter().enumerate().filter(|(_, lines)| *lines > 0) {
        take(&mut area, 1);
        let panel = take(&mut area, lines);
        match place {
            0 => movers::draw(frame, panel, state, &processes),
            1 => movers::draw(frame, panel, state, &sites),
            2 => zones::blocks(frame, panel, scene, state),
            _ => counters::draw(frame, panel, scene, state),
        }
    }
}
