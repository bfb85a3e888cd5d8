//! Sections of a report: a question, a chart, and the table of its values.

use std::collections::BTreeMap;

use super::Section;
use super::draw::{Bars, COLOURS, Chart, Line, last_time, plain};

pub(super) fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A section with a chart of bars. Its table has a row for each category.
pub(super) fn bars(
    question: &str,
    note: &str,
    unit: &'static str,
    categories: &[String],
    series: Vec<Bars>,
) -> Section {
    let heads = std::iter::once(String::new()).chain(series.iter().map(|bars| bars.name.clone())).collect();
    let row = |(i, category): (usize, &String)| {
        std::iter::once(category.clone()).chain(series.iter().map(|bars| bars.text(i))).collect()
    };
    let rows = categories.iter().enumerate().map(row).collect();
    let below = series.iter().flat_map(|bars| bars.values.iter().flatten()).any(|value| *value < 0.0);
    let below = if below { " Values below 0 are only in the table." } else { "" };
    let (question, note) = (question.to_owned(), format!("{note}{below}").trim().to_owned());
    Section { question, note, chart: Some(Chart::Bars { unit, categories: categories.to_vec(), series }), heads, rows }
}

/// Gives all charts over time the same axis: from 0 to the last time of any of them.
pub(super) fn share_time(sections: &mut [Section]) {
    let last = |section: &Section| match &section.chart {
        Some(Chart::Lines { series, .. }) => last_time(series),
        _ => 0.0,
    };
    let last = sections.iter().map(last).fold(0.0, f64::max);
    for section in sections {
        if let Some(Chart::Lines { seconds, .. }) = &mut section.chart {
            *seconds = last;
        }
    }
}

/// Values over time by name, sorted by name.
pub(super) type Series = BTreeMap<String, Vec<(f64, f64)>>;

/// A section with a chart of lines. The chart shows the lines with the highest peaks; the table contains all lines.
pub(super) fn lines(question: String, note: &str, unit: &'static str, series: Series, bounds: Series) -> Section {
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
    let chart = Chart::Lines { unit, series: drawn.collect(), seconds: 0.0 };
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
