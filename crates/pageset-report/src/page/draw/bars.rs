//! Bars against names, from left to right, and columns against numbers, from the bottom up.

use super::scale::{Scale, plain};
use super::{BOTTOM, Bar, COLOURS, Drawing, HEIGHT, LETTER, Mark, Room, TOP, round, shortened};

/// Bars of categories, with one bar of each series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarChart {
    /// The unit of the values.
    pub unit: &'static str,
    /// The groups of bars.
    pub categories: Vec<String>,
    /// The values.
    pub series: Vec<Bars>,
    /// Whether the categories are numbers in their order, not names.
    pub is_ordered: bool,
    /// The category to compare with: the kernel's own row, or the setting in force.
    pub base: Option<usize>,
}

/// Bars of one colour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// The name in the legend.
    pub name: String,
    /// A value for each category, if known.
    pub values: Vec<Option<f64>>,
    /// The range of each value, if known; may be empty.
    pub whiskers: Vec<Option<(f64, f64)>>,
}

impl Bars {
    /// Bars without whiskers.
    pub fn new(name: &str, values: Vec<f64>) -> Bars {
        Bars { name: name.to_owned(), values: values.into_iter().map(Some).collect(), whiskers: Vec::new() }
    }

    fn value(&self, place: usize) -> Option<f64> {
        self.values.get(place).copied().flatten()
    }

    fn whisker(&self, place: usize) -> Option<(f64, f64)> {
        self.whiskers.get(place).copied().flatten().filter(|(low, high)| high > low)
    }

    /// A value with its whiskers, as text for a table.
    pub fn text(&self, place: usize) -> String {
        let Some(value) = self.value(place) else { return "-".to_owned() };
        match self.whisker(place) {
            Some((low, high)) => format!("{} ({} to {})", plain(value), plain(low), plain(high)),
            _ => plain(value),
        }
    }

    /// The ratio of a value to the base, as text for a table and a chart; empty for the base itself.
    pub fn ratio(&self, place: usize, base: Option<usize>) -> String {
        let Some(base) = base.filter(|base| *base != place) else { return String::new() };
        let ratio = self.value(place).zip(self.value(base)).filter(|(_, base)| *base > 0.0).map(|(v, base)| v / base);
        ratio.map_or(String::new(), |ratio| match ratio {
            large if large >= 10.0 => format!("{}×", plain(large.round())),
            ratio => format!("{ratio:.2}×"),
        })
    }

    /// All numbers that the scale must contain.
    fn extents(&self) -> impl Iterator<Item = f64> + Clone {
        self.values.iter().flatten().copied().chain(self.whiskers.iter().flatten().map(|whisker| whisker.1))
    }
}

/// How much wider than [`LETTER`] the letters of a font may be: those of DejaVu Sans have 8.3 pixels.
const WIDE: f64 = 1.11;

/// The height of a bar and of the gap between two categories.
const BAR: f64 = 16.0;
const GAP: f64 = 10.0;
/// The height of a name above its bars.
const NAME: f64 = 18.0;

impl BarChart {
    pub(super) fn draw(&self, room: Room, drawing: &mut Drawing) {
        let scale = Scale::of(self.series.iter().flat_map(Bars::extents));
        drawing.unit = match scale.is_log() {
            true => format!("{}, logarithmic scale", self.unit),
            false => self.unit.to_owned(),
        };
        let bottom = match self.is_ordered {
            true => self.columns(room, scale, drawing),
            false => self.rows(room, scale, drawing),
        };
        // The chart's title names a single series.
        let names: Vec<(&str, usize)> = match &self.series[..] {
            [] | [_] => Vec::new(),
            several => several.iter().enumerate().map(|(i, bars)| (bars.name.as_str(), i % COLOURS)).collect(),
        };
        drawing.name_colours(room, &names, bottom);
    }

    fn title(&self, category: usize, bars: &Bars) -> String {
        let ratio = bars.ratio(category, self.base);
        let ratio =
            if ratio.is_empty() { ratio } else { format!(", {ratio} {}", self.categories[self.base.unwrap_or(0)]) };
        format!("{}, {}: {}{ratio}", self.categories[category], bars.name, bars.text(category))
    }

    /// A row of bars for each category. Returns the lower end.
    fn rows(&self, room: Room, scale: Scale, drawing: &mut Drawing) -> f64 {
        let longest = self.categories.iter().map(|category| category.chars().count()).max().unwrap_or(0);
        let wide = longest as f64 * LETTER + 14.0;
        // Names that need too much room are above their bars.
        let is_above = wide > room.width() * 0.34;
        let (left, name) = if is_above { (8.0, NAME) } else { (wide.max(40.0), 0.0) };
        // The values, and the ratios to the base.
        let ratios = if self.base.is_some() { 58.0 } else { 6.0 };
        let (end, right) = (room.width() - ratios, room.width() - ratios - 62.0);
        let row = self.series.len().max(1) as f64 * BAR + GAP + name;
        let bottom = TOP + row * self.categories.len() as f64;
        let x = |value: f64| left + scale.place(value) * (right - left);
        // Labels of the axis that would touch are left out.
        let mut taken = f64::NEG_INFINITY;
        for (place, text) in scale.ticks() {
            let x = left + place * (right - left);
            drawing.rule((x, TOP - 4.0), (x, bottom), "grid");
            let half = text.chars().count() as f64 * LETTER / 2.0;
            if x - half > taken {
                taken = x + half + LETTER;
                drawing.text((x, bottom + 14.0), text, "tick", "middle");
            }
        }
        if let (Some(base), [bars]) = (self.base, &self.series[..])
            && let Some(value) = bars.value(base)
        {
            drawing.rule((x(value), TOP - 4.0), (x(value), bottom), "base");
        }
        for (c, category) in self.categories.iter().enumerate() {
            let above = TOP + row * c as f64 + GAP / 2.0;
            let top = above + name;
            let middle = top + (row - GAP - name) / 2.0;
            let class = if self.base == Some(c) { "label own" } else { "label" };
            match is_above {
                true => {
                    let most = ((room.width() - left) / LETTER) as usize;
                    drawing.text((left, above + 12.0), shortened(category, most), class, "start");
                }
                false => drawing.text((left - 8.0, middle + 4.5), category.clone(), class, "end"),
            }
            for (s, bars) in self.series.iter().enumerate() {
                let Some(value) = bars.value(c) else { continue };
                let y = top + s as f64 * BAR;
                // Bars do not go below the axis: a negative value is only in the table.
                let to = x(value.max(0.0));
                let (colour, title) = (s % COLOURS, self.title(c, bars));
                // The length of a bar says nothing on a logarithmic scale.
                let mut after = match scale.is_log() {
                    true if value <= 0.0 => left,
                    true => {
                        drawing.dots.push(Mark::new((to, y + BAR / 2.0), colour, title));
                        to + 4.0
                    }
                    false => {
                        let (x, y, width) = (round(left), round(y + 1.0), round(to - left));
                        drawing.bars.push(Bar { x, y, width, height: BAR - 2.0, colour, title });
                        to
                    }
                };
                if let Some((low, high)) = bars.whisker(c) {
                    let [low, high] = [low, high].map(|value| round(x(value.max(0.0))));
                    let y = round(y + BAR / 2.0);
                    drawing.whiskers.push(format!("M{low} {}v6m0 -3H{high}m0 -3v6", y - 3.0));
                    after = after.max(high);
                }
                drawing.text((after + 5.0, y + BAR / 2.0 + 4.5), plain(value), "value", "start");
                let ratio = bars.ratio(c, self.base);
                if !ratio.is_empty() {
                    drawing.text((end + ratios, y + BAR / 2.0 + 4.5), ratio, "ratio", "end");
                }
            }
        }
        bottom + 20.0
    }

    /// A group of columns for each category. Returns the lower end.
    fn columns(&self, room: Room, scale: Scale, drawing: &mut Drawing) -> f64 {
        let ticks = scale.ticks();
        let longest = ticks.iter().map(|tick| tick.1.chars().count()).max().unwrap_or(0);
        let (left, right) = (longest as f64 * LETTER + 10.0, room.width() - 4.0);
        let y = |value: f64| round(BOTTOM - scale.place(value) * HEIGHT);
        for (place, text) in ticks {
            let y = BOTTOM - place * HEIGHT;
            drawing.rule((left, y), (right, y), "grid");
            drawing.text((left - 6.0, y + 4.5), text, "tick", "end");
        }
        let group = (right - left) / self.categories.len().max(1) as f64;
        let width = group * 0.8 / self.series.len().max(1) as f64;
        // Labels that would touch are placed in two or three rows. A label that is still too long is shortened; its full text is
        // in the table and in the column's title.
        let longest = self.categories.iter().map(|category| category.chars().count()).max().unwrap_or(0);
        let rows = (longest as f64 * LETTER / group).ceil().clamp(1.0, 3.0) as usize;
        let mut ends = [0.0; 3];
        for (c, category) in self.categories.iter().enumerate() {
            let middle = left + (c as f64 + 0.5) * group;
            let most = (rows as f64 * group / LETTER).max(3.0) as usize;
            let below = BOTTOM + 18.0 + (c % rows) as f64 * 16.0;
            let half = |text: &str| text.chars().count() as f64 * LETTER / 2.0;
            // At an edge of the picture a label moves inward, and is shortened once more if it met its neighbour. At the right
            // edge it ends, so that no font cuts it.
            let end = &mut ends[c % rows];
            let mut text = shortened(category, most);
            let mut at = middle.max(half(&text).min(middle));
            let is_last = at + WIDE * half(&text) > room.width();
            if is_last {
                at = room.width() - half(&text);
            }
            if at - half(&text) <= *end {
                text = shortened(category, ((room.width() - *end) / LETTER) as usize - 1);
                at = room.width() - half(&text);
            }
            *end = at + half(&text);
            match is_last {
                true => drawing.text((room.width(), below), text, "label", "end"),
                false => drawing.text((at, below), text, "label", "middle"),
            }
            for (s, bars) in self.series.iter().enumerate() {
                let Some(value) = bars.value(c) else { continue };
                let x = middle - group * 0.4 + s as f64 * width;
                let top = y(value.max(0.0));
                let (x, width) = (round(x), round(width * 0.94));
                let title = self.title(c, bars);
                let mut above = top;
                let colour = s % COLOURS;
                match scale.is_log() {
                    // There is no 0 on a logarithmic scale.
                    true if value <= 0.0 => {}
                    true => drawing.dots.push(Mark::new((x + width / 2.0, top), colour, title)),
                    false => drawing.bars.push(Bar { x, y: top, width, height: round(BOTTOM - top), colour, title }),
                }
                if let Some((low, high)) = bars.whisker(c) {
                    let (low, high) = (y(low.max(0.0)), y(high.max(0.0)));
                    drawing.whiskers.push(format!("M{} {high}h6m-3 0V{low}m-3 0h6", round(x + width / 2.0 - 3.0)));
                    above = above.min(high);
                }
                let text = plain(value);
                if value != 0.0 && width > text.chars().count() as f64 * LETTER {
                    drawing.text((x + width / 2.0, above - 5.0), text, "value", "middle");
                }
            }
        }
        BOTTOM + 6.0 + 16.0 * rows as f64
    }
}
