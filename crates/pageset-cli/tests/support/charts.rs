//! Charts of `report`, read back from their SVG files.

use std::fs;
use std::path::Path;

/// An SVG file as parsed: bars as (title, length), whiskers as (begin, end) along the bars.
pub(crate) struct Seen {
    pub(crate) bars: Vec<(String, f64)>,
    pub(crate) whiskers: Vec<(f64, f64)>,
    pub(crate) labels: Vec<String>,
}

pub(crate) fn seen(path: &Path) -> Seen {
    let text = fs::read_to_string(path).unwrap();
    let svg = roxmltree::Document::parse(&text).unwrap();
    let of = |tag: &'static str, class: &'static str| {
        let is_class =
            move |node: &roxmltree::Node<'_, '_>| node.attribute("class").is_some_and(|c| c.starts_with(class));
        svg.descendants().filter(move |node| node.has_tag_name(tag) && is_class(node))
    };
    let number = |text: &str| text.parse::<f64>().unwrap();
    let size = |node: roxmltree::Node<'_, '_>, name| number(node.attribute(name).unwrap());
    // Rows of bars have the same height, columns have the same width.
    let is_rows = of("rect", "mark").all(|bar| size(bar, "height") == 14.0);
    let bar = |node: roxmltree::Node<'_, '_>| {
        let title = node.children().find(|child| child.has_tag_name("title")).unwrap().text().unwrap().to_owned();
        (title, size(node, if is_rows { "width" } else { "height" }))
    };
    let whisker = |node: roxmltree::Node<'_, '_>| {
        // `M4 20h6m-3 0V80m-3 0h6`, or `M20 4v6m0 -3H80m0 -3v6`.
        let path = node.attribute("d").unwrap();
        let ends: Vec<f64> =
            path.split(['M', ' ', 'h', 'v', 'm', 'V', 'H']).filter_map(|part| part.parse().ok()).collect();
        if is_rows { (ends[0], ends[5]) } else { (ends[1], ends[5]) }
    };
    let label = |node: roxmltree::Node<'_, '_>| node.text().unwrap_or_default().to_owned();
    Seen {
        bars: of("rect", "mark").map(bar).collect(),
        whiskers: of("path", "whisker").map(whisker).collect(),
        labels: of("text", "label").map(label).collect(),
    }
}

/// The lengths of bars and whiskers are to scale, up to their rounding to tenths of a unit.
pub(crate) fn agree(seen: &Seen, spreads: &[(f64, f64)]) {
    assert_eq!(seen.bars.len(), spreads.len());
    let (most, height) = spreads
        .iter()
        .zip(&seen.bars)
        .map(|(spread, bar)| (spread.0, bar.1))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap();
    let unit = height / most;
    for ((mean, _), (title, height)) in spreads.iter().zip(&seen.bars) {
        assert!((mean * unit - height).abs() < 0.2, "{title}: {height}, not {}", mean * unit);
    }
    // A whisker ends at the axis.
    let length = |(mean, deviation): &(f64, f64)| (deviation + mean.min(*deviation)) * unit;
    let lengths: Vec<f64> = spreads.iter().filter(|spread| spread.1 > 0.0).map(length).collect();
    assert_eq!(seen.whiskers.len(), lengths.len());
    for (length, (top, bottom)) in lengths.iter().zip(&seen.whiskers) {
        assert!((bottom - top - length).abs() < 0.3, "a whisker from {top} to {bottom}, not of {length}");
    }
}
