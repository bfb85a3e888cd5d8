//! The screen: the zones, the chosen zone's pagesets as a list or a map, the missing values, and the keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, Wrap};

use super::fit::{self, Column};
use super::plain::{kernel_line, number, percent, rate, signed};
use super::state::State;
use super::view::{CpuTraffic, CpuWaits, Pageset, View, Zone};
use crate::columns::grouped;

/// Marks from an empty pageset to one at its high, readable without colours.
const RAMP: [char; 10] = ['·', '.', ':', '-', '=', '+', '*', '#', '%', '@'];
/// The smallest width of the label of a line of the map. Unit: characters.
const LABEL: usize = 5;
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
    let sets = view.zones.get(state.zone(view)).map_or(&[][..], |zone| &zone.pagesets);
    let lines = usize::from(parts(view, area).cpus.height).saturating_sub(1);
    if state.list || sets.len() <= lines {
        return 1;
    }
    let room = usize::from(area.width).saturating_sub(label(sets));
    // Whole tens are easier to count.
    if room < 10 { room.max(1) } else { room / 10 * 10 }
}

/// Width of the number at the begin of the map's lines. Unit: characters.
fn label(sets: &[Pageset]) -> usize {
    let digits = sets.iter().map(|set| set.cpu.to_string().len()).max().unwrap_or(1);
    LABEL.max(digits + 1)
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
    // Zones and notes leave room for CPUs on a small screen.
    let most = (usize::from(area.height).saturating_sub(6) / 2).clamp(1, ZONE_LINES);
    let zones = view.zones.len().min(most) as u16 + 1;
    let waits = u16::from(view.traffic.iter().flatten().any(|traffic| traffic.zone_lock_waits.is_some()));
    let notes = (view.missing.len() + view.news.len()).min(if area.height < 16 { 1 } else { 3 }) as u16;
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
    let width = usize::from(area.width);
    let frozen = if state.frozen { "  [frozen]" } else { "" };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let title_text = format!("pageset {}: {}", view.source, kernel_line(view));
    let title_text = fit::line(&[title_text], width.saturating_sub(frozen.len())) + frozen;
    frame.render_widget(Line::styled(title_text, bold), title);
    frame.render_widget(zone_table(view, state, zones), zones);
    let ordered = state.ordered(view);
    let chosen = state.chosen(&ordered);
    frame.render_widget(Line::styled(fit::line(&cpu_heading(view, state, &ordered, chosen), width), bold), heading);
    frame.render_widget(Line::raw(fit::line(&wait_line(view, &ordered, chosen), width)), waits);
    let row = per_line(state, view, area);
    if row == 1 {
        frame.render_widget(cpu_list(view, state, &ordered, chosen, cpus), cpus);
    } else {
        frame.render_widget(cpu_map(&ordered, chosen, row, cpus), cpus);
    }
    let note =
        |note: &String| Line::styled(fit::line(std::slice::from_ref(note), width), Style::new().fg(Color::Yellow));
    let lines: Vec<Line<'_>> = view.news.iter().chain(&view.missing).map(note).collect();
    frame.render_widget(Paragraph::new(lines), notes);
    frame.render_widget(Line::styled(fit::line(&KEYS.map(str::to_owned), width), Modifier::REVERSED), keys);
    if state.help {
        help(frame, area);
    }
}

/// The keys, the most important ones first.
const KEYS: [&str; 7] =
    [" q quit ", " h help ", " z zone ", " arrows CPU ", " s sort ", " space freeze ", " m map or list "];

/// Draws the columns that fit. `all(short)` makes the columns, with whole or with short numbers: short ones if whole
/// ones leave no room for the columns of a rank below `essential`.
fn fitted(all: impl Fn(bool) -> Vec<Column>, room: usize, essential: usize) -> (Vec<Column>, Vec<(usize, usize)>) {
    let whole = all(false);
    let widths = fit::columns(&whole, room, true);
    let essentials = whole.iter().filter(|column| column.rank < essential).count();
    if widths.len() >= essentials {
        return (whole, widths);
    }
    let short = all(true);
    let widths = fit::columns(&short, room, false);
    (short, widths)
}

/// A number, whole or short.
fn pages(number: u64, short: bool) -> String {
    if short { fit::short(number) } else { grouped(number) }
}

/// A change with its sign, whole or short.
fn change(change: Option<i64>, short: bool) -> String {
    match change.filter(|change| short && *change != 0) {
        None => signed(change),
        Some(by) => format!("{}{}", if by < 0 { "-" } else { "+" }, fit::short(by.unsigned_abs())),
    }
}

/// A rate, whole or short.
fn per_s(value: Option<f64>, short: bool) -> String {
    value.filter(|_| short).map_or_else(|| rate(value), |value| fit::short(value.round() as u64))
}

fn zone_table(view: &View, state: &State, area: Rect) -> Table<'static> {
    let chosen = state.zone(view);
    // The chosen zone is always among those shown.
    let lines = usize::from(area.height).saturating_sub(1).max(1);
    let first = (chosen + 1).saturating_sub(lines);
    let shown: Vec<&Zone> = view.zones.iter().skip(first).take(lines).collect();
    let (columns, widths) = fitted(|short| zone_columns(&shown, short), area.width.into(), ZONE_ESSENTIAL);
    let rows = (0..shown.len()).map(|line| {
        let style = if first + line == chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        let cell = |(place, width): &(usize, usize)| columns[*place].padded(&columns[*place].cells[line], *width);
        Row::new(widths.iter().map(cell).collect::<Vec<_>>()).style(style)
    });
    table(rows.collect(), &columns, &widths)
}

/// A table of fitted columns. Each row has a cell of its column's width for each column.
fn table<'r>(rows: Vec<Row<'r>>, columns: &[Column], widths: &[(usize, usize)]) -> Table<'r> {
    let heads = widths.iter().map(|(place, width)| columns[*place].heading(*width, *place == 0));
    let style = Style::new().add_modifier(Modifier::UNDERLINED);
    Table::new(rows, widths.iter().map(|(_, width)| Constraint::Length(*width as u16)))
        .header(Row::new(heads.collect::<Vec<_>>()).style(style))
        .column_spacing(0)
}

/// The zones' columns of a rank below this are shown even if that needs short numbers: the name, held and free.
const ZONE_ESSENTIAL: usize = 3;

fn zone_columns(zones: &[&Zone], short: bool) -> Vec<Column> {
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

/// The chosen zone, the sort key, and the chosen CPU's numbers.
fn cpu_heading(view: &View, state: &State, ordered: &[Pageset], chosen: usize) -> Vec<String> {
    let zone = view.zones.get(state.zone(view)).map(Zone::name).unwrap_or_default();
    let mut parts = vec![format!("zone {zone} by {}", state.sort.name())];
    if let Some(set) = ordered.get(chosen) {
        let refills = view.traffic_of(set.cpu).and_then(|traffic| traffic.refill_pages_per_s);
        parts.push(format!(" | CPU {}: {} of {}", set.cpu, grouped(set.count), grouped(set.high)));
        parts.push(format!(", {}", signed(set.change)));
        parts.push(format!(", refill/s {}", rate(refills)));
    }
    parts
}

/// The share of its time that the chosen CPU waited for zone locks, by path.
fn wait_line(view: &View, ordered: &[Pageset], chosen: usize) -> Vec<String> {
    let Some(waits) = ordered.get(chosen).and_then(|set| view.waits_of(set.cpu)) else { return Vec::new() };
    let [refill, drain, alloc, free] = waits.paths().map(|path| percent(path.pct));
    vec![
        format!("zone-lock wait %: refill {refill}"),
        format!(", drain {drain}"),
        format!(", direct alloc {alloc}"),
        format!(", direct free {free}"),
    ]
}

/// The columns of the list of CPUs of a rank below this are shown even if that needs short numbers: the CPU, count and
/// high.
const CPU_ESSENTIAL: usize = 3;

/// The list's columns of numbers.
fn cpu_columns(view: &View, shown: &[Pageset], waits: bool, short: bool) -> Vec<Column> {
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
        column("count", 9, 1, &|set| pages(set.count, short)),
        column("+-", 9, 3, &|set| change(set.change, short)),
        column("high", 9, 2, &|set| pages(set.high, short)),
        column("refill/s", 10, 4, &|set| moved(set, |traffic| traffic.refill_pages_per_s)),
        column("drain/s", 10, 5, &|set| moved(set, |traffic| traffic.drain_pages_per_s)),
    ];
    if waits {
        columns.push(column("wait %", 8, 6, &|set| percent(view.waits_of(set.cpu).and_then(CpuWaits::pct))));
    }
    columns
}

/// The column of another zone's counts.
fn other_column(zone: &Zone, shown: &[Pageset], rank: usize) -> Column {
    let cell = |set: &Pageset| match other(zone, set.cpu) {
        None => "-".to_owned(),
        Some(other) => format!("{} {}", grouped(other.count), RAMP[heat(other)]),
    };
    let cells = shown.iter().map(cell).collect();
    Column { head: zone.name(), cells, usual: 12, rank, words: false }
}

fn other(zone: &Zone, cpu: u32) -> Option<&Pageset> {
    zone.pagesets.iter().find(|other| other.cpu == cpu)
}

/// Widths of the list's bar. Unit: characters.
const BAR: std::ops::RangeInclusive<usize> = 10..=60;

/// One line per CPU: how full its pageset is, what changed, and what the CPU moved.
fn cpu_list<'v>(view: &'v View, state: &State, ordered: &[Pageset], chosen: usize, area: Rect) -> Table<'v> {
    let lines = usize::from(area.height).saturating_sub(1);
    let first = (chosen + 1).saturating_sub(lines);
    let shown: Vec<Pageset> = ordered.iter().skip(first).take(lines).copied().collect();
    let zone = state.zone(view);
    let mut others: Vec<&Zone> =
        view.zones.iter().enumerate().filter(|(place, _)| *place != zone).map(|(_, z)| z).collect();
    // Largest zones first: if the room is not enough for all zones, their pagesets may hold most.
    others.sort_by_key(|zone| std::cmp::Reverse(zone.managed));
    let room = usize::from(area.width);
    let waits = area.width >= WIDE && ordered.iter().any(|set| view.waits_of(set.cpu).is_some());
    let (mut columns, mut widths) = fitted(|short| cpu_columns(view, &shown, waits, short), room, CPU_ESSENTIAL);
    // The room that the numbers leave: the smallest bar, other zones, and the rest of the bar.
    let taken = |widths: &[(usize, usize)]| widths.iter().map(|(_, width)| width).sum::<usize>();
    let numbers = columns.len();
    let mut bar = 0;
    if widths.len() == numbers && room >= taken(&widths) + BAR.start() + 2 {
        let left = room - taken(&widths) - BAR.start() - 2;
        let of_others: Vec<Column> =
            others.iter().enumerate().map(|(rank, zone)| other_column(zone, &shown, rank)).collect();
        let fitting = fit::columns(&of_others, left, true);
        bar = (left - taken(&fitting) + BAR.start()).min(*BAR.end());
        let head = "  # held - high".to_owned();
        columns.push(Column { head, cells: Vec::new(), usual: bar + 2, rank: 0, words: true });
        widths.push((numbers, bar + 2));
        columns.extend(of_others);
        widths.extend(fitting.into_iter().map(|(place, width)| (numbers + 1 + place, width)));
    }
    let most = ordered.iter().map(|set| set.high.max(set.count)).max().unwrap_or(1).max(1);
    let rows = shown.iter().enumerate().map(|(line, set)| {
        let scaled = |pages: u64| ((pages as f64 / most as f64 * bar as f64).round() as usize).min(bar);
        let cell = |(place, width): &(usize, usize)| {
            let column = &columns[*place];
            if *place < numbers {
                return Span::raw(column.padded(&column.cells[line], *width));
            }
            if *place == numbers {
                let (held, high) = (scaled(set.count), scaled(set.high));
                let drawn = format!("  {}{}", "#".repeat(held), "-".repeat(high.saturating_sub(held)));
                return Span::styled(column.padded(&drawn, *width), colour(heat(set)));
            }
            let style = other(others[*place - numbers - 1], set.cpu).map_or(Style::new(), |other| colour(heat(other)));
            Span::styled(column.padded(&column.cells[line], *width), style)
        };
        let style = if first + line == chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Row::new(widths.iter().map(cell).collect::<Vec<_>>()).style(style)
    });
    table(rows.collect(), &columns, &widths)
}

/// One character per CPU, `row` CPUs in a line; each line begins with the number of its first CPU. Empty if the numbers
/// do not fit.
fn cpu_map(ordered: &[Pageset], chosen: usize, row: usize, area: Rect) -> Paragraph<'static> {
    let label = label(ordered);
    let width = usize::from(area.width);
    if width <= label {
        return Paragraph::default();
    }
    let lines = usize::from(area.height).saturating_sub(1).max(1);
    let first = (chosen / row + 1).saturating_sub(lines);
    let scale = RAMP.iter().collect::<String>();
    let legend = [
        format!("{:>1$}  {scale}", "CPU", label - 1),
        "  from empty to high".to_owned(),
        "; the number is the line's first CPU".to_owned(),
    ];
    let mut text = vec![Line::raw(fit::line(&legend, width))];
    for (line, sets) in ordered.chunks(row).enumerate().skip(first).take(lines) {
        let mut spans = vec![Span::raw(format!("{:>1$} ", sets[0].cpu, label - 1))];
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
Ctrl-Z      suspend; `fg` returns

mark        the lowest watermark that free pages are below
held        pages in pagesets: free, but only for one CPU
+-          change since the previous look
refill/s    pages taken from all zones per second (as root)
wait %      share of time spent spinning for zone locks (root)

`pageset explain NAME` describes each name. Press any key.";

fn help(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = (66.min(area.width), (HELP.lines().count() as u16 + 2).min(area.height));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    // Whole lines: the help must not cover a part of a number.
    frame.render_widget(Clear, Rect { x: 0, width: area.width, ..place });
    frame
        .render_widget(Paragraph::new(HELP).wrap(Wrap { trim: false }).block(Block::bordered().title(" help ")), place);
}
