//! The screen: the zones, the chosen zone's pagesets as a list or a map, the missing values, and the keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table};

use super::plain::{kernel_line, number, percent, rate, signed};
use super::state::State;
use super::view::{CpuWaits, Pageset, View, Zone};
use crate::columns::grouped;

/// Marks from an empty pageset to one at its high, readable without colours.
const RAMP: [char; 10] = ['·', '.', ':', '-', '=', '+', '*', '#', '%', '@'];
/// Width of the label of a line of the map. Unit: characters.
const LABEL: u16 = 5;
/// The smallest width at which the list of CPUs shows waits. Unit: characters.
const WIDE: u16 = 100;
/// The largest number of zone lines, so that a small screen also shows CPUs.
const ZONE_LINES: usize = 8;

/// The heat of a pageset: its count within its high, 0 to 9.
fn heat(set: &Pageset) -> usize {
    if set.count == 0 {
        return 0;
    }
    let share = set.count as f64 / set.high.max(1) as f64;
    ((share * 9.0).ceil() as usize).clamp(1, 9)
}

fn colour(heat: usize) -> Style {
    let colour = match heat {
        0 => Color::DarkGray,
        1..=3 => Color::Blue,
        4..=6 => Color::Green,
        7..=8 => Color::Yellow,
        _ => Color::Red,
    };
    Style::new().fg(colour)
}

/// The number of CPUs in a line of the map, if a list cannot show all CPUs; 1 for a list.
pub(super) fn per_line(state: &State, view: &View, area: Rect) -> usize {
    let cpus = view.zones.get(state.zone(view)).map_or(0, |zone| zone.pagesets.len());
    let lines = usize::from(parts(view, area).cpus.height).saturating_sub(1);
    if state.list || cpus <= lines {
        return 1;
    }
    // Whole tens are easier to count.
    (usize::from(area.width.saturating_sub(LABEL)) / 10 * 10).max(1)
}

/// The screen's parts, from top to bottom.
struct Parts {
    title: Rect,
    zones: Rect,
    heading: Rect,
    waits: Rect,
    cpus: Rect,
    notes: Rect,
    keys: Rect,
}

fn parts(view: &View, area: Rect) -> Parts {
    let zones = view.zones.len().min(ZONE_LINES) as u16 + 1;
    let waits = u16::from(view.traffic.iter().flatten().any(|traffic| traffic.zone_lock_waits.is_some()));
    let notes = (view.missing.len() + view.news.len()).min(3) as u16;
    let lines = [1, zones, 1, waits, 0, notes, 1].map(Constraint::Length);
    let mut lines = lines;
    lines[4] = Constraint::Fill(1);
    let [title, zones, heading, waits, cpus, notes, keys] = Layout::vertical(lines).areas(area);
    Parts { title, zones, heading, waits, cpus, notes, keys }
}

/// Draws one view.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, state: &State) {
    let area = frame.area();
    let Parts { title, zones, heading, waits, cpus, notes, keys } = parts(view, area);
    let frozen = if state.frozen { "  [frozen]" } else { "" };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Line::styled(format!("pageset {}: {}{frozen}", view.source, kernel_line(view)), bold), title);
    frame.render_widget(zone_table(view, state, zones), zones);
    let ordered = state.ordered(view);
    let chosen = state.chosen(&ordered);
    frame.render_widget(Line::styled(cpu_heading(view, state, &ordered, chosen), bold), heading);
    frame.render_widget(Line::raw(wait_line(view, &ordered, chosen)), waits);
    let row = per_line(state, view, area);
    if row == 1 {
        frame.render_widget(cpu_list(view, state, &ordered, chosen, cpus), cpus);
    } else {
        frame.render_widget(cpu_map(&ordered, chosen, row, cpus), cpus);
    }
    let lines =
        view.news.iter().chain(&view.missing).map(|note| Line::styled(note.clone(), Style::new().fg(Color::Yellow)));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), notes);
    frame.render_widget(Line::styled(KEYS, Style::new().add_modifier(Modifier::REVERSED)), keys);
    if state.help {
        help(frame, area);
    }
}

const KEYS: &str = " q quit  h help  z zone  arrows CPU  s sort  space freeze  m map or list ";

fn zone_table<'v>(view: &'v View, state: &State, area: Rect) -> Table<'v> {
    let wide = area.width >= 120;
    let mut heads = vec!["zone", "mark", "free", "free +-", "held", "held +-", "held %", "high_min", "high_max"];
    let mut widths = ZONE_WIDTHS[..9].to_vec();
    if wide {
        heads.extend(["managed", "min", "low", "high", "batch"]);
        widths.extend(&ZONE_WIDTHS[9..]);
    }
    let chosen = state.zone(view);
    // The chosen zone is always among those shown.
    let first = (chosen + 1).saturating_sub(ZONE_LINES);
    let rows = view.zones.iter().enumerate().skip(first).take(ZONE_LINES).map(|(place, zone)| {
        let style = if place == chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Row::new(zone_cells(zone, wide)).style(style)
    });
    Table::new(rows, widths.into_iter().map(Constraint::Length).collect::<Vec<_>>())
        .header(
            Row::new(heads.into_iter().enumerate().map(|(i, head)| padded(head, i)))
                .style(Style::new().add_modifier(Modifier::UNDERLINED)),
        )
        .column_spacing(0)
}

/// Widths of the zones' columns; a small screen shows the first nine. Unit: characters.
const ZONE_WIDTHS: [u16; 14] = [11, 6, 10, 9, 8, 8, 7, 9, 9, 12, 9, 9, 9, 6];

fn padded(text: &str, column: usize) -> String {
    let width = usize::from(ZONE_WIDTHS[column]);
    if column < 2 { format!("{text:<width$}") } else { format!("{text:>width$}") }
}

fn zone_cells(zone: &Zone, wide: bool) -> Vec<String> {
    let mut cells = vec![
        zone.name(),
        zone.mark().to_owned(),
        grouped(zone.free),
        signed(zone.free_change),
        grouped(zone.held),
        signed(zone.held_change),
        format!("{:.2}", zone.held_pct),
        number(zone.high_min),
        number(zone.high_max),
    ];
    if wide {
        cells.extend([zone.managed, zone.min, zone.low, zone.high, zone.batch].map(grouped));
    }
    cells.iter().enumerate().map(|(i, cell)| padded(cell, i)).collect()
}

/// The chosen zone, the sort key, and the chosen CPU's numbers.
fn cpu_heading(view: &View, state: &State, ordered: &[Pageset], chosen: usize) -> String {
    let zone = view.zones.get(state.zone(view)).map(Zone::name).unwrap_or_default();
    let mut text = format!("zone {zone} by {}", state.sort.name());
    if let Some(set) = ordered.get(chosen) {
        let refills = view.traffic_of(set.cpu).and_then(|traffic| traffic.refill_pages_per_s);
        text += &format!(
            " | CPU {}: {} of {}, {}, refill/s {}",
            set.cpu,
            grouped(set.count),
            grouped(set.high),
            signed(set.change),
            rate(refills)
        );
    }
    text
}

/// The share of its time that the chosen CPU waited for zone locks, by path.
fn wait_line(view: &View, ordered: &[Pageset], chosen: usize) -> String {
    let Some(waits) = ordered.get(chosen).and_then(|set| view.waits_of(set.cpu)) else { return String::new() };
    let [refill, drain, alloc, free] = waits.paths().map(|path| percent(path.pct));
    format!("zone-lock wait %: refill {refill}, drain {drain}, direct alloc {alloc}, direct free {free}")
}

/// One line per CPU: how full its pageset is, what changed, and what the CPU moved.
fn cpu_list<'v>(view: &'v View, state: &State, ordered: &[Pageset], chosen: usize, area: Rect) -> Table<'v> {
    let lines = usize::from(area.height).saturating_sub(1);
    let first = (chosen + 1).saturating_sub(lines);
    let zone = state.zone(view);
    let mut others: Vec<&Zone> =
        view.zones.iter().enumerate().filter(|(place, _)| *place != zone).map(|(_, z)| z).collect();
    // Largest zones first: if the room is not enough for all zones, their pagesets may hold most.
    others.sort_by_key(|zone| std::cmp::Reverse(zone.managed));
    // The room that the numbers leave; the other zones' counts take theirs before the bar.
    let waits = area.width >= WIDE && ordered.iter().any(|set| view.waits_of(set.cpu).is_some());
    let wait = if waits { 8 } else { 0 };
    let room = usize::from(area.width).saturating_sub(5 + 9 + 9 + 9 + 10 + 10 + wait + 12);
    let others = &others[..others.len().min(room / 12)];
    let bar = (room - 12 * others.len() + 10).clamp(8, 60);
    let most = ordered.iter().map(|set| set.high.max(set.count)).max().unwrap_or(1).max(1);
    let head = |text: &str, width: usize| format!("{text:>width$}");
    let mut heads = vec![
        head("CPU", 5),
        head("count", 9),
        head("+-", 9),
        head("high", 9),
        head("refill/s", 10),
        head("drain/s", 10),
        head("wait %", 8),
    ];
    heads.truncate(if waits { 7 } else { 6 });
    heads.push(format!("  {:<bar$}", "# held - high"));
    heads.extend(others.iter().map(|zone| head(&zone.name(), 12)));
    let rows = ordered.iter().enumerate().skip(first).take(lines).map(|(place, set)| {
        let traffic = view.traffic_of(set.cpu);
        let text = [
            head(&set.cpu.to_string(), 5),
            head(&grouped(set.count), 9),
            head(&signed(set.change), 9),
            head(&grouped(set.high), 9),
            head(&rate(traffic.and_then(|t| t.refill_pages_per_s)), 10),
            head(&rate(traffic.and_then(|t| t.drain_pages_per_s)), 10),
            head(&percent(view.waits_of(set.cpu).and_then(CpuWaits::pct)), 8),
        ];
        let scaled = |pages: u64| (pages as f64 / most as f64 * bar as f64).round() as usize;
        let (held, high) = (scaled(set.count).min(bar), scaled(set.high).min(bar));
        let drawn = format!("  {}{}", "#".repeat(held), "-".repeat(high.saturating_sub(held)));
        let mut cells: Vec<Span<'_>> = text.into_iter().take(if waits { 7 } else { 6 }).map(Span::raw).collect();
        cells.push(Span::styled(format!("{drawn:<width$}", width = bar + 2), colour(heat(set))));
        for zone in others {
            let other = zone.pagesets.iter().find(|other| other.cpu == set.cpu);
            let text = other.map_or("-".to_owned(), |other| format!("{} {}", grouped(other.count), RAMP[heat(other)]));
            cells.push(Span::styled(head(&text, 12), other.map_or(Style::new(), |other| colour(heat(other)))));
        }
        let style = if place == chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Row::new(cells).style(style)
    });
    let mut widths: Vec<u16> = vec![5, 9, 9, 9, 10, 10];
    widths.extend(waits.then_some(8));
    widths.push(bar as u16 + 2);
    widths.extend(others.iter().map(|_| 12));
    Table::new(rows, widths.into_iter().map(Constraint::Length).collect::<Vec<_>>())
        .header(Row::new(heads).style(Style::new().add_modifier(Modifier::UNDERLINED)))
        .column_spacing(0)
}

/// One character per CPU, `row` CPUs in a line; each line begins with the number of its first CPU.
fn cpu_map(ordered: &[Pageset], chosen: usize, row: usize, area: Rect) -> Paragraph<'static> {
    let lines = usize::from(area.height).saturating_sub(1).max(1);
    let first = (chosen / row + 1).saturating_sub(lines);
    let scale = RAMP.iter().collect::<String>();
    let mut text =
        vec![Line::raw(format!("{:>4}  {scale}  from empty to high; the number is the line's first CPU", "CPU"))];
    for (line, sets) in ordered.chunks(row).enumerate().skip(first).take(lines) {
        let mut spans = vec![Span::raw(format!("{:>4} ", sets[0].cpu))];
        spans.extend(sets.iter().enumerate().map(|(i, set)| {
            let mut style = colour(heat(set));
            if line * row + i == chosen {
                style = style.add_modifier(Modifier::REVERSED);
            }
            Span::styled(RAMP[heat(set)].to_string(), style)
        }));
        text.push(Line::from(spans));
    }
    Paragraph::new(text)
}

const HELP: &str = "\
q, Esc      quit
z, Tab      next zone
arrows      choose a CPU (also j k, PgUp PgDn, Home End)
s           sort CPUs by number, count, change, refills, waits
space, f    freeze or continue
m           switch between map and list of CPUs
n, p        next and previous of several saved files

mark        the lowest watermark that free pages are below
held        pages in pagesets: free, but only for one CPU
+-          change since the previous look
refill/s    pages taken from all zones per second (as root)
wait %      share of time spent spinning for zone locks (root)

`pageset explain NAME` describes each name. Press any key.";

fn help(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = (66.min(area.width), (HELP.lines().count() as u16 + 2).min(area.height));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" help ")), place);
}
