use super::lines::thinned;
use super::scale::{linear as scale, tick};
use super::*;

#[test]
fn scales_are_round_and_contain_all_values() {
    for (most, top) in
        [(0.0, 1.0), (1.0, 1.0), (7.0, 8.0), (31.3, 40.0), (400.0, 400.0), (401.0, 600.0), (114_688.0, 150_000.0)]
    {
        assert_eq!(scale(most).0, top, "{most}");
    }
}

#[test]
fn numbers_have_their_significant_digits() {
    for (number, text) in [
        (0.0, "0"),
        (0.126, "0.13"),
        (12.34, "12.3"),
        (999.94, "999.9"),
        (1_842_326.7, "1,842,327"),
        (-1500.5, "-1,501"),
        (-1e-17, "0"),
        (0.00456, "0.0046"),
        (-0.02, "-0.02"),
        (0.000_000_031, "0.000000031"),
    ] {
        assert_eq!(plain(number), text);
    }
    for (most, texts) in [
        (0.0093, ["0", "0.0025", "0.0050", "0.0075", "0.0100"]),
        (0.04, ["0", "0.01", "0.02", "0.03", "0.04"]),
        (9.0, ["0", "2.5", "5.0", "7.5", "10.0"]),
        (7777.0, ["0", "2,000", "4,000", "6,000", "8,000"]),
    ] {
        let step = scale(most).1;
        assert_eq!([0, 1, 2, 3, 4].map(|i| tick(f64::from(i) * step, step)), texts, "{most}");
    }
}

#[test]
fn a_legend_has_the_colours_of_its_lines() {
    let line = |name: &str, dashed| Line { name: name.to_owned(), dashed, points: vec![(0.0, 1.0), (1.0, 2.0)] };
    let series = vec![line("a", false), line("a, high", true), line("b", false), line("b, high", true)];
    let drawn = drawing(&Chart::Lines(LineChart { unit: "", series, seconds: 0.0 }), Room::Wide);
    let named: Vec<(&str, usize)> = drawn.legend.iter().map(|name| (name.text.as_str(), name.colour)).collect();
    assert_eq!(named, [("a", 0), ("b", 1)]);
    assert_eq!(drawn.lines.iter().map(|line| line.colour).collect::<Vec<_>>(), [0, 0, 1, 1]);
    // A single line also has a name, because the title does not name it.
    let only = LineChart { unit: "", series: vec![line("only", false)], seconds: 0.0 };
    let drawn = drawing(&Chart::Lines(only), Room::Wide);
    assert_eq!(drawn.legend.len(), 1);
}

fn columns(categories: Vec<String>, series: Vec<Bars>) -> BarChart {
    BarChart { unit: "", categories, series, is_ordered: true, base: None }
}

#[test]
fn labels_do_not_touch() {
    for (count, name) in [(10, "linux-4.19"), (11, "1024–2047"), (3, "31"), (24, "a name that is far too long")] {
        for room in [Room::Wide, Room::Narrow] {
            let chart = columns(vec![name.to_owned(); count], vec![Bars::new("", vec![1.0; count])]);
            let drawn = drawing(&Chart::Bars(chart), room);
            let mut ends: Vec<(f64, f64)> = Vec::new();
            for label in drawn.texts.iter().filter(|text| text.class == "label") {
                let letters = label.text.chars().count() as f64;
                let (before, after) = if label.anchor == "end" { (1.0, 0.0) } else { (0.5, 0.5) };
                let (start, end) = (label.x - before * letters * 7.0, label.x + after * letters * 7.0);
                // The letters of some fonts are wider.
                assert!(label.x + after * letters * 8.3 <= room.width(), "{name}: {} at {}", label.text, label.x);
                let row = ends.iter_mut().find(|(y, _)| *y == label.y);
                match row {
                    Some((_, last)) => {
                        assert!(*last < start, "{name}: {} at {}", label.text, label.x);
                        *last = end;
                    }
                    None => ends.push((label.y, end)),
                }
            }
        }
    }
}

/// Names, values and ratios of rows stay in their columns and in the view box.
#[test]
fn rows_have_room_for_their_texts() {
    let categories = ["kernel, as recorded", "linux-6.18", "a set of rules with a long name and settings"];
    let categories = categories.map(str::to_owned).to_vec();
    // The second values have a logarithmic scale: dots instead of bars.
    let bars = ([307_456.0, 121_018.0, 190_000.0], [100_000.0, 200_000.0, 300_000.0]);
    let dots = ([307_456.0, 21_018.0, 9.0], [1.0, 2.0, 3.0]);
    for (room, (refills, drains)) in
        [Room::Wide, Room::Narrow].into_iter().flat_map(|room| [(room, bars), (room, dots)])
    {
        let series = vec![Bars::new("refills", refills.to_vec()), Bars::new("drains", drains.to_vec())];
        let chart =
            BarChart { unit: "pages", categories: categories.clone(), series, is_ordered: false, base: Some(0) };
        let drawn = drawing(&Chart::Bars(chart), room);
        let width = |text: &Text| text.text.chars().count() as f64 * 7.0;
        let marks: Vec<(f64, f64, f64)> = (drawn.bars.iter().map(|bar| (bar.x, bar.y, bar.y + bar.height)))
            .chain(drawn.dots.iter().map(|dot| (dot.x - 4.0, dot.y - 4.0, dot.y + 4.0)))
            .collect();
        assert_eq!((marks.len(), drawn.dots.is_empty()), (6, drains[0] > 1.0), "{room:?}");
        let edge = marks.iter().map(|mark| mark.0).fold(f64::MAX, f64::min);
        for text in &drawn.texts {
            let (from, to) = match text.anchor {
                "end" => (text.x - width(text), text.x),
                "start" => (text.x, text.x + width(text)),
                _ => (text.x - width(text) / 2.0, text.x + width(text) / 2.0),
            };
            assert!(from >= -0.5 && to <= f64::from(drawn.width) + 0.5, "{room:?}: {text:?}");
            let is_left = text.class.starts_with("label") && text.anchor == "end";
            assert!(!is_left || to < edge, "{room:?}: {text:?} reaches the bars at {edge}");
        }
        // No name that fits is cut: long ones are above their bars.
        let named: Vec<&Text> = drawn.texts.iter().filter(|text| text.class.starts_with("label")).collect();
        let names: Vec<&str> = named.iter().map(|text| text.text.as_str()).collect();
        assert_eq!(names, categories, "{room:?}");
        for (i, name) in named.iter().enumerate() {
            let ((_, _, above), (_, below, _)) = (marks[(2 * i).saturating_sub(1)], marks[2 * i]);
            assert!(name.y <= below && (i == 0 || name.y - 11.0 >= above), "{room:?}: {name:?}");
        }
        let values = drawn.texts.iter().filter(|text| text.class == "value").map(|text| text.x + width(text));
        let ratios = drawn.texts.iter().filter(|text| text.class == "ratio").map(|text| text.x - width(text));
        assert!(values.fold(0.0, f64::max) < ratios.fold(f64::MAX, f64::min), "{room:?}: a value reaches the ratios");
    }
}

#[test]
fn the_base_is_marked_and_others_have_ratios() {
    let categories = ["kernel", "a", "b", "c"].map(str::to_owned).to_vec();
    let series = vec![Bars::new("locks", vec![20.0, 10.0, 500.0, 0.0])];
    let chart = BarChart { unit: "", categories, series, is_ordered: false, base: Some(0) };
    let drawn = drawing(&Chart::Bars(chart), Room::Wide);
    let of =
        |class: &str| drawn.texts.iter().filter(|text| text.class == class).map(|text| &*text.text).collect::<Vec<_>>();
    assert_eq!((of("label own"), of("ratio")), (vec!["kernel"], vec!["0.50×", "25×", "0.00×"]));
    assert_eq!(drawn.grid.iter().filter(|rule| rule.class == "base").count(), 1);
    assert_eq!(drawn.bars[1].title, "a, locks: 10, 0.50× kernel");
}

#[test]
fn values_over_decades_have_a_logarithmic_scale() {
    let chart = |values: &[f64]| columns(vec![String::new(); values.len()], vec![Bars::new("", values.to_vec())]);
    let heights = |values: &[f64]| {
        let drawn = drawing(&Chart::Bars(chart(values)), Room::Wide);
        let pct = |height: f64| (height / HEIGHT * 100.0).round();
        let bars: Vec<f64> = drawn.bars.iter().map(|bar| pct(bar.height)).collect();
        let dots: Vec<f64> = drawn.dots.iter().map(|dot| pct(BOTTOM - dot.y)).collect();
        (drawn.unit.contains("logarithmic"), bars, dots)
    };
    // From 10 to 1000: dots, because a length says nothing there; a zero has none.
    assert_eq!(heights(&[10.0, 100.0, 1000.0, 0.0]), (true, vec![], vec![0.0, 50.0, 100.0]));
    assert_eq!(heights(&[10.0, 100.0, 20.0]), (false, vec![10.0, 100.0, 20.0], vec![]));
}

/// The chart that decides: each choice is to scale, the winner and the choice in force are named, names cover neither each other
/// nor a dot, and no name leaves the picture.
#[test]
fn the_deciding_chart_names_the_winner() {
    let dot = |name: &str, held: f64, locks: f64| Dot {
        name: name.to_owned(),
        held,
        locks,
        is_own: name.starts_with("own"),
        is_best: name == "best",
    };
    let dots = vec![
        dot("own (in force)", 8000.0, 20.0),
        dot("best", 4000.0, 5.0),
        dot("8", 7990.0, 20.1),
        dot("far to the right", 10_000.0, 40.0),
        dot("below", 8000.0, 0.0),
    ];
    for room in [Room::Wide, Room::Narrow] {
        let drawn = drawing(&Chart::Dots(DotChart { dots: dots.clone() }), room);
        let of = |title: &str| drawn.dots.iter().find(|dot| dot.title.starts_with(title)).unwrap();
        let height = |title: &str| (BOTTOM - of(title).y) / HEIGHT * 40.0;
        assert!((height("own") - 20.0).abs() < 0.1 && (height("best") - 5.0).abs() < 0.1, "{:?}", drawn.dots);
        assert!(of("best").x < of("own").x && of("best").colour != of("own").colour);
        let labels: Vec<&Text> = drawn.texts.iter().filter(|text| text.class.starts_with("label")).collect();
        let bold: Vec<&str> = labels.iter().filter(|t| t.class == "label own").map(|t| t.text.as_str()).collect();
        // Neighbours share a name.
        assert_eq!(bold, ["best", "own (in force), 8"], "{room:?}");
        let area = |text: &Text| {
            let width = text.text.chars().count() as f64 * 7.0;
            let from = match text.anchor {
                "end" => text.x - width,
                "start" => text.x,
                _ => text.x - width / 2.0,
            };
            (from, from + width, text.y - 10.0, text.y + 3.0)
        };
        for (i, label) in labels.iter().enumerate() {
            let (left, right, top, bottom) = area(label);
            assert!(left >= 0.0 && right <= room.width(), "{room:?}: {label:?}");
            let covers = |l: f64, r: f64, t: f64, b: f64| left < r && l < right && top < b && t < bottom;
            for other in &labels[..i] {
                let (l, r, t, b) = area(other);
                assert!(!covers(l, r, t, b), "{room:?}: {label:?} covers {other:?}");
            }
            assert!(
                !drawn.dots.iter().any(|dot| covers(dot.x - 4.0, dot.x + 4.0, dot.y - 4.0, dot.y + 4.0)),
                "{label:?}"
            );
        }
        let legend: Vec<&str> = drawn.legend.iter().map(|name| name.text.as_str()).collect();
        assert_eq!(legend, ["in force", "winner", "others"]);
    }
}

/// Lines have a logarithmic scale if a line would lie on the axis, and maps if most cells would be white; small values
/// alone do not decide.
#[test]
fn few_small_values_do_not_make_a_scale_logarithmic() {
    let lines = |series: &[&[f64]]| {
        let line = |values: &&[f64]| Line {
            name: String::new(),
            dashed: false,
            points: values.iter().enumerate().map(|(i, value)| (i as f64, *value)).collect(),
        };
        LineChart { unit: "", series: series.iter().map(line).collect(), seconds: 0.0 }.ends().0 > 0.0
    };
    assert!(lines(&[&[100_000.0, 90_000.0], &[1500.0, 300.0]]));
    assert!(!lines(&[&[3.0, 0.000_1], &[4.0, 2.0]]));
    assert!(!lines(&[&[100_000.0, 90_000.0], &[1500.0, 0.0]]), "there is no 0 on a logarithmic scale");
    let map = |values: &[f64]| {
        let points: Vec<(u32, f64, f64)> =
            values.iter().enumerate().map(|(i, value)| (i as u32, 0.0, *value)).collect();
        let drawn = drawing(&Chart::Heat(HeatChart::new("", &points, 1.0, Joined::Largest)), Room::Wide);
        drawn.unit.contains("logarithmic")
    };
    assert!(map(&[1000.0, 1.0, 2.0]) && !map(&[1000.0, 900.0, 0.001, 0.0]));
}

#[test]
fn a_map_shows_each_cpu_and_shares_rows_among_many() {
    let points: Vec<(u32, f64, f64)> = (0..4).flat_map(|cpu| [(cpu, 0.0, 1.0), (cpu, 3.0, f64::from(cpu))]).collect();
    let map = HeatChart::new("pages", &points, 4.0, Joined::Largest);
    assert_eq!((map.names.len(), map.values[3].clone()), (4, vec![Some(1.0), Some(3.0)]));
    let many: Vec<(u32, f64, f64)> = (0..1024).map(|cpu| (cpu, 0.5, 1.0)).collect();
    let map = HeatChart::new("pages", &many, 1.0, Joined::Sum);
    assert_eq!((map.names.len(), &*map.names[0], map.values[0].iter().flatten().sum::<f64>()), (128, "CPUs 0–7", 8.0));
    // Each row is drawn, and all cells are inside.
    let drawn = drawing(&Chart::Heat(map), Room::Narrow);
    assert!(drawn.cells.iter().all(|cells| !cells.path.contains("NaN")), "{:?}", drawn.cells[0]);
    let rows = drawn.cells[0].path.matches('M').count() + drawn.cells[1].path.matches('M').count();
    assert!(rows >= 128, "{rows}");
}

#[test]
fn thinning_keeps_each_peak() {
    let points: Vec<(f64, f64)> =
        (0..10_000).map(|i| (f64::from(i), if i == 5003 { 99.0 } else { f64::from(i % 7) })).collect();
    let kept = thinned(&points, 700);
    assert!(kept.len() <= 1400 && kept.contains(&(5003.0, 99.0)), "{}", kept.len());
    assert!(kept.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(thinned(&points[..9], 700), &points[..9]);
}

#[test]
fn bars_begin_at_the_axis_and_are_to_scale() {
    let series = vec![Bars::new("locks", vec![10.0, 40.0])];
    let drawn = drawing(&Chart::Bars(columns(vec!["a".into(), "b".into()], series)), Room::Wide);
    let bars: Vec<(f64, f64)> = drawn.bars.iter().map(|bar| (bar.y + bar.height, bar.height)).collect();
    assert_eq!(bars, [(BOTTOM, HEIGHT / 4.0), (BOTTOM, HEIGHT)]);
    assert!(drawn.whiskers.is_empty());
}

#[test]
fn whiskers_are_to_scale_and_fit() {
    let bars = Bars {
        name: "s".to_owned(),
        values: vec![Some(20.0), None, Some(-5.0)],
        whiskers: vec![Some((10.0, 40.0)), None, Some((-6.0, 10.0))],
    };
    assert_eq!([0, 1, 2].map(|place| bars.text(place)), ["20 (10 to 40)", "-", "-5 (-6 to 10)"]);
    let categories = ["a", "b", "c"].map(str::to_owned).to_vec();
    let drawn = drawing(&Chart::Bars(columns(categories, vec![bars])), Room::Wide);
    // The top of the scale is 40: the first bar's whisker extends from the top to a quarter of the height.
    let ends: Vec<&str> =
        drawn.whiskers.iter().map(|whisker| whisker.split_once(' ').map_or("", |(_, path)| path)).collect();
    let (top, quarter) = (TOP, BOTTOM - HEIGHT / 4.0);
    assert_eq!(ends, [format!("{top}h6m-3 0V{quarter}m-3 0h6"), format!("{quarter}h6m-3 0V{BOTTOM}m-3 0h6")]);
    assert_eq!(drawn.bars.iter().map(|bar| bar.height).collect::<Vec<_>>(), [HEIGHT / 2.0, 0.0]);
}
