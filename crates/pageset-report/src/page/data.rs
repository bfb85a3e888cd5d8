//! The data of charts over time that the page's script reads.

use std::borrow::Cow;

use pageset_trace::printable;
use serde::Serialize;

use super::draw::{Chart, HeatChart, LineChart};

/// The data of a chart.
#[derive(Serialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
enum Data<'c> {
    Lines {
        unit: &'c str,
        seconds: f64,
        /// The lower end of a logarithmic scale; 0 if the scale is linear.
        bottom: f64,
        /// The upper end of the scale.
        top: f64,
        /// The times of all points, sorted.
        times: Vec<f64>,
        series: Vec<Series<'c>>,
    },
    Heat {
        unit: &'c str,
        seconds: f64,
        step: f64,
        names: Vec<Cow<'c, str>>,
        values: &'c [Vec<Option<f64>>],
    },
}

#[derive(Serialize)]
struct Series<'c> {
    name: Cow<'c, str>,
    dashed: bool,
    /// The value at each time; null without one.
    values: Vec<Option<f64>>,
}

/// The data of a chart as JSON that can stand in HTML; `None` for a chart that needs none.
pub(super) fn of(chart: &Chart) -> serde_json::Result<Option<String>> {
    let data = match chart {
        Chart::Bars(_) | Chart::Dots(_) | Chart::Sentence(_) => return Ok(None),
        Chart::Lines(chart) => of_lines(chart),
        Chart::Heat(chart) => of_map(chart),
    };
    // The text of a script ends at `</script`, whatever is in a string.
    Ok(Some(serde_json::to_string(&data)?.replace('<', "\\u003c")))
}

fn of_lines(chart: &LineChart) -> Data<'_> {
    let mut times: Vec<f64> = chart.series.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
    times.sort_unstable_by(f64::total_cmp);
    times.dedup();
    let series = chart.series.iter().map(|line| {
        let mut values = vec![None; times.len()];
        for (time, value) in &line.points {
            if let Ok(place) = times.binary_search_by(|other| other.total_cmp(time)) {
                values[place] = Some(*value);
            }
        }
        Series { name: printable(&line.name), dashed: line.dashed, values }
    });
    let series = series.collect();
    let seconds = chart.last_time().max(chart.seconds);
    let (bottom, top) = chart.ends();
    Data::Lines { unit: chart.unit, seconds, bottom, top, times, series }
}

fn of_map(chart: &HeatChart) -> Data<'_> {
    let HeatChart { unit, seconds, step, names, values } = chart;
    let names = names.iter().map(|name| printable(name)).collect();
    Data::Heat { unit, seconds: *seconds, step: *step, names, values }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::draw::{Joined, Line};

    #[test]
    fn lines_share_their_times_and_end_no_script() {
        let line =
            |name: &str, points: &[(f64, f64)]| Line { name: name.to_owned(), dashed: false, points: points.to_vec() };
        let series = vec![line("</script>", &[(0.0, 5.0), (2.0, 7.0)]), line("b", &[(1.0, 6.0)])];
        let text = of(&Chart::Lines(LineChart { unit: "pages", series, seconds: 3.0 })).unwrap().unwrap();
        assert!(!text.contains('<'), "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["series"][0]["name"], "</script>");
        assert_eq!(value["times"], serde_json::json!([0.0, 1.0, 2.0]));
        assert_eq!(value["series"][1]["values"], serde_json::json!([null, 6.0, null]));
        assert_eq!((value["seconds"].as_f64(), &value["kind"]), (Some(3.0), &"lines".into()));
    }

    #[test]
    fn a_map_has_each_value() {
        let points = [(0, 0.0, 0.0), (0, 1.0, 8.0), (1, 1.0, 4.0)];
        let chart = HeatChart::new("pages", &points, 2.0, Joined::Largest);
        let value: serde_json::Value = serde_json::from_str(&of(&Chart::Heat(chart)).unwrap().unwrap()).unwrap();
        assert_eq!(value["values"], serde_json::json!([[0.0, 8.0], [null, 4.0]]));
    }
}
