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
    let drawn = drawing(&Chart::Lines { unit: "", series, seconds: 0.0 });
    let named: Vec<(&str, usize)> = drawn.legend.iter().map(|name| (name.text.as_str(), name.colour)).collect();
    assert_eq!(named, [("a", 0), ("b", 1)]);
    assert_eq!(drawn.lines.iter().map(|line| line.colour).collect::<Vec<_>>(), [0, 0, 1, 1]);
    // A single line also has a name, because the title does not name it.
    let drawn = drawing(&Chart::Lines { unit: "", series: vec![line("only", false)], seconds: 0.0 });
    assert_eq!(drawn.legend.len(), 1);
}

#[test]
fn labels_do_not_touch() {
    for (count, name) in [(10, "linux-4.19"), (11, "1024–2047"), (3, "31"), (24, "a name that is far too long")] {
        let categories = vec![name.to_owned(); count];
        let series = vec![Bars::new("", vec![1.0; count])];
        let drawn = drawing(&Chart::Bars { unit: "", categories, series });
        let mut ends: Vec<(f64, f64)> = Vec::new();
        for label in &drawn.labels {
            let half = label.text.chars().count() as f64 * 7.0 / 2.0;
            let row = ends.iter_mut().find(|(y, _)| *y == label.y);
            match row {
                Some((_, end)) => {
                    assert!(*end < label.x - half, "{name}: {} at {}", label.text, label.x);
                    *end = label.x + half;
                }
                None => ends.push((label.y, label.x + half)),
            }
        }
    }
}

#[test]
fn thinning_keeps_each_peak() {
    let points: Vec<(f64, f64)> =
        (0..10_000).map(|i| (f64::from(i), if i == 5003 { 99.0 } else { f64::from(i % 7) })).collect();
    let kept = thinned(&points);
    assert!(kept.len() <= 2 * COLUMNS && kept.contains(&(5003.0, 99.0)), "{}", kept.len());
    assert!(kept.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(thinned(&points[..9]), &points[..9]);
}

#[test]
fn bars_begin_at_the_axis_and_are_to_scale() {
    let series = vec![Bars::new("locks", vec![10.0, 40.0])];
    let chart = Chart::Bars { unit: "", categories: vec!["a".into(), "b".into()], series };
    let drawn = drawing(&chart);
    let bars: Vec<(f64, f64)> = drawn.bars.iter().map(|bar| (bar.y + bar.height, bar.height)).collect();
    assert_eq!(bars, [(BOTTOM, (BOTTOM - TOP) / 4.0), (BOTTOM, BOTTOM - TOP)]);
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
    let drawn = drawing(&Chart::Bars { unit: "", categories, series: vec![bars] });
    // The top of the scale is 40: the first bar's whisker extends from the top to a quarter of the height.
    let span = BOTTOM - TOP;
    let ends: Vec<(f64, f64)> = drawn.whiskers.iter().map(|whisker| (whisker.top, whisker.bottom)).collect();
    assert_eq!(ends, [(TOP, BOTTOM - span / 4.0), (BOTTOM - span / 4.0, BOTTOM)]);
    assert_eq!(drawn.bars.iter().map(|bar| bar.height).collect::<Vec<_>>(), [span / 2.0, 0.0]);
}
