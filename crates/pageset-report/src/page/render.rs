//! A report as HTML, SVG and Markdown.

use base64::Engine as _;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, context, escape_formatter};
use pageset_trace::printable;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::card::{Card, Figure, Kind, Trust, number};
use super::draw::{Chart, Room, drawing};
use super::{Report, Section, data};
use crate::error::{Exit, Failure};
use crate::printable::printable_lines;

const STYLE: &str = include_str!("templates/chart.css");
const PAGE_STYLE: &str = include_str!("templates/page.css");
/// Values on pointing at bars, and the keys.
const BARS_SCRIPT: &str = include_str!("templates/bars.js");
/// Values of charts over time, and their zoom.
const TIME_SCRIPT: &str = include_str!("templates/time.js");

fn templates() -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    // Escape all text that is not marked safe, also in SVG.
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    // Names in a recording are not ours: what acts on a reader or hides text is written as an escape.
    environment.set_formatter(|out, state, value| match value.as_str().filter(|_| !value.is_safe()) {
        Some(text) => escape_formatter(out, state, &Value::from(&*printable(text))),
        None => escape_formatter(out, state, value),
    });
    environment.add_template("report.html", include_str!("templates/report.html"))?;
    environment.add_template("chart.svg", include_str!("templates/chart.svg"))?;
    Ok(environment)
}

/// The failure for an error in our templates. Such an error is a bug, and any test that makes a report finds it.
fn broken(error: minijinja::Error) -> Failure {
    Failure::new(Exit::Failed, format!("cannot write the report: {error:#}"))
}

/// `chart-1`, `chart-2`, …
fn id(place: usize) -> String {
    format!("chart-{}", place + 1)
}

fn svg(
    environment: &Environment<'_>,
    place: usize,
    section: &Section,
    (room, alone): (Room, bool),
) -> Result<Option<String>, Failure> {
    let Some(chart) = section.chart.as_ref().filter(|chart| !matches!(chart, Chart::Sentence(_))) else {
        return Ok(None);
    };
    let question = &section.question;
    let drawing = match (drawing(chart, room), chart) {
        (drawing, Chart::Lines(_)) if !alone => drawing.without_names(),
        (drawing, _) => drawing,
    };
    let drawing = Value::from(Serde(drawing));
    let id = if alone { id(place) } else { format!("{}-{}", id(place), room.name()) };
    let context = context! { id, question, drawing, alone, room => room.name(), style => STYLE };
    Ok(Some(environment.get_template("chart.svg").and_then(|t| t.render(context)).map_err(broken)?))
}

/// The name and the text of each chart's file.
pub(crate) fn charts(report: &Report) -> Result<Vec<(String, String)>, Failure> {
    let environment = templates().map_err(broken)?;
    let mut charts = Vec::new();
    for (place, section) in report.sections.iter().enumerate() {
        if let Some(svg) = svg(&environment, place, section, (Room::Wide, true))? {
            charts.push((format!("{}.svg", id(place)), svg));
        }
    }
    Ok(charts)
}

#[derive(Serialize)]
struct Drawn<'r> {
    id: String,
    /// `bars`, `time`, `map`, `sentence`, or `table` without a chart.
    kind: &'static str,
    question: &'r str,
    note: &'r str,
    /// The sentence instead of a chart; may be empty.
    said: &'r str,
    /// The chart for each room.
    svgs: Vec<String>,
    /// The names and the colours of lines.
    names: Vec<(&'r str, usize)>,
    /// What the script reads.
    data: Option<String>,
    heads: &'r [String],
    rows: &'r [Vec<String>],
}

/// A card as the template shows it.
#[derive(Serialize)]
struct Shown<'r> {
    about: &'r str,
    kind: &'static str,
    verdict: &'r str,
    why: &'r str,
    trust: &'static str,
    dots: &'static str,
    reasons: &'r [String],
    figures: Vec<ShownFigure<'r>>,
    warnings: &'r [String],
    next: Option<&'r str>,
}

#[derive(Serialize)]
struct ShownFigure<'r> {
    name: &'r str,
    value: String,
    unit: &'r str,
    note: &'r str,
}

fn shown(card: &Card) -> Shown<'_> {
    let figure = |figure: &'_ Figure| figure.value.map_or("–".to_owned(), number);
    Shown {
        about: &card.about,
        kind: match card.verdict.kind {
            Kind::Differs => "differs",
            Kind::Same => "same",
            Kind::None => "none",
        },
        verdict: &card.verdict.text,
        why: &card.verdict.why,
        trust: card.sure.trust.name(),
        dots: match card.sure.trust {
            Trust::High => "●●●",
            Trust::Fair => "●●○",
            Trust::Low => "●○○",
        },
        reasons: &card.sure.reasons,
        figures: card
            .figures
            .iter()
            .map(|of| ShownFigure { name: &of.name, value: figure(of), unit: &of.unit, note: &of.note })
            .collect(),
        warnings: &card.warnings,
        next: card.next.as_deref(),
    }
}

/// The hash of a script, by which the page's policy allows it.
fn hash(script: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(Sha256::digest(script))
}

pub(crate) fn html(report: &Report) -> Result<String, Failure> {
    let environment = templates().map_err(broken)?;
    let mut sections = Vec::new();
    for (place, section) in report.sections.iter().enumerate() {
        let mut svgs = Vec::new();
        for room in [Room::Wide, Room::Narrow] {
            svgs.extend(svg(&environment, place, section, (room, false))?);
        }
        let data = section.chart.as_ref().map(data::of).transpose();
        sections.push(Drawn {
            id: format!("question-{}", place + 1),
            kind: match &section.chart {
                Some(Chart::Bars(_) | Chart::Dots(_)) => "bars",
                Some(Chart::Sentence(_)) => "sentence",
                Some(Chart::Lines(_)) => "time",
                Some(Chart::Heat(_)) => "map",
                None => "table",
            },
            question: &section.question,
            note: &section.note,
            said: match &section.chart {
                Some(Chart::Sentence(said)) => said,
                _ => "",
            },
            svgs,
            names: match &section.chart {
                Some(Chart::Lines(chart)) => chart.names().collect(),
                _ => Vec::new(),
            },
            data: data.map_err(std::io::Error::from)?.flatten(),
            heads: &section.heads,
            rows: &section.rows,
        });
    }
    let is_timed = sections.iter().any(|section| section.data.is_some());
    let has_bars = sections.iter().any(|section| section.kind == "bars");
    let mut scripts = Vec::new();
    if has_bars {
        scripts.push(BARS_SCRIPT);
    }
    if is_timed {
        scripts.push(TIME_SCRIPT);
    }
    let style = [STYLE, PAGE_STYLE].join("\n");
    let footer = format!("pageset {}. `pageset explain NAME` describes each column.", env!("CARGO_PKG_VERSION"));
    let hashes: Vec<String> = scripts.iter().map(|script| hash(script)).collect();
    let context = context! {
        title => report.title.as_str(),
        cards => Value::from(Serde(report.cards.iter().map(shown).collect::<Vec<_>>())),
        facts => report.facts.clone(),
        sections => Value::from(Serde(sections)),
        style,
        scripts,
        hashes,
        footer,
    };
    environment.get_template("report.html").and_then(|t| t.render(context)).map_err(broken)
}

/// A list of Markdown.
fn listed(head: &str, lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("- {line}\n")).collect();
    if lines.is_empty() { lines } else { format!("\n{head}\n\n{lines}") }
}

/// A card as Markdown, below its heading.
fn card(card: &Card, row: &dyn Fn(&[String]) -> String) -> String {
    let why = if card.verdict.why.is_empty() { String::new() } else { format!(" {}.", card.verdict.why) };
    let mut text = format!("\n**{}.**{why}\n\n", card.verdict.text);
    text += &row(&["number", "value", "unit", "compared with"].map(str::to_owned));
    text += &row(&["---", "---:", "---", "---"].map(str::to_owned));
    for figure in &card.figures {
        let value = figure.value.map_or("-".to_owned(), number);
        text += &row(&[figure.name.clone(), value, figure.unit.to_string(), figure.note.clone()]);
    }
    if let Some(next) = &card.next {
        text += &format!("\nNext: `{next}`\n");
    }
    text += &listed(&format!("Trust: {}", card.sure.trust.name()), &card.sure.reasons);
    text + &listed("Warnings", &card.warnings)
}

/// The cards and the tables, without charts.
pub(crate) fn markdown(report: &Report) -> String {
    let escaped = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    let row =
        |cells: &[String]| format!("| {} |\n", cells.iter().map(|cell| escaped(cell)).collect::<Vec<_>>().join(" | "));
    let mut text = match report.cards.as_slice() {
        // As in HTML, the page has the heading of its only card.
        [only] => format!("# {}\n{}", only.about, card(only, &row)),
        _ => format!("# {}\n", report.title),
    };
    for shown in report.cards.iter().filter(|_| report.cards.len() > 1) {
        text += &format!("\n## {}\n{}", shown.about, card(shown, &row));
    }
    for fact in &report.facts {
        text += &format!("\n{fact}\n");
    }
    for section in &report.sections {
        text += &format!("\n## {}\n\n", section.question);
        if !section.note.is_empty() {
            text += &format!("{}\n\n", section.note);
        }
        if let Some(Chart::Sentence(said)) = &section.chart {
            text += &format!("{said}\n\n");
        }
        text += &row(&section.heads);
        let rule: Vec<String> =
            (0..section.heads.len()).map(|i| if i == 0 { "---" } else { "---:" }.to_owned()).collect();
        text += &row(&rule);
        section.rows.iter().for_each(|cells| text += &row(cells));
    }
    printable_lines(&text)
}
