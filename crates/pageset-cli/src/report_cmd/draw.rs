//! The layout of charts: numbers in, positions of marks out. The template `chart.svg` turns them into SVG.

use serde::Serialize;

/// A chart's data.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Chart {
    /// A group of bars for each category, with one bar of each series.
    Bars { unit: &'static str, categories: Vec<String>, series: Vec<Bars> },
    /// Lines over seconds.
    /// From time 0 to at least `seconds`.
    Lines { unit: &'static str, series: Vec<Line>, seconds: f64 },
}

/// Bars of one colour.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bars {
    pub(super) name: String,
    /// A value for each category, if known.
    pub(super) values: Vec<Option<f64>>,
    /// The range of each value, if known; may be empty.
    pub(super) whiskers: Vec<Option<(f64, f64)>>,
}

impl Bars {
    /// Bars without whiskers.
    pub(super) fn new(name: &str, values: Vec<f64>) -> Bars {
        Bars { name: name.to_owned(), values: values.into_iter().map(Some).collect(), whiskers: Vec::new() }
    }

    /// A value with its whiskers, as text for a table.
    pub(super) fn text(&self, place: usize) -> String {
        let Some(value) = self.values.get(place).copied().flatten() else { return "-".to_owned() };
        match self.whiskers.get(place).copied().flatten() {
            Some((low, high)) if high > low => format!("{} ({} to {})", plain(value), plain(low), plain(high)),
            _ => plain(value),
        }
    }

    /// All numbers that the scale must contain.
    fn extents(&self) -> impl Iterator<Item = f64> {
        self.values.iter().flatten().copied().chain(self.whiskers.iter().flatten().map(|whisker| whisker.1))
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) name: String,
    /// A bound rather than a measurement.
    pub(super) dashed: bool,
    /// Seconds and values, sorted by time.
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart's marks, in the units of its view box.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Drawing {
    width: u32,
    height: u32,
    left: f64,
    right: f64,
    bottom: f64,
    unit: &'static str,
    ticks: Vec<Text>,
    labels: Vec<Text>,
    bars: Vec<Bar>,
    whiskers: Vec<Whisker>,
    lines: Vec<Path>,
    legend: Vec<Text>,
}

#[derive(Clone, Debug, Serialize)]
struct Text {
    x: f64,
    y: f64,
    text: String,
    colour: usize,
}

#[derive(Clone, Debug, Serialize)]
struct Bar {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    colour: usize,
    title: String,
    value: String,
    /// The position of the value: above the bar and its whisker.
    value_y: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Whisker {
    x: f64,
    top: f64,
    bottom: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Path {
    points: String,
    colour: usize,
    dashed: bool,
    name: String,
}

const WIDTH: u32 = 800;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 784.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 300.0;
/// The number of colours in the style sheet.
pub(super) const COLOURS: usize = 8;
/// The number of columns of a line. Each column keeps its smallest and its largest value, so that no peak is lost.
const COLUMNS: usize = 700;

/// The top of the scale, which is a round number at or above the largest value, and the step of the scale.
fn scale(most: f64) -> (f64, f64) {
    if most <= 0.0 || !most.is_finite() {
        return (1.0, 1.0);
    }
    let raw = most / 4.0;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= raw).unwrap_or(raw);
    ((most / step).ceil() * step, step)
}

/// A number as text for an axis or a table.
pub(super) fn plain(value: f64) -> String {
    // The fraction of a number of a thousand or more does not matter.
    if ((value - value.round()).abs() < 1e-9 || value.abs() >= 1000.0) && value.abs() < 1e15 {
        let sign = if value <= -0.5 { "-" } else { "" };
        return format!("{sign}{}", crate::columns::grouped(value.abs().round() as u64));
    }
    match value.abs() {
        // Two significant digits.
        small if small < 0.1 => {
            let places = (1 - small.log10().floor() as i32).clamp(2, 12) as usize;
            format!("{value:.places$}").trim_end_matches('0').to_owned()
        }
        small if small < 10.0 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    }
}

/// A number of a scale, with as many decimals as the step.
fn tick(value: f64, step: f64) -> String {
    let whole = |places: &usize| {
        let scaled = step * 10_f64.powi(*places as i32);
        (scaled - scaled.round()).abs() < 1e-6 * scaled
    };
    match (0..12).find(whole) {
        Some(0) | None => plain(value),
        Some(_) if value == 0.0 => plain(value),
        Some(places) => format!("{value:.places$}"),
    }
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Lays a chart out.
pub(super) fn drawing(chart: &Chart) -> Drawing {
    let values: Vec<f64> = match chart {
        Chart::Bars { series, .. } => series.iter().flat_map(Bars::extents).collect(),
        Chart::Lines { series, .. } => series.iter().flat_map(|line| line.points.iter().map(|point| point.1)).collect(),
    };
    let (top, step) = scale(values.into_iter().fold(0.0, f64::max));
    let y = |value: f64| round(BOTTOM - value / top * (BOTTOM - TOP));
    let steps = (top / step).round() as usize;
    let ticks =
        (0..=steps).map(|i| i as f64 * step).map(|v| Text { x: LEFT - 8.0, y: y(v), text: tick(v, step), colour: 0 });
    // A bound has the colour of its line, and no entry in the legend.
    let (unit, named): (_, Vec<(&String, usize)>) = match chart {
        // The chart's title names a single series of bars.
        Chart::Bars { unit, series, .. } if series.len() < 2 => (*unit, Vec::new()),
        Chart::Bars { unit, series, .. } => {
            (*unit, series.iter().enumerate().map(|(i, bars)| (&bars.name, i % COLOURS)).collect())
        }
        Chart::Lines { unit, series, .. } => {
            let solid = series.iter().enumerate().filter(|(_, line)| !line.dashed);
            (*unit, solid.map(|(i, line)| (&line.name, colour(series, i))).collect())
        }
    };
    let mut drawing = Drawing {
        width: WIDTH,
        height: 0,
        left: LEFT,
        right: RIGHT,
        bottom: BOTTOM,
        unit,
        ticks: ticks.collect(),
        labels: Vec::new(),
        bars: Vec::new(),
        whiskers: Vec::new(),
        lines: Vec::new(),
        legend: Vec::new(),
    };
    match chart {
        Chart::Bars { categories, series, .. } => bars(&mut drawing, categories, series, &y),
        Chart::Lines { series, seconds, .. } => lines(&mut drawing, series, *seconds, &y),
    }
    let labels = drawing.labels.iter().map(|label| label.y).fold(BOTTOM + 20.0, f64::max);
    let mut below = labels + 20.0;
    for (i, (name, colour)) in named.into_iter().enumerate() {
        let x = LEFT + (i % 3) as f64 * 240.0;
        below = labels + 32.0 + (i / 3) as f64 * 20.0;
        drawing.legend.push(Text { x, y: below, text: name.clone(), colour });
    }
    drawing.height = (below + 16.0) as u32;
    drawing
}

/// A line's colour. A bound has the colour of its line, which precedes it.
fn colour(series: &[Line], place: usize) -> usize {
    let solid = series[..=place].iter().filter(|line| !line.dashed).count();
    solid.saturating_sub(1) % COLOURS
}

/// The largest width of a character of a label, with a share of the gap between two labels. Unit: that of the view box.
const LETTER: f64 = 7.5;

fn bars(drawing: &mut Drawing, categories: &[String], series: &[Bars], y: &dyn Fn(f64) -> f64) {
    let group = (RIGHT - LEFT) / categories.len().max(1) as f64;
    let width = group * 0.8 / series.len().max(1) as f64;
    // Labels that would touch are placed in two rows. A label that is still too long is shortened; its full text is in
    // the table and in the bar's title.
    let longest = categories.iter().map(|category| category.chars().count()).max().unwrap_or(0);
    let rows = if longest as f64 * LETTER > group { 2 } else { 1 };
    for (c, category) in categories.iter().enumerate() {
        let middle = LEFT + (c as f64 + 0.5) * group;
        let room = (rows as f64 * group / LETTER).max(3.0) as usize;
        let short = match category.chars().count() > room {
            true => category.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
            false => category.clone(),
        };
        let y_label = BOTTOM + 20.0 + (c % rows) as f64 * 16.0;
        drawing.labels.push(Text { x: round(middle), y: y_label, text: short, colour: 0 });
        for (s, bars) in series.iter().enumerate() {
            let Some(value) = bars.values.get(c).copied().flatten() else { continue };
            let x = middle - group * 0.4 + s as f64 * width;
            let title = format!("{category}, {}: {}", bars.name, bars.text(c));
            // Bars do not go below the axis: a negative value is only in the table.
            let (top, value) = (y(value.max(0.0)), plain(value));
            let (x, width) = (round(x), round(width * 0.94));
            let whisker = bars.whiskers.get(c).copied().flatten().filter(|(low, high)| high > low);
            let ends = whisker.map(|(low, high)| (y(high.max(0.0)), y(low.max(0.0))));
            let value_y = round(ends.map_or(top, |ends| ends.0.min(top)) - 5.0);
            let (height, colour) = (round(BOTTOM - top), s % COLOURS);
            drawing.bars.push(Bar { x, y: top, width, height, colour, title, value, value_y });
            if let Some((top, bottom)) = ends {
                drawing.whiskers.push(Whisker { x: round(x + width / 2.0), top, bottom });
            }
        }
    }
}

/// The time of the last point. Unit: seconds.
pub(super) fn last_time(series: &[Line]) -> f64 {
    series.iter().flat_map(|line| line.points.iter().map(|point| point.0)).fold(0.0, f64::max)
}

fn lines(drawing: &mut Drawing, series: &[Line], seconds: f64, y: &dyn Fn(f64) -> f64) {
    if series.iter().all(|line| line.points.is_empty()) {
        return;
    }
    let span = last_time(series).max(seconds).max(1e-9);
    let x = |time: f64| round(LEFT + time / span * (RIGHT - LEFT));
    let (_, step) = scale(span);
    for i in 0..=((span / step).floor() as usize) {
        let time = i as f64 * step;
        let label = Text { x: x(time), y: BOTTOM + 20.0, text: format!("{} s", tick(time, step)), colour: 0 };
        drawing.labels.push(label);
    }
    for (i, line) in series.iter().enumerate() {
        let points = thinned(&line.points);
        let points: Vec<String> = points.iter().map(|(time, value)| format!("{},{}", x(*time), y(*value))).collect();
        let colour = colour(series, i);
        drawing.lines.push(Path { points: points.join(" "), colour, dashed: line.dashed, name: line.name.clone() });
    }
}

/// Reduces points to those that a chart can show: the first smallest and the first largest of each column, in order.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= 2 * COLUMNS {
        return points.to_vec();
    }
    let mut kept = Vec::with_capacity(2 * COLUMNS);
    for column in points.chunks(points.len().div_ceil(COLUMNS)) {
        let by = |better: fn(f64, f64) -> bool| {
            (1..column.len()).fold(0, |best, i| if better(column[i].1, column[best].1) { i } else { best })
        };
        let (least, most) = (by(|a, b| a < b), by(|a, b| a > b));
        kept.push(column[least.min(most)]);
        if least != most {
            kept.push(column[least.max(most)]);
        }
    }
    kept
}

#[cfg(test)]
mod tests;
