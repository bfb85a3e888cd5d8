//! A heat map: one character for each CPU, in the order of their numbers, by node.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::fit;
use super::super::history::Measure;
use super::super::state::{Scene, State};
use super::super::view::{CpuWaits, Pageset};
use super::{Hits, Target, style};

/// Marks from nothing to the most.
/// A full block would touch the line above.
const RAMP: [char; 8] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇'];
/// A space separates groups of this many CPUs, so that they can be counted.
const GROUP: usize = 8;

/// The CPUs of the map in lines.
pub(super) struct Plan {
    of: Measure,
    /// The CPUs of each line, after their node if it is known and the line is its first.
    rows: Vec<(Option<u32>, Vec<Pageset>)>,
    /// The first shown line.
    first: usize,
    shown: usize,
    gaps: bool,
    /// Widths of the node's and of the first CPU's number. Unit: characters.
    node: usize,
    label: usize,
}

impl Plan {
    /// The lines that the map takes, with its heading.
    pub(super) fn lines(&self) -> u16 {
        self.shown as u16 + 1
    }
}

/// Plans a map in at most `most` lines; `None` if the user wants no map or there is no room.
pub(super) fn plan(scene: &Scene<'_>, state: &State, area: Rect, most: u16) -> Option<Plan> {
    let (of, view) = (state.map?, scene.view);
    let all = state.zones(view).pagesets(view);
    let mut nodes: BTreeMap<Option<u32>, Vec<Pageset>> = BTreeMap::new();
    let shown = all.iter().filter(|set| state.filter.shows(set.cpu, view, scene.unusual));
    shown.for_each(|set| nodes.entry(view.node_of(set.cpu)).or_default().push(*set));
    let digits = |number: Option<u32>| number.map_or(0, |number| number.to_string().len());
    let node = match nodes.len() {
        0 | 1 => 0,
        _ => "node ".len() + nodes.keys().map(|node| digits(*node)).max().unwrap_or(1) + 1,
    };
    let label = digits(all.iter().map(|set| set.cpu).max()) + 1;
    let most = usize::from(most).checked_sub(1).filter(|most| *most > 0)?;
    let room = usize::from(area.width).checked_sub(node + label).filter(|room| *room >= GROUP)?;
    let rows = |row: usize| {
        let rows = nodes.iter().flat_map(|(node, sets)| {
            let first = |place: usize| node.filter(|_| place == 0);
            sets.chunks(row).enumerate().map(move |(place, sets)| (first(place), sets.to_vec())).collect::<Vec<_>>()
        });
        rows.collect::<Vec<_>>()
    };
    let with_gaps = rows(((room + 1) / (GROUP + 1)).max(1) * GROUP);
    let gaps = with_gaps.len() <= most && room > GROUP;
    let rows = if gaps { with_gaps } else { rows(room / GROUP * GROUP) };
    let ordered = state.ordered(scene);
    let chosen = ordered.get(state.chosen(&ordered)).map(|set| set.cpu);
    let line = rows.iter().position(|(_, sets)| sets.iter().any(|set| Some(set.cpu) == chosen)).unwrap_or(0);
    let shown = rows.len().min(most);
    Some(Plan { of, first: (line + 1).saturating_sub(shown), shown, rows, gaps, node, label })
}

/// The value of a CPU and the value of a full mark.
fn value(set: &Pageset, scene: &Scene<'_>, of: Measure) -> f64 {
    let traffic = scene.view.traffic_of(set.cpu);
    let value = match of {
        Measure::Held | Measure::High => Some(set.count as f64 / set.high.max(1) as f64),
        Measure::Refills => traffic.and_then(|traffic| traffic.rates()[0]),
        Measure::Drains => traffic.and_then(|traffic| traffic.rates()[1]),
        Measure::Waits => scene.view.waits_of(set.cpu).and_then(CpuWaits::pct),
    };
    value.unwrap_or(0.0)
}

/// The mark of a value: only nothing has the lowest mark.
fn mark(value: f64, most: f64) -> char {
    if value <= 0.0 || most <= 0.0 {
        return RAMP[0];
    }
    RAMP[((value / most * 7.0).ceil() as usize).clamp(1, 7)]
}

/// The value of a full mark.
fn most(scene: &Scene<'_>, plan: &Plan) -> f64 {
    match plan.of {
        // A pageset that holds its high is full.
        Measure::Held | Measure::High => 1.0,
        of => plan.rows.iter().flat_map(|(_, sets)| sets).map(|set| value(set, scene, of)).fold(0.0, f64::max),
    }
}

/// What the map shows, and the scale of its marks.
fn legend(scene: &Scene<'_>, plan: &Plan) -> [String; 3] {
    let most = most(scene, plan);
    let rate = || match scene.view.seconds().filter(|_| scene.view.traffic.is_some()) {
        Some(_) => format!("{} pages/s", fit::short(most.round() as u64)),
        None => "what is not counted".to_owned(),
    };
    let (name, top) = match plan.of {
        Measure::Held | Measure::High => ("held", "high".to_owned()),
        Measure::Refills => ("refills", rate()),
        Measure::Drains => ("drains", rate()),
        Measure::Waits => ("waits", format!("{most:.2} % of the time")),
    };
    let ramp: String = RAMP.iter().collect();
    [format!("CPUs by {name}"), format!("  {ramp} from none to {top}"), "  (m: next map)".to_owned()]
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>, state: &State, plan: &Plan, hits: &mut Hits) {
    let most = most(scene, plan);
    let legend = legend(scene, plan);
    let width = usize::from(area.width);
    let legend = fit::line(&legend, width);
    frame.render_widget(Line::styled(format!("{legend:<width$}"), style::columns(state)), area);
    let ordered = state.ordered(scene);
    let chosen = ordered.get(state.chosen(&ordered)).map(|set| set.cpu);
    for (line, (node, sets)) in plan.rows.iter().skip(plan.first).take(plan.shown).enumerate() {
        let y = area.y + 1 + line as u16;
        // The first shown line also has its node.
        let node = node.or_else(|| sets.first().and_then(|set| scene.view.node_of(set.cpu)).filter(|_| line == 0));
        let node = node.map(|node| format!("node {node}")).unwrap_or_default();
        let label = sets.first().map_or(0, |set| set.cpu);
        let head = if plan.node > 0 { format!("{node:<0$}", plan.node) } else { String::new() };
        let head = format!("{head}{label:>0$} ", plan.label - 1);
        let mut x = area.x + head.chars().count() as u16;
        let mut spans = vec![Span::styled(head, style::dim(state))];
        for (place, set) in sets.iter().enumerate() {
            if plan.gaps && place > 0 && place % GROUP == 0 {
                spans.push(Span::raw(" "));
                x += 1;
            }
            let mut mark_style = if scene.unusual.has(set.cpu) { style::alarm(false, state) } else { Style::new() };
            if Some(set.cpu) == chosen {
                mark_style = mark_style.patch(style::CHOSEN);
            }
            spans.push(Span::styled(mark(value(set, scene, plan.of), most).to_string(), mark_style));
            hits.add(Rect::new(x, y, 1, 1), Target::Cpu(set.cpu));
            x += 1;
        }
        frame.render_widget(Line::from(spans), Rect { y, height: 1, ..area });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nothing_has_the_lowest_mark() {
        for (value, expected) in [(0.0, '·'), (0.001, '▁'), (14.0, '▁'), (15.0, '▂'), (99.0, '▇'), (400.0, '▇')]
        {
            assert_eq!(mark(value, 100.0), expected, "{value}");
        }
        assert_eq!(mark(5.0, 0.0), '·');
    }
}
