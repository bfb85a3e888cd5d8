//! The list of CPUs: numbers with sparklines of their recent values.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::figures::{percent, rate, signed};
use super::super::fit::{self, Column};
use super::super::history::Measure;
use super::super::state::{Scene, State, Zones};
use super::super::view::{CpuTraffic, CpuWaits, Pageset, View, Zone};
use super::spark::{Form, spark};
use super::table::{Fitted, change, pages, per_s};
use super::{Hits, Target, style};
use crate::columns::grouped;

/// The columns of a rank below this are shown even if that needs short numbers: the CPU, count and high.
const ESSENTIAL: usize = 3;
/// Widths of a sparkline. Unit: characters.
const SPARK: std::ops::RangeInclusive<usize> = 4..=24;

/// A sparkline's scale is the CPU's own largest value, and at least the largest of all CPUs divided by this: the form is
/// visible, and little is not drawn as much. A guess.
const FLOOR: f32 = 8.0;

/// The columns with a sparkline, the most important first.
const SPARKS: [(&str, Measure); 5] = [
    ("count", Measure::Held),
    ("refill/s", Measure::Refills),
    ("drain/s", Measure::Drains),
    ("wait %", Measure::Waits),
    ("high", Measure::High),
];

fn columns(view: &View, shown: &[Pageset], zones: &Zones, short: bool) -> Vec<Column> {
    let column = |head: &str, usual: usize, rank: usize, cell: &dyn Fn(&Pageset) -> String| Column {
        head: head.to_owned(),
        cells: shown.iter().map(cell).collect(),
        usual,
        rank,
        words: false,
    };
    let moved = |set: &Pageset, of: fn(&CpuTraffic) -> Option<f64>| per_s(view.traffic_of(set.cpu).and_then(of), short);
    let mut columns = vec![
        column("CPU", 5, 0, &|set| set.cpu.to_string()),
        column("count", 8, 1, &|set| pages(set.count, short)),
        column("high", 8, 2, &|set| pages(set.high, short)),
        column("+-", 8, 3, &|set| change(set.change, short)),
    ];
    if view.traffic.is_some() {
        columns.push(column("refill/s", 9, 4, &|set| moved(set, |traffic| traffic.rates()[0])));
        columns.push(column("drain/s", 9, 5, &|set| moved(set, |traffic| traffic.rates()[1])));
    }
    if shown.iter().any(|set| view.waits_of(set.cpu).is_some()) {
        columns.push(column("wait %", 7, 6, &|set| percent(view.waits_of(set.cpu).and_then(CpuWaits::pct))));
    }
    if view.zones.len() > 1 {
        columns
            .push(column("elsewhere", 10, 7, &|set| pages(elsewhere(view, zones.of(view, set.cpu), set.cpu), short)));
    }
    columns
}

/// The pages that the CPU holds of other zones.
fn elsewhere(view: &View, zone: usize, cpu: u32) -> u64 {
    let others = view.zones.iter().enumerate().filter(|(other, _)| *other != zone);
    let counts = others.filter_map(|(_, other)| other.pageset_of(cpu)).map(|set| set.count);
    counts.fold(0, u64::saturating_add)
}

/// The looks without any page after which a CPU is idle.
const IDLE_LOOKS: usize = 10;

/// The CPUs that have a line of the list: the chosen one, and those that held or moved pages lately.
pub(super) fn busy(scene: &Scene<'_>, state: &State, ordered: &[Pageset]) -> Vec<Pageset> {
    let (zones, chosen) = (state.zones(scene.view), state.chosen(ordered));
    let is_busy = |set: &Pageset| {
        let zone = zones.name(scene.view, set.cpu);
        let of = |measure| scene.history.values(&zone, set.cpu, measure, IDLE_LOOKS);
        let mut all = [Measure::Held, Measure::Refills, Measure::Drains].into_iter().flat_map(of);
        all.any(|value| value.is_some_and(|value| value > 0.0))
    };
    let lines = ordered.iter().enumerate().filter(|(place, set)| *place == chosen || is_busy(set));
    lines.map(|(_, set)| *set).collect()
}

/// The shown zones, the sort key, the filter and the hidden CPUs.
pub(super) fn title(scene: &Scene<'_>, state: &State, ordered: &[Pageset], hidden: usize) -> Vec<String> {
    let (view, zones) = (scene.view, state.zones(scene.view));
    let of = match zones.all().len() {
        0 | 1 => format!("zone {}", view.zones.get(state.zone(view)).map(Zone::name).unwrap_or_default()),
        _ => "zones of each CPU's node".to_owned(),
    };
    let mut parts = vec![format!("{of} by {}", state.sort.name())];
    if !state.filter.is_empty() {
        parts.push(format!(", filter {}: {} CPUs", state.filter_text, grouped(ordered.len() as u64)));
    }
    if hidden > 0 {
        parts.push(format!(", {} idle CPUs hidden", grouped(hidden as u64)));
    }
    parts
}

/// The title and the chosen CPU's numbers.
fn heading(scene: &Scene<'_>, state: &State, ordered: &[Pageset], hidden: usize) -> Vec<String> {
    let mut parts = title(scene, state, ordered, hidden);
    if let Some(set) = ordered.get(state.chosen(ordered)) {
        let refills = scene.view.traffic_of(set.cpu).and_then(|traffic| traffic.rates()[0]);
        parts.push(format!(" | CPU {}: {} of {}", set.cpu, grouped(set.count), grouped(set.high)));
        parts.push(format!(", {}", signed(set.change)));
        parts.push(format!(", refill/s {}", rate(refills)));
    }
    parts
}

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    scene: &Scene<'_>,
    state: &State,
    ordered: &[Pageset],
    hidden: usize,
    hits: &mut Hits,
) {
    let width = usize::from(area.width);
    let line_at = |line: u16| Rect { y: area.y + line, height: 1, ..area };
    if area.height == 0 {
        return;
    }
    frame.render_widget(
        Line::styled(fit::line(&heading(scene, state, ordered, hidden), width), style::HEAD),
        line_at(0),
    );
    let lines = usize::from(area.height).saturating_sub(2);
    if lines == 0 {
        return;
    }
    let chosen = state.chosen(ordered);
    let first = (chosen + 1).saturating_sub(lines);
    let shown = &ordered[first.min(ordered.len())..(first + lines).min(ordered.len())];
    let zones = state.zones(scene.view);
    let fitted = Fitted::new(|short| columns(scene.view, shown, &zones, short), width, ESSENTIAL);
    let sparks = Sparks::new(scene, &zones, &fitted, width);
    let row = |line: Option<usize>| -> Vec<Span<'static>> {
        let mut spans = Vec::new();
        for (place, (column, _)) in fitted.widths.iter().enumerate() {
            let head = fitted.columns[*column].head.as_str();
            let mut span = line.map_or_else(|| fitted.heading(place), |line| fitted.cell(place, line));
            let measure = SPARKS.into_iter().find(|(of, _)| *of == head).map(|(_, measure)| measure);
            if let (Some(measure), Some(line)) = (measure, line)
                && scene.unusual.cpus.contains(&(shown[line].cpu, measure))
            {
                span.style = style::alarm(false, state);
            }
            spans.push(span);
            if let Some(measure) = measure.filter(|measure| sparks.has(*measure)) {
                let drawn = line.map_or(String::new(), |line| sparks.drawn(scene, &zones, shown[line].cpu, measure));
                let style = line.map_or(Style::new(), |_| style::line(state));
                spans.push(Span::styled(format!(" {drawn:<0$}", sparks.width), style));
            }
        }
        spans
    };
    let mut heads = row(None);
    let taken: usize = heads.iter().map(Span::width).sum();
    heads.push(Span::raw(" ".repeat(width.saturating_sub(taken))));
    frame.render_widget(Line::from(heads).style(style::columns(state)), line_at(1));
    for (line, set) in shown.iter().enumerate() {
        let at = line_at(line as u16 + 2);
        let mut cells = row(Some(line));
        // A very narrow screen has no columns.
        if let Some(cell) = cells.first_mut().filter(|_| first + line == chosen) {
            cell.style = style::CHOSEN;
        }
        frame.render_widget(Line::from(cells), at);
        hits.add(at, Target::Cpu(set.cpu));
    }
}

/// The sparklines that the numbers leave room for.
struct Sparks {
    /// Each measure with the largest value of all CPUs.
    shown: Vec<(Measure, f32)>,
    width: usize,
}

impl Sparks {
    fn new(scene: &Scene<'_>, zones: &Zones, fitted: &Fitted, room: usize) -> Sparks {
        let left = room.saturating_sub(fitted.width());
        let is_shown = |head: &str| fitted.widths.iter().any(|(place, _)| fitted.columns[*place].head == head);
        let wanted = SPARKS.into_iter().filter(|(head, _)| is_shown(head)).map(|(_, measure)| measure);
        let measures: Vec<Measure> = wanted.take(left / (SPARK.start() + 1)).collect();
        let width = (left / measures.len().max(1)).saturating_sub(1).min(*SPARK.end());
        // Held and high have one scale, so that they can be compared.
        let names: Vec<String> =
            zones.all().into_iter().filter_map(|place| Some(scene.view.zones.get(place)?.name())).collect();
        let largest = |of| names.iter().map(|zone| scene.history.largest(zone, of, 2 * width)).fold(0.0, f32::max);
        let most = |measure| match measure {
            Measure::Held | Measure::High => largest(Measure::Held).max(largest(Measure::High)),
            other => largest(other),
        };
        Sparks { shown: measures.into_iter().map(|measure| (measure, most(measure))).collect(), width }
    }

    fn has(&self, measure: Measure) -> bool {
        self.shown.iter().any(|(shown, _)| *shown == measure)
    }

    fn drawn(&self, scene: &Scene<'_>, zones: &Zones, cpu: u32, measure: Measure) -> String {
        let Some((_, most)) = self.shown.iter().find(|(shown, _)| *shown == measure) else { return String::new() };
        let zone = zones.name(scene.view, cpu);
        let of = |measure| scene.history.values(&zone, cpu, measure, 2 * self.width);
        let values = of(measure);
        // Held and high of a CPU have one scale, so that they can be compared.
        let beside = match measure {
            Measure::Held => of(Measure::High),
            Measure::High => of(Measure::Held),
            _ => Vec::new(),
        };
        let own = values.iter().chain(&beside).flatten().copied().fold(0.0, f32::max);
        let most = own.max(most / FLOOR);
        let form = if measure == Measure::High { Form::Line } else { Form::Filled };
        spark(&values, most, self.width, form)
    }
}
