//! Sections of a report: a question, a chart, and the table of its values.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Section;
use super::draw::{BarChart, Bars, COLOURS, Chart, Dot, DotChart, HeatChart, Joined, Line, LineChart, plain};

/// Texts as headings.
pub fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A section with a chart of bars.
pub struct BarSection<'s> {
    /// The question.
    pub question: String,
    /// What the bars and the whiskers are.
    pub note: &'s str,
    /// The unit of the values.
    pub unit: &'static str,
    /// The groups of bars.
    pub categories: &'s [String],
    /// The values.
    pub series: Vec<Bars>,
    /// Whether the categories are numbers in their order.
    pub is_ordered: bool,
    /// The category to compare with.
    pub base: Option<usize>,
}

/// Makes a section with a chart of bars. Its table has a row for each category, and the ratios to the base.
pub fn bars(section: BarSection<'_>) -> Section {
    let BarSection { question, note, unit, categories, series, is_ordered, base } = section;
    let mut heads = vec![String::new()];
    for bars in &series {
        heads.push(bars.name.clone());
        heads.extend(base.map(|base| format!("to {}", categories[base])));
    }
    let row = |(i, category): (usize, &String)| {
        let mut cells = vec![category.clone()];
        for bars in &series {
            cells.push(bars.text(i));
            cells.extend(base.map(|_| bars.ratio(i, base)));
        }
        cells
    };
    let rows = categories.iter().enumerate().map(row).collect();
    let below = series.iter().flat_map(|bars| bars.values.iter().flatten()).any(|value| *value < 0.0);
    let below = if below { " Values below 0 are only in the table." } else { "" };
    let compared = base.map(|base| format!(" × compares with {}.", categories[base])).unwrap_or_default();
    let note = format!("{note}{compared}{below}").trim().to_owned();
    let chart = match series.iter().map(|bars| alike(&bars.values)).collect::<Option<Vec<_>>>() {
        Some(all) if !is_ordered && categories.len() > 1 => {
            let one =
                |(bars, (least, most)): (&Bars, &(f64, f64))| format!("{}: {}", bars.name, from_to(*least, *most));
            let all: Vec<String> = series.iter().zip(&all).map(one).collect();
            Chart::Sentence(format!("Nothing here differs by {ALIKE_PCT} %. {} {unit}.", all.join("; ")))
        }
        _ => Chart::Bars(BarChart { unit, categories: categories.to_vec(), series, is_ordered, base }),
    };
    Section { question, note, chart: Some(chart), heads, rows }
}

/// A difference below which a chart would show bars of one length. Unit: percent.
const ALIKE_PCT: f64 = 2.0;

/// The least and the largest value, if all are known and nearly equal.
fn alike(values: &[Option<f64>]) -> Option<(f64, f64)> {
    let known: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
    let least = known.iter().copied().fold(f64::INFINITY, f64::min);
    let most = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least >= 0.0 && most <= least * (1.0 + ALIKE_PCT / 100.0)).then_some((least, most))
}

fn from_to(least: f64, most: f64) -> String {
    if least == most { plain(least) } else { format!("{} to {}", plain(least), plain(most)) }
}

/// The section that decides: zone-lock holds against pages held, of rows `R`. Its table compares each row with the one in force.
pub fn decides<R: JsonSchema + Serialize>(question: String, note: &str, dots: impl Iterator<Item = Dot>) -> Section {
    let dots: Vec<Dot> = dots.collect();
    let own = dots.iter().find(|dot| dot.is_own).cloned();
    let ratio = |value: f64, of: fn(&Dot) -> f64| {
        let own = own.as_ref().map(of).filter(|own| *own > 0.0);
        own.map_or(String::new(), |own| format!("{:.2}×", value / own))
    };
    let row = |dot: &Dot| {
        let [held, locks] = [ratio(dot.held, |dot| dot.held), ratio(dot.locks, |dot| dot.locks)];
        vec![dot.name.clone(), plain(dot.locks), locks, plain(dot.held), held]
    };
    let rows = dots.iter().map(row).collect();
    let both = (
        alike(&dots.iter().map(|dot| Some(dot.locks)).collect::<Vec<_>>()),
        alike(&dots.iter().map(|dot| Some(dot.held)).collect::<Vec<_>>()),
    );
    let chart = match both {
        (Some(locks), Some(held)) if dots.len() > 1 => Chart::Sentence(format!(
            "No choice differs by {ALIKE_PCT} %: each takes the zone lock {} times in 1,000 allocations and frees and holds \
             up to {} pages.",
            from_to(locks.0, locks.1),
            from_to(held.0, held.1)
        )),
        _ => Chart::Dots(DotChart { dots }),
    };
    let [locks, held] = Dot::headings::<R>();
    let heads = strings(&["", &locks, "to in force", &held, "to in force"]);
    Section { question, note: note.to_owned(), chart: Some(chart), heads, rows }
}

/// Gives all charts over time the same axis: from 0 to the last time of any of them.
pub fn share_time(sections: &mut [Section]) {
    let last = |section: &Section| match &section.chart {
        Some(Chart::Lines(chart)) => chart.last_time(),
        Some(Chart::Heat(chart)) => chart.seconds,
        _ => 0.0,
    };
    let last = sections.iter().map(last).fold(0.0, f64::max);
    for section in sections {
        match &mut section.chart {
            Some(Chart::Lines(chart)) => chart.seconds = last,
            Some(Chart::Heat(chart)) => chart.seconds = last,
            _ => {}
        }
    }
}

/// A value of a CPU: the CPU, seconds, the value.
pub type Point = (u32, f64, f64);

/// A section with a map of CPUs by time; `None` if there are fewer than two CPUs or times. Its table has a row for each
/// row of the map: the sum or the largest value, and the time of the largest.
pub fn map(
    question: &str,
    note: &str,
    unit: &'static str,
    points: &[Point],
    seconds: f64,
    joined: Joined,
) -> Option<Section> {
    let chart = HeatChart::new(unit, points, seconds, joined);
    if chart.names.len() < 2 || chart.values[0].len() < 2 {
        return None;
    }
    let row = |(name, values): (&String, &Vec<Option<f64>>)| {
        let known = values.iter().enumerate().filter_map(|(column, value)| Some((column, (*value)?)));
        let most = known.clone().max_by(|a, b| a.1.total_cmp(&b.1));
        let sum: f64 = known.map(|(_, value)| value).sum();
        let mut cells = vec![name.clone()];
        if joined == Joined::Sum {
            cells.push(plain(sum));
        }
        cells.extend(most.map_or(strings(&["-", "-"]), |(column, value)| {
            vec![plain(value), format!("{:.3}", column as f64 * chart.step)]
        }));
        cells
    };
    let rows = chart.names.iter().zip(&chart.values).map(row).collect();
    let mut heads = strings(&["", "most in a column", "at seconds"]);
    if joined == Joined::Sum {
        heads.insert(1, unit.to_owned());
    }
    let note = format!("{note} A column is {} s.", plain(chart.step)).trim().to_owned();
    Some(Section { question: question.to_owned(), note, chart: Some(Chart::Heat(chart)), heads, rows })
}

/// Values over time by name, sorted by name.
pub type Series = BTreeMap<String, Vec<(f64, f64)>>;

/// A section with a chart of lines. The chart shows the lines with the highest peaks; the table contains all lines.
pub fn lines(question: String, note: &str, unit: &'static str, series: Series, bounds: Series) -> Section {
    let peak = |points: &[(f64, f64)]| points.iter().fold(0.0, |most: f64, point| most.max(point.1));
    let mut busiest: Vec<&String> = series.keys().collect();
    busiest.sort_by(|a, b| peak(&series[*b]).total_cmp(&peak(&series[*a])));
    let most = if bounds.is_empty() { COLOURS } else { COLOURS / 2 };
    let all = busiest.len();
    busiest.truncate(most);
    // A line that is always 0 is drawn only if there is no other line.
    let used = busiest.iter().filter(|name| peak(&series[**name]) > 0.0).count();
    busiest.truncate(used.max(1));
    // Sorted by name, so that charts of the same CPUs have the same colours.
    busiest.sort();
    let drawn = busiest.iter().flat_map(|name| {
        let line = Line { name: (*name).clone(), dashed: false, points: series[*name].clone() };
        let bound = bounds.get(*name).map(|points| Line {
            name: format!("{name}, high"),
            dashed: true,
            points: points.clone(),
        });
        std::iter::once(line).chain(bound)
    });
    let chart = Chart::Lines(LineChart { unit, series: drawn.collect(), seconds: 0.0 });
    let mut rows = Vec::new();
    for (name, points) in &series {
        let bound = bounds.get(name);
        for (i, (time, value)) in points.iter().enumerate() {
            let mut row = vec![name.clone(), format!("{time:.3}"), plain(*value)];
            row.extend(bound.map(|points| points.get(i).map_or("-".to_owned(), |point| plain(point.1))));
            rows.push(row);
        }
    }
    let mut heads = strings(&["", "seconds", unit]);
    if !bounds.is_empty() {
        heads.push("high".to_owned());
    }
    let note = match (busiest.len(), used) {
        (drawn, _) if drawn == all => note.to_owned(),
        (drawn, used) if drawn == used && used < most => {
            format!("{note} Lines that were never above 0 are only in the table.")
        }
        (drawn, _) => format!("{note} The chart shows the {drawn} highest lines; the table contains all {all}."),
    };
    Section { question, note: note.trim().to_owned(), chart: Some(chart), heads, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row whose table of columns has the two numbers that decide.
    #[derive(JsonSchema, Serialize)]
    #[allow(dead_code, reason = "only the schema is read")]
    struct Row {
        #[schemars(extend("heading" = "kept", "figure" = "kept", "rank" = 2))]
        held: f64,
        #[schemars(extend("heading" = "taken", "figure" = "taken", "rank" = 1))]
        locks: f64,
    }

    /// Bars of one length are a sentence, and so are choices that do not differ.
    #[test]
    fn values_that_hardly_differ_are_a_sentence() {
        let of = |values: &[f64]| {
            let categories: Vec<String> = values.iter().map(f64::to_string).collect();
            bars(BarSection {
                question: String::new(),
                note: "",
                unit: "pages",
                categories: &categories,
                series: vec![Bars::new("held", values.to_vec())],
                is_ordered: false,
                base: Some(0),
            })
        };
        let said = |section: &Section| match &section.chart {
            Some(Chart::Sentence(said)) => said.clone(),
            _ => String::new(),
        };
        assert_eq!(said(&of(&[1000.0, 1019.0, 1010.0])), "Nothing here differs by 2 %. held: 1,000 to 1,019 pages.");
        assert_eq!(said(&of(&[0.0, 0.0])), "Nothing here differs by 2 %. held: 0 pages.");
        assert_eq!(said(&of(&[1000.0, 1021.0])), "");
        assert_eq!(of(&[1000.0, 1000.0]).rows.len(), 2, "the data stay");
        let dots = |held: [f64; 2]| {
            let dot =
                |(i, held): (usize, f64)| Dot { name: i.to_string(), held, locks: 5.0, is_own: i == 0, is_best: false };
            decides::<Row>(String::new(), "", held.into_iter().enumerate().map(dot))
        };
        assert!(said(&dots([100.0, 101.0])).contains("holds up to 100 to 101 pages"), "{:?}", dots([100.0, 101.0]));
        assert!(matches!(dots([100.0, 200.0]).chart, Some(Chart::Dots(_))));
        assert_eq!(dots([100.0, 200.0]).rows[1], ["1", "5", "1.00×", "200", "2.00×"]);
        assert_eq!(dots([100.0, 200.0]).heads, ["", "taken", "to in force", "kept", "to in force"]);
    }
}
