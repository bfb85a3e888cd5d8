//! The layout of charts: numbers in, positions of marks out. The template `chart.svg` turns them into SVG.
//!
//! | module | contents |
//! | --- | --- |
//! | `scale` | linear and logarithmic scales, numbers as text |
//! | `bars` | bars against names, and columns against numbers |
//! | `dots` | dots by two measures |
//! | `lines` | lines over time |
//! | `heat` | a map of CPUs by time |

mod bars;
mod dots;
mod heat;
mod lines;
mod scale;

use serde::Serialize;

pub use bars::{BarChart, Bars};
pub use dots::{Dot, DotChart};
pub use heat::{HeatChart, Joined};
pub use lines::{Line, LineChart};
pub use scale::plain;

/// A chart's data.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    /// Bars of categories; dots on a logarithmic scale.
    Bars(BarChart),
    /// Dots by two measures.
    Dots(DotChart),
    /// A sentence instead of a chart that would show nothing.
    Sentence(String),
    /// Lines over time.
    Lines(LineChart),
    /// A map of CPUs by time.
    Heat(HeatChart),
}

/// The room of a chart. A chart is drawn for each, so that letters have the same size on a screen and on a phone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// A screen, a printed page, and files.
    Wide,
    /// A phone.
    Narrow,
}

impl Room {
    const fn width(self) -> f64 {
        match self {
            Room::Wide => 680.0,
            Room::Narrow => 360.0,
        }
    }

    /// The left end of the axis of time, the same in all charts.
    const fn time_begins(self) -> f64 {
        match self {
            Room::Wide => 74.0,
            Room::Narrow => 66.0,
        }
    }

    /// The name in the page's style.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Room::Wide => "wide",
            Room::Narrow => "narrow",
        }
    }
}

/// The height of the part of a chart with its marks, where the number of marks does not decide it.
const HEIGHT: f64 = 240.0;
const TOP: f64 = 36.0;
/// The bottom of that part.
const BOTTOM: f64 = TOP + HEIGHT;
pub(super) const COLOURS: usize = 8;
/// The number of levels of a map in the style sheet.
pub(super) const LEVELS: usize = 9;
/// The largest width of a character, with a share of the gap between two labels. Unit: that of the view box.
const LETTER: f64 = 7.5;

/// A chart's marks, in the units of its view box.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Drawing {
    width: u32,
    height: u32,
    /// The unit of the values, above the chart.
    unit: String,
    grid: Vec<Rule>,
    texts: Vec<Text>,
    bars: Vec<Bar>,
    dots: Vec<Mark>,
    whiskers: Vec<String>,
    lines: Vec<Path>,
    /// The part with the marks of a chart over time: the page's script zooms what is in it.
    plot: Option<Area>,
    /// A path for each level of a map that occurs.
    cells: Vec<Cells>,
    /// The colours of a map.
    key: Vec<Cells>,
    legend: Vec<Text>,
}

/// A line of the grid, of an axis, or of a mark.
#[derive(Clone, Debug, Serialize)]
struct Rule {
    x1: f64,
    y1: f64,
    x2: f64,
    y2: f64,
    class: &'static str,
}

#[derive(Clone, Debug, Serialize)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Text {
    x: f64,
    y: f64,
    text: String,
    class: &'static str,
    /// `start`, `middle` or `end`.
    anchor: &'static str,
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
}

#[derive(Clone, Debug, Serialize)]
struct Mark {
    x: f64,
    y: f64,
    r: f64,
    colour: usize,
    title: String,
}

impl Mark {
    fn new((x, y): (f64, f64), colour: usize, title: String) -> Mark {
        Mark { x: round(x), y: round(y), r: dots::RADIUS, colour, title }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Path {
    points: String,
    colour: usize,
    dashed: bool,
    name: String,
}

#[derive(Clone, Debug, Serialize)]
struct Cells {
    level: usize,
    path: String,
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// The text, shortened to so many characters.
fn shortened(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Lays a chart out.
pub(super) fn drawing(chart: &Chart, room: Room) -> Drawing {
    let mut drawing = Drawing { width: room.width() as u32, ..Drawing::default() };
    match chart {
        Chart::Bars(chart) => chart.draw(room, &mut drawing),
        Chart::Dots(chart) => chart.draw(room, &mut drawing),
        Chart::Sentence(_) => {}
        Chart::Lines(chart) => chart.draw(room, &mut drawing),
        Chart::Heat(chart) => chart.draw(room, &mut drawing),
    }
    drawing
}

impl Drawing {
    fn text(&mut self, (x, y): (f64, f64), text: impl Into<String>, class: &'static str, anchor: &'static str) {
        self.texts.push(Text { x: round(x), y: round(y), text: text.into(), class, anchor, colour: 0 });
    }

    fn rule(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &'static str) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(round);
        self.grid.push(Rule { x1, y1, x2, y2, class });
    }

    /// Names the colours below `y`, and ends the drawing there.
    fn name_colours(&mut self, room: Room, names: &[(&str, usize)], y: f64) {
        let longest = names.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let width = longest as f64 * LETTER + 34.0;
        let columns = ((room.width() / width) as usize).clamp(1, 4);
        let mut below = y;
        for (i, (name, colour)) in names.iter().enumerate() {
            let x = round((i % columns) as f64 * room.width() / columns as f64);
            below = y + 26.0 + (i / columns) as f64 * 20.0;
            let text = (*name).to_owned();
            self.legend.push(Text { x, y: below, text, class: "name", anchor: "start", colour: *colour });
        }
        self.height = (below + 12.0).ceil() as u32;
    }

    /// Leaves the names of the colours to the page.
    pub(super) fn without_names(mut self) -> Drawing {
        self.legend.clear();
        self.height = (BOTTOM + 26.0) as u32;
        self
    }

    /// Draws an axis of seconds from 0 to `span`, below a chart whose left and right ends are given.
    fn seconds(&mut self, (left, right): (f64, f64), bottom: f64, span: f64) {
        self.plot = Some(Area { x: left, y: TOP, width: round(right - left), height: round(bottom - TOP) });
        let (_, step) = scale::linear(span);
        for i in 0..=((span / step * 1.000_001).floor() as usize) {
            let time = i as f64 * step;
            let x = left + time / span * (right - left);
            self.text((x, bottom + 18.0), format!("{} s", scale::tick(time, step)), "tick seconds", "middle");
        }
    }
}

#[cfg(test)]
mod tests;
