//! A map of CPUs by time: a row for each CPU or for neighbouring CPUs, a column for each span of time, a colour for each
//! value.

use std::fmt::Write as _;

use super::scale::{Scale, plain};
use super::{Cells, Drawing, LETTER, LEVELS, Room, TOP, round};

/// The most rows of a map. More CPUs share rows. A row is two pixels or more.
const ROWS: usize = 128;
/// The number of columns of a map.
pub(in super::super) const COLUMNS: usize = 160;

/// Values of CPUs over seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatChart {
    /// The unit of the values.
    pub unit: &'static str,
    /// The rows' names, such as `CPU 3` or `CPUs 0–7`.
    pub names: Vec<String>,
    /// The end of the time axis.
    pub seconds: f64,
    /// The length of a column. Unit: seconds.
    pub step: f64,
    /// A value for each row and column; `None` without one.
    pub values: Vec<Vec<Option<f64>>>,
}

/// How the values of a cell become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joined {
    /// The largest value: of counts and shares.
    Largest,
    /// The sum: of amounts.
    Sum,
}

impl HeatChart {
    /// The map of points (CPU, seconds, value) from 0 to `seconds`. A cell without a point shows the value before it if
    /// the cells keep the largest value, because a count lasts until the next look.
    pub fn new(unit: &'static str, points: &[(u32, f64, f64)], seconds: f64, joined: Joined) -> HeatChart {
        let mut cpus: Vec<u32> = points.iter().map(|point| point.0).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let mut times: Vec<f64> = points.iter().map(|point| point.1).collect();
        times.sort_unstable_by(f64::total_cmp);
        times.dedup();
        let columns = match joined {
            Joined::Largest => times.len().clamp(1, COLUMNS),
            Joined::Sum => COLUMNS,
        };
        let step = seconds.max(1e-9) / columns as f64;
        let share = cpus.len().div_ceil(ROWS).max(1);
        let names = cpus.chunks(share).map(|cpus| match cpus {
            [cpu] => format!("CPU {cpu}"),
            cpus => format!("CPUs {}–{}", cpus[0], cpus[cpus.len() - 1]),
        });
        let names: Vec<String> = names.collect();
        let mut values = vec![vec![None; columns]; names.len()];
        for (cpu, time, value) in points {
            let Ok(place) = cpus.binary_search(cpu) else { continue };
            let column = ((time / step) as usize).min(columns - 1);
            let cell: &mut Option<f64> = &mut values[place / share][column];
            *cell = Some(match (*cell, joined) {
                (None, _) => *value,
                (Some(other), Joined::Largest) => other.max(*value),
                (Some(other), Joined::Sum) => other + value,
            });
        }
        for row in &mut values {
            let mut before = None;
            for cell in row {
                match joined {
                    Joined::Largest => *cell = cell.or(before),
                    Joined::Sum => *cell = Some(cell.unwrap_or(0.0)),
                }
                before = *cell;
            }
        }
        HeatChart { unit, names, seconds, step, values }
    }

    /// The scale: logarithmic if half of the values above 0 are much smaller than the largest.
    fn scale(&self) -> Scale {
        let values = self.values.iter().flatten().flatten().copied();
        let mut positive: Vec<f64> = values.clone().filter(|value| *value > 0.0).collect();
        positive.sort_unstable_by(f64::total_cmp);
        Scale::of_typical(values, positive.get(positive.len() / 2).copied().unwrap_or(0.0))
    }

    /// The level of a value, from 0 for 0 to `LEVELS - 1`.
    fn level(scale: Scale, value: f64) -> usize {
        if value <= 0.0 { 0 } else { 1 + ((scale.place(value) * (LEVELS - 1) as f64) as usize).min(LEVELS - 2) }
    }

    /// The level of each row and column, and the smallest value of each level.
    pub fn levels(&self) -> Vec<Vec<Option<usize>>> {
        let scale = self.scale();
        let of_row = |row: &Vec<Option<f64>>| row.iter().map(|v| v.map(|v| Self::level(scale, v))).collect();
        self.values.iter().map(of_row).collect()
    }

    pub(super) fn draw(&self, room: Room, drawing: &mut Drawing) {
        let scale = self.scale();
        drawing.unit = match scale.is_log() {
            true => format!("{}, logarithmic scale", self.unit),
            false => self.unit.to_owned(),
        };
        let rows = self.names.len().max(1);
        let longest = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let (left, right) = ((longest as f64 * LETTER + 8.0).max(room.time_begins()), room.width() - 16.0);
        let row = (HEIGHT_MAX / rows as f64).clamp(2.0, 22.0);
        let bottom = TOP + row * rows as f64;
        // Names that would touch are left out.
        let every = (14.0 / row).ceil() as usize;
        for (i, name) in self.names.iter().enumerate().filter(|(i, _)| i % every == 0) {
            drawing.text((left - 6.0, TOP + (i as f64 + 0.5) * row + 4.5), name.clone(), "tick", "end");
        }
        let span = self.seconds.max(1e-9);
        let x = |column: usize| round(left + (column as f64 * self.step / span).min(1.0) * (right - left));
        let mut paths = vec![String::new(); LEVELS];
        for (r, levels) in self.levels().iter().enumerate() {
            let (top, height) = (round(TOP + r as f64 * row), round(row.max(1.0)));
            let mut begin = 0;
            // Equal neighbours are one rectangle.
            for end in 1..=levels.len() {
                if levels.get(end) == Some(&levels[begin]) {
                    continue;
                }
                if let Some(level) = levels[begin] {
                    let (from, to) = (x(begin), x(end));
                    let _ = write!(paths[level], "M{from} {top}H{to}v{height}H{from}z");
                }
                begin = end;
            }
        }
        let cells = paths.into_iter().enumerate().filter(|(_, path)| !path.is_empty());
        drawing.cells = cells.map(|(level, path)| Cells { level, path }).collect();
        drawing.seconds((round(left), right), bottom, span);
        self.key(room, bottom + 34.0, drawing);
    }

    /// Draws the colours with the smallest value of each.
    fn key(&self, room: Room, y: f64, drawing: &mut Drawing) {
        let width = ((room.width() - 20.0) / LEVELS as f64).min(64.0);
        for (level, text) in self.steps().into_iter().enumerate() {
            let x = level as f64 * width;
            drawing.key.push(Cells {
                level,
                path: format!("M{} {y}h{}v10h-{}z", round(x), round(width - 2.0), round(width - 2.0)),
            });
            // Half of the texts fit on a phone.
            if room == Room::Wide || level % 2 == 0 {
                drawing.text((x, y + 24.0), text, "tick", "start");
            }
        }
        drawing.height = (y + 34.0) as u32;
    }

    /// The smallest value of each level, as text.
    pub fn steps(&self) -> Vec<String> {
        let scale = self.scale();
        let value = |level: usize| {
            let place = (level - 1) as f64 / (LEVELS - 1) as f64;
            match scale {
                Scale::Linear { top, .. } => place * top,
                Scale::Log { bottom, top } => bottom * (top / bottom).powf(place),
            }
        };
        let text = |level: usize| match level {
            0 => "0".to_owned(),
            1 if !scale.is_log() => "above 0".to_owned(),
            level => plain(value(level)),
        };
        (0..LEVELS).map(text).collect()
    }
}

/// The largest height of the rows together.
const HEIGHT_MAX: f64 = 300.0;
