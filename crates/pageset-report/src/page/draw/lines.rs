//! Lines over time.

use super::scale::Scale;
use super::{BOTTOM, COLOURS, Drawing, HEIGHT, Path, Room, round};

/// Lines over seconds, from 0 to at least `seconds`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChart {
    /// The unit of the values.
    pub unit: &'static str,
    /// The lines.
    pub series: Vec<Line>,
    /// The end of the axis of time; 0 for the last time of the lines.
    pub seconds: f64,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The name in the legend.
    pub name: String,
    /// A bound rather than a measurement.
    pub dashed: bool,
    /// Seconds and values, sorted by time.
    pub points: Vec<(f64, f64)>,
}

impl LineChart {
    /// The time of the last point. Unit: seconds.
    pub fn last_time(&self) -> f64 {
        self.series.iter().flat_map(|line| line.points.iter().map(|point| point.0)).fold(0.0, f64::max)
    }

    /// A line's colour. A bound has the colour of its line, which precedes it.
    pub fn colour(&self, place: usize) -> usize {
        let solid = self.series[..=place].iter().filter(|line| !line.dashed).count();
        solid.saturating_sub(1) % COLOURS
    }

    /// The scale: logarithmic if a line's peak is much lower than the highest one, and all values are above 0.
    fn scale(&self) -> Scale {
        let values = self.series.iter().flat_map(|line| line.points.iter().map(|point| point.1));
        let peak = |line: &Line| line.points.iter().fold(0.0, |most: f64, point| most.max(point.1));
        let lowest = self.series.iter().map(peak).fold(f64::INFINITY, f64::min);
        let positive = values.clone().all(|value| value > 0.0);
        Scale::of_typical(values, if positive { lowest } else { 0.0 })
    }

    /// The ends of the scale. The lower one is 0 if the scale is linear.
    pub fn ends(&self) -> (f64, f64) {
        match self.scale() {
            Scale::Linear { top, .. } => (0.0, top),
            Scale::Log { bottom, top } => (bottom, top),
        }
    }

    /// The names and the colours of the lines. A bound has the colour of its line, and no name of its own.
    pub fn names(&self) -> impl Iterator<Item = (&str, usize)> {
        let solid = self.series.iter().enumerate().filter(|(_, line)| !line.dashed);
        solid.map(|(i, line)| (line.name.as_str(), self.colour(i)))
    }

    pub(super) fn draw(&self, room: Room, drawing: &mut Drawing) {
        let scale = self.scale();
        drawing.unit = match scale.is_log() {
            true => format!("{}, logarithmic scale", self.unit),
            false => self.unit.to_owned(),
        };
        let (left, right) = (room.time_begins(), room.width() - 16.0);
        for (place, text) in scale.ticks() {
            let y = BOTTOM - place * HEIGHT;
            drawing.rule((left, y), (right, y), "grid");
            drawing.text((left - 6.0, y + 4.5), text, "tick", "end");
        }
        let span = self.last_time().max(self.seconds).max(1e-9);
        drawing.seconds((left, right), BOTTOM, span);
        let x = |time: f64| round(left + time / span * (right - left));
        let y = |value: f64| round(BOTTOM - scale.place(value) * HEIGHT);
        for (i, line) in self.series.iter().enumerate() {
            let points = thinned(&line.points, room.width() as usize);
            let points: Vec<String> =
                points.iter().map(|(time, value)| format!("{},{}", x(*time), y(*value))).collect();
            let (colour, name) = (self.colour(i), line.name.clone());
            drawing.lines.push(Path { points: points.join(" "), colour, dashed: line.dashed, name });
        }
        drawing.name_colours(room, &self.names().collect::<Vec<_>>(), BOTTOM + 22.0);
    }
}

/// Reduces points to those that so many columns can show: the first smallest and the first largest of each column, in
/// order. No peak is lost.
pub(super) fn thinned(points: &[(f64, f64)], columns: usize) -> Vec<(f64, f64)> {
    if points.len() <= 2 * columns {
        return points.to_vec();
    }
    let mut kept = Vec::with_capacity(2 * columns);
    for column in points.chunks(points.len().div_ceil(columns)) {
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
